//! The manager's way to its core: work that may change the pressure level notifies the callbacks.

use kvframe_core::{Error, Manager as Core};
use pyo3::prelude::*;

use crate::manager::Manager;

impl Manager {
    pub(crate) fn locked<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T,
    ) -> PyResult<T> {
        self.host.locked(py, work)
    }

    pub(crate) fn locked_long<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> T + Send,
    ) -> PyResult<T> {
        self.host.locked_long(py, work)
    }

    pub(crate) fn with<T>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        self.changing(py, work)?.map_err(|e| self.host.error(py, &e))
    }

    /// Runs work that may change the pressure level, and notifies the callbacks once the lock is
    /// free.
    fn changing<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> T) -> PyResult<T> {
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

    /// Moves the pressure level; true if callbacks have a change to hear of.
    pub(crate) fn watch(&self, core: &mut Core) -> bool {
        core.watch().inspect(|&change| self.listeners.note(change)).is_some()
    }

    /// As `with`, for work whose time grows with the pool.
    pub(crate) fn with_long<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let outcome = self.locked_long(py, work)?;
        self.changing(py, |_| ())?;
        outcome.map_err(|e| self.host.error(py, &e))
    }

    /// As `with`, for work that may need victims: it is done again once a policy outside the core has
    /// named them, so it may run several times.
    pub(crate) fn with_victims<T>(
        &self,
        py: Python<'_>,
        mut work: impl FnMut(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        let mut changed = false;
        let done = self.host.with_victims(py, |core| {
            let outcome = work(core);
            changed |= self.watch(core);
            outcome
        });
        if changed {
            self.listeners.notify(py);
        }
        done
    }
}
