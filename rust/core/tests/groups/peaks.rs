//! How many blocks a sequence holds at once on its way: what is refused, and what is left for it.

use super::common::request;
use super::dice::Dice;
use super::helpers::{FULL, STATE, chunked, sink, window};
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::{Error, Group, Manager, Options, Request, SeqId};

const SIZE: u32 = 4;

fn groups(dice: &mut Dice) -> Vec<Group> {
    let count = dice.between(1, 3);
    let any = |dice: &mut Dice| {
        let (a, b) = (dice.between(1, 13), dice.between(1, 10));
        let kind = match dice.below(5) {
            0 => FULL,
            1 => window(a),
            2 => chunked(a),
            3 => sink(b - 1, a),
            _ => STATE,
        };
        let lag = if kind == STATE { 0 } else { dice.pick(&[0, 0, 1, 5]) };
        Group { units: dice.pick(&[1, 1, 2, 3]), lag, ..kind.into() }
    };
    (0..count).map(|_| any(dice)).collect()
}

fn pool(blocks: u32, groups: &[Group]) -> Manager {
    let groups = groups.to_vec();
    let options = Options { blocks, block_size: SIZE, groups, ..Options::default() };
    Manager::new(options, by_name("lru", PolicyOptions::default()).unwrap()).unwrap()
}

fn own(m: &Manager, seq: SeqId) -> u32 {
    let tables = &m.sequence(seq).unwrap().tables;
    tables.iter().flatten().filter(|&&b| b != kvframe_core::NIL).count() as u32
}

/// Computes what has slots, and gets one more.
fn step(m: &mut Manager, seq: SeqId) -> Result<(), Error> {
    let len = m.sequence(seq).unwrap().len;
    m.commit(seq, len).unwrap();
    if len < m.sequence(seq).unwrap().known() {
        m.extend(seq, len + 1)
    } else {
        m.append(seq, &[7])
    }
}

/// Blocks held at each length on the way to `tokens`, counted on the way.
fn way(groups: &[Group], tokens: u32) -> Vec<u32> {
    let mut m = pool(1_000, groups);
    let text = vec![1; tokens as usize];
    let seq = m.allocate(&Request { chunk: 1, read_cache: false, ..request(&text) }).unwrap().seq;
    let mut held = vec![own(&m, seq)];
    while m.sequence(seq).unwrap().len < tokens {
        step(&mut m, seq).unwrap();
        held.push(own(&m, seq));
    }
    held
}

// scenario: U-12, VT28, VT40
/// What is let in runs to its end alone, and only what cannot is refused for ever.
#[test]
fn a_prompt_is_refused_for_ever_only_where_it_cannot_run_alone() {
    let mut dice = Dice::new(1);
    for _ in 0..400 {
        let (groups, tokens) = (groups(&mut dice), dice.between(1, 70));
        let most = *way(&groups, tokens).iter().max().unwrap();
        let text = vec![1; tokens as usize];
        let asked = Request { chunk: 1, read_cache: false, ..request(&text) };
        let mut m = pool(most, &groups);
        let seq = m.allocate(&asked).unwrap_or_else(|e| panic!("{groups:?}, {tokens}: {e}")).seq;
        for _ in 1..tokens {
            step(&mut m, seq).unwrap();
        }
        m.check_integrity().unwrap();
        if most > 1 {
            let error = pool(most - 1, &groups).allocate(&asked).unwrap_err();
            let total = u64::from(most) - 1;
            let told = format!("needs {} blocks, but the whole pool has {total}: ", total + 1);
            assert!(error.to_string().starts_with(&told), "{groups:?}, {tokens}: {error}");
            // The same for an answer, a token at a time.
            let mut m = pool(most - 1, &groups);
            let Ok(allocation) = m.allocate(&request(&[1])) else { continue };
            let error = (1..tokens).find_map(|_| step(&mut m, allocation.seq).err()).unwrap();
            assert!(matches!(error, Error::NeverFits { .. }), "{groups:?}, {tokens}: {error}");
        }
    }
}

// scenario: U-13, VT28
/// What is left for a sequence that was let in whole is what it lacks, at every length.
#[test]
fn what_a_whole_sequence_lacks_is_left_and_no_more() {
    let (mut dice, mut asked) = (Dice::new(2), 0);
    for _ in 0..400 {
        let (groups, tokens) = (groups(&mut dice), dice.between(2, 70));
        let held = way(&groups, tokens);
        let at = dice.between(1, tokens - 1) as usize;
        let lacks = held[at - 1..].iter().max().unwrap() - held[at - 1];
        let other = groups.len() as u32;
        let first = Request { max_seq_len: tokens, full_sequence_must_fit: true, ..request(&[1]) };
        for fits in [true, false] {
            let blocks = held[at - 1] + lacks + other - u32::from(!fits);
            let mut m = pool(blocks, &groups);
            // It may have needed more before.
            let Ok(allocation) = m.allocate(&first) else { continue };
            for _ in 1..at {
                step(&mut m, allocation.seq).unwrap();
            }
            let second = m.allocate(&Request { write_cache: false, ..request(&[2]) });
            assert_eq!(second.is_ok(), fits, "{groups:?}, {at} of {tokens}: {second:?}");
            for _ in at as u32..tokens {
                step(&mut m, allocation.seq).unwrap();
            }
            m.check_integrity().unwrap();
            asked += 1;
        }
    }
    assert!(asked > 500);
}

// scenario: U-13, U-11
/// Who was promised its room gets it, whoever else it shares a prefix with and whenever it goes on.
#[test]
fn a_promise_holds_where_a_prefix_is_shared() {
    let mut dice = Dice::new(3);
    for _ in 0..400 {
        let groups = groups(&mut dice);
        let mut m = pool(dice.between(4, 40), &groups);
        let mut runs: Vec<(SeqId, u32)> = Vec::new();
        for _ in 0..120 {
            if dice.one_in(4) {
                let long = dice.between(1, 40);
                let text: Vec<u32> = (0..long).collect();
                let max_tokens = long + dice.between(0, 30);
                let chunk = dice.pick(&[1, 4, 100]);
                let asked = Request {
                    max_seq_len: max_tokens,
                    full_sequence_must_fit: true,
                    chunk,
                    ..request(&text)
                };
                if let Ok(allocation) = m.allocate(&asked) {
                    runs.push((allocation.seq, max_tokens));
                }
            } else if !runs.is_empty() {
                let at = dice.below(runs.len());
                let (seq, most) = runs[at];
                if m.sequence(seq).unwrap().len < most {
                    step(&mut m, seq).unwrap_or_else(|e| panic!("{groups:?}: {e}"));
                } else {
                    m.release(seq).unwrap();
                    runs.swap_remove(at);
                }
            }
            m.check_integrity().unwrap();
        }
    }
}
