//! Rules 1, 2 and 13: the state balance, a refusal changes nothing, block 0 is ordinary.

use kvframe_core::events::Kind;
use kvframe_core::hash::Space;
use kvframe_core::manager::{Growth, Ids, Refusal, Step, StepResult};
use kvframe_core::policy::NAMES;
use kvframe_core::pool::State;
use kvframe_core::{Error, Limit, NIL, Options, Request};

use crate::common::{
    SIZE, allocate, build, open, picture, prompt, refused, request, run, serve, small, table,
};

#[test]
fn rule_1_free_cached_and_referenced_make_the_total() {
    let mut m = small(10);
    let counts =
        |m: &kvframe_core::Manager| (m.pool().free(), m.pool().cached(), m.pool().referenced());
    assert_eq!(counts(&m), (10, 0, 0));
    let a = run(&mut m, &open(&[1, 2]));
    assert_eq!(counts(&m), (7, 0, 3));
    let b = run(&mut m, &open(&[1, 3]));
    assert_eq!(counts(&m), (5, 0, 5), "the shared block counts once");
    assert_eq!(m.pool().refs(table(&m, a)[0]), 2);
    m.release(a).unwrap();
    assert_eq!(counts(&m), (6, 1, 3), "one block cached, the tail free, the head still b's");
    m.release(b).unwrap();
    assert_eq!(counts(&m), (7, 3, 0));
    assert_eq!(m.reset_prefix_cache(), 3);
    assert_eq!(counts(&m), (10, 0, 0));
    m.check_integrity().unwrap();
}

#[test]
fn rule_1_owners_are_tables_loans_and_copies_under_way() {
    let mut m = small(10);
    let a = run(&mut m, &open(&[1]));
    let b = m.fork(a).unwrap();
    let tail = table(&m, a)[1];
    assert_eq!(m.pool().refs(tail), 2);
    m.append(a, &[5]).unwrap();
    let copied = table(&m, a)[1];
    assert_eq!((m.pool().refs(tail), m.pool().refs(copied)), (2, 2), "the copy owns both ends");
    m.release(a).unwrap();
    m.release(b).unwrap();
    assert_eq!((m.pool().refs(tail), m.pool().refs(copied)), (1, 1));
    let plan = m.take_plan().unwrap();
    m.done(plan.ticket).unwrap();
    assert_eq!((m.pool().state(tail), m.pool().state(copied)), (State::Free, State::Free));
    let mut loan = [NIL];
    m.take(&mut loan).unwrap();
    assert_eq!((m.pool().refs(loan[0]), m.pool().referenced()), (1, 1));
    m.check_integrity().unwrap();
}

#[test]
fn rule_2_a_refused_admission_leaves_everything_as_it_was() {
    for policy in NAMES {
        let mut m = build(Options { blocks: 6, block_size: SIZE, ..Options::default() }, policy);
        serve(&mut m, &open(&[1, 2]));
        let held = run(&mut m, &open(&[3]));
        // The head is cached and would be found, the rest is not to be had: nothing may be evicted for it.
        let error = refused(&mut m, &[held], |m| allocate(m, &open(&[1, 7, 8, 9])));
        assert_eq!(
            error,
            Error::NoCapacity { needed: 4, available: 3, total: 6, limit: Limit::Pool, coming: 0 }
        );
        let error = refused(&mut m, &[held], |m| allocate(m, &open(&[1, 2, 3, 4, 5, 6])));
        assert!(matches!(error, Error::NeverFits { needed: 7, total: 6, .. }), "{error}");
        assert_eq!(m.stats().refused, 2);
    }
}

// scenario: U-4
/// U-4: a block that is hit is not available to its own miss.
#[test]
fn rule_2_hits_are_not_counted_as_room() {
    let mut m = small(2);
    serve(&mut m, &prompt(&[1]));
    let b = run(&mut m, &open(&[1]));
    refused(&mut m, &[b], |m| allocate(m, &prompt(&[9])));
    refused(&mut m, &[b], |m| allocate(m, &open(&[1])));
    m.release(b).unwrap();
    assert_eq!(allocate(&mut m, &open(&[1])).unwrap().cached_tokens, SIZE);
}

#[test]
fn rule_2_a_refused_append_or_loan_leaves_everything_as_it_was() {
    let mut m = small(5);
    let a = run(&mut m, &open(&[1]));
    let b = run(&mut m, &prompt(&[3]));
    serve(&mut m, &prompt(&[2]));
    let error = refused(&mut m, &[a], |m| m.append(a, &prompt(&[5, 6, 7])));
    assert_eq!(
        error,
        Error::NoCapacity { needed: 3, available: 2, total: 5, limit: Limit::Pool, coming: 0 }
    );
    let error = refused(&mut m, &[a], |m| m.append(a, &prompt(&[5, 6, 7, 8])));
    assert!(matches!(error, Error::NeverFits { needed: 6, total: 5, .. }), "{error}");
    refused(&mut m, &[a, b], |m| m.take(&mut [0; 3]));
    // MK-7: once there is room the same call works.
    m.append(a, &prompt(&[5, 6])).unwrap();
    assert_eq!(m.sequence(a).unwrap().len, 13);
}

