//! What a hit needs of each kind, and what is worth finding.

use super::common::{SIZE, allocate, found, open, prompt, run};
use super::helpers::{FULL, STATE, asked, chunked, group, grouped, hit_of, kill, sink, window};
use kvframe_core::groups::Layout;
use kvframe_core::hash::Space;
use kvframe_core::{Error, Group, GroupKind};

// scenario: VT35, VT36
/// Tables of what is there, and the longest hit of each.
#[test]
fn a_hit_is_the_longest_that_what_is_there_serves() {
    let cases: &[(GroupKind, &[u8], u32)] = &[
        (window(2), &[1, 1, 1, 1], 4),
        (window(2), &[1, 1, 1, 0], 3),
        (window(2), &[0, 0, 1, 0], 3),
        (window(2), &[0, 0, 0, 0], 0),
        (window(5), &[0, 0, 1, 1], 4),
        (window(6), &[0, 0, 1, 1], 4),
        (window(6), &[0, 1, 0, 1], 0),
        (window(6), &[1, 1, 0, 1], 2),
        (window(10), &[0, 1, 1, 1], 4),
        (window(10), &[0, 1, 1, 0], 0),
        (window(10), &[1, 0, 1, 1], 1),
        // Chunks of two blocks: a hit at a chunk's end needs nothing of it.
        (chunked(8), &[0, 0, 0, 0], 4),
        (chunked(8), &[0, 0, 1, 0], 4),
        (chunked(16), &[1, 1, 1, 0], 4),
        (chunked(12), &[1, 1, 0, 1], 4),
        (chunked(12), &[1, 1, 0, 0], 3),
        (chunked(20), &[1, 1, 1, 1], 4),
        (chunked(20), &[1, 1, 0, 1], 2),
        (STATE, &[0, 0, 0, 1], 4),
        (STATE, &[0, 1, 0, 0], 2),
        (STATE, &[0, 0, 0, 0], 0),
        (sink(4, 4), &[1, 0, 0, 1], 4),
        (sink(4, 4), &[0, 0, 0, 1], 0),
        (sink(4, 4), &[1, 0, 1, 0], 3),
        (sink(0, 5), &[0, 0, 1, 1], 4),
    ];
    for &(kind, there, blocks) in cases {
        let flags: Vec<bool> = there.iter().map(|&there| there == 1).collect();
        assert_eq!(hit_of(kind, &flags), blocks * SIZE, "{kind:?} {there:?}");
    }
}

// scenario: VT25, VT32
/// Only blocks that can serve a hit are worth being found.
#[test]
fn only_blocks_that_can_serve_a_hit_are_reachable() {
    // (groups; which blocks of the last one a hit can need, far from the prompt's end)
    let wide = |kind: GroupKind, units| Group { units, ..kind.into() };
    let cases = [
        (vec![group(FULL), group(window(1))], vec![0, 0, 0, 0, 0, 0, 0, 0]),
        (vec![group(FULL), group(window(5))], vec![1, 1, 1, 1, 1, 1, 1, 1]),
        (vec![wide(FULL, 4), group(window(5))], vec![0, 0, 0, 1, 0, 0, 0, 1]),
        (vec![wide(FULL, 4), group(window(6))], vec![0, 0, 1, 1, 0, 0, 1, 1]),
        (vec![wide(FULL, 4), group(window(99))], vec![1, 1, 1, 1, 1, 1, 1, 1]),
        (vec![wide(FULL, 4), group(STATE)], vec![0, 0, 0, 1, 0, 0, 0, 1]),
        (vec![group(STATE)], vec![1, 1, 1, 1, 1, 1, 1, 1]),
        (vec![group(chunked(8))], vec![1, 0, 1, 0, 1, 0, 1, 0]),
        (vec![wide(FULL, 2), group(chunked(8))], vec![0, 0, 0, 0, 0, 0, 0, 0]),
        (vec![wide(FULL, 2), group(chunked(12))], vec![1, 1, 0, 1, 0, 0, 1, 1]),
    ];
    for (groups, expected) in cases {
        let layout = Layout::new(&groups, SIZE).unwrap();
        let last = groups.len() - 1;
        let mask: Vec<u8> =
            (0..8).map(|block| u8::from(layout.is_reachable(last, block, 0))).collect();
        assert_eq!(mask, expected, "{groups:?}");
    }
}

