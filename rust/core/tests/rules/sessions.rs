//! Hints on sessions: which blocks they concern, and when.

use kvframe_core::hash::Space;
use kvframe_core::retention::{Hint, HintStatus};
use kvframe_core::sequence::Meta;
use kvframe_core::{Manager, Options, Request, Scope, SeqId};

use crate::common::{SIZE, build, open, request};

fn with_sessions(blocks: u32) -> Manager {
    build(Options { blocks, block_size: SIZE, sessions: true, ..Options::default() }, "lru")
}

/// A request of `session` that runs.
fn begin(m: &mut Manager, session: u64, blocks: &[u32]) -> SeqId {
    let tokens = open(blocks);
    let meta = Meta { session, ..Meta::default() };
    let allocation = m.allocate(&Request { meta, ..request(&tokens) }).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    allocation.seq
}

fn turn(m: &mut Manager, session: u64, blocks: &[u32]) {
    let seq = begin(m, session, blocks);
    m.release(seq).expect("live");
}

fn priorities(m: &Manager, blocks: &[u32]) -> Vec<u8> {
    let found = m.lookup(&open(blocks), Space::default(), &[]).blocks;
    found[0].iter().map(|&block| m.priority(block).0).collect()
}

// scenario: V6
#[test]
fn the_end_of_a_session_concerns_what_no_other_has_used() {
    let mut m = with_sessions(16);
    turn(&mut m, 1, &[1, 2]);
    turn(&mut m, 2, &[1, 3]);
    let reply = m.hint(1, Hint::Release).unwrap();
    assert_eq!((reply.status, reply.blocks), (HintStatus::Accepted, 1));
    assert_eq!((priorities(&m, &[1, 2]), priorities(&m, &[1, 3])), (vec![35, 0], vec![35, 35]));
    m.check_integrity().unwrap();
}

// scenario: V6
#[test]
fn what_is_said_while_requests_run_is_done_once_they_have_ended() {
    let mut m = with_sessions(16);
    let seq = begin(&mut m, 1, &[1, 2]);
    let reply = m.hint(1, Hint::Demote(5)).unwrap();
    assert_eq!((reply.status, reply.blocks), (HintStatus::Deferred, 0));
    m.release(seq).unwrap();
    assert_eq!(priorities(&m, &[1, 2]), [5, 5]);
    m.check_integrity().unwrap();
}

/// Two sessions compute the same prompt at once. Of the two copies one stays, whichever way.
#[test]
fn a_block_that_two_sessions_computed_at_once_is_no_single_ones() {
    for (remap_duplicates, forgotten) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
        let options =
            Options { blocks: 16, block_size: SIZE, sessions: true, ..Options::default() };
        let mut m = build(Options { remap_duplicates, ..options }, "lru");
        let tokens = open(&[1]);
        let both = [1, 2].map(|session| {
            let meta = Meta { session, ..Meta::default() };
            m.allocate(&Request { meta, ..request(&tokens) }).expect("room").seq
        });
        for seq in both {
            m.commit(seq, tokens.len() as u32).expect("granted");
            m.release(seq).expect("live");
        }
        let scope = Scope { session: Some(forgotten), ..Scope::default() };
        m.clear_scope(scope);
        assert!(m.lookup(&tokens, Space::default(), &[]).tokens > 0, "session {forgotten}");
        m.check_integrity().unwrap();
    }
}
