//! A session's blocks that come back before its next turn, worked out by hand.
//!
//! Blocks of 4 tokens, a pool of 6, steps of 10 s and 1 s a token; host memory of 9 pages of 10 bytes, 2 s a page up
//! and 1 s of latency. r0 and the last request are turns of one session. r0 computes `a`, `b` until 20, r1 evicts `b`
//! until 128. The next turn comes at 200 and has 6 tokens more.
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{self, finished, host};
use kvframe_server::{ReturnOptions, ServerOptions, ServerReport};

const FIRST: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "session_id": "s", "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
"#;
const OTHER: &str = r#"{"timestamp": 140000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
"#;
const NEXT: &str = r#"{"timestamp": 200000, "input_length": 14, "output_length": 1, "session_id": "s", "hash_ids": [1, 2, 7]}
"#;

fn serve(rows: &str, returns: Option<ReturnOptions>, every_step: bool) -> ServerReport {
    let options = ServerOptions { returns, every_step, ..ServerOptions::default() };
    let tiers = host("write-through", 9, (5.0, 10.0));
    by_hand::serve(rows, (6, Some(tiers)), &options)
}

/// Bytes up, pages that came ahead, and those of them that were found.
fn moved(report: &ServerReport) -> (f64, u64, u64) {
    let told = report.tiers.as_ref().unwrap();
    (told.tiers[0].read_bytes, told.ahead_pages, told.ahead_used_pages)
}

#[test]
fn what_is_known_to_come_back_is_there() {
    let rows = format!("{FIRST}{NEXT}");
    let without = serve(&rows, None, true);
    // `b` is there at 203, and 6 tokens take 16 s.
    assert_eq!(without.requests[2], finished([200.0, 200.0, 219.0, 219.0], 4, 0, 0));
    assert_eq!(moved(&without), (10.0, 0, 0));
    // Two pages take 5 s, and are to be there 5 s before: sent for at 190. Only `b` is missing, and comes at 193.
    let known = Some(ReturnOptions { after: None, lead: 5.0 });
    let with = serve(&rows, known, true);
    assert_eq!(with.requests[2], finished([200.0, 200.0, 216.0, 216.0], 8, 0, 0));
    assert_eq!(moved(&with), (10.0, 1, 1));
    assert_eq!(format!("{with:?}"), format!("{:?}", serve(&rows, known, false)));
}

#[test]
fn a_guess_that_is_too_early_moves_bytes_for_nothing() {
    // The next turn is expected at 120, so that `b` is sent for at 110: when the step that runs has ended, at 128.
    // It is there at 131, and r2, which needs a block at 140, evicts it again.
    let rows = format!("{FIRST}{OTHER}{NEXT}");
    let early = serve(&rows, Some(ReturnOptions { after: Some(100.0), lead: 5.0 }), true);
    assert_eq!(early.requests[2], finished([140.0, 140.0, 152.0, 152.0], 16, 0, 0));
    assert_eq!(early.requests[3], finished([200.0, 200.0, 219.0, 219.0], 4, 0, 0));
    assert_eq!(moved(&early), (20.0, 1, 0));
}

#[test]
fn a_guess_that_is_too_late_moves_nothing() {
    // Expected at 220, sent for at 210: the turn has come at 200, and what was planned is void.
    let rows = format!("{FIRST}{NEXT}");
    let late = serve(&rows, Some(ReturnOptions { after: Some(200.0), lead: 5.0 }), true);
    assert_eq!(late.requests[2], finished([200.0, 200.0, 219.0, 219.0], 4, 0, 0));
    assert_eq!(moved(&late), (10.0, 0, 0));
}
