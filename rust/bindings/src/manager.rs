//! `Manager`: the core behind one lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kvframe_core::hash::Hasher;
use kvframe_core::manager::Due;
use kvframe_core::{Key, Manager as Core, Scope};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict};

use crate::args::{
    Chunk, Fence, Forks, Length, Partial, Resumed, Seq, Session, Ticket, Until, Upto,
};
use crate::buffers::tokens;
use crate::errors::from_core;
use crate::groups::group_dict;
use crate::listeners::Listeners;
use crate::options;
use crate::policy::admission::{Admission, make_admission};
use crate::policy::eviction::make_policies;
use crate::policy::host::PolicyHost;
use crate::policy::prefix::AnswerTuple;
use crate::request::Request;
use crate::step::{AllocationTuple, PlanTuple, allocation_tuple, plan_tuple};

/// The core as the package sees it; `kvframe.KVCacheManager` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct Manager {
    pub(crate) host: PolicyHost<Core>,
    /// The core's hasher, for hashing without its lock.
    pub(crate) hasher: Mutex<Arc<Hasher>>,
    prefix_caching: bool,
    /// Whether the core goes by keys: requests are then hashed before they come to it.
    wants_keys: bool,
    /// Changed under the lock of the core alone.
    pub(crate) admission: RwLock<Arc<Admission>>,
    /// Whether the admission policy lies outside the core.
    pub(crate) asks_of_admission: AtomicBool,
    /// Failures of admission policies that were replaced.
    pub(crate) past_admission_failures: AtomicU64,
    /// The eviction policy's name and options.
    pub(crate) policy: Mutex<(String, Option<Py<PyDict>>)>,
    pub(crate) listeners: Listeners,
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
            (true, false) => return request.core().keys.clone(),
            (true, true) => {}
        }
        let hasher = self.hasher();
        if request.is_long() {
            py.detach(|| request.keys_by(&hasher))
        } else {
            request.keys_by(&hasher)
        }
    }

    /// The present admission policy.
    pub(crate) fn admission(&self) -> Arc<Admission> {
        self.admission.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the admission policy lies outside the core.
    pub(crate) fn asks_of_admission(&self) -> bool {
        self.asks_of_admission.load(Ordering::Acquire)
    }

    /// How often admission policies failed.
    pub(crate) fn admission_failures(&self) -> u64 {
        self.past_admission_failures.load(Ordering::Relaxed) + self.admission().failures()
    }

    fn policy_in_words(&self, py: Python<'_>) -> (String, Option<Py<PyDict>>) {
        let policy = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
        (policy.0.clone(), policy.1.as_ref().map(|options| options.clone_ref(py)))
    }

    /// Whether lookups go by keys.
    pub(crate) fn is_keyed(&self) -> bool {
        self.prefix_caching && self.wants_keys
    }
}

