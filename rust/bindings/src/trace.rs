//! `Trace`: what a replay is of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kvframe_trace::{Form, Mode, ReplayPlan, TimeUnit, Trace as Inner, TraceDefaults, WrittenForm};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::lock;
use crate::errors::{from_trace, usage};
use crate::streams::{Stream, refused};

/// A trace and, once asked for, what its modes need to know ahead.
#[pyclass(frozen, module = "kvframe._core")]
pub struct Trace {
    pub(crate) inner: Inner,
    plans: Mutex<[Option<Made>; 3]>,
}

/// A plan, and the seconds it took.
type Made = (Arc<ReplayPlan>, f64);

/// The mode of that name.
pub fn mode_of(py: Python<'_>, mode: &str) -> PyResult<Mode> {
    match mode {
        "trace" => Ok(Mode::Trace),
        "engine" => Ok(Mode::Engine),
        "timed" => Ok(Mode::Timed),
        _ => Err(usage(py, format!("mode = {mode:?}: must be trace, engine or timed"))),
    }
}

/// What a caller of Python says of a trace.
pub(crate) fn defaults(
    py: Python<'_>,
    block_size: Option<u32>,
    time_unit: Option<&str>,
    form: Option<&str>,
    sort: bool,
) -> PyResult<TraceDefaults> {
    let time_unit = time_unit.map(|unit| {
        let wrong = || usage(py, format!("time_unit = {unit:?}: must be ms, s, us or ns"));
        TimeUnit::named(unit).ok_or_else(wrong)
    });
    let form = match form {
        None => Form::ByContent,
        Some("oracle-general") => Form::OracleGeneral,
        Some(other) => {
            return Err(usage(py, format!("form = {other:?}: must be oracle-general or None")));
        }
    };
    Ok(TraceDefaults { form, block_size, time_unit: time_unit.transpose()?, sort })
}

/// The form that a trace is to be written in.
pub(crate) fn written_form(py: Python<'_>, form: &str) -> PyResult<WrittenForm> {
    WrittenForm::named(form).ok_or_else(|| {
        let forms = "kvframe, mooncake, libcachesim-csv, oracle-general or lcsllm";
        usage(py, format!("form = {form:?}: must be {forms}"))
    })
}

impl Trace {
    fn new(inner: Inner) -> Self {
        Self { inner, plans: Mutex::default() }
    }

    /// Runs `work` on the plan of a mode, made once.
    pub(crate) fn with_plan<T>(
        &self,
        py: Python<'_>,
        mode: Mode,
        work: impl FnOnce(&Arc<ReplayPlan>, f64) -> T,
    ) -> PyResult<T> {
        let mut plans = lock(py, &self.plans)?.unwrap_or_else(PoisonError::into_inner);
        let (plan, seconds) = plans[mode as usize].get_or_insert_with(|| {
            let start = Instant::now();
            let plan = Arc::new(self.inner.plan(mode));
            (plan, start.elapsed().as_secs_f64())
        });
        Ok(work(plan, *seconds))
    }
}

#[pymethods]
impl Trace {
    /// Reads a trace: Mooncake JSONL or kvframe's compact form, plain or gzip.
    #[staticmethod]
    #[pyo3(signature = (path, block_size=None))]
    fn load(py: Python<'_>, path: std::path::PathBuf, block_size: Option<u32>) -> PyResult<Self> {
        let read = py.detach(|| Inner::load(&path, block_size));
        read.map(Self::new).map_err(|e| from_trace(py, &e))
    }

    /// The same from bytes; `name` stands for the file in messages. `time_unit`, "ms", "s", "us" or "ns", is that
    /// of the times of JSONL rows; None: what their form says.
    #[staticmethod]
    #[pyo3(signature = (data, name, block_size=None, time_unit=None))]
    fn parse(
        py: Python<'_>,
        data: &[u8],
        name: &str,
        block_size: Option<u32>,
        time_unit: Option<&str>,
    ) -> PyResult<Self> {
        let given = defaults(py, block_size, time_unit, None, false)?;
        let read = py.detach(|| Inner::parse_as(data, name, given));
        read.map(Self::new).map_err(|e| from_trace(py, &e))
    }

