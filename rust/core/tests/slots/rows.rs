//! The slots by hand.

use kvframe_core::Error;
use kvframe_core::slots::Standing;

use crate::engine::{Engine, SPACES, place};

fn engine() -> Engine {
    Engine::new(4, 16, 1, "lru")
}

// scenario: SA-1, SA-2
#[test]
fn the_lowest_empty_slot_comes_first_and_a_reused_one_has_another_version() {
    let mut e = engine();
    let seqs: Vec<_> = (0..4).map(|i| e.allocate(&[i], 0).unwrap().seq).collect();
    assert_eq!(seqs, [1 << 32, (1 << 32) + 1, (1 << 32) + 2, (1 << 32) + 3]);
    assert_eq!(e.allocate(&[9], 0), Err(Error::NoSlot { slots: 4 }));
    for slot in [3, 1, 2] {
        e.slots.release(seqs[slot]).unwrap();
    }
    for slot in [1, 2, 3] {
        assert_eq!(e.allocate(&[9], 0).unwrap().seq, (2 << 32) + slot);
    }
    assert_eq!(e.slots.release(seqs[2]), Err(Error::StaleSequence(seqs[2])));
    assert_eq!(e.slots.release(9), Err(Error::UnknownSequence(9)));
    e.slots.check_integrity().unwrap();
}

// scenario: SA-3
#[test]
fn a_prompt_is_found_as_far_as_a_slot_holds_it() {
    let mut e = engine();
    e.serve(&[1, 2, 3]);
    let look = |tokens: &[u32]| e.slots.lookup(tokens, SPACES[0]);
    assert_eq!([look(&[1, 2, 3, 4]), look(&[1, 2, 9]), look(&[9, 1]), look(&[])], [3, 2, 0, 0]);
    assert_eq!(look(&[1, 2, 3]), 2, "the last token is computed");
    assert_eq!(e.slots.lookup(&[1, 2, 3, 4], SPACES[1]), 0);
}

// scenario: SA-5
#[test]
fn a_prompt_goes_on_in_place_or_by_a_copy() {
    let mut e = engine();
    let first = e.serve(&[1, 2, 3]);
    let second = e.serve(&[1, 2, 3, 4, 5]);
    assert_eq!((place(second.seq), second.cached, second.copied_from), (0, 3, None));
    assert!(second.seq > first.seq, "another version");
    let other = e.serve(&[1, 2, 9]);
    assert_eq!((place(other.seq), other.cached, other.copied_from), (1, 2, Some(0)));
    assert_eq!(e.slots.lookup(&[1, 2, 3, 4, 5, 6], SPACES[0]), 5, "the longer one is still there");
}

