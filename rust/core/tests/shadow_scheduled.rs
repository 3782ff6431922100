//! Shadows that make up their own steps.

use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::shadow::{
    Arrived, Batching, Counts, Generated, Grain, Progressed, ShadowSet, Step,
};
use kvframe_core::{Error, Key};

const SIZE: u32 = 4;

const BATCHING: Batching = Batching {
    max_requests: 4,
    max_tokens: 40,
    asynchronous: false,
    fits_whole: true,
    watermark: 0.0,
};

fn grain(stride: u32) -> Grain {
    Grain { block_size: SIZE, stride, chained: false, reserved: 1 }
}

fn set(capacities: &[u32], batching: Batching, stride: u32) -> ShadowSet {
    let mut set = ShadowSet::new(grain(stride), Some(batching)).unwrap();
    for &capacity in capacities {
        set.add(capacity, by_name("lru", PolicyOptions::default()).unwrap()).unwrap();
    }
    set
}

/// A request of a family that comes in time for a step.
fn arrived(id: u64, family: u128, blocks: u32, step: u64) -> Arrived {
    Arrived {
        id,
        step,
        keys: (0..u128::from(blocks)).map(|at| Key(family << 32 | at)).collect(),
        tokens: blocks * SIZE,
        most_outputs: 100,
        reads: true,
        ..Arrived::default()
    }
}

fn generated(id: u64, outputs: u32) -> Generated {
    Generated { id, keys: Vec::new(), outputs }
}

/// Everything that is known of requests at once: they end after so many tokens.
fn serve(set: &mut ShadowSet, arrived: Vec<Arrived>, outputs: u32, steps: u64) -> Vec<Counts> {
    let told = Progressed {
        step: steps,
        rests: true,
        found: arrived.iter().map(|one| (one.id, 0)).collect(),
        ended: arrived.iter().map(|one| generated(one.id, outputs)).collect(),
        arrived,
        ..Progressed::default()
    };
    set.advance(&told).unwrap();
    set.check_integrity().unwrap();
    assert_eq!(set.followed(), 0);
    set.counts()
}

#[test]
fn requests_that_do_not_fit_together_run_one_after_the_other() {
    // Each has four blocks, and gets a fifth; the small pool has room for one, and the large for all.
    let requests = (0..4).map(|id| arrived(id, u128::from(id) + 1, 4, 1)).collect();
    let counts = serve(&mut set(&[5, 40], BATCHING, 1), requests, 3, 1);
    assert!(counts.iter().all(|one| one.requests == 4 && one.waiting == 0));
    assert_eq!((counts[0].preemptions, counts[1].preemptions), (0, 0));
    assert_eq!((counts[0].evictions, counts[1].evictions), (3 * 4, 0));
}

#[test]
fn the_last_to_begin_is_preempted_and_counts_once() {
    // Two prompts fit, and no block more.
    let requests = (0..2).map(|id| arrived(id, u128::from(id) + 1, 4, 1)).collect();
    let [counts] = serve(&mut set(&[8], BATCHING, 1), requests, 6, 1)[..] else { panic!() };
    assert_eq!((counts.requests, counts.preemptions), (2, 1));
}

#[test]
fn a_follower_in_the_same_step_finds_what_is_computed_in_it() {
    let requests = (0..2).map(|id| arrived(id, 1, 4, 1)).collect();
    let [counts] = serve(&mut set(&[40], BATCHING, 1), requests, 3, 1)[..] else { panic!() };
    assert_eq!(counts.hit_tokens, u64::from(3 * SIZE));
}

#[test]
fn a_shadow_is_never_ahead_of_what_is_known() {
    let mut set = set(&[40], Batching { max_requests: 1, ..BATCHING }, 1);
    let came = vec![arrived(0, 1, 2, 1), arrived(1, 2, 2, 1)];
    let told = Progressed { step: 50, arrived: came, found: vec![(0, 0)], ..Progressed::default() };
    set.advance(&told).unwrap();
    // The second has to wait: nobody knows yet how long the first runs.
    assert_eq!((set.counts()[0].requests, set.counts()[0].waiting), (1, 1));
    let running = vec![generated(0, 10)];
    set.advance(&Progressed { step: 60, running, ..Progressed::default() }).unwrap();
    assert_eq!(set.counts()[0].waiting, 1);
    // It has begun here before the engine says so, and counts when it does.
    let ended = vec![generated(0, 12)];
    set.advance(&Progressed { step: 61, ended, ..Progressed::default() }).unwrap();
    assert_eq!((set.counts()[0].requests, set.counts()[0].waiting), (1, 0));
    set.advance(&Progressed { step: 62, found: vec![(1, 0)], ..Progressed::default() }).unwrap();
    assert_eq!(set.counts()[0].requests, 2);
    set.check_integrity().unwrap();
}

