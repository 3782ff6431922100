//! Preemption by swap, and a request that waits for what another one computes, worked out with pencil and
//! paper.
//!
//! Blocks of 4 tokens; a step takes 10 s and 1 s a token.
//!
//! Swap: a pool of 4, host memory of 8 pages, 1 s a page each way and 1 s of latency. r0 has a prompt of 7 and
//! an answer of 10 tokens, r1 one of 6 and of 6.
//!
//! | at | what happens |
//! | --- | --- |
//! | 0 | r0 computes 7 tokens, r1 6; first tokens at 23, and one each more at 35 |
//! | 35 | r0 needs a third block: r1, which has computed 7 tokens, is preempted; its 2 pages are out at 38, and the step ends at 49 |
//! | 82 | r0 needs a fourth block, and evicts one that r1 left; r0 ends at 126 |
//! | 126 | r1 has blocks again, and its 2 pages at 129; it computes its 8th token until 140 and ends at 173 |
//!
//! To compute 7 tokens again would take 7 s, both ways over the link take 6.
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{finished, host, serve};
use kvframe_server::{Preemption, RequestRecord, ServerOptions, ServerReport};

const SWAP: &str = r#"{"timestamp": 0, "input_length": 7, "output_length": 10, "hash_ids": [1]}
{"timestamp": 0, "input_length": 6, "output_length": 6, "hash_ids": [2]}
"#;
const JOIN: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
"#;

fn preempted(preemption: Preemption, rate: f64) -> ServerReport {
    let options = ServerOptions { max_num_batched_tokens: 16, preemption, ..Default::default() };
    // What is used once stays out of host memory.
    serve(SWAP, (4, Some(host("second-use", 8, (rate, rate)))), &options)
}

#[test]
fn a_preempted_sequence_comes_back_from_host_memory() {
    let report = preempted(Preemption::Swap, 10.0);
    assert_eq!(report.requests[0], finished([0.0, 0.0, 23.0, 126.0], 0, 0, 0));
    assert_eq!(report.requests[1], finished([0.0, 0.0, 23.0, 173.0], 0, 0, 1));
    let told = report.tiers.unwrap();
    assert_eq!((told.swaps, told.swapped_out_pages, told.swapped_in_pages), (1, 2, 2));
    assert_eq!((told.stalled_seconds, told.tiers[0].written_bytes), (3.0, 20.0));
}

#[test]
fn the_faster_way_is_taken() {
    let all = |preemption, rate| format!("{:?}", preempted(preemption, rate));
    assert_eq!(all(Preemption::Auto, 10.0), all(Preemption::Swap, 10.0));
    // 2 s a page: 10 s both ways.
    assert_eq!(all(Preemption::Auto, 5.0), all(Preemption::Recompute, 5.0));
}

/// r0 computes 10 tokens until 20. r1 waits for 8 of them, and computes its last 2 until 32.
#[test]
fn a_request_waits_for_the_prefix_that_another_computes() {
    let joins = ServerOptions { max_num_batched_tokens: 16, join: true, ..Default::default() };
    let report = serve(JOIN, (8, None), &joins);
    assert_eq!(report.requests[0], finished([0.0, 0.0, 20.0, 20.0], 0, 0, 0));
    let second = finished([0.0, 0.0, 32.0, 32.0], 0, 0, 0);
    assert_eq!(report.requests[1].joined_tokens, 8);
    assert_eq!(RequestRecord { joined_tokens: 0, ..report.requests[1] }, second);
    assert_eq!(report.prefill_tokens, 12);
    // Without joining each computes all of it: 16 tokens in the first step, 4 in the second.
    let alone = serve(JOIN, (8, None), &ServerOptions { join: false, ..joins });
    assert_eq!((alone.prefill_tokens, alone.requests[1].end), (20, 40.0));
}
