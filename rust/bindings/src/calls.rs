//! Calls of Python code that outlast the interpreter.
//!
//! Before 3.14, Python ends a daemon thread that asks for the interpreter while that one is ending by
//! `pthread_exit`. Its unwinding cannot pass the frames of `PyO3`: the process aborts. A call made
//! here stops such a thread where it is, as Python itself does from 3.14 on. Whatever may run the code
//! of a policy, a callback or an argument is called by these functions.

use std::mem::forget;
use std::sync::{LockResult, Mutex, MutexGuard, TryLockError};

use pyo3::BoundObject;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::raise;

mod unwinding {
    use std::ffi::c_int;

    use super::PyObject;

    // As `pyo3::ffi` declares them, but for the unwinding.
    unsafe extern "C-unwind" {
        pub fn PyObject_Call(
            callable: *mut PyObject,
            args: *mut PyObject,
            kwargs: *mut PyObject,
        ) -> *mut PyObject;
        pub fn PyObject_GetAttr(object: *mut PyObject, name: *mut PyObject) -> *mut PyObject;
        pub fn PyObject_Repr(object: *mut PyObject) -> *mut PyObject;
        pub fn PyObject_RichCompareBool(
            one: *mut PyObject,
            other: *mut PyObject,
            operator: c_int,
        ) -> c_int;
        pub fn PyErr_WriteUnraisable(object: *mut PyObject);
    }
}

/// Stops the thread for good if it is dropped, which only the unwinding of a thread that ends does.
struct Stop;

impl Drop for Stop {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Runs what may run Python code.
fn outlasting<T>(work: impl FnOnce() -> T) -> T {
    let stop = Stop;
    let done = work();
    forget(stop);
    done
}

/// What `callable` returns.
pub fn call<'py, A>(callable: &Bound<'py, PyAny>, args: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple>,
{
    let py = callable.py();
    let args = args.into_pyobject(py).map_err(Into::into)?.into_bound();
    let (callable, args) = (callable.as_ptr(), args.as_ptr());
    // SAFETY: we are attached, and both objects are alive; a new reference or an error comes back.
    unsafe {
        let answer = outlasting(|| unwinding::PyObject_Call(callable, args, std::ptr::null_mut()));
        Bound::from_owned_ptr_or_err(py, answer)
    }
}

/// An attribute, which may be a property.
pub fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    let (at, name) = (object.as_ptr(), name.as_ptr());
    // SAFETY: as in `call`.
    unsafe {
        let found = outlasting(|| unwinding::PyObject_GetAttr(at, name));
        Bound::from_owned_ptr_or_err(object.py(), found)
    }
}

/// What a method of `object` returns.
pub fn call_method<'py, A>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
    args: A,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple>,
{
    call(&attribute(object, name)?, args)
}

/// As Python shows it; None where it cannot.
pub fn repr(object: &Bound<'_, PyAny>) -> Option<String> {
    let at = object.as_ptr();
    // SAFETY: as in `call`.
    let shown = unsafe {
        let shown = outlasting(|| unwinding::PyObject_Repr(at));
        Bound::from_owned_ptr_or_err(object.py(), shown)
    };
    Some(shown.ok()?.cast::<PyString>().ok()?.to_string_lossy().into_owned())
}

/// Whether one is the other, or says that it equals it.
pub fn equal(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (at, beside) = (one.as_ptr(), other.as_ptr());
    // SAFETY: as in `call`.
    let answer =
        outlasting(|| unsafe { unwinding::PyObject_RichCompareBool(at, beside, pyo3::ffi::Py_EQ) });
    if answer < 0 { Err(PyErr::fetch(one.py())) } else { Ok(answer > 0) }
}

/// Tells `sys.unraisablehook` of an error met in `place`.
pub fn unraisable(error: PyErr, place: &Bound<'_, PyAny>) {
    error.restore(place.py());
    // SAFETY: we are attached, an error is set, and the object is alive.
    outlasting(|| unsafe { unwinding::PyErr_WriteUnraisable(place.as_ptr()) });
}

/// The lock, waited for without the interpreter.
///
/// # Errors
/// The interpreter is ending, and the thread that has the lock goes on no more.
pub fn lock<'a, T: Send>(
    py: Python<'_>,
    mutex: &'a Mutex<T>,
) -> PyResult<LockResult<MutexGuard<'a, T>>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(Ok(guard)),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(Err(poisoned)),
            Err(TryLockError::WouldBlock) if is_ending(py) => {
                let message = "the interpreter is ending while another thread is at work here";
                return Err(raise(py, "HandleError", message.into()));
            }
            // Given back at once: a thread that waits for the interpreter must hold no lock.
            Err(TryLockError::WouldBlock) => py.detach(|| drop(mutex.lock())),
        }
    }
}

fn is_ending(py: Python<'_>) -> bool {
    let sys = py.import("sys").and_then(|sys| sys.call_method0("is_finalizing"));
    sys.and_then(|ending| ending.is_truthy()).unwrap_or(true)
}
