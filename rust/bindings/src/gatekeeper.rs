//! A Python admission policy's verdicts, asked for without the core's lock.

use kvframe_core::Key;
use kvframe_core::policy::admission::{Offer, Verdict};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::buffers::key_words;
use crate::calls::call_method;
use crate::driver::{Driver, frozen, written};
use crate::errors::raise;
use crate::question::Question;

/// What a verdict reads before the policy has written it.
const UNSET: u8 = u8::MAX;

/// A policy written in Python, behind `kvframe.policies.gate.AdmissionDriver`.
pub struct Gatekeeper {
    driver: Driver<Column>,
    wants_seen: bool,
    strict: bool,
}

impl Gatekeeper {
    /// Reads what the driver declares: `columns`, `wants_seen`.
    pub fn new(driver: &Bound<'_, PyAny>, strict: bool) -> PyResult<Self> {
        Ok(Self {
            wants_seen: driver.getattr("wants_seen")?.extract()?,
            driver: Driver::new(driver, column)?,
            strict,
        })
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.driver.traverse(visit)
    }

    /// Whether the policy keeps track of what was seen.
    pub fn wants_seen(&self) -> bool {
        self.wants_seen
    }

    /// How often it failed.
    pub fn failures(&self) -> u64 {
        self.driver.failures()
    }

    /// One verdict a row of the offer; all are kept where the policy failed and may be passed over.
    ///
    /// Errors: the policy's own where it is strict, and interrupts always.
    pub fn ask(&self, py: Python<'_>, question: &Question) -> PyResult<Vec<Verdict>> {
        self.consult(py, question).or_else(|error| {
            self.driver.failed(py, error, self.strict)?;
            Ok(vec![Verdict::Keep; question.offer.len()])
        })
    }

    fn consult(&self, py: Python<'_>, question: &Question) -> PyResult<Vec<Verdict>> {
        let Question { offer, ask, seen } = question;
        let columns = self.driver.columns(py, |column| column(py, offer))?;
        let seen = if seen.is_empty() { None } else { Some(words(py, seen)?) };
        let rows = offer.len();
        let out = PyArray1::<u8>::from_vec(py, vec![UNSET; rows]).into_any();
        let about = (ask.now, ask.tier.name(), ask.occasion as u8, ask.free, ask.total);
        let args = (about, columns, seen, &out);
        let asked: bool =
            call_method(self.driver.bind(py), intern!(py, "admit"), args)?.extract()?;
        if !asked {
            return Ok(vec![Verdict::Keep; rows]);
        }
        let answers = written::<u8>(&out, rows)?;
        let verdict = |(i, &number): (usize, &u8)| {
            Verdict::from_number(number).ok_or_else(|| {
                let what = if number == UNSET { "unset".into() } else { number.to_string() };
                let limit = "must be 0 (drop), 1 (keep) or 2 (a lower tier)";
                let message = format!("verdict {i} of {rows} is {what}: {limit}");
                raise(py, "PolicyError", message)
            })
        };
        answers.iter().enumerate().map(verdict).collect()
    }
}

/// Keys as a read-only uint64 array of two words each, the low one first.
pub fn words<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<Bound<'py, PyAny>> {
    let flat = frozen(py, keys.iter().flat_map(|&key| key_words(key)).collect::<Vec<u64>>())?;
    // The base is frozen, so that no view of it can be thawed.
    Ok(flat.cast::<PyArray1<u64>>()?.reshape([keys.len(), 2])?.into_any())
}

/// Makes a column of the offer.
type Column = for<'py> fn(Python<'py>, &Offer) -> PyResult<Bound<'py, PyAny>>;

/// The one that policies call so.
fn column(name: &str) -> Option<Column> {
    let column: Column = match name {
        "key" => |py, offer| words(py, &offer.keys),
        "next" => |py, offer| words(py, &offer.nexts),
        "depth" => |py, offer| frozen(py, offer.depths.clone()),
        "tokens" => |py, offer| frozen(py, offer.spans.clone()),
        "group" => |py, offer| frozen(py, offer.groups.clone()),
        "state" => |py, offer| frozen(py, offer.states.clone()),
        "reach" => |py, offer| frozen(py, offer.reaches.clone()),
        "prompt" => |py, offer| frozen(py, offer.prompts.clone()),
        "uses" => |py, offer| frozen(py, offer.uses.clone()),
        "session" => |py, offer| frozen(py, offer.metas.iter().map(|m| m.session).collect()),
        "turn" => |py, offer| frozen(py, offer.metas.iter().map(|m| m.turn).collect()),
        "request_class" => |py, offer| frozen(py, offer.metas.iter().map(|m| m.class).collect()),
        "priority" => |py, offer| frozen(py, offer.metas.iter().map(|m| m.priority).collect()),
        _ => return None,
    };
    Some(column)
}