/// The copy before the write counts: one block is free, and two are needed.
#[test]
fn rule_2_and_3_the_copy_is_counted() {
    let mut m = small(3);
    let a = run(&mut m, &open(&[1])[..3]);
    let b = m.fork(a).unwrap();
    let mut loan = [NIL];
    m.take(&mut loan).unwrap();
    let error = refused(&mut m, &[a, b], |m| m.append(a, &[5, 6]));
    assert_eq!(
        error,
        Error::NoCapacity { needed: 2, available: 1, total: 3, limit: Limit::Pool, coming: 0 }
    );
    m.append(a, &[5]).unwrap();
    refused(&mut m, &[a, b], |m| m.append(a, &[6]));
    m.free(&loan).unwrap();
    m.append(a, &[6]).unwrap();
    m.check_integrity().unwrap();
}

/// What is refused does not even move the clock: later events carry the same ticks.
#[test]
fn rule_2_refusals_leave_no_trace_in_what_follows() {
    let log = |misuse: bool| {
        let mut m = small(5);
        for _ in 0..3 {
            let a = run(&mut m, &open(&[1, 2]));
            if misuse {
                m.append(a, &prompt(&[4, 5, 6])).unwrap_err();
                m.commit(a, 99).unwrap_err();
                m.commit(a, 1).unwrap_err();
                m.truncate(a, 99).unwrap_err();
                m.extend(a, 99).unwrap_err();
                m.release(a + 1).unwrap_err();
                m.fork(a + 1).unwrap_err();
                allocate(&mut m, &open(&[8, 9, 10])).unwrap_err();
                m.take(&mut [0; 4]).unwrap_err();
                m.free(&[0]).unwrap_err();
                m.done(9).unwrap_err();
                m.failed(9).unwrap_err();
                m.step(&Step { release: &[a, a], ..Step::default() }).unwrap_err();
            }
            m.release(a).unwrap();
            serve(&mut m, &open(&[3]));
        }
        let mut events = m.take_events();
        events.retain(|e| e.kind != Kind::Refuse);
        events
    };
    assert_eq!(log(true), log(false));
}

#[test]
fn rule_2_a_step_with_anything_wrong_in_it_changes_nothing() {
    let mut m = small(16);
    let a = run(&mut m, &open(&[1, 2]));
    let b = run(&mut m, &open(&[3]));
    let c = m.fork(b).unwrap();
    m.append(c, &[5]).unwrap();
    let plan = m.take_plan().unwrap();
    let (done, release) = ([plan.ticket], [b]);
    let good = Step { done: &done, release: &release, ..Step::default() };
    let bad = [
        Step { failed: &done, ..good },
        Step { done: &[plan.ticket, 99], ..good },
        Step { release: &[b, b], ..good },
        Step { release: &[b, a + 1], ..good },
        Step { commit: &[(b, 6)], ..good },
        Step { extend: &[(b, 5)], ..good },
        Step { extend: &[(77, 5)], ..good },
        Step { truncate: &[(b, 3)], commit: &[(b, 5)], ..good },
        Step { commit: &[(a, 99)], ..good },
        Step { commit: &[(a, 3)], ..good },
        Step { truncate: &[(a, 99)], ..good },
        Step { truncate: &[(a, 6)], commit: &[(a, 7)], ..good },
        Step { append: &[(b, Ids::Known(&[1]))], ..good },
        Step { append: &[(77, Ids::Known(&[1]))], ..good },
    ];
    for step in &bad {
        refused(&mut m, &[a, b, c], |m| m.step(step));
    }
    m.step(&good).unwrap();
    assert!(m.sequence(b).is_err());
    m.check_integrity().unwrap();
}

/// A want of room in a step concerns that one request alone.
#[test]
fn rule_2_in_a_step_a_refusal_is_one_entry() {
    let mut m = small(6);
    let a = run(&mut m, &open(&[1, 2]));
    let (big, little) = (prompt(&[7, 8, 9, 10]), prompt(&[6]));
    let requests = [request(&big), request(&little)];
    let step =
        Step { append: &[(a, Ids::Known(&[1, 2, 3]))], allocate: &requests, ..Step::default() };
    let step = Step { skip_refused: true, ..step };
    let outcome = m.step(&step).unwrap();
    assert_eq!((outcome.appended, m.sequence(a).unwrap().len), (1, 12));
    assert!(matches!(outcome.refused[..], [Refusal { growth: Growth::Allocate, place: 0, .. }]));
    assert!(matches!(outcome.refused[0].error, Error::NoCapacity { needed: 4, .. }));
    assert_eq!(outcome.allocated[0], None);
    assert_eq!(outcome.allocated[1].as_ref().unwrap().granted_tokens, SIZE);
    m.check_integrity().unwrap();
}

