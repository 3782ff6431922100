//! Rule 7: the core says who may be evicted, the policy ranks; tail first; the same log everywhere.

use kvframe_core::events::{Event, Kind};
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::pool::State;
use kvframe_core::{BlockId, Error, Manager, NIL, Options, Request};

use crate::common::{
    SIZE, allocate, build, found, open, prompt, refused, request, run, serve, small, table,
};

fn evicted(m: &mut Manager) -> Vec<BlockId> {
    m.take_events().iter().filter(|e| e.kind == Kind::Evict).map(|e| e.block).collect()
}

fn tiny(policy: &str, blocks: u32) -> Manager {
    build(Options { blocks, block_size: SIZE, ..Options::default() }, policy)
}

// scenario: MK-B14, V8
/// MK-B14, V8: a prefix is evicted from its end, and before a neighbour that was used later.
#[test]
fn rule_7_tail_first_under_every_policy() {
    for policy in NAMES {
        let mut m = tiny(policy, 4);
        serve(&mut m, &prompt(&[1, 2, 3, 4]));
        m.take_events();
        for (left, other) in [(3, 7), (2, 8), (1, 9)] {
            // The newcomer is not kept, so that only the old prefix can be evicted.
            let tokens = prompt(&[other]);
            let allocation =
                m.allocate(&Request { write_cache: false, ..request(&tokens) }).unwrap();
            let mut loan = vec![NIL; 3 - left];
            m.take(&mut loan).unwrap();
            assert_eq!(found(&m, &open(&[1, 2, 3, 4])), left as u32 * SIZE, "{policy}");
            m.release(allocation.seq).unwrap();
            m.free(&loan).unwrap();
            m.check_integrity().unwrap();
        }
        assert_eq!(evicted(&mut m), [3, 2, 1], "{policy}");
    }
}

// scenario: U-3
/// U-3: the least recently used prefix goes, tail first; its neighbour loses its own tail only.
#[test]
fn rule_7_lru_order_across_prefixes() {
    let mut m = small(6);
    for pair in [[1, 2], [3, 4], [5, 6]] {
        serve(&mut m, &prompt(&pair));
    }
    run(&mut m, &prompt(&[7, 8, 9]));
    assert_eq!(found(&m, &open(&[1, 2])), 0);
    assert_eq!(found(&m, &open(&[3, 4])), 4);
    assert_eq!(found(&m, &open(&[5, 6])), 8);
}

/// VT1: the order itself runs from the first prefix's tail to the last one's head, so that the next
/// to be evicted is found at once.
#[test]
fn rule_7_lru_lists_tails_first() {
    let mut m = small(6);
    serve(&mut m, &prompt(&[1, 2, 3]));
    serve(&mut m, &prompt(&[4, 5]));
    assert_eq!(m.eviction_order(u32::MAX), [2, 1, 0, 4, 3]);
    serve(&mut m, &open(&[1, 2]));
    assert_eq!(m.eviction_order(u32::MAX), [2, 4, 3, 1, 0]);
}

// scenario: U-5
/// U-5: a hit refreshes the whole prefix.
#[test]
fn rule_7_a_hit_saves_from_eviction() {
    let mut m = small(6);
    for pair in [[1, 2], [3, 4], [5, 6]] {
        serve(&mut m, &prompt(&pair));
    }
    serve(&mut m, &prompt(&[1, 2]));
    run(&mut m, &prompt(&[7, 8, 9]));
    assert_eq!(found(&m, &open(&[1, 2])), 8);
    assert_eq!(found(&m, &open(&[3, 4])), 0);
    assert_eq!(found(&m, &open(&[5, 6])), 4);
}

