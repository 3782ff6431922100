//! Rule 9: misuse is refused with a typed error that names the value and the limit.

use kvframe_core::policy::{POLICIES, PolicyOptions, by_name};
use kvframe_core::{Error, GroupKind, Key, Manager, NIL, Options};

use crate::common::{allocate, open, prompt, refused, run, small};

// scenario: CB-7, IL-B7
/// CB-7, IL-B7: a handle that ended does not reach the sequence that took its slot.
#[test]
fn rule_9_stale_handles_do_not_alias() {
    let mut m = small(8);
    let old = run(&mut m, &open(&[1]));
    m.release(old).unwrap();
    let new = run(&mut m, &open(&[2]));
    assert_eq!(old as u32, new as u32, "the slot is used again");
    let held = [new];
    let stale = Error::StaleSequence(old);
    assert_eq!(refused(&mut m, &held, |m| m.release(old)), stale);
    assert_eq!(refused(&mut m, &held, |m| m.commit(old, 1)), stale);
    assert_eq!(refused(&mut m, &held, |m| m.append(old, &[1])), stale);
    assert_eq!(refused(&mut m, &held, |m| m.extend(old, 1)), stale);
    assert_eq!(refused(&mut m, &held, |m| m.truncate(old, 0)), stale);
    assert_eq!(refused(&mut m, &held, |m| m.fork(old)), stale);
    assert_eq!(m.sequence(old).unwrap_err(), stale);
    for never in [0, 5, new + 1, new + (1 << 32), u64::MAX] {
        assert_eq!(refused(&mut m, &held, |m| m.release(never)), Error::UnknownSequence(never));
    }
    m.release(new).unwrap();
    assert_eq!(refused(&mut m, &[], |m| m.release(new)), Error::StaleSequence(new));
}

// scenario: V10
/// V10: a block given back twice, in one call or two, is refused; so is one never lent.
#[test]
fn rule_9_loans_are_given_back_once() {
    let mut m = small(8);
    let seq = run(&mut m, &prompt(&[1]));
    let mut loan = [NIL; 3];
    m.take(&mut loan).unwrap();
    let owned = m.sequence(seq).unwrap().tables[0][0];
    let why = |error: Error| match error {
        Error::NotLent { block, state, why } => (block, state, why),
        other => panic!("{other}"),
    };
    let two = [loan[0], loan[1], loan[0]];
    let error = refused(&mut m, &[seq], |m| m.free(&two));
    assert_eq!(why(error), (u64::from(loan[0]), "taken", "it is named twice"));
    let error = refused(&mut m, &[seq], |m| m.free(&[loan[2], owned]));
    assert_eq!(why(error), (u64::from(owned), "committed", "it was never taken"));
    let error = refused(&mut m, &[seq], |m| m.free(&[loan[2], 8]));
    assert_eq!(why(error), (8, "free", "the pool has no such block"));
    refused(&mut m, &[seq], |m| m.free(&[NIL]));
    let error = refused(&mut m, &[seq], |m| m.publish_block(8, Key(1), NIL).map(|_| ()));
    assert_eq!(why(error), (8, "free", "the pool has no such block"));
    let error = refused(&mut m, &[seq], |m| m.publish_block(owned, Key(1), NIL).map(|_| ()));
    assert_eq!(why(error), (u64::from(owned), "committed", "it is published already"));
    m.free(&loan).unwrap();
    let error = refused(&mut m, &[seq], |m| m.free(&loan));
    assert_eq!(why(error).2, "it was given back before: a double free");
    assert_eq!(m.pool().free(), 7, "seven, not ten");
}

/// The first block given back is lent again first; ids stay distinct (ST32).
#[test]
fn rule_9_loans_are_distinct_and_all_or_nothing() {
    let mut m = small(4);
    let mut loan = [NIL; 4];
    m.take(&mut loan).unwrap();
    let mut ids = loan;
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    refused(&mut m, &[], |m| m.take(&mut [NIL]));
    m.free(&[2, 0]).unwrap();
    let mut again = [NIL; 2];
    m.take(&mut again).unwrap();
    assert_eq!(again, [2, 0]);
    m.take(&mut []).unwrap();
    m.free(&[]).unwrap();
    m.check_integrity().unwrap();
}

