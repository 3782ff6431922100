//! Retention: priorities with a time, pins with a cap and a lease, and whose end frees what.

use kvframe_core::hash::Space;
use kvframe_core::locks::Receipt;
use kvframe_core::manager::{PinRequest, PinResult, PreemptionOrder};
use kvframe_core::policy::NAMES;
use kvframe_core::pool::BlockId;
use kvframe_core::retention::{Decay, Keep, Retention, TokenRange};
use kvframe_core::{Error, Manager, Options, Request, SeqId};

use crate::common::{
    SIZE, allocate, build, found, open, prompt, refused, request, run, serve, small, table,
};

fn keep(priority: u8, duration: impl Into<Option<u64>>) -> Keep {
    Keep { priority, duration: duration.into(), ..Keep::default() }
}

fn all(keep: Keep) -> Retention {
    Retention { ranges: vec![TokenRange { start: 0, end: 9_999, keep }], decode: Some(keep) }
}

/// Admits, computes and releases blocks under `retention`.
fn keep_served(m: &mut Manager, blocks: &[u32], retention: &Retention) {
    let tokens = prompt(blocks);
    let asked = Request { retention: Some(retention.clone()), ..request(&tokens) };
    let allocation = m.allocate(&asked).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    m.release(allocation.seq).expect("live");
}

/// How many blocks of these are found.
fn there(m: &Manager, blocks: &[u32]) -> u32 {
    found(m, &open(blocks)) / SIZE
}

fn squeeze(m: &mut Manager, blocks: u32) {
    let free = m.pool().free() + blocks;
    m.evict_until(free).expect("room");
    m.check_integrity().expect("sound");
}

// scenario: V3, V5, S22
#[test]
fn a_range_is_kept_for_its_time_and_no_longer_under_any_policy() {
    for policy in NAMES.iter().filter(|name| **name != "infinite") {
        let mut m = build(Options { blocks: 8, block_size: SIZE, ..Options::default() }, policy);
        let range = TokenRange { start: 0, end: 2 * SIZE, keep: keep(80, 30) };
        let asked = Retention { ranges: vec![range], decode: None };
        keep_served(&mut m, &[1, 2, 3, 4], &asked);
        serve(&mut m, &prompt(&[5, 6, 7, 8]));
        m.expire_until(10).expect("time goes on");
        squeeze(&mut m, 6);
        assert_eq!((there(&m, &[1, 2]), there(&m, &[5])), (2, 0), "{policy}: kept at 10");
        serve(&mut m, &prompt(&[5, 6]));
        assert_eq!(m.expire_until(40).expect("time goes on").blocks, 2);
        m.check_integrity().expect("sound");
        if *policy == "lru" {
            squeeze(&mut m, 2);
            assert_eq!((there(&m, &[1]), there(&m, &[5, 6])), (0, 2), "plain lru at 40");
        }
    }
}

// scenario: V5
#[test]
fn the_lower_priority_dies_first_even_if_it_is_newer() {
    let mut m = small(4);
    keep_served(&mut m, &[1], &all(keep(1, None)));
    keep_served(&mut m, &[2], &all(keep(0, None)));
    serve(&mut m, &prompt(&[3]));
    keep_served(&mut m, &[4], &all(keep(36, None)));
    let mut died = Vec::new();
    for _ in 0..4 {
        squeeze(&mut m, 1);
        died.extend([1, 2, 3, 4].into_iter().filter(|&b| there(&m, &[b]) == 0));
        died.dedup();
    }
    died =
        died.iter().enumerate().filter(|(i, b)| !died[..*i].contains(b)).map(|(_, &b)| b).collect();
    assert_eq!(died, [2, 1, 3, 4]);
}