/// I8, VT6: what is owned or found is never the victim.
#[test]
fn rule_7_owned_blocks_do_not_die() {
    for policy in NAMES {
        let mut m = tiny(policy, 4);
        serve(&mut m, &prompt(&[1, 2]));
        serve(&mut m, &prompt(&[3]));
        let a = run(&mut m, &open(&[1]));
        let error = refused(&mut m, &[a], |m| allocate(m, &prompt(&[7, 8, 9])));
        assert!(matches!(error, Error::NoCapacity { available: 2, .. }), "{policy}: {error}");
        run(&mut m, &prompt(&[7, 8]));
        assert_eq!(m.pool().state(table(&m, a)[0]), State::Committed, "{policy}");
        assert_eq!((m.pool().cached(), found(&m, &open(&[1, 2]))), (0, 4), "{policy}");
        m.check_integrity().unwrap();
    }
}

/// VT5, T31: a recycled block is found under its new key alone, and its generation says so.
#[test]
fn rule_7_a_recycled_block_is_not_found_under_its_old_key() {
    let mut m = small(1);
    serve(&mut m, &prompt(&[1]));
    assert_eq!((found(&m, &open(&[1])), m.pool().generation(0)), (4, 0));
    serve(&mut m, &prompt(&[2]));
    assert_eq!((found(&m, &open(&[1])), found(&m, &open(&[2])), m.pool().generation(0)), (0, 4, 1));
}

/// Nothing is evicted while blocks are free, and no more than is needed.
#[test]
fn rule_7_nothing_dies_for_nothing() {
    let mut m = small(6);
    serve(&mut m, &prompt(&[1, 2, 3]));
    serve(&mut m, &prompt(&[4, 5]));
    assert_eq!(m.stats().evictions, 0);
    serve(&mut m, &prompt(&[6, 7]));
    assert_eq!((m.stats().evictions, m.pool().cached()), (1, 6));
}

// scenario: V1
/// V1: a scan flushes lru, not lfu or slru.
#[test]
fn rule_7_policies_rank() {
    let keeps_hot = |policy: &str| {
        let mut m = tiny(policy, 6);
        for _ in 0..4 {
            serve(&mut m, &open(&[1, 2]));
        }
        (10..20).for_each(|i| _ = serve(&mut m, &open(&[i])));
        found(&m, &open(&[1, 2])) == 8
    };
    let kept = ["lru", "fifo", "lfu", "slru"].map(keeps_hot);
    assert_eq!(kept, [false, false, true, true]);
}

/// slru protects from the set number of uses on; below it, recency alone counts.
#[test]
fn rule_7_slru_protects_from_the_second_use() {
    let survivors = |protected_uses: u32| {
        let policy = by_name("slru", PolicyOptions(&[("protected_uses", protected_uses)])).unwrap();
        let options = Options { blocks: 3, block_size: SIZE, ..Options::default() };
        let mut m = Manager::new(options, policy).unwrap();
        serve(&mut m, &prompt(&[1]));
        serve(&mut m, &open(&[1]));
        serve(&mut m, &prompt(&[2]));
        run(&mut m, &prompt(&[3, 4]));
        (found(&m, &open(&[1])), found(&m, &open(&[2])))
    };
    assert_eq!((survivors(2), survivors(3)), ((4, 0), (0, 4)));
}

/// lfuda: what was hot long ago gives way to what is used now; under lfu it never does.
#[test]
fn rule_7_lfuda_ages() {
    let zombie = |policy: &str| {
        let mut m = tiny(policy, 3);
        (0..5).for_each(|_| _ = serve(&mut m, &open(&[1])));
        (10..30).for_each(|i| _ = serve(&mut m, &open(&[i])));
        found(&m, &open(&[1])) == 4
    };
    assert_eq!((zombie("lfu"), zombie("lfuda")), (true, false));
}

