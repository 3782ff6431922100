//! The core's errors as the exceptions of `kvframe.errors`.

use kvframe_core::Error;
use kvframe_trace::TraceError;
use pyo3::exceptions::{PyLookupError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::calls::{call, import, repr, unraisable};
use crate::options::did_you_mean;

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    import(py, "kvframe.errors")?.getattr(name)
}

/// An exception of `kvframe.errors` by class name.
pub fn raise(py: Python<'_>, name: &str, message: String) -> PyErr {
    match class(py, name).and_then(|class| call(&class, (message,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Whether an exception is one of a class of `kvframe.errors`.
pub fn is_of(error: &PyErr, py: Python<'_>, name: &str) -> PyResult<bool> {
    Ok(error.is_instance(py, &class(py, name)?))
}

/// A misuse of an argument.
pub fn usage(py: Python<'_>, message: String) -> PyErr {
    raise(py, "UsageError", message)
}

/// `wrong`, if `error` says that a value is none of what is read here; what the value's own code has raised, an
/// interrupt say, is its caller's to hear.
pub fn unless_raised(py: Python<'_>, error: PyErr, wrong: impl FnOnce() -> PyErr) -> PyErr {
    if is_wrong(py, &error) { wrong() } else { error }
}

/// Whether an error is one that reading a wrong value ends in.
pub fn is_wrong(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyOverflowError>(py)
        || error.is_instance_of::<PyLookupError>(py)
}

/// A value for a message: on one line, and cut where it is long.
pub fn shown(value: &Bound<'_, PyAny>) -> String {
    let Some(repr) = repr(value) else { return "?".into() };
    let repr = repr.split_whitespace().collect::<Vec<_>>().join(" ");
    match repr.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &repr[..end]),
        None => repr,
    }
}

/// Characters of a value that a message shows.
const SHOWN: usize = 80;

/// What to say where `value` is no handle of a sequence, but has one, as an `Allocation` does.
pub fn seq_within(value: &Bound<'_, PyAny>) -> &'static str {
    let has =
        value.getattr(intern!(value.py(), "seq")).is_ok_and(|seq| seq.extract::<u64>().is_ok());
    if has { "; did you mean its .seq?" } else { "" }
}

/// The exception of a core error.
pub fn from_core(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error {
        Error::NoCapacity { .. }
        | Error::NotTried
        | Error::InUse { .. }
        | Error::NoSlot { .. }
        | Error::PinsFull { .. } => "CapacityError",
        Error::Busy { .. } => "BusyError",
        Error::NeverFits { .. } | Error::SlotFull { .. } => "NeverFitsError",
        Error::UnknownSequence(_) => "UnknownSequenceError",
        Error::StaleSequence(_) | Error::EndsAlready { .. } => "StaleHandleError",
        Error::UnknownTicket(_)
        | Error::TicketTwice(_)
        | Error::UnknownReceipt { .. }
        | Error::UnknownPin { .. } => "HandleError",
        Error::CommitPastEnd { .. }
        | Error::Backwards { .. }
        | Error::Invalid { .. }
        | Error::Asleep
        | Error::Unreadable
        | Error::NotFindable { .. }
        | Error::NotLent { .. } => "UsageError",
        Error::UnknownName { .. } => "ConfigError",
        Error::NeedVictims { .. } | Error::PolicyFailed | Error::PolicyRefused(_) => "PolicyError",
        Error::Integrity(_) => "IntegrityError",
    };
    let near = match error {
        Error::UnknownName { name, known, .. } => {
            let known: Vec<&str> = known.split(", ").collect();
            did_you_mean(py, name, &known).unwrap_or_default()
        }
        _ => String::new(),
    };
    raise(py, name, format!("{error}{near}"))
}

/// The exception of a trace that cannot be read.
pub fn from_trace(py: Python<'_>, error: &TraceError) -> PyErr {
    let built = class(py, "TraceError")
        .and_then(|class| call(&class, (error.to_string(), error.path.clone(), error.line)));
    match built {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// Reports an exception that no caller can receive to ``sys.unraisablehook``; it arose in
/// ``place``.
#[pyfunction]
pub fn report_unraisable(
    exception: Bound<'_, pyo3::exceptions::PyBaseException>,
    place: &Bound<'_, PyAny>,
) {
    unraisable(PyErr::from_value(exception.into_any()), place);
}
