//! A compiled policy: taken from a capsule or from addresses, with the report of its faults.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::sync::Arc;

use kvframe_core::Error;
use kvframe_core::policy::Eviction;
use kvframe_native::check::{self, LoadError};
use kvframe_native::faults::Faults;
use kvframe_native::policy::Policy;
use kvframe_native::v1::{self, Table};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyCapsule, PyCapsuleMethods, PyDict};

use crate::calls::{call_method, unraisable};
use crate::errors::{self, raise};

/// The side of a native policy that lies outside the core: who it is, and what went wrong.
pub struct Native {
    driver: Py<PyAny>,
    faults: Arc<Faults>,
    window: Option<u32>,
}

thread_local! {
    /// The manager whose native policy may be running on this thread, by address; 0: none.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// While it lives, this thread may be inside a manager's native policy.
pub struct Inside(usize);

impl Inside {
    /// None if this thread is inside that manager already: its policy has called back.
    pub fn enter(manager: usize) -> Option<Self> {
        INSIDE.with(|inside| (inside.get() != manager).then(|| Self(inside.replace(manager))))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

impl Native {
    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.driver)
    }

    /// Whether this driver is of a native policy.
    pub fn is_behind(driver: &Bound<'_, PyAny>) -> PyResult<bool> {
        driver.hasattr("native")
    }

    /// Reads the table that the driver brings.
    pub fn load(driver: &Bound<'_, PyAny>) -> PyResult<(Box<dyn Eviction>, Self)> {
        let given = driver.getattr("native")?;
        let taken = table(&given)?;
        let table = match taken {
            Ok(table) => table,
            Err(LoadError::Version { found, needed }) => {
                let error = call_method(driver, intern!(driver.py(), "refused"), (found, needed))?;
                return Err(PyErr::from_value(error));
            }
            Err(LoadError::Contract(what)) => return Err(failure(driver, &what)),
        };
        let options = given.getattr("options")?.extract()?;
        let keep = Box::new((driver.clone().unbind(), given.unbind()));
        // SAFETY: the table was checked; its author answers for the rest, as the header says. What
        // holds its functions is kept.
        let policy = unsafe { Policy::new(table, options, keep) };
        let asked: Option<u32> = driver.getattr("window")?.extract()?;
        // A window has no effect on a policy with an order of its own, built-in or compiled.
        let window = policy.scores().then(|| asked.unwrap_or_else(|| policy.window()));
        let faults = Arc::new(Faults::new(driver.getattr("strict")?.extract()?));
        let eviction = kvframe_native::eviction(policy, window, Arc::clone(&faults));
        Ok((eviction, Self { driver: driver.clone().unbind(), faults, window }))
    }

    /// Candidates offered at a time; none are to a policy with an order of its own.
    pub fn window(&self) -> Option<u32> {
        self.window
    }

    pub fn failures(&self) -> u64 {
        self.faults.count()
    }

    pub fn is_strict(&self) -> bool {
        self.faults.is_strict()
    }

    /// The error of a policy that decides nothing more.
    pub fn refusal(&self, py: Python<'_>) -> PyErr {
        match self.failed(py, &self.faults.what(), true) {
            Ok(error) | Err(error) => error,
        }
    }

    /// Warns of what has failed since the last call. What the warning raises is reported as
    /// unraisable: the operation has succeeded.
    pub fn report(&self, py: Python<'_>) {
        // If a scoring policy is strict, its fault has already refused the operation.
        if let Some(what) = self.faults.news()
            && !(self.faults.is_strict() && self.window.is_some())
            && let Err(error) = self.failed(py, &what, false)
        {
            unraisable(error, self.driver.bind(py));
        }
    }

    fn failed(&self, py: Python<'_>, what: &str, strict: bool) -> PyResult<PyErr> {
        let fault = raise(py, "PolicyError", what.into());
        let error = call_method(self.driver.bind(py), intern!(py, "failed"), (fault, strict))?;
        Ok(PyErr::from_value(error))
    }
}

fn failure(driver: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let origin = driver.getattr("origin").and_then(|origin| origin.extract::<String>());
    match origin {
        Ok(origin) => raise(driver.py(), "PolicyError", format!("{origin}: {what}")),
        Err(error) => error,
    }
}

/// A core error, which may be a policy's own refusal.
pub fn from_core(py: Python<'_>, error: &Error, native: Option<&Native>) -> PyErr {
    match (error, native) {
        (Error::PolicyRefused(what), Some(native)) => failure(native.driver.bind(py), what),
        _ => errors::from_core(py, error),
    }
}

/// What a `kvframe.native.NativePolicy` brings: a capsule's table, or one made of addresses.
fn table(given: &Bound<'_, PyAny>) -> PyResult<Result<Table, LoadError>> {
    let capsule = given.getattr("capsule")?;
    if !capsule.is_none() {
        let capsule = capsule.cast_into::<PyCapsule>()?;
        // SAFETY: the name is copied before anything could rename the capsule.
        let name = capsule.name()?.map(|name| unsafe { name.as_cstr() }.to_owned());
        let name = name.as_deref().map(CStr::to_string_lossy).unwrap_or_default().into_owned();
        if name != v1::CAPSULE {
            let found = format!("a capsule named {name:?}");
            let needed = format!("{:?}, {}", v1::CAPSULE, check::needed());
            return Ok(Err(LoadError::Version { found, needed }));
        }
        let expected = c"kvframe.eviction.v1";
        let address = capsule.pointer_checked(Some(expected))?;
        // SAFETY: what a capsule of this name points to is a table.
        return Ok(unsafe { check::read(address.as_ptr().cast::<Table>()) });
    }
    let (major, minor): (u16, u16) = given.getattr("abi")?.extract()?;
    let mut table = Table::empty();
    (table.head.major, table.head.minor) = (major, minor);
    for name in given.getattr("wants")?.extract::<Vec<String>>()? {
        let Some(bit) = v1::want(&name) else {
            return Ok(Err(LoadError::Contract(format!("no column or fact is called {name:?}"))));
        };
        table.wants |= bit;
    }
    table.window = match given.getattr("window")?.extract::<Option<u32>>()? {
        None => 0,
        Some(0) => v1::ALL,
        Some(window) => window,
    };
    table.block_bytes = given.getattr("block_bytes")?.extract()?;
    let state = given.getattr("state")?.cast_into::<PyBytes>()?;
    table.state_bytes = state.as_bytes().len() as u32;
    if table.state_bytes > 0 {
        // `given` holds the bytes, and is kept.
        table.initial = state.as_bytes().as_ptr().cast::<c_void>();
    }
    let functions = given.getattr("functions")?.cast_into::<PyDict>()?;
    for (name, address) in functions {
        let (name, address) = (name.extract::<String>()?, address.extract::<usize>()?);
        // SAFETY: the author says that it is such a function, of the version stated.
        if !unsafe { check::put(&mut table, &name, address as *const ()) } {
            return Ok(Err(LoadError::Contract(format!("no function is called {name:?}"))));
        }
    }
    // SAFETY: a table of our own.
    Ok(unsafe { check::read(&raw const table) })
}