// scenario: VT26
/// An interval keeps the boundaries it promises, and the end of the prompt.
#[test]
fn an_interval_keeps_the_boundaries_it_promises() {
    let text = prompt(&[1, 2, 3, 4, 5, 6, 7]);
    for (interval, boundaries) in [
        (None, vec![4, 8, 12, 16, 20, 24, 28]),
        (Some(0), vec![24, 28]),
        (Some(8), vec![8, 16, 24, 28]),
        (Some(12), vec![12, 24, 28]),
    ] {
        let mut m = grouped(64, &[group(FULL), Group { interval, ..STATE.into() }]);
        let seq = allocate(&mut m, &text).unwrap().seq;
        for upto in 1..=28 {
            m.commit(seq, upto).unwrap();
        }
        m.release(seq).unwrap();
        let serves = |tokens: &u32| {
            let mut head = text[..*tokens as usize].to_vec();
            head.push(9999);
            found(&m, &head) == *tokens
        };
        let served: Vec<u32> = (1..=7).map(|i| i * SIZE).filter(serves).collect();
        assert_eq!(served, boundaries, "interval {interval:?}");
    }
    let wrong = Group { interval: Some(6), ..STATE.into() };
    let error = Layout::new(&[group(FULL), wrong], SIZE).unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "interval", .. }), "{error}");
    let error = Layout::new(&[Group { interval: Some(4), ..FULL.into() }], SIZE).unwrap_err();
    assert!(matches!(error, Error::Invalid { what: "interval", .. }), "{error}");
}

// scenario: V25, VT9
/// Blocks of unequal sizes: hits come in what all can serve, keys are those of the last unit.
#[test]
fn blocks_of_different_sizes_share_a_hit() {
    let mut m = grouped(64, &[group(FULL), Group { units: 3, ..FULL.into() }]);
    assert_eq!(m.layout().unit_tokens(), 12);
    let seq = run(&mut m, &open(&[1, 2, 3, 4, 5, 6, 7]));
    let tables = m.sequence(seq).unwrap().tables.clone();
    assert_eq!((tables[0].len(), tables[1].len()), (8, 3));
    let keys = m.keys(&open(&[1, 2, 3, 4, 5, 6, 7]), Space::default(), &[]);
    assert_eq!(m.pool().key(tables[1][1]), keys[5].for_group(1));
    let hit = m.lookup(&open(&[1, 2, 3, 4, 5, 6, 7]), Space::default(), &[]);
    assert_eq!((hit.tokens, hit.blocks[0].len(), hit.blocks[1].len()), (24, 6, 2));
    assert_eq!(found(&m, &open(&[1, 2, 3, 4, 5])), 12);
    assert_eq!(found(&m, &open(&[1, 2])), 0);
    m.check_integrity().unwrap();
}

// scenario: V25, VT9
#[test]
fn a_hit_ends_where_blocks_of_every_size_do() {
    let wide = |units| Group { units, ..FULL.into() };
    let mut m = grouped(64, &[wide(2), wide(3)]);
    run(&mut m, &open(&[1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(m.layout().unit_tokens(), 6 * SIZE);
    assert_eq!(found(&m, &open(&[1, 2, 3, 4, 5, 6, 7])), 6 * SIZE);
    assert_eq!(found(&m, &open(&[1, 2, 3, 4, 5])), 0);
    m.check_integrity().unwrap();
}

// scenario: V25, MK-B2
/// What another group cannot serve is left out in blocks of one's own size.
#[test]
fn a_shorter_hit_is_shorter_in_blocks_of_every_size() {
    let mut m = asked(&[Group { units: 2, ..FULL.into() }, group(FULL)]);
    let text = open(&[1, 2, 3, 4, 5, 6]);
    let seq = run(&mut m, &text);
    m.release(seq).unwrap();
    kill(&mut m, |m, b| m.pool().group(b) == 1 && m.pool().depth(b) >= 2);
    let hit = m.lookup(&text, Space::default(), &[]);
    assert_eq!((hit.tokens, hit.blocks[0].len(), hit.blocks[1].len()), (8, 1, 2));
    run(&mut m, &text);
    m.check_integrity().unwrap();
}

// scenario: VT23
/// A draft model's group lags, so an identical prompt's hit drops the last unit.
#[test]
fn a_lagging_group_drops_the_last_unit() {
    let mut m = grouped(64, &[group(FULL), Group { lag: 1, ..FULL.into() }]);
    let seq = run(&mut m, &prompt(&[1, 2, 3, 4]));
    assert_eq!(found(&m, &open(&[1, 2, 3, 4])), 12);
    m.append(seq, &[5]).unwrap();
    m.commit(seq, 17).unwrap();
    assert_eq!(found(&m, &open(&[1, 2, 3, 4])), 16, "its last token is there now");
    m.check_integrity().unwrap();
}
