//! Random servers on random traffic: nothing is lost, nothing is computed twice without a reason, clocks
//! do not run back, and steps taken together change nothing.

mod common;

use common::{BLOCK, Server, rows, servers, traffic};
use kvframe_core::Manager;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_server::{Batch, Fate, ServerOptions, ServerReport, simulate};
use kvframe_trace::replay::{PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

fn serve(trace: &Trace, server: &Server, every_step: bool) -> ServerReport {
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(trace, Mode::Timed, &plan);
    let policy = by_name(server.policy, PolicyOptions::default()).unwrap();
    let mut manager = Manager::new(prepared.options(Some(server.blocks)).unwrap(), policy).unwrap();
    let options = ServerOptions { every_step, ..server.options.clone() };
    // Times that no binary fraction holds exactly.
    let seconds = |batch: &Batch| {
        0.0031 + 0.0007 * f64::from(batch.num_tokens()) + batch.kv_decode as f64 * 1e-5
    };
    let report =
        simulate((trace, &plan), &mut manager, &mut SilentHost, &options, &seconds).unwrap();
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
    }
    assert!(report.gaps.iter().all(|&(gap, count)| gap > 0.0 && count > 0));
}

/// Each token is computed once, unless it was found, or lost to a preemption.
fn check_tokens(trace: &Trace, report: &ServerReport) {
    let (mut due, mut gaps) = (0, 0);
    for (request, record) in trace.requests.iter().zip(&report.requests) {
        if record.fate != Fate::Finished {
            continue;
        }
        let answer = u64::from(request.output_tokens.max(1));
        due += u64::from(request.input_tokens.max(1)) + answer - 1;
        due += u64::from(record.recomputed_tokens);
        due -= u64::from(record.cached_tokens);
        gaps += answer - 1;
    }
    due -= report.found_on_return;
    assert_eq!(report.prefill_tokens + report.decode_tokens, due);
    assert_eq!(report.gaps.iter().map(|&(_, count)| u64::from(count)).sum::<u64>(), gaps);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(turns in traffic(), server in servers()) {
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let report = serve(&trace, &server, false);
        check_requests(&trace, &server, &report);
        check_tokens(&trace, &report);
        // NaN differs from itself: compared as text, which has every digit.
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", serve(&trace, &server, true)));
    }
}
