//! What sequences share while they wait, what is matched again, and what is forgotten for some.

use kvframe_core::hash::Space;
use kvframe_core::manager::Step;
use kvframe_core::pool::State;
use kvframe_core::sequence::Meta;
use kvframe_core::{Error, Group, GroupKind, HashAlgo, Options, Request, Scope};

use crate::common::*;

fn joining(tokens: &[u32]) -> Request {
    Request { join: true, ..request(tokens) }
}

/// Admits and computes `tokens` for `session`, and ends.
fn serve_for(m: &mut kvframe_core::Manager, tokens: &[u32], session: u64) {
    let meta = Meta { session, ..Meta::default() };
    let allocation = m.allocate(&Request { meta, ..request(tokens) }).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    m.release(allocation.seq).expect("live");
}

fn forget(m: &mut kvframe_core::Manager, session: u64) -> u32 {
    m.clear_scope(Scope { session: Some(session), ..Scope::default() })
}

// scenario: F1
#[test]
fn each_of_several_prompts_that_are_computed_can_be_joined() {
    let mut m = small(32);
    m.expect_joins();
    let prompts = [open(&[1, 2]), open(&[3, 4]), open(&[5, 6])];
    for tokens in &prompts {
        allocate(&mut m, tokens).expect("room");
    }
    for tokens in &prompts {
        let allocation = m.allocate(&joining(tokens)).expect("room");
        assert_eq!(allocation.joined_tokens, 2 * SIZE);
        m.check_integrity().expect("sound");
    }
}

