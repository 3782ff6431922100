//! Rules 3 to 6: nobody writes into what another reads; findable means committed; a hit leaves a
//! token to compute; lookups are pure.

use kvframe_core::events::Kind;
use kvframe_core::hash::Space;
use kvframe_core::pool::State;
use kvframe_core::transfers::BlockCopy;
use kvframe_core::{Error, Limit, NIL, Options, Request};

use crate::common::{
    SIZE, allocate, build, found, open, picture, prompt, refused, request, run, serve, small, table,
};

// scenario: CB-B1
/// CB-B1: whoever writes first copies the tail; the copy is in the plan; the other keeps the page.
#[test]
fn rule_3_fork_copies_before_the_first_write() {
    let mut m = small(8);
    let a = run(&mut m, &open(&[1]));
    let b = m.fork(a).unwrap();
    assert_eq!(table(&m, a), table(&m, b), "a fork costs nothing");
    let (head, tail) = (table(&m, a)[0], table(&m, a)[1]);
    m.append(a, &[5]).unwrap();
    let dst = table(&m, a)[1];
    assert_ne!(dst, tail);
    assert_eq!(table(&m, b), [head, tail]);
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies, [BlockCopy { src: tail, dst, tokens: 1, seq: a, group: 0 }]);
    assert_eq!(m.take_plan(), None);
    // The page is b's alone now (the copy only reads it): b writes in place.
    m.append(b, &[6]).unwrap();
    assert_eq!(table(&m, b), [head, tail]);
    assert_eq!((m.take_plan(), m.stats().copies), (None, 1));
    m.done(plan.ticket).unwrap();
    m.check_integrity().unwrap();
}

#[test]
fn rule_3_each_of_three_forks_but_the_last_copies() {
    let mut m = small(8);
    let a = run(&mut m, &[1, 2]);
    let (b, c) = (m.fork(a).unwrap(), m.fork(a).unwrap());
    for (i, seq) in [a, b, c].into_iter().enumerate() {
        m.append(seq, &[i as u32]).unwrap();
    }
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies.len(), 2);
    let mut pages: Vec<_> = [a, b, c].iter().map(|&s| table(&m, s)[0]).collect();
    assert!(plan.copies.iter().all(|copy| copy.src == pages[2]));
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), 3);
}

/// A cut into a block that others can find: the write goes to a copy, the block stays as it is.
#[test]
fn rule_3_truncate_into_a_published_block_copies() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1, 2]));
    let old = table(&m, a)[1];
    m.truncate(a, 6).unwrap();
    assert_eq!((m.take_plan(), table(&m, a)[1]), (None, old), "a cut alone copies nothing");
    m.append(a, &[77]).unwrap();
    let plan = m.take_plan().unwrap();
    assert_eq!((plan.copies[0].src, plan.copies[0].tokens), (old, 2));
    assert_eq!(m.pool().state(old), State::Committed);
    assert_eq!(found(&m, &open(&[1, 2])), 8, "the old block is findable all along");
    m.done(plan.ticket).unwrap();
    assert_eq!(m.pool().state(old), State::Cached);
    m.append(a, &[78]).unwrap();
    m.commit(a, 8).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 8);
    let mut other = prompt(&[1, 2]);
    other.splice(6.., [77, 78, 0]);
    assert_eq!(found(&m, &other), 8);
    m.check_integrity().unwrap();
}

#[test]
fn rule_3_a_cut_at_a_block_boundary_needs_no_copy() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1, 2]));
    m.truncate(a, 4).unwrap();
    m.append(a, &[7]).unwrap();
    assert_eq!((m.take_plan(), m.stats().copies), (None, 0));
}

/// A page under copy is neither written elsewhere nor given to anybody.
#[test]
fn rule_3_pages_of_a_copy_are_held_until_it_is_settled() {
    let mut m = small(4);
    let a = run(&mut m, &[1, 2]);
    let b = m.fork(a).unwrap();
    m.append(a, &[5]).unwrap();
    m.release(a).unwrap();
    m.release(b).unwrap();
    assert_eq!(m.pool().free(), 2);
    let error = refused(&mut m, &[], |m| allocate(m, &prompt(&[1, 2, 3])));
    assert_eq!(
        error,
        Error::NoCapacity { needed: 3, available: 2, total: 4, limit: Limit::Pool, coming: 0 }
    );
    let plan = m.take_plan().unwrap();
    m.done(plan.ticket).unwrap();
    assert_eq!(m.pool().free(), 4);
}

#[test]
fn rule_4_findable_once_committed_not_when_allocated() {
    let mut m = small(8);
    let a = allocate(&mut m, &open(&[1, 2])).unwrap().seq;
    assert_eq!(found(&m, &open(&[1, 2])), 0);
    m.commit(a, 7).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 4, "seven tokens are one full block");
    assert_eq!(m.pool().state(table(&m, a)[1]), State::Pending);
    m.commit(a, 8).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 8);
    // IL-B8: freed blocks stay findable.
    m.release(a).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 8);
}