// scenario: MK-9
/// MK-9: a commit stays within what has slots, and does not go back.
#[test]
fn rule_9_lengths_have_limits() {
    let mut m = small(8);
    let seq = run(&mut m, &open(&[1]));
    let limit = refused(&mut m, &[seq], |m| m.commit(seq, 6));
    assert_eq!(limit, Error::CommitPastEnd { asked: 6, limit: 5 });
    assert_eq!(limit.to_string(), "commit of 6 tokens, but the sequence has slots for 5");
    let back = refused(&mut m, &[seq], |m| m.commit(seq, 4));
    assert_eq!(back, Error::Backwards { what: "commit", asked: 4, limit: 5 });
    assert_eq!(back.to_string(), "commit of 4 tokens, but 5 are already there");
    let error = refused(&mut m, &[seq], |m| m.truncate(seq, 6));
    assert!(matches!(error, Error::Invalid { what: "truncate", .. }), "{error}");
    let error = refused(&mut m, &[seq], |m| m.extend(seq, 6));
    assert!(matches!(error, Error::Invalid { what: "extend", .. }), "{error}");
    let error = refused(&mut m, &[seq], |m| m.extend(seq, 4));
    assert_eq!(error, Error::Backwards { what: "extend", asked: 4, limit: 5 });
    m.commit(seq, 5).unwrap();
    m.truncate(seq, 5).unwrap();
    m.extend(seq, 5).unwrap();
}

#[test]
fn rule_9_tickets_are_settled_once() {
    let mut m = small(8);
    let a = run(&mut m, &open(&[1]));
    let b = m.fork(a).unwrap();
    m.append(a, &[1]).unwrap();
    let ticket = m.take_plan().unwrap().ticket;
    let held = [a, b];
    for wrong in [0, ticket + 1, u64::MAX] {
        assert_eq!(refused(&mut m, &held, |m| m.done(wrong)), Error::UnknownTicket(wrong));
        assert_eq!(refused(&mut m, &held, |m| m.failed(wrong)), Error::UnknownTicket(wrong));
    }
    m.done(ticket).unwrap();
    assert_eq!(refused(&mut m, &held, |m| m.done(ticket)), Error::UnknownTicket(ticket));
    assert_eq!(refused(&mut m, &held, |m| m.failed(ticket)), Error::UnknownTicket(ticket));
}

// scenario: IL-B10, CB-B15, V33
/// IL-B10, CB-B15, V33: impossible options are refused, and name the option and the limit.
#[test]
fn rule_9_options_have_limits() {
    let with = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        let policy = by_name("lru", PolicyOptions::default()).unwrap();
        Manager::new(options, policy).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|o| (o.blocks, o.block_size) = (1, 1)), Ok(()));
    assert!(with(|o| o.blocks = 0).unwrap_err().starts_with("blocks = 0: must be between 1 and"));
    let size = "block_size = 0: must be between 1 and 65536";
    assert_eq!(with(|o| o.block_size = 0).unwrap_err(), size);
    let of_no_tokens = Options { block_size: 0, ..Options::default() };
    assert_eq!(of_no_tokens.faults().len(), 1, "told before anything is built");
    assert!(with(|o| o.block_size = 65537).is_err());
    assert!(with(|o| o.groups.clear()).is_err());
    assert!(with(|o| o.groups = vec![GroupKind::Full.into(); 17]).is_err());
    assert_eq!(
        with(|o| o.groups = vec![GroupKind::SlidingWindow { window: 0 }.into()]).unwrap_err(),
        "window = 0: a sliding window holds at least 1 token"
    );
}

#[test]
fn rule_9_an_unknown_policy_lists_what_there_is() {
    let error = by_name("lruu", PolicyOptions::default()).err().unwrap();
    assert!(matches!(error, Error::UnknownName { what: "eviction policy", .. }), "{error}");
    let names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    assert!(error.to_string().ends_with(&names.join(", ")), "{error}");
    assert!(error.to_string().contains("\"lruu\" is unknown; there are lru"), "{error}");
}

#[test]
fn rule_9_an_option_of_a_policy_has_a_name_and_limits() {
    let error = |options: &[(&str, u32)]| by_name("slru", PolicyOptions(options)).err();
    assert!(error(&[("protected_uses", 1)]).is_none());
    let strange = error(&[("protected_uses", 1), ("protected_use", 1)]).unwrap().to_string();
    assert_eq!(strange, "option \"protected_use\" is unknown; there are protected_uses");
    let low = error(&[("protected_uses", 0)]).unwrap().to_string();
    assert_eq!(low, "protected_uses = 0: must be between 1 and 4294967295");
    for policy in POLICIES {
        let limits =
            policy.options.iter().flat_map(|o| [o.least, o.default, o.most].map(|n| (o, n)));
        for (option, n) in limits {
            assert!(policy.make(PolicyOptions(&[(option.name, n)])).is_ok(), "{option:?}: {n}");
        }
    }
}

// scenario: FE-B16
/// FE-B16: a second admission is a second sequence, never another's handle.
#[test]
fn rule_9_handles_are_distinct() {
    let mut m = small(64);
    let mut handles = Vec::new();
    for _ in 0..4 {
        for i in 0..8 {
            handles.push(allocate(&mut m, &[i]).unwrap().seq);
        }
        for seq in &handles[handles.len() - 4..] {
            m.release(*seq).unwrap();
        }
    }
    let all = handles.len();
    handles.sort_unstable();
    handles.dedup();
    assert_eq!((handles.len(), m.num_running()), (all, 16));
}
