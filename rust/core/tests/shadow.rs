//! Shadows of requests that run at once: they wait, grow, are preempted and end.

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::shadow::{Begun, Counts, Grain, Progress, ShadowSet, Step};
use kvframe_core::{Error, Key};

const SIZE: u32 = 4;

fn set(capacities: &[u32], stride: u32, chained: bool) -> ShadowSet {
    let mut set =
        ShadowSet::new(Grain { block_size: SIZE, stride, chained, reserved: 0 }, None).unwrap();
    for &capacity in capacities {
        set.add(capacity, by_name("lru", PolicyOptions::default()).unwrap()).unwrap();
    }
    set
}

fn keys(family: u128, blocks: u32) -> Vec<Key> {
    (0..u128::from(blocks)).map(|at| Key(family << 32 | at)).collect()
}

/// A request whose prompt is computed in the step in which it begins.
fn begun(id: u64, family: u128, blocks: u32) -> Begun {
    let tokens = blocks * SIZE;
    Begun {
        id,
        keys: keys(family, blocks),
        tokens,
        findable: tokens - 1,
        slots: tokens,
        computed: tokens,
        first: true,
        ..Begun::default()
    }
}

fn begin(set: &mut ShadowSet, begun: Begun) {
    set.step(&Step { begun: vec![begun], ..Step::default() }).unwrap();
    set.check_integrity().unwrap();
}

fn progress(id: u64, tokens: u32) -> Progress {
    Progress { id, keys: Vec::new(), slots: tokens, computed: tokens }
}

fn end(set: &mut ShadowSet, id: u64, blocks: u32) {
    set.step(&Step { ended: vec![progress(id, blocks * SIZE)], ..Step::default() }).unwrap();
    set.check_integrity().unwrap();
}

fn counts(set: &ShadowSet) -> Vec<Counts> {
    set.counts()
}

#[test]
fn the_last_token_is_computed_whatever_is_cached() {
    let mut set = set(&[10], 1, false);
    begin(&mut set, begun(1, 1, 4));
    begin(&mut set, begun(2, 1, 4));
    assert_eq!(counts(&set)[0].hit_tokens, u64::from(3 * SIZE));
    end(&mut set, 1, 4);
    end(&mut set, 2, 4);
    assert_eq!(set.followed(), 0);
}

#[test]
fn a_request_waits_where_there_is_no_room_and_still_runs() {
    let mut set = set(&[5, 20], 1, false);
    begin(&mut set, begun(1, 1, 4));
    begin(&mut set, begun(2, 2, 4));
    begin(&mut set, begun(3, 3, 1));
    let [small, large] = counts(&set)[..] else { panic!() };
    assert_eq!((small.requests, small.waiting), (1, 2));
    assert_eq!((large.requests, large.waiting), (3, 0));
    // The second ends in the engine while it waits in the small pool; its blocks are cached there too.
    end(&mut set, 2, 4);
    end(&mut set, 1, 4);
    assert_eq!(counts(&set)[0].waiting, 0);
    begin(&mut set, begun(4, 2, 4));
    let [small, large] = counts(&set)[..] else { panic!() };
    assert_eq!((small.requests, small.hit_tokens), (4, u64::from(3 * SIZE)));
    assert_eq!(large.hit_tokens, u64::from(3 * SIZE));
    end(&mut set, 3, 1);
    end(&mut set, 4, 4);
    assert_eq!(set.followed(), 0);
}

#[test]
fn the_last_to_start_is_preempted_and_counts_once() {
    let mut set = set(&[4], 1, false);
    begin(&mut set, begun(1, 1, 2));
    begin(&mut set, begun(2, 2, 2));
    let mut grown = progress(1, 3 * SIZE);
    grown.keys = vec![Key(99)];
    set.step(&Step { grown: vec![grown], ..Step::default() }).unwrap();
    set.check_integrity().unwrap();
    let counted = counts(&set)[0];
    assert_eq!((counted.preemptions, counted.waiting, counted.requests), (1, 1, 2));
    end(&mut set, 1, 3);
    assert_eq!(counts(&set)[0].waiting, 0);
    // The engine preempts it as well, and begins it again: it is not counted.
    set.step(&Step { preempted: vec![2], ..Step::default() }).unwrap();
    begin(&mut set, Begun { first: false, ..begun(2, 2, 2) });
    assert_eq!(counts(&set)[0].requests, 2);
    end(&mut set, 2, 2);
    assert_eq!(set.followed(), 0);
}

