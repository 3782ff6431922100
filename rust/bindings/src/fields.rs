//! How the values of a request's options come from Python, and go back: a module for each kind. `read`
//! names the option as its caller wrote it.
// Every kind has the same two functions, whatever its values are.
#![allow(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    clippy::unnecessary_wraps,
    clippy::wildcard_imports
)]

use kvframe_core::Key;
use kvframe_core::hash::MmItem;
use kvframe_core::retention::Retention;
use numpy::PyArray1;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::calls::{attribute, call, call_method, import, listed};
use crate::errors::{is_wrong, shown, unless_raised, usage};

/// An item as Python gives it: (first token, one past the last, content id).
pub type ItemTuple = (u32, u32, Vec<u8>);

/// Items that are checked already.
pub fn items_of(items: Vec<ItemTuple>) -> Vec<MmItem> {
    items.into_iter().map(|(start, end, id)| MmItem { start, end, id }).collect()
}

fn wrong(name: &str, value: &Bound<'_, PyAny>, limit: &str) -> PyErr {
    usage(value.py(), format!("{name} = {}: {limit}", shown(value)))
}

pub mod flag {
    use super::{Bound, PyAny, PyAnyMethods, PyResult, Python, unless_raised, wrong};

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
        let flag = || wrong(name, value, "must be True or False");
        value.extract().map_err(|error| unless_raised(value.py(), error, flag))
    }

    pub fn show(_: Python<'_>, &value: &bool) -> PyResult<bool> {
        Ok(value)
    }
}

/// Integers, each with the bounds of its type.
pub trait Whole: Copy {
    /// The least and the largest.
    const BOUNDS: (i128, i128);
}

macro_rules! whole {
    ($($type:ty)*) => {$(impl Whole for $type {
        const BOUNDS: (i128, i128) = (<$type>::MIN as i128, <$type>::MAX as i128);
    })*};
}

whole!(u32 i32 u64);

pub mod int {
    use super::{
        Bound, FromPyObject, PyAny, PyAnyMethods, PyErr, PyResult, Python, Whole, unless_raised,
        wrong,
    };

    pub fn read<T>(value: &Bound<'_, PyAny>, name: &str) -> PyResult<T>
    where
        T: Whole + for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
    {
        let (least, most) = T::BOUNDS;
        let limit = || format!("must be an integer between {least} and {most}");
        let wrong = || wrong(name, value, &limit());
        value.extract().map_err(|error| unless_raised(value.py(), error, wrong))
    }

    pub fn show<T: Whole>(_: Python<'_>, &value: &T) -> PyResult<T> {
        Ok(value)
    }
}

pub mod limit {
    use super::{Bound, PyAny, PyAnyMethods, PyResult, Python, int};

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u32> {
        if value.is_none() { Ok(u32::MAX) } else { int::read(value, name) }
    }

    pub fn show(_: Python<'_>, &value: &u32) -> PyResult<Option<u32>> {
        Ok((value != u32::MAX).then_some(value))
    }
}

pub mod session {
    use super::{Bound, PyAny, PyAnyMethods, PyResult, Python};
    use crate::args::Session;

    pub fn read(value: &Bound<'_, PyAny>, _: &str) -> PyResult<u64> {
        value.extract::<Session>().map(|session| session.0)
    }

    pub fn show(_: Python<'_>, &value: &u64) -> PyResult<u64> {
        Ok(value)
    }
}

pub mod text {
    use super::*;

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
        let py = value.py();
        let text = value.cast::<PyString>().map_err(|_| {
            let none = if value.is_none() { "; \"\" stands for none" } else { "" };
            wrong(name, value, &format!("must be a string{none}"))
        })?;
        match text.to_str() {
            Ok(text) => Ok(text.as_bytes().to_vec()),
            Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(py) => {
                let error = error.value(py);
                let reason = error.getattr("reason")?.extract::<String>()?;
                let place = error.getattr("start")?.extract::<usize>()?;
                Err(wrong(name, value, &format!("{reason} (place {place})")))
            }
            Err(error) => Err(error),
        }
    }

    pub fn show(py: Python<'_>, value: &[u8]) -> PyResult<String> {
        let text = call_method(&PyBytes::new(py, value), intern!(py, "decode"), ())?;
        text.extract()
    }
}

