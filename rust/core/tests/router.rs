//! The router's index beside a plain model, and what its events mean.

use std::collections::{BTreeMap, BTreeSet};

use kvframe_core::router::{PrefixReach, Rank, Router, SOMEWHERE, TIERS, Text};
use proptest::prelude::*;

const GPU: u8 = 0;
const HOST: u8 = 1;

fn reaches(router: &mut Router, keys: &[u64]) -> Vec<(u64, [u32; TIERS])> {
    router.match_keys(keys).iter().map(|r| (r.worker, r.blocks)).collect()
}

fn text(tokens: &[u32], space: u64) -> Text<'_> {
    Text { tokens, marks: &[], space }
}

fn at(worker: u64) -> Rank {
    worker.into()
}

fn of(workers: &[u64]) -> Router {
    let mut router = Router::new(0, 1000);
    for &worker in workers {
        assert!(router.add_worker(worker));
    }
    router
}

// scenario: S31
#[test]
fn a_copy_in_a_lower_tier_is_still_held() {
    let mut router = of(&[7]);
    router.stored(at(7), &[1, 2, 3], None, Text::default(), GPU);
    router.stored(at(7), &[2, 3], None, Text::default(), HOST);
    router.removed(at(7), &[2], GPU);
    assert_eq!(reaches(&mut router, &[1, 2, 3]), [(7, [1, 3, 3, 3])]);
    router.removed(at(7), &[2], HOST);
    assert_eq!(reaches(&mut router, &[1, 2, 3]), [(7, [1, 1, 1, 1])]);
    // The head comes back in front of what is still held.
    router.stored(at(7), &[2], None, Text::default(), GPU);
    assert_eq!(reaches(&mut router, &[1, 2, 3]), [(7, [3, 3, 3, 3])]);
}

// scenario: S31
#[test]
fn the_index_has_a_bound_and_keeps_what_is_asked_for() {
    let mut router = Router::new(0, 100);
    router.add_worker(1);
    router.stored(at(1), &[1, 2, 3], None, Text::default(), GPU);
    for key in 1000..100_000 {
        router.stored(at(1), &[key], None, Text::default(), GPU);
        assert_eq!(router.match_keys(&[1, 2, 3])[0].blocks[0], 3, "at {key}");
        assert!(router.len() <= 100);
    }
    assert_eq!(router.counts().dropped, 99_000 - 97);
    // The newest of the others are there, the oldest are gone.
    assert_eq!(router.match_keys(&[99_999]).len() + router.match_keys(&[99_910]).len(), 2);
    assert!(router.match_keys(&[99_800]).is_empty());
}

