//! `RouterIndex`: which of many workers holds which prefix.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kvframe_core::router::{PrefixReach, Rank, Router, Text};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::args::{BlockSize, IndexCapacity, RankNumber, Worker};
use crate::buffers::{PromptIds, changed};
use crate::calls::listed;
use crate::errors::{is_wrong, raise, shown, unless_raised, usage};
use crate::fork;
use crate::lookup::space_of;

/// Hashes of blocks: of a uint64 array, or of ints of which negative ones stand for their low 64
/// bits, as some engines send them.
fn hashes(value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(array) = value.extract::<PyReadonlyArray1<'_, u64>>()
        && let Ok(hashes) = array.as_slice()
    {
        return Ok(hashes.to_vec());
    }
    let items = listed(value).map_err(|error| {
        unless_raised(value.py(), error, || {
            let shown = shown(value);
            usage(value.py(), format!("block hashes {shown}: must be an array of uint64"))
        })
    })?;
    items.iter().map(|item| hash(&item)).collect()
}

fn hash(item: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = item.py();
    match item.extract::<u64>() {
        Ok(hash) => return Ok(hash),
        Err(error) if !is_wrong(py, &error) => return Err(error),
        Err(_) => {}
    }
    let wrong = || {
        let shown = shown(item);
        usage(py, format!("block hash {shown}: must be an int of at most 64 bits"))
    };
    let hash = item.extract::<i64>().map(|hash| hash as u64);
    hash.map_err(|error| unless_raised(py, error, wrong))
}

/// Where ranks are not told apart, each worker by its ranks that reach farthest.
fn of_workers(mut found: Vec<PrefixReach>) -> Vec<PrefixReach> {
    found.dedup_by(|next, kept| {
        let same = next.worker == kept.worker;
        if same {
            let farther = kept.blocks.iter_mut().zip(next.blocks);
            farther.for_each(|(kept, next)| *kept = (*kept).max(next));
        }
        same
    });
    found
}

fn of(worker: Worker, rank: RankNumber) -> Rank {
    Rank { worker: worker.0, rank: rank.0 }
}

/// Blocks by 64-bit key, each with its holders. See `kvframe.RouterIndex`.
#[pyclass(frozen, module = "kvframe._core")]
pub struct RouterIndex {
    /// Matches go on beside each other, and wait for an event.
    router: RwLock<Router>,
    /// The class of an answer: a named tuple of the blocks by tier.
    reach: Py<PyAny>,
    /// `tuple.__new__`, which makes one without the check of `_make`.
    make: Py<PyAny>,
    forks: u32,
}

impl RouterIndex {
    /// Refused in the child of a fork: another thread may have held the lock then.
    fn check_fork(&self, py: Python<'_>) -> PyResult<()> {
        if self.forks == fork::generation() {
            return Ok(());
        }
        let message = "this index belongs to the parent of a fork; make one in the child";
        Err(raise(py, "HandleError", message.into()))
    }