    /// The same from `stream`, an object with `read(size)` that answers bytes, to its end. `form` is
    /// "oracle-general" for libCacheSim's records, which no magic number tells; None: by content. `sort`
    /// puts the requests in order of time. What `stream.read` raises is raised here.
    #[staticmethod]
    #[pyo3(signature = (stream, name, block_size=None, time_unit=None, form=None, *, sort=false))]
    fn read(
        py: Python<'_>,
        stream: Py<PyAny>,
        name: &str,
        block_size: Option<u32>,
        time_unit: Option<&str>,
        form: Option<&str>,
        sort: bool,
    ) -> PyResult<Self> {
        let given = defaults(py, block_size, time_unit, form, sort)?;
        let stream = Stream::new(stream);
        let read = py.detach(|| Inner::read(&stream, name, given));
        read.map(Self::new).map_err(|error| refused(py, &stream, &error))
    }

    /// Writes the trace to `stream`, an object with `write(bytes)`, in `form`: "kvframe" (compact),
    /// "mooncake" (JSONL), "libcachesim-csv", "oracle-general" or "lcsllm".
    fn write(&self, py: Python<'_>, stream: Py<PyAny>, form: &str) -> PyResult<()> {
        let form = written_form(py, form)?;
        let mut stream = Stream::new(stream);
        let written = py.detach(|| {
            self.inner.write(&mut stream, form)?;
            std::io::Write::flush(&mut stream)
        });
        written.map_err(|error| {
            stream.raised().unwrap_or_else(|| usage(py, format!("cannot be written: {error}")))
        })
    }

