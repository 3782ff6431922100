//! Ten requests over a host tier, worked out with pencil and paper, event by event.
//!
//! Blocks of 4 tokens, a pool of 6, at most 3 sequences, 8 tokens a step, lru; a step takes 10 s and 1 s a
//! token. Host memory holds 9 pages under lru, and all that is computed is written to it: 1 s a page down, 2 s
//! a page up, and 1 s of latency. `a` to `k` are blocks of prompts, `r3'` is the first block that r3
//! generated. In order:
//!
//! | at | what happens |
//! | --- | --- |
//! | 0 | r0 computes `a`, `b` in a chunk of 8, which ends at 18; they are in host memory at 21; it ends at 30 |
//! | 100 | r1 computes `c` to `f` in chunks and evicts `b`; it ends at 148 |
//! | 200 | r2 finds `a`, evicts `f`, and waits for `b` until 203; 2 tokens take until 215 |
//! | 215 | r3, which came at 205, evicts `e`, computes `g` and generates; `r3'` is full at 253 |
//! | 300 | r4 finds `c`, `d`, evicts `b`, `a`, `r3'`, and waits for `e`, `f` until 305; it ends at 317 |
//! | 317 | r5 had no room beside r4; it evicts `g`, `f`, and waits for `a`, `b` until 322; it ends at 334 |
//! | 400 | r6 computes `h`, `i` until 418: two pages more than host memory has room for, so that `r3'` leaves it |
//! | 418 | r7, which came at 410, finds `h`, `i`; both have first tokens at 432; r7 ends at 444, r6 at 510 |
//! | 600 | r8 computes 7 tokens and r9 one of 7; the other 6 beside r8's second token, until 635 |
//! | 683 | r8 needs a fourth block: r9, which has computed 11 tokens, is preempted |
//! | 727 | r8 needs a fifth, and evicts `r9'`; r9 finds no room; r8 ends at 749 |
//! | 749 | r9 finds `k`, waits for `r9'` until 752, computes 4 tokens, 3 of them again, and ends at 799 |
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{self, host};
use kvframe_server::tiers::report::TierCounts;
use kvframe_server::{ServerOptions, ServerReport};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 205000, "input_length": 6, "output_length": 3, "hash_ids": [7]}
{"timestamp": 300000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 300000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 400000, "input_length": 11, "output_length": 8, "hash_ids": [8, 9]}
{"timestamp": 410000, "input_length": 9, "output_length": 2, "hash_ids": [8, 9]}
{"timestamp": 600000, "input_length": 7, "output_length": 12, "hash_ids": [10]}
{"timestamp": 600000, "input_length": 7, "output_length": 9, "hash_ids": [11]}
"#;

fn serve(every_step: bool) -> ServerReport {
    let options = ServerOptions {
        max_num_seqs: 3,
        max_num_batched_tokens: 8,
        every_step,
        ..ServerOptions::default()
    };
    by_hand::serve(ROWS, (6, Some(host("write-through", 9, (5.0, 10.0)))), &options)
}

#[test]
fn ten_requests_event_by_event() {
    let report = serve(true);
    let finished = |times, cached| by_hand::finished(times, cached, 0, 0);
    let came_back = by_hand::finished([600.0, 600.0, 635.0, 799.0], 0, 3, 1);
    let expected = [
        (finished([0.0, 0.0, 30.0, 30.0], 0), 0),
        (finished([100.0, 100.0, 148.0, 148.0], 0), 0),
        (finished([200.0, 200.0, 215.0, 215.0], 4), 4),
        (finished([205.0, 215.0, 231.0, 253.0], 0), 0),
        (finished([300.0, 300.0, 317.0, 317.0], 8), 8),
        (finished([300.0, 317.0, 334.0, 334.0], 0), 8),
        (finished([400.0, 400.0, 432.0, 510.0], 0), 0),
        (finished([410.0, 418.0, 432.0, 444.0], 8), 0),
        (finished([600.0, 600.0, 618.0, 749.0], 0), 0),
        (came_back, 0),
    ];
    let told = report.tiers.unwrap();
    for (i, (record, loaded)) in expected.into_iter().enumerate() {
        assert_eq!((report.requests[i], told.loaded[0][i]), (record, loaded), "request {i}");
    }
    let host = TierCounts {
        loaded_tokens: 24,
        read_bytes: 60.0,
        written_bytes: 190.0,
        read_pages: 6,
        written_pages: 19,
        filled_pages: 0,
        others_pages: 0,
        evicted_pages: 10,
        // A page takes 3 s, and 4 tokens in a step of their own 4 s.
        break_even: Some(4),
    };
    assert_eq!(told.tiers, [host]);
    assert_eq!((told.deferred, told.dropped_pages, told.stalled_seconds), (0, 0, 0.0));
}

#[test]
fn taking_steps_together_changes_nothing() {
    assert_eq!(format!("{:?}", serve(false)), format!("{:?}", serve(true)));
}
