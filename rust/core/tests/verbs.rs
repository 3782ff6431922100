//! Loads, leases, fences, tokens without ids, room: defects that were found by reading and by random
//! operations, each as the shortest way to it.

mod common;

use common::{
    SIZE, allocate, build, found, open, prompt, refused, request, run, serve, small, table,
};
use kvframe_core::hash::{MmItem, Space};
use kvframe_core::manager::{Ids, Step};
use kvframe_core::pool::State;
use kvframe_core::{Allocation, Error, GroupKind, HashAlgo, Manager, NIL, Options, Request};

fn load(m: &mut Manager, tokens: &[u32], blocks: u32) -> (Allocation, u64) {
    let allocation =
        m.allocate(&Request { num_external_tokens: blocks * SIZE, ..request(tokens) }).unwrap();
    (allocation, allocation.load.expect("something comes from elsewhere"))
}

/// A cut inside a block that is being loaded would put the tokens that follow it where the load
/// still writes, and what landed would be findable under their key.
#[test]
fn a_block_that_is_being_loaded_is_not_cut_in_two() {
    let mut m = small(8);
    let (allocation, ticket) = load(&mut m, &open(&[1, 2]), 2);
    let fork = m.fork(allocation.seq).unwrap();
    for seq in [allocation.seq, fork] {
        let error = refused(&mut m, &[seq], |m| m.truncate(seq, 6));
        assert!(error.to_string().contains("is being loaded"), "{error}");
        let cut = [(seq, 6)];
        let step = Step { truncate: &cut, ..Step::default() };
        refused(&mut m, &[seq], |m| m.step(&step));
    }
    // Between blocks it is: the page is the load's alone then, and others get what they write to.
    m.truncate(fork, 4).unwrap();
    m.append(fork, &[7, 7]).unwrap();
    assert_ne!(table(&m, fork)[1], table(&m, allocation.seq)[1]);
    // In one step with the load's end, too.
    let (done, cut) = ([ticket], [(allocation.seq, 6)]);
    m.step(&Step { done: &done, truncate: &cut, ..Step::default() }).unwrap();
    assert_eq!(m.sequence(allocation.seq).unwrap().committed, 6);
    assert_eq!(m.sequence(fork).unwrap().committed, 4);
    m.check_integrity().unwrap();
}

/// What has come of a load counts for every sequence that has it, also where the last block of it,
/// or the sequence it was for, is gone.
#[test]
fn a_load_counts_for_whoever_has_its_pages() {
    let mut m = small(12);
    let (allocation, ticket) = load(&mut m, &open(&[1, 2, 3]), 3);
    let fork = m.fork(allocation.seq).unwrap();
    m.truncate(fork, 8).unwrap();
    m.release(allocation.seq).unwrap();
    m.loaded(ticket, 3).unwrap();
    assert_eq!(m.sequence(fork).unwrap().committed, 8);
    assert_eq!(found(&m, &open(&[1, 2, 3])), 12, "the sequence is gone, what it loaded is not");
    assert_eq!(m.stats().loaded_tokens, 12);
    m.release(fork).unwrap();
    assert_eq!((m.pool().cached(), m.pool().free()), (3, 9));
    m.check_integrity().unwrap();
}

/// Tokens that came from elsewhere are counted where computing went on ahead of them, too.
#[test]
fn a_load_is_counted_behind_a_commit() {
    let mut m = small(8);
    let (allocation, ticket) = load(&mut m, &open(&[1, 2]), 2);
    m.commit(allocation.seq, 9).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 0, "nothing is found before it is settled");
    m.done(ticket).unwrap();
    assert_eq!(found(&m, &open(&[1, 2])), 8);
    assert_eq!(m.stats().loaded_tokens, 8);
}

/// A load that ends in the step of a commit to less: the step is carried out, not left half done.
#[test]
fn a_load_may_bring_more_than_the_step_commits() {
    let mut m = small(8);
    let other = run(&mut m, &prompt(&[9]));
    let (allocation, ticket) = load(&mut m, &open(&[1, 2]), 2);
    let (done, commit, release) = ([ticket], [(allocation.seq, 4)], [other]);
    let step = Step { done: &done, commit: &commit, release: &release, ..Step::default() };
    m.step(&step).unwrap();
    assert_eq!(m.sequence(allocation.seq).unwrap().committed, 8);
    m.sequence(other).expect_err("it ended");
}

