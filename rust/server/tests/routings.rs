//! Where requests are sent, worked out with pencil and paper: blocks of 4 tokens, steps of 10 s and 1 s a token.

mod common;

use common::by_hand;
use kvframe_server::{FleetOptions, HandoverOptions, Routing};

/// r0 leaves `a` and `b` in engine 0 and ends at 19; r1 goes there and runs until 53; r2 comes at 25. Engine 0 has one
/// request then, and the mean of two engines is a half.
#[test]
fn who_has_a_prefix_is_passed_over_where_too_many_are() {
    let rows = r#"{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 20000, "input_length": 9, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 25000, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}
"#;
    for (max_load_ratio, engine, cached) in
        [(None, 0, 8), (Some(2.0), 0, 8), (Some(1.9), 1, 0), (Some(0.1), 1, 0)]
    {
        let routing = Routing::Prefix { queue: 0.0, max_load_ratio };
        let how = FleetOptions { routing, ..FleetOptions::default() };
        let report = by_hand::fleet(rows, (2, 7), how);
        assert_eq!(report.engine_of, [0, 0, engine], "{max_load_ratio:?}");
        assert_eq!(report.requests[2].cached_tokens, cached);
    }
}

/// Engine 0 computes prompts: r0 until 18, r1 from 19 on. Engine 1 has `a` and `b` of r0, and decodes it when r1 is to
/// go on: r1 lacks `missing` of its tokens there, and all of them in engine 2.
fn decoded_by(prompt: u32, blocks: u32, decode_routing: Routing) -> (u32, [u64; 2]) {
    let ids: Vec<u32> = (1..=prompt / 4).collect();
    let rows = format!(
        r#"{{"timestamp": 0, "input_length": 8, "output_length": 6, "hash_ids": [1, 2]}}
{{"timestamp": 19000, "input_length": {prompt}, "output_length": 2, "hash_ids": {ids:?}}}
"#
    );
    let over = HandoverOptions { rate: 5.0, latency: 1.0, token_bytes: 1.0 };
    let how = FleetOptions { prefill: Some((1, over)), decode_routing, ..FleetOptions::default() };
    let report = by_hand::fleet(&rows, (3, blocks), how);
    assert_eq!((&report.engine_of[..], report.decoded_by[0]), (&[0, 0][..], 1));
    let handed = [1, 2].map(|at: usize| report.engines[at].handed_tokens);
    (report.decoded_by[1], handed)
}

#[test]
fn a_prompt_goes_on_where_its_blocks_are_or_few_run() {
    assert_eq!(decoded_by(10, 9, Routing::LeastLoaded), (2, [8, 10]));
    assert_eq!(decoded_by(10, 9, Routing::RoundRobin), (2, [8, 10]));
    // 2 tokens and one that runs, or 10 tokens.
    assert_eq!(decoded_by(10, 9, Routing::KvAware { load: 7.9 }), (1, [10, 0]));
    assert_eq!(decoded_by(10, 9, Routing::KvAware { load: 8.0 }), (1, [10, 0]));
    assert_eq!(decoded_by(10, 9, Routing::KvAware { load: 8.1 }), (2, [8, 10]));
    let prefix = Routing::Prefix { queue: 0.0, max_load_ratio: None };
    assert_eq!(decoded_by(10, 9, prefix), (1, [10, 0]));
    let bounded = Routing::Prefix { queue: 0.0, max_load_ratio: Some(1.5) };
    assert_eq!(decoded_by(10, 9, bounded), (2, [8, 10]));
}

/// r1 has 22 tokens, 14 of which engine 1 lacks; r0 has 3 of its blocks.
#[test]
fn who_cannot_hold_what_comes_is_passed_over() {
    assert_eq!(decoded_by(22, 7, Routing::KvAware { load: 0.0 }), (1, [22, 0]));
    assert_eq!(decoded_by(22, 6, Routing::KvAware { load: 0.0 }), (2, [8, 22]));
}
