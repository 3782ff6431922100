//! `serve`: a trace through simulated servers.

use std::sync::Arc;
use std::time::Instant;

use kvframe_server::fixed::simulate_fixed;
use kvframe_server::{
    EngineParts, FeedOptions, FleetOptions, FleetReport, HandoverOptions, PeerOptions, Preemption,
    QueueOrder, ReturnOptions, Routing, ServerOptions, ServerReport, SharedTiers, Stopped, Tiers,
    simulate_fleet, simulate_with,
};
use kvframe_trace::Mode;
use kvframe_trace::replay::{FixedRates, Host, PreparedTrace};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::Capacity;
use crate::driven::{Asked, Driver};
use crate::errors::{from_core, usage};
use crate::options::configured;
use crate::room::PREEMPTION_ORDERS;
use crate::served_drafts::SpeculationTable;
use crate::served_report::{fleet_dict, report_dict};
use crate::served_tiers::{self, LinkTuple, MovesTable, TierTable};
use crate::step_time::{Source, StepProfile};
use crate::tenants;
use crate::trace::Trace;

/// The most engines: who holds a block is a word of bits.
const MOST: usize = 64;

/// A server's policies and tiers; `policy`, `admission` and `matcher` as `replay` takes them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct EngineTable<'py> {
    policy: Bound<'py, PyAny>,
    #[pyo3(default)]
    options: Option<Bound<'py, PyDict>>,
    #[pyo3(default)]
    admission: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    admission_options: Option<Bound<'py, PyDict>>,
    #[pyo3(default)]
    matcher: Option<Bound<'py, PyAny>>,
    #[pyo3(default)]
    tiers: Option<Vec<TierTable<'py>>>,
    #[pyo3(default)]
    links: Vec<LinkTuple>,
    #[pyo3(default)]
    moves: Option<MovesTable>,
}

impl EngineTable<'_> {
    fn made(
        self,
        py: Python<'_>,
        block_size: u32,
        tenants: usize,
    ) -> PyResult<(Driver, Option<Tiers>)> {
        let asked = Asked {
            policy: &self.policy,
            options: self.options.as_ref(),
            admission: self.admission.as_ref(),
            admission_options: self.admission_options.as_ref(),
            matcher: self.matcher,
            tenants,
        };
        let driver = Driver::new(py, asked)?;
        let Some(tiers) = self.tiers else { return Ok((driver, None)) };
        let (set, outside) = served_tiers::made(py, tiers, &self.links, self.moves.as_ref())?;
        let tiers = Tiers::new(set, block_size).map_err(|e| from_core(py, &e))?;
        Ok((driver.with_tiers(outside), Some(tiers)))
    }
}

/// A router before several servers. `queue` says what a token that is waited for weighs beside one that is
/// computed, where `routing` is `"prefix"`, and `load` a running sequence, where it is `"kv-aware"`; the router then goes by the servers' events, which reach it `delay`
/// seconds late, but for a share of `loss`. With `counts_copies`, servers know how many others hold a block.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RouterTable {
    routing: String,
    #[pyo3(default = 1.0)]
    queue: f64,
    #[pyo3(default)]
    max_load_ratio: Option<f64>,
    #[pyo3(default = 64.0)]
    load: f64,
    #[pyo3(default)]
    delay: f64,
    #[pyo3(default)]
    loss: f64,
    #[pyo3(default)]
    seed: u64,
    #[pyo3(default)]
    counts_copies: bool,
    /// Tiers that servers have together, with policies of the core: the place from which down so many of them do, and
    /// that from which down all do.
    #[pyo3(default)]
    shared: (Option<(usize, usize)>, Option<usize>),
    /// How many of the servers, the first ones, compute prompts alone; bytes a second, seconds and bytes a token
    /// of the links over which the others get them.
    #[pyo3(default)]
    prefill: Option<(usize, f64, f64, f64)>,
    /// Who of the others goes on: `routing`, `queue`, `max_load_ratio` and `load`.
    #[pyo3(default)]
    decode: Option<(String, f64, Option<f64>, f64)>,
    /// Bytes a second, seconds and bytes a block of the link over which each server gives others what they lack.
    #[pyo3(default)]
    peers: Option<(f64, f64, f64)>,
}

