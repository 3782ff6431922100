//! An admission policy in Python: what becomes findable is asked of it before the operation that would
//! make it so, without the core's lock.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kvframe_core::manager::{Due, Step};
use kvframe_core::policy::admission::{Admit, Ask, Offer, Verdict, Verdicts, find};
use kvframe_core::tenants::PerTenantAdmission;
use kvframe_core::{Error, Key, Manager as Core};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use super::asker::{Arrays, Asker, frozen, words};
use crate::calls::call_method;
use crate::errors::raise;
use crate::manager::Manager;
use crate::options;

/// Keys seen that wait for the next question at the most.
const MANY_SEEN: usize = 1 << 16;

/// A verdict that the policy has not written, and has to.
pub const UNSET: u8 = u8::MAX;

/// What of an admission policy lies outside the core.
pub struct Admission {
    pub name: String,
    pub python: Option<PyAdmission>,
    /// All of a built-in policy's, and what another one was given.
    pub options: Option<Py<PyDict>>,
}

impl Admission {
    /// How often the policy failed, and everything was kept.
    pub fn failures(&self) -> u64 {
        self.python.as_ref().map_or(0, |policy| policy.asker.failures())
    }
}

/// The policy of that name, or the one behind a driver of `kvframe.drivers.admission`: as the core runs
/// it, where None keeps everything, and what of it lies outside.
pub fn make_admission(
    py: Python<'_>,
    policy: Option<&Bound<'_, PyAny>>,
    given: Option<&Bound<'_, PyDict>>,
    tenants: usize,
) -> PyResult<(Option<Box<dyn Admit>>, Admission)> {
    let Some(policy) = policy else {
        let options = Some(PyDict::new(py).unbind());
        return Ok((None, Admission { name: "always".into(), python: None, options }));
    };
    if let Ok(name) = policy.extract::<String>() {
        let make = || options::make(py, "admission_options", given, || find(&name));
        let (mut policy, options) = make()?;
        if tenants > 0 && policy.is_some() {
            let others = (0..tenants).map(|_| make().map(|(one, _)| one));
            let others = others.collect::<PyResult<Vec<_>>>()?;
            let all = policy.into_iter().chain(others.into_iter().flatten()).collect();
            policy = Some(Box::new(PerTenantAdmission::new(all)));
        }
        return Ok((policy, Admission { name, python: None, options: Some(options) }));
    }
    let name = policy.getattr("name")?.extract()?;
    let options = given.map(|given| given.clone().unbind());
    let python = PyAdmission::new(policy)?;
    let verdicts = Box::new(Verdicts::new(python.wants_seen));
    Ok((Some(verdicts), Admission { name, python: Some(python), options }))
}

/// What an operation would make findable, and what the policy is to know besides: kept from gathering it
/// to the end of the operation.
pub struct Question {
    pub offer: Offer,
    pub ask: Ask,
    pub seen: Vec<Key>,
}

