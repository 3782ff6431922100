//! Several engines and a router: each is the server it would be alone, nothing is lost, and the router
//! knows what it was told.
#![allow(clippy::float_cmp)] // a time is compared with itself

mod common;

use common::stack::{Stack, stacks, tiers};
use common::{BLOCK, Server, rows, seconds, servers, traffic};
use kvframe_core::Manager;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_server::{
    Acceptance, EngineParts, Fate, FeedOptions, FleetOptions, FleetReport, HandoverOptions,
    PeerOptions, Routing, ServerOptions, ServerReport, simulate_fleet, simulate_with,
};
use kvframe_trace::replay::{Host, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};
use proptest::prelude::*;

fn managers(prepared: &PreparedTrace<'_>, server: &Server, count: usize) -> Vec<Manager> {
    let make = |_| {
        let policy = by_name(server.policy, PolicyOptions::default()).unwrap();
        let mut options = prepared.options(Some(server.blocks)).unwrap();
        options.event_log = true;
        Manager::new(options, policy).unwrap()
    };
    (0..count).map(make).collect()
}

fn fleet(
    trace: &Trace,
    server: &Server,
    stack: &Stack,
    (count, how): (usize, FleetOptions),
) -> FleetReport {
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(trace, Mode::Timed, &plan);
    let mut managers = managers(&prepared, server, count);
    let mut hosts = vec![SilentHost; count];
    let engines: Vec<EngineParts<'_>> = managers
        .iter_mut()
        .zip(&mut hosts)
        .map(|(manager, host)| (manager, host as &mut dyn Host, tiers(stack)))
        .collect();
    let report = simulate_fleet((trace, &plan), engines, &server.options, how, &seconds).unwrap();
    for manager in &managers {
        manager.check_integrity().unwrap();
        assert_eq!((manager.num_running(), manager.pool().referenced()), (0, 0));
    }
    report
}

fn alone(trace: &Trace, server: &Server, stack: &Stack) -> ServerReport {
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(trace, Mode::Timed, &plan);
    let mut manager = managers(&prepared, server, 1).remove(0);
    let (traced, below) = ((trace, &plan), tiers(stack));
    simulate_with(below, traced, &mut manager, &mut SilentHost, &server.options, &seconds).unwrap()
}

fn parse(text: &str) -> Trace {
    Trace::parse(text.as_bytes(), "random", Some(BLOCK)).unwrap()
}

fn routings() -> impl Strategy<Value = Routing> {
    prop_oneof![
        Just(Routing::RoundRobin),
        Just(Routing::LeastLoaded),
        Just(Routing::Session),
        (0.0f64..2.0, prop::option::of(0.5f64..3.0))
            .prop_map(|(queue, max_load_ratio)| Routing::Prefix { queue, max_load_ratio }),
        (0.0f64..100.0).prop_map(|load| Routing::KvAware { load }),
    ]
}

