//! `TierGate`: an admission policy, asked for a tier below the pool.

use std::sync::{Mutex, PoisonError};

use kvframe_core::policy::admission::{Admit, Ask, Occasion, Offer, OfferRow, Tier, Verdict};
use kvframe_core::{Error, Key};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::buffers::keys;
use crate::calls::lock;
use crate::errors::from_core;
use crate::policy::admission::{PyAdmission, Question, make_admission};
use crate::tier::{KnownTuple, known};

/// What a policy is asked about, as `(tick, tier, occasion, free pages, all pages)`.
type AboutTuple = (u64, String, u8, u32, u32);

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
        let (core, made) = make_admission(py, Some(policy), options)?;
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

    /// A verdict for each page from a place of a prefix on: 0 drops it, 1 keeps it, 2 is for the tier
    /// below. A page on which a Python policy is silent is kept.
    fn admit<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'_, PyAny>,
        start: u32,
        block_size: u32,
        uses: Vec<u32>,
        using: KnownTuple,
        about: AboutTuple,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let keys = self::keys(keys)?;
        let (now, tier, occasion, free, total) = about;
        let tier = Tier::from_name(&tier).map_err(|e| from_core(py, &e))?;
        let occasion = match occasion {
            0 => Occasion::Computed,
            1 => Occasion::Used,
            2 => Occasion::Evicted,
            other => {
                let error = Error::Invalid {
                    what: "occasion",
                    value: other.to_string(),
                    limit: "must be 0, 1 or 2".into(),
                };
                return Err(from_core(py, &error));
            }
        };
        let known = known(&using);
        let mut offer = Offer::default();
        for (i, &key) in keys.iter().enumerate() {
            offer.push(OfferRow {
                key,
                next: keys.get(i + 1).copied().unwrap_or(Key(0)),
                depth: start + i as u32,
                span: block_size,
                group: 0,
                state: false,
                reach: known.tokens,
                prompt: known.tokens,
                uses: uses.get(i).copied().unwrap_or(0),
                meta: known.meta,
            });
        }
        let ask = Ask { tier, occasion, now, free, total, rival: None };
        let verdicts = self.ask(py, Question { offer, ask, seen: Vec::new() })?;
        Ok(PyArray1::from_iter(py, verdicts.into_iter().map(|verdict| verdict as u8)))
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
