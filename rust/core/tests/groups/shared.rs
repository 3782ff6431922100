//! What sequences share, copy and are counted for.

use super::common::{allocate, open, prompt, refused, request, run, serve};
use super::helpers::{FULL, STATE, chunked, group, grouped, sink, window};
use kvframe_core::hash::Space;
use kvframe_core::{Error, Group, GroupKind, Manager, NIL, Request};

/// A fork copies what the lagging group has yet to write.
#[test]
fn a_fork_copies_what_lags() {
    let mut m = grouped(64, &[group(FULL), Group { lag: 2, ..FULL.into() }]);
    let seq = run(&mut m, &prompt(&[1, 2]));
    m.fork(seq).unwrap();
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies.iter().map(|c| c.group).collect::<Vec<_>>(), [1]);
    m.check_integrity().unwrap();
}

/// After a cut, a lagging group writes once more what it has computed, and what is found by then: a
/// block of its own first, or a lost copy in another group would spoil what others find.
// scenario: I3
#[test]
fn a_cut_copies_what_lags_and_is_found() {
    let mut m = grouped(64, &[group(FULL), Group { lag: 2, ..FULL.into() }]);
    let seq = run(&mut m, &prompt(&[1, 2]));
    m.truncate(seq, 4).unwrap();
    let found = m.sequence(seq).unwrap().tables[1][0];
    assert!(m.pool().is_findable(found));
    m.append(seq, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    assert_eq!(plan.copies.iter().map(|c| (c.group, c.src)).collect::<Vec<_>>(), [(1, found)]);
    assert!(!m.pool().is_findable(m.sequence(seq).unwrap().tables[1][0]));
    m.check_integrity().unwrap();
}

/// What a load brings was computed over another copy of the input: the blocks here are still empty.
#[test]
fn another_input_is_not_found_before_it_was_read_here() {
    let mut m = grouped(32, &[group(FULL), group(GroupKind::Cross)]);
    let space = Space { encoder: b"audio", ..Space::default() };
    let text = prompt(&[1, 2, 3]);
    let ask = Request { encoder_tokens: 6, num_external_tokens: 8, ..request(&text) }.within(space);
    let first = m.allocate(&ask).unwrap();
    m.done(first.load.unwrap()).unwrap();
    let twin = m.fork(first.seq).unwrap();
    m.commit(twin, 8).unwrap();
    let other = prompt(&[4]);
    let again = Request { num_external_tokens: 0, tokens: other, ..ask };
    assert!(!m.allocate(&again).unwrap().encoder_cached);
    m.commit(first.seq, 12).unwrap();
    assert!(m.allocate(&again).unwrap().encoder_cached);
    m.check_integrity().unwrap();
}

/// Another input's blocks: fixed, shared by content alone, gone with the sequence.
#[test]
fn another_input_is_shared_by_its_content() {
    let mut m = grouped(64, &[group(FULL), group(GroupKind::Cross)]);
    let text = open(&[1]);
    let request = |encoder: &[u8]| Request {
        encoder: encoder.to_vec(),
        encoder_tokens: 10,
        ..request(&text)
    };
    let first = m.allocate(&request(b"a")).unwrap();
    assert!(!first.encoder_cached);
    m.commit(first.seq, 5).unwrap();
    m.append(first.seq, &prompt(&[2, 3])).unwrap();
    assert_eq!(m.sequence(first.seq).unwrap().tables[1].len(), 3, "it never grows");
    let same = m.allocate(&request(b"a")).unwrap();
    assert!(same.encoder_cached && same.cached_tokens == 4);
    let table = |m: &Manager, seq| m.sequence(seq).unwrap().tables[1].clone();
    assert_eq!(table(&m, same.seq), table(&m, first.seq));
    let other = m.allocate(&request(b"b")).unwrap();
    assert!(!other.encoder_cached && other.cached_tokens == 0);
    for encoder in [&b""[..], b""] {
        let nameless = m.allocate(&request(encoder)).unwrap();
        assert!(!nameless.encoder_cached && nameless.cached_tokens == 0);
        m.commit(nameless.seq, 5).unwrap();
        m.release(nameless.seq).unwrap();
    }
    for seq in [first.seq, same.seq, other.seq] {
        m.release(seq).unwrap();
    }
    m.reset_prefix_cache();
    assert_eq!(m.pool().free(), 64);
    let mut plain = grouped(8, &[group(FULL)]);
    refused(&mut plain, &[], |m| m.allocate(&request(b"a")));
}

// scenario: VT38, VT40, V11
/// What is counted before is what is taken, in every mix.
#[test]
fn what_is_counted_is_what_is_taken() {
    let mixes = [
        vec![group(FULL), group(STATE), group(window(6))],
        vec![Group { units: 2, ..FULL.into() }, group(chunked(8)), group(sink(4, 4))],
        vec![Group { units: 3, ..STATE.into() }, Group { lag: 1, ..FULL.into() }],
    ];
    for groups in mixes {
        let mut m = grouped(200, &groups);
        serve(&mut m, &open(&[1, 2, 3, 4, 5, 6, 7]));
        for blocks in [&[1, 2, 3, 4, 5, 6, 7][..], &[1, 2, 3, 9, 9, 9], &[8, 8]] {
            let text = open(blocks);
            let hit = m.lookup(&text, Space::default(), &[]);
            let entries: usize = hit.blocks.iter().map(Vec::len).sum();
            let predicted = m.layout().blocks(text.len() as u32, 0) - entries as u64;
            let before = m.stats().allocated;
            let allocation = allocate(&mut m, &text).unwrap();
            assert_eq!(m.stats().allocated - before, predicted, "{groups:?}");
            let tables = &m.sequence(allocation.seq).unwrap().tables;
            let mut ids: Vec<_> = tables.iter().flatten().copied().collect();
            ids.retain(|&b| b != NIL);
            let all = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), all, "no block in two groups");
            assert!(ids.iter().all(|&b| m.pool().refs(b) > 0));
            m.check_integrity().unwrap();
        }
    }
}

// scenario: VT28, IL-B11
/// A window holds what it needs, however long the sequence; full attention holds all of it.
#[test]
fn admission_counts_what_each_kind_holds() {
    let request = |max_tokens| Request {
        chunk: 4,
        max_seq_len: max_tokens,
        full_sequence_must_fit: true,
        ..request(&[1, 2, 3, 4])
    };
    for (kind, fits, never) in [
        (window(8), 100_000, None),
        (chunked(8), 100_000, None),
        (STATE, 100_000, None),
        (sink(4, 8), 100_000, None),
        (FULL, 24, Some(25)),
    ] {
        let mut m = grouped(6, &[group(kind)]);
        let allocation = m.allocate(&request(fits)).unwrap();
        m.release(allocation.seq).unwrap();
        if let Some(never) = never {
            let error = refused(&mut m, &[], |m| m.allocate(&request(never)));
            assert!(matches!(error, Error::NeverFits { needed: 7, .. }), "{error}");
        }
    }
}