fn why(outcome: &StepResult) -> Vec<Error> {
    outcome.refused.iter().map(|refused| refused.error.clone()).collect()
}

/// First come, first served: what stands behind a refusal waits, whether it would fit or not.
#[test]
fn in_a_step_nobody_overtakes_unless_told_to() {
    let mut m = small(3);
    let (big, little) = (prompt(&[7, 8, 9, 10]), prompt(&[6]));
    let requests = [request(&big), request(&little)];
    let step = Step { allocate: &requests, ..Step::default() };
    let outcome = m.step(&step).unwrap();
    assert!(matches!(why(&outcome)[..], [Error::NeverFits { .. }, Error::NotTried]));
    let outcome = m.step(&Step { skip_refused: true, ..step }).unwrap();
    assert!(matches!(why(&outcome)[..], [Error::NeverFits { .. }]));
    assert!(matches!(outcome.allocated[..], [None, Some(_)]));
}

/// The budget counts tokens to compute; hits come on top.
#[test]
fn a_step_grants_what_its_budget_allows() {
    let mut m = small(16);
    serve(&mut m, &prompt(&[1]));
    let (a, b) = (open(&[1, 2]), open(&[3, 4]));
    let requests = [request(&a), request(&b), request(&b)];
    let step = Step { allocate: &requests, token_budget: Some(7), ..Step::default() };
    let outcome = m.step(&step).unwrap();
    let granted: Vec<_> = outcome.allocated.iter().flatten().map(|g| g.granted_tokens).collect();
    assert_eq!(granted, [9, 2], "4 found and 5 to compute, then 2 of the budget");
    assert_eq!(why(&outcome), [Error::NotTried]);
}

#[test]
fn a_partial_grant_takes_what_there_is_from_the_front() {
    let mut m = small(3);
    let held = run(&mut m, &prompt(&[9]));
    let tokens = open(&[1, 2, 3]);
    let allocation = m.allocate(&Request { partial: true, ..request(&tokens) }).unwrap();
    assert_eq!((allocation.granted_tokens, allocation.prompt_tokens), (8, 13));
    let error = refused(&mut m, &[allocation.seq], |m| m.append(allocation.seq, &[1]));
    assert!(matches!(error, Error::Invalid { what: "append", .. }), "{error}");
    m.commit(allocation.seq, 8).unwrap();
    m.release(held).unwrap();
    m.extend(allocation.seq, 12).unwrap();
    assert_eq!(table(&m, allocation.seq).len(), 3);
    m.check_integrity().unwrap();
}

#[test]
fn chunks_are_granted_on_top_of_hits() {
    let mut m = small(16);
    serve(&mut m, &prompt(&[1, 2]));
    let tokens = open(&[1, 2, 3, 4]);
    let allocation = m.allocate(&Request { chunk: 5, ..request(&tokens) }).unwrap();
    assert_eq!((allocation.cached_tokens, allocation.granted_tokens), (8, 13));
    let error = refused(&mut m, &[allocation.seq], |m| m.commit(allocation.seq, 14));
    assert_eq!(error, Error::CommitPastEnd { asked: 14, limit: 13 });
    m.commit(allocation.seq, 13).unwrap();
    assert_eq!(m.pool().state(table(&m, allocation.seq)[2]), State::Committed);
    m.extend(allocation.seq, 17).unwrap();
    m.commit(allocation.seq, 17).unwrap();
    m.append(allocation.seq, &[1]).unwrap();
}

#[test]
fn rule_13_block_0_is_an_ordinary_block() {
    let mut m = small(2);
    let a = run(&mut m, &open(&[1]));
    assert_eq!(table(&m, a), [0, 1]);
    m.release(a).unwrap();
    assert_eq!(m.lookup(&open(&[1]), Space::default(), &[]).blocks, [[0]]);
    let mut loan = [NIL, NIL];
    m.take(&mut loan).unwrap();
    assert!(loan.contains(&0));
}

#[test]
fn rule_13_the_null_block_is_nobodys() {
    let options = Options { blocks: 3, block_size: SIZE, null_block: true, ..Options::default() };
    let mut m = build(options, "lru");
    assert_eq!((m.pool().usable(), m.pool().free(), m.pool().referenced()), (2, 2, 1));
    assert_eq!(m.pool().state(0), State::Null);
    let before = picture(&m, &[]);
    let error = refused(&mut m, &[], |m| allocate(m, &prompt(&[1, 2, 3])));
    assert!(matches!(error, Error::NeverFits { needed: 3, total: 2, .. }), "{error}");
    refused(&mut m, &[], |m| m.free(&[0]));
    assert_eq!(picture(&m, &[]), before);
    let a = run(&mut m, &prompt(&[1, 2]));
    assert_eq!(table(&m, a), [1, 2]);
    m.release(a).unwrap();
    m.reset_prefix_cache();
    m.check_integrity().unwrap();
    let one = Options { blocks: 1, null_block: true, ..Options::default() };
    assert!(matches!(one.validate(), Err(Error::Invalid { what: "blocks", .. })));
}
