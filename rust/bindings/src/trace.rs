//! `Trace`: what a replay is of.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use kvframe_trace::{Mode, ReplayPlan, TimeUnit, Trace as Inner, TraceDefaults};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::calls::lock;
use crate::errors::{from_trace, usage};

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

    /// The same from bytes; `name` stands for the file in messages. `time_unit`, "ms" or "s", is that
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
        let unit = time_unit.map(|unit| {
            let wrong = || usage(py, format!("time_unit = {unit:?}: must be ms or s"));
            TimeUnit::named(unit).ok_or_else(wrong)
        });
        let given = TraceDefaults { block_size, time_unit: unit.transpose()? };
        let read = py.detach(|| Inner::parse_as(data, name, given));
        read.map(Self::new).map_err(|e| from_trace(py, &e))
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

    /// What the times of its rows were taken to be in: "ms" or "s".
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
        let nodes = self.inner.chain(index).to_vec();
        Ok((request.timestamp_ms, request.input_tokens, request.output_tokens, session, nodes))
    }
}

type RequestTuple = (i64, u32, u32, Option<u32>, Vec<u32>);

/// The two words, low first, of the key that stands for a prefix node in a replay.
#[pyfunction]
pub fn node_key(node: u32) -> [u64; 2] {
    crate::buffers::key_words(kvframe_trace::replay::node_key(node))
}
