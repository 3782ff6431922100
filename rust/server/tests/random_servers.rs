//! Random servers on random traffic: nothing is lost, nothing is computed twice without a reason, clocks
//! do not run back, and steps taken together change nothing.

mod common;

use common::{BLOCK, Server, rows, servers, traffic};
use kvframe_core::Manager;
use kvframe_core::policy::admission::{self, Tier};
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::tier::TierLimits;
use kvframe_server::tiers::options::{
    BreakEven, LinkOptions, TierAdmission, TierOptions, TierParts, TierSet,
};
use kvframe_server::{Batch, Fate, ServerOptions, ServerReport, Tiers, simulate_with};
use kvframe_trace::replay::{PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

/// The tiers below a server, drawn.
#[derive(Debug, Clone)]
struct Stack {
    below: Vec<Below>,
    prefetch: usize,
    /// They share one link.
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

fn stacks() -> impl Strategy<Value = Stack> {
    (belows(), 0usize..4, any::<bool>()).prop_map(|(below, prefetch, shares)| Stack {
        below,
        prefetch,
        shares,
    })
}

fn tiers(stack: &Stack) -> Option<Tiers> {
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
            link: if stack.shares { 0 } else { place },
            break_even: below.break_even,
        },
        eviction: by_name(below.policy, PolicyOptions::default()).unwrap(),
        admission: TierAdmission::Core(
            admission::by_name(below.admission, PolicyOptions::default()).unwrap(),
        ),
    };
    let link =
        |below: &Below| LinkOptions { read: below.rate, write: below.rate, latency: below.latency };
    let set = TierSet {
        tiers: stack.below.iter().enumerate().map(tier).collect(),
        links: stack.below.iter().map(link).collect(),
        prefetch: stack.prefetch,
    };
    (!stack.below.is_empty()).then(|| Tiers::new(set, BLOCK).unwrap())
}

fn serve(trace: &Trace, server: &Server, stack: &Stack, every_step: bool) -> ServerReport {
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
    let below = tiers(stack);
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
fn check_tiers(stack: &Stack, report: &ServerReport) {
    let Some(told) = &report.tiers else { return };
    let due: u64 = told.tiers.iter().map(|tier| tier.loaded_tokens).sum();
    assert_eq!(told.tiers[0].read_pages * u64::from(BLOCK), due);
    let first: u64 = (0..report.requests.len()).map(|i| loaded(report, i)).sum();
    assert!(first <= due);
    for (place, (tier, below)) in told.tiers.iter().zip(&stack.below).enumerate() {
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
    fn nothing_is_lost(turns in traffic(), server in servers(), stack in stacks()) {
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let report = serve(&trace, &server, &stack, false);
        check_requests(&trace, &server, &report);
        check_tokens(&trace, &report);
        check_tiers(&stack, &report);
        // NaN differs from itself: compared as text, which has every digit.
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", serve(&trace, &server, &stack, true)));
    }
}
