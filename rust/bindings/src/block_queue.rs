//! `BlockQueue`: the unowned blocks of an engine's pool, under one policy.

use std::sync::{Arc, OnceLock};

use kvframe_core::hash::Key;
use kvframe_core::tier::BlockQueue as Core;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBytes, PyDict, PyInt, PyList};

use crate::args::{BlockSize, Blocks, Depth, Victims};
use crate::calls::listed;
use crate::errors::{shown, unless_raised, usage};
use crate::handles::Handles;
use crate::policy::eviction::make_policy;
use crate::policy::host::PolicyHost;
use crate::tier::Using;

/// The core of a queue as the package sees it; `kvframe.block_queue.BlockQueue` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct BlockQueue {
    core: PolicyHost<Core>,
    /// What stands for blocks in calls and answers; their ids if empty.
    handles: OnceLock<Arc<Handles>>,
}

impl BlockQueue {
    fn ids(&self, blocks: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        if let Some(handles) = self.handles.get() {
            return handles.ids(blocks);
        }
        let wrong = || {
            let limit = format!("must be integers between 0 and {}", u32::MAX);
            usage(blocks.py(), format!("blocks = {}: {limit}", shown(blocks)))
        };
        blocks.extract().map_err(|error| unless_raised(blocks.py(), error, wrong))
    }

    fn list<'py>(&self, py: Python<'py>, blocks: &[u32]) -> PyResult<Bound<'py, PyAny>> {
        match self.handles.get() {
            Some(handles) => handles.list(py, blocks),
            None => Ok(PyList::new(py, blocks)?.into_any()),
        }
    }
}

/// The keys of blocks, bytes of any length, and which places of the list have `None` instead.
#[derive(Default)]
struct Keys {
    keys: Vec<Key>,
    none: Vec<usize>,
}

impl Keys {
    fn of(names: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut read = Self::default();
        match names.cast::<PyList>() {
            Ok(list) => {
                read.keys.reserve_exact(list.len());
                list.iter().try_for_each(|name| read.add(&name))?;
            }
            Err(_) => listed(names)
                .map_err(|error| {
                    unless_raised(names.py(), error, || {
                        usage(names.py(), format!("keys = {}: must be a sequence", shown(names)))
                    })
                })?
                .iter()
                .try_for_each(|name| read.add(&name))?,
        }
        Ok(read)
    }

    fn add(&mut self, name: &Bound<'_, PyAny>) -> PyResult<()> {
        match name.cast::<PyBytes>() {
            Ok(name) => self.keys.push(Key::of_name(name.as_bytes())),
            Err(_) if name.is_none() => self.none.push(self.len()),
            Err(_) => {
                return Err(usage(name.py(), format!("key = {}: must be bytes", shown(name))));
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.keys.len() + self.none.len()
    }

    /// Of as many values, those of blocks with a key.
    fn with_key(&self, values: &mut Vec<u32>) {
        for &place in self.none.iter().rev() {
            values.remove(place);
        }
    }
}

/// The places of `n` blocks in a prefix: of each, or of the first of those that follow each other.
fn places(depths: &Bound<'_, PyAny>, n: usize) -> PyResult<Vec<u32>> {
    if depths.cast::<PyInt>().is_err() {
        let wrong = || {
            let limit = format!("must be integers between 0 and {}, one a block", u32::MAX);
            usage(depths.py(), format!("depths = {}: {limit}", shown(depths)))
        };
        return depths.extract().map_err(|error| unless_raised(depths.py(), error, wrong));
    }
    let first: Depth = depths.extract()?;
    match first.0.checked_add(n as u32) {
        Some(end) => Ok((first.0..end).collect()),
        None => Err(usage(depths.py(), format!("depths = {}: too far from 0", shown(depths)))),
    }
}

#[pymethods]
impl BlockQueue {
    /// The queue of `blocks` blocks, which all have an owner; `policy` is a built-in's name or a driver.
    /// With `handles`, these objects stand for the blocks.
    #[new]
    #[pyo3(signature = (*, blocks, block_size, policy, policy_options=None, handles=None))]
    fn new(
        py: Python<'_>,
        blocks: Blocks,
        block_size: BlockSize,
        policy: &Bound<'_, PyAny>,
        policy_options: Option<&Bound<'_, PyDict>>,
        handles: Option<Vec<Py<PyAny>>>,
    ) -> PyResult<Self> {
        let objects = OnceLock::new();
        if let Some(given) = handles {
            let _ = objects.set(Arc::new(Handles::new(py, given, blocks.0)?));
        }
        let made = make_policy(py, policy, policy_options)?;
        let core = PolicyHost::new(py, "queue", made, |eviction| {
            Core::new(blocks.0, block_size.0, eviction)
        })?;
        Ok(Self { core, handles: objects })
    }

    /// The first `n` blocks, which have an owner now.
    fn take<'py>(&self, py: Python<'py>, n: Victims) -> PyResult<Bound<'py, PyAny>> {
        let taken = self.core.with_victims(py, |core| core.take(n.0))?;
        self.list(py, &taken)
    }

    /// Owned blocks became findable, each under a key of any length; one without a key is passed over.
    fn insert(
        &self,
        py: Python<'_>,
        blocks: &Bound<'_, PyAny>,
        keys: &Bound<'_, PyAny>,
        depths: &Bound<'_, PyAny>,
        using: Using,
    ) -> PyResult<()> {
        let (mut blocks, keys) = (self.ids(blocks)?, Keys::of(keys)?);
        let mut depths = places(depths, blocks.len())?;
        let (n, keyed, placed) = (blocks.len(), keys.len(), depths.len());
        if keyed != n || placed != n {
            let message = format!("{n} blocks, {keyed} keys, {placed} depths: must be as many");
            return Err(usage(py, message));
        }
        keys.with_key(&mut blocks);
        keys.with_key(&mut depths);
        self.core.with(py, |core| core.insert(&blocks, &keys.keys, &depths, using.info()))
    }

    /// A request found blocks.
    fn hit(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>, using: Using) -> PyResult<()> {
        let blocks = self.ids(blocks)?;
        self.core.with(py, |core| core.hit(&blocks, using.info()))
    }

    /// The last owner of each left; `empty` hold nothing any more.
    fn free(
        &self,
        py: Python<'_>,
        blocks: &Bound<'_, PyAny>,
        empty: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (blocks, empty) = (self.ids(blocks)?, self.ids(empty)?);
        self.core.with(py, |core| core.free(&blocks, &empty))
    }

    /// Blocks are not findable any more.
    fn remove(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<()> {
        let blocks = self.ids(blocks)?;
        self.core.with(py, |core| core.remove(&blocks))
    }

    /// Blocks without an owner, in the order in which they would be taken now.
    fn order<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let cached = self.core.order(py, Core::tier, u32::MAX)?;
        let order = self.core.locked(py, |core| core.around(cached))?;
        self.list(py, &order)
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
        let cached = other.core.order(py, Core::tier, u32::MAX)?;
        let contents = other.core.locked(py, |core| core.contents(&cached))?;
        self.core.with(py, |core| core.adopt(&contents))?;
        if let Some(handles) = other.handles.get() {
            let _ = self.handles.set(Arc::clone(handles));
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.handles.get().map_or(Ok(()), |handles| handles.traverse(&visit))?;
        self.core.traverse(&visit)
    }

    /// Recounts the state.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.core.with(py, |core| core.check_integrity())
    }
}