// scenario: MK-5
/// MK-5: six tokens of prompt and twelve decoded, each committed: four blocks are cached.
#[test]
fn rule_4_generated_tokens_are_cached() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1, 2])[..6]);
    let mut tokens = prompt(&[1, 2])[..6].to_vec();
    for token in 50..62 {
        m.append(a, &[token]).unwrap();
        tokens.push(token);
        m.commit(a, tokens.len() as u32).unwrap();
        let full = tokens.len() as u32 / SIZE * SIZE;
        let mut longer = tokens.clone();
        longer.push(1);
        assert_eq!(found(&m, &longer), full, "after {} tokens", tokens.len());
    }
    m.release(a).unwrap();
    assert_eq!(m.pool().cached(), 4);
}

#[test]
fn rule_4_drafts_are_not_shared_before_they_are_accepted() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1])[..3]);
    m.append(a, &[7, 8, 9, 10, 11]).unwrap();
    assert_eq!((found(&m, &[100, 101, 102, 7, 8]), m.stats().stored), (0, 0));
    m.commit(a, 4).unwrap();
    m.truncate(a, 4).unwrap();
    m.append(a, &[20, 21, 22, 23]).unwrap();
    m.commit(a, 8).unwrap();
    assert_eq!(found(&m, &[100, 101, 102, 7, 8, 9, 10, 11, 0]), 4, "rejected drafts leave nothing");
    assert_eq!(found(&m, &[100, 101, 102, 7, 20, 21, 22, 23, 0]), 8);
}

/// A page whose copy may still fail is not findable; once it is filled it is.
#[test]
fn rule_4_a_copied_block_waits_for_its_copy() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1])[..2]);
    m.fork(a).unwrap();
    m.append(a, &[5, 6]).unwrap();
    m.commit(a, 4).unwrap();
    assert_eq!(found(&m, &[100, 101, 5, 6, 0]), 0);
    let plan = m.take_plan().unwrap();
    m.done(plan.ticket).unwrap();
    m.release(a).unwrap();
    assert_eq!(found(&m, &[100, 101, 5, 6, 0]), 4);
}

#[test]
fn rule_4_a_failed_copy_is_recomputed_and_counted() {
    let mut m = small(8);
    let a = run(&mut m, &open(&[1]));
    m.fork(a).unwrap();
    m.append(a, &[5, 6, 7]).unwrap();
    m.commit(a, 8).unwrap();
    let plan = m.take_plan().unwrap();
    assert_eq!(m.failed(plan.ticket).unwrap(), [a]);
    let s = m.sequence(a).unwrap();
    assert_eq!((s.len, s.committed, s.known(), m.stats().failed_copies), (4, 4, 8, 1));
    assert_eq!(found(&m, &[100, 101, 102, 103, 9999, 5, 6, 7, 0]), 4);
    m.extend(a, 8).unwrap();
    m.commit(a, 8).unwrap();
    assert_eq!(found(&m, &[100, 101, 102, 103, 9999, 5, 6, 7, 0]), 8);
}

#[test]
fn rule_4_what_is_private_is_never_found() {
    let mut m = small(8);
    let tokens = open(&[1]);
    let a = m.allocate(&Request { write_cache: false, ..request(&tokens) }).unwrap().seq;
    m.commit(a, 5).unwrap();
    m.release(a).unwrap();
    assert_eq!((found(&m, &tokens), m.pool().free()), (0, 8));
    let off = Options { blocks: 8, block_size: SIZE, prefix_caching: false, ..Options::default() };
    let mut m = build(off, "lru");
    assert_eq!((serve(&mut m, &tokens), serve(&mut m, &tokens), m.pool().free()), (0, 0, 8));
}

/// Running sequences keep their blocks through a reset, and leave nothing of the old findable.
#[test]
fn rule_4_a_reset_is_for_good() {
    let mut m = small(8);
    let a = run(&mut m, &prompt(&[1]));
    serve(&mut m, &prompt(&[2, 3]));
    assert_eq!(m.reset_prefix_cache(), 2);
    assert_eq!((found(&m, &open(&[1])), found(&m, &open(&[2]))), (0, 0));
    m.append(a, &prompt(&[5])).unwrap();
    m.commit(a, 8).unwrap();
    m.release(a).unwrap();
    assert_eq!((found(&m, &open(&[1])), m.pool().free()), (0, 8));
    serve(&mut m, &open(&[1]));
    assert_eq!(found(&m, &open(&[1])), 4);
    m.check_integrity().unwrap();
}

/// VT2: one that does not read computes copies; the superfluous one goes when it ends.
#[test]
fn rule_4_a_second_copy_is_freed_with_its_owner() {
    let mut m = small(8);
    serve(&mut m, &prompt(&[1, 2]));
    let tokens = prompt(&[1, 2]);
    let allocation = m.allocate(&Request { read_cache: false, ..request(&tokens) }).unwrap();
    let done = m.commit(allocation.seq, 8).unwrap();
    assert_eq!((allocation.cached_tokens, done.stored, done.duplicates), (0, 2, 2));
    m.release(allocation.seq).unwrap();
    assert_eq!((m.pool().cached(), m.pool().free()), (2, 6));
    assert_eq!(found(&m, &open(&[1, 2])), 8);
    m.check_integrity().unwrap();
}

