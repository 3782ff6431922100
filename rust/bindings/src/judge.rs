//! A Python policy's verdict, asked for without the core's lock.

use std::sync::Mutex;

use kvframe_core::policy::{Candidates, Journal, Subscriptions};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::buffers::key_words;
use crate::calls::{call, call_method, discard, discard_error};
use crate::column::Column;
use crate::driver::{Driver, changed, frozen, is_interrupt};
use crate::errors::raise;
use crate::lent::Lent;
use crate::turn::{Turn, Turns};

/// Events that wait for the next decision at the most.
pub const MANY_EVENTS: usize = 1 << 16;

/// A policy written in Python, behind `kvframe.policies.driver.Driver`.
pub struct Judge {
    driver: Driver<Column>,
    policy: Py<PyAny>,
    /// Makes what it is offered.
    candidates: Py<PyAny>,
    /// Times its decisions, where they have a budget.
    budget: Option<Py<PyAny>>,
    block_size: u32,
    names_victims: bool,
    hears: bool,
    /// Numbers go out as float64.
    floats: bool,
    /// Candidates offered at a time; 0 offers all.
    window: usize,
    strict: bool,
    scratch: Mutex<Candidates>,
    lent: Mutex<Loan>,
    turns: Turns,
}

/// What a policy is lent for a decision.
#[derive(Default)]
struct Loan {
    columns: Vec<Lent>,
    out: Lent,
}

/// Which `n` blocks should be evicted, as the core puts it to a policy.
pub struct Decision {
    pub n: usize,
    pub now: u64,
    /// By the engine's clock.
    pub time: u64,
    pub offer: Candidates,
    /// What the operation has found, and does not offer.
    pub found: Vec<u32>,
    /// What happened since the last one.
    pub journal: Journal,
}

/// The order in which offered blocks should be evicted.
pub struct Verdict {
    pub blocks: Vec<u32>,
    pub generations: Vec<u32>,
}

impl Judge {
    /// Reads what the driver declares.
    pub fn new(driver: &Bound<'_, PyAny>, strict: bool) -> PyResult<Self> {
        let budget = driver.getattr("budget")?;
        Ok(Self {
            policy: driver.getattr("policy")?.unbind(),
            candidates: driver.getattr("candidates")?.unbind(),
            budget: (!budget.is_none()).then(|| budget.unbind()),
            block_size: driver.getattr("block_size")?.extract()?,
            hears: Self::heard(driver)? != Subscriptions::default(),
            floats: driver.getattr("floats")?.extract()?,
            names_victims: driver.getattr("names_victims")?.extract()?,
            window: driver.getattr("window")?.extract()?,
            driver: Driver::new(driver, Column::by_name)?,
            strict,
            scratch: Mutex::default(),
            lent: Mutex::default(),
            turns: Turns::default(),
        })
    }

    /// What the policy's own state is kept by.
    pub fn heard(driver: &Bound<'_, PyAny>) -> PyResult<Subscriptions> {
        Ok(Subscriptions {
            events: driver.getattr("wants_events")?.extract()?,
            keys: driver.getattr("wants_keys")?.extract()?,
            misses: driver.getattr("wants_missed")?.extract()?,
        })
    }

