//! Defects of the managers that this one supersedes, where no other test would notice them.

mod common;

use common::{SIZE, allocate, build, found, open, prompt, request, run, serve, small, table};
use kvframe_core::hash::HashAlgo;
use kvframe_core::manager::PreemptionOrder;
use kvframe_core::options::Watermarks;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::sequence::Meta;
use kvframe_core::{GroupKind, Manager, Options, Request, SeqId};

fn order(m: &Manager, seqs: &[SeqId], rule: PreemptionOrder) -> Vec<SeqId> {
    m.preemption_order(seqs, rule).unwrap().iter().map(|victim| victim.seq).collect()
}

// scenario: IL-B13
#[test]
fn a_prompt_is_told_without_its_answer() {
    let mut m = small(8);
    let tokens = prompt(&[1]);
    let allocation = m.allocate(&Request { max_seq_len: 20, ..request(&tokens) }).unwrap();
    assert_eq!((allocation.prompt_tokens, allocation.granted_tokens), (4, 4));
    assert_eq!(m.stats().prompt_tokens, 4);
}

// scenario: IL-B12
#[test]
fn what_comes_back_has_computed_only_what_it_found() {
    let mut m = small(4);
    serve(&mut m, &prompt(&[1]));
    let tokens = open(&[1, 2]);
    let back = m.allocate(&Request { resumed: true, ..request(&tokens) }).unwrap();
    assert_eq!((back.cached_tokens, m.sequence(back.seq).unwrap().committed), (4, 4));
    assert_eq!(m.stats().resumed_hit_tokens, 4);
}

// scenario: IL-B6, MK-B8
#[test]
fn an_admission_is_counted_once_however_often_it_is_tried_and_whatever_groups_there_are() {
    let groups = vec![GroupKind::Full.into(); 3];
    let options = Options { blocks: 15, block_size: SIZE, groups, ..Options::default() };
    let mut m = build(options, "lru");
    let first = run(&mut m, &open(&[1, 2]));
    let waits = run(&mut m, &open(&[7]));
    for _ in 0..5 {
        allocate(&mut m, &open(&[1, 2, 3])).unwrap_err();
    }
    assert_eq!((m.stats().requests, m.stats().hit_tokens), (2, 0));
    m.release(waits).unwrap();
    allocate(&mut m, &open(&[1, 2, 3])).unwrap();
    let stats = m.stats();
    assert_eq!((stats.requests, stats.requests_with_hit, stats.hit_tokens), (3, 1, 8));
    m.release(first).unwrap();
}

// scenario: FE-B21
#[test]
fn misses_count_as_much_as_hits() {
    let mut m = small(64);
    (1..10).for_each(|word| _ = serve(&mut m, &open(&[word])));
    serve(&mut m, &open(&[9]));
    assert_eq!((m.stats().requests, m.stats().requests_with_hit), (10, 1));
}

// scenario: CB-B9, CB-B10, CB-B13
#[test]
fn who_gives_way_follows_from_priority_then_age_and_never_from_chance() {
    let mut m = small(64);
    let mut seqs = Vec::new();
    for (word, priority) in [5, 0, 5, 9, 0, 5, 5, 5].into_iter().enumerate() {
        let tokens = prompt(&[word as u32]);
        let meta = Meta { priority, ..Meta::default() };
        seqs.push(m.allocate(&Request { meta, ..request(&tokens) }).unwrap().seq);
    }
    let by_priority = [4, 1, 7, 6, 5, 2, 0, 3].map(|place: usize| seqs[place]);
    assert_eq!(order(&m, &seqs, PreemptionOrder::LowestPriority), by_priority);
    let empty = allocate(&mut m, &[]).unwrap().seq;
    seqs.push(empty);
    for rule in [PreemptionOrder::FewestComputed, PreemptionOrder::LastAdmitted] {
        let newest: Vec<SeqId> = seqs[..8].iter().rev().copied().collect();
        assert_eq!(order(&m, &seqs, rule), newest, "ties go by age; the empty one frees nothing");
    }
}

