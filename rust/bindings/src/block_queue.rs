//! `BlockQueue`: the unowned blocks of an engine's pool, under one policy.

use kvframe_core::hash::Key;
use kvframe_core::tier::BlockQueue as Core;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::args::{BlockSize, Blocks, Victims};
use crate::errors::usage;
use crate::policy::eviction::make_policy;
use crate::policy::host::PolicyHost;
use crate::tier::{KnownTuple, known};

/// The core of a queue as the package sees it; `kvframe.block_queue.BlockQueue` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct BlockQueue {
    core: PolicyHost<Core>,
}

#[pymethods]
impl BlockQueue {
    /// The queue of `blocks` blocks, which all have an owner; `policy` is a built-in's name or a driver.
    #[new]
    #[pyo3(signature = (*, blocks, block_size, policy, policy_options=None))]
    fn new(
        py: Python<'_>,
        blocks: Blocks,
        block_size: BlockSize,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let made = make_policy(py, policy, policy_options)?;
        let core = PolicyHost::new(py, "queue", made, |eviction| {
            Core::new(blocks.0, block_size.0, eviction)
        })?;
        Ok(Self { core })
    }

    /// The first `n` blocks, which have an owner now.
    fn take(&self, py: Python<'_>, n: Victims) -> PyResult<Vec<u32>> {
        self.core.with_victims(py, |core| core.take(n.0))
    }

    /// Owned blocks became findable, each under a key of any length.
    fn insert(
        &self,
        py: Python<'_>,
        blocks: Vec<u32>,
        keys: Vec<PyBackedBytes>,
        depths: Vec<u32>,
        using: KnownTuple,
    ) -> PyResult<()> {
        let (n, keyed, placed) = (blocks.len(), keys.len(), depths.len());
        if keyed != n || placed != n {
            let message = format!("{n} blocks, {keyed} keys, {placed} depths: must be as many");
            return Err(usage(py, message));
        }
        let keys: Vec<Key> = keys.iter().map(|key| Key::of_name(key)).collect();
        self.core.with(py, |core| core.insert(&blocks, &keys, &depths, known(&using)))
    }

    /// A request found blocks.
    fn hit(&self, py: Python<'_>, blocks: Vec<u32>, using: KnownTuple) -> PyResult<()> {
        self.core.with(py, |core| core.hit(&blocks, known(&using)))
    }

    /// The last owner of each left.
    fn free(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.free(&blocks))
    }

    /// The same, but they are taken after all others.
    fn defer(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.defer(&blocks))
    }

    /// Blocks are not findable any more.
    fn remove(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<()> {
        self.core.with(py, |core| core.remove(&blocks))
    }

    /// Blocks without an owner, in the order in which they would be taken now.
    fn order(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        let cached = self.core.order(py, Core::tier)?;
        self.core.locked(py, |core| core.around(cached))
    }

    /// Blocks without an owner.
    fn available(&self, py: Python<'_>) -> PyResult<u32> {
        self.core.locked(py, |core| core.available())
    }

    /// Findable blocks that were taken for something else.
    fn evictions(&self, py: Python<'_>) -> PyResult<u64> {
        self.core.locked(py, |core| core.evictions())
    }

    /// Decisions that the built-in order took for a policy that failed.
    fn failures(&self) -> u64 {
        self.core.outside().failures()
    }

    /// Takes over what another queue of as many blocks holds; this one is new.
    fn adopt(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let cached = other.core.order(py, Core::tier)?;
        let contents = other.core.locked(py, |core| core.contents(&cached))?;
        self.core.with(py, |core| core.adopt(&contents))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