pub mod bytes {
    use super::{Bound, PyAny, PyBytes, PyBytesMethods, PyResult, Python, wrong};

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
        let bytes = value.cast::<PyBytes>().map_err(|_| wrong(name, value, "must be bytes"))?;
        Ok(bytes.as_bytes().to_vec())
    }

    pub fn show<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, value))
    }
}

pub mod items {
    use super::*;

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<MmItem>> {
        let py = value.py();
        let rows = listed(value).map_err(|error| match error {
            error if error.is_instance_of::<PyTypeError>(py) => {
                wrong(name, value, "must be a sequence of (start, end, id as bytes)")
            }
            error => error,
        })?;
        let limit = "must be (start, end, id as bytes), 0 <= start < end";
        rows.iter()
            .enumerate()
            .map(|(place, row)| {
                one(&row)?.ok_or_else(|| wrong(&format!("{name}[{place}]"), &row, limit))
            })
            .collect()
    }

    fn one(row: &Bound<'_, PyAny>) -> PyResult<Option<MmItem>> {
        let py = row.py();
        let parts = match listed(row) {
            Ok(parts) if parts.len() == 3 => parts,
            Ok(_) => return Ok(None),
            Err(error) if is_wrong(py, &error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let place = |i| match parts.get_item(i)?.extract::<u32>() {
            Ok(place) => Ok(Some(place)),
            Err(error) if is_wrong(py, &error) => Ok(None),
            Err(error) => Err(error),
        };
        let id = parts.get_item(2)?.cast_into::<PyBytes>();
        Ok(match (place(0)?, place(1)?, id) {
            (Some(start), Some(end), Ok(id)) if start < end => {
                Some(MmItem { start, end, id: id.as_bytes().to_vec() })
            }
            _ => None,
        })
    }

    pub fn show<'py>(
        py: Python<'py>,
        items: &[MmItem],
    ) -> PyResult<Vec<(u32, u32, Bound<'py, PyBytes>)>> {
        Ok(items.iter().map(|item| (item.start, item.end, PyBytes::new(py, &item.id))).collect())
    }
}

pub mod keys {
    use super::*;
    use crate::buffers::{self, key_words};
    use crate::views::matrix;

    pub fn read(value: &Bound<'_, PyAny>, _: &str) -> PyResult<Vec<Key>> {
        if value.is_none() { Ok(Vec::new()) } else { buffers::keys(value) }
    }

    pub fn show<'py>(py: Python<'py>, keys: &[Key]) -> PyResult<Option<Bound<'py, PyAny>>> {
        if keys.is_empty() {
            return Ok(None);
        }
        let words = keys.iter().flat_map(|&key| key_words(key)).collect();
        Ok(Some(matrix(py, words, 2)?.into_any()))
    }
}

pub mod next_uses {
    use super::{Bound, PyAny, PyAnyMethods, PyArray1, PyResult, Python};
    use crate::buffers::tokens;

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u32>> {
        if value.is_none() { Ok(Vec::new()) } else { tokens(value, name) }
    }

    pub fn show<'py>(py: Python<'py>, uses: &[u32]) -> PyResult<Option<Bound<'py, PyArray1<u32>>>> {
        Ok((!uses.is_empty()).then(|| PyArray1::from_slice(py, uses)))
    }
}

pub mod retention {
    use super::*;
    use crate::retention::{RetentionTuple, retention_of, retention_tuple};

    fn class(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        attribute(&import(py, "kvframe.retention")?, intern!(py, "Retention"))
    }

    pub fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Retention>> {
        let py = value.py();
        if value.is_none() {
            return Ok(None);
        }
        if !value.is_instance(&class(py)?)? {
            return Err(wrong(name, value, "must be a Retention"));
        }
        let asked = call_method(value, intern!(py, "of_core"), ())?;
        asked.extract::<RetentionTuple>().map(|asked| Some(retention_of(asked)))
    }

    pub fn show<'py>(
        py: Python<'py>,
        asked: &Option<Retention>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(asked) = asked else { return Ok(None) };
        let make = attribute(&class(py)?, intern!(py, "from_core"))?;
        call(&make, retention_tuple(asked)).map(Some)
    }
}
