//! A core behind a lock whose cached blocks are ranked by a policy that may be in Python.

use std::sync::{Mutex, PoisonError};

use kvframe_core::Error;
use kvframe_core::policy::Candidates;
use kvframe_core::tier::TierPolicy;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::{from_core, raise};
use crate::fork;
use crate::judge::{Judge, Verdict};
use crate::manager::Policy;

/// Events that wait for the next decision at the most.
const MANY_EVENTS: usize = 1 << 16;

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
    what: &'static str,
    forks: u32,
}

impl<C: Tiered> Judged<C> {
    /// `what` names the thing in messages; `make` builds it around the policy.
    pub fn new(
        py: Python<'_>,
        what: &'static str,
        policy: Policy,
        make: impl FnOnce(Box<dyn kvframe_core::policy::Eviction>) -> Result<C, Error>,
    ) -> PyResult<Self> {
        if policy.native.is_some() {
            let limit = "a native policy ranks the blocks of a manager, not those of a";
            return Err(raise(py, "PolicyError", format!("{}: {limit} {what}", policy.name)));
        }
        let core = make(policy.eviction).map_err(|e| from_core(py, &e))?;
        Ok(Self { core: Mutex::new(core), judge: policy.judge, what, forks: fork::generation() })
    }

    /// The policy in Python.
    pub fn judge(&self) -> Option<&Judge> {
        self.judge.as_ref()
    }

    pub fn locked<T>(&self, py: Python<'_>, work: impl FnOnce(&mut C) -> T) -> PyResult<T> {
        if self.forks != fork::generation() {
            let message = format!(
                "this {} belongs to the parent of a fork; make one in the child",
                self.what
            );
            return Err(raise(py, "HandleError", message));
        }
        let mut core = self.core.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        Ok(work(&mut core))
    }

    pub fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        let outcome = self.locked(py, work)?.map_err(|e| from_core(py, &e))?;
        if let Some(judge) = &self.judge
            && self.locked(py, |core| core.tier().journal_len())? >= MANY_EVENTS
        {
            let journal = self.locked(py, |core| core.tier().take_journal())?;
            judge.deliver(py, &journal)?;
        }
        Ok(outcome)
    }

    /// The same for what may need victims: a policy in Python is asked without the lock.
    pub fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        loop {
            let outcome = self.locked(py, &mut work)?;
            match (outcome, &self.judge) {
                (Err(Error::NeedVictims { n }), Some(judge)) => {
                    let (offer, verdict) = self.ask(py, judge, n as usize)?;
                    let (blocks, generations) =
                        verdict.map_or_else(Default::default, |v| (v.blocks, v.generations));
                    self.locked(py, |core| core.tier().choose(n, &blocks, &generations))?;
                    judge.done_with(offer);
                }
                (outcome, _) => return outcome.map_err(|e| from_core(py, &e)),
            }
        }
    }

    /// Asks for the `n` blocks that would die now.
    pub fn ask(
        &self,
        py: Python<'_>,
        judge: &Judge,
        n: usize,
    ) -> PyResult<(Candidates, Option<Verdict>)> {
        let window = judge.window();
        let limit = if window == 0 { 0 } else { window.max(n) };
        let mut offer = judge.gather(|_| {});
        let (now, journal) = self.locked(py, |core| {
            let journal = core.tier().candidates(limit, &mut offer);
            (core.tier().now(), journal)
        })?;
        let verdict = judge.ask(py, n, now, &offer, &journal)?;
        Ok((offer, verdict))
    }

    /// Decisions that the built-in order took for a policy that failed.
    pub fn failures(&self) -> u64 {
        self.judge.as_ref().map_or(0, Judge::failures)
    }
}