// scenario: CB-B6
#[test]
fn sharers_are_no_victims_and_nothing_else_is_touched() {
    let mut m = small(10);
    let one = run(&mut m, &prompt(&[1, 2, 3, 4, 5, 6]));
    let mut seqs = vec![one];
    seqs.extend((0..4).map(|_| m.fork(one).unwrap()));
    let alone = run(&mut m, &prompt(&[7, 8, 9]));
    seqs.push(alone);
    assert_eq!(order(&m, &seqs, PreemptionOrder::FewestComputed), [alone]);
    m.release(alone).unwrap();
    assert_eq!(order(&m, &seqs[..5], PreemptionOrder::FewestComputed), []);
    assert!((m.usage() - 0.6).abs() < 1e-9);
}

// scenario: CB-B14
#[test]
fn marks_that_cannot_be_are_refused() {
    let built = |low, high, critical| {
        let watermarks = Watermarks { low, high, critical };
        let policy = by_name("lru", PolicyOptions::default()).unwrap();
        Manager::new(Options { watermarks, ..Options::default() }, policy).is_ok()
    };
    assert!(built(0.1, 0.2, 1.0));
    for (low, high, critical) in [
        (0.0, 0.2, 0.3),
        (-0.1, 0.2, 0.3),
        (0.2, 0.2, 0.3),
        (0.1, 0.3, 0.3),
        (0.1, 0.2, 1.1),
        (f64::NAN, 0.2, 0.3),
        (0.1, f64::NAN, 0.3),
        (0.1, 0.2, f64::NAN),
    ] {
        assert!(!built(low, high, critical), "{low}, {high}, {critical}");
    }
}

// scenario: FE-B14, FE-5
#[test]
fn collecting_frees_what_nobody_owns_and_no_more() {
    let mut m = small(8);
    assert_eq!(m.evict_until(8).unwrap(), 0);
    serve(&mut m, &prompt(&[1, 2, 3]));
    let runs = run(&mut m, &prompt(&[1, 7]));
    assert_eq!((m.evict_until(5).unwrap(), found(&m, &open(&[1, 2, 3]))), (1, 8));
    assert_eq!((m.evict_until(8).unwrap(), found(&m, &open(&[1, 2, 3]))), (1, 4));
    assert_eq!((m.pool().free(), m.pool().refs(table(&m, runs)[0])), (6, 1));
}

/// Of the blocks 1, 2, 3 of a prompt the first is another one's, too, and a fourth prompt's is not named.
#[test]
fn named_blocks_go_children_first_and_no_others() {
    let mut m = small(8);
    serve(&mut m, &prompt(&[9]));
    serve(&mut m, &prompt(&[1, 2, 3]));
    let runs = run(&mut m, &prompt(&[1]));
    let named: Vec<_> =
        m.eviction_order(8).into_iter().filter(|&b| m.pool().depth(b) > 0).collect();
    let all = [table(&m, runs)[0], named[1], named[0]];
    assert_eq!((m.evict_of(&all, 1), found(&m, &open(&[1, 2, 3]))), (1, 8));
    assert_eq!((m.evict_of(&all, 9), found(&m, &open(&[1, 2, 3]))), (1, 4));
    assert_eq!((m.evict_of(&all, 9), found(&m, &open(&[9]))), (0, 4));
    m.check_integrity().unwrap();
}

// scenario: MK-B7
#[test]
fn keys_go_on_from_the_last_one_and_nothing_before_is_hashed_again() {
    let mut m = build(
        Options { blocks: 8, block_size: SIZE, hash: HashAlgo::Blake3, ..Options::default() },
        "lru",
    );
    let seq = run(&mut m, &prompt(&[1]));
    let key = m.sequence(seq).unwrap().keys[0];
    m.append(seq, &prompt(&[2, 3])).unwrap();
    m.commit(seq, 12).unwrap();
    let keys = &m.sequence(seq).unwrap().keys;
    assert_eq!((keys.len(), keys[0]), (3, key));
    // A first key that hashing would never give: had it been hashed again, this would not hold.
    let hasher = kvframe_core::hash::Hasher::new(HashAlgo::Blake3, SIZE, b"");
    let odd = kvframe_core::Key(42);
    let (mut grown, root) = (vec![odd], hasher.root(kvframe_core::hash::Space::default()));
    hasher.extend(root, &[], &prompt(&[1, 2]), &mut grown);
    assert_eq!((grown.len(), grown[0]), (2, odd));
}
