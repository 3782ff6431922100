//! `serve_fleet`: a trace through several simulated engines, behind a router.

use std::sync::Arc;
use std::time::Instant;

use kvframe_core::Manager;
use kvframe_server::{
    FeedOptions, FleetOptions, FleetReport, Routing, ServerOptions, ServerReport, Stopped,
    simulate_fleet,
};
use kvframe_trace::Mode;
use kvframe_trace::replay::{Host, PreparedTrace};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::args::Capacity;
use crate::driven::{Asked, Driver};
use crate::errors::usage;
use crate::serve::{check, order_of, report_dict};
use crate::step_time::{Source, StepProfile};
use crate::trace::Trace;

/// The most engines: who holds a block is a word of bits.
const MOST: usize = 64;

fn routing_of(py: Python<'_>, routing: &str, queue: f64) -> PyResult<Routing> {
    match routing {
        "round-robin" => Ok(Routing::RoundRobin),
        "least-loaded" => Ok(Routing::LeastLoaded),
        "prefix" => Ok(Routing::Prefix { queue }),
        "session" => Ok(Routing::Session),
        _ => {
            let all = "round-robin, least-loaded, prefix or session";
            Err(usage(py, format!("routing = {routing:?}: must be {all}")))
        }
    }
}

/// Serves a trace with several simulated engines on one clock, each with a core of its own, and a router that
/// sends each request to one of them when it arrives.
///
/// `policies` has a policy for each engine, each as `serve` takes one; `capacity` counts the blocks of each.
/// `queue_weight` says what a token that is waited for weighs beside one that is computed, where `routing` is
/// `"prefix"`; the router then goes by the engines' events, which reach it `event_delay` seconds late, but for
/// a share of `event_loss`. With `counts_copies`, engines know how many others hold a block. The rest is as in
/// `serve`. Returns what `serve` returns, of all engines together; the engine of each request, and the tokens
/// that the router believed to be cached there; and under `"engines"` what each engine counted.
#[pyfunction]
#[pyo3(signature = (trace, policies, capacity, profile, options=None, *, routing="round-robin", queue_weight=1.0, event_delay=0.0, event_loss=0.0, seed=0, counts_copies=false, max_num_seqs=256, max_num_batched_tokens=8192, order="fcfs", priorities=vec![], load=1.0, closed_loop=false, cache_generated=true, time_factor=1.0, every_step=false))]
pub fn serve_fleet<'py>(
    py: Python<'py>,
    trace: &Trace,
    policies: Vec<Bound<'py, PyAny>>,
    capacity: Option<Capacity>,
    profile: &StepProfile,
    options: Option<&Bound<'py, PyDict>>,
    routing: &str,
    queue_weight: f64,
    event_delay: f64,
    event_loss: f64,
    seed: u64,
    counts_copies: bool,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    order: &str,
    priorities: Vec<i32>,
    load: f64,
    closed_loop: bool,
    cache_generated: bool,
    time_factor: f64,
    every_step: bool,
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
    let count = policies.len();
    if count == 0 || count > MOST {
        return Err(usage(py, format!("{count} policies: must be 1 to {MOST}, one an engine")));
    }
    let feed = FeedOptions { delay: event_delay, loss: event_loss, seed };
    check_feed(py, queue_weight, feed)?;
    let routing = routing_of(py, routing, queue_weight)?;
    let fleet = FleetOptions { routing, feed, counts_copies };
    let Source::Steps(steps) = profile.source.clone() else {
        return Err(usage(py, "profile: at fixed rates there are no steps, and no fleet".into()));
    };
    let drivers = policies
        .iter()
        .map(|policy| {
            let (admission, admission_options, matcher) = (None, None, None);
            Driver::new(py, Asked { policy, options, admission, admission_options, matcher })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let is_infinite = drivers.iter().any(|driver| driver.is_infinite);
    let capacity = if is_infinite { None } else { capacity.map(|c| c.0) };
    let plan = trace.with_plan(py, Mode::Timed, |plan, _| Arc::clone(plan))?;
    let prepared = PreparedTrace::new(&trace.inner, Mode::Timed, &plan);
    let core = prepared.options(capacity).map(|mut core| {
        core.event_log = routing.wants_events() || counts_copies;
        core
    });
    let blocks = core.as_ref().map_or(0, |core| core.blocks);
    let start = Instant::now();
    let report = Driver::run_all(py, drivers, core, |cores| {
        let engines = cores
            .iter_mut()
            .map(|(manager, link)| -> (&mut Manager, &mut dyn Host) { (manager, link) });
        let traced = (&trace.inner, &*plan);
        match simulate_fleet(traced, engines.collect(), &server, fleet, &*steps) {
            Ok(report) => Ok(Some(report)),
            Err(Stopped::ByHost) => Ok(None),
            Err(Stopped::ByCore(error)) => Err(error),
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let dict = fleet_dict(py, report)?;
    dict.set_item("capacity_blocks", blocks)?;
    dict.set_item("seconds", seconds)?;
    Ok(dict)
}

fn check_feed(py: Python<'_>, queue_weight: f64, feed: FeedOptions) -> PyResult<()> {
    for (name, value) in [("queue_weight", queue_weight), ("event_delay", feed.delay)] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(usage(py, format!("{name} = {value}: must be 0 or more")));
        }
    }
    if !(0.0..=1.0).contains(&feed.loss) {
        return Err(usage(py, format!("event_loss = {}: must be 0 to 1", feed.loss)));
    }
    Ok(())
}

fn fleet_dict(py: Python<'_>, report: FleetReport) -> PyResult<Bound<'_, PyDict>> {
    let FleetReport { requests, engine_of, promised_tokens, engines, messages } = report;
    let own = PyList::empty(py);
    for engine in &engines {
        let dict = PyDict::new(py);
        dict.set_item("steps", engine.steps)?;
        dict.set_item("busy_seconds", engine.busy_seconds)?;
        dict.set_item("prefill_tokens", engine.prefill_tokens)?;
        dict.set_item("decode_tokens", engine.decode_tokens)?;
        dict.set_item("evictions", engine.evictions)?;
        dict.set_item("peak_waiting", engine.peak_waiting)?;
        own.append(dict)?;
    }
    let mut all = engines.into_iter().fold(ServerReport::default(), together);
    all.requests = requests;
    let dict = report_dict(py, &all)?;
    dict.set_item("engines", own)?;
    dict.set_item("engine_of", PyArray1::from_vec(py, engine_of))?;
    dict.set_item("promised_tokens", PyArray1::from_vec(py, promised_tokens))?;
    dict.set_item("messages", messages.0)?;
    dict.set_item("messages_lost", messages.1)?;
    Ok(dict)
}

/// What two engines counted together; the longest queue of both.
fn together(mut all: ServerReport, one: ServerReport) -> ServerReport {
    all.gaps.extend(one.gaps);
    all.steps += one.steps;
    all.busy_seconds += one.busy_seconds;
    all.prefill_tokens += one.prefill_tokens;
    all.decode_tokens += one.decode_tokens;
    all.found_on_return += one.found_on_return;
    all.block_seconds += one.block_seconds;
    all.peak_waiting = all.peak_waiting.max(one.peak_waiting);
    all.waiting_at_last_arrival += one.waiting_at_last_arrival;
    all.last_arrival = all.last_arrival.max(one.last_arrival);
    all.evictions += one.evictions;
    all
}
