//! An engine's own objects for its blocks: what it passes in calls, and gets back.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use kvframe_core::hash::fold;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyList;

use crate::errors::{shown, usage};

/// The object of each block, by id. Told apart by address, which costs less than to ask them for anything.
pub struct Handles {
    objects: Vec<Py<PyAny>>,
    ids: HashMap<usize, u32, BuildHasherDefault<Address>>,
}

impl Handles {
    /// They are as many as the blocks, and no two are the same object.
    pub fn new(py: Python<'_>, objects: Vec<Py<PyAny>>, blocks: u32) -> PyResult<Self> {
        let addresses = objects.iter().map(|object| object.as_ptr().addr());
        let ids: HashMap<_, _, _> = addresses.zip(0..).collect();
        if ids.len() != blocks as usize || objects.len() != ids.len() {
            let (given, differ) = (objects.len(), ids.len());
            let message = format!("handles: {given}, of which {differ} differ; must be {blocks}");
            return Err(usage(py, message));
        }
        Ok(Self { objects, ids })
    }

    /// The ids of the objects in a list.
    pub fn ids(&self, handles: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        let mut before = 0;
        let mut id = |handle: &Bound<'_, PyAny>| {
            before = self.id(handle, before)?;
            Ok(before)
        };
        if let Ok(list) = handles.cast::<PyList>() {
            return list.iter().map(|handle| id(&handle)).collect();
        }
        handles.try_iter()?.map(|handle| id(&handle?)).collect()
    }

    /// The id of an object. It is looked for beside the one `before` first: blocks that were taken together
    /// mostly lie side by side, and a table as large as the pool is seldom in a near cache.
    fn id(&self, handle: &Bound<'_, PyAny>, before: u32) -> PyResult<u32> {
        for near in [before.wrapping_sub(1), before.wrapping_add(1)] {
            if self.objects.get(near as usize).is_some_and(|one| one.is(handle)) {
                return Ok(near);
            }
        }
        self.ids.get(&handle.as_ptr().addr()).copied().ok_or_else(|| {
            usage(handle.py(), format!("block = {}: not a block of this pool", shown(handle)))
        })
    }

    /// The objects of blocks.
    pub fn list<'py>(&self, py: Python<'py>, blocks: &[u32]) -> PyResult<Bound<'py, PyAny>> {
        let objects = blocks.iter().map(|&block| self.objects[block as usize].bind(py));
        Ok(PyList::new(py, objects)?.into_any())
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.objects.iter().try_for_each(|object| visit.call(object))
    }
}

/// Hashes an address with one multiplication.
#[derive(Default)]
struct Address(u64);

impl Hasher for Address {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        self.0 = fold(self.0 ^ value as u64, 0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