// scenario: SA-B6
#[test]
fn what_was_overwritten_is_not_found_by_its_old_words() {
    let mut e = Engine::new(1, 16, 1, "lru");
    e.serve(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(e.serve(&[1, 2, 3, 40, 50, 60]).cached, 3);
    assert_eq!(e.slots.lookup(&[1, 2, 3, 4, 5, 6, 7], SPACES[0]), 3);
    assert_eq!(e.serve(&[1, 2, 3, 4, 5, 6]).cached, 3);
    let counters = e.slots.counters();
    assert_eq!((counters.in_place, counters.overwritten, counters.evictions), (2, 6, 0));
}

// scenario: SA-B7
#[test]
fn of_several_slots_each_is_found_for_what_it_holds() {
    let mut e = engine();
    e.serve(&[1, 2, 3]);
    let longer = e.allocate(&[1, 2, 7, 8], 0).unwrap();
    assert_eq!(longer.copied_from, Some(0));
    let plan = e.slots.take_plan().unwrap();
    e.run(&plan);
    e.slots.done(plan.ticket).unwrap();
    e.compute(longer.seq, 0, &[1, 2, 7, 8], 2, 4);
    assert_eq!(e.slots.lookup(&[1, 2, 3, 0], SPACES[0]), 3, "the older slot is not forgotten");
    assert_eq!(e.slots.lookup(&[1, 2, 7, 8, 0], SPACES[0]), 4);
    let on = e.allocate(&[1, 2, 3, 4], 0).unwrap();
    assert_eq!((place(on.seq), on.cached, on.copied_from), (0, 3, None));
}

// scenario: SA-B12
#[test]
fn an_unsettled_copy_keeps_both_its_ends_and_is_no_hit() {
    let mut e = Engine::new(2, 16, 1, "lru");
    e.serve(&[1, 2, 3, 4]);
    let got = e.allocate(&[1, 2, 9], 0).unwrap();
    let plan = e.slots.take_plan().unwrap();
    assert_eq!((plan.copies.len(), plan.copies[0].tokens), (1, 2));
    e.slots.release(got.seq).unwrap();
    let standing = |e: &Engine| e.slots.rows().map(|row| row.standing).collect::<Vec<_>>();
    assert_eq!(standing(&e), [Standing::Copying, Standing::Copying]);
    assert_eq!(e.allocate(&[7], 0), Err(Error::NoSlot { slots: 2 }));
    e.slots.check_integrity().unwrap();
    e.slots.done(plan.ticket).unwrap();
    assert_eq!(e.slots.done(plan.ticket), Err(Error::UnknownTicket(plan.ticket)));
    assert_eq!(standing(&e), [Standing::Cached, Standing::Cached]);
    e.slots.check_integrity().unwrap();
}

// scenario: SA-B12, T1
#[test]
fn a_failed_copy_leaves_nothing_to_find_and_tells_who_starts_anew() {
    let mut e = engine();
    e.serve(&[1, 2, 3, 4]);
    let (gone, kept) = (e.allocate(&[1, 2, 8], 0).unwrap(), e.allocate(&[1, 2, 9], 0).unwrap());
    let plan = e.slots.take_plan().unwrap();
    e.slots.release(gone.seq).unwrap();
    assert_eq!(e.slots.failed(plan.ticket), Ok(vec![kept.seq]));
    let rows: Vec<_> = e.slots.rows().map(|row| (row.standing, row.committed)).collect();
    let (cached, empty) = ((Standing::Cached, 4), (Standing::Empty, 0));
    assert_eq!(rows, [cached, empty, (Standing::Live, 0), empty]);
    e.compute(kept.seq, 0, &[1, 2, 9], 0, 3);
    assert_eq!(e.slots.lookup(&[1, 2, 9, 0], SPACES[0]), 3);
    e.slots.check_integrity().unwrap();
}

#[test]
fn a_slot_ends_where_it_ends() {
    let mut e = Engine::new(1, 4, 1, "lru");
    let full = |needed| Err(Error::SlotFull { needed, holds: 4 });
    assert_eq!(e.allocate(&[1; 5], 0).map(drop), full(5));
    let seq = e.allocate(&[1, 2, 3], 0).unwrap().seq;
    assert_eq!(e.slots.append(seq, &[4, 5]), full(5));
    e.slots.append(seq, &[4]).unwrap();
    assert_eq!(e.slots.advance(&[seq], &[5]), full(5));
    assert_eq!(e.slots.commit(seq, 5), Err(Error::CommitPastEnd { asked: 5, limit: 4 }));
    e.slots.commit(seq, 2).unwrap();
    assert!(matches!(e.slots.commit(seq, 1), Err(Error::Backwards { .. })));
    assert!(matches!(e.slots.truncate(seq, 5), Err(Error::Invalid { what: "length", .. })));
    assert!(matches!(e.allocate(&[], 0), Err(Error::Invalid { what: "prompt", .. })));
    e.slots.check_integrity().unwrap();
}

#[test]
fn a_cut_below_what_is_found_is_found_no_more_and_waits_for_readers() {
    let mut e = engine();
    let seq = e.allocate(&[1, 2, 3, 4], 0).unwrap().seq;
    e.compute(seq, 0, &[1, 2, 3, 4], 0, 4);
    e.slots.truncate(seq, 2).unwrap();
    assert_eq!(e.slots.lookup(&[1, 2, 3, 4, 5], SPACES[0]), 2);
    e.allocate(&[1, 2, 9], 0).unwrap();
    let refused = e.slots.truncate(seq, 1).unwrap_err();
    assert!(refused.to_string().contains("reads 2 tokens"), "{refused}");
    let plan = e.slots.take_plan().unwrap();
    e.slots.done(plan.ticket).unwrap();
    e.slots.truncate(seq, 0).unwrap();
    e.slots.check_integrity().unwrap();
    assert_eq!(e.slots.lookup(&[1, 2, 3], SPACES[0]), 2, "the copy has them");
}

#[test]
fn a_decode_step_is_one_call_and_all_or_nothing() {
    let mut e = engine();
    let a = e.allocate(&[1, 2], 0).unwrap().seq;
    let b = e.allocate(&[5], 0).unwrap().seq;
    for (seqs, tokens) in
        [(vec![a, b, a], vec![1, 2, 3]), (vec![a, 77], vec![1, 2]), (vec![a], vec![])]
    {
        assert!(e.slots.advance(&seqs, &tokens).is_err());
        assert!(e.slots.rows().all(|row| row.committed == 0));
    }
    e.slots.advance(&[b, a], &[6, 3]).unwrap();
    let rows: Vec<_> = e.slots.rows().map(|row| (row.known, row.committed, row.found)).collect();
    assert_eq!(rows[..2], [(3, 2, 2), (2, 1, 1)]);
    e.slots.check_integrity().unwrap();
}

#[test]
fn short_prefixes_are_not_worth_a_copy_but_go_on_in_place() {
    let mut e = Engine::new(2, 16, 3, "lru");
    e.serve(&[1, 2, 3, 4]);
    let short = e.serve(&[1, 2, 8, 8]);
    assert_eq!((short.cached, short.copied_from), (0, None));
    let last = e.serve(&[1, 9, 9]);
    assert_eq!((place(last.seq), last.cached), (0, 1), "the slot that is given up has it");
    assert_eq!(e.slots.counters().copies, 0);
}

#[test]
fn the_policy_says_which_slot_is_given_up() {
    for (policy, kept) in [("lru", [3, 2]), ("mru", [3, 1]), ("fifo", [3, 2])] {
        let mut e = Engine::new(2, 16, 1, policy);
        for word in 1..4 {
            e.serve(&[word, word, word]);
        }
        let there = |word: u32| e.slots.lookup(&[word; 4], SPACES[0]) > 0;
        assert!(kept.iter().all(|&word| there(word)), "{policy}");
        assert_eq!(e.slots.counters().evictions, 1);
    }
}

#[test]
fn after_a_clear_nothing_old_is_found_and_what_runs_leaves_nothing() {
    let mut e = engine();
    e.serve(&[1, 2, 3]);
    let runs = e.allocate(&[7, 8], 0).unwrap().seq;
    e.compute(runs, 0, &[7, 8], 0, 2);
    assert_eq!(e.slots.set_weight_version(b"others"), Ok(1));
    e.slots.check_integrity().unwrap();
    for prompt in [[1, 2, 3], [7, 8, 9]] {
        assert_eq!(e.slots.lookup(&prompt, SPACES[0]), 0);
    }
    e.slots.append(runs, &[9]).unwrap();
    e.slots.commit(runs, 3).unwrap();
    e.slots.release(runs).unwrap();
    assert!(e.slots.rows().all(|row| row.standing == Standing::Empty));
    e.slots.check_integrity().unwrap();
}
