//! What an array of a caller or a policy looks like, so that a change of it is seen.

use numpy::ndarray::{ArrayViewMut, Dimension};
use numpy::npyffi::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::{Element, Ix1, PyArray, PyArrayMethods, PyReadwriteArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

const PLAIN: i32 = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;

/// Dimensions of the arrays that are looked at.
const MOST: usize = 2;

/// An array's type, shape and memory; addresses are compared only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Look {
    dimensions: usize,
    shape: [usize; MOST],
    strides: [isize; MOST],
    flags: i32,
    data: usize,
    dtype: usize,
    base: usize,
}

impl Look {
    pub fn of<T: Element, D: Dimension>(array: &Bound<'_, PyArray<T, D>>) -> Self {
        // SAFETY: it is an array, and we are attached; its fields are read and not kept.
        let fields = unsafe { &(*array.as_array_ptr()).fields };
        let mut look = Self {
            dimensions: fields.nd as usize,
            shape: [0; MOST],
            strides: [0; MOST],
            flags: fields.flags,
            data: fields.data.addr(),
            dtype: fields.descr.addr(),
            base: fields.base.addr(),
        };
        if look.dimensions <= MOST {
            look.shape[..look.dimensions].copy_from_slice(array.shape());
            look.strides[..look.dimensions].copy_from_slice(array.strides());
        }
        look
    }

    /// Returns this look with the flags of `other`.
    pub fn with_flags_of(self, other: &Self) -> Self {
        Self { flags: other.flags, ..self }
    }

    /// Entries of an array of one dimension.
    pub fn len(&self) -> usize {
        if self.dimensions == 1 { self.shape[0] } else { 0 }
    }
}

/// A caller's array that is written into but is not borrowed meanwhile. Python code that runs before the
/// write may change it; a changed array is not written.
pub struct Target<'py, T, D> {
    array: Bound<'py, PyArray<T, D>>,
    look: Look,
}

impl<'py, T: Element, D: Dimension> Target<'py, T, D> {
    /// Ends a borrow, whose checks are done.
    pub fn of(borrowed: PyReadwriteArray<'py, T, D>) -> Self {
        let array = (**borrowed).clone();
        drop(borrowed);
        Self { look: Look::of(&array), array }
    }

    /// An array of which nothing has been checked.
    pub fn unborrowed(array: &Bound<'py, PyArray<T, D>>) -> Self {
        Self { look: Look::of(array), array: array.clone() }
    }

    /// Whether it is writable, aligned and one piece of memory, by its flags.
    pub fn is_plain(&self) -> bool {
        self.look.flags & PLAIN == PLAIN
    }

    /// Whether it is as it was given.
    pub fn is_same(&self) -> bool {
        Look::of(&self.array) == self.look
    }

    /// Borrows it again, to see whether others overlap it.
    pub fn borrow(&self) -> Option<PyReadwriteArray<'py, T, D>> {
        self.array.try_readwrite().ok()
    }

    pub fn shape(&self) -> &[usize] {
        &self.look.shape[..D::NDIM.unwrap_or(1)]
    }

    /// Its entries; none where there are none, whatever its strides say.
    ///
    /// # Safety
    /// It is the same, and from here to the last use of the view no Python code runs and nothing else
    /// leads to its entries.
    pub unsafe fn view(&self) -> ArrayViewMut<'_, T, D> {
        let mut shape = D::zeros(self.shape().len());
        shape.slice_mut().copy_from_slice(self.shape());
        match ArrayViewMut::from_shape(shape, &mut []) {
            Ok(nothing) => nothing,
            // SAFETY: the caller guarantees it.
            Err(_) => unsafe { self.array.as_array_mut() },
        }
    }
}

impl<T: Element> Target<'_, T, Ix1> {
    pub fn len(&self) -> usize {
        self.look.len()
    }

    /// Its entries where they are one piece of memory, as `whole` checks.
    ///
    /// # Safety
    /// As of `view`.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice(&self) -> &mut [T] {
        // SAFETY: the caller guarantees it.
        unsafe { self.view() }.into_slice().unwrap_or_default()
    }
}
