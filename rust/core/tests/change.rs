//! Another policy over the blocks as they are: what it then decides, what stays, and what is refused.

mod common;

use kvframe_core::index::IndexKind;
use kvframe_core::manager::Change;
use kvframe_core::options::Watermarks;
use kvframe_core::policy::{External, NAMES, PolicyOptions, Subscriptions, by_name};
use kvframe_core::{BlockId, Error, Manager, Options, SeqId};

use common::{Dice, SIZE, allocate, build, found, open, prompt, run, serve};

fn options(blocks: u32) -> Options {
    Options { blocks, block_size: SIZE, ..Options::default() }
}

fn policy(name: &str) -> Box<dyn kvframe_core::policy::Eviction> {
    by_name(name, PolicyOptions::default()).expect("a shipped policy")
}

fn to(m: &mut Manager, name: &str) {
    let options = m.options().clone();
    let change = Change { policy: Some(policy(name)), ..Change::default() };
    m.change(&options, change).expect("sound");
    m.check_integrity().expect("whole");
}

/// Blocks in the order in which they are evicted, one by one.
fn evicted(m: &mut Manager) -> Vec<BlockId> {
    let mut gone = Vec::new();
    while let Some(&next) = m.eviction_order(u32::MAX).first() {
        let free = m.pool().free();
        m.evict_until(free + 1).expect("a policy of the core");
        assert!(!m.pool().is_findable(next));
        gone.push(next);
    }
    gone
}

/// The blocks that are evicted, whatever is said before of their order.
fn lost(m: &mut Manager) -> Vec<BlockId> {
    let mut gone = Vec::new();
    while m.pool().cached() > 0 {
        let had: Vec<_> = (0..m.pool().created()).filter(|&b| m.pool().is_findable(b)).collect();
        let free = m.pool().free();
        m.evict_until(free + 1).expect("a policy of the core");
        gone.extend(had.into_iter().filter(|&b| !m.pool().is_findable(b)));
    }
    gone
}

/// Prompts without a common front are computed, then released in turn: under `name` from the start, and under
/// another policy that evicts them in the same order. From then on both evict the same.
#[test]
fn decides_as_if_it_had_always_ruled() {
    for &name in NAMES {
        let prompts: Vec<_> =
            (0..6).map(|p| prompt(&[10 * p + 1, 10 * p + 2, 10 * p + 3])).collect();
        let filled = |first: &str| {
            let mut m = build(options(24), first);
            let seqs: Vec<SeqId> = prompts.iter().map(|tokens| run(&mut m, tokens)).collect();
            for seq in seqs {
                m.release(seq).expect("live");
            }
            m
        };
        let (mut always, mut changed) = (filled(name), filled("lru"));
        to(&mut changed, name);
        let mut dice = Dice(7);
        for _ in 0..200 {
            // A prompt that is there, or a new one: what is found is the same in both.
            let p = dice.below(12) as u32;
            let tokens = open(&[10 * p + 1, 10 * p + 2, 10 * p + 3]);
            assert_eq!(serve(&mut always, &tokens), serve(&mut changed, &tokens), "{name}");
        }
        assert_eq!(lost(&mut always), lost(&mut changed), "{name}");
    }
}

/// From lru to lru nothing changes, whatever the tree of prefixes and whoever runs.
#[test]
fn the_order_of_before_is_kept() {
    for seed in 1..40 {
        let (mut m, mut twin) = (build(options(40), "lru"), build(options(40), "lru"));
        let (mut dice, mut live) = (Dice(seed), Vec::new());
        for step in 0..200 {
            let depth = 1 + dice.below(5) as u32;
            let blocks: Vec<u32> = (0..depth).map(|at| 10 * at + dice.below(2) as u32).collect();
            let tokens = open(&blocks);
            if live.len() > 3 {
                let (a, b) = live.remove(dice.below(4) as usize);
                m.release(a).expect("live");
                twin.release(b).expect("live");
            }
            live.push((run(&mut m, &tokens), run(&mut twin, &tokens)));
            if step % 9 == 0 {
                to(&mut m, "lru");
            }
            assert_eq!(m.eviction_order(u32::MAX), twin.eviction_order(u32::MAX), "seed {seed}");
        }
        for (a, b) in live {
            m.release(a).expect("live");
            twin.release(b).expect("live");
        }
        assert_eq!(evicted(&mut m), evicted(&mut twin), "seed {seed}");
    }
}

