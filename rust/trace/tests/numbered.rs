//! A replay whose keys are found by number counts what one counts whose keys are hashed.

use std::fmt::Write as _;

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::{Manager, Options};
use kvframe_trace::replay::{Outcome, PreparedTrace, SilentHost};
use kvframe_trace::{Mode, ReplayPlan, Trace};

/// Conversations that branch, of which some come twice at one time.
fn conversations() -> Trace {
    let (mut rows, mut state) = (String::new(), 7_u64);
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for at in 0..600 {
        let (conversation, turns) = (draw(12), draw(9));
        let blocks = 3 + 2 * turns + draw(2);
        let ids: Vec<u64> = (0..blocks).map(|i| conversation * 100 + i + 50 * (i / 9)).collect();
        let tokens = blocks * 4 - draw(4);
        let row = format!(r#""input_length": {tokens}, "output_length": {}"#, 1 + draw(6));
        writeln!(rows, r#"{{"timestamp": {}, {row}, "hash_ids": {ids:?}}}"#, at * 20).unwrap();
    }
    Trace::parse(rows.as_bytes(), "conversations", Some(4)).unwrap()
}

fn counted(trace: &Trace, mode: Mode, plan: &ReplayPlan, policy: &str, blocks: u32) -> Outcome {
    let prepared = PreparedTrace::new(trace, mode, plan);
    let options = Options { blocks, ..prepared.options(None).unwrap() };
    let policy = by_name(policy, PolicyOptions::default()).unwrap();
    let mut manager = Manager::new(options, policy).unwrap();
    let outcome = prepared.drive(&mut manager, &mut SilentHost).unwrap().unwrap();
    manager.check_integrity().unwrap();
    Outcome { seconds: 0.0, ..outcome }
}

#[test]
fn the_same_is_counted_with_hashed_keys() {
    let trace = conversations();
    for mode in [Mode::Trace, Mode::Engine, Mode::Timed] {
        let numbered = trace.plan(mode);
        // A plan of more nodes keeps none.
        let mut hashed = numbered.clone();
        hashed.keys.clear();
        for policy in NAMES.iter().filter(|&&name| name != "infinite") {
            for blocks in [40, 90] {
                let outcome = counted(&trace, mode, &numbered, policy, blocks);
                assert!(outcome.evictions > 0 && outcome.hit_tokens > 0, "{policy}: {outcome:?}");
                let other = counted(&trace, mode, &hashed, policy, blocks);
                assert_eq!(outcome, other, "{policy}, {mode:?}, {blocks} blocks");
            }
        }
    }
}
