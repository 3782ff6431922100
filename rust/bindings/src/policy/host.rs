//! A core behind its lock, beside the interpreter's; its eviction policy may live outside the core.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kvframe_core::Error;
use kvframe_core::policy::{Choice, Consult, Decision, Eviction};
use kvframe_core::tier::TierPolicy;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use super::eviction::{Policy, PyEviction};
use super::native::{self, Inside, Native};
use crate::calls::lock;
use crate::errors::raise;
use crate::fork;

/// Pools from here on are walked detached from the interpreter: 100 µs and more.
const LONG_BLOCKS: u32 = 1 << 12;

/// Events that wait for the next decision at the most.
const MANY_EVENTS: usize = 1 << 16;

/// The part of an eviction policy that lies outside the core.
pub enum Outside {
    /// It is a built-in one.
    Nothing,
    /// It is consulted without the lock.
    Python(Box<PyEviction>),
    /// It answers under the lock, and may not call back.
    Native(Native),
    /// Each tenant has one of its own, by number.
    PerTenant(Vec<Outside>),
}

impl Outside {
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Python(policy) => policy.traverse(visit),
            Self::Native(native) => native.traverse(visit),
            Self::PerTenant(all) => all.iter().try_for_each(|one| one.traverse(visit)),
        }
    }

    /// Whether there is one.
    pub fn is_any(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// The instance of that number.
    pub fn of(&self, instance: usize) -> &Self {
        match self {
            Self::PerTenant(all) => &all[instance.min(all.len() - 1)],
            one => one,
        }
    }

    /// Its instances.
    fn all(&self) -> &[Self] {
        if let Self::PerTenant(all) = self { all } else { std::slice::from_ref(self) }
    }

    /// Those that are compiled.
    pub fn natives(&self) -> impl Iterator<Item = &Native> {
        self.all().iter().filter_map(|one| match one {
            Self::Native(native) => Some(native),
            _ => None,
        })
    }

    /// The compiled one that speaks for all: one that failed, if any did.
    pub fn native(&self) -> Option<&Native> {
        self.natives().find(|native| native.failures() > 0).or_else(|| self.natives().next())
    }

    /// Decisions that the built-in order took for a policy that failed.
    pub fn failures(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Python(policy) => policy.failures(),
            Self::Native(native) => native.failures(),
            Self::PerTenant(all) => all.iter().map(Self::failures).sum(),
        }
    }

    /// Candidates that it is offered at a time.
    pub fn window(&self) -> Option<u32> {
        match self {
            Self::Nothing => None,
            Self::Python(policy) => Some(policy.window() as u32),
            Self::Native(native) => native.window(),
            Self::PerTenant(all) => all[0].window(),
        }
    }
}

/// The core, the lock around it, and the policy that is consulted for victims.
pub struct PolicyHost<C> {
    core: Mutex<C>,
    /// Changed under the lock of the core alone.
    outside: RwLock<Arc<Outside>>,
    /// Whether there is a part outside the core.
    consults: AtomicBool,
    /// Failures of policies that were replaced.
    past_failures: AtomicU64,
    /// The core's name in messages.
    what: &'static str,
    forks: u32,
}

impl<C: Consult + Send> PolicyHost<C> {
    /// `make` builds the core around the policy.
    pub fn new(
        py: Python<'_>,
        what: &'static str,
        policy: Policy,
        make: impl FnOnce(Box<dyn Eviction>) -> Result<C, Error>,
    ) -> PyResult<Self> {
        let Policy { eviction, outside, .. } = policy;
        let core = make(eviction).map_err(|e| native::from_core(py, &e, outside.native()))?;
        Ok(Self {
            core: Mutex::new(core),
            consults: AtomicBool::new(outside.is_any()),
            outside: RwLock::new(Arc::new(outside)),
            past_failures: AtomicU64::new(0),
            what,
            forks: fork::generation(),
        })
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.outside().traverse(visit)
    }

