//! `TierPolicy`: the blocks of a tier without prefixes, under one policy.

use std::sync::{Mutex, PoisonError};

use kvframe_core::Error;
use kvframe_core::hash::Key;
use kvframe_core::policy::{Candidates, Why};
use kvframe_core::sequence::Meta;
use kvframe_core::tier::{Known, TierPolicy as Core};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::errors::{from_core, raise};
use crate::fork;
use crate::judge::{Judge, Verdict};
use crate::manager::make_policy;

/// Events that wait for the next decision at the most.
pub const MANY_EVENTS: usize = 1 << 16;

/// (session, turn, class, priority, tokens) of the request that uses blocks.
pub type KnownTuple = (u64, u32, u32, i32, u32);

/// The core of a tier as the package sees it; `kvframe.tier.TierPolicy` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TierPolicy {
    core: Mutex<Core>,
    judge: Option<Judge>,
    forks: u32,
}

/// As the core has it.
pub fn known((session, turn, class, priority, tokens): KnownTuple) -> Known {
    Known { meta: Meta { session, turn, class, priority }, tokens }
}

impl TierPolicy {
    fn locked<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> T) -> PyResult<T> {
        if self.forks != fork::generation() {
            let message = "this tier belongs to the parent of a fork; make one in the child";
            return Err(raise(py, "HandleError", message.into()));
        }
        let mut core = self.core.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner);
        Ok(work(&mut core))
    }

    fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        let outcome = self.locked(py, work)?.map_err(|e| from_core(py, &e))?;
        if let Some(judge) = &self.judge
            && self.locked(py, Core::journal_len)? >= MANY_EVENTS
        {
            let journal = self.locked(py, Core::take_journal)?;
            judge.deliver(py, &journal)?;
        }
        Ok(outcome)
    }

    /// The same for what may need victims: a policy in Python is asked without the lock.
    fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        loop {
            let outcome = self.locked(py, &mut work)?;
            match (outcome, &self.judge) {
                (Err(Error::NeedVictims { n }), Some(judge)) => {
                    let (offer, verdict) = self.ask(py, judge, n as usize)?;
                    let (blocks, generations) =
                        verdict.map_or_else(Default::default, |v| (v.blocks, v.generations));
                    self.locked(py, |core| core.choose(n, &blocks, &generations))?;
                    judge.done_with(offer);
                }
                (outcome, _) => return outcome.map_err(|e| from_core(py, &e)),
            }
        }
    }

    fn ask(
        &self,
        py: Python<'_>,
        judge: &Judge,
        n: usize,
    ) -> PyResult<(Candidates, Option<Verdict>)> {
        let window = judge.window();
        let limit = if window == 0 { 0 } else { window.max(n) };
        let mut offer = judge.gather(|_| {});
        let (now, journal) = self.locked(py, |core| {
            let journal = core.candidates(limit, &mut offer);
            (core.now(), journal)
        })?;
        let verdict = judge.ask(py, n, now, &offer, &journal)?;
        Ok((offer, verdict))
    }
}

#[pymethods]
impl TierPolicy {
    /// An empty tier; `policy` is a built-in's name or a driver of a Python policy.
    #[new]
    #[pyo3(signature = (*, blocks, policy, policy_options=None, strict=false))]
    fn new(
        py: Python<'_>,
        blocks: u32,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
        strict: bool,
    ) -> PyResult<Self> {
        let made = make_policy(py, policy, policy_options, strict)?;
        if made.native.is_some() {
            let limit = "a native policy ranks the blocks of a manager, not those of a tier";
            return Err(raise(py, "PolicyError", format!("{}: {limit}", made.name)));
        }
        let core = Mutex::new(Core::new(blocks, made.eviction));
        Ok(Self { core, judge: made.judge, forks: fork::generation() })
    }

    /// Blocks under these 16-byte digests are about to be got.
    fn missed(&self, py: Python<'_>, digests: Vec<[u8; 16]>) -> PyResult<()> {
        let keys: Vec<Key> = digests.into_iter().map(|d| Key(u128::from_le_bytes(d))).collect();
        self.locked(py, |core| core.missed(&keys))
    }

    /// A block enters, owned once.
    fn insert(
        &self,
        py: Python<'_>,
        digest: [u8; 16],
        depth: u32,
        using: KnownTuple,
    ) -> PyResult<u32> {
        self.with(py, |core| core.insert(Key(u128::from_le_bytes(digest)), depth, known(using)))
    }

    /// An admission found blocks.
    fn hit(&self, py: Python<'_>, blocks: Vec<u32>, using: KnownTuple) -> PyResult<()> {
        self.with(py, |core| core.hit(&blocks, known(using)))
    }

    /// Blocks become recent without a use.
    fn refresh(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.with(py, |core| core.refresh(&blocks))
    }

    /// An owner more for each.
    fn claim(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.with(py, |core| core.claim(&blocks))
    }

    /// An owner less for each.
    fn release(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.with(py, |core| core.release(&blocks))
    }

    /// Blocks leave; `evicted` as if they had been victims.
    fn remove(&self, py: Python<'_>, blocks: Vec<u32>, evicted: bool) -> PyResult<()> {
        let why = if evicted { Why::Evicted } else { Why::Invalidated };
        self.with(py, |core| core.remove(&blocks, why))
    }

    /// The next to die, which have left; None if there are fewer.
    fn victims(&self, py: Python<'_>, n: u32, spared: Vec<u32>) -> PyResult<Option<Vec<u32>>> {
        self.with_victims(py, |core| core.victims(n, &spared))
    }

    /// The next to die, which stays.
    fn next(&self, py: Python<'_>, spared: Vec<u32>) -> PyResult<Option<u32>> {
        self.with_victims(py, |core| core.next(&spared))
    }

    /// Blocks nobody owns in the order they would die now; a policy in Python is asked for it.
    fn order(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let n = self.locked(py, |core| core.pool().cached())? as usize;
        if let Some(judge) = &self.judge
            && let (offer, Some(verdict)) = self.ask(py, judge, n)?
        {
            judge.done_with(offer);
            return Ok(verdict.blocks);
        }
        self.locked(py, |core| core.order())
    }

    /// (free, cached, referenced) blocks.
    fn counts(&self, py: Python<'_>) -> PyResult<(u32, u32, u32)> {
        self.locked(py, |core| (core.pool().free(), core.pool().cached(), core.pool().referenced()))
    }

    /// Another capacity.
    fn resize(&self, py: Python<'_>, blocks: u32) -> PyResult<()> {
        self.with(py, |core| core.resize(blocks))
    }

    /// Decisions that the built-in order took for a policy that failed.
    fn failures(&self) -> u64 {
        self.judge.as_ref().map_or(0, Judge::failures)
    }

    /// Recounts the books.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |core| core.check_integrity())
    }
}
