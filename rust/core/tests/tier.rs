//! A tier's blocks under every built-in policy.

use kvframe_core::Key;
use kvframe_core::policy::{NAMES, PolicyOptions, RemovalCause, by_name};
use kvframe_core::tier::{BlockQueue, RequestInfo, TierPolicy};

fn tier(name: &str, capacity: u32) -> TierPolicy {
    TierPolicy::new(capacity, 16, by_name(name, PolicyOptions::default()).unwrap()).unwrap()
}

fn filled(name: &str, capacity: u32) -> (TierPolicy, Vec<u32>) {
    let mut tier = tier(name, capacity);
    let enter = |key| {
        let block = tier.insert(Key(key), 0, RequestInfo::default()).unwrap();
        tier.release(&[block]).unwrap();
        block
    };
    let blocks = (0..u128::from(capacity)).map(enter).collect();
    (tier, blocks)
}

#[test]
fn spared_and_owned_blocks_never_die_and_keep_their_place() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 16);
        tier.hit(&blocks[4..8], RequestInfo::default()).unwrap();
        tier.acquire(&blocks[..2]).unwrap();
        let before = tier.order(u32::MAX);
        assert_eq!(tier.order(5), before[..5], "{name}");
        let spared: Vec<u32> = before.iter().copied().take(3).collect();
        let victims = tier.victims(5, &spared).unwrap().unwrap();
        assert_eq!(victims.len(), 5, "{name}");
        assert!(victims.iter().all(|b| !spared.contains(b) && !blocks[..2].contains(b)), "{name}");
        tier.check_integrity().unwrap();
        let after = tier.order(u32::MAX);
        assert!(spared.iter().all(|b| after.contains(b)), "{name}");
        if matches!(*name, "lru" | "lfu" | "fifo" | "mru" | "slru") {
            assert_eq!(after[..3], spared[..], "{name}");
        }
    }
}

#[test]
fn all_or_nothing() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 8);
        tier.acquire(&blocks[..3]).unwrap();
        let before = (tier.order(u32::MAX), tier.now());
        assert_eq!(tier.victims(5, &blocks[3..4]).unwrap(), None, "{name}");
        assert_eq!(before, (tier.order(u32::MAX), tier.now()), "{name}");
        assert_eq!(tier.victims(4, &blocks[3..4]).unwrap().unwrap().len(), 4, "{name}");
        tier.check_integrity().unwrap();
    }
}

#[test]
fn an_engine_may_evict_others_than_the_policy_chose() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 12);
        tier.hit(&blocks[2..4], RequestInfo::default()).unwrap();
        tier.acquire(&blocks[..1]).unwrap();
        for block in [6, 0, 9, 5, 11] {
            tier.remove(&blocks[block..=block], RemovalCause::Evicted).unwrap();
            tier.check_integrity().unwrap();
        }
        assert_eq!(tier.order(u32::MAX).len(), 7, "{name}");
        if matches!(*name, "fifo" | "sieve") {
            assert_eq!(
                tier.order(u32::MAX)[0],
                blocks[1],
                "{name}: the hand has not come to it yet"
            );
        }
    }
}

#[test]
fn misuse_is_refused_and_changes_nothing() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 4);
        let before = tier.order(u32::MAX);
        assert!(tier.insert(Key(9), 0, RequestInfo::default()).is_err());
        assert!(tier.release(&blocks[..1]).is_err());
        assert!(tier.acquire(&[blocks[0], 99]).is_err());
        assert!(tier.remove(&[blocks[0], blocks[0]], RemovalCause::Invalidated).is_err());
        assert_eq!(before, tier.order(u32::MAX), "{name}");
        tier.acquire(&blocks[..1]).unwrap();
        tier.remove(&blocks[..2], RemovalCause::Invalidated).unwrap();
        assert_eq!(tier.pool().free(), 2, "{name}");
        tier.check_integrity().unwrap();
    }
}

#[test]
fn the_next_is_the_one_that_dies() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 6);
        tier.hit(&blocks[1..3], RequestInfo::default()).unwrap();
        for _ in 0..5 {
            let next = tier.next(&blocks[5..]).unwrap().unwrap();
            let died = tier.victims(1, &blocks[5..]).unwrap().unwrap();
            assert_eq!(died, [next], "{name}");
            tier.check_integrity().unwrap();
        }
    }
}

