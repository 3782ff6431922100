//! `Slots`: a contiguous slot for each sequence.

use kvframe_core::Scope;
use kvframe_core::slots::{Counters, SlotPin, SlotRow, Slots as Core, Standing};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::args::{
    LeastCopy, Length, ReceiptNumber, Seq, Session, SlotCount, SlotNumber, Ticket, Upto,
};
use crate::buffers::{tokens, u64s};
use crate::lookup::space_of;
use crate::policy::eviction::make_policy;
use crate::policy::host::PolicyHost;
use crate::step::{PlanTuple, plan_tuple};
use crate::tier::{KnownTuple, known};

/// (version, "empty" | "cached" | "live" | "copying", known, committed, found tokens, pins)
type RowTuple = (u32, &'static str, u32, u32, u32, u32);

/// Fixed slots; `kvframe.SlotCache` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct Slots {
    core: PolicyHost<Core>,
}

#[pymethods]
impl Slots {
    /// Empty slots; `policy` is a built-in's name or a driver of a Python policy.
    #[new]
    #[pyo3(signature = (*, slots, length, least_copy, fingerprint, policy, policy_options=None))]
    fn new(
        py: Python<'_>,
        slots: SlotCount,
        length: Length,
        least_copy: LeastCopy,
        fingerprint: &[u8],
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let made = make_policy(py, policy, policy_options)?;
        let make = |eviction| Core::new(slots.0, length.0, least_copy.0, fingerprint, eviction);
        Ok(Self { core: PolicyHost::new(py, "slot cache", made, make)? })
    }

    /// Tokens of a prompt that some slot holds.
    #[pyo3(signature = (prompt, salt=None, adapter=None))]
    fn lookup(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
    ) -> PyResult<u32> {
        let ids = tokens(prompt, "prompt")?;
        self.core.locked(py, |core| core.lookup(&ids, space_of(None, salt, adapter, None, 0)))
    }

    /// A slot for a prompt: (sequence, tokens not to compute, slot they are copied from).
    fn allocate(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        using: KnownTuple,
    ) -> PyResult<(u64, u32, Option<u32>)> {
        let ids = tokens(prompt, "prompt")?;
        let (ids, space) = (&ids[..], space_of(None, salt, adapter, None, 0));
        let got = self.core.with_victims(py, |core| core.allocate(ids, space, known(&using)))?;
        Ok((got.seq, got.cached, got.copied_from))
    }

    /// More tokens of a sequence.
    fn append(&self, py: Python<'_>, seq: Seq, ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let ids = tokens(ids, "tokens")?;
        self.core.with(py, |core| core.append(seq.0, &ids))
    }

    /// Tokens are computed and accepted.
    fn commit(&self, py: Python<'_>, seq: Seq, upto: Upto) -> PyResult<()> {
        self.core.with(py, |core| core.commit(seq.0, upto.0))
    }

    /// A decode step of many sequences.
    fn advance(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        ids: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (seqs, ids) = (u64s(Some(seqs), "seqs")?, tokens(ids, "tokens")?);
        self.core.with(py, |core| core.advance(&seqs, &ids))
    }

    /// Cuts a sequence.
    fn truncate(&self, py: Python<'_>, seq: Seq, length: Length) -> PyResult<()> {
        self.core.with(py, |core| core.truncate(seq.0, length.0))
    }

    /// Ends a sequence.
    fn release(&self, py: Python<'_>, seq: Seq) -> PyResult<()> {
        self.core.with(py, |core| core.release(seq.0))
    }

    /// Holds the longest prefix of a prompt that some slot has: (receipt, slot, tokens), or None.
    #[pyo3(signature = (prompt, salt=None, adapter=None, owner=""))]
    fn pin(
        &self,
        py: Python<'_>,
        prompt: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        owner: &str,
    ) -> PyResult<Option<(u64, u32, u32)>> {
        let ids = tokens(prompt, "prompt")?;
        let (ids, space) = (ids.as_slice(), space_of(None, salt, adapter, None, 0));
        let pin = self.core.with(py, |core| core.pin(ids, space, owner))?;
        Ok(pin.map(|pin| (pin.id, pin.slot, pin.tokens)))
    }

