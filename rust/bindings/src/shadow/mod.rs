//! `ShadowSet`: what policies and sizes beside the real ones would have hit.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`steps`] | what an engine says of a step, read from Python |
//! | [`worker`] | the thread that runs the shadows, and the queue in front of it |

mod steps;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use kvframe_core::shadow::{Batching, Counts, Grain, ShadowSet as Core};
use kvframe_trace::Mode;
use kvframe_trace::replay::PreparedTrace;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use self::steps::{
    ArrivedTuple, BegunTuple, GeneratedTuple, ProgressTuple, progressed_of, step_of,
};
use self::worker::Worker;
use crate::args::{BlockSize, Capacity, EngineStep};
use crate::driven::Interrupts;
use crate::errors::{from_core, raise, usage};
use crate::fork;
use crate::policy::eviction::make_policy;
use crate::policy::host::Outside;
use crate::trace::Trace;

/// (policy or driver, its options, blocks of the engine).
type ShadowTuple<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyDict>>, Capacity);

/// Requests at once, tokens of a step, whether it is asynchronous, whether whole prompts have to fit, share of
/// blocks that stay free.
type BatchingTuple = (u32, u32, bool, bool, f64);

/// What a shadow has counted, in the order of `kvframe.shadow.ShadowCounts`.
type CountsTuple = (u64, u64, u64, u64, u64, u64, u64, u64, u64);

/// Shadows behind a thread of their own; `kvframe.shadow.ShadowSet` is the face for users.
#[pyclass(frozen, module = "kvframe._core")]
pub struct ShadowSet {
    worker: Worker,
    /// What of compiled policies must outlive the shadows.
    _outside: Vec<Outside>,
    forks: u32,
}

#[pymethods]
impl ShadowSet {
    /// Sets of shadows, each with its own stride; `backlog` steps wait for the thread at the most.
    #[new]
    #[pyo3(signature = (sets, *, block_size, chained, reserved, batching, backlog))]
    fn new(
        py: Python<'_>,
        sets: Vec<(u32, Vec<ShadowTuple<'_>>)>,
        block_size: BlockSize,
        chained: bool,
        reserved: u32,
        batching: Option<BatchingTuple>,
        backlog: usize,
    ) -> PyResult<Self> {
        let (mut made, mut outside) = (Vec::new(), Vec::new());
        for (stride, shadows) in sets {
            let grain = Grain { block_size: block_size.0, stride, chained, reserved };
            let mut set =
                Core::new(grain, batching.map(batching_of)).map_err(|e| from_core(py, &e))?;
            for (policy, options, capacity) in shadows {
                let made = make_policy(py, &policy, options.as_ref())?;
                if matches!(made.outside, Outside::Python(_)) {
                    let limit = "is in Python: a shadow runs beside the interpreter, and takes built-in and compiled policies";
                    return Err(usage(py, format!("policy {}: {limit}", made.name)));
                }
                set.add(capacity.0, made.eviction).map_err(|e| from_core(py, &e))?;
                outside.push(made.outside);
            }
            made.push(set);
        }
        let worker = Worker::start(made, backlog);
        Ok(Self { worker, _outside: outside, forks: fork::generation() })
    }

    /// What the engine did in a step; never waits.
    fn step(
        &self,
        py: Python<'_>,
        ended: Vec<ProgressTuple>,
        grown: Vec<ProgressTuple>,
        preempted: Vec<u64>,
        begun: Vec<BegunTuple>,
    ) -> PyResult<()> {
        self.check_fork(py)?;
        self.worker.post_step(step_of(ended, grown, preempted, begun));
        Ok(())
    }

    /// What came of the engine's steps up to `step`; never waits.
    #[allow(clippy::too_many_arguments, reason = "a crossing takes all lists at once")]
    fn advance(
        &self,
        py: Python<'_>,
        step: u64,
        rests: bool,
        arrived: Vec<ArrivedTuple>,
        found: Vec<(u64, u32)>,
        running: Vec<GeneratedTuple>,
        ended: Vec<GeneratedTuple>,
    ) -> PyResult<()> {
        self.check_fork(py)?;
        let told = progressed_of((step, rests), arrived, found, running, ended);
        self.worker.post_progressed(told);
        Ok(())
    }

    /// The engine has reset its prefix cache, after that step.
    fn reset(&self, py: Python<'_>, step: EngineStep) -> PyResult<()> {
        self.check_fork(py)?;
        self.worker.post_reset(step.0);
        Ok(())
    }

    /// The requests of a trace, one after the other.
    fn run(&self, py: Python<'_>, trace: &Trace) -> PyResult<()> {
        self.check_fork(py)?;
        let plan = trace.with_plan(py, Mode::Engine, |plan, _| Arc::clone(plan))?;
        let mut interrupts = Interrupts::default();
        let ran = py.detach(|| {
            let prepared = PreparedTrace::new(&trace.inner, Mode::Engine, &plan);
            self.worker.with_sets(|sets| {
                for set in sets {
                    prepared.shadow(set, &mut interrupts)?;
                }
                Ok(())
            })
        });
        ran.map_err(|e| from_core(py, &e))?;
        interrupts.raised()
    }

    /// Waits until every step that was given is carried out. False if it took longer than `seconds`.
    fn flush(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        self.check_fork(py)?;
        let Ok(limit) = Duration::try_from_secs_f64(seconds) else {
            return Err(usage(py, format!("seconds = {seconds}: must be 0 or more")));
        };
        Ok(py.detach(|| self.worker.flush(limit)))
    }

    /// What each shadow has counted.
    fn counts(&self, py: Python<'_>) -> PyResult<Vec<CountsTuple>> {
        self.check_fork(py)?;
        Ok(self.worker.counts().iter().map(tuple_of).collect())
    }

    /// Requests that were lost because the thread was too far behind.
    fn dropped(&self) -> u64 {
        self.worker.dropped()
    }

    /// Why the shadows run no more; None while they do.
    fn failure(&self) -> Option<String> {
        self.worker.failure()
    }

    /// Recounts every shadow, once it has caught up.
    fn check_integrity(&self, py: Python<'_>) -> PyResult<()> {
        self.check_fork(py)?;
        py.detach(|| self.worker.check_integrity()).map_err(|e| from_core(py, &e))
    }

    /// Ends the thread; steps that come later are left out.
    fn close(&self, py: Python<'_>) {
        if self.forks == fork::generation() {
            py.detach(|| self.worker.close());
        }
    }
}

impl ShadowSet {
    fn check_fork(&self, py: Python<'_>) -> PyResult<()> {
        if self.forks == fork::generation() {
            return Ok(());
        }
        let belongs = "belongs to the parent of a fork; make one in the child";
        Err(raise(py, "HandleError", format!("this set of shadows {belongs}")))
    }
}

fn batching_of(
    (max_requests, max_tokens, asynchronous, fits_whole, watermark): BatchingTuple,
) -> Batching {
    Batching { max_requests, max_tokens, asynchronous, fits_whole, watermark }
}

fn tuple_of(counts: &Counts) -> CountsTuple {
    (
        counts.requests,
        counts.query_tokens,
        counts.hit_tokens,
        counts.found_tokens,
        counts.equal_requests,
        counts.too_large,
        counts.preemptions,
        counts.evictions,
        counts.waiting,
    )
}
