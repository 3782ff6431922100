//! Blocks held one by one. An `impl` of `Manager`.

use kvframe_core::Manager as Core;
use kvframe_core::pool::{NIL, State};
use numpy::{PyArray1, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::args::BlockNumber;
use crate::buffers::{keys, tokens, unless_wrong};
use crate::errors::usage;
use crate::manager::Manager;
use crate::views::entry;

/// (how often each block is held, its generation)
type HoldsTuple<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>);

#[pymethods]
impl Manager {
    /// Makes a taken block findable under a key of shape (1, 2), after `parent`; returns a block
    /// that was findable under it before.
    #[pyo3(signature = (block, key, parent=None))]
    fn publish_block(
        &self,
        py: Python<'_>,
        block: BlockNumber,
        key: &Bound<'_, PyAny>,
        parent: Option<BlockNumber>,
    ) -> PyResult<Option<u32>> {
        let keys = keys(key)?;
        let [key] = keys[..] else {
            return Err(usage(py, format!("a block has one key, not {}", keys.len())));
        };
        let parent = parent.map_or(NIL, |block| block.0);
        self.with(py, |core| core.publish_block(block.0, key, parent))
    }

    /// Blocks under keys, up to the first that is not there.
    fn find_blocks<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let keys = self::keys(keys)?;
        let blocks = self.locked(py, |core| core.find_blocks(&keys))?;
        Ok(PyArray1::from_iter(py, blocks.into_iter().map(|block| entry(block, -1))))
    }

    /// Holds blocks once more.
    #[pyo3(signature = (blocks, generations=None))]
    fn touch_blocks(
        &self,
        py: Python<'_>,
        blocks: &Bound<'_, PyAny>,
        generations: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (blocks, generations) = expected(blocks, generations)?;
        self.with(py, |core| core.acquire_blocks(&blocks, &generations))
    }

    /// Holds blocks once less.
    #[pyo3(signature = (blocks, generations=None))]
    fn free_blocks(
        &self,
        py: Python<'_>,
        blocks: &Bound<'_, PyAny>,
        generations: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (blocks, generations) = expected(blocks, generations)?;
        self.with(py, |core| core.free_blocks(&blocks, &generations))
    }

    /// How often each block is held one by one, and its generation.
    fn holds<'py>(&self, py: Python<'py>, blocks: &Bound<'py, PyAny>) -> PyResult<HoldsTuple<'py>> {
        let blocks = tokens(blocks, "blocks")?;
        let rows: Result<Vec<(u32, u32)>, String> = self.locked(py, |core| {
            let row =
                |&b: &u32| in_pool(core, b).map(|()| (core.held(b), core.pool().generation(b)));
            blocks.iter().map(row).collect()
        })?;
        let rows = rows.map_err(|why| usage(py, why))?;
        let held = PyArray1::from_iter(py, rows.iter().map(|row| row.0));
        Ok((held, PyArray1::from_iter(py, rows.iter().map(|row| row.1))))
    }

    /// How many of the blocks have no owner; -1 is none.
    fn unowned(&self, py: Python<'_>, blocks: &Bound<'_, PyAny>) -> PyResult<usize> {
        let blocks = match found(blocks)? {
            Some(blocks) => blocks,
            None => tokens(blocks, "blocks")?,
        };
        let count = self.locked(py, |core| {
            blocks.iter().try_for_each(|&block| in_pool(core, block))?;
            let state = |&block: &u32| core.pool().state(block);
            let is_unowned = |block: &&u32| matches!(state(block), State::Free | State::Cached);
            Ok(blocks.iter().filter(is_unowned).count())
        })?;
        count.map_err(|why: String| usage(py, why))
    }
}

/// Refuses, with the reason, a block that the pool does not have.
pub fn in_pool(core: &Core, block: u32) -> Result<(), String> {
    let total = core.pool().capacity();
    if block < total {
        return Ok(());
    }
    Err(format!("block = {block}: the pool has no such block: it has 0 to {}", total - 1))
}

/// Reads blocks and the generation that each is expected to have; no generations if none are given.
fn expected(
    blocks: &Bound<'_, PyAny>,
    generations: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<u32>, Vec<u32>)> {
    let blocks = match plain(blocks) {
        Some(ids) => ids,
        None => tokens(blocks, "blocks")?,
    };
    let Some(generations) = generations else {
        return Ok((blocks, Vec::new()));
    };
    let py = generations.py();
    let generations = tokens(generations, "generations")?;
    let (have, want) = (generations.len(), blocks.len());
    if have != want {
        return Err(usage(py, format!("{have} generations, but {want} blocks")));
    }
    Ok((blocks, generations))
}

/// Reads the blocks of a hit, without the places where it needs none. `None` for another array.
fn found(blocks: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u32>>> {
    let ids = match blocks.cast::<PyArray1<i32>>() {
        Ok(array) if array.is_aligned() => array.to_vec().ok(),
        Ok(_) => None,
        Err(_) => unless_wrong(blocks.py(), blocks.extract::<Vec<i32>>())?,
    };
    let known = |id: &i32| *id != -1;
    let number = |id| u32::try_from(id).ok();
    Ok(ids.and_then(|ids| ids.into_iter().filter(known).map(number).collect()))
}

/// Reads ids in the dtype of block tables. `None` if the general conversion is needed.
fn plain(blocks: &Bound<'_, PyAny>) -> Option<Vec<u32>> {
    let array = blocks.cast::<PyArray1<i32>>().ok().filter(|array| array.is_aligned())?;
    // Copied at once, so that it is not borrowed.
    let ids = array.to_vec().ok()?;
    let valid = ids.iter().all(|&id| id >= 0);
    valid.then(|| ids.into_iter().map(|id| id as u32).collect())
}