/// A load's end may move windows on; a cut that was checked before must not land behind them.
#[test]
fn a_cut_beside_the_end_of_a_load_keeps_the_window() {
    let groups = vec![GroupKind::Full.into(), GroupKind::SlidingWindow { window: 3 }.into()];
    let mut m =
        build(Options { blocks: 40, block_size: SIZE, groups, ..Options::default() }, "lru");
    let (allocation, ticket) = load(&mut m, &open(&[1, 2, 3]), 3);
    let (done, cut) = ([ticket], [(allocation.seq, 5)]);
    m.step(&Step { done: &done, truncate: &cut, ..Step::default() }).unwrap();
    assert!(!m.sequence(allocation.seq).unwrap().tables[1].contains(&NIL));
    m.append(allocation.seq, &[7, 8]).unwrap();
    m.commit(allocation.seq, 7).unwrap();
    m.check_integrity().unwrap();
}

/// What is still being loaded is no better than a promise: nobody elsewhere may read it.
#[test]
fn what_is_being_loaded_is_not_leased() {
    let mut m = small(8);
    let (allocation, ticket) = load(&mut m, &open(&[1, 2]), 2);
    m.commit(allocation.seq, 9).unwrap();
    let error = refused(&mut m, &[allocation.seq], |m| m.lease(allocation.seq, 8));
    assert!(matches!(error, Error::Invalid { what: "lease", .. }), "{error}");
    m.done(ticket).unwrap();
    let lease = m.lease(allocation.seq, 8).unwrap();
    m.release(allocation.seq).unwrap();
    assert_eq!(m.pool().referenced(), 2);
    m.done(lease).unwrap();
    assert_eq!(m.pool().referenced(), 0);
}

/// KV of another engine is good with prefix caching off, too.
#[test]
fn loads_need_no_prefix_caching() {
    let options =
        Options { blocks: 8, block_size: SIZE, prefix_caching: false, ..Options::default() };
    let mut m = build(options, "lru");
    let (allocation, ticket) = load(&mut m, &open(&[1, 2]), 2);
    m.done(ticket).unwrap();
    assert_eq!(m.sequence(allocation.seq).unwrap().committed, 8);
    assert_eq!(found(&m, &open(&[1, 2])), 0);
}

/// A token budget is for what has to be computed; what comes from elsewhere costs none.
#[test]
fn a_load_does_not_spend_the_token_budget() {
    let mut m = small(16);
    let (a, b) = (open(&[1, 2, 3]), open(&[4]));
    let allocate = [Request { num_external_tokens: 12, ..request(&a) }, request(&b)];
    let step = Step { allocate: &allocate, token_budget: Some(6), ..Step::default() };
    let out = m.step(&step).unwrap();
    let granted: Vec<_> =
        out.allocated.iter().map(|g| g.as_ref().unwrap().granted_tokens).collect();
    assert_eq!(granted, [13, 5]);
}

/// A commit past unknown ids, or ids after unknown ones, refuses a whole step before anything moves.
#[test]
fn a_step_is_checked_for_ids_that_are_missing() {
    let mut m = small(8);
    let (a, b) = (run(&mut m, &open(&[1])), run(&mut m, &prompt(&[2])));
    m.append_placeholders(a, 2).unwrap();
    let (commit, release) = ([(a, 6)], [b]);
    let step = Step { commit: &commit, release: &release, ..Step::default() };
    let error = refused(&mut m, &[a, b], |m| m.step(&step));
    assert!(error.to_string().contains("only the ids of 5 tokens are known"), "{error}");
    let append = [(a, Ids::Known(&[1]))];
    let step = Step { append: &append, release: &release, ..Step::default() };
    let error = refused(&mut m, &[a, b], |m| m.step(&step));
    assert!(error.to_string().contains("ids of 2 tokens before are not known"), "{error}");
    // Cut away in the same step, they do not matter.
    let cut = [(a, 5)];
    m.step(&Step { truncate: &cut, ..step }).unwrap();
    assert_eq!(m.sequence(a).unwrap().filled(), 6);
}

