//! `serve`: a trace through a simulated server.

use std::sync::Arc;
use std::time::Instant;

use kvframe_server::fixed::simulate_fixed;
use kvframe_server::{
    Fate, QueueOrder, RequestRecord, ServerOptions, ServerReport, Stopped, Tiers, simulate_with,
};
use kvframe_trace::Mode;
use kvframe_trace::replay::{FixedRates, PreparedTrace};
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::Capacity;
use crate::driven::{Asked, Driver};
use crate::errors::{from_core, usage};
use crate::options::configured;
use crate::served_tiers::{self, TierTable};
use crate::step_time::{Source, StepProfile};
use crate::trace::Trace;

pub(crate) fn order_of(py: Python<'_>, order: &str) -> PyResult<QueueOrder> {
    match order {
        "fcfs" => Ok(QueueOrder::Fcfs),
        "priority" => Ok(QueueOrder::Priority),
        "shortest" => Ok(QueueOrder::Shortest),
        "longest-prefix" => Ok(QueueOrder::LongestPrefix),
        _ => {
            let orders = "fcfs, priority, shortest or longest-prefix";
            Err(usage(py, format!("order = {order:?}: must be {orders}")))
        }
    }
}

/// Serves a trace with a simulated server, whose blocks the core holds.
///
/// `policy`, `admission` and `matcher` are as `replay` takes them; `capacity` counts blocks, None holds
/// everything. `priorities` has one for each class of the trace. Times between arrivals are divided by
/// `load`, and steps take `time_factor` times what the profile says. Returns what was counted, and a column
/// for each fact of the requests.
///
/// `tiers` are tables, `links` (bytes a second up, bytes a second down, seconds), and `prefetch` so many requests at the
/// front of the queue have their pages brought to host memory. `core` has further options of the manager.
#[pyfunction]
#[pyo3(signature = (trace, policy, capacity, profile, options=None, *, max_num_seqs=256, max_num_batched_tokens=8192, order="fcfs", priorities=vec![], load=1.0, closed_loop=false, cache_generated=true, time_factor=1.0, every_step=false, admission=None, admission_options=None, matcher=None, tiers=None, links=vec![], prefetch=0, core=None))]
pub fn serve<'py>(
    py: Python<'py>,
    trace: &Trace,
    policy: &Bound<'py, PyAny>,
    capacity: Option<Capacity>,
    profile: &StepProfile,
    options: Option<&Bound<'py, PyDict>>,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    order: &str,
    priorities: Vec<i32>,
    load: f64,
    closed_loop: bool,
    cache_generated: bool,
    time_factor: f64,
    every_step: bool,
    admission: Option<&Bound<'py, PyAny>>,
    admission_options: Option<&Bound<'py, PyDict>>,
    matcher: Option<Bound<'py, PyAny>>,
    tiers: Option<Vec<TierTable<'py>>>,
    links: Vec<(f64, f64, f64)>,
    prefetch: usize,
    core: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let server = ServerOptions {
        max_num_seqs,
        max_num_batched_tokens,
        order: order_of(py, order)?,
        priorities,
        load,
        closed_loop,
        cache_generated,
        time_factor,
        every_step,
    };
    check(py, &server)?;
    let asked = Asked { policy, options, admission, admission_options, matcher };
    let mut driver = Driver::new(py, asked)?;
    let mut below = None;
    if let Some(tiers) = tiers {
        let (set, outside) = served_tiers::made(py, tiers, &links, prefetch)?;
        driver = driver.with_tiers(outside);
        let tiers = Tiers::new(set, trace.inner.block_size).map_err(|e| from_core(py, &e))?;
        below = Some(tiers);
    }
    let capacity = if driver.is_infinite { None } else { capacity.map(|c| c.0) };
    let plan = trace.with_plan(py, Mode::Timed, |plan, _| Arc::clone(plan))?;
    let prepared = PreparedTrace::new(&trace.inner, Mode::Timed, &plan);
    let source = profile.source.clone();
    let start = Instant::now();
    let options = configured(py, core, prepared.options(capacity))?;
    let done = driver.run(py, Ok(options), |manager, link| {
        let traced = (&trace.inner, &*plan);
        let report = match &source {
            Source::Steps(steps) => simulate_with(below, traced, manager, link, &server, &**steps),
            Source::Fixed(rates) => {
                let rates = FixedRates {
                    prefill: rates.prefill / time_factor,
                    decode: rates.decode * time_factor,
                };
                simulate_fixed((&trace.inner, &prepared), manager, link, rates, load)
            }
        };
        match report {
            Ok(report) => Ok(Some(report)),
            Err(Stopped::ByHost) => Ok(None),
            Err(Stopped::ByCore(error)) => Err(error),
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let dict = report_dict(py, &done.got)?;
    dict.set_item("capacity_blocks", done.manager.options().blocks)?;
    dict.set_item("seconds", seconds)?;
    Ok(dict)
}

pub(crate) fn check(py: Python<'_>, server: &ServerOptions) -> PyResult<()> {
    let counts = [
        ("max_num_seqs", server.max_num_seqs),
        ("max_num_batched_tokens", server.max_num_batched_tokens),
    ];
    for (name, value) in counts {
        if value == 0 {
            return Err(usage(py, format!("{name} = 0: must be at least 1")));
        }
    }
    for (name, value) in [("load", server.load), ("time_factor", server.time_factor)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(usage(py, format!("{name} = {value}: must be above 0")));
        }
    }
    Ok(())
}

/// What was counted, and a column for each fact of the requests.
pub(crate) fn report_dict<'py>(
    py: Python<'py>,
    report: &ServerReport,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("steps", report.steps)?;
    dict.set_item("busy_seconds", report.busy_seconds)?;
    dict.set_item("prefill_tokens", report.prefill_tokens)?;
    dict.set_item("decode_tokens", report.decode_tokens)?;
    dict.set_item("found_on_return", report.found_on_return)?;
    dict.set_item("block_seconds", report.block_seconds)?;
    dict.set_item("peak_waiting", report.peak_waiting)?;
    dict.set_item("waiting_at_last_arrival", report.waiting_at_last_arrival)?;
    dict.set_item("last_arrival", report.last_arrival)?;
    dict.set_item("evictions", report.evictions)?;
    if let Some(told) = &report.tiers {
        served_tiers::report(py, told, &dict)?;
    }
    let gaps = report.gaps.iter();
    dict.set_item("gaps", PyArray1::from_iter(py, gaps.clone().map(|&(gap, _)| gap)))?;
    dict.set_item("gap_counts", PyArray1::from_iter(py, gaps.map(|&(_, count)| count)))?;
    let fate = |record: &RequestRecord| match record.fate {
        Fate::Unfinished => 0u8,
        Fate::Finished => 1,
        Fate::Rejected => 2,
    };
    column(&dict, report, "fate", fate)?;
    column(&dict, report, "arrival", |record| record.arrival)?;
    column(&dict, report, "start", |record| record.start)?;
    column(&dict, report, "first_token", |record| record.first_token)?;
    column(&dict, report, "end", |record| record.end)?;
    column(&dict, report, "cached_tokens", |record| record.cached_tokens)?;
    column(&dict, report, "recomputed_tokens", |record| record.recomputed_tokens)?;
    column(&dict, report, "preemptions", |record| record.preemptions)?;
    Ok(dict)
}

/// A fact of every request, in the order of the trace.
fn column<T: Element>(
    dict: &Bound<'_, PyDict>,
    report: &ServerReport,
    name: &str,
    fact: impl Fn(&RequestRecord) -> T,
) -> PyResult<()> {
    dict.set_item(name, PyArray1::from_iter(dict.py(), report.requests.iter().map(fact)))
}
