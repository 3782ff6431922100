//! A core behind a lock whose cached blocks are ranked by a policy that may be in Python, or compiled.

use std::sync::{Mutex, PoisonError};

use kvframe_core::Error;
use kvframe_core::tier::TierPolicy;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::calls::lock;
use crate::errors::raise;
use crate::fork;
use crate::judge::{Decision, Judge, MANY_EVENTS, Verdict};
use crate::manager::Policy;
use crate::native::{self, Inside, Native};

/// What has blocks without prefixes in it.
pub trait Tiered {
    /// Those blocks.
    fn tier(&mut self) -> &mut TierPolicy;
}

impl Tiered for TierPolicy {
    fn tier(&mut self) -> &mut TierPolicy {
        self
    }
}

/// The core, the lock around it, and who is asked for victims without the lock.
pub struct Judged<C> {
    core: Mutex<C>,
    judge: Option<Judge>,
    native: Option<Native>,
    what: &'static str,
    forks: u32,
}

impl<C: Tiered + Send> Judged<C> {
    /// `what` names the thing in messages; `make` builds it around the policy.
    pub fn new(
        py: Python<'_>,
        what: &'static str,
        policy: Policy,
        make: impl FnOnce(Box<dyn kvframe_core::policy::Eviction>) -> Result<C, Error>,
    ) -> PyResult<Self> {
        let Policy { eviction, judge, native, .. } = policy;
        let core = make(eviction).map_err(|e| native::from_core(py, &e, native.as_ref()))?;
        Ok(Self { core: Mutex::new(core), judge, native, what, forks: fork::generation() })
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.judge.as_ref().map_or(Ok(()), |judge| judge.traverse(visit))?;
        self.native.as_ref().map_or(Ok(()), |native| native.traverse(visit))
    }

    pub fn locked<T>(&self, py: Python<'_>, work: impl FnOnce(&mut C) -> T) -> PyResult<T> {
        if self.forks != fork::generation() {
            let message = format!(
                "this {} belongs to the parent of a fork; make one in the child",
                self.what
            );
            return Err(raise(py, "HandleError", message));
        }
        let done = {
            let _inside = self.enter(py)?;
            let core = lock(py, &self.core)?;
            work(&mut core.unwrap_or_else(PoisonError::into_inner))
        };
        if let Some(native) = &self.native {
            native.report(py);
        }
        Ok(done)
    }

    /// A native policy may not call back.
    fn enter(&self, py: Python<'_>) -> PyResult<Option<Inside>> {
        if self.native.is_none() {
            return Ok(None);
        }
        if let Some(inside) = Inside::enter(std::ptr::from_ref(self).addr()) {
            return Ok(Some(inside));
        }
        let message =
            format!("a native policy has called its own {}, which waits for it", self.what);
        Err(raise(py, "HandleError", message))
    }

    fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        match (error, &self.native) {
            (Error::NeedVictims { .. }, Some(native)) => native.refusal(py),
            (error, native) => native::from_core(py, error, native.as_ref()),
        }
    }

    /// Work that asks nobody; a policy in Python is told before it what waits, so that an interrupt
    /// comes before anything is done.
    pub fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        if let Some(judge) = &self.judge
            && self.locked(py, |core| core.tier().journal_len())? >= MANY_EVENTS
        {
            let _turn = judge.turn(py)?;
            let journal = self.locked(py, |core| core.tier().take_journal())?;
            judge.deliver(py, &journal)?;
        }
        self.locked(py, work)?.map_err(|e| self.error(py, &e))
    }

    /// The same for what may need victims: a policy in Python is asked without the lock, a compiled
    /// one under it.
    pub fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        loop {
            let outcome = self.locked(py, |core| match work(core) {
                Err(Error::NeedVictims { n }) if self.native.is_some() && core.tier().decide(n) => {
                    work(core)
                }
                outcome => outcome,
            })?;
            match (outcome, &self.judge) {
                (Err(Error::NeedVictims { n }), Some(judge)) => {
                    let (decision, verdict) = self.ask(py, judge, n as usize)?;
                    let (blocks, generations) =
                        verdict.map_or_else(Default::default, |v| (v.blocks, v.generations));
                    self.locked(py, |core| core.tier().choose(n, &blocks, &generations))?;
                    judge.done_with(decision);
                }
                (outcome, _) => return outcome.map_err(|e| self.error(py, &e)),
            }
        }
    }

    /// Asks for the `n` blocks that would be evicted now.
    pub fn ask(
        &self,
        py: Python<'_>,
        judge: &Judge,
        n: usize,
    ) -> PyResult<(Decision, Option<Verdict>)> {
        let window = judge.window();
        let limit = if window == 0 { 0 } else { window.max(n) };
        let _turn = judge.turn(py)?;
        let mut decision = judge.decision(n);
        self.locked(py, |core| {
            decision.journal = core.tier().candidates(limit, &mut decision.offer);
            decision.now = core.tier().now();
        })?;
        let verdict = judge.ask(py, &decision)?;
        Ok((decision, verdict))
    }

    /// Blocks nobody owns in the order they would be evicted now; a policy from outside is asked for it.
    pub fn order(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let n = self.locked(py, |core| core.tier().pool().cached())? as usize;
        if let Some(judge) = &self.judge
            && let (decision, Some(verdict)) = self.ask(py, judge, n)?
        {
            judge.done_with(decision);
            return Ok(verdict.blocks);
        }
        let judged = self.judge.is_some(); // it failed: the built-in order decides
        let order =
            |core: &mut C| if judged { Ok(core.tier().order()) } else { core.tier().ranking() };
        self.locked(py, order)?.map_err(|e| self.error(py, &e))
    }

    /// Decisions that the built-in order took for a policy that failed.
    pub fn failures(&self) -> u64 {
        let native = self.native.as_ref().map_or(0, Native::failures);
        self.judge.as_ref().map_or(native, Judge::failures)
    }
}
