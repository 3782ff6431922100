//! Drafted answers, worked out with pencil and paper: blocks of 4 tokens, steps of 10 s and 1 s a token.

mod common;

use common::{by_hand, drafts};
use kvframe_server::{
    Acceptance, DraftPolicy, Drafter, MeasuredSteps, Round, ServerOptions, ServerReport,
    Speculation, Switch,
};

fn serve(rows: &str, how: Speculation) -> ServerReport {
    let options = ServerOptions { speculation: Some(how), ..ServerOptions::default() };
    let report = by_hand::serve(rows, (20, None), &options);
    let every = ServerOptions { every_step: true, ..options };
    assert_eq!(format!("{report:?}"), format!("{:?}", by_hand::serve(rows, (20, None), &every)));
    report
}

/// When the answer of so many tokens to a prompt of 4 ends, in how many steps, and with how many wrong drafts.
fn ends(answer: u32, how: Speculation) -> (f64, u64, u64) {
    let rows = format!(
        r#"{{"timestamp": 0, "input_length": 4, "output_length": {answer}, "hash_ids": [1]}}"#
    );
    let report = serve(&rows, how);
    assert_eq!(
        (report.requests[0].first_token, report.decode_tokens),
        (14.0, u64::from(answer) - 1)
    );
    (report.requests[0].end, report.steps, report.wrong_drafts)
}

/// Half a draft and half a draft: one a step. 14, 27, 40, and the last token at 51.
#[test]
fn each_place_has_its_own_probability() {
    assert_eq!(ends(6, drafts(2, Acceptance::Places(vec![0.5, 1.0]), 0.0)), (51.0, 4, 2));
    // Behind the last place none is right: 14, 28, 41, 52.
    assert_eq!(ends(6, drafts(3, Acceptance::Places(vec![1.0]), 0.0)), (52.0, 4, 3));
}

fn rounds() -> Acceptance {
    Acceptance::Rounds(vec![Round { right: 2, told: vec![1.0, 1.0, 0.0] }])
}

/// Two of three are right: 14, 28, and the last two at 40.
#[test]
fn drafts_are_right_as_in_a_round() {
    assert_eq!(ends(6, drafts(3, rounds(), 0.0)), (40.0, 3, 1));
}

/// One token in 11 s, 1.5 in 12, 1.75 in 13 or 1.875 in 14: two drafts bring most. 14, 27 without one that is right,
/// and two tokens at 39.
#[test]
fn as_many_are_drafted_as_bring_most() {
    let how = drafts(3, Acceptance::Each(0.5), 0.0);
    let how = Speculation { policy: DraftPolicy::GoodputBudget, ..how };
    assert_eq!(ends(4, how.clone()), (39.0, 3, 2));
    // Each takes a tenth: 1.5 in 13.2 s is more than 1.75 in 15.6, and none is right before the third step.
    let dear = Speculation { drafter: Drafter::Share(0.1), ..how.clone() };
    let (end, steps, wrong) = ends(4, dear);
    assert!((end - (14.0 + 13.2 + 13.2)).abs() < 1e-9);
    assert_eq!((steps, wrong), (3, 1));
    // Ten sequences bring ten tokens in 20 s, or fifteen in 30: none is drafted.
    let row = r#"{"timestamp": 0, "input_length": 1, "output_length": 3, "hash_ids": []}"#;
    let report = serve(&[row; 10].join("\n"), how);
    assert!(report.requests.iter().all(|record| (record.end - 60.0).abs() < 1e-9));
    assert_eq!((report.steps, report.wrong_drafts), (3, 0));
}

/// What the drafter tells decides: 1.9 tokens in 12 s are more than 1.99 in 13.
#[test]
fn as_many_are_drafted_as_the_drafter_is_sure_of() {
    let sure = Acceptance::Rounds(vec![Round { right: 2, told: vec![0.9, 0.1] }]);
    for policy in [DraftPolicy::GatedAggregate, DraftPolicy::GatedBudget] {
        let how = Speculation { policy, ..drafts(2, sure.clone(), 0.0) };
        assert_eq!(ends(4, how), (37.0, 3, 0), "{policy:?}");
    }
    // A block that takes 100 s is drafted whole, and pays for no draft.
    let block = Drafter::Block { sequence: 0.0, weights: 100.0 };
    let policy = DraftPolicy::GatedBudget;
    let how = Speculation { policy, drafter: block, ..drafts(2, sure, 0.0) };
    assert_eq!(ends(4, how), (47.0, 4, 0));
}

/// 14 as the profile has it, 7 with a draft, and 5 without one; a prompt beside it as the profile has it.
#[test]
fn steps_are_as_they_were_measured() {
    let measured = MeasuredSteps::new(&[(1, 0, 5.0), (1, 1, 7.0)], None);
    let how = Speculation { measured, ..drafts(1, Acceptance::Each(1.0), 9.0) };
    assert_eq!(ends(4, how.clone()), (26.0, 3, 0));
    let rows = r#"{"timestamp": 0, "input_length": 4, "output_length": 4, "hash_ids": [1]}
{"timestamp": 15000, "input_length": 3, "output_length": 1, "hash_ids": []}
"#;
    let report = serve(rows, how);
    // 21, and 5 s and 13 s besides.
    assert!(report.requests.iter().all(|record| (record.end - 39.0).abs() < 1e-9));
}

/// Another number takes 2 s, once. One sequence gets two drafts and two get one: r1 comes while r0 decodes.
#[test]
fn another_number_of_drafts_takes_its_time() {
    let sure = Acceptance::Rounds(vec![Round { right: 0, told: vec![0.5, 0.4] }]);
    let rows = r#"{"timestamp": 0, "input_length": 4, "output_length": 9, "hash_ids": [1]}
{"timestamp": 20000, "input_length": 1, "output_length": 9, "hash_ids": []}
"#;
    let policy = DraftPolicy::GatedAggregate;
    let how = Speculation { policy, ..drafts(2, sure, 0.0) };
    let free = serve(rows, how.clone());
    let switch = Switch { cost: 2.0, ..Switch::default() };
    let dear = serve(rows, Speculation { switch, ..how });
    // From two to one as both decode, and back when r0 has ended.
    assert!((free.requests[0].end + 2.0 - dear.requests[0].end).abs() < 1e-9);
    assert!((free.busy_seconds + 4.0 - dear.busy_seconds).abs() < 1e-9);
    assert_eq!(free.steps, dear.steps);
}
