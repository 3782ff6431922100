//! Defects that were found by reading and by random operations, each as the shortest way to it.

mod common;

use common::{SIZE, allocate, build, open, prompt, refused, request, run, serve, small, table};
use kvframe_core::hash::MmItem;
use kvframe_core::manager::{Ids, Step};
use kvframe_core::pool::State;
use kvframe_core::{Error, GroupKind, Key, Manager, NIL, Options, Request};

fn grouped(blocks: u32, groups: &[GroupKind]) -> Manager {
    let groups = groups.iter().map(|&kind| kind.into()).collect();
    build(Options { blocks, block_size: SIZE, groups, ..Options::default() }, "lru")
}

fn window(tokens: u32) -> GroupKind {
    GroupKind::SlidingWindow { window: tokens }
}

/// What the next token of a window group attends to was given up; a cut to there leaves no page to
/// read or write.
#[test]
fn a_cut_behind_the_window_is_refused() {
    let mut m = grouped(40, &[GroupKind::Full, window(4)]);
    let seq = run(&mut m, &open(&[1, 2, 3, 4, 5]));
    let error = refused(&mut m, &[seq], |m| m.truncate(seq, 6));
    assert!(matches!(error, Error::Invalid { what: "truncate", .. }), "{error}");
    // Where every group still has its window, or nothing is left at all, it works.
    m.truncate(seq, 20).unwrap();
    m.truncate(seq, 0).unwrap();
    m.append(seq, &prompt(&[7])).unwrap();
    assert!(!m.sequence(seq).unwrap().tables[1].contains(&NIL));
}

/// The same when a copy fails: the sequence goes back to a length that all groups can serve.
#[test]
fn a_failed_copy_behind_the_window_goes_back_further() {
    let mut m = grouped(60, &[GroupKind::Full, window(4)]);
    let seq = run(&mut m, &prompt(&[1, 2, 3])[..10]);
    m.fork(seq).unwrap();
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    m.append(seq, &prompt(&[7, 8, 9])).unwrap();
    let len = m.sequence(seq).unwrap().len;
    m.commit(seq, len).unwrap();
    m.failed(plan.ticket).unwrap();
    let s = m.sequence(seq).unwrap();
    let needed = ((s.committed + 1).saturating_sub(4) / SIZE) as usize;
    let missing = s.tables[1].get(needed..).unwrap_or(&[]).contains(&NIL);
    assert!(!missing, "{} tokens, {:?}", s.committed, s.tables);
}

/// The window may have left the page by the time its copy is known to have failed; what was computed
/// over it is worthless all the same.
#[test]
fn a_failed_copy_is_found_after_the_window_has_left_it() {
    let mut m = grouped(40, &[window(4)]);
    let seq = run(&mut m, &prompt(&[1])[..2]);
    m.fork(seq).unwrap();
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    m.append(seq, &prompt(&[7, 8, 9])).unwrap();
    m.commit(seq, 15).unwrap();
    m.failed(plan.ticket).unwrap();
    assert_eq!(m.sequence(seq).unwrap().committed, 0);
    m.check_integrity().unwrap();
}

/// Two sequences compute one head at once and go on differently: both copies of the head stay. A
/// hit must be one chain, or a block is owned while the one it follows is not.
#[test]
fn a_hit_is_one_chain() {
    for first in [[1, 2], [1, 3]] {
        let mut m = small(8);
        let a = allocate(&mut m, &prompt(&[1, 2])).unwrap().seq;
        let b = allocate(&mut m, &prompt(&[1, 3])).unwrap().seq;
        m.commit(a, 8).unwrap();
        m.commit(b, 8).unwrap();
        m.release(a).unwrap();
        m.release(b).unwrap();
        let hit = allocate(&mut m, &open(&first)).unwrap();
        assert_eq!(hit.cached_tokens, 8);
        m.check_integrity().unwrap();
    }
}

/// What is counted as room can be had, though a copy under way holds a block inside a prefix.
#[test]
fn room_behind_a_copy_under_way_is_not_counted() {
    let mut m = small(4);
    let seq = run(&mut m, &prompt(&[1, 2]));
    m.truncate(seq, 6).unwrap();
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    m.release(seq).unwrap();
    m.check_integrity().unwrap();
    match allocate(&mut m, &prompt(&[7, 8])) {
        Ok(allocation) => assert_eq!(allocation.granted_tokens, 8, "less than the whole prompt"),
        Err(error) => assert!(matches!(error, Error::NoCapacity { .. }), "{error}"),
    }
    m.done(plan.ticket).unwrap();
    m.check_integrity().unwrap();
}

