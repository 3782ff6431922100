//! A policy outside the core: what it is offered, and that its choice is what is evicted.

mod common;

use common::{SIZE, allocate, open, prompt, request, run, serve, small};
use kvframe_core::events::Kind;
use kvframe_core::policy::{Candidates, Consult, EventKind, External, Journal, Subscriptions};
use kvframe_core::{BlockId, Error, Manager, Options, Request};

fn external(blocks: u32) -> Manager {
    let options = Options { blocks, block_size: SIZE, event_log: true, ..Options::default() };
    Manager::new(
        options,
        Box::new(External::new(Subscriptions { events: true, ..Subscriptions::default() })),
    )
    .unwrap()
}

fn offer(m: &mut Manager, n: usize, limit: usize) -> Candidates {
    let mut out = Candidates::default();
    m.candidates(n, limit, &mut out);
    out
}

fn evicted(m: &mut Manager) -> Vec<BlockId> {
    m.take_events().iter().filter(|e| e.kind == Kind::Evict).map(|e| e.block).collect()
}

/// Admits `tokens`; the policy takes the highest block ids that it may.
fn admit_judged(m: &mut Manager, tokens: &[u32]) -> Vec<BlockId> {
    let asked = request(tokens);
    while let Err(error) = m.allocate(&asked) {
        let Error::NeedVictims { n } = error else { panic!("{error}") };
        let out = offer(m, n as usize, 0);
        let scores: Vec<f64> = out.blocks.iter().map(|&b| -f64::from(b)).collect();
        let places = out.lowest(&scores, n as usize);
        assert_eq!(places.len(), n as usize, "room was promised, and is not offered");
        let pick = |&p: &u32| (out.blocks[p as usize], out.generations[p as usize]);
        let (blocks, generations): (Vec<_>, Vec<_>) = places.iter().map(pick).unzip();
        m.choose(&blocks, &generations);
    }
    m.settle_choice();
    m.check_integrity().unwrap();
    evicted(m)
}

#[test]
fn the_choice_is_what_dies() {
    let mut m = external(4);
    for block in 1..=4 {
        serve(&mut m, &prompt(&[block]));
    }
    evicted(&mut m);
    assert_eq!(admit_judged(&mut m, &prompt(&[7, 8])), [3, 2]);
}

#[test]
fn children_die_before_their_parents() {
    let mut m = external(4);
    serve(&mut m, &prompt(&[1, 2, 3, 4]));
    evicted(&mut m);
    let out = offer(&mut m, 1, 0);
    assert_eq!(out.lowest(&[4.0, 3.0, 2.0, 1.0], 3), [0, 1, 2]);
    assert!(out.check(&[2]).is_err());
    assert!(out.check(&[3, 3]).is_err());
    assert!(out.check(&[99]).is_err());
    assert_eq!(out.check(&[3, 2]), Ok(vec![0, 1]));
    assert_eq!(admit_judged(&mut m, &prompt(&[7, 8])), [3, 2]);
}

/// What the request itself finds is not its victim: the policy is not offered it, or is asked again.
#[test]
fn the_blocks_a_request_finds_are_not_chosen_for_it() {
    let mut m = external(4);
    for block in [2, 3, 4, 1] {
        serve(&mut m, &prompt(&[block]));
    }
    evicted(&mut m);
    // The highest id holds the head of the request; among the rest the policy wants block 2, while
    // the built-in order would take block 0.
    assert_eq!(admit_judged(&mut m, &open(&[1])), [2]);
}

/// A parent may have been used longer ago than its child, if the child has two copies. All room that
/// is counted is offered all the same.
#[test]
fn a_parent_older_than_its_child_is_offered() {
    let mut m = external(8);
    let a = allocate(&mut m, &prompt(&[1, 2, 4])).unwrap().seq;
    let b = allocate(&mut m, &prompt(&[1, 2])).unwrap().seq;
    m.commit(a, 12).unwrap();
    m.commit(b, 8).unwrap();
    let c = m.fork(b).unwrap();
    m.truncate(c, 4).unwrap();
    m.append(c, &prompt(&[3])).unwrap();
    m.commit(c, 8).unwrap();
    m.release(a).unwrap();
    m.release(c).unwrap();
    m.release(b).unwrap();
    // b's second block went as superfluous, and a's took its place in the order; both first blocks
    // stay, for each has a child of its own.
    let order = m.eviction_order(u32::MAX);
    let out = offer(&mut m, 1, 0);
    let used = |block| out.facts.last_use[order.iter().position(|&b| b == block).unwrap()];
    assert_eq!(order, out.blocks);
    assert!(used(0) < used(1) && m.pool().parent(1) == 0, "{order:?}");
    assert_eq!(out.blocks.len() as u32, m.pool().cached());
    for limit in 1..=order.len() {
        assert_eq!(offer(&mut m, 1, limit).blocks, out.blocks[..limit]);
    }
    assert_eq!(admit_judged(&mut m, &prompt(&[4, 5, 6, 7, 8, 9, 10, 11])).len(), 5);
}

/// A late answer does not reach a block's next life.
#[test]
fn a_stale_choice_is_dropped() {
    let mut m = external(2);
    serve(&mut m, &prompt(&[1]));
    let old = offer(&mut m, 1, 0);
    assert_eq!(old.generations, [0]);
    m.reset_prefix_cache();
    serve(&mut m, &prompt(&[2]));
    serve(&mut m, &prompt(&[3]));
    m.choose(&old.blocks, &old.generations);
    let tokens = prompt(&[4]);
    let again = m.allocate(&Request { write_cache: false, ..request(&tokens) });
    assert_eq!(again.unwrap_err(), Error::NeedVictims { n: 1 });
    m.fall_back(1);
    m.allocate(&request(&tokens)).unwrap();
    m.check_integrity().unwrap();
}

/// With the built-in order standing in throughout, it is lru.
#[test]
fn the_fallback_is_lru() {
    let drive = |mut m: Manager| {
        for i in 0..60_u32 {
            let tokens = open(&[i % 3, i % 5, i * 7 % 11]);
            m.fall_back(3);
            let seq = run(&mut m, &tokens);
            m.settle_choice();
            m.release(seq).unwrap();
            m.check_integrity().unwrap();
        }
        m.take_events()
    };
    assert_eq!(drive(external(9)), drive(small(9)));
}

#[test]
fn events_of_one_kind_at_one_tick_are_a_run() {
    let (insert, hit) = (EventKind::Insert as u8, EventKind::Hit as u8);
    let kinds = vec![insert, insert, hit, hit, insert];
    let journal = Journal { blocks: vec![0; 5], ticks: vec![1, 1, 1, 2, 2], kinds, keys: vec![] };
    assert_eq!(journal.runs().collect::<Vec<_>>(), [0..2, 2..3, 3..4, 4..5]);
    assert_eq!(Journal::default().runs().count(), 0);
}