/// Of two copies the one that others follow stays, or those after it would hang in the air.
#[test]
fn rule_4_a_copy_that_others_follow_stays() {
    let mut m = small(8);
    let a = allocate(&mut m, &prompt(&[1, 2])).unwrap().seq;
    let b = allocate(&mut m, &prompt(&[1])).unwrap().seq;
    m.commit(b, 4).unwrap();
    m.commit(a, 8).unwrap();
    m.release(a).unwrap();
    assert_eq!((m.pool().cached(), found(&m, &open(&[1, 2]))), (2, 8));
    m.release(b).unwrap();
    assert_eq!((m.pool().cached(), m.pool().free()), (2, 6));
    m.check_integrity().unwrap();
}

// scenario: IL-6, V19, T32
/// IL-6, V19, T32: never the whole prompt.
#[test]
fn rule_5_a_hit_leaves_a_token_to_compute() {
    let mut m = small(40);
    serve(&mut m, &prompt(&[1, 2, 3, 4]));
    for len in 1..=16 {
        let hit = allocate(&mut m, &prompt(&[1, 2, 3, 4])[..len]).unwrap();
        assert_eq!(hit.cached_tokens, (len as u32 - 1) / SIZE * SIZE);
        m.release(hit.seq).unwrap();
    }
    assert_eq!(serve(&mut m, &open(&[1, 2, 3, 4])), 16);
    assert_eq!(serve(&mut m, &open(&[1, 2, 9])), 8);
    assert_eq!(serve(&mut m, &[]), 0);
}

/// Trace replay alone may take the whole.
#[test]
fn rule_5_can_be_off_for_replay() {
    let options =
        Options { blocks: 8, block_size: SIZE, compute_last_token: false, ..Options::default() };
    let mut m = build(options, "lru");
    serve(&mut m, &prompt(&[1, 2]));
    assert_eq!(serve(&mut m, &prompt(&[1, 2])), 8);
}

/// MK-10.
#[test]
fn an_empty_prompt_takes_nothing() {
    let mut m = small(2);
    let a = run(&mut m, &[]);
    assert!(table(&m, a).is_empty());
    m.append(a, &[1]).unwrap();
    assert_eq!(table(&m, a).len(), 1);
}

#[test]
fn rule_6_lookup_changes_nothing() {
    let mut m = small(4);
    serve(&mut m, &prompt(&[1, 2]));
    let a = run(&mut m, &open(&[1]));
    m.take_events();
    let before = picture(&m, &[a]);
    for _ in 0..5 {
        assert_eq!(m.lookup(&open(&[1, 2, 3]), Space::default(), &[]).tokens, 8);
        assert_eq!(m.lookup(&open(&[8]), Space::default(), &[]).tokens, 0);
    }
    assert_eq!((picture(&m, &[a]), m.take_events().len()), (before, 0));
    // A look does not refresh: block 2 is the least recently used, and goes.
    m.release(a).unwrap();
    run(&mut m, &open(&[7, 8]));
    let evicted: Vec<_> = m.take_events().into_iter().filter(|e| e.kind == Kind::Evict).collect();
    assert_eq!(evicted[0].key, m.keys(&prompt(&[1, 2]), Space::default(), &[])[1]);
}

#[test]
fn rule_6_each_admission_is_counted_once() {
    let mut m = small(8);
    serve(&mut m, &prompt(&[1, 2]));
    let tokens = open(&[1, 2]);
    let a = m.allocate(&Request { chunk: 0, ..request(&tokens) }).unwrap().seq;
    m.extend(a, 9).unwrap();
    m.commit(a, 9).unwrap();
    let s = m.stats();
    assert_eq!((s.requests, s.prompt_tokens, s.hit_tokens, s.requests_with_hit), (2, 17, 8, 1));
    m.release(a).unwrap();
    m.allocate(&Request { resumed: true, ..request(&tokens) }).unwrap();
    let s = m.stats();
    assert_eq!((s.requests, s.hit_tokens, s.resumed, s.resumed_hit_tokens), (2, 8, 1, 8));
}

/// Of several copies the one with the lowest id is found and counted, wherever the table keeps them:
/// its layout depends on the processor.
// scenario: I10
#[test]
fn of_several_copies_the_lowest_id_is_found() {
    let mut m = small(8);
    let mut lowest = [NIL];
    m.take(&mut lowest).expect("room");
    let tokens = open(&[1]);
    let apart = Request { read_cache: false, ..request(&tokens) };
    for copies in 1..=3 {
        if copies == 3 {
            m.free(&lowest).expect("on loan");
        }
        let allocation = m.allocate(&apart).expect("room");
        m.commit(allocation.seq, 5).expect("granted");
    }
    let hit = m.lookup(&tokens, Space::default(), &[]);
    assert_eq!((m.stats().duplicates, hit.blocks), (2, vec![vec![lowest[0]]]));
}