/// Every policy after every other, over trees of prefixes with sequences running: no block is lost, and what
/// could be found still is.
#[test]
fn nothing_is_lost_between_any_two() {
    let (mut changes, mut dice) = (0, Dice(11));
    let mut m = build(options(32), "lru");
    let mut live: Vec<SeqId> = Vec::new();
    for &first in NAMES {
        for &second in NAMES {
            for name in [first, second] {
                for _ in 0..3 {
                    if live.len() > 2 {
                        let at = dice.below(live.len() as u64) as usize;
                        m.release(live.swap_remove(at)).expect("live");
                    }
                    let blocks: Vec<u32> =
                        (0..4).map(|at| 10 * at + dice.below(3) as u32).collect();
                    if let Ok(given) = allocate(&mut m, &open(&blocks)) {
                        m.commit(given.seq, given.granted_tokens).expect("granted");
                        live.push(given.seq);
                    }
                }
                let before = (m.pool().free(), m.pool().cached(), m.pool().referenced());
                let keys: Vec<_> =
                    (0..m.pool().created()).filter(|&b| m.pool().is_findable(b)).collect();
                let counted = m.stats();
                to(&mut m, name);
                changes += 1;
                let after = (m.pool().free(), m.pool().cached(), m.pool().referenced());
                assert_eq!(before, after, "{first} {second}");
                assert!(keys.iter().all(|&b| m.pool().is_findable(b)));
                assert_eq!(counted, m.stats());
            }
        }
    }
    assert_eq!(changes, 2 * NAMES.len() * NAMES.len());
    for seq in live {
        m.release(seq).expect("live");
    }
    let cached = m.pool().cached() as usize;
    assert_eq!(lost(&mut m).len(), cached);
    assert_eq!(m.pool().free(), m.pool().usable());
}

/// What the core keeps of blocks for policies outside of it goes over to the next one.
#[test]
fn facts_stay_with_the_blocks() {
    let outside = || Box::new(External::new(Subscriptions::default()));
    let mut m = Manager::new(options(16), outside()).expect("sound");
    for _ in 0..3 {
        serve(&mut m, &open(&[1, 2]));
    }
    serve(&mut m, &open(&[5]));
    let rows = |m: &mut Manager| {
        let external = kvframe_core::policy::Consult::external(m).expect("outside");
        (0..4).map(|block| external.row(block)).collect::<Vec<_>>()
    };
    let before = rows(&mut m);
    assert_eq!(before[0].uses, 3);
    let change = Change { policy: Some(outside()), ..Change::default() };
    m.change(&m.options().clone(), change).expect("sound");
    assert_eq!(rows(&mut m), before);
    m.check_integrity().expect("whole");
}

/// A policy that refuses the pool leaves the old one in force, and every value with it.
#[test]
fn a_refusal_changes_nothing() {
    let mut m = build(options(8), "lru");
    serve(&mut m, &open(&[1, 2, 3]));
    let order = m.eviction_order(u32::MAX);
    let wrong = Options {
        reserve: 3,
        watermarks: Watermarks { low: 0.9, ..Watermarks::default() },
        ..options(8)
    };
    let refused = m.change(&wrong, Change { policy: Some(policy("fifo")), ..Change::default() });
    assert!(matches!(refused, Err(Error::Invalid { what: "high", .. })));
    assert_eq!((m.policy().name(), m.options().reserve), ("lru", 0));
    assert_eq!(m.eviction_order(u32::MAX), order);
    m.check_integrity().expect("whole");
}

/// Over the radix index no keys are made unless a policy asks for them: it has to be there from the start.
#[test]
fn a_policy_that_goes_by_keys_has_to_begin() {
    let radix = Options { index: IndexKind::Radix, ..options(8) };
    let mut m = Manager::new(radix.clone(), policy("lru")).expect("sound");
    serve(&mut m, &open(&[1]));
    let needs: Vec<_> = NAMES.iter().filter(|name| policy(name).wants_keys()).collect();
    assert!(!needs.is_empty());
    for name in needs {
        let refused = m.change(&radix, Change { policy: Some(policy(name)), ..Change::default() });
        assert!(matches!(refused, Err(Error::Invalid { what: "eviction.policy", .. })), "{name}");
    }
    assert_eq!(found(&m, &open(&[1])), SIZE);
}
