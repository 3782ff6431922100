//! Another configuration for a manager that serves.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use kvframe_core::manager::Change;
use kvframe_core::options::Fault;
use kvframe_core::{Error, Manager as Core, Options, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::manager::Manager;
use crate::options;
use crate::policy::admission::make_admission;
use crate::policy::eviction::make_policies;

#[pymethods]
impl Manager {
    /// Has the policies of `options`, a table as a manager is made from, decide from now on, as far as `eviction` and
    /// `admission` say so; `pressure.*`, `retention.pin_cap`, and the floors and quotas of tenants hold. All of it or nothing.
    #[pyo3(signature = (options, *, eviction, admission))]
    fn change(
        &self,
        py: Python<'_>,
        options: &Bound<'_, PyDict>,
        eviction: bool,
        admission: bool,
    ) -> PyResult<()> {
        let (chosen, table) = options::chosen(options)?;
        let (options, faults) = options::read(&table)?;
        if let Some(fault) = faults.into_iter().chain(options.faults()).next() {
            return Err(options::refused(py, &fault));
        }
        let tenants = options.tenants.len();
        let mut change = Change::default();
        let made = if admission {
            let given = chosen.admission_options.as_ref();
            let (gate, made) = make_admission(py, chosen.admission.as_ref(), given, tenants)?;
            change.admission = Some(gate);
            Some(Arc::new(made))
        } else {
            None
        };
        let policy = if eviction {
            let given = chosen.eviction_options.as_ref();
            Some(make_policies(py, &chosen.eviction, given, tenants)?)
        } else {
            None
        };
        // Under the lock of the core, so that no other call sees one of two.
        let settle = |done: Change| {
            let before = made.map(|made| {
                let mut place = self.admission.write().unwrap_or_else(PoisonError::into_inner);
                self.past_admission_failures.fetch_add(place.failures(), Ordering::Relaxed);
                self.asks_of_admission.store(made.python.is_some(), Ordering::Release);
                std::mem::replace(&mut *place, made)
            });
            (done, before)
        };
        // What was replaced is dropped without the lock: a plugin's own code may run then.
        let mut fault = None;
        let before = if let Some(made) = policy {
            change.policy = Some(made.eviction);
            let work = |core: &mut Core| changed(core, &options, change, &mut fault).map(settle);
            let before = self.host.replace(py, made.outside, work);
            let before = before.map_err(|error| said(py, fault, error))?;
            let mut place = self.policy.lock().unwrap_or_else(PoisonError::into_inner);
            let words = std::mem::replace(&mut *place, (made.name, made.options));
            drop(place);
            drop(words);
            before
        } else {
            // A policy that stays says itself what tenants lose above lowered quotas.
            let mut once = Some((change, settle));
            let done = self.host.with_victims(py, |core| {
                core.check_ready_to_shed(&options)?;
                let Some((change, settle)) = once.take() else {
                    return Err(Error::Integrity("a change is made once".into()));
                };
                changed(core, &options, change, &mut fault).map(settle)
            });
            done.map_err(|error| said(py, fault, error))?
        };
        drop(before);
        Ok(())
    }
}

/// The change made; a value that is refused is kept in `fault`.
fn changed(
    core: &mut Core,
    options: &Options,
    change: Change,
    fault: &mut Option<Fault>,
) -> Result<Change> {
    if options.tenants.len() == core.options().tenants.len()
        && let Some(refused) = core.share_fault(options)
    {
        *fault = Some(refused.clone());
        return Err(refused.into());
    }
    core.change(options, change).inspect_err(|error| {
        if let Error::Invalid { what, value, limit } = error {
            *fault = Some(Fault::new(what, value, limit.clone()));
        }
    })
}

/// The error as one of the configuration, where it is about a value.
fn said(py: Python<'_>, fault: Option<Fault>, error: PyErr) -> PyErr {
    fault.map_or(error, |fault| options::refused(py, &fault))
}
