//! Random servers on random traffic: nothing is lost, nothing is computed twice without a reason, clocks
//! do not run back, and steps taken together change nothing.

use std::fmt::Write as _;

use kvframe_core::Manager;
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_server::{Batch, Fate, QueueOrder, ServerOptions, ServerReport, simulate};
use kvframe_trace::replay::{PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

const BLOCK: u32 = 4;

/// A turn: how long after the request before it came, its session, the prompt's tokens beyond those of
/// the turn before, and its answer's.
type Turn = (u32, u32, u32, u32);

/// Prompts of a session grow: a turn begins with the prompt and the answer of the turn before, or, where
/// `is_same` of its session, starts over. Sessions share their first block.
fn rows(turns: &[Turn]) -> String {
    let (mut text, mut time) = (String::new(), 0);
    let mut lengths = [0u32; 4];
    for &(gap, session, more, answer) in turns {
        time += gap;
        let length = &mut lengths[session as usize];
        *length = if *length > 60 { more } else { *length + more };
        let ids: Vec<u32> = (0..*length / BLOCK)
            .map(|at| if at == 0 { 0 } else { 1 + session * 1_000 + at })
            .collect();
        writeln!(
            text,
            r#"{{"timestamp": {time}, "input_length": {length}, "output_length": {answer}, "session_id": {session}, "hash_ids": {ids:?}}}"#
        )
        .unwrap();
        *length += answer;
    }
    text
}

#[derive(Debug, Clone)]
struct Server {
    policy: &'static str,
    blocks: u32,
    options: ServerOptions,
}

fn servers() -> impl Strategy<Value = Server> {
    let orders = [QueueOrder::Fcfs, QueueOrder::Shortest, QueueOrder::LongestPrefix];
    let policies: Vec<&str> = NAMES.to_vec();
    let sizes = (4u32..40, 1u32..6, 1u32..40);
    let ways = (any::<bool>(), any::<bool>(), 0.25f64..4.0);
    let chosen = (prop::sample::select(policies), prop::sample::select(orders.to_vec()));
    (chosen, sizes, ways).prop_map(|((policy, order), sizes, (closed_loop, generated, load))| {
        let (blocks, max_num_seqs, max_num_batched_tokens) = sizes;
        let options = ServerOptions {
            max_num_seqs,
            max_num_batched_tokens,
            order,
            load,
            closed_loop,
            cache_generated: generated,
            ..ServerOptions::default()
        };
        Server { policy, blocks, options }
    })
}

fn traffic() -> impl Strategy<Value = Vec<Turn>> {
    prop::collection::vec((0u32..60, 0u32..4, 0u32..30, 0u32..12), 1..40)
}

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