    /// Ends a pin.
    fn unpin(&self, py: Python<'_>, receipt: ReceiptNumber, slot: SlotNumber) -> PyResult<()> {
        let pin = SlotPin { id: receipt.0, slot: slot.0, tokens: 0 };
        self.core.with(py, |core| core.unpin(pin))
    }

    /// Ends the pins of one owner, or all.
    #[pyo3(signature = (owner=None))]
    fn unpin_all(&self, py: Python<'_>, owner: Option<&str>) -> PyResult<u32> {
        self.core.with(py, |core| core.unpin_all(owner))
    }

    /// Pins: (receipt, slot, tokens, owner).
    #[pyo3(signature = (owner=None))]
    fn pins(&self, py: Python<'_>, owner: Option<&str>) -> PyResult<Vec<(u64, u32, u32, String)>> {
        self.core.locked(py, |core| {
            let row = |(pin, of): (SlotPin, &str)| (pin.id, pin.slot, pin.tokens, of.to_owned());
            core.pins(owner).map(row).collect()
        })
    }

    /// The copies gathered since the last plan.
    fn take_plan<'py>(&self, py: Python<'py>) -> PyResult<Option<PlanTuple<'py>>> {
        let plan = self.core.locked(py, Core::take_plan)?;
        plan.map(|plan| plan_tuple(py, &plan)).transpose()
    }

    /// The copies of a plan are queued.
    fn done(&self, py: Python<'_>, ticket: Ticket) -> PyResult<()> {
        self.core.with(py, |core| core.done(ticket.0))
    }

    /// The copies of a plan failed; returns the sequences that start anew.
    fn failed(&self, py: Python<'_>, ticket: Ticket) -> PyResult<Vec<u64>> {
        self.core.with(py, |core| core.failed(ticket.0))
    }

    /// Forgets what is cached, or what of it is of a scope.
    #[pyo3(signature = (salt=None, adapter=None, session=None))]
    fn clear(
        &self,
        py: Python<'_>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        session: Option<Session>,
    ) -> PyResult<u32> {
        let scope = Scope {
            tenant: None,
            cache_salt: salt,
            lora_name: adapter,
            session: session.map(|session| session.0),
        };
        self.core.with(py, |core| core.clear_scope(scope))
    }

    /// The same under other weights.
    fn set_weight_version(&self, py: Python<'_>, fingerprint: &[u8]) -> PyResult<u32> {
        self.core.with(py, |core| core.set_weight_version(fingerprint))
    }

    /// Every slot.
    fn rows(&self, py: Python<'_>) -> PyResult<Vec<RowTuple>> {
        self.core.locked(py, |core| {
            let name = |standing| match standing {
                Standing::Empty => "empty",
                Standing::Cached => "cached",
                Standing::Live => "live",
                Standing::Copying => "copying",
            };
            let rows = core.rows();
            let row =
                |r: SlotRow| (r.version, name(r.standing), r.known, r.committed, r.found, r.pins);
            rows.map(row).collect()
        })
    }

    /// Cached slots from the next to be given up on.
    fn eviction_order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let order = self.core.locked(py, |core| core.eviction_order())?;
        Ok(PyArray1::from_iter(py, order.into_iter().map(|slot| slot as i32)))
    }

    /// Counters by name.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Counters {
            allocated,
            in_place,
            prompt_tokens,
            hit_tokens,
            copies,
            copied_tokens,
            evictions,
            overwritten,
        } = self.core.locked(py, |core| core.counters())?;
        let stats = PyDict::new(py);
        for (name, value) in [
            ("admitted", allocated),
            ("in_place", in_place),
            ("prompt_tokens", prompt_tokens),
            ("hit_tokens", hit_tokens),
            ("copies", copies),
            ("copied_tokens", copied_tokens),
            ("evictions", evictions),
            ("overwritten_tokens", overwritten),
        ] {
            stats.set_item(name, value)?;
        }
        Ok(stats)
    }

    /// Decisions that the built-in order took for a policy that failed.
    fn failures(&self) -> u64 {
        self.core.outside().failures()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
