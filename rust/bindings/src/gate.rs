//! `TierGate`: an admission policy, asked for a tier below the pool.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kvframe_core::Error;
use kvframe_core::policy::admission::{Admit, Ask, Occasion, Offer, Tier, Verdict};
use kvframe_core::tier::{PageUses as CoreUses, let_in, occasion_of, offer_pages};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::buffers::keys;
use crate::calls::lock;
use crate::errors::from_core;
use crate::policy::admission::{PyAdmission, Question, make_admission};
use crate::tier::{KnownTuple, known};

/// What a policy is asked about, as `(tick, tier, occasion, free pages, all pages)`; without an occasion,
/// as pages are computed or used.
type AboutTuple = (u64, String, Option<u8>, u32, u32);

/// Uses of pages: as they are counted, or a number for each.
#[derive(FromPyObject)]
enum UsesArg<'py> {
    Counted(PyRef<'py, PageUses>),
    Given(Vec<u32>),
}

/// One tier's admission policy; `kvframe.tiers` has the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TierGate {
    policy: Policy,
}

enum Policy {
    /// None keeps everything.
    Core(Mutex<Option<Box<dyn Admit>>>),
    Python(PyAdmission),
}

#[pymethods]
impl TierGate {
    /// The built-in policy of that name, or a driver of a Python policy, which is passed over where it
    /// fails.
    #[new]
    #[pyo3(signature = (policy, options=None))]
    fn new(
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (core, made) = make_admission(py, Some(policy), options, 0)?;
        let policy = made.python.map_or(Policy::Core(Mutex::new(core)), Policy::Python);
        Ok(Self { policy })
    }

    /// A request has found or computed pages.
    fn seen(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, now: u64) -> PyResult<()> {
        let seen = self::keys(keys)?;
        let is_deaf = matches!(&self.policy, Policy::Python(policy) if !policy.wants_seen());
        if !is_deaf && !seen.is_empty() {
            let ask = Ask { now, ..Ask::default() };
            self.ask(py, Question { offer: Offer::default(), ask, seen })?;
        }
        Ok(())
    }

    /// Whether it judges by how often pages were used.
    fn counts_uses(&self, py: Python<'_>) -> PyResult<bool> {
        let Policy::Core(policy) = &self.policy else { return Ok(true) };
        let policy = lock(py, policy)?.unwrap_or_else(PoisonError::into_inner);
        Ok(policy.as_ref().is_some_and(|policy| policy.wants_uses()))
    }

    /// How many pages from a place of a prefix on enter, or pass through to the tier below. A page on which a
    /// Python policy is silent is kept.
    fn admitted(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        start: u32,
        block_size: u32,
        uses: UsesArg<'_>,
        using: KnownTuple,
        about: AboutTuple,
    ) -> PyResult<u32> {
        let keys = self::keys(keys)?;
        let uses = match uses {
            UsesArg::Counted(counts) => counts.read(py)?.of(&keys),
            UsesArg::Given(uses) => uses,
        };
        let (now, tier, occasion, free, total) = about;
        let tier = Tier::from_name(&tier).map_err(|e| from_core(py, &e))?;
        let occasion = match occasion {
            None => occasion_of(&uses),
            Some(0) => Occasion::Computed,
            Some(1) => Occasion::Used,
            Some(2) => Occasion::Evicted,
            Some(other) => {
                let error = Error::Invalid {
                    what: "occasion",
                    value: other.to_string(),
                    limit: "must be 0, 1 or 2".into(),
                };
                return Err(from_core(py, &error));
            }
        };
        let offer = offer_pages(&keys, (start, block_size), &uses, known(&using));
        let ask = Ask { tier, occasion, now, free, total, rival: None };
        let verdicts = self.ask(py, Question { offer, ask, seen: Vec::new() })?;
        Ok(let_in(&verdicts))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Policy::Python(policy) = &self.policy { policy.traverse(&visit) } else { Ok(()) }
    }
}

impl TierGate {
    fn ask(&self, py: Python<'_>, question: Question) -> PyResult<Vec<Verdict>> {
        let policy = match &self.policy {
            Policy::Python(policy) => return policy.ask(py, &question, Verdict::Keep as u8),
            Policy::Core(policy) => policy,
        };
        let Question { offer, ask, seen } = question;
        let mut verdicts = vec![Verdict::Keep; offer.len()];
        let mut policy = lock(py, policy)?.unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = policy.as_mut() {
            policy.seen(&seen);
            if !offer.is_empty() {
                policy.admit(&offer, ask, &mut verdicts);
            }
        }
        Ok(verdicts)
    }
}

/// How often requests used which pages.
#[pyclass(frozen, module = "kvframe._core")]
pub struct PageUses {
    counts: Mutex<CoreUses>,
}

#[pymethods]
impl PageUses {
    /// None yet.
    #[new]
    fn new() -> Self {
        Self { counts: Mutex::default() }
    }

    /// A request found these pages.
    fn count(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = self::keys(keys)?;
        self.read(py)?.count(&found);
        Ok(())
    }
}

impl PageUses {
    fn read(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, CoreUses>> {
        Ok(lock(py, &self.counts)?.unwrap_or_else(PoisonError::into_inner))
    }
}