/// However many are asked for, nothing is set aside before it is known whether they fit.
#[test]
fn a_huge_number_of_unknown_tokens_is_only_refused() {
    let groups = vec![GroupKind::SlidingWindow { window: 3 }.into()];
    let windows = Options { blocks: 8, block_size: SIZE, groups, ..Options::default() };
    for mut m in [small(8), build(windows, "lru")] {
        let seq = run(&mut m, &open(&[1]));
        refused(&mut m, &[seq], |m| m.append_placeholders(seq, u32::MAX));
        refused(&mut m, &[seq], |m| m.append_placeholders(seq, u32::MAX - 8));
    }
}

/// A fence that has passed already holds nothing up: there may be no later step to end it.
#[test]
fn a_fence_that_has_passed_holds_nothing() {
    let mut m = small(8);
    let seq = run(&mut m, &prompt(&[1, 2]));
    let release = [seq];
    let step = Step { release: &release, fence: Some(5), passed: Some(5), ..Step::default() };
    m.step(&step).unwrap();
    assert_eq!((m.waiting(), m.pool().available()), (0, 8));
}

/// What a step cuts off, or loses with a copy that failed, waits as what it releases does: a step in
/// flight may still write there.
#[test]
fn cut_blocks_wait_for_the_fence() {
    let mut m = small(8);
    let seq = run(&mut m, &open(&[1]));
    m.append(seq, &prompt(&[5, 6])).unwrap();
    let cut = [(seq, 5)];
    m.step(&Step { truncate: &cut, fence: Some(3), ..Step::default() }).unwrap();
    assert_eq!((m.waiting(), m.pool().available()), (2, 4));
    m.pass(3);
    assert_eq!((m.waiting(), m.pool().available()), (0, 6));
    let (allocation, ticket) = load(&mut m, &open(&[2, 3]), 2);
    let failed = [ticket];
    let out = m.step(&Step { failed: &failed, fence: Some(4), ..Step::default() }).unwrap();
    assert_eq!((out.rewound, m.waiting()), (vec![allocation.seq], 3));
    m.pass(4);
    assert_eq!(m.pool().available(), 6);
    m.check_integrity().unwrap();
}

/// A fork may make findable what waits; then what it follows must wait as well.
#[test]
fn a_block_that_waits_keeps_those_before_it() {
    let mut m = small(8);
    let seq = run(&mut m, &prompt(&[1]));
    m.append(seq, &prompt(&[2])).unwrap();
    let fork = m.fork(seq).unwrap();
    let cut = [(seq, 4)];
    m.step(&Step { truncate: &cut, fence: Some(1), ..Step::default() }).unwrap();
    m.commit(fork, 8).unwrap();
    m.release(fork).unwrap();
    m.release(seq).unwrap();
    m.check_integrity().unwrap();
    assert_eq!((m.waiting(), m.pool().referenced()), (2, 2));
    m.pass(1);
    assert_eq!(m.pool().referenced(), 0);
    m.check_integrity().unwrap();
}

/// Partial admissions leave the reserve as others do.
#[test]
fn a_partial_admission_leaves_the_reserve() {
    let options = Options { blocks: 8, block_size: SIZE, reserve: 3, ..Options::default() };
    let mut m = build(options, "lru");
    let running = run(&mut m, &prompt(&[1]));
    let tokens = prompt(&[2, 3, 4, 5, 6, 7]);
    let partial = Request { partial: true, ..request(&tokens) };
    assert_eq!(m.allocate(&partial).unwrap().granted_tokens, 16);
    assert_eq!(m.pool().available(), 3);
    m.append(running, &prompt(&[8, 9])).unwrap();
}

/// Two requests of 60 % each, short at first: the second would push the first out later.
#[test]
fn a_whole_sequence_is_promised_its_room() {
    let mut m = small(10);
    let tokens = prompt(&[1]);
    let whole =
        |tokens| Request { full_sequence_must_fit: true, max_seq_len: 24, ..request(tokens) };
    let first = m.allocate(&whole(&tokens)).unwrap().seq;
    let other = prompt(&[2]);
    let error = refused(&mut m, &[first], |m| m.allocate(&whole(&other)));
    assert!(matches!(error, Error::NoCapacity { needed: 11, available: 9, .. }), "{error}");
    let plain = prompt(&[3, 4, 5, 6]);
    let second = allocate(&mut m, &plain).unwrap().seq;
    refused(&mut m, &[first, second], |m| allocate(m, &other));
    m.append(first, &prompt(&[7, 8, 9, 10, 11])).unwrap();
    // A fork was promised nothing.
    let fork = m.fork(first).unwrap();
    m.release(first).unwrap();
    m.release(second).unwrap();
    m.allocate(&whole(&other)).expect_err("the fork holds six");
    m.release(fork).unwrap();
    m.allocate(&whole(&other)).unwrap();
}