    /// For Python's garbage collector: a policy may hold whatever it ranks the blocks of.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.driver.traverse(visit)?;
        visit.call(&self.policy)?;
        visit.call(&self.candidates)?;
        visit.call(&self.budget)
    }

    pub fn window(&self) -> usize {
        self.window
    }

    pub fn failures(&self) -> u64 {
        self.driver.failures()
    }

    /// To be held from before the journal is taken until the policy has been told; nothing to wait for where
    /// it keeps no state.
    pub fn turn(&self, py: Python<'_>) -> PyResult<Option<Turn<'_>>> {
        if self.hears { self.turns.take(py) } else { Ok(None) }
    }

    /// A decision on `n` victims, to be filled in by the core; `done_with` takes its buffers back.
    pub fn decision(&self, n: usize) -> Decision {
        let kept = self.scratch.try_lock().map(|mut kept| std::mem::take(&mut *kept));
        let mut offer = kept.unwrap_or_default();
        offer.facts.want(self.driver.kinds().filter_map(Column::fact));
        Decision { n, now: 0, time: 0, offer, found: Vec::new(), journal: Journal::default() }
    }

    /// The decision is taken.
    pub fn done_with(&self, decision: Decision) {
        if let Ok(mut slot) = self.scratch.try_lock() {
            *slot = decision.offer;
        }
    }

    /// The policy's choice. `Ok(None)` if it failed and may be passed over.
    ///
    /// Errors: the policy's own where it is strict, and interrupts always.
    pub fn ask(&self, py: Python<'_>, decision: &Decision) -> PyResult<Option<Verdict>> {
        match self.consult(py, decision) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(error) => self.driver.failed(py, error, self.strict).map(|()| None),
        }
    }

    /// Hands events over outside a decision.
    pub fn deliver(&self, py: Python<'_>, journal: &Journal) -> PyResult<()> {
        let events = events(py, journal)?;
        match call_method(self.driver.bind(py), intern!(py, "deliver"), (events,)) {
            Ok(_) => Ok(()),
            Err(error) => self.driver.failed(py, error, false),
        }
    }

    fn consult(&self, py: Python<'_>, decision: &Decision) -> PyResult<Verdict> {
        // A policy that calls its manager may be asked meanwhile: that question gets arrays of its own.
        let spare = self.lent.try_lock().map(|mut loan| std::mem::take(&mut *loan));
        let mut loan = spare.unwrap_or_default();
        let budget = self.budget.as_ref().map(|budget| budget.bind(py));
        if let Some(budget) = budget {
            call_method(budget, intern!(py, "start"), ())?;
        }
        let mut answer = self.put(py, decision, &mut loan);
        if let Some(budget) = budget
            && let Err(late) = call_method(budget, intern!(py, "stop"), ())
            && !answer.as_ref().is_err_and(|error| is_interrupt(py, error))
            && let Err(error) = std::mem::replace(&mut answer, Err(late))
        {
            discard_error(py, error);
        }
        if let Ok(mut slot) = self.lent.try_lock() {
            *slot = loan;
        }
        let (places, offer) = (answer?, &decision.offer);
        Ok(Verdict {
            blocks: places.iter().map(|&p| offer.blocks[p as usize]).collect(),
            generations: places.iter().map(|&p| offer.generations[p as usize]).collect(),
        })
    }

    /// Asks; the places that were answered.
    fn put(&self, py: Python<'_>, decision: &Decision, loan: &mut Loan) -> PyResult<Vec<u32>> {
        let (n, offer) = (decision.n, &decision.offer);
        if self.hears {
            let events = events(py, &decision.journal)?;
            call_method(self.driver.bind(py), intern!(py, "deliver"), (events,))?;
        }
        let mut place = 0;
        let columns = self.driver.columns(py, |kind| {
            if loan.columns.len() == place {
                loan.columns.push(Lent::default());
            }
            place += 1;
            kind.of(py, offer, self.floats, &mut loan.columns[place - 1])
        })?;
        let about = (decision.now, self.block_size, columns, decision.time);
        let candidates = self.candidates.bind(py);
        let offered = if decision.found.is_empty() {
            call(candidates, about)?
        } else {
            let (now, size, columns, time) = about;
            let found = frozen(py, decision.found.clone())?;
            call(candidates, (now, size, columns, time, found))?
        };
        let (policy, all) = (self.policy.bind(py), offer.blocks.len());
        let wanted = n.min(all);
        let places = if self.names_victims {
            let out = loan.out.put(py, false, std::iter::repeat_n(-1_i64, wanted))?;
            let answer = call_method(policy, intern!(py, "victims"), (n, offered, &out))?;
            nothing("victims", answer)?;
            victims(py, n, offer, loan.out.written(py).ok_or_else(|| changed(py))?)?
        } else {
            let out = loan.out.put(py, false, std::iter::repeat_n(f64::NAN, all))?;
            nothing("score", call_method(policy, intern!(py, "score"), (offered, &out))?)?;
            let scores = loan.out.written(py).ok_or_else(|| changed(py))?;
            offer.check_scores(scores).map_err(|why| raise(py, "PolicyError", why))?;
            offer.lowest(scores, n)
        };
        if places.len() < wanted {
            let message = format!("named {} of {n} victims", places.len());
            return Err(raise(py, "PolicyError", message));
        }
        Ok(places)
    }
}

/// A policy's answer is in `out`.
fn nothing(verb: &str, answer: Bound<'_, PyAny>) -> PyResult<()> {
    if answer.is_none() {
        return Ok(());
    }
    let py = answer.py();
    discard(answer);
    Err(raise(py, "PolicyError", format!("{verb} must fill out and return None")))
}

/// Kinds, blocks, ticks, and the keys' words if any are wanted.
type Events<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn events<'py>(py: Python<'py>, journal: &Journal) -> PyResult<Option<Events<'py>>> {
    if journal.kinds.is_empty() {
        return Ok(None);
    }
    let Journal { kinds, blocks, ticks, keys } = journal.clone();
    let words: Vec<u64> = keys.into_iter().flat_map(key_words).collect();
    let keys = (words.len() / 2, 2);
    let keys = call_method(&frozen(py, words)?, intern!(py, "reshape"), (keys,))?;
    Ok(Some((frozen(py, kinds)?, frozen(py, blocks)?, frozen(py, ticks)?, keys)))
}

fn victims(py: Python<'_>, n: usize, offer: &Candidates, named: &[i64]) -> PyResult<Vec<u32>> {
    let ids: Vec<u32> = named
        .iter()
        .take_while(|&&id| id != -1)
        .take(n)
        .map(|&id| {
            u32::try_from(id)
                .map_err(|_| raise(py, "PolicyError", format!("victim {id} is not a block id")))
        })
        .collect::<PyResult<_>>()?;
    offer.check(&ids).map_err(|why| raise(py, "PolicyError", why))
}
