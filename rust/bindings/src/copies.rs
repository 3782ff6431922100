//! The few copies of a decode step, from the arrays of a plan into the arguments of a launch.

use numpy::{Element, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::buffers::{slice, writable};

/// As many as the arguments of a launch hold.
const MOST: usize = 128;

/// A column of a plan, of either width.
enum Column<'py> {
    Narrow(PyReadonlyArray1<'py, i32>),
    Wide(PyReadonlyArray1<'py, i64>),
}

impl<'py> Column<'py> {
    fn of(value: &Bound<'py, PyAny>) -> Option<Self> {
        if let Ok(narrow) = value.extract() {
            return Some(Self::Narrow(narrow));
        }
        value.extract().ok().map(Self::Wide)
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

fn put<T: Element + Copy + Into<i64>>(
    array: &PyReadonlyArray1<'_, T>,
    row: &mut [i32],
    most: i64,
) -> Option<()> {
    for (place, &value) in row.iter_mut().step_by(3).zip(array.as_array()) {
        let value = Some(value.into()).filter(|value| (0..=most).contains(value))?;
        *place = i32::try_from(value).ok()?;
    }
    Some(())
}

/// Writes copies within a pool of `blocks` that may all run at once into `row`: source,
/// destination and tokens of each, `block_size` tokens if None. Answers how many they are, or 0 if
/// they are none, too many, no integer arrays, out of range, or must run one after another: the
/// caller's usual way tells these apart.
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
    let mut array = writable(row, "row")?;
    let row = slice(row.py(), &mut array, "row")?;
    Ok(written(src, dst, tokens, row, block_size, blocks).unwrap_or(0))
}

fn written(
    src: &Bound<'_, PyAny>,
    dst: &Bound<'_, PyAny>,
    tokens: Option<&Bound<'_, PyAny>>,
    row: &mut [i32],
    block_size: u32,
    blocks: u32,
) -> Option<usize> {
    let (src, dst) = (Column::of(src)?, Column::of(dst)?);
    let count = src.len();
    if count == 0 || count > MOST.min(row.len() / 3) || dst.len() != count {
        return None;
    }
    let row = &mut row[..3 * count];
    let last = i64::from(blocks) - 1;
    src.put(row, last)?;
    dst.put(&mut row[1..], last)?;
    match tokens.map(Column::of) {
        None => {
            let whole = i32::try_from(block_size).ok()?;
            row.iter_mut().skip(2).step_by(3).for_each(|tokens| *tokens = whole);
        }
        Some(tokens) => {
            let tokens = tokens.filter(|tokens| tokens.len() == count)?;
            tokens.put(&mut row[2..], i64::from(block_size))?;
        }
    }
    at_once(row).then_some(count)
}

/// Whether no copy writes what another reads or writes, or what it reads itself.
fn at_once(copies: &[i32]) -> bool {
    let mut targets = [0; MOST];
    let targets = &mut targets[..copies.len() / 3];
    for (target, copy) in targets.iter_mut().zip(copies.chunks_exact(3)) {
        *target = copy[1];
    }
    targets.sort_unstable();
    targets.windows(2).all(|pair| pair[0] != pair[1])
        && copies.chunks_exact(3).all(|copy| targets.binary_search(&copy[0]).is_err())
}