// scenario: T27
#[test]
fn a_worker_that_is_gone_holds_nothing_whatever_still_comes_from_it() {
    let mut router = of(&[1, 2]);
    router.stored(at(1), &[1, 2], None, Text::default(), GPU);
    router.stored(at(2), &[1], None, Text::default(), GPU);
    assert_eq!(router.remove_worker(1), Some(2));
    assert_eq!(router.remove_worker(1), None);
    assert_eq!(router.stored(at(1), &[1, 2, 3], None, Text::default(), GPU), 0);
    assert_eq!((router.removed(at(1), &[1], GPU), router.cleared(at(1))), (0, 0));
    assert_eq!(router.counts().ignored, 3);
    assert_eq!(reaches(&mut router, &[1, 2]), [(2, [1; TIERS])]);
    // It comes back empty, in the same slot or another.
    assert!(router.add_worker(1) && !router.add_worker(1));
    assert_eq!(reaches(&mut router, &[1, 2]), [(2, [1; TIERS])]);
    assert_eq!(router.workers().collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
}

// scenario: T26
#[test]
fn cleared_is_acted_on_for_that_worker_alone() {
    let mut router = of(&[1, 2]);
    router.stored(at(1), &[1, 2], None, Text::default(), GPU);
    router.stored(at(2), &[1, 2], None, Text::default(), HOST);
    assert_eq!(router.cleared(at(1)), 2);
    assert_eq!(reaches(&mut router, &[1, 2]), [(2, [0, 2, 2, 2])]);
    router.cleared(at(2));
    assert!(router.is_empty());
}

#[test]
fn engines_that_hash_differently_are_asked_by_tokens() {
    let mut router = Router::new(4, 1000);
    router.add_worker(1);
    router.add_worker(2);
    let prompt: Vec<u32> = (0..12).collect();
    let space = Router::space(b"", b"");
    assert_eq!(router.stored(at(1), &[11, 12], None, text(&prompt[..8], space), GPU), 2);
    assert_eq!(router.stored(at(1), &[13], Some(12), text(&prompt[8..], space), GPU), 1);
    assert_eq!(router.stored(at(2), &[901], None, text(&prompt[..4], space), GPU), 1);
    let reach = |router: &mut Router, tokens: &[u32], space| {
        let found = router.match_tokens(text(tokens, space));
        found.iter().map(|r| (r.worker, r.blocks[0])).collect::<Vec<_>>()
    };
    assert_eq!(reach(&mut router, &prompt, space), [(1, 3), (2, 1)]);
    assert_eq!(reach(&mut router, &prompt[..7], space), [(1, 1), (2, 1)]);
    assert_eq!(reach(&mut router, &prompt[4..], space), []);
    assert_eq!(reach(&mut router, &prompt, Router::space(b"tenant", b"")), []);
    assert_ne!(Router::space(b"ab", b"c"), Router::space(b"a", b"bc"));
    // A parent nobody told of, and ids too short for the hashes.
    assert_eq!(router.stored(at(2), &[77], Some(76), text(&prompt[..4], space), GPU), 0);
    assert_eq!(router.stored(at(2), &[902, 903], Some(901), text(&prompt[4..10], space), GPU), 1);
    assert_eq!(router.counts().unplaced, 2);
    // Where a block lies is told without tokens.
    assert_eq!(router.stored(at(2), &[901, 999], None, text(&[], space), HOST), 1);
    router.removed(at(2), &[901], GPU);
    assert_eq!(
        router.match_tokens(text(&prompt, space))[1],
        PrefixReach { worker: 2, rank: 0, blocks: [0, 2, 2, 2] }
    );
    assert_eq!(router.removed(at(1), &[13, 12, 13], GPU), 2);
    assert_eq!(reach(&mut router, &prompt, space), [(1, 1), (2, 0)]);
}

// scenario: VT10, MK-B16
#[test]
fn blocks_of_the_same_tokens_are_told_apart_by_their_marks() {
    let mut router = Router::new(2, 1000);
    router.add_worker(1);
    let tokens: Vec<u32> = (0..6).collect();
    let marked = |marks| Text { tokens: &tokens, marks, space: 7 };
    let reach = |router: &mut Router, marks| {
        router.match_tokens(marked(marks)).first().map_or(0, |r| r.blocks[0])
    };
    assert_eq!(router.stored(at(1), &[1, 2, 3], None, marked(&[0, 5]), GPU), 3);
    for (marks, blocks) in
        [(&[0, 5][..], 3), (&[0, 5, 0, 9], 3), (&[], 1), (&[0, 6], 1), (&[5], 0), (&[0, 5, 5], 2)]
    {
        assert_eq!(reach(&mut router, marks), blocks, "{marks:?}");
    }
    // A mark is no block of tokens.
    let next = Text { tokens: &[0, 1, 2, 3, 5, 0], marks: &[], space: 7 };
    assert_eq!(router.match_tokens(next)[0].blocks[0], 1);
}

// scenario: F22
#[test]
fn a_medium_that_is_not_known_is_somewhere_and_no_other_one() {
    let mut router = of(&[1]);
    router.stored(at(1), &[1, 2], None, Text::default(), SOMEWHERE);
    router.stored(at(1), &[1], None, Text::default(), GPU);
    router.stored(at(1), &[2], None, Text::default(), 3);
    assert_eq!(reaches(&mut router, &[1, 2]), [(1, [1, 1, 1, 2])]);
    router.removed(at(1), &[1, 2], SOMEWHERE);
    assert_eq!(reaches(&mut router, &[1, 2]), [(1, [1, 1, 1, 2])]);
    router.removed(at(1), &[2], 3);
    assert_eq!(reaches(&mut router, &[1, 2]), [(1, [1; TIERS])]);
}

// scenario: F22
#[test]
fn ranks_of_a_worker_have_caches_of_their_own() {
    let mut router = of(&[1, 2]);
    let rank = |worker, rank| Rank { worker, rank };
    for at in [rank(1, 0), rank(1, 1), rank(2, 1), rank(3, 1)] {
        router.stored(at, &[1, 2], None, Text::default(), GPU);
    }
    assert_eq!(router.counts().ignored, 1);
    let told = |router: &mut Router| -> Vec<_> {
        router.match_keys(&[1, 2]).iter().map(|r| (r.worker, r.rank, r.blocks[0])).collect()
    };
    assert_eq!(told(&mut router), [(1, 0, 2), (1, 1, 2), (2, 1, 2)]);
    assert_eq!(router.cleared(rank(1, 1)), 2);
    assert_eq!(told(&mut router), [(1, 0, 2), (2, 1, 2)]);
    assert_eq!(router.removed(rank(1, 1), &[2], GPU), 0);
    assert_eq!(router.workers().collect::<Vec<_>>(), [1, 2]);
    router.stored(rank(1, 7), &[1], None, Text::default(), GPU);
    assert_eq!(router.cleared_all(1), 3);
    assert_eq!((router.remove_worker(2), router.is_empty()), (Some(2), true));
}

#[derive(Debug, Clone)]
enum Event {
    Add(u64),
    Gone(u64),
    Clear(u64),
    Stored(u64, Vec<u64>, u8),
    Removed(u64, Vec<u64>, u8),
    Match(Vec<u64>),
}

fn event() -> impl Strategy<Value = Event> {
    // Long chains are matched in runs, short ones contradict each other.
    let chain = || (0..12_u64, 0..40_u64).prop_map(|(from, len)| (from..from + len).collect());
    let keys = || prop_oneof![3 => prop::collection::vec(0..12_u64, 0..6), 1 => chain()];
    prop_oneof![
        1 => (0..4_u64).prop_map(Event::Add),
        1 => (0..4_u64).prop_map(Event::Gone),
        1 => (0..4_u64).prop_map(Event::Clear),
        6 => (0..4_u64, keys(), 0..4_u8).prop_map(|(w, k, t)| Event::Stored(w, k, t)),
        4 => (0..4_u64, keys(), 0..4_u8).prop_map(|(w, k, t)| Event::Removed(w, k, t)),
        4 => keys().prop_map(Event::Match),
    ]
}

type Model = BTreeMap<u64, BTreeSet<(u64, u8)>>;

fn expected(model: &Model, keys: &[u64]) -> Vec<(u64, [u32; TIERS])> {
    let reach = |held: &BTreeSet<(u64, u8)>, most: u8| {
        let is_held = |key: &&u64| (0..=most).any(|tier| held.contains(&(**key, tier)));
        keys.iter().take_while(is_held).count() as u32
    };
    let rows = model.iter().map(|(&w, held)| (w, std::array::from_fn(|t| reach(held, t as u8))));
    rows.filter(|(_, blocks): &(u64, [u32; TIERS])| blocks[TIERS - 1] > 0).collect()
}

proptest! {
    #[test]
    fn it_agrees_with_a_plain_model(events in prop::collection::vec(event(), 1..200)) {
        let (mut router, mut model) = (Router::new(0, 1000), Model::new());
        for event in events {
            match event {
                Event::Add(w) => {
                    prop_assert_eq!(router.add_worker(w), !model.contains_key(&w));
                    model.entry(w).or_default();
                }
                Event::Gone(w) => {
                    router.remove_worker(w);
                    model.remove(&w);
                }
                Event::Clear(w) => {
                    router.cleared(at(w));
                    model.entry(w).and_modify(BTreeSet::clear);
                }
                Event::Stored(w, keys, tier) => {
                    router.stored(at(w), &keys, None, Text::default(), tier);
                    model.entry(w).and_modify(|held| held.extend(keys.iter().map(|&k| (k, tier))));
                }
                Event::Removed(w, keys, tier) => {
                    router.removed(at(w), &keys, tier);
                    model.entry(w).and_modify(|held| held.retain(|(k, t)| *t != tier || !keys.contains(k)));
                }
                Event::Match(keys) => {
                    prop_assert_eq!(reaches(&mut router, &keys), expected(&model, &keys));
                }
            }
            model.retain(|w, _| router.workers().any(|known| known == *w));
            let held: BTreeSet<u64> = model.values().flatten().map(|&(key, _)| key).collect();
            prop_assert_eq!(router.len(), held.len());
        }
    }
}
