//! An eviction policy in Python, asked without the core's lock; how an eviction policy is made.

use std::sync::Mutex;

use kvframe_core::policy::{
    self, Candidates, Choice, Decision, EventKind, Eviction, External, Journal, Subscriptions,
};
use kvframe_core::tenants::PerTenant;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyList, PyString};

use super::asker::{Arrays, Asker, frozen, words};
use super::column::Column;
use super::host::Outside;
use super::native::Native;
use super::turn::{Turn, Turns};
use crate::calls::{call, call_method};
use crate::errors::raise;
use crate::options;

/// A policy as the core runs it, and what of it lies outside.
pub struct Policy {
    pub eviction: Box<dyn Eviction>,
    pub outside: Outside,
    pub name: String,
    /// All of a built-in policy's, and what another one was given.
    pub options: Option<Py<PyDict>>,
}

/// The policy of that name, or the one behind a driver of `kvframe.drivers.eviction`.
pub fn make_policy(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Policy> {
    if let Ok(name) = policy.extract::<String>() {
        let find = || policy::find(&name);
        let (eviction, options) = options::make(py, "policy_options", given, find)?;
        return Ok(Policy { eviction, outside: Outside::Nothing, name, options: Some(options) });
    }
    let options = given.map(|given| given.clone().unbind());
    let name = policy.getattr("name")?.extract()?;
    if Native::is_behind(policy)? {
        let (eviction, native) = Native::load(policy)?;
        return Ok(Policy { eviction, outside: Outside::Native(native), name, options });
    }
    let python = PyEviction::new(policy)?;
    let eviction = Box::new(External::new(python.heard));
    Ok(Policy { eviction, outside: Outside::Python(Box::new(python)), name, options })
}

/// The same, an instance for each of `tenants` and one for all others; `policy` is then a list of drivers, where
/// it is none of the core's.
pub fn make_policies(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    given: Option<&Bound<'_, PyDict>>,
    tenants: usize,
) -> PyResult<Policy> {
    if tenants == 0 {
        return make_policy(py, policy, given);
    }
    let drivers = match policy.cast::<PyList>() {
        Ok(drivers) => drivers.iter().collect(),
        Err(_) if policy.is_instance_of::<PyString>() => vec![policy.clone(); tenants + 1],
        Err(_) => {
            let message =
                format!("one driver for {tenants} tenants and all others: each needs its own");
            return Err(raise(py, "ConfigError", message));
        }
    };
    let made = drivers.iter().map(|driver| make_policy(py, driver, given));
    let made = made.collect::<PyResult<Vec<_>>>()?;
    let (mut evictions, mut outside, mut about) = (Vec::new(), Vec::new(), None);
    for one in made {
        evictions.push(one.eviction);
        outside.push(one.outside);
        about = about.or(Some((one.name, one.options)));
    }
    let (name, options) = about.unwrap_or_default();
    let inside = outside.iter().all(|one| matches!(one, Outside::Nothing));
    let outside = if inside { Outside::Nothing } else { Outside::PerTenant(outside) };
    Ok(Policy { eviction: Box::new(PerTenant::new(evictions)), outside, name, options })
}

/// A policy written in Python, behind `kvframe.drivers.eviction.EvictionDriver`.
pub struct PyEviction {
    asker: Asker<Column>,
    policy: Py<PyAny>,
    /// Makes what it is offered.
    candidates: Py<PyAny>,
    /// What an operation has found that has found nothing.
    nothing: Py<PyAny>,
    block_size: u32,
    names_victims: bool,
    heard: Subscriptions,
    /// A bit for each kind of event that a method of the policy handles.
    handled: u8,
    /// Numbers go out as float64.
    floats: bool,
    /// Candidates offered at a time; 0 offers all.
    window: usize,
    scratch: Mutex<Candidates>,
    turns: Turns,
}

impl PyEviction {
    /// Reads what the driver declares.
    fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            policy: driver.getattr("policy")?.unbind(),
            candidates: driver.getattr("candidates")?.unbind(),
            nothing: driver.getattr("nothing")?.unbind(),
            block_size: driver.getattr("block_size")?.extract()?,
            heard: Subscriptions {
                events: driver.getattr("wants_events")?.extract()?,
                keys: driver.getattr("wants_keys")?.extract()?,
                misses: driver.getattr("wants_missed")?.extract()?,
            },
            handled: driver.getattr("handled")?.extract()?,
            floats: driver.getattr("floats")?.extract()?,
            names_victims: driver.getattr("names_victims")?.extract()?,
            window: driver.getattr("window")?.extract()?,
            asker: Asker::new(driver, Column::by_name)?,
            scratch: Mutex::default(),
            turns: Turns::default(),
        })
    }

    /// For Python's garbage collector: a policy may hold whatever it ranks the blocks of.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.asker.traverse(visit)?;
        visit.call(&self.policy)?;
        visit.call(&self.candidates)?;
        visit.call(&self.nothing)
    }

    pub fn window(&self) -> usize {
        self.window
    }

    pub fn failures(&self) -> u64 {
        self.asker.failures()
    }

    fn hears(&self) -> bool {
        self.heard != Subscriptions::default()
    }

    /// Hold the turn from draining the journal until its events are delivered. `None` for a policy
    /// that hears no events, and if this thread has the turn already.
    pub fn turn(&self, py: Python<'_>) -> PyResult<Option<Turn<'_>>> {
        if self.hears() { self.turns.take(py) } else { Ok(None) }
    }

    /// A decision on `n` victims, to be filled in by the core; `done_with` takes its buffers back.
    pub fn decision(&self, n: usize) -> Decision {
        let kept = self.scratch.try_lock().map(|mut kept| std::mem::take(&mut *kept));
        let mut offer = kept.unwrap_or_default();
        offer.facts.want(self.asker.kinds().filter_map(Column::fact));
        Decision { n, offer, ..Decision::default() }
    }

    /// The decision is taken.
    pub fn done_with(&self, decision: Decision) {
        if let Ok(mut slot) = self.scratch.try_lock() {
            *slot = decision.offer;
        }
    }

    /// The policy's choice; `None` if it failed and may be passed over.
    pub fn ask(&self, py: Python<'_>, decision: &Decision) -> PyResult<Option<Choice>> {
        let places = self.asker.ask(py, |arrays| self.places(py, decision, arrays))?;
        Ok(places.map(|places| decision.offer.choice(&places)))
    }

    /// Hands events over outside a decision.
    pub fn deliver(&self, py: Python<'_>, journal: &Journal) -> PyResult<()> {
        self.asker.tell(py, || self.hand_over(py, journal))
    }

    fn hand_over(&self, py: Python<'_>, journal: &Journal) -> PyResult<()> {
        let runs = self.runs(py, journal)?;
        call_method(self.asker.driver(py), intern!(py, "deliver"), (runs,)).map(drop)
    }

    /// A list of (kind, blocks, their keys if they are wanted, tick): a call of the policy each.
    fn runs<'py>(&self, py: Python<'py>, journal: &Journal) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        let no_keys = words(py, &[])?;
        for run in journal.runs() {
            let (kind, tick) = (journal.kinds[run.start], journal.ticks[run.start]);
            if self.handled & (1 << kind) == 0 {
                continue;
            }
            let blocks = frozen(py, journal.blocks[run.clone()].to_vec())?;
            let keys = match journal.keys.get(run) {
                Some(keys) if EventKind::has_key(kind) => words(py, keys)?,
                _ => no_keys.clone(),
            };
            list.append((kind, blocks, keys, tick))?;
        }
        Ok(list)
    }

    /// Asks; the places in the offer that were answered.
    fn places(
        &self,
        py: Python<'_>,
        decision: &Decision,
        arrays: &mut Arrays,
    ) -> PyResult<Vec<u32>> {
        let (n, offer, policy) = (decision.n, &decision.offer, self.policy.bind(py));
        if self.hears() {
            self.hand_over(py, &decision.journal)?;
        }
        let offered = self.offered(py, decision, arrays)?;
        let all = offer.blocks.len();
        let wanted = n.min(all);
        let refuse = |why| raise(py, "PolicyError", why);
        let places = if self.names_victims {
            let unset = std::iter::repeat_n(-1_i64, wanted);
            let named = arrays.filled(py, "victims", unset, |out| {
                call_method(policy, intern!(py, "victims"), (n, offered, out))
            })?;
            victims(n, offer, named).map_err(refuse)?
        } else {
            let unset = std::iter::repeat_n(f64::NAN, all);
            let scores = arrays.filled(py, "score", unset, |out| {
                call_method(policy, intern!(py, "score"), (offered, out))
            })?;
            offer.check_scores(scores).map_err(refuse)?;
            offer.lowest(scores, n)
        };
        if places.len() < wanted {
            return Err(refuse(format!("named {} of {n} victims", places.len())));
        }
        Ok(places)
    }

    /// A `kvframe.policies.Candidates`.
    fn offered<'py>(
        &self,
        py: Python<'py>,
        decision: &Decision,
        arrays: &mut Arrays,
    ) -> PyResult<Bound<'py, PyAny>> {
        let column = |kind: Column, array: &mut _| kind.of(py, &decision.offer, self.floats, array);
        let columns = self.asker.columns(py, arrays, column)?;
        let (now, size, time) = (decision.now, self.block_size, decision.time);
        let found = match decision.found.as_slice() {
            [] => self.nothing.bind(py).clone(),
            found => frozen(py, found.to_vec())?,
        };
        call(self.candidates.bind(py), (now, size, columns, time, found, decision.capacity))
    }
}

fn victims(n: usize, offer: &Candidates, named: &[i64]) -> Result<Vec<u32>, String> {
    let ids = named.iter().take_while(|&&id| id != -1).take(n);
    let id = |&id| u32::try_from(id).map_err(|_| format!("victim {id} is not a block id"));
    offer.check(&ids.map(id).collect::<Result<Vec<u32>, String>>()?)
}
