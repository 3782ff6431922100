//! Drafts and handed-over prompts, worked out with pencil and paper: blocks of 4 tokens, steps of 10 s and 1 s a
//! token.

mod common;

use common::by_hand;
use common::drafts;
use kvframe_server::{Acceptance, FleetOptions, HandoverOptions, ServerOptions};

fn near(told: f64, expected: f64) {
    assert!((told - expected).abs() < 1e-9, "{told} instead of {expected}");
}

/// Two drafts a step, each right half of the time if those before it are: 0.75 a step on the mean.
///
/// | step | starts | computes | ends | then |
/// | --- | --- | --- | --- | --- |
/// | 1 | 0 | the prompt, 4 | 14 | first token |
/// | 2 | 14 | one and two drafts: 13 s and 2 x 0.1 of them | 29.6 | none is right yet: 0.75 |
/// | 3 | 29.6 | the same | 45.2 | one is right: 1.5 |
/// | 4 | 45.2 | one and the one draft that is left: 12 s x 1.2 | 59.6 | it is right: 0.5 and 0.5 |
#[test]
fn drafts_step_by_step() {
    let rows = r#"{"timestamp": 0, "input_length": 4, "output_length": 6, "hash_ids": [1]}"#;
    let speculation = Some(drafts(2, Acceptance::Each(0.5), 0.1));
    let options = ServerOptions { speculation, ..ServerOptions::default() };
    let report = by_hand::serve(rows, (7, None), &options);
    let record = report.requests[0];
    near(record.first_token, 14.0);
    near(record.end, 59.6);
    assert_eq!((report.steps, report.decode_tokens, report.wrong_drafts), (4, 5, 3));
    let mut gaps: Vec<f64> = Vec::new();
    report.gaps.iter().for_each(|&(gap, count)| gaps.extend((0..count).map(|_| gap)));
    gaps.sort_by(f64::total_cmp);
    gaps.iter().zip([0.0, 0.0, 14.4, 15.6, 15.6]).for_each(|(&told, due)| near(told, due));
    assert_eq!(gaps.len(), 5);
}

/// One server computes prompts, the other what follows; a token's KV is a byte, the link carries 5 a second, and
/// a transfer takes a second besides.
///
/// | | prompts | answers |
/// | --- | --- | --- |
/// | r0 | 0 to 20: 10 tokens | its KV comes until 20 + 10 / 5 + 1 = 23; steps to 34 and 45 |
/// | r1 | 30 to 42: 2 behind a hit of 8 | blocks at 45, 2 tokens until 46.4; steps to 57.4 and 68.4 |
#[test]
fn a_handover_event_by_event() {
    let rows = r#"{"timestamp": 0, "input_length": 10, "output_length": 3, "hash_ids": [1, 2]}
{"timestamp": 30000, "input_length": 10, "output_length": 3, "hash_ids": [1, 2]}
"#;
    let over = HandoverOptions { rate: 5.0, latency: 1.0, token_bytes: 1.0 };
    let how = FleetOptions { prefill: Some((1, over)), ..FleetOptions::default() };
    let report = by_hand::fleet(rows, (2, 7), how);
    for (record, [first, end]) in report.requests.iter().zip([[20.0, 45.0], [42.0, 68.4]]) {
        near(record.first_token, first);
        near(record.end, end);
    }
    assert_eq!(report.requests.iter().map(|one| one.cached_tokens).collect::<Vec<_>>(), [0, 8]);
    assert_eq!((&report.engine_of[..], &report.decoded_by[..]), (&[0, 0][..], &[1, 1][..]));
    assert_eq!(report.engines[1].handed_tokens, 12);
    assert_eq!((report.engines[0].prefill_tokens, report.engines[1].decode_tokens), (12, 4));
    let mut gaps: Vec<f64> = Vec::new();
    report.engines[1].gaps.iter().for_each(|&(gap, n)| gaps.extend((0..n).map(|_| gap)));
    gaps.sort_by(f64::total_cmp);
    gaps.iter().zip([11.0, 11.0, 14.0, 15.4]).for_each(|(&told, due)| near(told, due));
    assert_eq!(gaps.len(), 4);
}