// scenario: F1
#[test]
fn what_has_ended_is_joined_no_more() {
    let mut m = small(32);
    m.expect_joins();
    let first = allocate(&mut m, &open(&[1, 2])).expect("room").seq;
    m.release(first).expect("live");
    let other = allocate(&mut m, &open(&[3, 4])).expect("room");
    assert_eq!(other.joined_tokens, 0);
    assert_eq!(m.allocate(&joining(&open(&[1, 2]))).expect("room").joined_tokens, 0);
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn what_a_load_brings_is_not_computed_before_it_came() {
    let mut m = small(32);
    let tokens = open(&[1, 2]);
    let load =
        m.allocate(&Request { num_external_tokens: 2 * SIZE, ..request(&tokens) }).expect("room");
    let allocation = m.allocate(&joining(&tokens)).expect("room");
    assert_eq!(allocation.joined_tokens, 2 * SIZE);
    // As of the one that the load is for: what is behind it is not computed on top of nothing.
    assert!(matches!(m.rematch(allocation.seq), Ok(0)));
    m.failed(load.load.expect("a load")).expect("outstanding");
    let s = m.sequence(allocation.seq).expect("live");
    assert_eq!((s.committed, s.cached), (0, 0));
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn what_a_load_brought_is_not_taken_for_computed() {
    let mut m = small(32);
    let tokens = open(&[1, 2]);
    let load =
        m.allocate(&Request { num_external_tokens: 2 * SIZE, ..request(&tokens) }).expect("room");
    let allocation = m.allocate(&joining(&tokens)).expect("room");
    m.loaded(load.load.expect("a load"), 2).expect("outstanding");
    assert_eq!(m.sequence(allocation.seq).expect("live").committed, 2 * SIZE);
    for seq in [load.seq, allocation.seq] {
        m.rematch(seq).expect("it has computed no token");
    }
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn a_match_again_counts_what_it_found_once() {
    let mut m = small(32);
    serve(&mut m, &open(&[1]));
    let waits = allocate(&mut m, &open(&[1, 2, 3])).expect("room");
    assert_eq!(waits.cached_tokens, SIZE);
    serve(&mut m, &open(&[1, 2, 3]));
    let before = m.stats().hit_tokens;
    assert_eq!(m.rematch(waits.seq), Ok(3 * SIZE));
    assert_eq!(m.stats().hit_tokens - before, u64::from(2 * SIZE));
    assert_eq!(m.rematch(waits.seq), Ok(3 * SIZE));
    assert_eq!(m.stats().hit_tokens - before, u64::from(2 * SIZE));
}

// scenario: F31
#[test]
fn a_fork_keeps_what_it_follows_when_the_other_is_matched_again() {
    let mut m = small(32);
    let waits = allocate(&mut m, &open(&[1, 2, 3, 4])).expect("room").seq;
    let twin = m.fork(waits).expect("live");
    serve(&mut m, &open(&[1, 2]));
    // The twin shares the blocks behind those found: they would follow blocks that it does not own.
    assert_eq!(m.rematch(waits), Ok(0));
    m.commit(waits, 4 * SIZE).expect("slots");
    m.release(waits).expect("live");
    m.check_integrity().expect("sound");
    m.release(twin).expect("live");
    m.check_integrity().expect("sound");
    // With nothing behind them, both can trade.
    let waits = allocate(&mut m, &open(&[7])).expect("room").seq;
    m.release(waits).expect("live");
}

// scenario: F31
#[test]
fn what_a_match_again_gives_up_waits_for_the_fence() {
    let mut m = small(8);
    let waits = allocate(&mut m, &open(&[1, 2])).expect("room").seq;
    let had = table(&m, waits);
    serve(&mut m, &open(&[1, 2]));
    let available = m.pool().available();
    assert_eq!(m.rematch_behind(waits, 5), Ok(2 * SIZE));
    assert_ne!(table(&m, waits)[..2], had[..2]);
    // The two that it gave up wait, and the two that it took are owned.
    assert_eq!((m.pool().available(), m.pool().coming()), (available - 2, 2));
    m.pass(5);
    assert_eq!((m.pool().available(), m.pool().coming()), (available, 0));
    m.check_integrity().expect("sound");
}

// scenario: F31
// scenario: F9
#[test]
fn a_copy_that_a_match_again_makes_superfluous_waits_for_the_fence() {
    let mut m = small(16);
    let (short, long) = (open(&[1]), open(&[1, 2]));
    let first = allocate(&mut m, &short).expect("room").seq;
    let second = allocate(&mut m, &long).expect("room").seq;
    m.commit(first, SIZE).expect("slots");
    let waits = allocate(&mut m, &open(&[1, 2, 3])).expect("room").seq;
    let copy = table(&m, waits)[0];
    m.commit(second, 2 * SIZE).expect("slots");
    m.release(first).expect("live");
    assert_eq!(m.pool().refs(copy), 1);
    let available = m.pool().available();
    assert_eq!(m.rematch_behind(waits, 5), Ok(2 * SIZE));
    assert_eq!(table(&m, waits)[0], table(&m, second)[0], "it owns the other copy");
    // A step in flight reads the first block, and writes the second.
    assert_eq!(m.pool().state(copy), State::Committed);
    assert_eq!((m.pool().available(), m.pool().coming()), (available, 2));
    m.check_integrity().expect("sound");
    m.pass(5);
    assert_eq!(m.pool().state(copy), State::Free);
    assert_eq!((m.pool().available(), m.pool().coming()), (available + 2, 0));
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn what_waits_keeps_the_blocks_that_it_follows() {
    let mut m = small(16);
    serve(&mut m, &open(&[1]));
    let first = allocate(&mut m, &open(&[1, 2])).expect("room").seq;
    let second = allocate(&mut m, &open(&[1, 2, 3])).expect("room").seq;
    m.commit(first, 2 * SIZE).expect("slots");
    let waits = allocate(&mut m, &open(&[1, 2, 3, 4])).expect("room").seq;
    let had = table(&m, waits);
    m.commit(second, 3 * SIZE).expect("slots");
    assert_eq!(m.rematch_behind(waits, 5), Ok(3 * SIZE));
    for seq in [waits, first, second] {
        m.release(seq).expect("live");
    }
    // The second block waits, and so does the first, which nothing else owns.
    assert_eq!(m.pool().state(had[0]), State::Committed);
    assert_eq!(m.pool().state(had[1]), State::Committed);
    m.check_integrity().expect("sound");
    m.pass(5);
    assert_eq!(m.pool().available(), 16);
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn a_fork_may_make_findable_what_its_twin_left_to_a_fence() {
    let mut m = small(16);
    serve(&mut m, &open(&[1]));
    let tokens = open(&[1, 2, 3]);
    let waits = m.allocate(&Request { chunk: SIZE, ..request(&tokens) }).expect("room").seq;
    let twin = m.fork(waits).expect("live");
    let had = table(&m, twin);
    assert_eq!(had.len(), 2);
    serve(&mut m, &tokens);
    assert_eq!(m.rematch_behind(waits, 5), Ok(3 * SIZE));
    m.commit(twin, 2 * SIZE).expect("slots");
    for seq in [waits, twin] {
        m.release(seq).expect("live");
    }
    assert_eq!(m.pool().state(had[1]), State::Committed);
    m.check_integrity().expect("it follows a block that waits as well");
    m.pass(5);
    assert_eq!(m.pool().available(), 16);
    m.check_integrity().expect("sound");
}

// scenario: F31
#[test]
fn what_a_fork_made_findable_behind_a_match_keeps_what_it_follows() {
    let mut m = small(16);
    let tokens = prompt(&[1, 2]);
    let other = allocate(&mut m, &open(&[1])).expect("room").seq;
    let waits = allocate(&mut m, &tokens).expect("room").seq;
    let twin = m.fork(waits).expect("live");
    m.commit(other, SIZE).expect("slots");
    m.commit(twin, 2 * SIZE).expect("slots");
    m.release(twin).expect("live");
    // The last block has to be computed, is findable, and follows the one to be traded.
    assert_eq!(found(&m, &tokens), SIZE);
    assert_eq!(m.rematch(waits), Ok(0));
    m.check_integrity().expect("sound");
    m.release(other).expect("live");
    m.check_integrity().expect("sound");
}

// scenario: F9
#[test]
fn the_source_of_a_copy_that_failed_waits_for_the_fence() {
    let mut m = small(8);
    let seq = run(&mut m, &open(&[1]));
    let twin = m.fork(seq).expect("live");
    let source = table(&m, seq)[1];
    m.append(seq, &[7]).expect("room");
    let ticket = m.take_plan().expect("a copy").ticket;
    m.release(twin).expect("live");
    assert_ne!(table(&m, seq)[1], source);
    let failed = [ticket];
    m.step(&Step { failed: &failed, fence: Some(4), ..Step::default() }).expect("outstanding");
    // A step that began before the fork reads it.
    assert_eq!((m.pool().state(source), m.pool().coming()), (State::Pending, 2));
    m.check_integrity().expect("sound");
    m.pass(4);
    assert_eq!((m.pool().state(source), m.pool().coming()), (State::Free, 0));
    m.check_integrity().expect("sound");
}

// scenario: F9
#[test]
fn a_block_on_its_way_is_not_in_use_and_one_that_another_has_is() {
    let mut m = small(10);
    let alone = run(&mut m, &prompt(&[1, 2]));
    let shared = run(&mut m, &prompt(&[3, 4]));
    let twin = m.fork(shared).expect("live");
    assert!((m.usage() - 0.4).abs() < 1e-9);
    m.release_behind(alone, 3).expect("live");
    assert!((m.usage() - 0.2).abs() < 1e-9, "{}", m.usage());
    m.release_behind(shared, 3).expect("live");
    assert!((m.usage() - 0.2).abs() < 1e-9, "{}", m.usage());
    m.release_behind(twin, 3).expect("live");
    assert!(m.usage().abs() < 1e-9, "{}", m.usage());
    m.check_integrity().expect("sound");
}

// scenario: F30
#[test]
fn an_adapter_is_forgotten_down_to_its_first_block() {
    let mut m = small(16);
    let lora = Space { lora_name: b"lora", ..Space::default() };
    let tokens = open(&[1, 2]);
    let own = request(&tokens).within(lora);
    let allocation = m.allocate(&own).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    m.release(allocation.seq).expect("live");
    serve(&mut m, &open(&[3]));
    let running = m.allocate(&own).expect("room").seq;
    m.clear_scope(Scope { lora_name: Some(b"lora"), ..Scope::default() });
    assert_eq!(m.lookup(&tokens, lora, &[]).tokens, 0);
    assert_eq!(found(&m, &open(&[3])), SIZE);
    // What runs under the old one leaves nothing for the new one.
    let len = m.sequence(running).expect("live").len;
    m.commit(running, len).expect("slots");
    m.release(running).expect("live");
    assert_eq!(m.lookup(&tokens, lora, &[]).tokens, 0);
    m.check_integrity().expect("sound");
}

// scenario: F30
#[test]
fn a_session_is_forgotten_and_what_others_used_stays() {
    let mut m = small(16);
    serve_for(&mut m, &open(&[1]), 1);
    serve_for(&mut m, &open(&[1, 2]), 1);
    serve_for(&mut m, &open(&[1, 3]), 2);
    assert_eq!(forget(&mut m, 1), 1);
    assert_eq!((found(&m, &open(&[1, 2])), found(&m, &open(&[1, 3]))), (SIZE, 2 * SIZE));
    assert_eq!(forget(&mut m, 2), 1);
    assert_eq!(found(&m, &open(&[1, 3])), SIZE);
    m.check_integrity().expect("sound");
}

// scenario: F21
#[test]
fn where_blocks_are_given_up_keys_are_chained_by_a_cryptographic_hash() {
    let tokens = prompt(&[1, 2]);
    let keys = |window: bool, hash| {
        let mut groups: Vec<Group> = vec![GroupKind::Full.into()];
        if window {
            groups.push(GroupKind::SlidingWindow { window: SIZE }.into());
        }
        let options = Options { blocks: 16, block_size: SIZE, groups, hash, ..Options::default() };
        build(options, "lru").keys(&tokens, Space::default(), &[])
    };
    assert_eq!(keys(true, HashAlgo::Xxh3), keys(true, HashAlgo::Sha256));
    assert_ne!(keys(false, HashAlgo::Xxh3), keys(false, HashAlgo::Sha256));
}

// scenario: F31
#[test]
fn nothing_is_matched_again_once_tokens_are_computed() {
    let mut m = small(16);
    let seq = run(&mut m, &open(&[1, 2]));
    assert!(matches!(m.rematch(seq), Err(Error::Invalid { what: "rematch", .. })));
}
