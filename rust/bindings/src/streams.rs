//! Python's file objects as Rust's streams: a chunk a call, so that other threads run in between.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use kvframe_trace::TraceError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::call_method;
use crate::errors::from_trace;

const CHUNK: usize = 1 << 20;

/// An object with `read(size)` or `write(bytes)`, and what it raised.
pub struct Stream {
    object: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
    chunk: Mutex<(Vec<u8>, usize)>,
    out: Vec<u8>,
}

impl Stream {
    pub fn new(object: Py<PyAny>) -> Self {
        Self { object, raised: Mutex::default(), chunk: Mutex::default(), out: Vec::new() }
    }

    /// What a method of the object raised, once.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn failed(&self, error: PyErr) -> io::Error {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other("the stream raised")
    }

    fn fill(&self) -> io::Result<Vec<u8>> {
        let read = Python::attach(|py| -> PyResult<Vec<u8>> {
            let read = call_method(self.object.bind(py), intern!(py, "read"), (CHUNK,))?;
            Ok(read.extract::<&[u8]>()?.to_vec())
        });
        read.map_err(|error| self.failed(error))
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut chunk = self.chunk.lock().unwrap_or_else(PoisonError::into_inner);
        if chunk.1 == chunk.0.len() {
            *chunk = (self.fill()?, 0);
        }
        let (data, at) = &mut *chunk;
        let taken = into.len().min(data.len() - *at);
        into[..taken].copy_from_slice(&data[*at..*at + taken]);
        *at += taken;
        Ok(taken)
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.out.extend(data);
        if self.out.len() >= CHUNK {
            self.flush()?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = Python::attach(|py| {
            let data = PyBytes::new(py, &self.out);
            call_method(self.object.bind(py), intern!(py, "write"), (data,)).map(drop)
        });
        self.out.clear();
        written.map_err(|error| self.failed(error))
    }
}

/// The exception of a trace that cannot be read: what the stream raised, or what the reader says.
pub fn refused(py: Python<'_>, stream: &Stream, error: &TraceError) -> PyErr {
    stream.raised().unwrap_or_else(|| from_trace(py, error))
}