/// Every `count`-th row from `first` on.
fn every_nth(text: &str, count: usize, first: usize) -> Trace {
    let lines = text.lines().skip(first).step_by(count);
    parse(&lines.collect::<Vec<_>>().join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_fleet_of_one_is_a_server(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        routing in routings(),
    ) {
        let trace = parse(&rows(&turns));
        let how = FleetOptions { routing, ..FleetOptions::default() };
        let mut one = fleet(&trace, &server, &stack, (1, how));
        let own = ServerReport { requests: one.requests, ..one.engines.remove(0) };
        prop_assert_eq!(format!("{own:?}"), format!("{:?}", alone(&trace, &server, &stack)));
    }

    #[test]
    fn round_robin_gives_each_server_every_nth_row(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        count in 2usize..5,
    ) {
        // What a policy knows of the future, of sessions and of turns is of the whole trace.
        let options = ServerOptions {
            closed_loop: false,
            load: 1.0,
            cache_generated: false,
            returns: None,
            tell_next_use: false,
            // Which of the rounds is a request's goes by its place in the trace.
            speculation: server
                .options
                .speculation
                .filter(|how| !matches!(how.acceptance, Acceptance::Rounds(_))),
            ..server.options
        };
        let server = Server { policy: "lru", options, ..server };
        let mut stack = stack;
        stack.below.iter_mut().for_each(|below| below.policy = "lru");
        let text = rows(&turns);
        let report = fleet(&parse(&text), &server, &stack, (count, FleetOptions::default()));
        for first in 0..count.min(turns.len()) {
            let expected = alone(&every_nth(&text, count, first), &server, &stack).requests;
            let got: Vec<_> = report.requests.iter().skip(first).step_by(count).collect();
            prop_assert_eq!(format!("{got:?}"), format!("{:?}", expected.iter().collect::<Vec<_>>()));
        }
    }

    #[test]
    fn nothing_is_lost(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        count in 1usize..6,
        routing in routings(),
        feed in (0.0f64..0.1, 0.0f64..1.0, any::<u64>()),
    ) {
        let trace = parse(&rows(&turns));
        let (delay, loss, seed) = feed;
        let feed = FeedOptions { delay, loss, seed };
        let how = FleetOptions { routing, feed, counts_copies: true, ..FleetOptions::default() };
        let report = fleet(&trace, &server, &stack, (count, how));
        for (i, (request, record)) in trace.requests.iter().zip(&report.requests).enumerate() {
            let known = request.input_tokens.max(1) + request.output_tokens.max(1) - 1;
            let fits = known.div_ceil(BLOCK) <= server.blocks;
            prop_assert_eq!(record.fate, if fits { Fate::Finished } else { Fate::Rejected });
            prop_assert!((report.engine_of[i] as usize) < count);
            if fits {
                prop_assert!(record.arrival <= record.start && record.start < record.first_token);
                prop_assert!(record.first_token <= record.end);
            }
        }
        prop_assert!(report.messages.1 <= report.messages.0);
        // The same again.
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", fleet(&trace, &server, &stack, (count, how))));
    }

    #[test]
    fn what_others_have_computed_is_computed_once(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        (prefill, count) in (1usize..4, 2usize..6),
        (routing, decode_routing) in (routings(), routings()),
        link in (1.0f64..1e6, 0.0f64..0.1),
    ) {
        let trace = parse(&rows(&turns));
        let (rate, latency) = link;
        let prefill = prefill.min(count - 1);
        let over = HandoverOptions { rate, latency, token_bytes: 7.0 };
        let prefill_link = Some((prefill, over));
        let how =
            FleetOptions { routing, decode_routing, prefill: prefill_link, ..Default::default() };
        let report = fleet(&trace, &server, &stack, (count, how));
        let mut due = 0;
        for (i, (request, record)) in trace.requests.iter().zip(&report.requests).enumerate() {
            let (prompt, answer) = (request.input_tokens.max(1), request.output_tokens.max(1));
            let fits = (prompt + answer - 1).div_ceil(BLOCK) <= server.blocks;
            prop_assert_eq!(record.fate, if fits { Fate::Finished } else { Fate::Rejected });
            prop_assert!((report.engine_of[i] as usize) < prefill);
            let decoded_by = report.decoded_by[i];
            prop_assert!(decoded_by == FleetReport::NOWHERE || (decoded_by as usize) >= prefill);
            if !fits {
                continue;
            }
            prop_assert!(record.start < record.first_token && record.first_token <= record.end);
            prop_assert_eq!(decoded_by == FleetReport::NOWHERE, answer == 1);
            due += u64::from(prompt + answer - 1 + record.recomputed_tokens);
            due -= u64::from(record.cached_tokens + record.joined_tokens);
            let columns = report.engines.iter().filter_map(|engine| engine.tiers.as_ref());
            due -= columns.flat_map(|tiers| &tiers.loaded).map(|of| u64::from(of[i])).sum::<u64>();
        }
        let of = |engine: &ServerReport| engine.prefill_tokens + engine.decode_tokens;
        let found: u64 = report.engines.iter().map(|engine| engine.found_on_return).sum();
        let is_alone = report.requests.iter().all(|record| record.fate == Fate::Finished);
        if is_alone {
            prop_assert_eq!(report.engines.iter().map(of).sum::<u64>() + found, due);
        }
        let first = report.engines[..prefill].iter().map(|engine| engine.decode_tokens).sum::<u64>();
        prop_assert_eq!(first, 0);
    }

    /// What the pool of another engine had is not computed again; bytes that came are those of tokens that did.
    #[test]
    fn what_a_peer_has_is_computed_once(
        turns in traffic(),
        server in servers(),
        stack in stacks(),
        count in 1usize..6,
        routing in routings(),
        link in (1e2f64..1e6, 0.0f64..0.1),
    ) {
        let trace = parse(&rows(&turns));
        let (rate, latency) = link;
        let peers = Some(PeerOptions { rate, latency, block_bytes: 7.0 });
        let how = FleetOptions { routing, peers, ..FleetOptions::default() };
        let report = fleet(&trace, &server, &stack, (count, how));
        let mut due = 0;
        for (i, (request, record)) in trace.requests.iter().zip(&report.requests).enumerate() {
            let (prompt, answer) = (request.input_tokens.max(1), request.output_tokens.max(1));
            let fits = (prompt + answer - 1).div_ceil(BLOCK) <= server.blocks;
            prop_assert_eq!(record.fate, if fits { Fate::Finished } else { Fate::Rejected });
            if !fits {
                continue;
            }
            prop_assert!(record.arrival <= record.start && record.start < record.first_token);
            prop_assert!(record.first_token <= record.end);
            due += u64::from(prompt + answer - 1 + record.recomputed_tokens);
            due -= u64::from(record.cached_tokens + record.joined_tokens + record.peer_tokens);
            let columns = report.engines.iter().filter_map(|engine| engine.tiers.as_ref());
            due -= columns.flat_map(|tiers| &tiers.loaded).map(|of| u64::from(of[i])).sum::<u64>();
        }
        let sum = |of: &dyn Fn(&ServerReport) -> u64| report.engines.iter().map(of).sum::<u64>();
        let computed = sum(&|engine| engine.prefill_tokens + engine.decode_tokens);
        prop_assert_eq!(computed + sum(&|engine| engine.found_on_return), due);
        let came = sum(&|engine| engine.peer_tokens);
        let first: u64 = report.requests.iter().map(|record| u64::from(record.peer_tokens)).sum();
        let again = report.requests.iter().any(|record| record.preemptions > 0);
        let all = first == came || (server.options.join && first <= came);
        prop_assert!(all || (again && first <= came));
        prop_assert!(count > 1 || came == 0);
        let bytes: f64 = report.engines.iter().map(|engine| engine.peer_bytes).sum();
        prop_assert_eq!(bytes, (came / u64::from(BLOCK)) as f64 * 7.0);
        prop_assert_eq!(format!("{report:?}"), format!("{:?}", fleet(&trace, &server, &stack, (count, how))));
    }

    #[test]
    fn the_router_promises_what_is_there_if_it_hears_at_once(
        turns in traffic(),
        server in servers(),
        count in 1usize..5,
    ) {
        // A request that starts when it arrives finds what the router said, and no other engine has more.
        let options = ServerOptions {
            max_num_seqs: 64,
            max_num_batched_tokens: 4_096,
            cache_generated: true,
            join: false,
            ..server.options
        };
        let server = Server { options, ..server };
        let trace = parse(&rows(&turns));
        let routing = Routing::Prefix { queue: 0.0, max_load_ratio: None };
        let how = FleetOptions { routing, ..FleetOptions::default() };
        let report = fleet(&trace, &server, &Stack::default(), (count, how));
        let evicted: u64 = report.engines.iter().map(|engine| engine.evictions).sum();
        for (record, &promised) in report.requests.iter().zip(&report.promised_tokens) {
            if record.fate == Fate::Finished && record.start == record.arrival {
                // The step that it came into may have evicted what the router knew of.
                prop_assert!(record.cached_tokens <= promised);
                prop_assert!(evicted > 0 || record.cached_tokens == promised);
            }
        }
    }
}
