//! The requests that a step may admit: each is converted and hashed when its turn comes, so that a
//! long queue behind a refusal costs a look at each one's type.

use kvframe_core::manager::Waiting;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::calls::{call, discard};
use crate::errors::{shown, usage};
use crate::request::Request;

/// `kvframe.Request`, which holds the core's.
fn wrapper(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "kvframe.request", "Request")
}

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
        let request = wrapper(py)?;
        for (place, item) in items.iter_borrowed().enumerate() {
            if item.get_type_ptr() != request.as_type_ptr() {
                check(place, &item, request)?;
            }
        }
        let mut queue = Self { items, first: None };
        if !is_request(&*queue.items.get_borrowed_item(0)?) {
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
        if let Ok(request) = item.cast::<Request>() {
            return Ok(request.to_owned());
        }
        let class = wrapper(py)?;
        let held = if item.is_instance(class)? { item.to_owned() } else { call(class, (item,))? };
        Ok(held.getattr(intern!(py, "core"))?.cast_into::<Request>()?)
    }

    /// What each would take at the most; prompts are not converted for that.
    pub fn sizes(&self) -> impl Iterator<Item = Waiting> + '_ {
        (0..self.len()).map(|place| {
            let Ok(item) = self.items.get_borrowed_item(place) else { return Waiting::default() };
            if is_request(&item)
                && let Ok(request) = self.get(place)
            {
                return Waiting::of(&request.get().admission(&[]));
            }
            Waiting { tokens: item.len().unwrap_or(0) as u64, ..Waiting::default() }
        })
    }
}

fn is_request(item: &Bound<'_, PyAny>) -> bool {
    let wrapped = |class: &Bound<'_, PyType>| item.is_instance(class).unwrap_or(false);
    item.is_instance_of::<Request>() || wrapper(item.py()).is_ok_and(wrapped)
}

/// Refuses what is neither a request nor a prompt.
fn check(place: usize, item: &Bound<'_, PyAny>, request: &Bound<'_, PyType>) -> PyResult<()> {
    // The cheap looks first: a type's flags, then its bases.
    let is_array = || {
        item.cast::<PyUntypedArray>()
            .is_ok_and(|array| array.ndim() == 1 && matches!(array.dtype().kind(), b'i' | b'u'))
    };
    let is_prompt = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
    if is_prompt || is_array() || item.is_instance_of::<Request>() || item.is_instance(request)? {
        return Ok(());
    }
    if item.is_none() {
        let message = format!("allocate[{place}] = None: must be a request or a prompt");
        return Err(usage(item.py(), message));
    }
    // Whatever else is a sequence of ids: it is converted to see.
    call(request, (item,)).map(discard).map_err(|error| {
        if error.is_instance_of::<pyo3::exceptions::PyException>(item.py()) {
            let limit = "must be a request or a prompt";
            return usage(item.py(), format!("allocate[{place}] = {}: {limit}", shown(item)));
        }
        error
    })
}
