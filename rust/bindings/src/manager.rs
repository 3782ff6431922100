//! `Manager`: the core behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kvframe_core::hash::Hasher;
use kvframe_core::manager::Due;
use kvframe_core::policy::admission::Admit;
use kvframe_core::policy::{self, Eviction, External, PolicyOptions};
use kvframe_core::{Fit, Key, Manager as Core, Scope};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict};

use crate::admission::make_admission;
use crate::answers::AnswerTuple;
use crate::buffers::tokens;
use crate::errors::from_core;
use crate::fork;
use crate::gatekeeper::Gatekeeper;
use crate::groups::group_dict;
use crate::ints::{Chunk, Fence, Length, Partial, Resumed, Seq, Session, Ticket, Until, Upto};
use crate::judge::Judge;
use crate::listeners::Listeners;
use crate::native::{self, Native};
use crate::options;
use crate::request::Request;
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
    pub(crate) judge: Option<Judge>,
    pub(crate) native: Option<Native>,
    pub(crate) gatekeeper: Option<Gatekeeper>,
    admission: String,
    admission_options: Option<Py<PyDict>>,
    policy: String,
    /// The options of a policy in Python, as they were given.
    policy_options: Option<Py<PyDict>>,
    strict: bool,
    pub(crate) forks: u32,
    pub(crate) listeners: Listeners,
}

/// A policy as the core runs it, and what of it lies outside.
pub(crate) struct Policy {
    pub eviction: Box<dyn Eviction>,
    pub judge: Option<Judge>,
    pub native: Option<Native>,
    pub name: String,
}

/// The policy of that name, or the one behind a driver of `kvframe.policies.driver`.
pub(crate) fn make_policy(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    given: Option<&Bound<'_, PyDict>>,
    strict: bool,
) -> PyResult<Policy> {
    if let Ok(name) = policy.extract::<String>() {
        let mut built = PolicyOptions::default();
        let set = |name: &str, value| {
            built.set(name, value);
        };
        let given = options::numbers("policy_options", given, set)?;
        let eviction = policy::by_name(&name, built).map_err(|e| from_core(py, &e))?;
        let known: Vec<&str> = eviction.options().into_iter().map(|(name, _)| name).collect();
        options::check(py, "policy_options", &name, &given, &known)?;
        return Ok(Policy { eviction, judge: None, native: None, name });
    }
    let name = policy.getattr("name")?.extract()?;
    if Native::is_behind(policy)? {
        let (eviction, native) = Native::load(policy, strict)?;
        return Ok(Policy { eviction, judge: None, native: Some(native), name });
    }
    let eviction = Box::new(External::new(Judge::heard(policy)?));
    Ok(Policy { eviction, judge: Some(Judge::new(policy, strict)?), native: None, name })
}

impl Manager {
    /// The hasher of the present weights.
    pub(crate) fn hasher(&self) -> Arc<Hasher> {
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The keys to admit a request with, hashed without the lock.
    pub(crate) fn keys_of(&self, py: Python<'_>, request: &Request) -> Vec<Key> {
        match (self.prefix_caching, self.wants_keys) {
            (false, _) => return Vec::new(),
            (true, false) => return request.given_keys().to_vec(),
            (true, true) => {}
        }
        let hasher = self.hasher();
        if request.is_long() { py.detach(|| request.keys(&hasher)) } else { request.keys(&hasher) }
    }

    /// Whether lookups go by keys.
    pub(crate) fn is_keyed(&self) -> bool {
        self.prefix_caching && self.wants_keys
    }
}

#[pymethods]
impl Manager {
    /// A manager over an empty pool. `options` has the keys of a configuration (`cache.block_size`) and
    /// `groups`; `policy` is a built-in's name or a driver of a Python policy, and `admission` likewise.
    #[new]
    #[pyo3(signature = (options, *, policy, policy_options=None, strict=false, admission=None, admission_options=None, admission_strict=false, matched=false, mirrored=false))]
    fn new(
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
        strict: bool,
        admission: Option<&Bound<'_, PyAny>>,
        admission_options: Option<&Bound<'_, PyDict>>,
        admission_strict: bool,
        matched: bool,
        mirrored: bool,
    ) -> PyResult<Self> {
        let (options, faults) = options::read(options)?;
        if let Some(fault) = faults.into_iter().chain(options.faults()).next() {
            return Err(options::refused(py, &fault));
        }
        let prefix_caching = options.prefix_caching;
        let given = policy_options.map(|o| o.clone().unbind());
        let made = make_policy(py, policy, policy_options, strict)?;
        let hasher = Hasher::new(options.chain_hash(), options.block_size, &options.fingerprint);
        let (gate, gatekeeper, admission) = match admission {
            Some(admission) => make_admission(py, admission, admission_options, admission_strict)?,
            None => (None, None, "always".into()),
        };
        let core = Core::new(options, made.eviction)
            .map_err(|e| native::from_core(py, &e, made.native.as_ref()))?;
        let core = core.with_admission(gate);
        let core = if matched { core.with_matcher(mirrored) } else { core };
        let wants_keys = core.wants_keys();
        Ok(Self {
            core: Mutex::new(core),
            hasher: Mutex::new(Arc::new(hasher)),
            prefix_caching,
            wants_keys,
            judge: made.judge,
            native: made.native,
            gatekeeper,
            admission,
            admission_options: admission_options.map(|o| o.clone().unbind()),
            policy: made.name,
            policy_options: given,
            strict,
            forks: fork::generation(),
            listeners: Listeners::default(),
        })
    }

