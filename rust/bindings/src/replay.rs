//! `replay`: a trace through the manager.

use std::sync::Arc;

use kvframe_core::Options;
use kvframe_trace::Mode;
use kvframe_trace::replay::{Outcome, PreparedTrace, RequestOutcome};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::Capacity;
use crate::driven::{Asked, Driver};
use crate::options::configured;
use crate::tenants;
use crate::trace::{Trace, mode_of};

/// Replays a trace through the manager: admit, commit, release, one request at a time, or (`mode`
/// "timed") by the clock, beside those that still run.
///
/// `policy` and `admission` are a built-in's name or a driver of a Python policy; `capacity` counts blocks, None
/// holds everything. Returns what was counted, a dict. With `per_request` it has arrays as well, an entry a request:
/// `request_hit_tokens` and `request_after_gap_tokens` (uint32), and in timed mode `request_ttft_seconds` (float64,
/// NaN for a request larger than the cache). `core` has further options of the manager.
#[pyfunction]
#[pyo3(signature = (trace, policy, capacity, mode, options=None, *, log=false, per_request=false, admission=None, admission_options=None, matcher=None, core=None))]
pub fn replay<'py>(
    py: Python<'py>,
    trace: &Trace,
    policy: &Bound<'py, PyAny>,
    capacity: Option<Capacity>,
    mode: &str,
    options: Option<&Bound<'py, PyDict>>,
    log: bool,
    per_request: bool,
    admission: Option<&Bound<'py, PyAny>>,
    admission_options: Option<&Bound<'py, PyDict>>,
    matcher: Option<Bound<'py, PyAny>>,
    core: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mode = mode_of(py, mode)?;
    let tenants = tenants::count(core)?;
    let asked = Asked { policy, options, admission, admission_options, matcher, tenants };
    let driver = Driver::new(py, asked)?;
    let capacity = if driver.is_infinite { None } else { capacity.map(|c| c.0) };
    let (plan, prepare_seconds) = trace.with_plan(py, mode, |plan, s| (Arc::clone(plan), s))?;
    let prepared = PreparedTrace::new(&trace.inner, mode, &plan);
    let options = configured(py, core, prepared.options(capacity))?;
    let options = Options { event_log: log, ..options };
    let mut done = driver.run(py, Ok(options), |manager, link| prepared.drive(manager, link))?;
    let dict = outcome_dict(py, &done.got)?;
    dict.set_item("prepare_seconds", prepare_seconds)?;
    dict.set_item("cached_blocks", done.manager.pool().cached())?;
    let gate = done.manager.admission_counts();
    dict.set_item("admission_kept", gate.kept)?;
    dict.set_item("admission_dropped", gate.dropped)?;
    dict.set_item("admission_failures", done.admission_failures)?;
    dict.set_item("policy_failures", done.policy_failures)?;
    if per_request {
        add_requests(&dict, mode, &done.served)?;
    }
    if log {
        dict.set_item("events", crate::views::events_dict(py, &done.manager.take_events())?)?;
    }
    Ok(dict)
}

/// The arrays of `replay`'s `per_request`.
fn add_requests(dict: &Bound<'_, PyDict>, mode: Mode, served: &[RequestOutcome]) -> PyResult<()> {
    let py = dict.py();
    let hits = served.iter().map(|r| r.hit_tokens);
    dict.set_item("request_hit_tokens", PyArray1::from_iter(py, hits))?;
    let after = served.iter().map(|r| r.after_gap_tokens);
    dict.set_item("request_after_gap_tokens", PyArray1::from_iter(py, after))?;
    if mode == Mode::Timed {
        let waits = served.iter().map(|r| r.wait);
        dict.set_item("request_ttft_seconds", PyArray1::from_iter(py, waits))?;
    }
    Ok(())
}

fn outcome_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("requests", outcome.requests)?;
    dict.set_item("input_tokens", outcome.input_tokens)?;
    dict.set_item("hit_tokens", outcome.hit_tokens)?;
    dict.set_item("input_tokens_last_half", outcome.input_tokens_last_half)?;
    dict.set_item("hit_tokens_last_half", outcome.hit_tokens_last_half)?;
    dict.set_item("after_gap_hit_tokens", outcome.after_gap_hit_tokens)?;
    dict.set_item("evictions", outcome.evictions)?;
    dict.set_item("block_accesses", outcome.block_accesses)?;
    dict.set_item("block_hits", outcome.block_hits)?;
    let rate = outcome.request_hit_rates / (outcome.requests.max(1) as f64);
    dict.set_item("mean_request_hit_rate", rate)?;
    dict.set_item("rejected", outcome.rejected)?;
    dict.set_item("mean_ttft_seconds", outcome.mean_wait)?;
    dict.set_item("p95_ttft_seconds", outcome.late_wait)?;
    dict.set_item("seconds", outcome.seconds)?;
    Ok(dict)
}
