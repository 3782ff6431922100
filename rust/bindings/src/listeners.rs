//! Callbacks on a change of the pressure level: called outside every lock, one change after the
//! other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvframe_core::manager::Pressure;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};

use crate::calls::{call, discard, equal, import, unraisable};

/// The level before and after.
type Change = (Pressure, Pressure);

/// Callbacks, and changes that have not been delivered to them yet.
#[derive(Default)]
pub struct Listeners {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    callbacks: Vec<Py<PyAny>>,
    waiting: VecDeque<Change>,
    telling: bool,
}

/// The number of `kvframe.Pressure`.
pub fn level(pressure: Pressure) -> u8 {
    match pressure {
        Pressure::Normal => 0,
        Pressure::High => 1,
        Pressure::Critical => 2,
    }
}

impl Listeners {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, callback: Py<PyAny>) {
        self.inner().callbacks.push(callback);
    }

    /// Removes every callback that equals this one. Returns how many were removed.
    pub fn remove(&self, callback: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = callback.py();
        // Compared without the lock: a callback's equality is Python code.
        let known: Vec<Py<PyAny>> =
            self.inner().callbacks.iter().map(|known| known.clone_ref(py)).collect();
        let mut gone = Vec::new();
        for known in known {
            if equal(known.bind(py), callback)? {
                gone.push(known);
            }
        }
        let mut inner = self.inner();
        let before = inner.callbacks.len();
        let (left, kept) = std::mem::take(&mut inner.callbacks)
            .into_iter()
            .partition(|known| gone.iter().any(|one| one.is(known)));
        inner.callbacks = kept;
        let count = before - inner.callbacks.len();
        drop(inner);
        let left: Vec<Py<PyAny>> = left; // dropped without the lock, too
        drop(left);
        Ok(count)
    }

    /// Notes a change, in the order they happen: called under the core's lock.
    pub fn note(&self, change: Change) {
        let mut inner = self.inner();
        if !inner.callbacks.is_empty() {
            inner.waiting.push_back(change);
        }
    }

    /// Delivers every change that waits, without any lock. What a callback raises is reported as
    /// unraisable: the call that changed the level has succeeded. A change that a callback causes
    /// is delivered after the present one.
    pub fn notify(&self, py: Python<'_>) {
        if std::mem::replace(&mut self.inner().telling, true) {
            return;
        }
        while let Some((callbacks, (before, after))) = self.next(py) {
            for callback in callbacks {
                let told = pressure(py, before)
                    .and_then(|before| call(callback.bind(py), (before, pressure(py, after)?)));
                match told {
                    Ok(answer) => discard(answer),
                    Err(error) => unraisable(error, callback.bind(py)),
                }
            }
        }
    }

    fn next(&self, py: Python<'_>) -> Option<(Vec<Py<PyAny>>, Change)> {
        let mut inner = self.inner();
        let change = inner.waiting.pop_front();
        inner.telling = change.is_some();
        let callbacks = inner.callbacks.iter().map(|callback| callback.clone_ref(py)).collect();
        change.map(|change| (callbacks, change))
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Ok(inner) = self.inner.try_lock() else { return Ok(()) };
        inner.callbacks.iter().try_for_each(|callback| visit.call(callback))
    }

    pub fn clear(&self) {
        let callbacks = std::mem::take(&mut self.inner().callbacks);
        drop(callbacks);
    }
}

fn pressure(py: Python<'_>, pressure: Pressure) -> PyResult<Bound<'_, PyAny>> {
    call(&import(py, "kvframe.results")?.getattr("Pressure")?, (level(pressure),))
}
