//! `TierGate`: a built-in admission policy, asked for a tier below the pool.

use std::sync::{Mutex, PoisonError};

use kvframe_core::policy::admission::{Admit, Ask, Occasion, Offer, OfferRow, Tier, Verdict};
use kvframe_core::{Error, Key};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::admission::make_admission;
use crate::buffers::keys;
use crate::calls::lock;
use crate::errors::from_core;
use crate::tier::{KnownTuple, known};

/// (tick, tier, occasion, free pages, all pages)
type AboutTuple = (u64, String, u8, u32, u32);

/// One tier's admission policy; `kvframe.tiers` has the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TierGate {
    /// None keeps everything.
    policy: Mutex<Option<Box<dyn Admit>>>,
}

impl TierGate {
    fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut dyn Admit) -> T,
    ) -> PyResult<Option<T>> {
        let mut policy = lock(py, &self.policy)?.unwrap_or_else(PoisonError::into_inner);
        Ok(policy.as_mut().map(|policy| work(policy.as_mut())))
    }
}

#[pymethods]
impl TierGate {
    /// The built-in policy of that name.
    #[new]
    #[pyo3(signature = (policy, options=None))]
    fn new(
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (policy, ..) = make_admission(py, policy, options, false)?;
        Ok(Self { policy: Mutex::new(policy) })
    }

    /// A request has found or computed pages.
    fn seen(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, now: u64) -> PyResult<()> {
        let _ = now;
        let keys = self::keys(keys)?;
        self.with(py, |policy| policy.seen(&keys))?;
        Ok(())
    }

    /// A verdict for each page from a place of a prefix on: 0 drops it, 1 keeps it, 2 is for the tier
    /// below.
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
        let mut verdicts = vec![Verdict::Keep; keys.len()];
        let ask = Ask { tier, occasion, now, free, total, rival: None };
        self.with(py, |policy| policy.admit(&offer, ask, &mut verdicts))?;
        Ok(PyArray1::from_iter(py, verdicts.into_iter().map(|verdict| verdict as u8)))
    }
}
