//! Host memory that two servers have together, worked out by hand; and random fleets with shared tiers.
//!
//! Blocks of 4 tokens, pools of 6, steps of 10 s and 1 s a token, requests to the servers in turn; 9 pages of 10
//! bytes, 1 s a page down, 2 s a page up, and 1 s of latency. In order:
//!
//! | at | what happens |
//! | --- | --- |
//! | 0 | r0 on server 0 computes `a`, `b` until 20; they are in host memory at 23 |
//! | 100 | r1 on server 1 loads both until 105, and computes 2 tokens until 117 |
//! | 200 | r2 on server 0 computes `c` to `f`, r3 on server 1 `g` to `j`, until 228; four pages each go down |
//! | 228 | those of r2 are down at 233; those of r3 wait for the link until 232, and are down at 237; a page leaves |
//! | 234 | r4 on server 0 begins with `g` to `j`, which are on their way down: it waits until 237, then loads |
//! | 246 | they are there, and 2 tokens take until 258 |
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{below, finished, host};
use common::stack::{PAGE_BYTES, Stack, stacks, tiers};
use common::{BLOCK, rows, seconds, servers, traffic};
use kvframe_core::Manager;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_server::tiers::options::PromoteFill;
use kvframe_server::{
    Batch, EngineParts, Fate, FleetOptions, FleetReport, Routing, ServerOptions, SharedTiers,
    StepTime, Tiers, simulate_fleet,
};
use kvframe_trace::replay::{Host, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 200000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 200000, "input_length": 18, "output_length": 1, "hash_ids": [7, 8, 9, 10]}
{"timestamp": 234000, "input_length": 18, "output_length": 1, "hash_ids": [7, 8, 9, 10]}
"#;

fn fleet(
    (trace, options): (&Trace, &ServerOptions),
    (policy, blocks): (&str, u32),
    below: Vec<Option<Tiers>>,
    how: FleetOptions,
    times: &dyn StepTime,
) -> FleetReport {
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(trace, Mode::Timed, &plan);
    let make = |_: &Option<Tiers>| {
        let policy = by_name(policy, PolicyOptions::default()).unwrap();
        let mut options = prepared.options(Some(blocks)).unwrap();
        options.event_log = true;
        Manager::new(options, policy).unwrap()
    };
    let mut managers: Vec<Manager> = below.iter().map(make).collect();
    let mut hosts = vec![SilentHost; managers.len()];
    let engines: Vec<EngineParts<'_>> = managers
        .iter_mut()
        .zip(&mut hosts)
        .zip(below)
        .map(|((manager, host), below)| (manager, host as &mut dyn Host, below))
        .collect();
    let report = simulate_fleet((trace, &plan), engines, options, how, times).unwrap();
    for manager in &managers {
        manager.check_integrity().unwrap();
        assert_eq!((manager.num_running(), manager.pool().referenced()), (0, 0));
    }
    report
}

fn by_hand(shared: SharedTiers) -> FleetReport {
    let trace = Trace::parse(ROWS.as_bytes(), "by hand", Some(4)).unwrap();
    let below = (0..2).map(|_| Some(host("write-through", 9, (5.0, 10.0)))).collect();
    let how = FleetOptions { shared, ..FleetOptions::default() };
    let times = |batch: &Batch| 10.0 + f64::from(batch.num_tokens());
    fleet((&trace, &ServerOptions::default()), ("lru", 6), below, how, &times)
}

#[test]
fn what_one_server_put_there_another_finds() {
    let report = by_hand(SharedTiers { by_all: Some(0), ..SharedTiers::default() });
    assert_eq!(report.engine_of, [0, 1, 0, 1, 0]);
    let expected = [
        [0.0, 0.0, 20.0, 20.0],
        [100.0, 100.0, 117.0, 117.0],
        [200.0, 200.0, 228.0, 228.0],
        [200.0, 200.0, 228.0, 228.0],
        [234.0, 234.0, 258.0, 258.0],
    ];
    for (i, times) in expected.into_iter().enumerate() {
        assert_eq!(report.requests[i], finished(times, 0, 0, 0), "request {i}");
    }
    let of = |at: usize| report.engines[at].tiers.as_ref().unwrap().tiers[0];
    let counts = |at| (of(at).read_pages, of(at).others_pages, of(at).written_pages);
    assert_eq!((counts(0), counts(1)), ((4, 4, 6), (2, 2, 4)));
    assert_eq!((of(0).evicted_pages, of(1).evicted_pages), (0, 1));
}

#[test]
fn alone_each_computes_what_the_other_has() {
    let report = by_hand(SharedTiers::default());
    let ends: Vec<f64> = report.requests.iter().map(|record| record.end).collect();
    // r1 computes 10 tokens, and r4 18.
    assert_eq!(ends, [20.0, 120.0, 228.0, 228.0, 262.0]);
    let of = |at: usize| report.engines[at].tiers.as_ref().unwrap().tiers[0];
    assert_eq!((of(0).others_pages, of(1).others_pages), (0, 0));
}