/// One settled ticket lets go of two blocks under one key: the copy that stays has one place.
#[test]
fn a_ticket_over_two_copies_of_a_block() {
    let mut m = small(12);
    let a = allocate(&mut m, &prompt(&[1, 2])).unwrap().seq;
    let b = allocate(&mut m, &prompt(&[1])).unwrap().seq;
    m.commit(a, 8).unwrap();
    m.commit(b, 4).unwrap();
    for seq in [a, b] {
        m.truncate(seq, 2).unwrap();
        m.append(seq, &[77]).unwrap();
    }
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies.len(), 2);
    m.done(plan.ticket).unwrap();
    m.check_integrity().unwrap();
}

/// A step is checked against what its own earlier parts will do.
#[test]
fn a_step_that_contradicts_itself_changes_nothing() {
    let mut m = small(16);
    let a = run(&mut m, &prompt(&[1, 2]));
    let b = run(&mut m, &prompt(&[3]));
    let twice = Step { release: &[b], commit: &[(a, 8), (a, 8)], ..Step::default() };
    let backwards = Step { commit: &[(a, 8), (a, 7)], ..twice };
    refused(&mut m, &[a, b], |m| m.step(&backwards));
    let longer = Step { release: &[b], truncate: &[(a, 4), (a, 6)], ..Step::default() };
    refused(&mut m, &[a, b], |m| m.step(&longer));
    // Growing twice would tell the first one's slots and tables of both.
    let token = Ids::Known(&[7]);
    let append = Step { release: &[b], append: &[(a, token), (a, token)], ..Step::default() };
    let extend = Step { extend: &[(a, 8), (a, 8)], ..Step::default() };
    for step in
        [append, extend, Step { append: &[(a, Ids::Known(&[]))], extend: &[(a, 8)], ..extend }]
    {
        let told = refused(&mut m, &[a, b], |m| m.step(&step));
        assert!(matches!(told, Error::Invalid { what: "append" | "extend", .. }), "{told}");
    }
}