#[test]
fn a_request_that_never_fits_hits_nothing() {
    let mut set = set(&[3], 1, false);
    begin(&mut set, begun(1, 1, 4));
    let counted = counts(&set)[0];
    assert_eq!((counted.requests, counted.too_large, counted.waiting), (1, 1, 0));
    end(&mut set, 1, 4);
    begin(&mut set, begun(2, 2, 2));
    assert_eq!(counts(&set)[0].requests, 2);
}

#[test]
fn unknown_requests_are_passed_over_and_a_reset_forgets() {
    let mut set = set(&[8], 1, true);
    end(&mut set, 7, 2);
    begin(&mut set, begun(1, 1, 4));
    end(&mut set, 1, 4);
    set.reset(0).unwrap();
    set.check_integrity().unwrap();
    begin(&mut set, begun(2, 1, 4));
    assert_eq!(counts(&set)[0].hit_tokens, 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let grain = Grain { block_size: 0, stride: 1, chained: false, reserved: 0 };
    assert!(matches!(ShadowSet::new(grain, None), Err(Error::Invalid { what: "block_size", .. })));
    let grain = Grain { block_size: 4, stride: 0, chained: false, reserved: 0 };
    assert!(matches!(ShadowSet::new(grain, None), Err(Error::Invalid { what: "stride", .. })));
    let mut set =
        ShadowSet::new(Grain { block_size: 4, stride: 8, chained: false, reserved: 0 }, None)
            .unwrap();
    let policy = by_name("lru", PolicyOptions::default()).unwrap();
    assert!(matches!(set.add(3, policy), Err(Error::Invalid { what: "capacity", .. })));
}

/// Any order of steps leaves every pool whole, under every policy, with and without parents.
#[test]
fn random_steps_keep_the_pools_whole() {
    let mut state = 7u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for (chained, stride) in [(false, 1), (true, 1), (false, 2)] {
        let mut set =
            ShadowSet::new(Grain { block_size: SIZE, stride, chained, reserved: 0 }, None).unwrap();
        for name in NAMES {
            for capacity in [12, 30] {
                set.add(capacity, by_name(name, PolicyOptions::default()).unwrap()).unwrap();
            }
        }
        let (mut live, mut next) = (Vec::<(u64, u32)>::new(), 0);
        for _ in 0..400 {
            let mut step = Step::default();
            if !live.is_empty() && draw(3) == 0 {
                let (id, blocks) = live.remove(draw(live.len() as u64) as usize);
                step.ended.push(progress(id, blocks * SIZE));
            }
            for (id, blocks) in &mut live {
                if draw(3) == 0 {
                    *blocks += 1;
                    let key = Key(u128::from(*id) << 64 | u128::from(*blocks));
                    step.grown.push(Progress { keys: vec![key], ..progress(*id, *blocks * SIZE) });
                }
            }
            if !live.is_empty() && draw(8) == 0 {
                let (id, blocks) = live[draw(live.len() as u64) as usize];
                step.preempted.push(id);
                step.begun.push(Begun { first: false, ..begun(id, u128::from(id), blocks) });
            }
            if draw(2) == 0 {
                next += 1;
                let blocks = 1 + draw(6) as u32;
                step.begun.push(begun(next, u128::from(draw(6)), blocks));
                live.push((next, blocks));
            }
            set.step(&step).unwrap();
            set.check_integrity().unwrap();
        }
        let ended = live.iter().map(|&(id, blocks)| progress(id, blocks * SIZE)).collect();
        set.step(&Step { ended, ..Step::default() }).unwrap();
        assert_eq!(set.followed(), 0);
        set.check_integrity().unwrap();
        assert!(counts(&set).iter().all(|counts| counts.waiting == 0 && counts.requests == next));
    }
}
