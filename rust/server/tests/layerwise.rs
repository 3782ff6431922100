//! Loads that come layer by layer, worked out by hand.
//!
//! Blocks of 4 tokens, a pool of 6, steps of 10 s and 1 s a token; host memory with pages of 10 bytes and 1 s of
//! latency. r0 computes `a`, `b`, and r1 evicts `b`. At 200, r2 finds `a`, loads `b`, and computes 2 tokens, which
//! take 12 s. Over a link of 5 bytes a second the load is there at 203, of which its bytes take 2 s:
//!
//! | layers | the first token is there at |
//! | --- | --- |
//! | whole load first | 203 + 12 |
//! | 4 | 203 - 1.5 + 12: the first of four parts comes at 201.5 |
//! | 32 | 203 - 2 * 31 / 32 + 12 |
//!
//! Over one of half a byte a second the load takes 20 s and is there at 221. The last layer is computed when
//! its part has come: with four layers at 221 + 12 / 4.
#![allow(clippy::float_cmp)] // sums of binary fractions

mod common;

use common::by_hand::{self, finished, host};
use kvframe_server::{ServerOptions, ServerReport};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
"#;

fn serve(rows: &str, read: f64, load_layers: u32) -> ServerReport {
    let options = ServerOptions { load_layers, ..ServerOptions::default() };
    by_hand::serve(rows, (6, Some(host("write-through", 9, (read, 10.0)))), &options)
}

#[test]
fn the_first_token_waits_for_the_slower_of_both() {
    let expected = [
        (5.0, 0, 215.0),
        (5.0, 1, 215.0),
        (5.0, 4, 213.5),
        (5.0, 32, 203.0 - 2.0 * 31.0 / 32.0 + 12.0),
        (0.5, 0, 233.0),
        (0.5, 4, 224.0),
        (0.5, 32, 221.0 + 12.0 / 32.0),
    ];
    for (read, layers, first) in expected {
        let report = serve(ROWS, read, layers);
        let told = report.tiers.unwrap();
        assert_eq!(report.requests[2], finished([200.0, 200.0, first, first], 4, 0, 0));
        assert_eq!((told.loaded[0][2], told.tiers[0].read_bytes), (4, 10.0));
        // r0 20 s, r1 28 s, and the step of r2: from 200 on, or behind the load.
        let begin = if layers > 0 { 200.0 } else { first - 12.0 };
        assert_eq!(report.busy_seconds, 48.0 + first - begin, "{read} {layers}");
    }
}

/// A fourth request has had its first token at 203, when r2 comes in and its load begins, which is there at 206.
#[test]
fn who_decodes_in_that_step_waits_as_well() {
    let decodes = r#"{"timestamp": 190000, "input_length": 3, "output_length": 3, "hash_ids": []}"#;
    let (before, after) = ROWS.split_at(ROWS.rfind(r#"{"timestamp": 200000"#).unwrap());
    let rows = format!("{before}{decodes}\n{after}");
    // One token alone until 214; then three together, until 227.
    let whole = serve(&rows, 5.0, 0).requests;
    assert_eq!(whole[2], finished([190.0, 190.0, 203.0, 227.0], 0, 0, 0));
    assert_eq!(whole[3], finished([200.0, 203.0, 227.0, 227.0], 4, 0, 0));
    // Three together from 203 on, 13 s behind the first of four parts, which comes at 204.5; then one.
    let layers = serve(&rows, 5.0, 4).requests;
    assert_eq!(layers[2], finished([190.0, 190.0, 203.0, 228.5], 0, 0, 0));
    assert_eq!(layers[3], finished([200.0, 203.0, 217.5, 217.5], 4, 0, 0));
}
