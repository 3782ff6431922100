//! `RouterIndex`: which of many workers holds which prefix.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kvframe_core::router::{Router, TIERS};
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::buffers::tokens;
use crate::errors::{shown, usage};
use crate::ints::{BlockSize, IndexCapacity, Worker};
use crate::lookup::space_of;

/// Hashes of blocks: of a uint64 array, or of ints of which negative ones stand for their low 64
/// bits, as some engines send them.
fn hashes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(array) = value.extract::<PyReadonlyArray1<'_, u64>>()
        && array.is_contiguous()
    {
        return Ok(array.as_slice().unwrap_or(&[]).to_vec());
    }
    let Ok(items) = value.try_iter() else {
        let shown = shown(value);
        return Err(usage(value.py(), format!("block hashes {shown}: must be an array of uint64")));
    };
    items.map(|item| hash(&item?)).collect()
}

fn hash(item: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(hash) = item.extract::<u64>() {
        return Ok(hash);
    }
    item.extract::<i64>().map(|hash| hash as u64).map_err(|_| {
        let shown = shown(item);
        usage(item.py(), format!("block hash {shown}: must be an int of at most 64 bits"))
    })
}

/// (worker, leading blocks held in each tier or a nearer one)
type ReachTuple = (u64, [u32; TIERS]);

/// Blocks by 64-bit key, each with its holders. See `kvframe.RouterIndex`.
#[pyclass(frozen, module = "kvframe._core")]
pub struct RouterIndex {
    router: Mutex<Router>,
}

impl RouterIndex {
    fn locked(&self) -> MutexGuard<'_, Router> {
        // Every operation leaves the index whole, so a panic elsewhere does not matter.
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl RouterIndex {
    #[new]
    fn new(block_size: BlockSize, capacity: IndexCapacity) -> Self {
        Self { router: Mutex::new(Router::new(block_size.0, capacity.0)) }
    }

    fn add_worker(&self, worker: Worker) -> bool {
        self.locked().add_worker(worker.0)
    }

    fn remove_worker(&self, py: Python<'_>, worker: Worker) -> Option<usize> {
        py.detach(|| self.locked().remove_worker(worker.0))
    }

    fn cleared(&self, py: Python<'_>, worker: Worker) -> usize {
        py.detach(|| self.locked().cleared(worker.0))
    }

    fn stored(
        &self,
        worker: Worker,
        blocks: &Bound<'_, PyAny>,
        parent: Option<&Bound<'_, PyAny>>,
        ids: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        tier: u8,
    ) -> PyResult<usize> {
        let (keys, parent) = (hashes(blocks)?, parent.map(hash).transpose()?);
        let ids = tokens(ids, "token_ids")?;
        let space = root(salt, adapter);
        Ok(self.locked().stored(worker.0, &keys, parent, ids.as_slice(), space, tier))
    }

    fn removed(&self, worker: Worker, blocks: &Bound<'_, PyAny>, tier: u8) -> PyResult<usize> {
        let keys = hashes(blocks)?;
        Ok(self.locked().removed(worker.0, &keys, tier))
    }

    fn match_hashes(&self, blocks: &Bound<'_, PyAny>) -> PyResult<Vec<ReachTuple>> {
        let keys = hashes(blocks)?;
        let found = self.locked().match_keys(keys);
        Ok(found.into_iter().map(|reach| (reach.worker, reach.blocks)).collect())
    }

    fn match_tokens(
        &self,
        ids: &Bound<'_, PyAny>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
    ) -> PyResult<Vec<ReachTuple>> {
        let ids = tokens(ids, "prompt")?;
        let found = self.locked().match_tokens(ids.as_slice(), root(salt, adapter));
        Ok(found.into_iter().map(|reach| (reach.worker, reach.blocks)).collect())
    }

    fn workers(&self) -> Vec<u64> {
        self.locked().workers().collect()
    }

    fn counts(&self) -> (u64, u64, u64) {
        let counts = self.locked().counts();
        (counts.ignored, counts.unplaced, counts.dropped)
    }

    fn __len__(&self) -> usize {
        self.locked().len()
    }
}

fn root(salt: Option<&[u8]>, adapter: Option<&[u8]>) -> u64 {
    let space = space_of(salt, adapter, None);
    Router::space(space.salt, space.adapter)
}
