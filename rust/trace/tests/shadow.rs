//! Shadows of a trace against its replay: the same decisions, whatever the policy.

use std::fmt::Write as _;

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::shadow::{Grain, ShadowSet};
use kvframe_trace::replay::{PreparedTrace, SilentHost};
use kvframe_trace::{Mode, Trace};

const BLOCK: u32 = 16;

/// Policies whose order does not depend on how many blocks are taken at once.
const EXACT: [&str; 5] = ["lru", "mru", "fifo", "filo", "lfu"];

/// Prefixes of some length that come back, rarely or often, and single prompts between; at most `LONGEST`
/// blocks each.
fn trace() -> Trace {
    let (mut rows, mut state) = (String::new(), 12_345u64);
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    let mut fresh = 100_000;
    for i in 0..3_000 {
        let family = draw(40).min(draw(40));
        let (shared, own) =
            if draw(3) == 0 { (0, 8 + draw(20)) } else { (4 + family % 13, draw(6)) };
        let mut ids: Vec<u64> = (0..shared).map(|at| family * 1_000 + at).collect();
        ids.extend((0..own).map(|_| {
            fresh += 1;
            fresh
        }));
        let tokens = ids.len() as u64 * u64::from(BLOCK) + draw(u64::from(BLOCK));
        let full = &ids[..(tokens / u64::from(BLOCK)) as usize];
        writeln!(
            rows,
            r#"{{"timestamp": {i}, "input_length": {}, "output_length": 1, "hash_ids": {full:?}, "block_size": {BLOCK}}}"#,
            full.len() as u64 * u64::from(BLOCK),
        )
        .unwrap();
    }
    Trace::parse(rows.as_bytes(), "made", Some(BLOCK)).unwrap()
}

fn policy(name: &str) -> Box<dyn kvframe_core::policy::Eviction> {
    by_name(name, PolicyOptions::default()).unwrap()
}

#[test]
fn a_shadow_hits_what_a_replay_hits() {
    let trace = trace();
    let plan = trace.plan(Mode::Engine);
    let prepared = PreparedTrace::new(&trace, Mode::Engine, &plan);
    let known = |name: &&&str| !policy(name).needs_future() && **name != "infinite";
    let mut set =
        ShadowSet::new(Grain { block_size: BLOCK, stride: 1, chained: true, reserved: 0 }, None)
            .unwrap();
    let names: Vec<&str> = NAMES.iter().filter(known).copied().collect();
    for name in &names {
        for capacity in [60, 200] {
            set.add(capacity, policy(name)).unwrap();
        }
    }
    assert!(prepared.shadow(&mut set, &mut SilentHost).unwrap());
    set.check_integrity().unwrap();
    assert_eq!(set.followed(), 0);
    let counted = set.counts();
    let mut shadows = counted.iter();
    for name in names {
        for capacity in [60, 200] {
            let replayed = prepared.replay(Some(capacity), policy(name), &mut SilentHost);
            let replayed = replayed.unwrap().unwrap();
            let counts = shadows.next().unwrap();
            assert_eq!(counts.query_tokens, replayed.input_tokens, "{name}");
            let apart = counts.hit_tokens.abs_diff(replayed.hit_tokens);
            // The others go by the clock or by single victims, and a replay takes blocks one by one.
            let most = if EXACT.contains(&name) { 0 } else { replayed.input_tokens / 100 };
            assert!(
                apart <= most,
                "{name} at {capacity}: {} {}",
                counts.hit_tokens,
                replayed.hit_tokens
            );
        }
    }
}

#[test]
fn a_stride_of_eight_is_near() {
    let trace = trace();
    let plan = trace.plan(Mode::Engine);
    let prepared = PreparedTrace::new(&trace, Mode::Engine, &plan);
    let counts = |stride: u32| {
        let mut set =
            ShadowSet::new(Grain { block_size: BLOCK, stride, chained: true, reserved: 0 }, None)
                .unwrap();
        for name in ["lru", "lfu", "slru"] {
            set.add(200, policy(name)).unwrap();
        }
        prepared.shadow(&mut set, &mut SilentHost).unwrap();
        let counted = set.counts();
        let rates =
            counted.iter().map(|counts| counts.hit_tokens as f64 / counts.query_tokens as f64);
        rates.collect::<Vec<f64>>()
    };
    let (all, some) = (counts(1), counts(4));
    for (all_rate, some_rate) in all.iter().zip(&some) {
        let apart = (all_rate - all[0]) - (some_rate - some[0]);
        assert!(apart.abs() < 0.03, "{all:?} {some:?}");
    }
}
