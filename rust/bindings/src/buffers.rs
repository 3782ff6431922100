//! Token ids, keys and handles from whatever integer buffer the caller has.

use kvframe_core::Key;
use numpy::ndarray::{ArrayView1, Dimension};
use numpy::{
    Element, Ix1, Ix2, PyArray1, PyArrayMethods, PyReadonlyArray, PyReadonlyArray1,
    PyReadwriteArray, PyUntypedArrayMethods,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::calls::{call_method, import, item, text};
use crate::errors::{is_wrong, seq_within, shown, unless_raised, usage};
use crate::look::Target;

/// Reads token ids from a 1-d array of any integer dtype, or any sequence of ints.
///
/// They are copied: what runs before they are used may change the caller's array.
pub fn tokens(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u32>> {
    if let Ok(array) = value.cast::<PyArray1<u32>>()
        && let Ok(array) = array.try_readonly()
        && let Ok(ids) = array.as_slice()
    {
        return Ok(ids.to_vec());
    }
    if value.cast::<PyTuple>().is_ok_and(PyTupleMethods::is_empty) {
        return Ok(Vec::new());
    }
    let py = value.py();
    if let Some(ids) = integers(value)? {
        let ids = ids.into_iter().enumerate().map(|(i, id)| {
            u32::try_from(id).map_err(|_| {
                usage(py, format!("{name}[{i}] = {id}: must be between 0 and {}", u32::MAX))
            })
        });
        return ids.collect();
    }
    let what = match as_array(value) {
        Ok(array) => shape_of(&array),
        // Rows of unequal length, or what cannot be read at all.
        Err(error) if is_wrong(py, &error) => shown(value),
        Err(error) => return Err(error),
    };
    Err(usage(py, format!("{name} must be a 1-d array of token ids, not {what}")))
}

/// Token ids that are read under the core's lock: a long prompt that is only looked at is not copied.
pub enum PromptIds<'py> {
    /// The caller's, which may be changed until it is read.
    Array(Bound<'py, PyArray1<u32>>),
    /// As [`tokens`] reads them.
    Copied(Vec<u32>),
}

impl<'py> PromptIds<'py> {
    /// Reads what [`tokens`] reads; an aligned array of u32 is kept, not copied.
    pub fn of(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Self> {
        match value.cast::<PyArray1<u32>>() {
            Ok(array) if array.is_contiguous() && array.is_aligned() => {
                Ok(Self::Array(array.clone()))
            }
            _ => tokens(value, name).map(Self::Copied),
        }
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Array(array) => array.len(),
            Self::Copied(ids) => ids.len(),
        }
    }

    /// Returns what `work`, which runs no Python, makes of the ids. `None` if another thread has changed the
    /// array since: see [`changed`].
    pub fn read<T>(&self, work: impl FnOnce(&[u32]) -> T) -> Option<T> {
        match self {
            Self::Array(array) => {
                let array = array.as_any().cast::<PyArray1<u32>>().ok()?.try_readonly().ok()?;
                array.as_slice().ok().map(work)
            }
            Self::Copied(ids) => Some(work(ids)),
        }
    }
}

/// Why [`PromptIds::read`] gave nothing; made where no lock is held.
pub fn changed(py: Python<'_>) -> PyErr {
    usage(py, "the array of token ids was changed while it was read".into())
}

/// As `NumPy` makes an array of it, which may run the code of its class.
fn as_array<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    call_method(&import(py, "numpy")?, intern!(py, "asarray"), (value,))
}

/// The values of a 1-d array of any integer dtype, or of a sequence of ints; an empty one may have
/// any dtype. `None` for anything else.
fn integers(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<i128>>> {
    let py = value.py();
    let Some(array) = unless_wrong(py, as_array(value))? else { return Ok(None) };
    if array.getattr("ndim")?.extract::<usize>()? != 1 {
        return Ok(None);
    }
    if array.getattr("size")?.extract::<usize>()? == 0 {
        return Ok(Some(Vec::new()));
    }
    match array.getattr("dtype")?.getattr("kind")?.extract()? {
        'i' => {
            let wide = call_method(&array, intern!(py, "astype"), ("int64",))?;
            let wide = wide.extract::<PyReadonlyArray1<'_, i64>>()?;
            Ok(Some(wide.as_array().iter().map(|&v| i128::from(v)).collect()))
        }
        'u' => {
            let wide = call_method(&array, intern!(py, "astype"), ("uint64",))?;
            let wide = wide.extract::<PyReadonlyArray1<'_, u64>>()?;
            Ok(Some(wide.as_array().iter().map(|&v| i128::from(v)).collect()))
        }
        // A list that holds both huge and negative ints has no integer dtype of its own.
        'O' | 'f' => unless_wrong(py, value.extract()),
        _ => Ok(None),
    }
}

/// What was read of an argument; `None` if the argument is wrong. What its own code has raised, an interrupt say, is
/// the caller's to hear.
pub fn unless_wrong<T>(py: Python<'_>, read: PyResult<T>) -> PyResult<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_wrong(py, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The caller's array to read; a copy where it begins in the middle of a word, as a view into a message
/// may. `None` for another dtype or number of dimensions.
pub fn readable<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
) -> Option<PyReadonlyArray<'py, T, D>> {
    let array = value.extract::<PyReadonlyArray<'py, T, D>>().ok()?;
    if array.is_aligned() {
        return Some(array);
    }
    drop(array); // a copy of a class of its own may run any code
    call_method(value, intern!(value.py(), "copy"), ()).ok()?.extract().ok()
}

/// Block keys from a uint64 array of shape (n, 2), low word first, or from a list of names, of each the
/// first 16 bytes.
pub fn keys(value: &Bound<'_, PyAny>) -> PyResult<Vec<Key>> {
    if let Ok(names) = value.cast::<PyList>() {
        return names.iter().map(|name| key_of(&name)).collect();
    }
    let array = readable::<u64, Ix2>(value).ok_or_else(|| {
        let limit = "a uint64 array of shape (blocks, 2), or a list of bytes";
        usage(value.py(), format!("keys must be {limit}"))
    })?;
    if let [_, 2] = array.shape() {
        let key = |r: ArrayView1<'_, u64>| Key(u128::from(r[0]) | (u128::from(r[1]) << 64));
        return Ok(array.as_array().rows().into_iter().map(key).collect());
    }
    let message = format!("keys must have shape (blocks, 2), not {:?}", array.shape());
    drop(array);
    Err(usage(value.py(), message))
}

/// The key that an engine's own hash of a block begins with.
fn key_of(name: &Bound<'_, PyAny>) -> PyResult<Key> {
    let bytes = name.cast::<PyBytes>().ok().and_then(|name| name.as_bytes().first_chunk::<16>());
    bytes.map(|head| Key(u128::from_le_bytes(*head))).ok_or_else(|| {
        let limit = "each must be bytes, 16 of them or more";
        usage(name.py(), format!("keys with {}: {limit}", shown(name)))
    })
}

/// A key's two words, low first.
pub fn key_words(key: Key) -> [u64; 2] {
    [key.0 as u64, (key.0 >> 64) as u64]
}

/// Handles, tickets or lengths from an array of any integer dtype or a sequence; empty for None.
pub fn u64s(value: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Vec<u64>> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let py = value.py();
    if let Some(values) = unless_wrong(py, plain(value))?.flatten() {
        return Ok(values);
    }
    let Some(values) = integers(value)? else {
        let instead = unless_wrong(py, item(value, 0))?.map_or("", |first| seq_within(&first));
        let limit = "must be integers of at least 0, in 1 dimension";
        return Err(usage(py, format!("{name} {limit}{instead}")));
    };
    values
        .into_iter()
        .enumerate()
        .map(|(i, v)| {
            u64::try_from(v).map_err(|_| {
                usage(py, format!("{name}[{i}] = {v}: must be between 0 and {}", u64::MAX))
            })
        })
        .collect()
}

/// Reads handles without calls of `NumPy`: arrays of the usual dtypes, and short lists of ints. `None` for
/// anything else, and for values out of range.
fn plain(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
    // Copied at once, so that it is not borrowed.
    if let Ok(array) = value.cast::<PyArray1<u64>>() {
        return Ok(array.to_vec().ok());
    }
    if let Ok(array) = value.cast::<PyArray1<i64>>() {
        return Ok(array.to_vec().ok().and_then(|values| not_negative(values, |v| v as u64)));
    }
    if let Ok(array) = value.cast::<PyArray1<i32>>() {
        return Ok(array.to_vec().ok().and_then(|values| not_negative(values, |v| v as u64)));
    }
    let Ok(list) = value.cast::<PyList>() else { return Ok(None) };
    if list.len() > SHORT {
        return Ok(None);
    }
    list.iter().map(|item| item.extract()).collect::<PyResult<_>>().map(Some)
}

fn not_negative<T: Copy + Default + Ord>(
    values: Vec<T>,
    convert: impl Fn(T) -> u64,
) -> Option<Vec<u64>> {
    let least = values.iter().copied().min().unwrap_or_default();
    (least >= T::default()).then(|| values.into_iter().map(convert).collect())
}

/// Lists up to here are read faster item by item.
const SHORT: usize = 64;

/// A length that fits the core.
pub fn length(py: Python<'_>, name: &str, value: u64) -> PyResult<u32> {
    u32::try_from(value)
        .map_err(|_| usage(py, format!("{name} = {value}: must be between 0 and {}", u32::MAX)))
}

/// The caller's array to write into. While it is borrowed no Python code may run: `Target::of` ends that.
pub fn writable<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<PyReadwriteArray<'py, T, D>> {
    let array = value.extract::<PyReadwriteArray<'py, T, D>>().ok();
    let wrong = array.as_ref().and_then(|array| {
        let words = if array.is_aligned() { None } else { Some(", unaligned") };
        words.or_else(|| overlaps(array.shape(), array.strides()).then_some(" with shared entries"))
    });
    array.filter(|_| wrong.is_none()).ok_or_else(|| {
        let (dtype, ndim) = (T::get_dtype(value.py()), D::NDIM.unwrap_or(1));
        let message = format!(
            "{name} must be a writable {dtype} array of {ndim} dimension{}, not {}{}",
            if ndim == 1 { "" } else { "s" },
            shape_of(value),
            wrong.unwrap_or_default()
        );
        usage(value.py(), message)
    })
}

