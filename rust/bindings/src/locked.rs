//! The way to the core: its lock, the interpreter beside it, and victims named by a policy in Python.

use kvframe_core::{Error, Manager as Core};
use pyo3::prelude::*;

use crate::calls::lock;
use crate::errors::{from_core, raise};
use crate::fork;
use crate::judge::{Judge, MANY_EVENTS};
use crate::manager::Manager;
use crate::native::{Inside, Native};

/// Pools from here on are walked detached from the interpreter: 100 µs and more.
const LONG_BLOCKS: u32 = 1 << 12;

fn broken(py: Python<'_>) -> PyErr {
    let message = "a call failed half-way before; the manager refuses to go on";
    raise(py, "IntegrityError", message.into())
}

/// Work that may need victims of a native policy: it answers under the same lock. Want of victims is
/// the outcome only where the policy decides nothing more.
fn with_native_victims<T>(
    core: &mut Core,
    work: &mut impl FnMut(&mut Core) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut outcome = work(core);
    while let Err(Error::NeedVictims { n }) = outcome {
        if !core.decide(n) {
            break;
        }
        outcome = work(core);
    }
    core.settle_choice();
    outcome
}

impl Manager {
    /// The locked core; refuses in a forked child.
    pub(crate) fn locked<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T,
    ) -> PyResult<T> {
        if self.forks != fork::generation() {
            let message = "this manager belongs to the parent of a fork; make one in the child";
            return Err(raise(py, "HandleError", message.into()));
        }
        if self.native.is_some() {
            return self.locked_native(py, work);
        }
        let Ok(mut core) = lock(py, &self.core)? else {
            return Err(broken(py));
        };
        Ok(work(&mut core))
    }

    /// The same over a native policy: it may not call back, and its faults are told.
    fn locked_native<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> T) -> PyResult<T> {
        let done = {
            let _inside = self.enter(py)?;
            let Ok(mut core) = lock(py, &self.core)? else {
                return Err(broken(py));
            };
            work(&mut core)
        };
        self.report_faults(py);
        Ok(done)
    }

    fn enter(&self, py: Python<'_>) -> PyResult<Inside> {
        let entered = Inside::enter(std::ptr::from_ref(self).addr());
        let message = "a native policy has called its own manager, which waits for it";
        entered.ok_or_else(|| raise(py, "HandleError", message.into()))
    }

    fn report_faults(&self, py: Python<'_>) {
        if let Some(native) = &self.native {
            native.report(py);
        }
    }

    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        self.changing(py, work)?.map_err(|e| from_core(py, &e))
    }

    /// Work that may change how scarce room is: tells whoever listens, once the lock is free.
    pub(crate) fn changing<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T,
    ) -> PyResult<T> {
        let mut changed = false;
        let outcome = self.locked(py, |core| {
            let outcome = work(core);
            changed = self.watch(core);
            outcome
        })?;
        if changed {
            self.listeners.notify(py);
        }
        Ok(outcome)
    }

    /// Moves the pressure level; whether there is something to tell.
    pub(crate) fn watch(&self, core: &mut Core) -> bool {
        core.watch().inspect(|&change| self.listeners.note(change)).is_some()
    }

    /// The same for work that grows with the pool: detached from the interpreter where that is
    /// large, so that other threads run meanwhile.
    pub(crate) fn locked_long<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T + Send,
    ) -> PyResult<T> {
        let long = self.locked(py, |core| core.pool().created() >= LONG_BLOCKS)?;
        if !long {
            return self.locked(py, work);
        }
        let inside = if self.native.is_some() { Some(self.enter(py)?) } else { None };
        let done = py.detach(|| self.core.lock().ok().map(|mut core| work(&mut core)));
        drop(inside);
        self.report_faults(py);
        done.ok_or_else(|| broken(py))
    }

    /// `changing` for such work.
    pub(crate) fn changing_long<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T + Send,
    ) -> PyResult<T> {
        let outcome = self.locked_long(py, work)?;
        self.changing(py, |_| ())?;
        Ok(outcome)
    }

    /// The same for what may need victims: a policy in Python is asked without the lock, as often
    /// as it takes. It is told what waits first: an interrupt then comes before anything is done.
    pub(crate) fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut Core) -> Result<T, Error>,
    ) -> PyResult<Result<T, Error>> {
        let native = self.native.is_some();
        self.deliver_events(py)?;
        loop {
            let tried = self.locked(py, |core| {
                if native { with_native_victims(core, &mut work) } else { work(core) }
            })?;
            match tried {
                Err(Error::NeedVictims { n }) => {
                    if let Err(error) = self.find_victims(py, n) {
                        self.locked(py, Core::settle_choice)?;
                        return Err(error);
                    }
                }
                outcome => {
                    if self.judge.is_some() {
                        self.locked(py, Core::settle_choice)?;
                    }
                    // A refusal changes nothing.
                    if outcome.is_ok() {
                        self.changing(py, |_| ())?;
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    pub(crate) fn find_victims(&self, py: Python<'_>, n: u32) -> PyResult<()> {
        if let Some(native) = &self.native {
            return Err(native.refusal(py));
        }
        let Some(judge) = &self.judge else {
            return Err(from_core(py, &Error::NeedVictims { n }));
        };
        let n = n as usize;
        let _turn = judge.turn(py)?;
        let mut decision = judge.decision(n);
        self.locked(py, |core| {
            core.candidates(n, judge.window(), &mut decision.offer);
            decision.journal = core.take_journal();
            decision.found = core.found();
            decision.time = core.time();
            decision.now = core.now();
        })?;
        let verdict = judge.ask(py, &decision)?;
        self.locked(py, |core| match &verdict {
            Some(v) if v.blocks.len() >= n => core.choose(&v.blocks, &v.generations),
            _ => drop(core.fall_back(n)),
        })?;
        judge.done_with(decision);
        Ok(())
    }

    /// How often the policy failed and the built-in order stood in.
    pub(crate) fn judge_failures(&self) -> u64 {
        let native = self.native.as_ref().map_or(0, Native::failures);
        self.judge.as_ref().map_or(native, Judge::failures)
    }

    /// Hands a policy its events where it has not been asked for so long that they pile up.
    pub(crate) fn deliver_events(&self, py: Python<'_>) -> PyResult<()> {
        let Some(judge) = &self.judge else { return Ok(()) };
        if self.locked(py, Core::journal_len)? >= MANY_EVENTS {
            let _turn = judge.turn(py)?;
            let journal = self.locked(py, Core::take_journal)?;
            judge.deliver(py, &journal)?;
        }
        Ok(())
    }

    pub(crate) fn has_judge(&self) -> bool {
        self.judge.is_some()
    }

    /// Whether victims may have to be asked for.
    pub(crate) fn asks_policy(&self) -> bool {
        self.judge.is_some() || self.native.is_some()
    }
}