/// A failed ticket of somebody else excuses nothing.
#[test]
fn a_step_with_a_failed_ticket_is_checked_all_the_same() {
    let mut m = small(16);
    let a = run(&mut m, &prompt(&[1, 2])[..6]);
    m.fork(a).unwrap();
    m.append(a, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    let b = run(&mut m, &prompt(&[3]));
    let failed = [plan.ticket];
    let step = Step { failed: &failed, commit: &[(b, 2)], ..Step::default() };
    refused(&mut m, &[a, b], |m| m.step(&step));
    // The cut the engine asks for is deeper than it knows: fine, the shorter length holds.
    let step = Step { failed: &failed, truncate: &[(a, 6)], ..Step::default() };
    m.step(&step).unwrap();
    let s = m.sequence(a).unwrap();
    assert_eq!((s.len, s.known()), (4, 6));
    m.check_integrity().unwrap();
}

/// A page copied from one that was never filled is no better.
#[test]
fn a_failed_copy_takes_the_copies_of_its_page_with_it() {
    for done_first in [false, true] {
        let mut m = small(16);
        let a = run(&mut m, &prompt(&[1])[..2]);
        m.fork(a).unwrap();
        m.append(a, &[5]).unwrap();
        let first = m.take_plan().unwrap();
        let c = m.fork(a).unwrap();
        m.append(c, &[6]).unwrap();
        let second = m.take_plan().unwrap();
        if done_first {
            m.done(second.ticket).unwrap();
        }
        m.commit(c, 4).unwrap();
        let held = table(&m, c)[0];
        assert_eq!(m.pool().state(held), State::Pending, "findable before its source is filled");
        m.failed(first.ticket).unwrap();
        if !done_first {
            m.done(second.ticket).unwrap();
        }
        assert_eq!(m.sequence(c).unwrap().committed, 0, "it stands on a page never filled");
        m.check_integrity().unwrap();
    }
}

/// Every group's KV is computed over every other's: nothing after an unsettled page is findable.
#[test]
fn no_group_publishes_past_a_page_under_copy() {
    let mut m = grouped(40, &[GroupKind::Full, window(4)]);
    let seq = run(&mut m, &prompt(&[1, 2, 3])[..10]);
    m.truncate(seq, 10).unwrap();
    let twin = m.fork(seq).unwrap();
    // The twin lets its window's block go, so that only the full group is copied.
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    m.append(seq, &prompt(&[7, 8])).unwrap();
    m.commit(seq, 16).unwrap();
    for group in 0..2 {
        let t = &m.sequence(seq).unwrap().tables[group];
        for &block in t[2..].iter().filter(|&&b| b != NIL) {
            assert_eq!(m.pool().state(block), State::Pending, "group {group}, block {block}");
        }
    }
    m.done(plan.ticket).unwrap();
    m.release(twin).unwrap();
    m.check_integrity().unwrap();
}

/// A model of windows alone runs for ever in a small pool.
#[test]
fn windows_alone_are_not_bounded_by_the_pool() {
    let mut m = grouped(4, &[window(4)]);
    let seq = run(&mut m, &[1]);
    for len in 2..100 {
        m.append(seq, &[len]).unwrap();
        m.commit(seq, len).unwrap();
    }
    m.check_integrity().unwrap();
}

/// Counting rows of sixteen groups does not wrap.
#[test]
fn a_long_partial_request_is_counted_in_full() {
    let groups = vec![GroupKind::Full.into(); 16];
    let options = Options { blocks: 32, block_size: 1, groups, ..Options::default() };
    let mut m = build(options, "lru");
    let request = Request { num_tokens: 1 << 28, partial: true, chunk: 0, ..Request::default() };
    let seq = m.allocate(&request).unwrap().seq;
    let error = refused(&mut m, &[seq], |m| m.extend(seq, 1 << 28));
    assert!(matches!(error, Error::NeverFits { needed: 0x1_0000_0000, total: 32, .. }), "{error}");
}

/// Items that were cut off do not lend their name to the tokens that come instead.
#[test]
fn a_cut_item_is_no_part_of_later_keys() {
    let mut m = small(16);
    let image = MmItem { start: 4, end: 8, id: vec![1] };
    let (tokens, mm_items) = (prompt(&[1, 2]), [image]);
    let seq = m.allocate(&Request { mm_items: mm_items.to_vec(), ..request(&tokens) }).unwrap().seq;
    m.commit(seq, 8).unwrap();
    m.truncate(seq, 4).unwrap();
    m.append(seq, &prompt(&[2])).unwrap();
    m.commit(seq, 8).unwrap();
    // The second block is plain text now, and is found as such.
    assert_eq!(common::found(&m, &open(&[1, 2])), 8);
}

/// More keys than the prompt has full blocks would name blocks by tokens they do not hold.
#[test]
fn keys_past_the_prompt_are_refused() {
    let mut m = small(16);
    let tokens = prompt(&[1]);
    let keys = [Key(1), Key(2)];
    let bad = Request { keys: keys.to_vec(), ..request(&tokens) };
    let error = refused(&mut m, &[], |m| m.allocate(&bad));
    assert!(matches!(error, Error::Invalid { what: "keys", .. }), "{error}");
}

/// A request whose first allocation is larger than the pool can never come in, windows or not.
#[test]
fn a_grant_larger_than_the_pool_never_fits() {
    let mut m = grouped(8, &[GroupKind::Full, window(4)]);
    let error = refused(&mut m, &[], |m| allocate(m, &prompt(&[1, 2, 3, 4, 5, 6])));
    assert!(matches!(error, Error::NeverFits { needed: 12, total: 8, .. }), "{error}");
    // Nor one whose last chunk is, beside what came before.
    let chunked = prompt(&[1, 2, 3, 4, 5, 6]);
    let in_steps_of = |chunk| Request { chunk, ..request(&chunked) };
    let error = refused(&mut m, &[], |m| m.allocate(&in_steps_of(8)));
    assert!(matches!(error, Error::NeverFits { needed: 9, total: 8, .. }), "{error}");
    m.allocate(&in_steps_of(4)).unwrap();
}

/// Two groups and one block to be had: nothing is evicted for a row that does not fit.
#[test]
fn a_partial_grant_evicts_nothing_for_half_a_row() {
    let mut m = grouped(5, &[GroupKind::Full, GroupKind::Full]);
    serve(&mut m, &prompt(&[1]));
    let mut loans = [0; 2];
    m.take(&mut loans).unwrap();
    let tokens = prompt(&[7, 8]);
    let evictions = m.stats().evictions;
    let allocation = m.allocate(&Request { partial: true, ..request(&tokens) }).unwrap();
    assert_eq!(allocation.granted_tokens, 4);
    let expected = m.stats().evictions - evictions;
    assert_eq!((expected, m.pool().cached()), (1, 1), "one block was evicted, one stays");
    m.check_integrity().unwrap();
}

// scenario: FE-B15
/// The policy keeps what the second group would need: the block that the first one got goes back.
#[test]
fn half_a_row_that_the_policy_refuses_goes_back() {
    let groups = vec![GroupKind::Full.into(); 2];
    let mut m = build(Options { blocks: 3, block_size: SIZE, groups, ..Options::default() }, "opt");
    let (near, far) = (prompt(&[1]), prompt(&[7]));
    let first = m.allocate(&Request { next_use: vec![5], ..request(&near) }).unwrap();
    m.commit(first.seq, SIZE).unwrap();
    m.release(first.seq).unwrap();
    let later = Request { next_use: vec![9], partial: true, ..request(&far) };
    assert_eq!(m.allocate(&later).unwrap().granted_tokens, 0);
    assert_eq!((m.pool().free(), m.pool().cached()), (1, 2));
    m.check_integrity().unwrap();
}