    /// A column a key, an entry a request: `timestamp_ms` (int64), `input_tokens` and
    /// `output_tokens` (uint32), and `session` (int64, -1 for none).
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns_of(py, &self.inner)
    }

    /// The session of each request (int64) as its prompt tells it, the index of its first request: a prompt that
    /// begins with all full blocks of an earlier one, two at least, goes on with it.
    fn sessions_by_prompts<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let told = py.detach(|| self.inner.sessions_by_prompts());
        PyArray1::from_iter(py, told.into_iter().map(i64::from))
    }

    /// The requests at these indices, which ascend.
    fn subset(&self, py: Python<'_>, indices: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let have = self.inner.requests.len();
        let array = indices.as_array();
        let found: Option<Vec<usize>> =
            array.iter().map(|&i| usize::try_from(i).ok().filter(|&i| i < have)).collect();
        match found.filter(|found| found.is_sorted()) {
            Some(found) => Ok(Self::new(py.detach(|| self.inner.subset(&found)))),
            None => Err(usage(py, format!("indices must ascend and be below {have}"))),
        }
    }

    /// The same requests at other times (int64 milliseconds), one each; they ascend.
    fn retimed(&self, py: Python<'_>, timestamp_ms: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let times: Vec<i64> = timestamp_ms.as_array().iter().copied().collect();
        let made = py.detach(|| self.inner.retimed(&times));
        made.map(Self::new).map_err(|why| usage(py, why))
    }

    /// The same requests in blocks of `factor` times as many tokens.
    fn coarsened(&self, py: Python<'_>, factor: u32) -> PyResult<Self> {
        py.detach(|| self.inner.coarsened(factor)).map(Self::new).map_err(|why| usage(py, why))
    }

    /// The requests of `class` come `times` times as often: copies that share nothing with other requests.
    fn flooded(&self, py: Python<'_>, class_name: &str, times: u32) -> PyResult<Self> {
        let made = py.detach(|| self.inner.flooded(class_name, times));
        made.map(Self::new).map_err(|why| usage(py, why))
    }

    /// The class of each request: its place in `classes` plus 1, or 0 for none.
    fn class_numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        let of = |i: usize| self.inner.class_of.get(i).copied().unwrap_or(0);
        PyArray1::from_iter(py, (0..self.inner.requests.len()).map(of))
    }

    /// Names of the classes that rows have as `type`, in order of first appearance.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.inner.classes.clone()
    }

    /// Whether ids were of single blocks, not of prefixes, so that reading has chained them.
    #[getter]
    fn ids_repeat(&self) -> bool {
        self.inner.ids_repeat
    }

    /// What the trace is called.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// Tokens a block id stands for.
    #[getter]
    fn block_size(&self) -> u32 {
        self.inner.block_size
    }

    /// Number of requests.
    #[getter]
    fn requests(&self) -> usize {
        self.inner.requests.len()
    }

    /// Prompt tokens of all requests.
    #[getter]
    fn input_tokens(&self) -> u64 {
        self.inner.input_tokens()
    }

    /// What the times of its rows were taken to be in: "ms", "s", "us" or "ns".
    #[getter]
    fn time_unit(&self) -> &'static str {
        self.inner.time_unit.name()
    }

    /// Whether another unit is as likely, by the rows' numbers.
    #[getter]
    fn unit_in_doubt(&self) -> bool {
        self.inner.unit_in_doubt
    }

    /// Time that reading took, decompression and checks included.
    #[getter]
    fn parse_seconds(&self) -> f64 {
        self.inner.parse_seconds
    }

    /// Makes a mode's plan: its block accesses, its unique blocks, and the time that took.
    fn prepare<'py>(&self, py: Python<'py>, mode: &str) -> PyResult<Bound<'py, PyDict>> {
        let mode = mode_of(py, mode)?;
        let dict = PyDict::new(py);
        self.with_plan(py, mode, |plan, seconds| {
            dict.set_item("block_accesses", plan.block_accesses)?;
            dict.set_item("unique_blocks", plan.unique)?;
            dict.set_item("prepare_seconds", seconds)
        })??;
        Ok(dict)
    }

    /// A request: (timestamp ms, input tokens, output tokens, session or None, node numbers).
    fn request(&self, py: Python<'_>, index: usize) -> PyResult<RequestTuple> {
        let Some(request) = self.inner.requests.get(index) else {
            let have = self.inner.requests.len();
            return Err(usage(py, format!("request {index}: the trace has {have}")));
        };
        let session = (request.session != kvframe_trace::NO_SESSION).then_some(request.session);
        let nodes = self.inner.chain(index).into_owned();
        Ok((request.timestamp_ms, request.input_tokens, request.output_tokens, session, nodes))
    }
}

/// The columns of a trace's requests; see `Trace::columns`.
pub(crate) fn columns_of<'py>(py: Python<'py>, trace: &Inner) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for name in ["timestamp_ms", "input_tokens", "output_tokens", "session"] {
        dict.set_item(name, column_of(py, trace, name)?)?;
    }
    Ok(dict)
}

/// One of them.
pub(crate) fn column_of<'py>(
    py: Python<'py>,
    trace: &Inner,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let requests = trace.requests.iter();
    let none = kvframe_trace::NO_SESSION;
    let number = |session| if session == none { -1 } else { i64::from(session) };
    Ok(match name {
        "timestamp_ms" => PyArray1::from_iter(py, requests.map(|r| r.timestamp_ms)).into_any(),
        "input_tokens" => PyArray1::from_iter(py, requests.map(|r| r.input_tokens)).into_any(),
        "output_tokens" => PyArray1::from_iter(py, requests.map(|r| r.output_tokens)).into_any(),
        "session" => PyArray1::from_iter(py, requests.map(|r| number(r.session))).into_any(),
        _ => {
            let columns = "timestamp_ms, input_tokens, output_tokens or session";
            return Err(usage(py, format!("column = {name:?}: must be {columns}")));
        }
    })
}

type RequestTuple = (i64, u32, u32, Option<u32>, Vec<u32>);

/// The two words, low first, of the key that stands for a prefix node in a replay.
#[pyfunction]
pub fn node_key(node: u32) -> [u64; 2] {
    crate::buffers::key_words(kvframe_trace::replay::node_key(node))
}
