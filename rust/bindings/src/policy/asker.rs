//! How a policy in Python is asked, whatever its kind: columns in, an array out, failures counted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyString};

use super::reusable_array::ReusableArray;
use crate::buffers::key_words;
use crate::calls::{call_method, discard, discard_error};
use crate::errors::raise;
use kvframe_core::Key;

/// The driver of a policy (`kvframe.drivers`), with the columns of kind `C` that it asks for.
pub struct Asker<C> {
    driver: Py<PyAny>,
    columns: Vec<(Py<PyString>, C)>,
    budget: Py<PyAny>,
    strict: bool,
    failures: AtomicU64,
    arrays: Mutex<Arrays>,
}

/// What a policy is lent for a decision.
#[derive(Default)]
pub struct Arrays {
    columns: Vec<ReusableArray>,
    out: ReusableArray,
}

impl<C: Copy> Asker<C> {
    /// Reads what the driver declares: `columns`, each by its name, `budget` and `strict`.
    pub fn new(driver: &Bound<'_, PyAny>, by_name: fn(&str) -> Option<C>) -> PyResult<Self> {
        let known = |name: String| match by_name(&name) {
            Some(kind) => Ok((PyString::intern(driver.py(), &name).unbind(), kind)),
            None => Err(raise(driver.py(), "PolicyError", format!("no column is called {name:?}"))),
        };
        let names = driver.getattr("columns")?.extract::<Vec<String>>()?;
        Ok(Self {
            columns: names.into_iter().map(known).collect::<PyResult<_>>()?,
            budget: driver.getattr("budget")?.unbind(),
            driver: driver.clone().unbind(),
            strict: driver.getattr("strict")?.extract()?,
            failures: AtomicU64::new(0),
            arrays: Mutex::default(),
        })
    }

    pub fn driver<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.driver.bind(py)
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.driver)?;
        visit.call(&self.budget)
    }

    /// What the columns that it asks for are.
    pub fn kinds(&self) -> impl Iterator<Item = C> + '_ {
        self.columns.iter().map(|&(_, kind)| kind)
    }

    /// How often the policy failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// What `decide` gets from the policy; `None` if the policy failed and may be passed over.
    ///
    /// Errors: the policy's own where it is strict, and interrupts always.
    pub fn ask<T>(
        &self,
        py: Python<'_>,
        decide: impl FnOnce(&mut Arrays) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        // A policy that calls its manager may be asked meanwhile: that question gets arrays of its own.
        let spare = self.arrays.try_lock().map(|mut arrays| std::mem::take(&mut *arrays));
        let mut arrays = spare.unwrap_or_default();
        let answer = self.timed(py, || decide(&mut arrays));
        if let Ok(mut slot) = self.arrays.try_lock() {
            *slot = arrays;
        }
        answer.or_else(|error| self.failed(py, error, self.strict).map(|()| None))
    }

    /// Notifies the policy between decisions. A failure is counted, and refuses nothing.
    pub fn tell(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<()>) -> PyResult<()> {
        work().or_else(|error| self.failed(py, error, false))
    }

    /// `None` if the policy's budget is spent, and it is passed over for that.
    fn timed<T>(
        &self,
        py: Python<'_>,
        decide: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        let budget = self.budget.bind(py);
        if budget.is_none() {
            return decide().map(Some);
        }
        if !call_method(budget, intern!(py, "start"), ())?.is_truthy()? {
            return Ok(None);
        }
        let mut answer = decide();
        if let Err(late) = call_method(budget, intern!(py, "stop"), ())
            && !answer.as_ref().is_err_and(|error| is_interrupt(py, error))
            && let Err(error) = std::mem::replace(&mut answer, Err(late))
        {
            discard_error(py, error);
        }
        answer.map(Some)
    }

    /// Each column that was asked for, by name, as `column` makes it.
    pub fn columns<'py>(
        &self,
        py: Python<'py>,
        arrays: &mut Arrays,
        column: impl Fn(C, &mut ReusableArray) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        arrays.columns.resize_with(self.columns.len(), ReusableArray::default);
        let columns = PyDict::new(py);
        for ((name, kind), array) in self.columns.iter().zip(&mut arrays.columns) {
            columns.set_item(name, column(*kind, array)?)?;
        }
        Ok(columns)
    }

    /// Counts a failure and reports it; it may be passed over, unless the policy is `strict`.
    fn failed(&self, py: Python<'_>, error: PyErr, strict: bool) -> PyResult<()> {
        if is_interrupt(py, &error) {
            return Err(error);
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let told = call_method(self.driver(py), intern!(py, "failed"), (&error, strict))?;
        discard_error(py, error);
        if strict { Err(PyErr::from_value(told)) } else { Ok(()) }
    }
}

impl Arrays {
    /// What a policy writes into `out`, which holds `values`, when `call` asks it by the method `verb`.
    pub fn filled<'a, 'py: 'a, T: Element + Copy + 'static>(
        &'a mut self,
        py: Python<'py>,
        verb: &str,
        values: impl ExactSizeIterator<Item = T>,
        call: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<&'a [T]> {
        let out = self.out.put(py, false, values)?;
        let answer = call(&out)?;
        if !answer.is_none() {
            discard(answer);
            return Err(raise(py, "PolicyError", format!("{verb} must fill out and return None")));
        }
        let changed = || raise(py, "PolicyError", "changed the type or the shape of out".into());
        self.out.written(py).ok_or_else(changed)
    }
}

/// Whether the error is the user's wish to stop, such as an interrupt. Every other error that a policy raises
/// is a failure of the policy.
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// A read-only array: a policy that writes into its input fails at that line.
pub fn frozen<T: Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    let array = PyArray1::from_vec(py, values);
    array.try_readwrite()?.make_nonwriteable();
    Ok(array.into_any())
}

/// Keys as a read-only uint64 array of two words each, the low one first.
pub fn words<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<Bound<'py, PyAny>> {
    let flat = frozen(py, keys.iter().flat_map(|&key| key_words(key)).collect::<Vec<u64>>())?;
    // The base is frozen, so that no view of it can be thawed.
    Ok(flat.cast::<PyArray1<u64>>()?.reshape([keys.len(), 2])?.into_any())
}