// scenario: F26
#[test]
fn what_dies_at_one_priority_moves_no_hand_of_another() {
    let mut m = build(Options { blocks: 8, block_size: SIZE, ..Options::default() }, "sieve");
    for block in 1..=5 {
        serve(&mut m, &prompt(&[block]));
    }
    assert_eq!(serve(&mut m, &open(&[1])), SIZE);
    let mut died = Vec::new();
    let mut dies = |m: &mut Manager| {
        let blocks = [1, 2, 3, 4, 5, 6, 11];
        let before = blocks.map(|block| there(m, &[block]));
        squeeze(m, 1);
        died.extend((0..7).filter(|&i| there(m, &[blocks[i]]) < before[i]).map(|i| blocks[i]));
    };
    dies(&mut m);
    // The hand has passed 1 and stands behind 2. Another goes once around 11, which was used twice.
    keep_served(&mut m, &[11], &all(keep(20, None)));
    keep_served(&mut m, &[11], &all(keep(20, None)));
    serve(&mut m, &prompt(&[6]));
    (0..6).for_each(|_| dies(&mut m));
    assert_eq!(died, [2, 11, 3, 4, 5, 6, 1]);
}

// scenario: T22
#[test]
fn reads_do_not_prolong_a_soft_pin() {
    let mut m = small(4);
    keep_served(&mut m, &[1, 2], &all(keep(90, 10)));
    m.expire_until(9).unwrap();
    assert_eq!(serve(&mut m, &open(&[1, 2])), 2 * SIZE, "read shortly before");
    let block = m.lookup(&open(&[1]), Space::default(), &[]).blocks[0][0];
    assert_eq!(m.priority(block), (90, Some(10)));
    m.expire_until(10).unwrap();
    assert_eq!(m.priority(block), (35, None));
    assert_eq!(serve(&mut m, &open(&[1, 2])), 2 * SIZE);
    m.expire_until(11).unwrap();
    assert_eq!(m.priority(block), (35, None));
    m.expire_until(3).unwrap();
    assert_eq!(m.priority(block), (35, None), "time does not go back");
    m.check_integrity().unwrap();
}

// scenario: ST28, S22
#[test]
fn whoever_asks_for_more_is_heard_and_less_only_for_what_one_computed() {
    let mut m = small(8);
    let block = |m: &Manager| m.lookup(&open(&[1]), Space::default(), &[]).blocks[0][0];
    keep_served(&mut m, &[1], &all(keep(0, None)));
    assert_eq!(m.priority(block(&m)).0, 0, "one's own may get less");
    serve(&mut m, &open(&[1]));
    assert_eq!(m.priority(block(&m)).0, 35, "used by one who asked for nothing");
    let asked = all(keep(0, None));
    keep_served(&mut m, &[1, 2], &asked);
    assert_eq!(m.priority(block(&m)).0, 35, "another's is not lowered");
    let falls = Keep { then: 0, decay: Decay::Linear, ..keep(100, 10) };
    keep_served(&mut m, &[1, 2], &all(falls));
    for (time, priority) in [(1, 94), (5, 68), (9, 42), (10, 35)] {
        m.expire_until(time).unwrap();
        assert_eq!(m.priority(block(&m)).0, priority, "at {time}: no lower than others asked");
    }
    m.check_integrity().unwrap();
}

// scenario: S22
#[test]
fn what_was_there_before_anybody_asked_is_not_lowered() {
    let mut m = small(8);
    serve(&mut m, &prompt(&[1]));
    keep_served(&mut m, &[1, 2], &all(keep(0, None)));
    let blocks = m.lookup(&open(&[1, 2]), Space::default(), &[]).blocks;
    let priorities: Vec<u8> = blocks[0].iter().map(|&block| m.priority(block).0).collect();
    assert_eq!(priorities, [35, 0]);
    m.check_integrity().unwrap();
}

#[test]
fn what_a_copy_takes_over_it_keeps() {
    let mut m = small(8);
    let tokens = prompt(&[1, 2]);
    let asked = all(keep(70, None));
    let first = allocate(&mut m, &tokens).unwrap();
    let twin = m.allocate(&Request { retention: Some(asked.clone()), ..request(&tokens) }).unwrap();
    for allocation in [first, twin] {
        m.commit(allocation.seq, allocation.granted_tokens).unwrap();
    }
    m.release(first.seq).unwrap();
    m.release(twin.seq).unwrap();
    m.check_integrity().unwrap();
    for block in m.lookup(&open(&[1, 2]), Space::default(), &[]).blocks[0].clone() {
        assert_eq!(m.priority(block).0, 70);
    }
}

