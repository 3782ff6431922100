//! Copies of pages, checked: a decode step's into the arguments of a launch, others in an array.

use numpy::{Element, Ix1, PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;

use crate::buffers::{readable, whole, writable};

/// A column of a plan, of either width.
enum Column {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
}

impl Column {
    fn of(value: &Bound<'_, PyAny>) -> Option<Self> {
        values(value).map(Self::Narrow).or_else(|| values(value).map(Self::Wide))
    }

    fn len(&self) -> usize {
        match self {
            Self::Narrow(array) => array.len(),
            Self::Wide(array) => array.len(),
        }
    }

    /// Writes each value, if it is from 0 to `most`, into every third place.
    fn put(&self, row: &mut [i32], most: i64) -> Option<()> {
        match self {
            Self::Narrow(array) => put(array, row, most),
            Self::Wide(array) => put(array, row, most),
        }
    }
}

fn values<T: Element + Copy>(value: &Bound<'_, PyAny>) -> Option<Vec<T>> {
    readable::<T, Ix1>(value).map(|array| array.as_array().to_vec())
}

fn put<T: Copy + Into<i64>>(values: &[T], row: &mut [i32], most: i64) -> Option<()> {
    for (place, &value) in row.iter_mut().step_by(3).zip(values) {
        let value = Some(value.into()).filter(|value| (0..=most).contains(value))?;
        *place = i32::try_from(value).ok()?;
    }
    Some(())
}

/// What is asked of pools: copies from one to another, of so many blocks each.
struct CopyArgs {
    src: Column,
    dst: Column,
    tokens: Option<Column>,
    block_size: u32,
    blocks: (u32, u32),
}

impl CopyArgs {
    /// None where one of them is no integer array.
    fn of(
        [src, dst]: [&Bound<'_, PyAny>; 2],
        tokens: Option<&Bound<'_, PyAny>>,
        block_size: u32,
        blocks: (u32, u32),
    ) -> Option<Self> {
        let (src, dst) = (Column::of(src)?, Column::of(dst)?);
        let tokens = match tokens {
            Some(tokens) => Some(Column::of(tokens)?),
            None => None,
        };
        Some(Self { src, dst, tokens, block_size, blocks })
    }

    /// Writes source, destination and tokens of each, if all are in range.
    fn put(&self, row: &mut [i32]) -> Option<()> {
        if self.dst.len() != self.src.len() {
            return None;
        }
        self.src.put(row, i64::from(self.blocks.0) - 1)?;
        self.dst.put(&mut row[1..], i64::from(self.blocks.1) - 1)?;
        let Some(tokens) = &self.tokens else {
            let whole = i32::try_from(self.block_size).ok()?;
            row.iter_mut().skip(2).step_by(3).for_each(|tokens| *tokens = whole);
            return Some(());
        };
        if tokens.len() != self.src.len() {
            return None;
        }
        tokens.put(&mut row[2..], i64::from(self.block_size))
    }
}

/// Writes copies within a pool of `blocks` that may all run at once into `row`: source, destination
/// and tokens of each, `block_size` tokens if None. Answers how many they are, or 0 if they are
/// none, too many, no integer arrays, out of range, or must run one after another. The caller's
/// general path then finds out which.
#[pyfunction]
#[pyo3(signature = (src, dst, tokens, row, *, block_size, blocks))]
pub fn few_copies(
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    tokens: Option<&Bound<'_, PyAny>>,
    row: &Bound<'_, PyAny>,
    block_size: u32,
    blocks: u32,
) -> PyResult<usize> {
    let asked = CopyArgs::of([src, dst], tokens, block_size, (blocks, blocks));
    let mut array = whole(writable::<i32, Ix1>(row, "row")?, "row")?;
    let written = || {
        let asked = asked?;
        let count = asked.src.len();
        let row = array.as_slice_mut().ok()?.get_mut(..3 * count);
        let row = row.filter(|row| !row.is_empty())?;
        asked.put(row)?;
        at_once(row).then_some(count)
    };
    Ok(written().unwrap_or(0))
}

/// Copies from a pool of `src_blocks` to one of `dst_blocks`: int32 of (n, 3), source, destination
/// and tokens of each, `block_size` tokens if None. None if they are no integer arrays, out of
/// range, or if a destination must be named `once` and is not: the caller's general path then finds
/// out which.
#[pyfunction]
#[pyo3(signature = (src, dst, tokens, *, block_size, src_blocks, dst_blocks, once))]
pub fn copies<'py>(
    src: &Bound<'py, PyAny>,
    dst: &Bound<'py, PyAny>,
    tokens: Option<&Bound<'py, PyAny>>,
    block_size: u32,
    src_blocks: u32,
    dst_blocks: u32,
    once: bool,
) -> Option<Bound<'py, PyArray2<i32>>> {
    let py = src.py();
    let asked = CopyArgs::of([src, dst], tokens, block_size, (src_blocks, dst_blocks))?;
    let count = asked.src.len();
    let mut row = vec![0; 3 * count];
    asked.put(&mut row)?;
    if once && targets(&row).is_none() {
        return None;
    }
    PyArray1::from_vec(py, row).reshape([count, 3]).ok()
}

/// Returns the pages that copies write, sorted. `None` if a page is written twice.
fn targets(copies: &[i32]) -> Option<Vec<i32>> {
    let mut targets: Vec<i32> = copies.iter().skip(1).step_by(3).copied().collect();
    targets.sort_unstable();
    targets.windows(2).all(|pair| pair[0] != pair[1]).then_some(targets)
}

/// Whether no copy writes what another reads or writes, or what it reads itself.
fn at_once(copies: &[i32]) -> bool {
    targets(copies).is_some_and(|targets| {
        copies.iter().step_by(3).all(|source| targets.binary_search(source).is_err())
    })
}