    /// The part of the present policy that lies outside the core.
    pub fn outside(&self) -> Arc<Outside> {
        self.outside.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decisions that the built-in order took for policies that failed.
    pub fn failures(&self) -> u64 {
        self.past_failures.load(Ordering::Relaxed) + self.outside().failures()
    }

    /// Whether `outside` is of the policy that ranks the blocks now: asked under the lock of the core.
    fn is_present(&self, outside: &Arc<Outside>) -> bool {
        Arc::ptr_eq(outside, &self.outside.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// `work` puts another policy into the core, of which `outside` lies outside. A decision of the old one that is
    /// under way is not taken.
    pub fn replace<T>(
        &self,
        py: Python<'_>,
        outside: Outside,
        work: impl FnOnce(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        let outside = Arc::new(outside);
        // A native policy is told of the blocks there are, and may not call back either.
        let guard = match outside.native() {
            Some(_) if self.outside().native().is_none() => Some(self.guard(py)?),
            _ => None,
        };
        let done = self.locked(py, |core| {
            let done = work(core)?;
            let mut place = self.outside.write().unwrap_or_else(PoisonError::into_inner);
            self.past_failures.fetch_add(place.failures(), Ordering::Relaxed);
            self.consults.store(outside.is_any(), Ordering::Release);
            let before = std::mem::replace(&mut *place, outside.clone());
            Ok((done, before))
        })?;
        drop(guard);
        match done {
            Ok((done, _before)) => {
                self.tell_faults(py);
                Ok(done)
            }
            Err(error) => Err(native::from_core(py, &error, outside.native())),
        }
    }

    /// Whether a policy outside the core names the victims.
    pub fn consults(&self) -> bool {
        self.consults.load(Ordering::Acquire)
    }

    // --- the lock -------------------------------------------------------------------------------

    /// Work on the locked core; refused in a forked child. A native policy may not call back, and
    /// its faults are reported.
    pub fn locked<T>(&self, py: Python<'_>, work: impl FnOnce(&mut C) -> T) -> PyResult<T> {
        if self.forks != fork::generation() {
            let belongs = "belongs to the parent of a fork; make one in the child";
            return Err(raise(py, "HandleError", format!("this {} {belongs}", self.what)));
        }
        let inside = self.enter(py)?;
        let Ok(mut core) = lock(py, &self.core)? else { return Err(self.broken(py)) };
        let done = work(&mut core);
        drop((core, inside));
        self.tell_faults(py);
        Ok(done)
    }

    /// [`Self::locked`] for work that grows with the pool: detached from the interpreter where that is
    /// large, so that other threads run meanwhile.
    pub fn locked_long<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut C) -> T + Send,
    ) -> PyResult<T> {
        if self.locked(py, |core| core.consulted().1.pool.created())? < LONG_BLOCKS {
            return self.locked(py, work);
        }
        let inside = self.enter(py)?;
        let done = py.detach(|| self.core.lock().ok().map(|mut core| work(&mut core)));
        drop(inside);
        self.tell_faults(py);
        done.ok_or_else(|| self.broken(py))
    }

    fn enter(&self, py: Python<'_>) -> PyResult<Option<Inside>> {
        if !self.consults() || self.outside().native().is_none() {
            return Ok(None);
        }
        self.guard(py).map(Some)
    }

    fn guard(&self, py: Python<'_>) -> PyResult<Inside> {
        if let Some(inside) = Inside::enter(std::ptr::from_ref(self).addr()) {
            return Ok(inside);
        }
        let what = self.what;
        let message = format!("a native policy has called its own {what}, which waits for it");
        Err(raise(py, "HandleError", message))
    }

    fn tell_faults(&self, py: Python<'_>) {
        if !self.consults() {
            return;
        }
        for native in self.outside().natives() {
            native.report(py);
        }
    }

    fn broken(&self, py: Python<'_>) -> PyErr {
        let message = format!("a call failed half-way before; the {} refuses to go on", self.what);
        raise(py, "IntegrityError", message)
    }

    /// The exception of a core error, which may be the policy's own.
    pub fn error(&self, py: Python<'_>, error: &Error) -> PyErr {
        match (error, self.outside().native()) {
            (Error::NeedVictims { .. }, Some(native)) => native.refusal(py),
            (error, native) => native::from_core(py, error, native),
        }
    }

    // --- work that the policy takes part in -------------------------------------------------------

    /// Work that needs no victims. Events that have accumulated are first delivered to a policy in
    /// Python, so that an interrupt arrives before the work begins.
    pub fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        self.deliver_events(py)?;
        self.locked(py, work)?.map_err(|e| self.error(py, &e))
    }

    /// [`Self::with`] for work that may need victims: the policy is asked for them between two tries, as often
    /// as it takes.
    pub fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut C) -> Result<T, Error>,
    ) -> PyResult<T> {
        self.deliver_events(py)?;
        loop {
            let ended = match self.locked(py, &mut work)? {
                Err(Error::NeedVictims { n }) => match self.find_victims(py, n) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                outcome => outcome.map_err(|e| self.error(py, &e)),
            };
            if self.consults() {
                self.locked(py, C::settle_choice)?;
            }
            return ended;
        }
    }

    /// Has the policy choose `n` victims for the operation that follows: one in Python without the lock,
    /// a native one under it.
    pub fn find_victims(&self, py: Python<'_>, n: u32) -> PyResult<()> {
        let outside = self.outside();
        let at = if matches!(*outside, Outside::PerTenant(_)) {
            self.locked(py, C::instance)?
        } else {
            0
        };
        let decide = |core: &mut C| {
            core.ask_instance(at);
            core.decide(n)
        };
        let policy = match outside.of(at) {
            Outside::Python(policy) => policy,
            // Replaced by one of the core since.
            Outside::Nothing if !outside.is_any() => return Ok(()),
            Outside::Native(_) if self.locked(py, decide)? => return Ok(()),
            _ => return Err(self.error(py, &Error::NeedVictims { n })),
        };
        let Some((decision, choice)) = self.ask(py, (&outside, policy), at, n as usize)? else {
            return Ok(());
        };
        self.locked(py, |core| {
            if self.is_present(&outside) {
                core.ask_instance(at);
                core.decided(decision.n, choice.as_ref());
            }
        })?;
        policy.done_with(decision);
        Ok(())
    }

    /// A decision of `policy`; none if it has been replaced.
    fn ask(
        &self,
        py: Python<'_>,
        (outside, policy): (&Arc<Outside>, &PyEviction),
        at: usize,
        n: usize,
    ) -> PyResult<Option<(Decision, Option<Choice>)>> {
        let _turn = policy.turn(py)?;
        let mut decision = policy.decision(n);
        let asks = self.locked(py, |core| {
            let is_present = self.is_present(outside);
            if is_present {
                core.ask_instance(at);
                core.consult(policy.window(), &mut decision);
            }
            is_present
        })?;
        if !asks {
            return Ok(None);
        }
        let choice = policy.ask(py, &decision)?;
        Ok(Some((decision, choice)))
    }

    /// Delivers events to a policy that has not been asked for so long that they accumulate.
    pub fn deliver_events(&self, py: Python<'_>) -> PyResult<()> {
        if !self.consults() {
            return Ok(());
        }
        let present = self.outside();
        for (at, outside) in present.all().iter().enumerate() {
            let Outside::Python(policy) = outside else { continue };
            let many = |core: &mut C| {
                core.ask_instance(at);
                core.journal_len() >= MANY_EVENTS
            };
            if self.locked(py, many)? {
                let _turn = policy.turn(py)?;
                let journal = self.locked(py, |core| {
                    core.ask_instance(at);
                    self.is_present(&present).then(|| core.take_journal())
                })?;
                let Some(journal) = journal else { return Ok(()) };
                policy.deliver(py, &journal)?;
            }
        }
        Ok(())
    }

    /// A tier's first `most` blocks without an owner in the order in which they would be evicted now; a policy
    /// outside the core is asked for it, and where it fails the built-in order decides.
    pub fn order(
        &self,
        py: Python<'_>,
        tier: fn(&mut C) -> &mut TierPolicy,
        most: u32,
    ) -> PyResult<Vec<u32>> {
        let outside = self.outside();
        let Outside::Python(policy) = &*outside else {
            let told = self.locked(py, |core| tier(core).ranking(most))?;
            return told.map_err(|e| self.error(py, &e));
        };
        let n = self.locked(py, |core| tier(core).pool().cached())?.min(most);
        let asked = self.ask(py, (&outside, policy), 0, n as usize)?;
        let choice = asked.and_then(|(decision, choice)| {
            policy.done_with(decision);
            choice
        });
        match choice {
            Some(choice) => Ok(choice.blocks),
            None => self.locked(py, |core| tier(core).order(n)),
        }
    }
}