    /// The options as they reached the core.
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = self.locked(py, |core| core.options().clone())?;
        let dict = PyDict::new(py);
        for (name, value) in options.values() {
            dict.set_item(name, options::shown_value(py, value)?)?;
        }
        let groups = options.groups.iter().map(|group| group_dict(py, group, options.block_size));
        dict.set_item("groups", groups.collect::<PyResult<Vec<_>>>()?)?;
        dict.set_item("reusable_unit", self.locked(py, |core| core.layout().unit_tokens())?)?;
        dict.set_item("policy", &self.policy)?;
        if self.judge.is_some() || self.native.is_some() {
            dict.set_item("policy_options", &self.policy_options)?;
        } else {
            let options = self.locked(py, |core| core.policy().options())?;
            dict.set_item("policy_options", options.into_iter().collect::<HashMap<_, _>>())?;
        }
        dict.set_item("admission", &self.admission)?;
        if self.gatekeeper.is_some() {
            dict.set_item("admission_options", &self.admission_options)?;
        } else {
            let options = self.locked(py, |core| core.admission().map(Admit::options))?;
            let options = options.into_iter().flatten();
            dict.set_item("admission_options", options.collect::<HashMap<_, _>>())?;
        }
        dict.set_item("on_error", if self.strict { "raise" } else { "fallback" })?;
        let window = self.judge.as_ref().map(|judge| judge.window() as u32);
        dict.set_item("window", window.or(self.native.as_ref().and_then(Native::window)))?;
        Ok(dict)
    }

    /// Admits a request; returns (sequence, cached tokens, tokens with slots, prompt tokens,
    /// ticket of a load, whether the other input was found). What is given besides goes over what the request says.
    #[pyo3(signature = (request, chunk=None, until=None, partial=None, resumed=None, answer=None))]
    fn admit(
        &self,
        py: Python<'_>,
        request: &Bound<'_, Request>,
        chunk: Option<Chunk>,
        until: Option<Until>,
        partial: Option<Partial>,
        resumed: Option<Resumed>,
        answer: Option<AnswerTuple<'_>>,
    ) -> PyResult<GrantTuple> {
        let request = request.get();
        let keys = self.keys_of(py, request);
        let mut asked = request.admission(&keys);
        asked.chunk = chunk.map_or(asked.chunk, |chunk| chunk.0);
        asked.until = until.map_or(asked.until, |until| until.0);
        asked.resumed = resumed.map_or(asked.resumed, |resumed| resumed.0);
        asked.fit = match partial {
            None => asked.fit,
            Some(Partial(true)) => Fit::Partial,
            Some(Partial(false)) => Fit::Whole,
        };
        let answers: Vec<_> = answer.into_iter().map(|answer| (&keys[..], answer)).collect();
        let admit = || self.with_victims(py, |core| core.admit(&asked));
        let grant = self.answered(py, &answers, admit)?;
        grant.map(grant_tuple).map_err(|e| from_core(py, &e))
    }

    /// Slots for tokens after everything known.
    fn append(&self, py: Python<'_>, seq: Seq, ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let ids = tokens(ids, "tokens")?;
        self.with_victims(py, |core| core.append(seq.0, &ids))?.map_err(|e| from_core(py, &e))
    }

