//! Rule 11: all layer groups agree on a sequence's length, and a hit is what every group serves.

use kvframe_core::pool::State;
use kvframe_core::{Error, GroupKind, Limit, Manager, NIL, Options, Request};

use crate::common::{SIZE, allocate, build, found, open, prompt, refused, request, run, serve};

fn grouped(blocks: u32, groups: &[GroupKind]) -> Manager {
    let groups = groups.iter().map(|&kind| kind.into()).collect();
    build(Options { blocks, block_size: SIZE, groups, ..Options::default() }, "lru")
}

fn window(tokens: u32) -> GroupKind {
    GroupKind::SlidingWindow { window: tokens }
}

const FULL: GroupKind = GroupKind::Full;

// scenario: MK-B2
/// MK-B2: a block lost in one group shortens the hit of both.
#[test]
fn rule_11_two_full_groups_serve_the_shorter_prefix() {
    let mut m = grouped(8, &[FULL, FULL]);
    serve(&mut m, &prompt(&[1, 2, 3]));
    assert_eq!(found(&m, &open(&[1, 2, 3])), 12);
    let mut loan = [NIL; 3];
    m.take(&mut loan).unwrap();
    let hit = m.lookup(&open(&[1, 2, 3]), kvframe_core::hash::Space::default(), &[]);
    assert_eq!(hit.tokens, 8, "one group lost its third block");
    assert_eq!(hit.blocks.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    let allocation = m.allocate(&Request { chunk: 0, ..request(&open(&[1, 2, 3])) }).unwrap();
    let tables = &m.sequence(allocation.seq).unwrap().tables;
    assert_eq!((allocation.cached_tokens, tables[0].len(), tables[1].len()), (8, 2, 2));
    m.check_integrity().unwrap();
}

/// A block of one group is never found for another, though tokens and prefix are the same.
#[test]
fn rule_11_groups_do_not_share_blocks() {
    let mut m = grouped(16, &[FULL, FULL, window(8)]);
    let seq = run(&mut m, &open(&[1]));
    let tables = m.sequence(seq).unwrap().tables.clone();
    let mut blocks: Vec<_> = tables.iter().flatten().copied().collect();
    let hit = m.lookup(&open(&[1]), kvframe_core::hash::Space::default(), &[]);
    for (group, found) in hit.blocks.iter().enumerate() {
        assert_eq!(found[..], tables[group][..1]);
        assert_eq!(m.pool().group(found[0]) as usize, group);
    }
    let count = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), count);
}

// scenario: MK-B1, MK-B6
/// MK-B1, MK-B6: want of room in any group refuses all of them.
#[test]
fn rule_11_growth_is_for_all_groups_or_none() {
    let mut m = grouped(5, &[FULL, FULL]);
    let a = run(&mut m, &prompt(&[1]));
    let b = run(&mut m, &prompt(&[2]));
    let error = refused(&mut m, &[a, b], |m| m.append(a, &[1]));
    assert_eq!(
        error,
        Error::NoCapacity { needed: 2, available: 1, total: 5, limit: Limit::Pool, coming: 0 }
    );
    m.release(b).unwrap();
    m.append(a, &[1]).unwrap();
    assert!(m.sequence(a).unwrap().tables.iter().all(|t| t.len() == 2));
    let error = refused(&mut m, &[a], |m| m.append(a, &prompt(&[5, 6])));
    assert!(matches!(error, Error::NeverFits { needed: 8, total: 5, .. }), "{error}");
}

#[test]
fn rule_11_a_copy_is_made_in_every_group() {
    let mut m = grouped(8, &[FULL, FULL]);
    let a = run(&mut m, &[1, 2]);
    m.fork(a).unwrap();
    m.append(a, &[3]).unwrap();
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies.iter().map(|c| c.group).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(m.failed(plan.ticket).unwrap(), [a]);
    assert!(m.sequence(a).unwrap().tables.iter().all(|table| table.is_empty()));
    m.check_integrity().unwrap();
}

