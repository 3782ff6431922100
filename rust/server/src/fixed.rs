//! The server with two rates: one prompt is computed after the other, running sequences do not slow each
//! other down, and a request waits for the blocks of its prompt and its answer together.
//!
//! This is the replay by the clock (`kvframe bench run --mode timed`), reported as a server. It has no steps,
//! so the options of [`crate::ServerOptions`] on batches, order and sessions have no effect.

use kvframe_core::Manager;
use kvframe_trace::Trace;
use kvframe_trace::replay::{FixedRates, Host, PreparedTrace};

use crate::cache::Stopped;
use crate::report::{Fate, RequestRecord, ServerReport};

/// Serves a trace at fixed rates, with the time between arrivals divided by `load`.
///
/// # Errors
/// As [`crate::simulate()`].
pub fn simulate_fixed(
    (trace, prepared): (&Trace, &PreparedTrace<'_>),
    manager: &mut Manager,
    host: &mut dyn Host,
    rates: FixedRates,
    load: f64,
) -> Result<ServerReport, Stopped> {
    let mut served = Vec::new();
    let told = (rates, load);
    prepared.drive_at(manager, host, told, &mut served)?.ok_or(Stopped::ByHost)?;
    let arrived = |i| RequestRecord {
        fate: Fate::Rejected,
        arrival: trace.arrival(i, load),
        ..RequestRecord::default()
    };
    let count = trace.requests.len();
    let mut report = ServerReport {
        requests: (0..count).map(arrived).collect(),
        last_arrival: count.checked_sub(1).map_or(0.0, |last| trace.arrival(last, load)),
        evictions: manager.stats().evictions,
        ..ServerReport::default()
    };
    for times in served {
        let (record, request) =
            (&mut report.requests[times.request], trace.requests[times.request]);
        record.fate = Fate::Finished;
        (record.start, record.first_token, record.end) =
            (times.start, times.first_token, times.end);
        record.cached_tokens = times.cached_tokens;
        report.prefill_tokens += u64::from(request.input_tokens - times.cached_tokens);
        report.decode_tokens += u64::from(request.output_tokens);
        report.busy_seconds += times.first_token - times.start;
        if request.output_tokens > 1 {
            report.gaps.push((rates.decode, request.output_tokens - 1));
        }
        report.waiting_at_last_arrival += u64::from(times.start > report.last_arrival);
    }
    Ok(report)
}