#[test]
fn one_that_never_began_is_not_counted_and_one_that_never_fits_hits_nothing() {
    let mut one = set(&[40], BATCHING, 1);
    let gone = Progressed {
        step: 1,
        rests: true,
        arrived: vec![arrived(0, 1, 2, 1)],
        ended: vec![generated(0, 0)],
        ..Progressed::default()
    };
    one.advance(&gone).unwrap();
    assert_eq!((one.counts()[0].requests, one.counts()[0].waiting), (0, 0));
    let [counts] = serve(&mut set(&[3], BATCHING, 1), vec![arrived(1, 1, 4, 1)], 2, 1)[..] else {
        panic!()
    };
    assert_eq!((counts.requests, counts.too_large, counts.hit_tokens), (1, 1, 0));
}

#[test]
fn a_reset_forgets_what_came_before_it() {
    let mut set = set(&[40], BATCHING, 1);
    serve(&mut set, vec![arrived(0, 1, 4, 1)], 2, 10);
    set.reset(10).unwrap();
    let counts = serve(&mut set, vec![arrived(1, 1, 4, 11)], 2, 20);
    assert_eq!(counts[0].hit_tokens, 0);
}

#[test]
fn an_engine_that_rested_lets_a_slow_shadow_finish() {
    let mut set = set(&[5, 40], BATCHING, 1);
    let requests: Vec<Arrived> = (0..6).map(|id| arrived(id, u128::from(id) + 1, 4, 1)).collect();
    let told = Progressed {
        step: 9,
        found: requests.iter().map(|one| (one.id, 0)).collect(),
        ended: requests.iter().map(|one| generated(one.id, 5)).collect(),
        arrived: requests,
        ..Progressed::default()
    };
    set.advance(&told).unwrap();
    assert!(set.counts()[0].waiting > 0);
    let next = Arrived { after_rest: true, ..arrived(9, 9, 1, 10) };
    set.advance(&Progressed { step: 10, arrived: vec![next], ..Progressed::default() }).unwrap();
    assert_eq!(set.counts()[0].waiting, 0);
    set.check_integrity().unwrap();
}

#[test]
fn the_two_ways_are_not_mixed_and_steps_need_requests_and_tokens() {
    let mut scheduled = set(&[4], BATCHING, 1);
    assert!(matches!(scheduled.step(&Step::default()), Err(Error::Invalid { .. })));
    let mut followed = ShadowSet::new(grain(1), None).unwrap();
    assert!(matches!(followed.advance(&Progressed::default()), Err(Error::Invalid { .. })));
    let none = Batching { max_requests: 0, ..BATCHING };
    let made = ShadowSet::new(grain(1), Some(none));
    assert!(matches!(made, Err(Error::Invalid { what: "max_num_seqs", .. })));
}

/// Any requests leave every pool whole, under every policy, synchronously or not, sampled or not.
#[test]
fn random_requests_keep_the_pools_whole() {
    let mut state = 11u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    for (asynchronous, stride) in [(false, 1), (true, 1), (false, 2), (true, 3)] {
        let batching = Batching { asynchronous, watermark: 0.05, ..BATCHING };
        let mut set = ShadowSet::new(grain(stride), Some(batching)).unwrap();
        for name in NAMES {
            for capacity in [24, 60] {
                set.add(capacity, by_name(name, PolicyOptions::default()).unwrap()).unwrap();
            }
        }
        let (mut live, mut next) = (Vec::new(), 0);
        for step in 1..300 {
            let mut told = Progressed { step, ..Progressed::default() };
            if draw(2) == 0 {
                let after_rest = live.is_empty();
                let one = arrived(next, u128::from(draw(6)), 1 + draw(7) as u32, step);
                told.arrived.push(Arrived { after_rest, most_outputs: 8, ..one });
                live.push((next, 1 + draw(8) as u32));
                told.found.push((next, 0));
                next += 1;
            }
            if !live.is_empty() && draw(3) == 0 {
                let (id, outputs) = live.remove(draw(live.len() as u64) as usize);
                told.ended.push(generated(id, outputs));
            }
            told.rests = live.is_empty();
            set.advance(&told).unwrap();
            set.check_integrity().unwrap();
        }
        let ended = live.iter().map(|&(id, outputs)| generated(id, outputs)).collect();
        let last = Progressed { step: 300, rests: true, ended, ..Progressed::default() };
        set.advance(&last).unwrap();
        set.check_integrity().unwrap();
        assert!(set.counts().iter().all(|one| one.waiting == 0 && one.requests == next));
    }
}