#[test]
fn a_wrong_priority_or_range_is_refused_and_changes_nothing() {
    let mut m = small(4);
    let tokens = prompt(&[1]);
    for wrong in [all(keep(101, None)), all(Keep { then: 101, ..keep(3, 4) })] {
        let asked = Request { retention: Some(wrong.clone()), ..request(&tokens) };
        assert!(matches!(refused(&mut m, &[], |m| m.allocate(&asked)), Error::Invalid { .. }));
    }
}

fn pin(
    m: &mut Manager,
    blocks: &[u32],
    pinner: PinRequest<'_>,
) -> Result<Option<PinResult>, Error> {
    m.lock(&prompt(blocks), Space::default(), &[], pinner)
}

// scenario: V4
#[test]
fn pins_hold_no_more_than_their_cap() {
    let options = Options { blocks: 10, block_size: SIZE, pin_cap: 0.2, ..Options::default() };
    let mut m = build(options, "lru");
    serve(&mut m, &prompt(&[1, 2, 3]));
    serve(&mut m, &prompt(&[5]));
    let owner = PinRequest { owner: "system prompt", ..PinRequest::default() };
    let held = pin(&mut m, &[1, 2, 3], owner).unwrap().expect("cached");
    assert_eq!((held.tokens, held.found), (2 * SIZE, 3 * SIZE), "a part, and that is told");
    assert_eq!(pin(&mut m, &[1, 2], owner).unwrap().unwrap().tokens, 2 * SIZE, "held already");
    let full = refused(&mut m, &[], |m| pin(m, &[5], owner));
    assert_eq!(full, Error::PinsFull { asked: 1, held: 2, cap: 2 });
    assert_eq!(pin(&mut m, &[9], owner).unwrap(), None, "nothing of it is there");
    squeeze(&mut m, 10);
    assert_eq!((there(&m, &[1, 2]), there(&m, &[5])), (2, 0), "never evicted");
    let block = held.receipt.block;
    let owners: Vec<String> = m.owners(block).pins.into_iter().map(|(_, owner)| owner).collect();
    assert_eq!(owners, ["system prompt", "system prompt"]);
    assert_eq!((m.unpin_all(Some("else")).unwrap(), m.unpin_all(None).unwrap()), (0, 2));
    squeeze(&mut m, 10);
    assert_eq!(there(&m, &[1]), 0, "evictable again");
}

// scenario: T14, V12
#[test]
fn a_lease_ends_a_pin_and_not_before() {
    let mut m = small(4);
    serve(&mut m, &prompt(&[1, 2]));
    m.expire_until(100).unwrap();
    let held = pin(&mut m, &[1, 2], PinRequest { owner: "a", lease: Some(5), session: 0 })
        .unwrap()
        .unwrap();
    assert_eq!(m.pins(Some("a")).next().unwrap().holder.until, Some(105));
    assert!(m.expire_until(104).unwrap().pins.is_empty());
    assert_eq!(m.pool().referenced(), 2);
    assert_eq!(m.expire_until(105).unwrap().pins, [held.receipt]);
    assert_eq!((m.pool().referenced(), m.locks()), (0, 0));
    let again = Receipt { ..held.receipt };
    assert!(matches!(m.unlock(again), Err(Error::UnknownReceipt { .. })));
    m.check_integrity().unwrap();
}

fn names(m: &Manager, seqs: &[SeqId], rule: PreemptionOrder, usage: f64) -> Vec<usize> {
    let order = m.preemption_to(seqs, rule, usage).unwrap();
    let place = |seq| seqs.iter().position(|&s| s == seq).unwrap();
    order.iter().map(|c| place(c.seq)).collect()
}

