//! Each kind of layer group: what a hit needs, what is given up and when, what is worth finding.

mod common;

use common::{SIZE, admit, build, found, open, prompt, refused, request, run, serve};
use kvframe_core::groups::Layout;
use kvframe_core::hash::Space;
use kvframe_core::policy::External;
use kvframe_core::pool::State;
use kvframe_core::{Admission, BlockId, Error, Group, GroupKind, Manager, NIL, Options, SeqId};

const FULL: GroupKind = GroupKind::Full;
const STATE: GroupKind = GroupKind::State;

fn window(window: u32) -> GroupKind {
    GroupKind::SlidingWindow { window }
}

fn chunked(chunk: u32) -> GroupKind {
    GroupKind::Chunked { chunk }
}

fn sink(sink: u32, window: u32) -> GroupKind {
    GroupKind::SinkWindow { sink, window }
}

fn group(kind: GroupKind) -> Group {
    kind.into()
}

fn grouped(blocks: u32, groups: &[Group]) -> Manager {
    let groups = groups.to_vec();
    build(Options { blocks, block_size: SIZE, groups, ..Options::default() }, "lru")
}

/// Places of the entries of a table that are still there.
fn kept(m: &Manager, seq: SeqId, group: usize) -> Vec<usize> {
    let table = &m.sequence(seq).unwrap().tables[group];
    (0..table.len()).filter(|&i| table[i] != NIL).collect()
}

/// Tokens that are found where only the blocks named by `there` are left, of one group of `kind`.
fn hit_of(kind: GroupKind, there: &[bool]) -> u32 {
    let groups = vec![kind.into()];
    let options = Options { blocks: 64, block_size: SIZE, groups, ..Options::default() };
    let mut m = Manager::new(options, Box::new(External::new(false))).unwrap();
    let blocks: Vec<u32> = (1..=there.len() as u32).collect();
    let seq = run(&mut m, &open(&blocks));
    m.release(seq).unwrap();
    let cached = (0..m.pool().created()).filter(|&b| m.pool().state(b) == State::Cached);
    let doomed: Vec<BlockId> = cached.filter(|&b| !there[m.pool().depth(b) as usize]).collect();
    let generations: Vec<u32> = doomed.iter().map(|&b| m.pool().generation(b)).collect();
    m.choose(&doomed, &generations);
    m.collect(m.pool().free() + doomed.len() as u32).unwrap();
    m.check_integrity().unwrap();
    found(&m, &open(&blocks))
}

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
        let seq = admit(&mut m, &prompt(&[1, 2, 3])).unwrap().seq;
        let table = m.sequence(seq).unwrap().tables[1].clone();
        let freed = m.commit(seq, committed).unwrap().freed as usize;
        assert_eq!(kept(&m, seq, 1), entries, "{kind:?} at {committed}");
        assert_eq!(freed, 3 - entries.len());
        // Of what was worth finding, the latest is the first in line.
        let gone = table.iter().rev().filter(|&&b| m.pool().depth(b) < 3 && m.pool().refs(b) == 0);
        let cached: Vec<_> = gone.copied().filter(|&b| m.pool().is_evictable(b)).collect();
        assert_eq!(m.eviction_order(), cached);
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
    let sight = m.sight(seq, 0).unwrap();
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
    let grant =
        m.admit(&Admission { insert: false, ..request(&prompt(&[1, 2, 3, 4, 5])) }).unwrap();
    let twin = grant.seq;
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
    let seq = admit(&mut m, &text).unwrap().seq;
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
        let seq = admit(&mut m, &text).unwrap().seq;
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

/// Another input's blocks: fixed, shared by content alone, gone with the sequence.
#[test]
fn another_input_is_shared_by_its_content() {
    let mut m = grouped(64, &[group(FULL), group(GroupKind::Cross)]);
    let text = open(&[1]);
    let request = |encoder| Admission {
        space: Space { encoder, ..Space::default() },
        encoder_tokens: 10,
        ..request(&text)
    };
    let first = m.admit(&request(b"a")).unwrap();
    assert!(!first.encoder_cached);
    m.commit(first.seq, 5).unwrap();
    m.append(first.seq, &prompt(&[2, 3])).unwrap();
    assert_eq!(m.sequence(first.seq).unwrap().tables[1].len(), 3, "it never grows");
    let same = m.admit(&request(b"a")).unwrap();
    assert!(same.encoder_cached && same.cached_tokens == 4);
    let table = |m: &Manager, seq| m.sequence(seq).unwrap().tables[1].clone();
    assert_eq!(table(&m, same.seq), table(&m, first.seq));
    let other = m.admit(&request(b"b")).unwrap();
    assert!(!other.encoder_cached && other.cached_tokens == 0);
    for encoder in [&b""[..], b""] {
        let nameless = m.admit(&request(encoder)).unwrap();
        assert!(!nameless.encoder_cached && nameless.cached_tokens == 0);
        m.commit(nameless.seq, 5).unwrap();
        m.release(nameless.seq).unwrap();
    }
    for seq in [first.seq, same.seq, other.seq] {
        m.release(seq).unwrap();
    }
    m.clear_cache();
    assert_eq!(m.pool().free(), 64);
    let mut plain = grouped(8, &[group(FULL)]);
    refused(&mut plain, &[], |m| m.admit(&request(b"a")));
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
            let grant = admit(&mut m, &text).unwrap();
            assert_eq!(m.stats().allocated - before, predicted, "{groups:?}");
            let mut ids = m.sequence(grant.seq).unwrap().tables.concat();
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
    let request = |max_tokens| Admission {
        chunk: 4,
        max_tokens,
        whole_sequence: true,
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
        let grant = m.admit(&request(fits)).unwrap();
        m.release(grant.seq).unwrap();
        if let Some(never) = never {
            let error = refused(&mut m, &[], |m| m.admit(&request(never)));
            assert!(matches!(error, Error::NeverFits { needed: 7, .. }), "{error}");
        }
    }
}

// scenario: VT31
/// Blocks that nobody could find go before those that are cached, whatever order they came in.
#[test]
fn scratch_blocks_are_used_before_cached_ones() {
    let mut m =
        grouped(8, &[Group { units: 1, ..window(5).into() }, Group { units: 4, ..FULL.into() }]);
    let seq = admit(&mut m, &prompt(&[1, 2, 3, 4])).unwrap().seq;
    let table = m.sequence(seq).unwrap().tables[0].clone();
    m.commit(seq, 16).unwrap();
    let free = m.pool().free_list().to_vec();
    assert!(table[..3].iter().all(|b| free.contains(b)), "no hit ends at 4, 8 or 12");
    m.release(seq).unwrap();
    assert_eq!(m.pool().cached(), 2, "what a hit at 16 needs");
    let evictions = m.stats().evictions;
    let mut loan = [NIL; 6];
    m.lend(&mut loan).unwrap();
    assert_eq!(m.stats().evictions, evictions);
}