/// A sequence without blocks is a sequence that runs.
#[test]
fn nobody_sleeps_beside_a_live_sequence() {
    let mut m = small(4);
    let seq = allocate(&mut m, &[]).unwrap().seq;
    let error = refused(&mut m, &[seq], Manager::sleep);
    assert!(error.to_string().contains("1 sequences"), "{error}");
    m.release(seq).unwrap();
    m.sleep().unwrap();
    assert_eq!(allocate(&mut m, &[1]), Err(Error::Asleep));
}

/// A cut through an item leaves the keys of the blocks before it: they do not depend on what comes
/// after. It did not, and what was stored next under such a key was taken for a collision.
#[test]
fn a_cut_item_leaves_the_keys_before_it() {
    let options =
        Options { blocks: 8, block_size: SIZE, hash: HashAlgo::Xxh3, ..Options::default() };
    let mut m = build(options, "lru");
    let (tokens, mm_items) = (open(&[1, 2]), [MmItem { start: 1, end: 7, id: b"i".to_vec() }]);
    let with = Request { mm_items: mm_items.to_vec(), ..request(&tokens) };
    let seq = m.allocate(&with).unwrap().seq;
    let keys = m.keys(&tokens, Space::default(), &mm_items);
    m.truncate(seq, 4).unwrap();
    m.commit(seq, 4).unwrap();
    assert_eq!(
        m.keys(&tokens[..4], Space::default(), &m.sequence(seq).unwrap().mm_items.clone()),
        keys[..1]
    );
    assert_eq!(m.lookup(&tokens, Space::default(), &mm_items).tokens, 4);
    assert_eq!(m.lookup(&tokens, Space::default(), &mm_items).collisions, 0);
}

/// Shrinking takes cached blocks with what follows them, keeps generations, and refuses a block in
/// use; ids are good again once the pool has grown.
#[test]
fn a_pool_shrinks_from_its_end() {
    for policy in ["lru", "fifo", "lfu", "lfuda", "slru"] {
        let mut m = build(Options { blocks: 8, block_size: SIZE, ..Options::default() }, policy);
        serve(&mut m, &prompt(&[1, 2, 3]));
        let seq = run(&mut m, &prompt(&[4]));
        let generation = m.pool().generation(2);
        let error = refused(&mut m, &[seq], |m| m.resize(3));
        assert_eq!(error, Error::InUse { blocks: 1, from: 3, first: 3, coming: 0 });
        m.release(seq).unwrap();
        m.resize(2).unwrap();
        m.check_integrity().unwrap();
        assert_eq!(found(&m, &open(&[1, 2, 3])), 8, "{policy}");
        m.resize(6).unwrap();
        assert_eq!(m.pool().generation(2), generation + 1);
        assert_eq!(m.pool().state(5), State::Free);
        serve(&mut m, &prompt(&[5, 6, 7, 8]));
        serve(&mut m, &prompt(&[9, 10, 11, 12]));
        m.check_integrity().unwrap();
    }
}

/// A block with a low id may follow one that goes: it goes too.
#[test]
fn what_follows_a_block_that_goes_goes_as_well() {
    let mut m = small(4);
    let mut lent = [0; 2];
    m.take(&mut lent).unwrap();
    serve(&mut m, &prompt(&[1]));
    m.free(&lent).unwrap();
    serve(&mut m, &prompt(&[1, 2]));
    assert_eq!((m.pool().state(2), m.pool().parent(0)), (State::Cached, 2));
    m.resize(2).unwrap();
    m.check_integrity().unwrap();
    assert_eq!((m.pool().free(), found(&m, &open(&[1, 2]))), (2, 0));
}