    /// Slots for known tokens up to a length.
    fn extend(&self, py: Python<'_>, seq: Seq, until: Until) -> PyResult<()> {
        self.with_victims(py, |core| core.extend(seq.0, until.0))?.map_err(|e| from_core(py, &e))
    }

    /// Computed and accepted up to a length; returns (blocks stored, of them duplicates,
    /// blocks freed that no token to come attends to).
    fn commit(&self, py: Python<'_>, seq: Seq, upto: Upto) -> PyResult<(u32, u32, u32)> {
        let due = Due { seq: seq.0, upto: Some(upto.0), cut: None, fill: &[] };
        let done = self.admitting(py, |_| Some(due), |core| core.commit(seq.0, upto.0))?;
        Ok((done.stored, done.duplicates, done.freed))
    }

    /// Cuts a sequence to a length.
    fn truncate(&self, py: Python<'_>, seq: Seq, length: Length) -> PyResult<()> {
        self.with(py, |core| core.truncate(seq.0, length.0))
    }

    /// For replaying a log: cuts what is known past the slots.
    fn cut_known(&self, py: Python<'_>, seq: Seq, length: Length) -> PyResult<()> {
        self.with(py, |core| core.cut_known(seq.0, length.0))
    }

    /// A sequence over the same blocks.
    fn fork(&self, py: Python<'_>, seq: Seq) -> PyResult<u64> {
        self.with(py, |core| core.fork(seq.0))
    }

    /// Ends a sequence for now; returns the request that brings it back.
    #[pyo3(signature = (seq, fence=None))]
    pub(crate) fn preempt(
        &self,
        py: Python<'_>,
        seq: Seq,
        fence: Option<Fence>,
    ) -> PyResult<Request> {
        let due = Due { seq: seq.0, upto: None, cut: None, fill: &[] };
        let work = |core: &mut Core| match fence {
            Some(fence) => core.preempt_behind(seq.0, fence.0),
            None => core.preempt(seq.0),
        };
        let sequence = self.admitting(py, |_| Some(due), work)?;
        Ok(Request::of_sequence(sequence))
    }

    /// Ends a sequence; its blocks stay until `fence` has passed.
    #[pyo3(signature = (seq, fence=None))]
    fn release(&self, py: Python<'_>, seq: Seq, fence: Option<Fence>) -> PyResult<()> {
        let due = Due { seq: seq.0, upto: None, cut: None, fill: &[] };
        let work = |core: &mut Core| match fence {
            Some(fence) => core.release_behind(seq.0, fence.0),
            None => core.release(seq.0),
        };
        self.admitting(py, |_| Some(due), work)
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

    /// Forgets every cached block, or those of a scope; returns how many were freed.
    #[pyo3(signature = (salt=None, adapter=None, session=None))]
    fn clear_cache(
        &self,
        py: Python<'_>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        session: Option<Session>,
    ) -> PyResult<u32> {
        let scope = Scope { salt, adapter, session: session.map(|session| session.0) };
        if scope == Scope::default() {
            return self.locked_long(py, Core::clear_cache);
        }
        self.locked_long(py, |core| core.clear_scope(scope))
    }

    /// Salts of findable blocks and of running sequences, each once.
    fn salts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let salts = self.locked_long(py, |core| core.salts())?;
        Ok(salts.iter().map(|salt| PyBytes::new(py, salt)).collect())
    }

    /// Looks a sequence that has computed nothing up again; returns its cached tokens. What it gives
    /// up stays until `fence` has passed.
    #[pyo3(signature = (seq, fence=None))]
    fn rematch(&self, py: Python<'_>, seq: Seq, fence: Option<Fence>) -> PyResult<u32> {
        self.with(py, |core| match fence {
            Some(fence) => core.rematch_behind(seq.0, fence.0),
            None => core.rematch(seq.0),
        })
    }

    /// Recounts everything; raises `IntegrityError` on the first thing that disagrees.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.locked_long(py, |core| core.check_integrity())?.map_err(|e| from_core(py, &e))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.judge.as_ref().map_or(Ok(()), |judge| judge.traverse(&visit))?;
        self.native.as_ref().map_or(Ok(()), |native| native.traverse(&visit))?;
        self.gatekeeper.as_ref().map_or(Ok(()), |gatekeeper| gatekeeper.traverse(&visit))?;
        self.listeners.traverse(&visit)
    }

    fn __clear__(&self) {
        self.listeners.clear();
    }
}