    fn read(&self, py: Python<'_>) -> PyResult<RwLockReadGuard<'_, Router>> {
        self.check_fork(py)?;
        // Every operation leaves the index whole, so a panic elsewhere does not matter.
        Ok(self.router.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, py: Python<'_>) -> PyResult<RwLockWriteGuard<'_, Router>> {
        self.check_fork(py)?;
        Ok(self.inside())
    }

    /// By worker, or by (worker, rank): how far each reaches.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        found: Vec<PrefixReach>,
        ranks: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let answer = PyDict::new(py);
        for reach in if ranks { found } else { of_workers(found) } {
            let [gpu, host, disk, anywhere] = reach.blocks;
            let blocks = (gpu, host, disk, anywhere);
            let told = self.make.bind(py).call1((self.reach.bind(py), blocks))?;
            if ranks {
                answer.set_item((reach.worker, reach.rank), told)?;
            } else {
                answer.set_item(reach.worker, told)?;
            }
        }
        Ok(answer)
    }

    fn inside(&self) -> RwLockWriteGuard<'_, Router> {
        self.router.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl RouterIndex {
    #[new]
    fn new(
        py: Python<'_>,
        block_size: BlockSize,
        capacity: IndexCapacity,
        reach: Py<PyAny>,
    ) -> PyResult<Self> {
        let router = RwLock::new(Router::new(block_size.0, capacity.0));
        let make = py.get_type::<PyTuple>().getattr("__new__")?.unbind();
        Ok(Self { router, reach, make, forks: fork::generation() })
    }

    fn add_worker(&self, py: Python<'_>, worker: Worker) -> PyResult<bool> {
        Ok(self.write(py)?.add_worker(worker.0))
    }

    fn remove_worker(&self, py: Python<'_>, worker: Worker) -> PyResult<Option<usize>> {
        self.check_fork(py)?;
        Ok(py.detach(|| self.inside().remove_worker(worker.0)))
    }

    /// Of all ranks where none is given.
    fn cleared(&self, py: Python<'_>, worker: Worker, rank: Option<RankNumber>) -> PyResult<usize> {
        self.check_fork(py)?;
        Ok(py.detach(|| match rank {
            Some(rank) => self.inside().cleared(of(worker, rank)),
            None => self.inside().cleared_all(worker.0),
        }))
    }

    fn stored(
        &self,
        py: Python<'_>,
        worker: Worker,
        rank: RankNumber,
        blocks: &Bound<'_, PyAny>,
        parent: Option<&Bound<'_, PyAny>>,
        ids: &Bound<'_, PyAny>,
        marks: Vec<u64>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        tier: u8,
    ) -> PyResult<usize> {
        let (keys, parent) = (hashes(blocks)?, parent.map(hash).transpose()?);
        let (unread, space) = (PromptIds::of(ids, "token_ids")?, root(salt, adapter));
        let mut router = self.write(py)?;
        let stored = unread.read(|tokens| {
            let text = Text { tokens, marks: &marks, space };
            router.stored(of(worker, rank), &keys, parent, text, tier)
        });
        drop(router);
        stored.ok_or_else(|| changed(py))
    }

    fn misfit(
        &self,
        py: Python<'_>,
        worker: Worker,
        rank: RankNumber,
        blocks: usize,
    ) -> PyResult<()> {
        self.write(py)?.misfit(of(worker, rank), blocks);
        Ok(())
    }

    fn removed(
        &self,
        py: Python<'_>,
        worker: Worker,
        rank: RankNumber,
        blocks: &Bound<'_, PyAny>,
        tier: u8,
    ) -> PyResult<usize> {
        let keys = hashes(blocks)?;
        Ok(self.write(py)?.removed(of(worker, rank), &keys, tier))
    }

    fn match_hashes<'py>(
        &self,
        py: Python<'py>,
        blocks: &Bound<'py, PyAny>,
        ranks: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let router = self.read(py)?;
        // A prompt's hashes are mostly an array: it is read where it lies.
        let array = blocks.extract::<PyReadonlyArray1<'_, u64>>().ok();
        let found = match array.as_ref().map(PyReadonlyArray1::as_slice) {
            Some(Ok(keys)) => router.match_keys(keys),
            _ => router.match_keys(&hashes(blocks)?),
        };
        drop(router);
        self.answer(py, found, ranks)
    }

    fn match_tokens<'py>(
        &self,
        py: Python<'py>,
        ids: &Bound<'py, PyAny>,
        marks: Vec<u64>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        ranks: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (unread, space) = (PromptIds::of(ids, "prompt")?, root(salt, adapter));
        let router = self.read(py)?;
        let found =
            unread.read(|tokens| router.match_tokens(Text { tokens, marks: &marks, space }));
        drop(router);
        self.answer(py, found.ok_or_else(|| changed(py))?, ranks)
    }

    fn workers(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        Ok(self.read(py)?.workers().collect())
    }

    fn counts(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64)> {
        let counts = self.read(py)?.counts();
        Ok((counts.ignored, counts.unplaced, counts.dropped, counts.somewhere))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.read(py)?.len())
    }
}

fn root(salt: Option<&[u8]>, adapter: Option<&[u8]>) -> u64 {
    let space = space_of(None, salt, adapter, None, 0);
    Router::space(space.cache_salt, space.lora_name)
}
