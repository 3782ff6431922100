//! Random servers on random traffic: nothing is lost, nothing is computed twice without a reason, clocks
//! do not run back, and steps taken together change nothing.

mod common;

use common::stack::{PAGE_BYTES, Stack, stacks, tiers};
use common::{BLOCK, Server, layered, rows, seconds, servers, traffic};
use kvframe_core::Manager;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_server::tiers::options::PromoteFill;
use kvframe_server::{Fate, Preemption, ServerOptions, ServerReport, StepTime, simulate_with};
use kvframe_trace::replay::{PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

fn serve(
    trace: &Trace,
    server: &Server,
    stack: &Stack,
    times: &dyn StepTime,
    every_step: bool,
) -> ServerReport {
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(trace, Mode::Timed, &plan);
    let policy = by_name(server.policy, PolicyOptions::default()).unwrap();
    let mut manager = Manager::new(prepared.options(Some(server.blocks)).unwrap(), policy).unwrap();
    let options = ServerOptions { every_step, ..server.options.clone() };
    let traced = (trace, &plan);
    let below = tiers(stack);
    let report =
        simulate_with(below, traced, &mut manager, &mut SilentHost, &options, times).unwrap();
    manager.check_integrity().unwrap();
    assert_eq!((manager.num_running(), manager.pool().referenced()), (0, 0));
    report
}

/// Nothing is lost, and clocks do not run back.
fn check_requests(trace: &Trace, server: &Server, report: &ServerReport) {
    for (request, record) in trace.requests.iter().zip(&report.requests) {
        let known = request.input_tokens.max(1) + request.output_tokens.max(1) - 1;
        let fits = known.div_ceil(BLOCK) <= server.blocks;
        assert_eq!(record.fate, if fits { Fate::Finished } else { Fate::Rejected });
        if !fits {
            continue;
        }
        assert!(record.arrival <= record.start && record.start < record.first_token);
        assert!(record.first_token <= record.end);
        assert!(record.cached_tokens < request.input_tokens.max(1));
        assert!(record.cached_tokens.is_multiple_of(BLOCK));
        assert!(record.preemptions > 0 || record.recomputed_tokens == 0);
        assert!(server.options.join || record.joined_tokens == 0);
        assert!(record.joined_tokens.is_multiple_of(BLOCK));
    }
    // Drafts that are right come with the token before them.
    let drafts = server.options.speculation.is_some();
    assert!(report.gaps.iter().all(|&(gap, count)| (gap > 0.0 || drafts) && count > 0));
    assert!(drafts || report.wrong_drafts == 0);
}

/// Each token is computed once, unless it was found, or lost to a preemption.
fn check_tokens(trace: &Trace, report: &ServerReport) {
    let (mut due, mut gaps) = (0, 0);
    for (i, (request, record)) in trace.requests.iter().zip(&report.requests).enumerate() {
        if record.fate != Fate::Finished {
            continue;
        }
        let answer = u64::from(request.output_tokens.max(1));
        due += u64::from(request.input_tokens.max(1)) + answer - 1;
        due += u64::from(record.recomputed_tokens);
        due -= u64::from(record.cached_tokens + record.joined_tokens);
        due -= loaded(report, i);
        gaps += answer - 1;
    }
    due -= report.found_on_return;
    assert_eq!(report.prefill_tokens + report.decode_tokens, due);
    assert_eq!(report.gaps.iter().map(|&(_, count)| u64::from(count)).sum::<u64>(), gaps);
}

/// Tokens that request `i` had from tiers as it first came in.
fn loaded(report: &ServerReport, i: usize) -> u64 {
    let columns = report.tiers.iter().flat_map(|tiers| &tiers.loaded);
    columns.map(|column| u64::from(column[i])).sum()
}

/// What came over a link is what was due, and what went into a tier is there or was evicted.
#[allow(clippy::float_cmp)] // whole numbers
fn check_tiers(stack: &Stack, report: &ServerReport) {
    let Some(told) = &report.tiers else { return };
    let due: u64 = told.tiers.iter().map(|tier| tier.loaded_tokens).sum();
    let came = told.tiers[0].read_pages + told.direct_pages - told.ahead_pages;
    assert_eq!(came * u64::from(BLOCK), due);
    let rose: u64 = told.tiers[1..].iter().map(|tier| tier.read_pages).sum();
    let filled: u64 = told.tiers.iter().map(|tier| tier.filled_pages).sum();
    assert_eq!(rose, filled + told.direct_pages);
    assert!(told.direct_pages == 0 || filled == 0);
    let buffered = if stack.ways.fill == PromoteFill::Buffer { told.direct_pages } else { 0 };
    assert!(told.ahead_used_pages <= told.ahead_pages);
    let first: u64 = (0..report.requests.len()).map(|i| loaded(report, i)).sum();
    assert!(first <= due);
    for (place, (tier, below)) in told.tiers.iter().zip(&stack.below).enumerate() {
        let onward = told.tiers.get(place + 1).map_or(0, |next| next.written_pages);
        // From a store, what goes on down is read over its link, too.
        let over = if place > 0 { onward } else { told.swapped_in_pages + buffered };
        let read = tier.read_pages + over;
        let written = tier.written_pages + if place > 0 { 0 } else { told.swapped_out_pages };
        assert_eq!(tier.read_bytes, read as f64 * PAGE_BYTES, "read from {place}");
        assert_eq!(tier.written_bytes, written as f64 * PAGE_BYTES, "into {place}");
        let entered = tier.written_pages + tier.filled_pages;
        assert!(tier.evicted_pages <= entered);
        assert!(entered - tier.evicted_pages <= u64::from(below.pages));
    }
    assert!(told.stalled_seconds >= 0.0);
    assert!(told.swapped_in_pages <= told.swapped_out_pages);
    let preemptions = report.requests.iter().map(|record| u64::from(record.preemptions));
    assert!(told.swaps <= preemptions.sum());
}

/// Where all that is preempted is kept in host memory, nothing is computed again.
fn check_swaps(server: &Server, report: &ServerReport) {
    let preempted: u64 = report.requests.iter().map(|record| u64::from(record.preemptions)).sum();
    let swaps = report.tiers.as_ref().map_or(0, |told| told.swaps);
    if swaps == preempted {
        assert!(report.requests.iter().all(|record| record.recomputed_tokens == 0));
    }
    assert!(server.options.preemption != Preemption::Recompute || swaps == 0);
    assert!(server.options.preemption != Preemption::Never || preempted == 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(turns in traffic(), server in servers(), stack in stacks()) {
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let report = serve(&trace, &server, &stack, &seconds, false);
        check_requests(&trace, &server, &report);
        check_tokens(&trace, &report);
        check_tiers(&stack, &report);
        check_swaps(&server, &report);
        // NaN differs from itself: compared as text, which has every digit.
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", serve(&trace, &server, &stack, &seconds, true)));
    }

    #[test]
    fn steps_of_several_kinds_of_layers_can_be_taken_together(
        turns in traffic(), server in servers(), stack in stacks(), times in layered()
    ) {
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let report = serve(&trace, &server, &stack, &times, false);
        check_requests(&trace, &server, &report);
        check_tokens(&trace, &report);
        let apart = serve(&trace, &server, &stack, &times, true);
        prop_assert_eq!(format!("{report:?}"), format!("{apart:?}"));
    }
}