#[test]
fn what_is_named_next_is_what_dies() {
    for name in NAMES {
        let (mut tier, blocks) = filled(name, 32);
        tier.hit(&blocks[..7], RequestInfo::default()).unwrap();
        for round in 0..8 {
            let spared = [blocks[30], blocks[31]];
            let next = tier.next(&spared).unwrap().unwrap();
            if round % 2 == 0 {
                assert_eq!(tier.victims(1, &spared).unwrap(), Some(vec![next]), "{name}");
            } else {
                tier.refresh(&[next]).unwrap();
            }
            tier.check_integrity().unwrap();
        }
    }
}

/// Quadratic in the blocks of a call, this would take minutes.
#[test]
fn a_call_costs_as_much_as_it_has_blocks() {
    let many = 1 << 17;
    let mut tier = tier("lru", many);
    let enter = |key: u32| tier.insert(Key(key.into()), 0, RequestInfo::default()).unwrap();
    let blocks: Vec<u32> = (0..many).map(enter).collect();
    tier.acquire(&blocks).unwrap();
    let twice: Vec<u32> = blocks.iter().chain(&blocks).copied().collect();
    tier.release(&twice).unwrap();
    assert_eq!(tier.pool().cached(), many);
    assert!(tier.release(&blocks).is_err());
    assert!(tier.remove(&twice, RemovalCause::Evicted).is_err());
    tier.remove(&blocks, RemovalCause::Evicted).unwrap();
    assert_eq!(tier.pool().free(), many);
}

#[test]
fn a_queue_gives_free_blocks_then_victims_with_and_without_keys() {
    for name in NAMES {
        let policy = by_name(name, PolicyOptions::default()).unwrap();
        let mut queue = BlockQueue::new(8, 16, policy).unwrap();
        assert_eq!(queue.available(), 0, "{name}: all have an owner at first");
        let keys: Vec<Key> = (0..4).map(Key).collect();
        queue.insert(&[0, 1, 2, 3], &keys, &[0, 1, 2, 3], RequestInfo::default()).unwrap();
        queue.free(&[6], &[]).unwrap();
        queue.free(&[0, 1, 2, 3], &[4, 5]).unwrap();
        let taken = queue.take(7).unwrap();
        assert_eq!(taken[..2], [5, 4], "{name}");
        assert!(taken.contains(&6), "{name}");
        assert_eq!(queue.evictions(), 5, "{name}");
        assert!(queue.take(1).is_err() && queue.free(&[7, 7], &[]).is_err(), "{name}");
        assert!(queue.free(&[7], &[7]).is_err(), "{name}");
        queue.free(&[], &taken).unwrap();
        queue.check_integrity().unwrap();
        assert_eq!(queue.available(), 7, "{name}: nothing of them is cached any more");
    }
}

#[test]
fn another_policy_takes_over_what_a_queue_holds() {
    let queue = |name: &str| {
        let policy = by_name(name, PolicyOptions::default()).unwrap();
        BlockQueue::new(8, 16, policy).unwrap()
    };
    for name in NAMES {
        let mut old = queue("lru");
        let keys: Vec<Key> = (0..5).map(Key).collect();
        old.insert(&[0, 1, 2, 3, 4], &keys, &[0, 1, 2, 0, 1], RequestInfo::default()).unwrap();
        old.hit(&[0, 3], RequestInfo::default()).unwrap();
        old.free(&[3, 6], &[]).unwrap();
        old.free(&[0, 1, 2], &[5]).unwrap();
        let order = old.tier().order(u32::MAX);
        let mut new = queue(name);
        new.adopt(&old.contents(&order)).unwrap();
        new.check_integrity().unwrap();
        let cached = new.tier().order(u32::MAX);
        let queued = new.around(cached.clone());
        assert_eq!(queued[0], 5, "{name}");
        assert!([0, 1, 2, 3, 6].iter().all(|block| cached.contains(block)), "{name}");
        if *name == "lru" {
            assert_eq!(cached, order);
        }
        assert!(new.free(&[4], &[]).is_ok(), "{name}: it has an owner");
        assert!(new.free(&[4], &[]).is_err(), "{name}: it has none");
        let other = BlockQueue::new(9, 16, by_name(name, PolicyOptions::default()).unwrap());
        assert!(other.unwrap().adopt(&old.contents(&order)).is_err(), "{name}: another size");
    }
}