/// Four servers, host memory for each two of them, and a disk for all, over which a page takes 1 s either way. r0 has put
/// `a`, `b` into the first host memory by 23, and onto the disk by 26. At 100, r1 on server 1 loads both from there until
/// 105, and r2 on server 2 from the disk until 103, from its own host memory until 108. At 200, r3 on server 3 finds them
/// in that, and has them at 205. Each computes 2 tokens in 12 s.
#[test]
fn a_node_has_host_memory_and_all_have_the_disk() {
    let row = |at: u32| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 10, \"output_length\": 1, \"hash_ids\": [1, 2]}}\n"
        )
    };
    let rows = [0, 100_000, 100_000, 200_000].map(row).concat();
    let trace = Trace::parse(rows.as_bytes(), "by hand", Some(4)).unwrap();
    let tiers = [("write-through", 9, (5.0, 10.0)), ("write-through", 20, (10.0, 10.0))];
    let stacked = (0..4).map(|_| Some(below(&tiers, |_| ()))).collect();
    let shared = SharedTiers { by_node: Some((0, 2)), by_all: Some(1) };
    let how = FleetOptions { shared, ..FleetOptions::default() };
    let times = |batch: &Batch| 10.0 + f64::from(batch.num_tokens());
    let report = fleet((&trace, &ServerOptions::default()), ("lru", 6), stacked, how, &times);
    let ends: Vec<f64> = report.requests.iter().map(|record| record.end).collect();
    assert_eq!(ends, [20.0, 117.0, 120.0, 217.0]);
    let pages = |at: usize| {
        let told = report.engines[at].tiers.as_ref().unwrap();
        [0, 1].map(|place: usize| (told.tiers[place].read_pages, told.tiers[place].others_pages))
    };
    assert_eq!(pages(1), [(2, 2), (0, 0)]);
    assert_eq!(pages(2), [(2, 0), (2, 2)]);
    assert_eq!(pages(3), [(2, 2), (0, 0)]);
}

/// Bytes moved are bytes due, and a shared tier holds no more than its pages.
fn check_tiers(stack: &Stack, shared: SharedTiers, report: &FleetReport) {
    let told: Vec<_> = report.engines.iter().map(|one| one.tiers.as_ref().unwrap()).collect();
    let together = |place: usize| match shared {
        SharedTiers { by_all: Some(from), .. } if place >= from => told.len().max(1),
        SharedTiers { by_node: Some((from, servers)), .. } if place >= from => servers,
        _ => 1,
    };
    for (place, below) in stack.below.iter().enumerate() {
        let mut kept = Vec::new();
        for of in &told {
            let tier = of.tiers[place];
            let onward = of.tiers.get(place + 1).map_or(0, |next| next.written_pages);
            let buffered = if stack.ways.fill == PromoteFill::Buffer { of.direct_pages } else { 0 };
            let over = if place > 0 { onward } else { of.swapped_in_pages + buffered };
            let read = tier.read_pages + over;
            let written = tier.written_pages + if place > 0 { 0 } else { of.swapped_out_pages };
            assert_eq!(tier.read_bytes, read as f64 * PAGE_BYTES, "read from {place}");
            assert_eq!(tier.written_bytes, written as f64 * PAGE_BYTES, "into {place}");
            assert!(tier.others_pages <= tier.read_pages);
            assert!(together(place) > 1 || tier.others_pages == 0);
            let entered = tier.written_pages + tier.filled_pages;
            kept.push(entered as i64 - tier.evicted_pages as i64);
        }
        let most = i64::from(below.pages);
        // One may evict what another put there.
        for group in kept.chunks(together(place)) {
            assert!((0..=most).contains(&group.iter().sum()), "{place}: {kept:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        count in 1usize..5,
        (node, servers, all) in (0usize..3, 1usize..4, prop::option::of(0usize..3)),
        routing in prop::sample::select(vec![
            Routing::RoundRobin,
            Routing::Session,
            Routing::Prefix { queue: 1.0, max_load_ratio: None },
        ]),
    ) {
        let Some(last) = stack.below.len().checked_sub(1) else { return Ok(()) };
        let (node, all) = (node.min(last), all.map(|all| all.min(last)));
        let shared = SharedTiers { by_node: Some((node, servers)), by_all: all };
        let mut stack = stack;
        // One link cannot be each one's own and of several.
        stack.shares &= all == Some(0) || (node == 0 && all.is_none());
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let how = FleetOptions { routing, shared, ..FleetOptions::default() };
        let served = || {
            let below = (0..count).map(|_| tiers(&stack)).collect();
            fleet((&trace, &server.options), (server.policy, server.blocks), below, how, &seconds)
        };
        let report = served();
        for (request, record) in trace.requests.iter().zip(&report.requests) {
            let known = request.input_tokens.max(1) + request.output_tokens.max(1) - 1;
            let fits = known.div_ceil(BLOCK) <= server.blocks;
            prop_assert_eq!(record.fate, if fits { Fate::Finished } else { Fate::Rejected });
            if fits {
                prop_assert!(record.arrival <= record.start && record.start < record.first_token);
                prop_assert!(record.first_token <= record.end);
            }
        }
        check_tiers(&stack, shared, &report);
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", served()));
    }

    #[test]
    fn one_server_shares_with_none(turns in traffic(), server in servers(), stack in stacks()) {
        if stack.below.is_empty() {
            return Ok(());
        }
        let trace = Trace::parse(rows(&turns).as_bytes(), "random", Some(BLOCK)).unwrap();
        let served = |shared| {
            let how = FleetOptions { shared, ..FleetOptions::default() };
            let of = (server.policy, server.blocks);
            fleet((&trace, &server.options), of, vec![tiers(&stack)], how, &seconds)
        };
        let all = SharedTiers { by_all: Some(0), ..SharedTiers::default() };
        let told = format!("{:?}", served(all));
        prop_assert_eq!(&told, &format!("{:?}", served(SharedTiers::default())));
        let node = SharedTiers { by_node: Some((0, 4)), ..SharedTiers::default() };
        prop_assert_eq!(told, format!("{:?}", served(node)));
    }
}
