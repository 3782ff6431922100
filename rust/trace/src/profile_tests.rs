use crate::profile::{ClassCount, Profile};
use crate::replay::{PreparedTrace, SilentHost};
use crate::{Mode, Trace, TraceDefaults};

fn row(at: u64, input: u32, ids: &[u32], more: &str) -> String {
    format!(
        r#"{{"timestamp": {at}, "input_length": {input}, "output_length": 1, "hash_ids": {ids:?}{more}}}"#
    ) + "\n"
}

const SIZE: TraceDefaults = TraceDefaults {
    form: crate::Form::ByContent,
    block_size: Some(10),
    time_unit: None,
    sort: false,
};

#[test]
fn what_is_reused_how_long_after_and_by_which_class() {
    let text = row(0, 30, &[1, 2, 3], r#", "type": "chat", "session_id": 7"#)
        + &row(5, 9, &[9], "")
        + &row(6, 20, &[8, 7], r#", "type": "file""#)
        + &row(100, 35, &[1, 2, 4, 5], r#", "type": "chat", "session_id": 7"#);
    let (profile, trace) = Profile::read(text.as_bytes(), "t", SIZE, Mode::Engine).unwrap();
    assert!(trace.nodes.is_empty());
    assert_eq!((profile.unique, profile.block_accesses, profile.longest), (6, 8, 3));
    assert_eq!((profile.hit_tokens, profile.same_session, profile.without_blocks), (20, 20, 1));
    assert_eq!(profile.ages[7], 20); // 100 ms: between 64 and 128
    let chat = ClassCount { requests: 2, input_tokens: 65, hit_tokens: 20 };
    assert_eq!(
        (trace.classes.as_slice(), profile.classes[1]),
        (&["chat".into(), "file".into()][..], chat)
    );
    assert_eq!(profile.classes[0].requests, 1);
    // Two blocks are newer; the first block of the prompt is evicted last.
    assert_eq!(profile.lru_hits(&[2, 3, 4, 5, 999]), [0, 10, 20, 20, 20]);
    assert_eq!((profile.capacity_for(0.5), profile.capacity_for(1.0)), (3, 4));
}

#[test]
fn trace_mode_counts_partial_blocks_and_whole_prompts() {
    let text = row(0, 25, &[1, 2, 3], "") + &row(1, 25, &[1, 2, 3], "");
    let engine = Profile::read(text.as_bytes(), "t", SIZE, Mode::Engine).unwrap().0;
    let whole = Profile::read(text.as_bytes(), "t", SIZE, Mode::Trace).unwrap().0;
    assert_eq!((engine.hit_tokens, whole.hit_tokens), (20, 25));
    assert_eq!(whole.lru_hits(&[1, 2, 3]), [10, 20, 25]);
}

#[test]
fn the_curve_is_lru_replayed_at_every_size() {
    for (name, mode) in [("conversation", Mode::Engine), ("synthetic", Mode::Trace)] {
        let path = format!(
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/kvframe/traces/{}.kvt.gz"),
            name
        );
        let trace = Trace::load(path, None).unwrap();
        let (profile, plan) = (Profile::of(&trace, mode), trace.plan(mode));
        assert_eq!((profile.unique, profile.block_accesses), (plan.unique, plan.block_accesses));
        let prepared = PreparedTrace::new(&trace, mode, &plan);
        for capacity in [u64::from(profile.longest) + 1, 1_000, 4_000, 16_000] {
            let lru = Box::new(kvframe_core::policy::Lru::default());
            let outcome =
                prepared.replay(Some(capacity as u32), lru, &mut SilentHost).unwrap().unwrap();
            assert_eq!(profile.lru_hits(&[capacity]), [outcome.hit_tokens], "{name} {capacity}");
        }
    }
}
