//! What is given up and when, and what is left of it.

use super::common::{SIZE, allocate, build, found, open, prompt, refused, request, run};
use super::helpers::{FULL, STATE, chunked, group, grouped, kept, sink, window};
use kvframe_core::policy::{External, Subscriptions};
use kvframe_core::{Group, GroupKind, Manager, NIL, Options, Request};
use std::time::Instant;

// scenario: VT37
/// Which entries are given up at each length, the latest first.
#[test]
fn what_no_token_attends_to_is_given_up_tail_first() {
    let cases: &[(GroupKind, u32, &[usize])] = &[
        (chunked(8), 7, &[0, 1, 2]),
        (chunked(8), 8, &[2]),
        (chunked(8), 11, &[2]),
        (chunked(6), 5, &[0, 1, 2]),
        (chunked(6), 6, &[1, 2]),
        (chunked(6), 12, &[]),
        (STATE, 1, &[0, 1, 2]),
        (STATE, 4, &[0, 1, 2]),
        (STATE, 5, &[1, 2]),
        (STATE, 9, &[2]),
        (STATE, 12, &[2]),
        (sink(4, 4), 8, &[0, 1, 2]),
        (sink(4, 4), 12, &[0, 2]),
        (sink(0, 4), 12, &[2]),
    ];
    for &(kind, committed, entries) in cases {
        let mut m = grouped(16, &[group(FULL), group(kind)]);
        let seq = allocate(&mut m, &prompt(&[1, 2, 3])).unwrap().seq;
        let table = m.sequence(seq).unwrap().tables[1].clone();
        let freed = m.commit(seq, committed).unwrap().freed as usize;
        assert_eq!(kept(&m, seq, 1), entries, "{kind:?} at {committed}");
        assert_eq!(freed, 3 - entries.len());
        // Of what was worth finding, what no end of the prompt needs is the first in line, the latest
        // of that first.
        let gone = table.iter().rev().filter(|&&b| m.pool().depth(b) < 3 && m.pool().refs(b) == 0);
        let mut cached: Vec<_> = gone.copied().filter(|&b| m.pool().is_evictable(b)).collect();
        cached.sort_by_key(|&block| m.pool().priority(block));
        assert_eq!(m.eviction_order(u32::MAX), cached);
        m.check_integrity().unwrap();
    }
}

/// Where no block of a group needs the one before it, the order of release alone decides: of those that
/// leave together with one priority the tail is evicted first, since every longer hit needs the head.
#[test]
fn of_blocks_that_leave_together_the_tail_is_evicted_first() {
    // Out of a window, then all at once.
    for (tokens, blocks, ends) in [(4, 6, false), (20, 4, true)] {
        let mut m = grouped(16, &[group(window(tokens))]);
        let text: Vec<u32> = (1..=blocks).collect();
        let seq = allocate(&mut m, &prompt(&text)).unwrap().seq;
        let table = m.sequence(seq).unwrap().tables[0].clone();
        m.commit(seq, blocks * SIZE).unwrap();
        if ends {
            m.release(seq).unwrap();
        }
        let mut left: Vec<_> =
            table.iter().rev().copied().filter(|&b| m.pool().refs(b) == 0).collect();
        left.sort_by_key(|&block| m.pool().priority(block));
        assert!(left.len() > 3, "{left:?}");
        assert_eq!(m.eviction_order(u32::MAX), left, "{tokens} tokens");
        m.check_integrity().unwrap();
    }
}

// scenario: CB-B3, CB-B17
/// The figures: sink and window keep block i iff i*bs < sink or (i+1)*bs > n - window.
#[test]
fn sink_and_window_keep_the_right_blocks() {
    let upto = |from: usize, to: usize| (from..=to).collect::<Vec<_>>();
    let cases = [
        (256, 4, 64, [vec![0], upto(12, 15)].concat()),
        (256, 16, 64, [vec![0], upto(12, 15)].concat()),
        (256, 0, 64, upto(12, 15)),
        (250, 4, 64, [vec![0], upto(11, 15)].concat()),
        (100, 4, 60, [vec![0], upto(2, 6)].concat()),
        (1000, 4, 512, [vec![0], upto(30, 62)].concat()),
        (33, 1, 16, upto(0, 2)),
        (48, 16, 16, vec![0, 2]),
        (70, 4, 48, upto(0, 4)),
    ];
    for (n, front, tokens, blocks) in cases {
        let groups = vec![sink(front, tokens).into()];
        let mut m = build(Options { blocks: 64, groups, ..Options::default() }, "lru");
        let text: Vec<u32> = (0..n).collect();
        let seq = run(&mut m, &text);
        assert_eq!(kept(&m, seq, 0), blocks, "{n} tokens, sink {front}, window {tokens}");
        m.check_integrity().unwrap();
    }
}

// scenario: CB-B4
/// Places stay absolute: what is appended goes where it belongs, and what is masked is told.
#[test]
fn places_stay_absolute_behind_a_sink() {
    let groups = vec![sink(4, 62).into()];
    let mut m = build(Options { blocks: 64, groups, ..Options::default() }, "lru");
    let text: Vec<u32> = (0..256).collect();
    let seq = run(&mut m, &text);
    let sight = m.visible_range(seq, 0).unwrap();
    assert_eq!(sight.visible, [0..4, 194..256]);
    assert_eq!(sight.masked, [4..16, 192..194]);
    assert_eq!(sight.blocks, 5);
    // The last block is full: ten more tokens take the seventeenth place.
    m.append(seq, &[7; 10]).unwrap();
    let table = &m.sequence(seq).unwrap().tables[0];
    assert_eq!((table.len(), table[16] != NIL), (17, true));
    m.check_integrity().unwrap();
}