/// opt: farthest next use first; with bypass, what is used later than any victim stays out.
#[test]
fn rule_7_opt_knows_the_future() {
    for (policy, granted, kept) in [("opt", 0, 8), ("opt-forced", 4, 4)] {
        let mut m = tiny(policy, 2);
        let (a, b, c) = (prompt(&[1]), prompt(&[2]), prompt(&[3]));
        for (tokens, next) in [(&a, 5), (&b, 6)] {
            let seq = m.allocate(&Request { next_use: vec![next], ..request(tokens) }).unwrap().seq;
            m.commit(seq, 4).unwrap();
            m.release(seq).unwrap();
        }
        let late = Request { next_use: vec![9], partial: true, ..request(&c) };
        let allocation = m.allocate(&late).unwrap();
        assert_eq!(allocation.granted_tokens, granted, "{policy}");
        assert_eq!(found(&m, &open(&[1])) + found(&m, &open(&[2])), kept, "{policy}");
        assert_eq!(found(&m, &open(&[1])), 4, "{policy}: the nearer use stays");
    }
}

// scenario: U-6
/// U-6: the prefix without a next use goes first, then the one used farthest from now; of a prefix whose
/// `next_use` reaches its head only, the tail has none.
#[test]
fn rule_7_the_farthest_next_use_dies_first() {
    let mut m = tiny("opt-forced", 6);
    let prefixes = [[1, 2], [3, 4], [5, 6]];
    for (pair, next_use) in prefixes.iter().zip([&[100, 100][..], &[10, 10], &[]]) {
        let tokens = prompt(pair);
        let seq =
            m.allocate(&Request { next_use: next_use.to_vec(), ..request(&tokens) }).unwrap().seq;
        m.commit(seq, 8).unwrap();
        m.release(seq).unwrap();
    }
    let left = |m: &Manager| prefixes.map(|pair| found(m, &open(&pair)) / SIZE);
    for kept in [[2, 2, 1], [2, 2, 0], [1, 2, 0], [0, 2, 0], [0, 1, 0]] {
        m.take(&mut [NIL]).unwrap();
        assert_eq!(left(&m), kept);
    }
    let mut m = tiny("opt-forced", 4);
    for (pair, next_use) in [([1, 2], &[10][..]), ([3, 4], &[90, 90])] {
        let tokens = prompt(&pair);
        let seq =
            m.allocate(&Request { next_use: next_use.to_vec(), ..request(&tokens) }).unwrap().seq;
        m.commit(seq, 8).unwrap();
        m.release(seq).unwrap();
    }
    for kept in [[1, 2], [1, 1], [1, 0], [0, 0]] {
        m.take(&mut [NIL]).unwrap();
        assert_eq!([[1, 2], [3, 4]].map(|pair| found(&m, &open(&pair)) / SIZE), kept);
    }
}

/// A block that two sequences computed at once is evicted once, and not under the second's eyes.
#[test]
fn rule_7_loans_evict_too() {
    let mut m = small(3);
    serve(&mut m, &prompt(&[1, 2, 3]));
    let mut loan = [NIL; 2];
    m.take(&mut loan).unwrap();
    assert_eq!((found(&m, &open(&[1, 2, 3])), m.stats().evictions), (4, 2));
    m.check_integrity().unwrap();
}

/// I10: the same calls give the same log.
#[test]
fn rule_7_the_log_repeats() {
    let log = |policy: &str| -> Vec<Event> {
        let mut m = tiny(policy, 9);
        for i in 0..200_u32 {
            let head = i * 7 % 5;
            let tokens = open(&[head, head + i * 3 % 4, i % 6]);
            let seq = run(&mut m, &tokens);
            let twin = m.fork(seq).unwrap();
            m.append(twin, &[i]).unwrap();
            m.release(if i % 2 == 0 { twin } else { seq }).unwrap();
            m.release(if i % 2 == 0 { seq } else { twin }).unwrap();
            let plan = m.take_plan().unwrap();
            m.done(plan.ticket).unwrap();
            m.check_integrity().unwrap();
        }
        m.take_events()
    };
    for policy in NAMES {
        let first = log(policy);
        assert_eq!(first, log(policy), "{policy}");
        assert!(
            first.windows(2).all(|w| w[0].tick <= w[1].tick),
            "{policy}: the clock runs forward"
        );
        assert!(first.iter().any(|e| e.kind == Kind::Evict), "{policy}");
    }
}
