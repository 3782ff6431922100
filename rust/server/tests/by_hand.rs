//! Ten requests, worked out with pencil and paper, step by step.
//!
//! Blocks of 4 tokens, a pool of 7, at most 3 sequences, 8 tokens a step, lru. A step takes 10 s and 1 s a
//! token. `a` to `h` are blocks of prompts. In order:
//!
//! | step | starts | computes | ends | then |
//! | --- | --- | --- | --- | --- |
//! | 1 | 0 | r0: 8 of 10 | 18 | `a`, `b` are findable; r3 needs 8 blocks: rejected |
//! | 2 | 18 | r0: 2, r1: 2 behind a hit of 8, r2: 4 | 36 | first tokens of r0, r1, r2 |
//! | 3 | 36 | r0, r1, r2: one each | 49 | r1 ends; three ran, so that r4 waited |
//! | 4 | 49 | r0, r2: one each, r4: 1 behind a hit of 8 | 62 | r0 ends; first token of r4 |
//! | 5 | 62 | r2, r4: one each, r5: 6 of 12 | 80 | r4 ends; r5 evicted what r0 generated |
//! | 6 | 80 | r2: one, r5: 6, r6: 1 behind a hit of 4 | 98 | r6 evicted `b`, which it computes itself |
//! | 7 | 98 | r2, r5: one each | 110 | r2 needs a block: r6, the last, is preempted; r5 evicts `a`; r2 ends |
//! | 8 | 110 | r5: one, r6: 7 of 8, 5 of them again | 128 | it came back before r7; evicts a block of r2 |
//! | 9 | 128 | r5: one, r6: 1 | 140 | r7 needs two blocks and there is one; r6 ends |
//! | 10 | 140 | r5: one, r7: 5, r8: 2 of 6 | 158 | three are evicted; r7 ends |
//! | 11 | 158 | r5: one, r8: 4 | 173 | first token of r8; `g` is evicted |
//! | 12 | 173 | r5, r8: one each | 185 | r8 ends |
//! | 13 | 185 | r5: one | 196 | r5 ends; nothing runs until r9 arrives |
//! | 14 | 400 | r9: 1 behind a hit of 8 | 411 | r9 ends |
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{self, finished};
use kvframe_server::{Fate, ServerOptions, ServerReport};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1, 2]}
{"timestamp": 5000, "input_length": 4, "output_length": 6, "hash_ids": [3]}
{"timestamp": 5000, "input_length": 20, "output_length": 12, "hash_ids": [20, 21, 22, 23, 24]}
{"timestamp": 30000, "input_length": 9, "output_length": 2, "hash_ids": [1, 2]}
{"timestamp": 55000, "input_length": 12, "output_length": 8, "hash_ids": [4, 5, 6]}
{"timestamp": 58000, "input_length": 8, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 90000, "input_length": 5, "output_length": 1, "hash_ids": [7]}
{"timestamp": 95000, "input_length": 6, "output_length": 2, "hash_ids": [8]}
{"timestamp": 400000, "input_length": 9, "output_length": 1, "hash_ids": [4, 5]}
"#;

fn serve(every_step: bool) -> ServerReport {
    let options = ServerOptions {
        max_num_seqs: 3,
        max_num_batched_tokens: 8,
        every_step,
        ..ServerOptions::default()
    };
    by_hand::serve(ROWS, (7, None), &options)
}

#[test]
fn ten_requests_event_by_event() {
    let report = serve(true);
    let rejected = report.requests[3];
    assert_eq!((rejected.fate, rejected.arrival), (Fate::Rejected, 5.0));
    assert!(rejected.start.is_nan() && rejected.first_token.is_nan() && rejected.end.is_nan());
    let expected = [
        (0, finished([0.0, 0.0, 36.0, 62.0], 0, 0, 0)),
        (1, finished([0.0, 18.0, 36.0, 49.0], 8, 0, 0)),
        (2, finished([5.0, 18.0, 36.0, 110.0], 0, 0, 0)),
        (4, finished([30.0, 49.0, 62.0, 80.0], 8, 0, 0)),
        (5, finished([55.0, 62.0, 98.0, 196.0], 0, 0, 0)),
        (6, finished([58.0, 80.0, 140.0, 140.0], 4, 5, 1)),
        (7, finished([90.0, 140.0, 158.0, 158.0], 0, 0, 0)),
        (8, finished([95.0, 140.0, 173.0, 185.0], 0, 0, 0)),
        (9, finished([400.0, 400.0, 411.0, 411.0], 8, 0, 0)),
    ];
    for (i, record) in expected {
        assert_eq!(report.requests[i], record, "request {i}");
    }
    let mut gaps: Vec<f64> = Vec::new();
    report.gaps.iter().for_each(|&(gap, count)| gaps.extend((0..count).map(|_| gap)));
    gaps.sort_by(f64::total_cmp);
    let by_length = [(11.0, 1), (12.0, 5), (13.0, 5), (15.0, 1), (18.0, 5)];
    let expected = by_length.map(|(gap, count)| vec![gap; count]).concat();
    assert_eq!(gaps, expected);
    assert_eq!((report.steps, report.busy_seconds), (14, 207.0));
    assert_eq!((report.prefill_tokens, report.decode_tokens), (50, 17));
    assert_eq!((report.evictions, report.found_on_return), (8, 0));
    assert_eq!((report.last_arrival, report.waiting_at_last_arrival), (400.0, 0));
    assert_eq!(report.peak_waiting, 3);
}

#[test]
fn taking_steps_together_changes_nothing() {
    assert_eq!(format!("{:?}", serve(false)), format!("{:?}", serve(true)));
}