#[pymethods]
impl Manager {
    /// A manager over an empty pool. `options` has the keys of a configuration (`cache.block_size`),
    /// `groups`, and the policies: `eviction.policy` and `admission.policy`, each a built-in's name or
    /// a driver of a Python policy, `eviction.options` and `admission.options`, `prefix.matched`
    /// (whether Python answers lookups) and `prefix.mirrored` (whether from an index of its own).
    #[new]
    fn new(py: Python<'_>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let (chosen, options) = options::chosen(options)?;
        let (options, faults) = options::read(&options)?;
        if let Some(fault) = faults.into_iter().chain(options.faults()).next() {
            return Err(options::refused(py, &fault));
        }
        let prefix_caching = options.prefix_caching;
        let tenants = options.tenants.len();
        let (eviction, given) = (&chosen.eviction, chosen.eviction_options.as_ref());
        let mut made = make_policies(py, eviction, given, tenants)?;
        let hasher = Hasher::new(options.chain_hash(), options.block_size, &options.fingerprint);
        let (name, policy_options) = (made.name.clone(), made.options.take());
        let (gate, admission) = make_admission(
            py,
            chosen.admission.as_ref(),
            chosen.admission_options.as_ref(),
            tenants,
        )?;
        let mut wants_keys = false;
        let host = PolicyHost::new(py, "manager", made, |eviction| {
            let core = Core::new(options, eviction)?.with_admission(gate);
            let core = if chosen.matched { core.with_matcher(chosen.mirrored) } else { core };
            wants_keys = core.wants_keys();
            Ok(core)
        })?;
        Ok(Self {
            host,
            hasher: Mutex::new(Arc::new(hasher)),
            prefix_caching,
            wants_keys,
            asks_of_admission: AtomicBool::new(admission.python.is_some()),
            admission: RwLock::new(Arc::new(admission)),
            past_admission_failures: AtomicU64::new(0),
            policy: Mutex::new((name, policy_options)),
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
        let (name, given) = self.policy_in_words(py);
        dict.set_item("policy", name)?;
        dict.set_item("policy_options", given)?;
        let admission = self.admission();
        dict.set_item("admission", &admission.name)?;
        dict.set_item("admission_options", &admission.options)?;
        dict.set_item("window", self.host.outside().window())?;
        Ok(dict)
    }

    /// Admits a request; returns what `AllocationTuple` lists. Keywords override what the request says.
    #[pyo3(signature = (request, chunk=None, until=None, partial=None, resumed=None, answer=None))]
    fn allocate(
        &self,
        py: Python<'_>,
        request: &Bound<'_, Request>,
        chunk: Option<Chunk>,
        until: Option<Until>,
        partial: Option<Partial>,
        resumed: Option<Resumed>,
        answer: Option<AnswerTuple<'_>>,
    ) -> PyResult<AllocationTuple> {
        let request = request.get();
        let keys = self.keys_of(py, request);
        let mut asked = request.attempt(&keys);
        asked.chunk = chunk.map_or(asked.chunk, |chunk| chunk.0);
        asked.until = until.map_or(asked.until, |until| until.0);
        asked.resumed = resumed.map_or(asked.resumed, |resumed| resumed.0);
        asked.partial = partial.map_or(asked.partial, |partial| partial.0);
        let answers: Vec<_> = answer.into_iter().map(|answer| (&keys[..], answer)).collect();
        let admit = || self.with_victims(py, |core| core.allocate(asked));
        self.answered(py, &answers, admit).map(allocation_tuple)
    }

    /// Slots for tokens after everything known.
    fn append(&self, py: Python<'_>, seq: Seq, ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let ids = tokens(ids, "tokens")?;
        self.with_victims(py, |core| core.append(seq.0, &ids))
    }

    /// Slots for known tokens up to a length.
    fn extend(&self, py: Python<'_>, seq: Seq, until: Until) -> PyResult<()> {
        self.with_victims(py, |core| core.extend(seq.0, until.0))
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

    /// As many forks, each grown by its own token; all of them or none.
    #[pyo3(signature = (seq, n, tokens=None))]
    fn fork_many(
        &self,
        py: Python<'_>,
        seq: Seq,
        n: Forks,
        tokens: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<u64>> {
        let ids = tokens.map(|ids| self::tokens(ids, "tokens")).transpose()?;
        self.with_victims(py, |core| core.fork_many(seq.0, n.0, ids.as_deref()))
    }

    /// Ends a sequence and makes nothing more of it findable.
    #[pyo3(signature = (seq, fence=None))]
    fn abort(&self, py: Python<'_>, seq: Seq, fence: Option<Fence>) -> PyResult<()> {
        self.with(py, |core| match fence {
            Some(fence) => core.abort_behind(seq.0, fence.0),
            None => core.abort(seq.0),
        })
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
    #[pyo3(signature = (salt=None, adapter=None, session=None, tenant=None))]
    fn reset_prefix_cache(
        &self,
        py: Python<'_>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        session: Option<Session>,
        tenant: Option<&[u8]>,
    ) -> PyResult<u32> {
        let scope = Scope {
            tenant,
            cache_salt: salt,
            lora_name: adapter,
            session: session.map(|session| session.0),
        };
        if scope == Scope::default() {
            return self.locked_long(py, Core::reset_prefix_cache);
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
        self.host.traverse(&visit)?;
        let admission = self.admission();
        admission.python.as_ref().map_or(Ok(()), |policy| policy.traverse(&visit))?;
        self.listeners.traverse(&visit)
    }

    fn __clear__(&self) {
        self.listeners.clear();
    }
}
