//! A Python policy's verdict, asked for without the core's lock.

use std::sync::Mutex;

use kvframe_core::policy::{Candidates, Journal};
use kvframe_core::pool::NIL;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::intern;
use pyo3::prelude::*;

use crate::driver::{Driver, frozen, unchanged};
use crate::errors::raise;

/// A policy written in Python, behind `kvframe.policies.batched.Driver`.
pub struct Judge {
    driver: Driver<Column>,
    names_victims: bool,
    /// Candidates offered at a time; 0 offers all.
    window: usize,
    strict: bool,
    scratch: Mutex<Candidates>,
}

/// The order in which offered blocks should die.
pub struct Verdict {
    pub blocks: Vec<u32>,
    pub generations: Vec<u32>,
}

impl Judge {
    /// Reads what the driver declares: `columns`, `names_victims`, `window`.
    pub fn new(driver: &Bound<'_, PyAny>, strict: bool) -> PyResult<Self> {
        Ok(Self {
            names_victims: driver.getattr("names_victims")?.extract()?,
            window: driver.getattr("window")?.extract()?,
            driver: Driver::new(driver, Column::by_name)?,
            strict,
            scratch: Mutex::default(),
        })
    }

    /// Whether the policy keeps books of its own.
    pub fn wants_events(driver: &Bound<'_, PyAny>) -> PyResult<bool> {
        driver.getattr("wants_events")?.extract()
    }

    pub fn window(&self) -> usize {
        self.window
    }

    pub fn failures(&self) -> u64 {
        self.driver.failures()
    }

    /// A buffer for an offer, which `done_with` takes back.
    pub fn spare(&self) -> Candidates {
        self.scratch.try_lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default()
    }

    /// Gives the buffer back.
    pub fn done_with(&self, candidates: Candidates) {
        if let Ok(mut slot) = self.scratch.try_lock() {
            *slot = candidates;
        }
    }

    /// The policy's choice of `n` among `offer`. `Ok(None)` if it failed and may be passed over.
    ///
    /// Errors: the policy's own where it is strict, and interrupts always.
    pub fn ask(
        &self,
        py: Python<'_>,
        n: usize,
        now: u64,
        offer: &Candidates,
        journal: &Journal,
    ) -> PyResult<Option<Verdict>> {
        match self.consult(py, n, now, offer, journal) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(error) => self.driver.failed(py, error, self.strict).map(|()| None),
        }
    }

    /// Hands events over outside a decision.
    pub fn deliver(&self, py: Python<'_>, journal: &Journal) -> PyResult<()> {
        let events = events(py, journal)?;
        match self.driver.bind(py).call_method1("deliver", (events,)) {
            Ok(_) => Ok(()),
            Err(error) => self.driver.failed(py, error, false),
        }
    }

    fn consult(
        &self,
        py: Python<'_>,
        n: usize,
        now: u64,
        offer: &Candidates,
        journal: &Journal,
    ) -> PyResult<Verdict> {
        let driver = self.driver.bind(py);
        let columns = self.driver.columns(py, |kind| column(py, kind, offer))?;
        let events = events(py, journal)?;
        let wanted = n.min(offer.blocks.len());
        let places = if self.names_victims {
            let out = PyArray1::<i64>::from_vec(py, vec![-1; wanted]).into_any();
            driver.call_method1(intern!(py, "name_victims"), (n, now, columns, events, &out))?;
            victims(py, n, offer, &unchanged::<i64>(&out, wanted)?)?
        } else {
            let out = PyArray1::<f64>::from_vec(py, vec![f64::NAN; offer.blocks.len()]).into_any();
            driver.call_method1(intern!(py, "score"), (n, now, columns, events, &out))?;
            let scores = unchanged::<f64>(&out, offer.blocks.len())?;
            let scores = scores.as_slice()?;
            if let Some(i) = scores.iter().position(|s| s.is_nan()) {
                let (block, all) = (offer.blocks[i], scores.len());
                let message = format!("score {i} of {all} (block {block}) is NaN or unset");
                return Err(raise(py, "PolicyError", message));
            }
            offer.lowest(scores, n)
        };
        if places.len() < wanted {
            let message = format!("named {} of {n} victims", places.len());
            return Err(raise(py, "PolicyError", message));
        }
        Ok(Verdict {
            blocks: places.iter().map(|&p| offer.blocks[p as usize]).collect(),
            generations: places.iter().map(|&p| offer.generations[p as usize]).collect(),
        })
    }
}

type Events<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

fn events<'py>(py: Python<'py>, journal: &Journal) -> PyResult<Option<Events<'py>>> {
    if journal.kinds.is_empty() {
        return Ok(None);
    }
    let Journal { kinds, blocks, ticks } = journal.clone();
    Ok(Some((frozen(py, kinds)?, frozen(py, blocks)?, frozen(py, ticks)?)))
}

fn victims(
    py: Python<'_>,
    n: usize,
    offer: &Candidates,
    named: &PyReadonlyArray1<'_, i64>,
) -> PyResult<Vec<u32>> {
    let ids: Vec<u32> = named
        .as_slice()?
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

/// A column of the offer, by the name that a policy asks for it with.
#[derive(Debug, Clone, Copy)]
enum Column {
    Block,
    Depth,
    Parent,
    LastUse,
    Inserted,
    Uses,
    Reach,
    Session,
    Turn,
    RequestClass,
    Priority,
}

impl Column {
    fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "block" => Self::Block,
            "depth" => Self::Depth,
            "parent" => Self::Parent,
            "last_use" => Self::LastUse,
            "inserted" => Self::Inserted,
            "uses" => Self::Uses,
            "reach" => Self::Reach,
            "session" => Self::Session,
            "turn" => Self::Turn,
            "request_class" => Self::RequestClass,
            "priority" => Self::Priority,
            _ => return None,
        })
    }
}

fn column<'py>(py: Python<'py>, kind: Column, offer: &Candidates) -> PyResult<Bound<'py, PyAny>> {
    let rows = &offer.rows;
    match kind {
        Column::Block => frozen(py, offer.blocks.iter().map(|&b| i64::from(b)).collect()),
        Column::Depth => frozen(py, offer.depths.clone()),
        Column::Parent => {
            let place = |&p: &u32| if p == NIL { -1 } else { i64::from(p) };
            frozen(py, offer.parents.iter().map(place).collect())
        }
        Column::LastUse => frozen(py, rows.iter().map(|r| r.last_use).collect()),
        Column::Inserted => frozen(py, rows.iter().map(|r| r.inserted).collect()),
        Column::Uses => frozen(py, rows.iter().map(|r| r.uses).collect()),
        Column::Reach => frozen(py, rows.iter().map(|r| r.reach).collect()),
        Column::Session => frozen(py, rows.iter().map(|r| r.meta.session).collect()),
        Column::Turn => frozen(py, rows.iter().map(|r| r.meta.turn).collect()),
        Column::RequestClass => frozen(py, rows.iter().map(|r| r.meta.class).collect()),
        Column::Priority => frozen(py, rows.iter().map(|r| r.meta.priority).collect()),
    }
}
