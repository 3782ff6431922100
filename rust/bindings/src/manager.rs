//! `Manager`: the core behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kvframe_core::hash::{Hasher, Space};
use kvframe_core::index::IndexKind;
use kvframe_core::options::Watermarks;
use kvframe_core::policy::{self, Eviction, External, PolicyOptions};
use kvframe_core::{Error, GroupKind, HashAlgo, Manager as Core, Options};
use numpy::{Ix1, PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};

use crate::buffers::{key_words, tokens, writable};
use crate::errors::{from_core, raise, usage};
use crate::fork;
use crate::groups::{group_dict, group_of};
use crate::ints::{Fence, Length, Seq, Ticket, Until, Upto};
use crate::judge::Judge;
use crate::request::{ExtraTuple, Request, extras_of};
use crate::step::{GrantTuple, PlanTuple, grant_tuple, plan_tuple};

/// The core as the package sees it; `kvframe.KVCacheManager` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct Manager {
    pub(crate) core: Mutex<Core>,
    /// The core's hasher, for hashing without its lock.
    pub(crate) hasher: Mutex<Arc<Hasher>>,
    prefix_caching: bool,
    /// Whether the core goes by keys: requests are then hashed before they come to it.
    wants_keys: bool,
    judge: Option<Judge>,
    policy: String,
    /// The options of a policy in Python, as they were given.
    policy_options: Option<Py<PyDict>>,
    strict: bool,
    forks: u32,
}

/// The core's policy; for a driver of a Python policy, its judge and the books it needs.
pub(crate) fn make_policy(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
    strict: bool,
) -> PyResult<(Box<dyn Eviction>, Option<Judge>, String)> {
    if let Ok(name) = policy.extract::<String>() {
        let built = policy::by_name(&name, policy_options(options)?);
        return Ok((built.map_err(|e| from_core(py, &e))?, None, name));
    }
    let books = External::new(Judge::wants_events(policy)?);
    let name = policy.getattr("name")?.extract()?;
    Ok((Box::new(books), Some(Judge::new(policy, strict)?), name))
}

fn end(core: &mut Core, seq: Seq, fence: Option<Fence>) -> Result<(), Error> {
    match fence {
        Some(fence) => core.release_behind(seq.0, fence.0),
        None => core.release(seq.0),
    }
}

/// Events that wait for the next decision at the most.
const MANY_EVENTS: usize = 1 << 16;

fn policy_options(options: Option<&Bound<'_, PyDict>>) -> PyResult<PolicyOptions> {
    let mut built = PolicyOptions::default();
    for (name, value) in options.into_iter().flatten() {
        built.set(&name.extract::<String>()?, value.extract()?);
    }
    Ok(built)
}

pub(crate) fn space_of<'a>(
    salt: Option<&'a [u8]>,
    adapter: Option<&'a [u8]>,
    encoder: Option<&'a [u8]>,
) -> Space<'a> {
    let [salt, adapter, encoder] = [salt, adapter, encoder].map(Option::unwrap_or_default);
    Space { salt, adapter, encoder }
}

