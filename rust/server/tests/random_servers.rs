//! Random servers on random traffic: nothing is lost, nothing is computed twice without a reason, clocks
//! do not run back, and steps taken together change nothing.

use std::fmt::Write as _;

use kvframe_core::Manager;
use kvframe_core::policy::admission::{self, AdmissionOptions, Tier};
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tier::TierLimits;
use kvframe_server::tiers::options::{
    BreakEven, LinkOptions, TierAdmission, TierOptions, TierParts, TierSet,
};
use kvframe_server::{Batch, Fate, QueueOrder, ServerOptions, ServerReport, Tiers, simulate_with};
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
    below: Vec<Below>,
    prefetch: usize,
    /// Tiers share one link.
    shares: bool,
}

/// A tier, drawn.
#[derive(Debug, Clone)]
struct Below {
    admission: &'static str,
    policy: &'static str,
    pages: u32,
    in_flight: u32,
    refuses: bool,
    backed_first: bool,
    rate: f64,
    latency: f64,
    break_even: BreakEven,
}

const PAGE_BYTES: f64 = 100.0;

fn belows() -> impl Strategy<Value = Vec<Below>> {
    let admissions = ["always", "write-through", "write-back", "selective", "second-use"];
    let chosen = (prop::sample::select(admissions.to_vec()), prop::sample::select(NAMES.to_vec()));
    let sizes = (1u32..60, 1u32..40, any::<bool>(), any::<bool>());
    let break_evens = vec![BreakEven::Off, BreakEven::Auto, BreakEven::Tokens(9)];
    let speeds = (1e2f64..1e6, 0.0f64..0.05, prop::sample::select(break_evens));
    let below = (chosen, sizes, speeds).prop_map(|((admission, policy), sizes, speeds)| {
        let (pages, in_flight, refuses, backed_first) = sizes;
        let (rate, latency, break_even) = speeds;
        Below {
            admission,
            policy,
            pages,
            in_flight,
            refuses,
            backed_first,
            rate,
            latency,
            break_even,
        }
    });
    prop::collection::vec(below, 0..4)
}

fn tiers(server: &Server) -> Option<Tiers> {
    let kinds = [Tier::Host, Tier::Disk, Tier::Remote];
    let tier = |(place, below): (usize, &Below)| TierParts {
        options: TierOptions {
            kind: kinds[place],
            limits: TierLimits {
                pages: below.pages,
                in_flight: below.in_flight,
                backed_first: below.backed_first,
            },
            high: 0.95,
            low: 0.8,
            refuses: below.refuses,
            page_bytes: PAGE_BYTES,
            link: if server.shares { 0 } else { place },
            break_even: below.break_even,
        },
        eviction: by_name(below.policy, PolicyOptions::default()).unwrap(),
        admission: TierAdmission::Core(
            admission::by_name(below.admission, AdmissionOptions::default()).unwrap(),
        ),
    };
    let link =
        |below: &Below| LinkOptions { read: below.rate, write: below.rate, latency: below.latency };
    let set = TierSet {
        tiers: server.below.iter().enumerate().map(tier).collect(),
        links: server.below.iter().map(link).collect(),
        prefetch: server.prefetch,
    };
    (!server.below.is_empty()).then(|| Tiers::new(set, BLOCK).unwrap())
}

fn servers() -> impl Strategy<Value = Server> {
    let orders = [QueueOrder::Fcfs, QueueOrder::Shortest, QueueOrder::LongestPrefix];
    let policies: Vec<&str> = NAMES.to_vec();
    let sizes = (4u32..40, 1u32..6, 1u32..40);
    let ways = (any::<bool>(), any::<bool>(), 0.25f64..4.0);
    let chosen = (prop::sample::select(policies), prop::sample::select(orders.to_vec()));
    let tiers = (belows(), 0usize..4, any::<bool>());
    (chosen, sizes, ways, tiers).prop_map(|((policy, order), sizes, ways, tiers)| {
        let ((closed_loop, generated, load), (below, prefetch, shares)) = (ways, tiers);
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
        Server { policy, blocks, options, below, prefetch, shares }
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
    let traced = (trace, &plan);
    let below = tiers(server);
    let report =
        simulate_with(below, traced, &mut manager, &mut SilentHost, &options, &seconds).unwrap();
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
    for (i, (request, record)) in trace.requests.iter().zip(&report.requests).enumerate() {
        if record.fate != Fate::Finished {
            continue;
        }
        let answer = u64::from(request.output_tokens.max(1));
        due += u64::from(request.input_tokens.max(1)) + answer - 1;
        due += u64::from(record.recomputed_tokens);
        due -= u64::from(record.cached_tokens);
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
fn check_tiers(server: &Server, report: &ServerReport) {
    let Some(told) = &report.tiers else { return };
    let due: u64 = told.tiers.iter().map(|tier| tier.loaded_tokens).sum();
    assert_eq!(told.tiers[0].read_pages * u64::from(BLOCK), due);
    let first: u64 = (0..report.requests.len()).map(|i| loaded(report, i)).sum();
    assert!(first <= due);
    for (place, (tier, below)) in told.tiers.iter().zip(&server.below).enumerate() {
        let onward = told.tiers.get(place + 1).map_or(0, |next| next.written_pages);
        // From a store, what goes on down is read over its link, too.
        let read = tier.read_pages + if place > 0 { onward } else { 0 };
        assert_eq!(tier.read_bytes, read as f64 * PAGE_BYTES, "read from {place}");
        assert_eq!(tier.written_bytes, tier.written_pages as f64 * PAGE_BYTES, "into {place}");
        let entered = tier.written_pages
            + if place == 0 { told.tiers[1..].iter().map(|t| t.read_pages).sum() } else { 0 };
        assert!(tier.evicted_pages <= entered);
        assert!(entered - tier.evicted_pages <= u64::from(below.pages));
    }
    assert!(told.stalled_seconds >= 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(turns in traffic(), server in servers()) {
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let report = serve(&trace, &server, false);
        check_requests(&trace, &server, &report);
        check_tokens(&trace, &report);
        check_tiers(&server, &report);
        // NaN differs from itself: compared as text, which has every digit.
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", serve(&trace, &server, true)));
    }
}
