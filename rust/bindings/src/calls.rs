//! Calls of Python code that outlast the interpreter.
//!
//! Before 3.14, Python ends a daemon thread that asks for the interpreter while that one is ending by
//! `pthread_exit`. Its unwinding cannot pass the frames of `PyO3`: the process aborts. A call made
//! here stops such a thread where it is, as Python itself does from 3.14 on. Whatever may run the code
//! of a policy, a callback or an argument is called by these functions. `PyO3` itself stops a thread
//! that attaches again, in `detach` and `attach`.

use std::sync::{LockResult, Mutex, MutexGuard, TryLockError};

use pyo3::BoundObject;
use pyo3::ffi::PyObject;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::errors::raise;
use crate::unwinding;

/// What `callable` returns.
pub fn call<'py, A>(callable: &Bound<'py, PyAny>, args: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple>,
{
    let py = callable.py();
    let args = args.into_pyobject(py).map_err(Into::into)?.into_bound();
    // SAFETY: we are attached, and both objects are alive; a new reference or an error comes back.
    let answer = unsafe {
        let answer = unwinding::call_object(callable.as_ptr(), args.as_ptr());
        Bound::from_owned_ptr_or_err(py, answer)
    };
    discard(args.into_any());
    answer
}

/// Drops a reference. It may be the last one to an object with a destructor in Python.
pub fn discard(object: Bound<'_, PyAny>) {
    // SAFETY: we are attached, and the reference is ours.
    unsafe { unwinding::give_up(object.into_ptr()) };
}

/// [`discard`] for an error: its traceback holds the variables of its frames.
pub fn discard_error(py: Python<'_>, error: PyErr) {
    discard(error.into_value(py).into_bound(py).into_any());
}

/// A module, which may have to be loaded first.
pub fn import<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::new(py, name);
    // SAFETY: we are attached, and the name is alive.
    new(py, || unsafe { unwinding::import(name.as_ptr()) })
}

/// As `str` has it.
pub fn text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    // SAFETY: we are attached, and the object is alive.
    let text = new(object.py(), || unsafe { unwinding::text(object.as_ptr()) })?;
    Ok(text.cast::<PyString>()?.to_string_lossy().into_owned())
}

/// The entry at `place`.
pub fn item<'py>(object: &Bound<'py, PyAny>, place: usize) -> PyResult<Bound<'py, PyAny>> {
    let place = place.into_pyobject(object.py())?;
    // SAFETY: we are attached, and both objects are alive.
    new(object.py(), || unsafe { unwinding::item(object.as_ptr(), place.as_ptr()) })
}

/// A list of what `object` yields.
pub fn listed<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    // SAFETY: we are attached, and the object is alive.
    let list = new(object.py(), || unsafe { unwinding::list(object.as_ptr()) })?;
    Ok(list.cast_into::<PyList>()?)
}

/// Wraps the new reference that `work` returns, or returns the error that it has set. The caller: the objects
/// that `work` uses are alive.
fn new(py: Python<'_>, work: impl FnOnce() -> *mut PyObject) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: we are attached.
    unsafe { Bound::from_owned_ptr_or_err(py, work()) }
}

/// An attribute, which may be a property.
pub fn attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: we are attached, and both objects are alive.
    new(object.py(), || unsafe { unwinding::attribute(object.as_ptr(), name.as_ptr()) })
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
    // SAFETY: we are attached, and the object is alive.
    let shown = new(object.py(), || unsafe { unwinding::repr(object.as_ptr()) });
    Some(shown.ok()?.cast::<PyString>().ok()?.to_string_lossy().into_owned())
}

/// Whether one is the other, or says that it equals it.
pub fn equal(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    // SAFETY: we are attached, and both are alive.
    let answer = unsafe { unwinding::compare(one.as_ptr(), other.as_ptr(), pyo3::ffi::Py_EQ) };
    if answer < 0 { Err(PyErr::fetch(one.py())) } else { Ok(answer > 0) }
}

/// Reports an error that arose in `place` to `sys.unraisablehook`.
pub fn unraisable(error: PyErr, place: &Bound<'_, PyAny>) {
    error.restore(place.py());
    // SAFETY: we are attached, an error is set, and the object is alive.
    unsafe { unwinding::write_unraisable(place.as_ptr()) };
}

/// The lock, waited for without the interpreter.
///
/// # Errors
/// The interpreter is ending, and the thread that holds the lock will not run again.
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
    let asked =
        import(py, "sys").and_then(|sys| call_method(&sys, intern!(py, "is_finalizing"), ()));
    asked.and_then(|ending| ending.is_truthy()).unwrap_or(true)
}