// scenario: CB-9, CB-10, CB-11, CB-B8, CB-B10
#[test]
fn sequences_give_way_by_the_rule() {
    let mut m = small(64);
    let seqs: Vec<SeqId> = [&[1][..], &[2, 3, 4, 5], &[6, 7], &[8]]
        .iter()
        .map(|blocks| run(&mut m, &prompt(blocks)))
        .collect();
    let order = |m: &Manager, rule| names(m, &seqs, rule, 0.0);
    assert_eq!(order(&m, PreemptionOrder::LeastRecent), [0, 1, 2, 3]);
    assert_eq!(order(&m, PreemptionOrder::LongestFirst), [1, 2, 3, 0]);
    assert_eq!(order(&m, PreemptionOrder::MostFreed), [1, 2, 3, 0]);
    m.touch(&[seqs[0], seqs[2]]).unwrap();
    m.append(seqs[1], &[7]).unwrap();
    m.commit(seqs[1], 4 * SIZE + 1).unwrap();
    assert_eq!(
        order(&m, PreemptionOrder::LeastRecent),
        [3, 0, 2, 1],
        "a read counts, and so does growth"
    );
    assert_eq!(
        order(&m, PreemptionOrder::LeastFrequent),
        [3, 1, 0, 2],
        "fewest touches, not appends"
    );
    m.touch(&[seqs[0], seqs[0], seqs[0]]).unwrap();
    for _ in 0..3 * kvframe_core::manager::HALF_LIFE {
        m.touch(&[seqs[3]]).unwrap();
    }
    m.touch(&[seqs[2]]).unwrap();
    assert_eq!(order(&m, PreemptionOrder::LeastFrequent)[..3], [1, 0, 2], "old touches fade");
    let stale = [seqs[0], 77 << 32];
    refused(&mut m, &seqs, |m| m.touch(&stale));
}

// scenario: CB-11, CB-B6, CB-B13
#[test]
fn use_is_brought_down_to_a_threshold_by_as_many_as_it_takes() {
    let mut m = small(10);
    let seqs: Vec<SeqId> = (1..=8).map(|b| run(&mut m, &prompt(&[b]))).collect();
    for rule in
        [PreemptionOrder::LeastRecent, PreemptionOrder::LongestFirst, PreemptionOrder::MostFreed]
    {
        assert_eq!(names(&m, &seqs, rule, 0.5).len(), 3);
    }
    for candidate in m.preemption_to(&seqs, PreemptionOrder::LeastRecent, 0.5).unwrap() {
        m.preempt(candidate.seq).unwrap();
    }
    assert!(m.usage() <= 0.5);
    m.check_integrity().unwrap();
}

// scenario: CB-B6, I8
#[test]
fn victims_are_ranked_by_what_they_free_once_those_before_have_ended() {
    let mut m = small(32);
    let shared = open(&[1, 2, 3, 4, 5]);
    let first = run(&mut m, &shared);
    let (second, third) = (m.fork(first).unwrap(), m.fork(first).unwrap());
    let mut lone: Vec<SeqId> = Vec::new();
    for blocks in [&[10_u32, 11][..], &[12, 13, 14]] {
        lone.push(run(&mut m, &prompt(blocks)));
    }
    let seqs = [first, second, third, lone[0], lone[1]];
    assert_eq!(
        names(&m, &seqs, PreemptionOrder::MostFreed, 0.0),
        [4, 3],
        "sharers free nothing alone"
    );
    // Now one of them has blocks of its own, and its end leaves the others to each other.
    m.append(first, &prompt(&[6, 7, 8, 9])).unwrap();
    m.release(second).unwrap();
    let seqs = [first, third, lone[0], lone[1]];
    let order = m.preemption_to(&seqs, PreemptionOrder::MostFreed, 0.0).unwrap();
    let told: Vec<(SeqId, u32)> = order.iter().map(|c| (c.seq, c.frees)).collect();
    let mut available = m.pool().available();
    for candidate in &order {
        m.preempt(candidate.seq).unwrap();
        assert_eq!(m.pool().available() - available, candidate.frees, "as was told");
        available = m.pool().available();
    }
    assert_eq!(order.len(), 4, "the last sharer frees what was shared: {told:?}");
    assert_eq!(order[1].seq, third, "all that is left to it, more than what others have");
}

#[test]
fn a_block_has_one_priority_in_each_of_its_lives() {
    let mut m = small(2);
    keep_served(&mut m, &[1, 2], &all(keep(80, 5)));
    let blocks: Vec<BlockId> = (0..2).collect();
    m.reset_prefix_cache();
    let seq = run(&mut m, &open(&[3]));
    assert_eq!(table(&m, seq).len(), 2);
    for &block in &blocks {
        assert_eq!(m.priority(block), (35, None));
    }
    m.release(seq).unwrap();
    m.expire_until(9).unwrap();
    assert_eq!(m.priority(0), (35, None));
    m.check_integrity().unwrap();
}