/// As [`writable`], but ends the borrow and returns a [`Target`].
pub fn target<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Target<'py, T, D>> {
    writable(value, name).map(Target::of)
}

/// As [`target`], for a one-dimensional, contiguous array.
pub fn whole_target<'py, T: Element>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Target<'py, T, Ix1>> {
    // The common case: its flags say all that a borrow would check.
    let plain = value.cast::<PyArray1<T>>().ok().map(Target::unborrowed);
    match plain.filter(Target::is_plain) {
        Some(target) => Ok(target),
        None => whole(writable(value, name)?, name).map(Target::of),
    }
}

/// The error for a target that has changed since it was given.
pub fn altered(py: Python<'_>, name: &str) -> PyErr {
    usage(py, format!("{name}: given another type, shape or memory during the call"))
}

/// Whether two entries of an array lie in one place, as those of a broadcast one do.
fn overlaps(shape: &[usize], strides: &[isize]) -> bool {
    let step = |axis: usize| strides[axis].unsigned_abs();
    let long = || (0..shape.len()).filter(|&axis| shape[axis] > 1);
    let within = |axis: usize| {
        let inner = long().filter(|&other| other != axis && step(other) <= step(axis));
        inner.map(|other| (shape[other] - 1) * step(other)).sum::<usize>()
    };
    !shape.contains(&0) && long().any(|axis| within(axis) >= step(axis))
}

