//! An array that a policy is lent for one decision, and again for the next one.

use std::any::TypeId;
use std::slice;

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::look::Look;

/// An array of one dimension. It is reused unless the policy kept a reference or a view, or changed its
/// length, type or flags; then there is a new one.
#[derive(Default)]
pub struct ReusableArray(Option<(Py<PyAny>, TypeId, Look)>);

impl ReusableArray {
    /// The array, with these values in it; a `frozen` one is read-only, and so is every view of it.
    pub fn put<'py, T: Element + Copy + 'static>(
        &mut self,
        py: Python<'py>,
        frozen: bool,
        values: impl ExactSizeIterator<Item = T>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(array) = self.unheld::<T>(py, values.len()) {
            // SAFETY: the array has that length and type. Only this array holds the base that owns
            // the memory, and this array has no other holder: nothing else leads to the memory.
            let entries = unsafe { slice::from_raw_parts_mut(array.data(), values.len()) };
            for (entry, value) in entries.iter_mut().zip(values) {
                *entry = value;
            }
            return Ok(array.clone().into_any());
        }
        let array = PyArray1::from_vec(py, values.collect());
        if frozen {
            array.try_readwrite()?.make_nonwriteable();
        }
        let look = Look::of(&array);
        self.0 = Some((array.clone().into_any().unbind(), TypeId::of::<T>(), look));
        Ok(array.into_any())
    }

    /// What the policy wrote; `None` if the array has another type or shape than it was lent with.
    pub fn written<'a, T: Element + 'static>(&'a self, py: Python<'a>) -> Option<&'a [T]> {
        let (array, _, look) = self.0.as_ref()?;
        // SAFETY: it was made as an array; whether it still is as it was, its look tells.
        let array = unsafe { array.bind(py).cast_unchecked::<PyArray1<T>>() };
        let now = Look::of(array);
        if now.with_flags_of(look) != *look {
            return None;
        }
        // SAFETY: the array has that type and length, and its base owns the memory. A write into it
        // needs the interpreter, to which this thread is attached.
        Some(unsafe { slice::from_raw_parts(array.data(), look.len()) })
    }

    fn unheld<'py, T: Element + 'static>(
        &self,
        py: Python<'py>,
        len: usize,
    ) -> Option<&Bound<'py, PyArray1<T>>> {
        let (array, kind, look) = self.0.as_ref()?;
        if len == 0 || look.len() != len || *kind != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: it was made as one of this type; whether it still is, its look tells.
        let array = unsafe { array.bind(py).cast_unchecked::<PyArray1<T>>() };
        if Look::of(array) != *look {
            return None;
        }
        // SAFETY: both are alive: we hold the array, and the array its base.
        let holders = unsafe {
            let base = (*array.as_array_ptr()).fields.base;
            (ffi::Py_REFCNT(array.as_ptr()), ffi::Py_REFCNT(base))
        };
        (holders == (1, 1)).then_some(array)
    }
}
