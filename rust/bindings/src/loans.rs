//! Raw blocks, outside any sequence. An `impl` of `Manager`.

use numpy::Ix1;
use pyo3::prelude::*;

use crate::buffers::{altered, readable, whole_target};
use crate::errors::usage;
use crate::manager::Manager;

#[pymethods]
impl Manager {
    /// Fills `out` with raw blocks taken from the pool, which are `tenant`'s.
    fn take_blocks(&self, py: Python<'_>, out: &Bound<'_, PyAny>, tenant: &[u8]) -> PyResult<()> {
        let out = whole_target::<i32>(out, "out")?;
        // Lent into a copy, so that a refusal leaves the caller's array alone.
        let mut blocks = vec![0; out.len()];
        self.with_victims(py, |core| core.take_for(tenant, &mut blocks))?;
        if !out.is_same() {
            self.with(py, |core| core.free(&blocks))?;
            return Err(altered(py, "out"));
        }
        // SAFETY: it is the same, and no Python code runs until all is written.
        for (slot, block) in unsafe { out.slice() }.iter_mut().zip(blocks) {
            *slot = block as i32;
        }
        Ok(())
    }

    /// How many raw blocks `tenant` could take now.
    fn available_to(&self, py: Python<'_>, tenant: &[u8]) -> PyResult<u32> {
        self.locked(py, |core| core.available_to(tenant))
    }

    /// Takes raw blocks back.
    fn return_blocks(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<()> {
        let blocks: Vec<i32> = readable::<i32, Ix1>(blocks)
            .map(|array| array.as_array().to_vec())
            .ok_or_else(|| usage(py, "blocks must be an int32 array of 1 dimension".into()))?;
        if let Some(block) = blocks.iter().find(|&&b| b < 0) {
            let message = format!("block {block} is not taken: the pool has no such block");
            return Err(usage(py, message));
        }
        let ids: Vec<u32> = blocks.iter().map(|&b| b as u32).collect();
        self.with(py, |core| core.free(&ids))
    }
}
