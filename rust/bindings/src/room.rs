//! Pressure, preemption order, loads, leases, and a pool that changes. An `impl` of `Manager`.

use std::sync::{Arc, PoisonError};

use kvframe_core::hash::Hasher;
use kvframe_core::manager::{Due, PreemptionOrder};
use kvframe_core::{Error, Manager as Core, SeqId};
use pyo3::prelude::*;

use crate::args::{
    Blocks, Computed, Count, Fence, Free, Lookahead, Seq, Share, Ticket, Until, Upto,
};
use crate::buffers::{keys, tokens, u64s};
use crate::errors::{is_of, shown, usage};
use crate::listeners::level;
use crate::manager::Manager;
use crate::policy::host::Outside;
use crate::request::Request;
use crate::tables::null_entry;
use crate::views::entry;

/// Commits `seq` up to `upto`, ahead of its computation if it is told how much of it is `computed`; the
/// entries of its tables behind those that it `had`.
fn committed(
    core: &mut Core,
    seq: SeqId,
    (upto, computed): (u32, Option<Computed>),
    had: &[usize],
) -> Result<Vec<Vec<i32>>, Error> {
    if core.sequence(seq)?.committed < upto {
        match computed {
            Some(_) => core.commit_ahead(seq, upto),
            None => core.commit(seq, upto),
        }?;
    }
    if let Some(Computed(computed @ 1..)) = computed {
        core.computed(seq, computed)?;
    }
    let null = null_entry(core);
    let tables = core.sequence(seq)?.tables.iter().zip(had);
    Ok(tables.map(|(t, &had)| t[had..].iter().map(|&b| entry(b, null)).collect()).collect())
}

/// The preemption orders by their names.
pub(crate) const PREEMPTION_ORDERS: [(&str, PreemptionOrder); 7] = [
    ("fewest-computed", PreemptionOrder::FewestComputed),
    ("last-admitted", PreemptionOrder::LastAdmitted),
    ("lowest-priority", PreemptionOrder::LowestPriority),
    ("longest-first", PreemptionOrder::LongestFirst),
    ("lru", PreemptionOrder::LeastRecent),
    ("lfu-aged", PreemptionOrder::LeastFrequent),
    ("most-freed", PreemptionOrder::MostFreed),
];

/// The preemption order of that name.
fn rule_of(name: &Bound<'_, PyAny>) -> PyResult<PreemptionOrder> {
    let asked = name.extract::<String>().ok();
    let found = PREEMPTION_ORDERS.iter().find(|(known, _)| asked.as_deref() == Some(known));
    found.map(|&(_, order)| order).ok_or_else(|| {
        let known = PREEMPTION_ORDERS.map(|(known, _)| known).join(", ");
        usage(name.py(), format!("rule = {}: must be one of {known}", shown(name)))
    })
}

#[pymethods]
impl Manager {
    /// Slots for tokens whose ids come later.
    fn append_placeholders(&self, py: Python<'_>, seq: Seq, count: Count) -> PyResult<()> {
        self.with_victims(py, |core| core.append_placeholders(seq.0, count.0))
    }

    /// The ids of the first tokens that were appended without.
    fn fill_placeholders(&self, py: Python<'_>, seq: Seq, ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let ids = tokens(ids, "tokens")?;
        self.with(py, |core| core.fill_placeholders(seq.0, &ids))
    }