/// The caller's arrays to write into, one a layer group; none for None.
pub fn arrays<'py>(
    value: Option<&Bound<'py, PyAny>>,
    name: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let wrong = || {
        let shown = shown(value);
        let limit = "must be an array, or a sequence of arrays, one a layer group";
        usage(value.py(), format!("{name} = {shown}: {limit}"))
    };
    value.extract().map_err(|error| unless_raised(value.py(), error, wrong))
}

/// Refuses what is not one piece of memory.
pub fn whole<'py, T: Element>(
    array: PyReadwriteArray<'py, T, Ix1>,
    name: &str,
) -> PyResult<PyReadwriteArray<'py, T, Ix1>> {
    if array.is_contiguous() || array.is_empty() {
        return Ok(array);
    }
    let (size, strides, py) = (size_of::<T>(), array.strides().to_vec(), array.py());
    drop(array);
    let message =
        format!("{name} must be contiguous: {size} bytes from entry to entry, not {strides:?}");
    Err(usage(py, message))
}

/// The caller's array of offsets or lengths, of either width.
pub enum Offsets<'py> {
    /// As `FlashInfer` takes them.
    Narrow(Target<'py, i32, Ix1>),
    /// As `NumPy` makes them.
    Wide(Target<'py, i64, Ix1>),
}

impl<'py> Offsets<'py> {
    /// An array for `count` of them.
    pub fn of(value: &Bound<'py, PyAny>, name: &str, count: usize) -> PyResult<Self> {
        let array = if value.cast::<PyArray1<i32>>().is_ok() {
            Self::Narrow(target(value, name)?)
        } else {
            Self::Wide(target(value, name)?)
        };
        let have = match &array {
            Self::Narrow(array) => array.len(),
            Self::Wide(array) => array.len(),
        };
        if have < count {
            return Err(usage(value.py(), format!("{count} values, but {name} holds {have}")));
        }
        Ok(array)
    }

    /// Refuses another array that shares memory with it.
    pub fn apart<T: Element>(
        &self,
        py: Python<'_>,
        [name, beside]: [&str; 2],
        other: &Target<'py, T, Ix1>,
    ) -> PyResult<()> {
        let apart = match self {
            Self::Narrow(array) => array.borrow().is_some_and(|_held| other.borrow().is_some()),
            Self::Wide(array) => array.borrow().is_some_and(|_held| other.borrow().is_some()),
        };
        if apart { Ok(()) } else { Err(usage(py, format!("{name} and {beside} share memory"))) }
    }

    /// Whether `largest` can be written.
    pub fn check(&self, py: Python<'_>, name: &str, largest: usize) -> PyResult<()> {
        let same = match self {
            Self::Narrow(_) if i32::try_from(largest).is_err() => {
                return Err(usage(
                    py,
                    format!("{largest} does not fit int32: give an int64 array"),
                ));
            }
            Self::Narrow(array) => array.is_same(),
            Self::Wide(array) => array.is_same(),
        };
        if same { Ok(()) } else { Err(altered(py, name)) }
    }

    /// Writes the first ones.
    ///
    /// # Safety
    /// It was checked, and no Python code has run since.
    pub unsafe fn put(&mut self, values: impl Iterator<Item = usize>) {
        // SAFETY: the caller guarantees it, and the view ends before this function returns.
        unsafe {
            match self {
                Self::Narrow(array) => {
                    array.view().iter_mut().zip(values).for_each(|(place, v)| *place = v as i32);
                }
                Self::Wide(array) => {
                    array.view().iter_mut().zip(values).for_each(|(place, v)| *place = v as i64);
                }
            }
        }
    }
}

/// What an argument is, for a message.
fn shape_of(value: &Bound<'_, PyAny>) -> String {
    let dtype = value.getattr("dtype").and_then(|dtype| text(&dtype));
    let shape = value.getattr("shape").and_then(|shape| text(&shape));
    match (dtype, shape) {
        (Ok(dtype), Ok(shape)) => format!("{dtype} of shape {shape}"),
        _ => value.get_type().name().map_or_else(|_| "this".into(), |name| name.to_string()),
    }
}
