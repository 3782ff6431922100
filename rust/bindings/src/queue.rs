//! The requests that a step may admit: each is converted and hashed when its turn comes, so that a
//! long queue behind a refusal costs a look at each one's type.

use kvframe_core::manager::Waiting;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::{shown, usage};
use crate::request::Request;

/// Requests and prompts, in the order they are tried.
pub struct RequestQueue<'py> {
    items: Bound<'py, PyTuple>,
    /// The first one, if it is a prompt, converted: a step that cannot even try that one has not begun.
    first: Option<Bound<'py, Request>>,
}

impl<'py> RequestQueue<'py> {
    /// Checks what each one is, and converts the first if it is a prompt.
    pub fn new(py: Python<'py>, admit: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        let Some(admit) = admit else {
            return Ok(Self { items: PyTuple::empty(py), first: None });
        };
        let items = if let Ok(list) = admit.cast::<PyList>() {
            list.to_tuple()
        } else {
            admit.cast::<PyTuple>().cloned().map_err(|_| {
                let limit = "must be a list or tuple of requests or prompts";
                usage(py, format!("allocate = {}: {limit}", shown(admit)))
            })?
        };
        if items.is_empty() {
            return Ok(Self { items, first: None });
        }
        let request = py.get_type::<Request>();
        for (place, item) in items.iter_borrowed().enumerate() {
            if item.get_type_ptr() != request.as_type_ptr() {
                check(place, &item)?;
            }
        }
        let mut queue = Self { items, first: None };
        if !queue.items.get_borrowed_item(0)?.is_instance_of::<Request>() {
            queue.first = Some(queue.get(0)?);
        }
        Ok(queue)
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// The one at `place`, converted.
    ///
    /// Errors: for a prompt with a value that is no token id.
    pub fn get(&self, place: usize) -> PyResult<Bound<'py, Request>> {
        if let (0, Some(first)) = (place, &self.first) {
            return Ok(first.clone());
        }
        let (py, item) = (self.items.py(), self.items.get_borrowed_item(place)?);
        match item.cast::<Request>() {
            Ok(request) => Ok(request.to_owned()),
            Err(_) => Bound::new(py, Request::of_prompt(&item)?),
        }
    }

    /// What each would take at the most; prompts are not converted for that.
    pub fn sizes(&self) -> impl Iterator<Item = Waiting> + '_ {
        (0..self.len()).map(|place| {
            let Ok(item) = self.items.get_borrowed_item(place) else { return Waiting::default() };
            if let Ok(request) = item.cast::<Request>() {
                return Waiting::of(request.get().core());
            }
            Waiting { tokens: item.len().unwrap_or(0) as u64, ..Waiting::default() }
        })
    }
}

/// Refuses what is neither a request nor a prompt.
fn check(place: usize, item: &Bound<'_, PyAny>) -> PyResult<()> {
    // The cheap looks first: a type's flags, then its bases.
    let is_array = || {
        item.cast::<PyUntypedArray>()
            .is_ok_and(|array| array.ndim() == 1 && matches!(array.dtype().kind(), b'i' | b'u'))
    };
    let is_prompt = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
    if item.is_instance_of::<Request>() || is_prompt || is_array() {
        return Ok(());
    }
    if item.is_none() {
        let message = format!("allocate[{place}] = None: must be a request or a prompt");
        return Err(usage(item.py(), message));
    }
    // Whatever else is a sequence of ids: it is converted to see.
    Request::of_prompt(item).map(drop).map_err(|error| {
        if error.is_instance_of::<pyo3::exceptions::PyException>(item.py()) {
            let limit = "must be a request or a prompt";
            return usage(item.py(), format!("allocate[{place}] = {}: {limit}", shown(item)));
        }
        error
    })
}
