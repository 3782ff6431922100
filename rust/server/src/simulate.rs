//! The event loop of one engine: arrivals, steps, ends, on one clock.

use kvframe_core::Manager;
use kvframe_trace::replay::Host;
use kvframe_trace::{ReplayPlan, Trace};

use crate::arrivals::{Arrivals, next_turns};
use crate::cache::Stopped;
use crate::engine::Engine;
use crate::options::ServerOptions;
use crate::profile::StepTime;
use crate::prompts::Prompts;
use crate::report::{RequestRecord, ServerReport};
use crate::tiers::Tiers;

/// Steps between two looks whether the host wants to stop.
pub(crate) const PATIENCE: u64 = 256;

/// Serves a trace with a manager made by [`kvframe_trace::replay::PreparedTrace::options`] in timed mode.
/// `plan` is the trace's plan of that mode.
///
/// # Errors
/// [`Stopped::ByCore`]: what the manager says of a policy that misbehaves; [`Stopped::ByHost`]: the host
/// wanted to stop, or its policy did not answer.
pub fn simulate(
    (trace, plan): (&Trace, &ReplayPlan),
    manager: &mut Manager,
    host: &mut dyn Host,
    options: &ServerOptions,
    times: &dyn StepTime,
) -> Result<ServerReport, Stopped> {
    simulate_with(None, (trace, plan), manager, host, options, times)
}

/// As [`simulate`], with tiers below the pool.
///
/// # Errors
/// As there.
pub fn simulate_with(
    mut tiers: Option<Tiers>,
    (trace, plan): (&Trace, &ReplayPlan),
    manager: &mut Manager,
    host: &mut dyn Host,
    options: &ServerOptions,
    times: &dyn StepTime,
) -> Result<ServerReport, Stopped> {
    let next = next_turns(trace);
    let prompts = Prompts::new(trace, plan, &next, options);
    let count = trace.requests.len();
    if let Some(tiers) = &mut tiers {
        tiers.set_break_even(times, options.time_factor, options.max_num_batched_tokens);
        tiers.expect(count);
    }
    let mut arrivals = Arrivals::new(trace, &next, options);
    let mut engine = Engine::new(manager, host, &prompts, options, times, tiers);
    let mut requests = vec![RequestRecord::default(); count];
    let mut turns: u64 = 0;
    loop {
        if turns.is_multiple_of(PATIENCE) && engine.scheduler.cache.host.stop() {
            return Err(Stopped::ByHost);
        }
        turns += 1;
        while let Some(arrival) = arrivals.take_due(engine.now) {
            if let Some(rejected) = engine.arrive(arrival) {
                requests[arrival.request] = rejected;
                arrivals.ended(arrival.request, arrival.time);
            }
        }
        let next_arrival = arrivals.next().map_or(f64::INFINITY, |next| next.time);
        if engine.begin(next_arrival)? {
            engine.end()?;
        } else if engine.done.is_empty() {
            let next = next_arrival.min(engine.next_transfer());
            // Tiers may tidy up for ever: they are waited for as long as a request is here.
            if next == f64::INFINITY || (next_arrival == f64::INFINITY && !engine.is_busy()) {
                break;
            }
            engine.now = engine.now.max(next);
        }
        if options.one_at_a_time && !engine.done.is_empty() {
            engine.rest()?;
        }
        for (request, record) in engine.done.drain(..) {
            requests[request] = record;
            arrivals.ended(request, engine.now);
        }
    }
    engine.wind_up()?;
    let (mut report, left) = engine.close();
    for (request, record) in left {
        requests[request] = record;
    }
    report.requests = requests;
    Ok(report)
}