    /// A load has ended with its first blocks good, of each group as many or as said; returns the
    /// sequences that were cut.
    fn loaded(
        &self,
        py: Python<'_>,
        ticket: Ticket,
        blocks: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<u64>> {
        let Ok(listed) = blocks.extract::<Vec<u32>>() else {
            let blocks = blocks.extract::<Blocks>()?;
            let due = |core: &Core| core.due_of_load(ticket.0, blocks.0);
            return self.admitting(py, due, |core| core.loaded(ticket.0, blocks.0));
        };
        let least = listed.iter().copied().min().unwrap_or(0);
        let due = |core: &Core| core.due_of_load(ticket.0, least);
        self.admitting(py, due, |core| core.loaded_groups(ticket.0, &listed))
    }

    /// Keeps the blocks of computed tokens for a reader elsewhere; returns the ticket that ends it.
    fn lease(&self, py: Python<'_>, seq: Seq, upto: Upto) -> PyResult<u64> {
        self.with(py, |core| core.lease(seq.0, upto.0))
    }

    /// Slots up to a length, keys of further full blocks, and a commit; returns the blocks that each
    /// group's table got.
    #[pyo3(signature = (seq, until, upto=None, keys=None, computed=None))]
    fn advance(
        &self,
        py: Python<'_>,
        seq: Seq,
        until: Until,
        upto: Option<Upto>,
        keys: Option<&Bound<'_, PyAny>>,
        computed: Option<Computed>,
    ) -> PyResult<Vec<Vec<i32>>> {
        let keys = keys.map(self::keys).transpose()?.unwrap_or_default();
        // An admission policy in Python is asked between the two, without the lock.
        let asks = self.asks_of_admission();
        let mut had = Vec::new();
        let (upto, done) = self.with_victims(py, |core| {
            let sequence = core.sequence(seq.0)?;
            had.clear();
            had.extend(sequence.tables.iter().map(|table| table.len()));
            let upto = upto.map_or(sequence.committed, |upto| upto.0);
            core.advance(seq.0, until.0, &keys, upto)?;
            Ok((
                upto,
                if asks { Vec::new() } else { committed(core, seq.0, (upto, computed), &had)? },
            ))
        })?;
        if !asks {
            return Ok(done);
        }
        let due = Due { seq: seq.0, upto: Some(upto), cut: None, fill: &[] };
        self.admitting(py, |_| Some(due), |core| committed(core, seq.0, (upto, computed), &had))
    }

    /// For replaying a log: keys of further full blocks.
    fn fill_keys(&self, py: Python<'_>, seq: Seq, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = self::keys(keys)?;
        self.with(py, |core| core.fill_keys(seq.0, &keys))
    }

    /// Slots up to a length, and `lookahead` further ones for tokens whose ids come later. Without
    /// `lookahead`, the length may itself be past what is known.
    #[pyo3(signature = (seq, until, lookahead=None))]
    fn reserve(
        &self,
        py: Python<'_>,
        seq: Seq,
        until: Until,
        lookahead: Option<Lookahead>,
    ) -> PyResult<()> {
        let ahead = lookahead.map_or(0, |lookahead| lookahead.0);
        let most = until.0.checked_add(ahead).ok_or_else(|| {
            let limit =
                format!("must be at most {} behind until = {}", u32::MAX - until.0, until.0);
            usage(py, format!("lookahead = {ahead}: {limit}"))
        })?;
        self.with_victims(py, |core| {
            if lookahead.is_some() {
                core.check_known(seq.0, until.0)?;
            }
            core.reserve(seq.0, most)
        })
    }

    /// The share of blocks in use, and the pressure level: 0 normal, 1 high, 2 critical.
    fn pressure(&self, py: Python<'_>) -> PyResult<(f64, u8)> {
        self.locked(py, |core| (core.usage(), level(core.pressure())))
    }

    /// Calls back with the level before and after each change.
    fn add_pressure_callback(&self, callback: Py<PyAny>) {
        self.listeners.add(callback);
    }

    /// Takes a callback off; how often it was there.
    fn remove_pressure_callback(&self, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.listeners.remove(callback)
    }

    /// Sequences were read or scheduled.
    fn touch(&self, py: Python<'_>, seqs: &Bound<'_, PyAny>) -> PyResult<()> {
        let seqs = u64s(Some(seqs), "seqs")?;
        self.with(py, |core| core.touch(&seqs))
    }

    /// Running sequences in the order to preempt them: (sequence, blocks it frees, tokens computed);
    /// with `usage`, only those that bring use down to it.
    #[pyo3(signature = (seqs, rule, usage=None))]
    fn preemption_order(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        rule: &Bound<'_, PyAny>,
        usage: Option<Share>,
    ) -> PyResult<Vec<(u64, u32, u32)>> {
        let seqs = u64s(Some(seqs), "seqs")?;
        let rule = rule_of(rule)?;
        let usage = usage.map(|share| share.0);
        if let Some(target) = usage.filter(|target| !(0.0..=1.0).contains(target)) {
            let message = format!("usage = {target}: must be a share of the pool, 0 to 1");
            return Err(self::usage(py, message));
        }
        let order = self.with(py, |core| match usage {
            None => core.preemption_order(&seqs, rule),
            Some(usage) => core.preemption_to(&seqs, rule, usage),
        })?;
        Ok(order.into_iter().map(|c| (c.seq, c.frees, c.computed)).collect())
    }

    /// Preempts, behind a fence, the sequences that `preemption_order` names to bring use down to a
    /// share; skips those that have ended by then. Returns the requests that bring them back. An
    /// error carries the requests made so far as `preempted`.
    #[pyo3(signature = (seqs, rule, usage, fence=None))]
    fn preempt_to(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        rule: &Bound<'_, PyAny>,
        usage: Share,
        fence: Option<Fence>,
    ) -> PyResult<Vec<Request>> {
        let mut preempted = Vec::new();
        for (seq, ..) in self.preemption_order(py, seqs, rule, Some(usage))? {
            match self.preempt(py, Seq(seq), fence) {
                Ok(request) => preempted.push(request),
                Err(error) if is_of(&error, py, "HandleError")? => {}
                Err(error) => {
                    error.value(py).setattr("preempted", preempted)?;
                    return Err(error);
                }
            }
        }
        Ok(preempted)
    }

    /// Evicts until so many blocks are free, or nothing is cached; returns how many went.
    fn evict_until(&self, py: Python<'_>, free: Free) -> PyResult<u32> {
        match *self.host.outside() {
            Outside::Nothing => self.with_long(py, |core| core.evict_until(free.0)),
            _ => self.with_victims(py, |core| core.evict_until(free.0)),
        }
    }

    /// Another number of blocks.
    fn resize(&self, py: Python<'_>, blocks: Blocks) -> PyResult<()> {
        self.with_long(py, |core| core.resize(blocks.0))
    }

    /// Forgets what is cached and refuses allocations until `wake`.
    fn sleep(&self, py: Python<'_>) -> PyResult<()> {
        self.with_long(py, Core::sleep)
    }

    /// Ends `sleep`.
    fn wake(&self, py: Python<'_>) -> PyResult<()> {
        self.locked(py, Core::wake)
    }

    /// The weights have changed; returns how many cached blocks were freed.
    fn set_weight_version(&self, py: Python<'_>, fingerprint: &[u8]) -> PyResult<u32> {
        let freed = self.locked_long(py, |core| {
            let freed = core.set_weight_version(fingerprint);
            let options = core.options();
            let hasher = Hasher::new(options.chain_hash(), options.block_size, fingerprint);
            *self.hasher.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(hasher);
            freed
        })?;
        Ok(freed)
    }
}