impl RouterTable {
    fn checked(&self, py: Python<'_>) -> PyResult<FleetOptions> {
        if !(self.delay >= 0.0 && self.delay.is_finite()) {
            return Err(usage(py, format!("delay = {}: must be 0 or more", self.delay)));
        }
        if !(0.0..=1.0).contains(&self.loss) {
            return Err(usage(py, format!("loss = {}: must be 0 to 1", self.loss)));
        }
        let weights = (self.queue, self.max_load_ratio, self.load);
        let routing = routing(py, "routing", &self.routing, weights)?;
        let decode_routing = match &self.decode {
            Some((name, queue, ratio, load)) => {
                self::routing(py, "decode routing", name, (*queue, *ratio, *load))?
            }
            None => Routing::LeastLoaded,
        };
        let feed = FeedOptions { delay: self.delay, loss: self.loss, seed: self.seed };
        let prefill = self.prefill.map(|(engines, rate, latency, token_bytes)| {
            (engines, HandoverOptions { rate, latency, token_bytes })
        });
        if let Some((engines, how)) = prefill {
            let good = engines > 0 && how.rate > 0.0 && how.latency >= 0.0 && how.token_bytes > 0.0;
            if !good {
                let told = format!("prefill = ({engines}, {how:?})");
                return Err(usage(py, format!("{told}: must be above 0, and latency 0 or more")));
            }
        }
        let peers = self.peers.map(|(rate, latency, block_bytes)| PeerOptions {
            rate,
            latency,
            block_bytes,
        });
        if let Some(how) = peers
            && !(how.rate > 0.0 && how.latency >= 0.0 && how.block_bytes > 0.0)
        {
            let told = format!("peers = {how:?}");
            return Err(usage(py, format!("{told}: must be above 0, and latency 0 or more")));
        }
        Ok(FleetOptions {
            peers,
            routing,
            feed,
            counts_copies: self.counts_copies,
            shared: SharedTiers { by_node: self.shared.0, by_all: self.shared.1 },
            prefill,
            decode_routing,
        })
    }
}

/// A routing of that name, with what a token that is waited for weighs, the most requests for each one of the mean,
/// and what a running sequence weighs.
fn routing(
    py: Python<'_>,
    what: &str,
    name: &str,
    (queue, max_load_ratio, load): (f64, Option<f64>, f64),
) -> PyResult<Routing> {
    for (name, value) in [("queue", queue), ("load", load)] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(usage(py, format!("{name} = {value}: must be 0 or more")));
        }
    }
    if let Some(ratio) = max_load_ratio.filter(|&ratio| !(ratio > 0.0 && ratio.is_finite())) {
        return Err(usage(py, format!("max_load_ratio = {ratio}: must be above 0")));
    }
    let known = [
        ("round-robin", Routing::RoundRobin),
        ("least-loaded", Routing::LeastLoaded),
        ("prefix", Routing::Prefix { queue, max_load_ratio }),
        ("session", Routing::Session),
        ("kv-aware", Routing::KvAware { load }),
    ];
    named(py, what, name, &known)
}

const ORDERS: [(&str, QueueOrder); 10] = [
    ("fcfs", QueueOrder::Fcfs),
    ("priority", QueueOrder::Priority),
    ("shortest", QueueOrder::Shortest),
    ("longest", QueueOrder::Longest),
    ("shortest-output", QueueOrder::ShortestOutput),
    ("longest-output", QueueOrder::LongestOutput),
    ("shortest-total", QueueOrder::ShortestTotal),
    ("longest-total", QueueOrder::LongestTotal),
    ("longest-prefix", QueueOrder::LongestPrefix),
    ("fewest-uncached", QueueOrder::FewestUncached),
];

