//! How a policy in Python is asked, whatever its kind: columns in, an array out, failures counted.

use std::sync::atomic::{AtomicU64, Ordering};

use numpy::{PyArray1, PyArrayMethods};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyString};

use crate::calls::{call_method, discard_error};
use crate::errors::raise;

/// The driver of a policy, with the columns of kind `C` that it asks for.
pub struct Driver<C> {
    object: Py<PyAny>,
    columns: Vec<(Py<PyString>, C)>,
    failures: AtomicU64,
}

impl<C: Copy> Driver<C> {
    /// Reads what the driver declares in `columns`, each by its name.
    pub fn new(object: &Bound<'_, PyAny>, by_name: fn(&str) -> Option<C>) -> PyResult<Self> {
        let known = |name: String| match by_name(&name) {
            Some(kind) => Ok((PyString::intern(object.py(), &name).unbind(), kind)),
            None => Err(raise(object.py(), "PolicyError", format!("no column is called {name:?}"))),
        };
        let names = object.getattr("columns")?.extract::<Vec<String>>()?;
        Ok(Self {
            columns: names.into_iter().map(known).collect::<PyResult<_>>()?,
            object: object.clone().unbind(),
            failures: AtomicU64::new(0),
        })
    }

    pub fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.object.bind(py)
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.object)
    }

    /// What the columns that it asks for are.
    pub fn kinds(&self) -> impl Iterator<Item = C> + '_ {
        self.columns.iter().map(|&(_, kind)| kind)
    }

    /// Each column that was asked for, by name, as `column` makes it.
    pub fn columns<'py>(
        &self,
        py: Python<'py>,
        mut column: impl FnMut(C) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for (name, kind) in &self.columns {
            columns.set_item(name, column(*kind)?)?;
        }
        Ok(columns)
    }

    /// How often the policy failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Counts a failure and tells of it; it may be passed over, unless the policy is `strict`.
    ///
    /// Errors: the policy's own where it is strict, and interrupts always.
    pub fn failed(&self, py: Python<'_>, error: PyErr, strict: bool) -> PyResult<()> {
        if is_interrupt(py, &error) {
            return Err(error);
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let told = call_method(self.bind(py), intern!(py, "failed"), (&error, strict))?;
        discard_error(py, error);
        if strict { Err(PyErr::from_value(told)) } else { Ok(()) }
    }
}

/// Whether it is no failure of the policy's, but the user's wish: all else that a policy raises is one.
pub fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// A read-only array: a policy that writes into its input fails at that line.
pub fn frozen<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> PyResult<Bound<'_, PyAny>> {
    let array = PyArray1::from_vec(py, values);
    array.try_readwrite()?.make_nonwriteable();
    Ok(array.into_any())
}

/// What the policy wrote, if the array is still of the type and length it was given.
pub fn written<T: numpy::Element + Copy>(out: &Bound<'_, PyAny>, len: usize) -> PyResult<Vec<T>> {
    let array = out.cast::<PyArray1<T>>().ok().and_then(|array| array.to_vec().ok());
    array.filter(|values| values.len() == len).ok_or_else(|| changed(out.py()))
}

/// What the policy wrote is in an array that it has made another one.
pub fn changed(py: Python<'_>) -> PyErr {
    raise(py, "PolicyError", "changed the type or the shape of out".into())
}