/// VT37: which entries a window gives up, at each length.
#[test]
fn rule_11_blocks_that_left_the_window_are_free() {
    // (window, committed, entries given up): the next token sits at `committed`.
    let cases = [
        (1, 3, 0),
        (1, 4, 1),
        (1, 8, 2),
        (2, 4, 0),
        (2, 5, 1),
        (4, 6, 0),
        (4, 7, 1),
        (4, 8, 1),
        (5, 7, 0),
        (5, 8, 1),
        (8, 10, 0),
        (8, 11, 1),
        (9, 12, 1),
        (100, 12, 0),
    ];
    for (tokens, committed, gone) in cases {
        let mut m = grouped(16, &[FULL, window(tokens)]);
        let seq = allocate(&mut m, &prompt(&[1, 2, 3])).unwrap().seq;
        m.commit(seq, committed).unwrap();
        let table = &m.sequence(seq).unwrap().tables[1];
        let given_up = table.iter().take_while(|&&b| b == NIL).count();
        assert_eq!(given_up, gone, "window {tokens} at {committed}");
        assert!(table[gone..].iter().all(|&b| b != NIL));
        // A window of one token needs nothing before it, so nothing of it is worth being found.
        let findable = if tokens > 1 { gone } else { 0 };
        assert_eq!(m.pool().cached() as usize, findable, "what was full stays findable");
        m.check_integrity().unwrap();
    }
}

/// VT35: a hit needs the last window only; before it lie gaps.
#[test]
fn rule_11_a_hit_needs_the_last_window() {
    for (tokens, held) in [(1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (9, 2), (10, 3), (100, 4)] {
        let mut m = grouped(64, &[FULL, window(tokens)]);
        serve(&mut m, &prompt(&[1, 2, 3, 4]));
        let hit = m.lookup(&open(&[1, 2, 3, 4]), kvframe_core::hash::Space::default(), &[]);
        let gaps = hit.blocks[1].iter().filter(|&&b| b == NIL).count();
        assert_eq!((hit.tokens, gaps), (16, 4 - held), "window {tokens}");
        let allocation = allocate(&mut m, &open(&[1, 2, 3, 4])).unwrap();
        assert_eq!(allocation.cached_tokens, 16);
        m.commit(allocation.seq, 17).unwrap();
        m.check_integrity().unwrap();
    }
}

/// A window's block may go before those after it; then shorter hits are served, or longer ones.
#[test]
fn rule_11_a_gap_in_a_window_shortens_the_hit() {
    let mut m = grouped(32, &[FULL, window(5)]);
    let seq = allocate(&mut m, &prompt(&[1, 2, 3, 4])).unwrap().seq;
    m.commit(seq, 16).unwrap();
    let cached = m.eviction_order(u32::MAX);
    assert_eq!(cached.len(), 3, "three blocks left the window, the latest first in line");
    let last = m.sequence(seq).unwrap().tables[1][3];
    m.release(seq).unwrap();
    let state = |m: &Manager, block| m.pool().state(block);
    assert_eq!(state(&m, last), State::Cached);
    // Kill blocks one by one: at each point, lookup says exactly what both groups can serve.
    for _ in 0..8 {
        let mut loan = vec![NIL; m.pool().free() as usize + 1];
        m.take(&mut loan).unwrap();
        let hit = m.lookup(&open(&[1, 2, 3, 4]), kvframe_core::hash::Space::default(), &[]);
        let count = hit.tokens / SIZE;
        if count > 0 {
            assert_ne!(hit.blocks[1][count as usize - 1], NIL, "the last window is there");
        }
        assert!(hit.blocks[0].iter().all(|&b| b != NIL));
        m.check_integrity().unwrap();
    }
    assert_eq!(found(&m, &open(&[1, 2, 3, 4])), 0);
}

/// Long decoding in a small pool: full blocks bound it, windows do not.
#[test]
fn rule_11_windows_hold_no_more_than_they_need() {
    let mut m = grouped(12, &[window(4), window(9)]);
    let seq = run(&mut m, &[1]);
    for len in 2..200 {
        m.append(seq, &[len]).unwrap();
        m.commit(seq, len).unwrap();
        assert!(m.pool().referenced() <= 2 + 4, "at {len}: {}", m.pool().referenced());
    }
    m.check_integrity().unwrap();
}
