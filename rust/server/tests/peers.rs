//! Blocks that another engine's pool has, worked out by hand.
//!
//! Blocks of 4 tokens and 10 bytes, pools of 6, steps of 10 s and 1 s a token, requests to two servers in turn; a link
//! out of each of 10 bytes a second, with 1 s of latency. In order:
//!
//! | at | what happens |
//! | --- | --- |
//! | 0 | r0 on server 0 computes `a`, `b` until 20 |
//! | 100 | r1 on server 1 lacks both: they come from server 0 until 103; 2 tokens take until 115 |
//! | 101 | r2 on server 0 needs 5 blocks, 4 are free, and `a`, `b` are being read: it waits until 103, then evicts `b` |
//! | 200 | r3 on server 1 begins with `c`, `d`, which server 0 has: they come until 203, and r3 ends at 215 |
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::finished;
use kvframe_core::Manager;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_server::{
    Batch, EngineParts, FleetOptions, FleetReport, PeerOptions, RequestRecord, ServerOptions,
    simulate_fleet,
};
use kvframe_trace::replay::{Host, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 101000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [3, 4]}
"#;

fn served(peers: Option<PeerOptions>) -> FleetReport {
    let trace = Trace::parse(ROWS.as_bytes(), "by hand", Some(4)).unwrap();
    let plan = trace.plan(Mode::Timed);
    let prepared = PreparedTrace::new(&trace, Mode::Timed, &plan);
    let make = |_| {
        let mut options = prepared.options(Some(6)).unwrap();
        options.event_log = true;
        Manager::new(options, by_name("lru", PolicyOptions::default()).unwrap()).unwrap()
    };
    let mut managers: Vec<Manager> = (0..2).map(make).collect();
    let mut hosts = [SilentHost; 2];
    let engines: Vec<EngineParts<'_>> = managers
        .iter_mut()
        .zip(&mut hosts)
        .map(|(manager, host)| (manager, host as &mut dyn Host, None))
        .collect();
    let times = |batch: &Batch| 10.0 + f64::from(batch.num_tokens());
    let how = FleetOptions { peers, ..FleetOptions::default() };
    let options = ServerOptions::default();
    let report = simulate_fleet((&trace, &plan), engines, &options, how, &times).unwrap();
    for manager in &managers {
        manager.check_integrity().unwrap();
        assert_eq!((manager.num_running(), manager.pool().referenced()), (0, 0));
    }
    report
}

#[test]
fn what_a_peer_has_comes_from_there() {
    let report = served(Some(PeerOptions { rate: 10.0, latency: 1.0, block_bytes: 10.0 }));
    let fetched = |times| RequestRecord { peer_tokens: 8, ..finished(times, 0, 0, 0) };
    let expected = [
        finished([0.0, 0.0, 20.0, 20.0], 0, 0, 0),
        fetched([100.0, 100.0, 115.0, 115.0]),
        finished([101.0, 103.0, 131.0, 131.0], 0, 0, 0),
        fetched([200.0, 200.0, 215.0, 215.0]),
    ];
    assert_eq!(report.requests, expected);
    let of = |at: usize| (report.engines[at].peer_tokens, report.engines[at].peer_bytes);
    assert_eq!((of(0), of(1)), ((0, 0.0), (16, 40.0)));
}

#[test]
fn without_peers_each_computes_what_it_lacks() {
    let ends: Vec<f64> = served(None).requests.iter().map(|record| record.end).collect();
    assert_eq!(ends, [20.0, 120.0, 129.0, 220.0]);
}