// scenario: CB-B5
/// What is shared frees nothing.
#[test]
fn only_what_nobody_else_holds_is_told_as_freed() {
    let mut m = grouped(32, &[group(sink(4, 4))]);
    let allocation =
        m.allocate(&Request { write_cache: false, ..request(&prompt(&[1, 2, 3, 4, 5])) }).unwrap();
    let twin = allocation.seq;
    m.commit(twin, 8).unwrap();
    m.truncate(twin, 8).unwrap();
    let seq = m.fork(twin).unwrap();
    m.append(seq, &prompt(&[3, 4, 5])).unwrap();
    let used = m.pool().referenced();
    assert_eq!(m.commit(seq, 16).unwrap().freed, 1, "its own third block, not the shared second");
    assert_eq!(m.pool().referenced(), used - 1);
    m.append(twin, &prompt(&[6, 7])).unwrap();
    assert_eq!(m.commit(twin, 16).unwrap().freed, 2);
    m.check_integrity().unwrap();
}

/// Once something was cut, later tokens are computed without it: nobody finds them by the prefix.
#[test]
fn what_is_computed_behind_a_cut_is_not_published() {
    let mut m = grouped(64, &[group(FULL), group(sink(4, 4))]);
    let text = prompt(&[1, 2, 3, 4, 5, 6]);
    let seq = allocate(&mut m, &text).unwrap().seq;
    m.commit(seq, 12).unwrap();
    m.commit(seq, 24).unwrap();
    m.release(seq).unwrap();
    assert_eq!(found(&m, &open(&[1, 2, 3, 4, 5, 6])), 12);
    // One that comes in over the gap is cut from the start.
    let next = run(&mut m, &open(&[1, 2, 3, 7, 8]));
    assert_eq!(m.sequence(next).unwrap().cached, 12);
    m.release(next).unwrap();
    assert_eq!(found(&m, &open(&[1, 2, 3, 7, 8])), 12);
    m.check_integrity().unwrap();
}

/// A state is where it is: a cut goes to the end of a kept block, or to what is computed.
#[test]
fn a_state_cannot_be_wound_back() {
    let mut m = grouped(32, &[group(STATE)]);
    let seq = run(&mut m, &open(&[1, 2]));
    refused(&mut m, &[seq], |m| m.truncate(seq, 7));
    refused(&mut m, &[seq], |m| m.truncate(seq, 8));
    m.append(seq, &[1, 2]).unwrap();
    refused(&mut m, &[seq], |m| m.fork(seq));
    m.truncate(seq, 9).unwrap();
    let twin = m.fork(seq).unwrap();
    m.append(twin, &[3]).unwrap();
    assert_eq!(m.take_plan().unwrap().copies.len(), 1);
    m.check_integrity().unwrap();
}

// scenario: VT31
/// Blocks that nobody could find go before those that are cached, whatever order they came in.
#[test]
fn scratch_blocks_are_used_before_cached_ones() {
    let mut m =
        grouped(8, &[Group { units: 1, ..window(5).into() }, Group { units: 4, ..FULL.into() }]);
    let seq = allocate(&mut m, &prompt(&[1, 2, 3, 4])).unwrap().seq;
    let table = m.sequence(seq).unwrap().tables[0].clone();
    m.commit(seq, 16).unwrap();
    let free = m.pool().free_list().to_vec();
    assert!(table[..3].iter().all(|b| free.contains(b)), "no hit ends at 4, 8 or 12");
    m.release(seq).unwrap();
    assert_eq!(m.pool().cached(), 2, "what a hit at 16 needs");
    let evictions = m.stats().evictions;
    let mut loan = [NIL; 6];
    m.take(&mut loan).unwrap();
    assert_eq!(m.stats().evictions, evictions);
}

// scenario: CB-B17
/// Eight times the blocks take about eight times as long to give up, not sixty-four times.
#[test]
fn giving_up_is_one_pass() {
    let once = |blocks: u32| {
        let groups = vec![sink(SIZE, SIZE).into()];
        let options = Options { blocks, block_size: SIZE, groups, ..Options::default() };
        let mut m =
            Manager::new(options, Box::new(External::new(Subscriptions::default()))).unwrap();
        let text: Vec<u32> = (0..blocks * SIZE).collect();
        let request = Request { read_cache: false, write_cache: false, ..request(&text) };
        let seq = m.allocate(&request).unwrap().seq;
        let start = Instant::now();
        assert_eq!(m.commit(seq, text.len() as u32).unwrap().freed, blocks - 2);
        start.elapsed()
    };
    // On a machine that does other things as well, once in so many turns.
    let is_one_pass = (0..10).any(|_| once(32_000) < once(4_000) * 24);
    assert!(is_one_pass, "32,000 blocks took 24 times as long as 4,000, or longer, each time");
}
