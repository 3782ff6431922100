//! Prompts that are not cut, worked out with pencil and paper: blocks of 4 tokens, 8 tokens a step, steps of 10 s
//! and 1 s a token.
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{self, finished};
use kvframe_server::{ServerOptions, ServerReport};

fn serve(rows: &str, every_step: bool) -> ServerReport {
    let options = ServerOptions {
        max_num_batched_tokens: 8,
        chunked_prefill: false,
        // It would cut prompts.
        long_prefill_token_threshold: 2,
        every_step,
        ..ServerOptions::default()
    };
    by_hand::serve(rows, (20, None), &options)
}

/// | step | starts | computes | ends | then |
/// | --- | --- | --- | --- | --- |
/// | 1 | 0 | r0: 5 | 15 | 3 tokens were left, and r1 needs 6: it waits, and r2 behind it |
/// | 2 | 15 | r0: one, r1: 6, r2: 1 | 33 | r2 is longer than any step, and takes what is left |
/// | 3 | 33 | r1: one, r2: 7 | 51 | r1 ends |
/// | 4 | 51 | r2: 8 | 69 | |
/// | 5 | 69 | r2: 4 | 83 | r2 ends |
#[test]
fn a_prompt_waits_for_a_step_that_takes_all_of_it() {
    let rows = r#"{"timestamp": 0, "input_length": 5, "output_length": 2, "hash_ids": [1]}
{"timestamp": 0, "input_length": 6, "output_length": 2, "hash_ids": [2]}
{"timestamp": 0, "input_length": 20, "output_length": 1, "hash_ids": [3, 4, 5, 6, 7]}
"#;
    let report = serve(rows, false);
    let expected = [[0.0, 0.0, 15.0, 33.0], [0.0, 15.0, 33.0, 51.0], [0.0, 15.0, 83.0, 83.0]];
    for (record, times) in report.requests.iter().zip(expected) {
        assert_eq!(*record, finished(times, 0, 0, 0));
    }
    assert_eq!((report.steps, report.busy_seconds), (5, 83.0));
    assert_eq!(format!("{report:?}"), format!("{:?}", serve(rows, true)));
}

/// | step | starts | computes | ends | then |
/// | --- | --- | --- | --- | --- |
/// | 1 | 0 | r0: 4, r1: 4 | 18 | first token of r0; 15 of r1 are left |
/// | 2 | 18 | r0: one, r1: 7 | 36 | 8 are left, as many as a step takes |
/// | 3 | 36 | r0: one | 47 | r1 waits for 8, so that r2 does not come in; r0 ends |
/// | 4 | 47 | r1: 8 | 65 | r1 ends |
/// | 5 | 65 | r2: 1 | 76 | r2 ends |
#[test]
fn what_a_running_prompt_waits_for_is_not_given_to_others() {
    let rows = r#"{"timestamp": 0, "input_length": 4, "output_length": 3, "hash_ids": [1]}
{"timestamp": 0, "input_length": 19, "output_length": 1, "hash_ids": [2, 3, 4, 5]}
{"timestamp": 20000, "input_length": 1, "output_length": 1, "hash_ids": []}
"#;
    let report = serve(rows, false);
    let expected = [[0.0, 0.0, 18.0, 47.0], [0.0, 0.0, 65.0, 65.0], [20.0, 65.0, 76.0, 76.0]];
    for (record, times) in report.requests.iter().zip(expected) {
        assert_eq!(*record, finished(times, 0, 0, 0));
    }
    assert_eq!(format!("{report:?}"), format!("{:?}", serve(rows, true)));
}