const PREEMPTIONS: [(&str, Preemption); 4] = [
    ("recompute", Preemption::Recompute),
    ("swap", Preemption::Swap),
    ("auto", Preemption::Auto),
    ("never", Preemption::Never),
];

pub(crate) fn named<T: Copy>(
    py: Python<'_>,
    what: &str,
    asked: &str,
    known: &[(&str, T)],
) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == asked);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        usage(py, format!("{what} = {asked:?}: must be one of {}", names.join(", ")))
    })
}

/// Serves a trace with simulated servers, whose blocks the core holds.
///
/// `engines` has a table for each; several have a `router` before them, which sends each request to one of them
/// when it arrives. `capacity` counts the blocks of each, None holds everything; `core` has further options of
/// their managers. `speculation` says how answers are drafted. With `load_layers`, a load and the first step behind it go layer by layer
/// side by side. `returns` says how many seconds after a turn the next one of its session is expected, None
/// where the trace has it, and how long before that its blocks are back in the pool. `priorities` and `shares` have one for each class of the trace. Times between arrivals are divided by
/// `load`, or with `one_at_a_time` each comes when the one before has ended and is of no tenant, and steps take `time_factor` times what the profile says. Returns what was counted, and a column for
/// each fact of the requests; with a router, of all servers together, the server of each request, the tokens
/// that the router believed to be cached there, and under `"engines"` what each server counted.
#[pyfunction]
#[pyo3(signature = (trace, engines, capacity, profile, *, router=None, core=None, max_num_seqs=256, max_num_batched_tokens=8192, long_prefill_token_threshold=u32::MAX, chunked_prefill=true, order="fcfs", priorities=vec![], shares=vec![], load=1.0, closed_loop=false, one_at_a_time=false, cache_generated=true, tell_next_use=false, preemption="recompute", preemption_order="last-admitted", load_layers=0, returns=None, join=false, speculation=None, time_factor=1.0, every_step=false))]
pub fn serve<'py>(
    py: Python<'py>,
    trace: &Trace,
    engines: Vec<EngineTable<'py>>,
    capacity: Option<Capacity>,
    profile: &StepProfile,
    router: Option<RouterTable>,
    core: Option<&Bound<'py, PyDict>>,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    long_prefill_token_threshold: u32,
    chunked_prefill: bool,
    order: &str,
    priorities: Vec<i32>,
    shares: Vec<f64>,
    load: f64,
    closed_loop: bool,
    one_at_a_time: bool,
    cache_generated: bool,
    tell_next_use: bool,
    preemption: &str,
    preemption_order: &str,
    load_layers: u32,
    returns: Option<(Option<f64>, f64)>,
    join: bool,
    speculation: Option<SpeculationTable>,
    time_factor: f64,
    every_step: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let server = ServerOptions {
        max_num_seqs,
        max_num_batched_tokens,
        long_prefill_token_threshold,
        chunked_prefill,
        order: named(py, "order", order, &ORDERS)?,
        priorities,
        // As in a replay, which comes one at a time as well.
        tenants: !one_at_a_time && tenants::count(core)? > 0,
        shares,
        load,
        closed_loop,
        one_at_a_time,
        cache_generated,
        tell_next_use,
        preemption: named(py, "preemption", preemption, &PREEMPTIONS)?,
        preemption_order: named(py, "preemption_order", preemption_order, &PREEMPTION_ORDERS)?,
        load_layers,
        returns: returns.map(|(after, lead)| ReturnOptions { after, lead }),
        join,
        speculation: speculation.map(|how| how.checked(py)).transpose()?,
        time_factor,
        every_step,
    };
    check(py, &server)?;
    let count = engines.len();
    if count == 0 || count > MOST || (count > 1 && router.is_none()) {
        let limit = format!("must be 1, or up to {MOST} behind a router");
        return Err(usage(py, format!("{count} engines: {limit}")));
    }
    let fleet = router.map(|router| router.checked(py)).transpose()?;
    if let Some((prefill, _)) = fleet.and_then(|how| how.prefill)
        && prefill >= count
    {
        let told = format!("prefill = {prefill} of {count} engines");
        return Err(usage(py, format!("{told}: must leave one that decodes")));
    }
    let source = profile.source.clone();
    if fleet.is_some() && matches!(source, Source::Fixed(_)) {
        return Err(usage(py, "profile: at fixed rates there are no steps, and no router".into()));
    }
    let block_size = trace.inner.block_size;
    let tenants = tenants::count(core)?;
    let made = engines.into_iter().map(|engine| engine.made(py, block_size, tenants));
    let (drivers, tiers): (Vec<_>, Vec<_>) =
        made.collect::<PyResult<Vec<_>>>()?.into_iter().unzip();
    let is_infinite = drivers.iter().any(|driver| driver.is_infinite);
    let capacity = if is_infinite { None } else { capacity.map(|c| c.0) };
    let plan = trace.with_plan(py, Mode::Timed, |plan, _| Arc::clone(plan))?;
    let prepared = PreparedTrace::new(&trace.inner, Mode::Timed, &plan);
    let mut options = configured(py, core, prepared.options(capacity))?;
    options.event_log |= fleet.is_some_and(|how| how.is_heard() || how.peers.is_some());
    let blocks = options.blocks;
    let start = Instant::now();
    let served = Driver::run_all(py, drivers, Ok(options), |cores| {
        let traced = (&trace.inner, &*plan);
        let parts = cores.iter_mut().zip(tiers);
        let mut engines: Vec<EngineParts<'_>> =
            parts.map(|((manager, link), tiers)| (manager, link as &mut dyn Host, tiers)).collect();
        let report = match (fleet, &source) {
            (Some(how), Source::Steps(steps)) => {
                simulate_fleet(traced, engines, &server, how, &**steps).map(Served::All)
            }
            (_, source) => {
                let Some((manager, host, tiers)) = engines.pop() else { return Ok(None) };
                let report = match source {
                    Source::Steps(steps) => {
                        simulate_with(tiers, traced, manager, host, &server, &**steps)
                    }
                    Source::Fixed(rates) => {
                        let rates = FixedRates {
                            prefill: rates.prefill / time_factor,
                            decode: rates.decode * time_factor,
                        };
                        simulate_fixed((&trace.inner, &prepared), manager, host, rates, load)
                    }
                };
                report.map(|report| Served::One(Box::new(report)))
            }
        };
        match report {
            Ok(report) => Ok(Some(report)),
            Err(Stopped::ByHost) => Ok(None),
            Err(Stopped::ByCore(error)) => Err(error),
        }
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let dict = match served {
        Served::One(report) => report_dict(py, &report)?,
        Served::All(report) => fleet_dict(py, report)?,
    };
    dict.set_item("capacity_blocks", blocks)?;
    dict.set_item("seconds", seconds)?;
    Ok(dict)
}

enum Served {
    One(Box<ServerReport>),
    All(FleetReport),
}

fn check(py: Python<'_>, server: &ServerOptions) -> PyResult<()> {
    let counts = [
        ("max_num_seqs", server.max_num_seqs),
        ("max_num_batched_tokens", server.max_num_batched_tokens),
        ("long_prefill_token_threshold", server.long_prefill_token_threshold),
    ];
    for (name, value) in counts {
        if value == 0 {
            return Err(usage(py, format!("{name} = 0: must be at least 1")));
        }
    }
    if let Some(ReturnOptions { after, lead }) = server.returns {
        let good = |seconds: f64| seconds >= 0.0 && seconds.is_finite();
        if !good(lead) || !after.is_none_or(good) {
            let told = format!("returns = ({after:?}, {lead})");
            return Err(usage(py, format!("{told}: must be 0 s or more")));
        }
    }
    for (name, value) in [("load", server.load), ("time_factor", server.time_factor)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(usage(py, format!("{name} = {value}: must be above 0")));
        }
    }
    Ok(())
}
