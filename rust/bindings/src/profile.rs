//! `TraceProfile`: what a trace could reuse, found in one pass.

use kvframe_trace::{Profile, Trace as Inner, rewrite_rows as rewrite};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::from_trace;
use crate::streams::{Stream, refused};
use crate::trace::{Trace, column_of, defaults, mode_of};

/// What a trace could reuse: the most that can hit, its age and class, and lru at every capacity.
#[pyclass(frozen, module = "kvframe._core")]
pub struct TraceProfile {
    profile: Profile,
    /// Without its blocks, unless `of` made this.
    trace: Option<Inner>,
}

#[pymethods]
impl TraceProfile {
    /// Of a trace in memory; `mode` is "trace" or "engine".
    #[staticmethod]
    fn of(py: Python<'_>, trace: &Trace, mode: &str) -> PyResult<Self> {
        let mode = mode_of(py, mode)?;
        let profile = py.detach(|| Profile::of(&trace.inner, mode));
        Ok(Self { profile, trace: None })
    }

    /// Of a stream as `Trace.read` takes it, without keeping its requests' blocks.
    #[staticmethod]
    #[pyo3(signature = (stream, name, mode, block_size=None, time_unit=None, form=None, *, sort=false))]
    fn read(
        py: Python<'_>,
        stream: Py<PyAny>,
        name: &str,
        mode: &str,
        block_size: Option<u32>,
        time_unit: Option<&str>,
        form: Option<&str>,
        sort: bool,
    ) -> PyResult<Self> {
        let given = defaults(py, block_size, time_unit, form, sort)?;
        let mode = mode_of(py, mode)?;
        let stream = Stream::new(stream);
        let read = py.detach(|| Profile::read(&stream, name, given, mode));
        let (profile, trace) = read.map_err(|error| refused(py, &stream, &error))?;
        Ok(Self { profile, trace: Some(trace) })
    }

    /// Counts: `unique_blocks`, `block_accesses`, `longest` (blocks of the longest prompt),
    /// `hit_tokens`, `same_session_tokens`, `without_blocks` and `repeated` (requests), `ages` (tokens by powers of
    /// two of a millisecond), and `classes` (requests, input tokens and hit tokens, the first of
    /// requests without a class).
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (profile, dict) = (&self.profile, PyDict::new(py));
        dict.set_item("unique_blocks", profile.unique)?;
        dict.set_item("block_accesses", profile.block_accesses)?;
        dict.set_item("longest", profile.longest)?;
        dict.set_item("hit_tokens", profile.hit_tokens)?;
        dict.set_item("same_session_tokens", profile.same_session)?;
        dict.set_item("without_blocks", profile.without_blocks)?;
        dict.set_item("repeated", profile.repeated)?;
        dict.set_item("ages", profile.ages.to_vec())?;
        let counts = |c: &kvframe_trace::ClassCount| (c.requests, c.input_tokens, c.hit_tokens);
        dict.set_item("classes", profile.classes.iter().map(counts).collect::<Vec<_>>())?;
        Ok(dict)
    }

    /// Prompt tokens that lru hits with each of these capacities, in blocks.
    fn lru_hits(&self, capacities: Vec<u64>) -> Vec<u64> {
        self.profile.lru_hits(&capacities)
    }

    /// The same of the later half of the requests.
    fn lru_hits_last_half(&self, capacities: Vec<u64>) -> Vec<u64> {
        self.profile.lru_hits_last_half(&capacities)
    }

    /// After `read`: at most `n` shared prefixes that save most, and `n` that most requests have, each as tokens and
    /// requests; None where there are too many blocks to tell.
    fn shared_prefixes(&self, n: usize) -> Option<[Vec<(u64, u32)>; 2]> {
        let found = self.profile.shared_prefixes(self.trace.as_ref()?, n)?;
        Some(found.map(|some| some.iter().map(|one| (one.tokens, one.requests)).collect()))
    }

    /// The smallest capacity, in blocks, with which lru hits this share of what can hit at all.
    fn capacity_for(&self, share: f64) -> u64 {
        self.profile.capacity_for(share)
    }

    /// One of the columns of `Trace.columns`; None after `of`.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.trace.as_ref().map(|trace| column_of(py, trace, name)).transpose()
    }

    /// What `read` found in the file: `block_size`, `time_unit`, `unit_in_doubt`, `ids_repeat`,
    /// `classes`, `bytes` and `seconds`. Empty after `of`.
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let Some(trace) = &self.trace else { return Ok(dict) };
        dict.set_item("block_size", trace.block_size)?;
        dict.set_item("time_unit", trace.time_unit.name())?;
        dict.set_item("unit_in_doubt", trace.unit_in_doubt)?;
        dict.set_item("ids_repeat", trace.ids_repeat)?;
        dict.set_item("classes", trace.classes.clone())?;
        dict.set_item("bytes", trace.bytes)?;
        dict.set_item("seconds", trace.parse_seconds)?;
        Ok(dict)
    }
}

/// Reads a stream as `Trace.read` does and writes its requests to `out` as JSONL rows, one by one;
/// answers how many. Of the blocks only the distinct ones are kept in memory.
#[pyfunction]
#[pyo3(signature = (stream, name, out, block_size=None, time_unit=None, form=None, *, sort=false))]
pub fn rewrite_rows(
    py: Python<'_>,
    stream: Py<PyAny>,
    name: &str,
    out: Py<PyAny>,
    block_size: Option<u32>,
    time_unit: Option<&str>,
    form: Option<&str>,
    sort: bool,
) -> PyResult<usize> {
    let given = defaults(py, block_size, time_unit, form, sort)?;
    let (stream, mut out) = (Stream::new(stream), Stream::new(out));
    let read = py.detach(|| {
        let trace = rewrite(&stream, name, given, &mut out)?;
        let flushed = std::io::Write::flush(&mut out);
        Ok((trace.requests.len(), flushed))
    });
    match read {
        Ok((requests, Ok(()))) => Ok(requests),
        Ok((_, Err(error))) => Err(out.raised().unwrap_or_else(|| error.into())),
        Err(error) => Err(out.raised().unwrap_or_else(|| match stream.raised() {
            Some(raised) => raised,
            None => from_trace(py, &error),
        })),
    }
}