impl Manager {
    /// The locked core; refuses in a forked child.
    pub(crate) fn locked<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T,
    ) -> PyResult<T> {
        if self.forks != fork::generation() {
            let message = "this manager belongs to the parent of a fork; make one in the child";
            return Err(raise(py, "HandleError", message.into()));
        }
        let Ok(mut core) = self.core.lock_py_attached(py) else {
            let message = "a call failed half-way before; the manager refuses to go on";
            return Err(raise(py, "IntegrityError", message.into()));
        };
        Ok(work(&mut core))
    }

    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        self.locked(py, work)?.map_err(|e| from_core(py, &e))
    }

    /// The same for what may need victims: a policy in Python is asked without the lock, as often
    /// as it takes.
    pub(crate) fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut Core) -> Result<T, Error>,
    ) -> PyResult<Result<T, Error>> {
        loop {
            match self.locked(py, &mut work)? {
                Err(Error::NeedVictims { n }) => self.find_victims(py, n)?,
                outcome => {
                    if self.judge.is_some() {
                        self.locked(py, Core::settle_choice)?;
                        self.deliver_events(py)?;
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    pub(crate) fn find_victims(&self, py: Python<'_>, n: u32) -> PyResult<()> {
        let Some(judge) = &self.judge else {
            return Err(from_core(py, &Error::NeedVictims { n }));
        };
        let n = n as usize;
        let mut now = 0;
        let mut journal = kvframe_core::policy::Journal::default();
        let mut offer = judge.gather(|_| {});
        self.locked(py, |core| {
            core.candidates(n, judge.window(), &mut offer);
            journal = core.take_journal();
            now = core.now();
        })?;
        let verdict = judge.ask(py, n, now, &offer, &journal)?;
        self.locked(py, |core| match &verdict {
            Some(v) if v.blocks.len() >= n => core.choose(&v.blocks, &v.generations),
            _ => core.fall_back(n),
        })?;
        judge.done_with(offer);
        Ok(())
    }

    /// How often the policy failed and the built-in order stood in.
    pub(crate) fn judge_failures(&self) -> u64 {
        self.judge.as_ref().map_or(0, Judge::failures)
    }

    /// Hands a policy its events where it has not been asked for so long that they pile up.
    pub(crate) fn deliver_events(&self, py: Python<'_>) -> PyResult<()> {
        let Some(judge) = &self.judge else { return Ok(()) };
        if self.locked(py, Core::journal_len)? >= MANY_EVENTS {
            let journal = self.locked(py, Core::take_journal)?;
            judge.deliver(py, &journal)?;
        }
        Ok(())
    }

    /// The hasher of the present weights.
    pub(crate) fn hasher(&self) -> Arc<Hasher> {
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys to admit a request with, hashed without the lock.
    pub(crate) fn keys_of(&self, request: &Request) -> Vec<kvframe_core::Key> {
        match (self.prefix_caching, self.wants_keys) {
            (false, _) => Vec::new(),
            (true, false) => request.given_keys().to_vec(),
            (true, true) => request.keys(&self.hasher()),
        }
    }

    pub(crate) fn has_judge(&self) -> bool {
        self.judge.is_some()
    }
}

#[pymethods]
impl Manager {
    /// A manager over an empty pool; `policy` is a built-in's name or a driver of a Python policy.
    #[new]
    #[pyo3(signature = (*, blocks, block_size, policy, policy_options=None, hash="sha256", index="hash", groups=vec![], prefix_caching=true, null_block=false, fingerprint=None, event_log=false, reserve=0, watermarks=None, strict=false))]
    fn new(
        py: Python<'_>,
        blocks: u32,
        block_size: u32,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
        hash: &str,
        index: &str,
        groups: Vec<Bound<'_, PyDict>>,
        prefix_caching: bool,
        null_block: bool,
        fingerprint: Option<&[u8]>,
        event_log: bool,
        reserve: u32,
        watermarks: Option<(f64, f64, f64)>,
        strict: bool,
    ) -> PyResult<Self> {
        let groups = groups.iter().map(|table| group_of(py, table, block_size));
        let mut groups = groups.collect::<PyResult<Vec<_>>>()?;
        if groups.is_empty() {
            groups.push(GroupKind::Full.into());
        }
        let options = Options {
            blocks,
            block_size,
            groups,
            hash: HashAlgo::from_name(hash).map_err(|e| from_core(py, &e))?,
            index: IndexKind::from_name(index).map_err(|e| from_core(py, &e))?,
            prefix_caching,
            null_block,
            fingerprint: fingerprint.unwrap_or_default().to_vec(),
            event_log,
            watermarks: watermarks.map_or_else(Watermarks::default, |(low, high, critical)| {
                Watermarks { low, high, critical }
            }),
            reserve,
            compute_last_token: true,
        };
        let given = policy_options.map(|o| o.clone().unbind());
        let (policy, judge, name) = make_policy(py, policy, policy_options, strict)?;
        let hasher = Hasher::new(options.hash, block_size, &options.fingerprint);
        let core = Core::new(options, policy).map_err(|e| from_core(py, &e))?;
        let wants_keys = core.wants_keys();
        Ok(Self {
            core: Mutex::new(core),
            hasher: Mutex::new(Arc::new(hasher)),
            prefix_caching,
            wants_keys,
            judge,
            policy: name,
            policy_options: given,
            strict,
            forks: fork::generation(),
        })
    }

    /// The options as they reached the core.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = self.locked(py, |core| core.options().clone())?;
        let dict = PyDict::new(py);
        dict.set_item("blocks", options.blocks)?;
        dict.set_item("block_size", options.block_size)?;
        let groups = options.groups.iter().map(|group| group_dict(py, group, options.block_size));
        dict.set_item("groups", groups.collect::<PyResult<Vec<_>>>()?)?;
        dict.set_item("reusable_unit", self.locked(py, |core| core.layout().unit_tokens())?)?;
        dict.set_item("hash", options.hash.name())?;
        dict.set_item("index", options.index.name())?;
        dict.set_item("prefix_caching", options.prefix_caching)?;
        dict.set_item("null_block", options.null_block)?;
        dict.set_item("fingerprint", PyBytes::new(py, &options.fingerprint))?;
        dict.set_item("event_log", options.event_log)?;
        dict.set_item("reserve", options.reserve)?;
        let Watermarks { low, high, critical } = options.watermarks;
        dict.set_item("watermarks", (low, high, critical))?;
        dict.set_item("policy", &self.policy)?;
        if self.judge.is_some() {
            dict.set_item("policy_options", &self.policy_options)?;
        } else {
            let options = self.locked(py, |core| core.policy().options())?;
            dict.set_item("policy_options", options.into_iter().collect::<HashMap<_, _>>())?;
        }
        dict.set_item("on_error", if self.strict { "raise" } else { "fallback" })?;
        dict.set_item("window", self.judge.as_ref().map(Judge::window))?;
        Ok(dict)
    }

    /// Admits a request; returns (sequence, cached tokens, tokens with slots, prompt tokens,
    /// ticket of a load, whether the other input was found).
    fn admit(&self, py: Python<'_>, request: &Bound<'_, Request>) -> PyResult<GrantTuple> {
        let request = request.get();
        let keys = self.keys_of(request);
        let grant = self.with_victims(py, |core| core.admit(&request.admission(&keys)))?;
        grant.map(grant_tuple).map_err(|e| from_core(py, &e))
    }

    /// Slots for tokens after everything known.
    fn append(&self, py: Python<'_>, seq: Seq, ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let ids = tokens(ids, "tokens")?;
        self.with_victims(py, |core| core.append(seq.0, ids.as_slice()))?
            .map_err(|e| from_core(py, &e))
    }

    /// Slots for known tokens up to a length.
    fn extend(&self, py: Python<'_>, seq: Seq, until: Until) -> PyResult<()> {
        self.with_victims(py, |core| core.extend(seq.0, until.0))?.map_err(|e| from_core(py, &e))
    }

    /// Computed and accepted up to a length; returns (blocks stored, of them duplicates,
    /// blocks freed that no token to come attends to).
    fn commit(&self, py: Python<'_>, seq: Seq, upto: Upto) -> PyResult<(u32, u32, u32)> {
        let done = self.with(py, |core| core.commit(seq.0, upto.0))?;
        Ok((done.stored, done.duplicates, done.freed))
    }

    /// Cuts a sequence to a length.
    fn truncate(&self, py: Python<'_>, seq: Seq, length: Length) -> PyResult<()> {
        self.with(py, |core| core.truncate(seq.0, length.0))
    }

    /// A sequence over the same blocks.
    fn fork(&self, py: Python<'_>, seq: Seq) -> PyResult<u64> {
        self.with(py, |core| core.fork(seq.0))
    }

    /// Ends a sequence for now; returns the request that brings it back.
    #[pyo3(signature = (seq, fence=None))]
    fn preempt(&self, py: Python<'_>, seq: Seq, fence: Option<Fence>) -> PyResult<Request> {
        self.with(py, |core| {
            let request = Request::of_sequence(core.sequence(seq.0)?);
            end(core, seq, fence).map(|()| request)
        })
    }

    /// Ends a sequence; its blocks stay until `fence` has passed.
    #[pyo3(signature = (seq, fence=None))]
    fn release(&self, py: Python<'_>, seq: Seq, fence: Option<Fence>) -> PyResult<()> {
        self.with(py, |core| end(core, seq, fence))
    }

    /// Copies of a ticket are ordered.
    fn done(&self, py: Python<'_>, ticket: Ticket) -> PyResult<()> {
        self.with(py, |core| core.done(ticket.0))
    }

    /// Copies of a ticket failed; returns the sequences that were cut.
    fn failed(&self, py: Python<'_>, ticket: Ticket) -> PyResult<Vec<u64>> {
        self.with(py, |core| core.failed(ticket.0))
    }

    /// Closes the plan of copies: (ticket, rows of src, dst, tokens, group), or None.
    fn take_plan<'py>(&self, py: Python<'py>) -> PyResult<Option<PlanTuple<'py>>> {
        let plan = self.locked(py, Core::take_plan)?;
        plan.map(|plan| plan_tuple(py, &plan)).transpose()
    }

    /// How much of a prompt is there: (tokens, a block list a group). Changes nothing.
    #[pyo3(signature = (prompt, *, salt=None, adapter=None, encoder=None, extras=vec![]))]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ExtraTuple>,
    ) -> PyResult<(u32, Vec<Bound<'py, PyArray1<i32>>>)> {
        let ids = tokens(prompt, "prompt")?;
        let space = space_of(salt, adapter, encoder);
        let extras = extras_of(extras);
        let hit = self.locked(py, |core| core.lookup(ids.as_slice(), space, &extras))?;
        let blocks = hit
            .blocks
            .iter()
            .map(|blocks| PyArray1::from_iter(py, blocks.iter().map(|&b| b as i32)));
        Ok((hit.tokens, blocks.collect()))
    }

    /// Keys of a prompt's full blocks: uint64 (blocks, 2), low word first.
    #[pyo3(signature = (prompt, *, salt=None, adapter=None, encoder=None, extras=vec![]))]
    fn hash_blocks<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ExtraTuple>,
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let ids = tokens(prompt, "prompt")?;
        let space = space_of(salt, adapter, encoder);
        let extras = extras_of(extras);
        let mut keys = Vec::new();
        let hasher = self.hasher();
        hasher.extend(hasher.root(space), &extras, ids.as_slice(), &mut keys);
        let words: Vec<u64> = keys.iter().flat_map(|&key| key_words(key)).collect();
        crate::views::matrix(py, words, 2)
    }

    /// Fills `out` with raw blocks that nobody else has.
    fn lend(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = writable::<i32, Ix1>(out, "out")?;
        let out = out.as_slice_mut()?;
        // Lent into a copy, so that a refusal leaves the caller's array alone.
        let mut blocks = vec![0; out.len()];
        self.with_victims(py, |core| core.lend(&mut blocks))?.map_err(|e| from_core(py, &e))?;
        for (slot, block) in out.iter_mut().zip(blocks) {
            *slot = block as i32;
        }
        Ok(())
    }

    /// Takes raw blocks back.
    fn give_back(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<()> {
        let blocks = blocks
            .extract::<PyReadonlyArray1<'_, i32>>()
            .map_err(|_| usage(py, "blocks must be an int32 array of 1 dimension".into()))?;
        let blocks = blocks.as_array();
        if let Some(block) = blocks.iter().find(|&&b| b < 0) {
            let message = format!("block {block} is not on loan: the pool has no such block");
            return Err(usage(py, message));
        }
        let ids: Vec<u32> = blocks.iter().map(|&b| b as u32).collect();
        self.with(py, |core| core.give_back(&ids))
    }

    /// Forgets every cached block; returns how many were freed.
    fn clear_cache(&self, py: Python<'_>) -> PyResult<u32> {
        self.locked(py, Core::clear_cache)
    }

    /// Recounts everything; raises `IntegrityError` on the first thing that disagrees.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |core| core.check_integrity())
    }
}