impl Question {
    /// About what is `due`; of nothing to ask, none.
    pub fn gather(core: &mut Core, due: &[Due<'_>]) -> Option<Self> {
        let mut offer = Offer::default();
        let ask = core.admission_due(due, &mut offer);
        let verdicts = core.verdicts()?;
        if offer.is_empty() && verdicts.seen_len() < MANY_SEEN {
            return None;
        }
        Some(Self { offer, ask, seen: verdicts.take_seen() })
    }

    /// Work for which the verdicts are handed in.
    pub fn answered<T>(
        &self,
        core: &mut Core,
        verdicts: &[Verdict],
        work: impl FnOnce(&mut Core) -> T,
    ) -> T {
        self.answer(core, verdicts);
        let done = work(core);
        self.close(core);
        done
    }

    /// Hands the verdicts in.
    pub fn answer(&self, core: &mut Core, verdicts: &[Verdict]) {
        if let Some(known) = core.verdicts() {
            known.enter(&self.offer, verdicts);
        }
    }

    /// The operation is over.
    pub fn close(&self, core: &mut Core) {
        if let Some(known) = core.verdicts() {
            known.leave(&self.offer);
        }
    }
}

/// A policy written in Python, behind `kvframe.drivers.admission.AdmissionDriver`.
pub struct PyAdmission {
    asker: Asker<Column>,
    wants_seen: bool,
}

impl PyAdmission {
    /// Reads what the driver declares.
    fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            wants_seen: driver.getattr("wants_seen")?.extract()?,
            asker: Asker::new(driver, column)?,
        })
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.asker.traverse(visit)
    }

    /// Whether the policy remembers what was seen.
    pub fn wants_seen(&self) -> bool {
        self.wants_seen
    }

    /// One verdict a row of the offer; all are kept where the policy failed and may be passed over. Each
    /// is `unwritten` before the policy writes it.
    pub fn ask(
        &self,
        py: Python<'_>,
        question: &Question,
        unwritten: u8,
    ) -> PyResult<Vec<Verdict>> {
        let decide = |arrays: &mut _| self.verdicts(py, question, unwritten, arrays);
        let verdicts = self.asker.ask(py, decide)?;
        Ok(verdicts.unwrap_or_else(|| vec![Verdict::Keep; question.offer.len()]))
    }

    fn verdicts(
        &self,
        py: Python<'_>,
        question: &Question,
        unwritten: u8,
        arrays: &mut Arrays,
    ) -> PyResult<Vec<Verdict>> {
        let Question { offer, ask, seen } = question;
        let columns = self.asker.columns(py, arrays, |column, _| column(py, offer))?;
        let seen = if seen.is_empty() { None } else { Some(words(py, seen)?) };
        let rows = offer.len();
        let about = (ask.now, ask.tier.name(), ask.occasion as u8, ask.free, ask.total);
        let unwritten = std::iter::repeat_n(unwritten, rows);
        let numbers = arrays.filled(py, "admit", unwritten, |out| {
            let driver = self.asker.driver(py);
            call_method(driver, intern!(py, "admit"), (about, columns, seen, out))
        })?;
        let verdict = |(i, &number): (usize, &u8)| {
            Verdict::from_number(number).ok_or_else(|| {
                let what = if number == UNSET { "unset".into() } else { number.to_string() };
                let limit = "must be 0 (drop), 1 (keep) or 2 (a lower tier)";
                let message = format!("verdict {i} of {rows} is {what}: {limit}");
                raise(py, "PolicyError", message)
            })
        };
        numbers.iter().enumerate().map(verdict).collect()
    }
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
        "tenant" => {
            |py, offer| frozen(py, offer.metas.iter().map(|m| u32::from(m.tenant)).collect())
        }
        "priority" => |py, offer| frozen(py, offer.metas.iter().map(|m| m.priority).collect()),
        _ => return None,
    };
    Some(column)
}

/// Everything that a step would make findable.
fn due_of<'a>(core: &Core, step: &Step<'a>) -> Vec<Due<'a>> {
    let cuts: HashMap<u64, u32> = step.truncate.iter().copied().collect();
    let fills: HashMap<u64, &[u32]> = step.fill.iter().copied().collect();
    let cut = |seq| cuts.get(&seq).copied();
    let fill = |seq| fills.get(&seq).copied().unwrap_or_default();
    let committed = step.commit.iter().map(|&(seq, upto)| Due {
        seq,
        upto: Some(upto),
        cut: cut(seq),
        fill: fill(seq),
    });
    let loaded = step.loaded.iter().filter_map(|&(ticket, n)| core.due_of_load(ticket, n));
    let mut due: Vec<Due<'a>> = committed.chain(loaded).collect();
    let asked: HashSet<u64> = due.iter().map(|due| due.seq).collect();
    let ends = step.release.iter().chain(step.preempt).filter(|seq| !asked.contains(seq));
    due.extend(ends.map(|&seq| Due { seq, upto: None, cut: cut(seq), fill: fill(seq) }));
    due
}

impl Manager {
    /// Work that makes findable what is `due`.
    pub(crate) fn admitting<'a, T>(
        &self,
        py: Python<'_>,
        due: impl FnOnce(&Core) -> Option<Due<'a>>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        match self.judged(py, |core| Question::gather(core, &[due(core)?]))? {
            None => self.with(py, work),
            Some((question, verdicts)) => {
                self.with(py, |core| question.answered(core, &verdicts, work))
            }
        }
    }

    /// The same for a step, which has to be sound: what it would make findable, judged.
    pub(crate) fn ask_step(
        &self,
        py: Python<'_>,
        step: &Step<'_>,
    ) -> PyResult<Option<(Question, Vec<Verdict>)>> {
        self.judged(py, |core| {
            // The step itself reports what is wrong with it.
            core.check_step(step, &mut Vec::new()).ok()?;
            let due = due_of(core, step);
            Question::gather(core, &due)
        })
    }

    /// What a policy in Python says of what is gathered; None without such a policy, or a question.
    fn judged(
        &self,
        py: Python<'_>,
        gather: impl FnOnce(&mut Core) -> Option<Question>,
    ) -> PyResult<Option<(Question, Vec<Verdict>)>> {
        if !self.asks_of_admission() {
            return Ok(None);
        }
        let admission = self.admission();
        let Some(policy) = &admission.python else { return Ok(None) };
        // One that was replaced is not told what the next one is to hear.
        let is_present = || Arc::ptr_eq(&admission, &self.admission());
        let question = self.locked(py, |core| is_present().then(|| gather(core)).flatten())?;
        let Some(question) = question else { return Ok(None) };
        let verdicts = policy.ask(py, &question, UNSET)?;
        Ok(Some((question, verdicts)))
    }
}
