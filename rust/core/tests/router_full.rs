//! The router's index where it is full, and where events contradict each other, beside plain models.

use std::collections::{BTreeMap, BTreeSet};

use kvframe_core::router::{Rank, Router, Text};
use proptest::prelude::*;

type Holder = (u64, u8);

/// Names of blocks, and the parent's, event by event.
type Named<'a> = &'a [(&'a [u64], Option<u64>)];

fn at(worker: u64) -> Rank {
    worker.into()
}

fn stored(router: &mut Router, keys: &[u64], parent: Option<u64>) -> usize {
    router.stored(at(1), keys, parent, Text::default(), 0)
}

fn matched(router: &mut Router, keys: &[u64]) -> u32 {
    router.match_keys(keys).first().map_or(0, |reach| reach.blocks[0])
}

fn full(capacity: usize) -> Router {
    let mut router = Router::new(0, capacity);
    router.add_worker(1);
    router
}

// scenario: F22
#[test]
fn a_chain_that_does_not_fit_keeps_its_head() {
    let chain: Vec<u64> = (1..=6).collect();
    for pieces in 1..=6 {
        let mut router = full(4);
        for (i, piece) in chain.chunks(pieces).enumerate() {
            let parent = (i > 0).then(|| piece[0] - 1);
            stored(&mut router, piece, parent);
        }
        let told = (router.len(), matched(&mut router, &chain), router.counts().dropped);
        assert_eq!(told, (4, 4, 2), "told {pieces} at a time");
    }
}

// scenario: F22
#[test]
fn the_tail_used_least_lately_goes_first() {
    let mut router = full(6);
    stored(&mut router, &[1, 2, 3], None);
    stored(&mut router, &[11, 12, 13], None);
    // Both were asked for, the second one first.
    assert_eq!((matched(&mut router, &[11, 12, 13]), matched(&mut router, &[1, 2, 3])), (3, 3));
    stored(&mut router, &[21], None);
    assert_eq!((matched(&mut router, &[11, 12, 13]), matched(&mut router, &[1, 2, 3])), (2, 3));
    stored(&mut router, &[4, 5], Some(3));
    assert_eq!(matched(&mut router, &[1, 2, 3, 4, 5]), 5);
    assert_eq!(matched(&mut router, &[21]) + matched(&mut router, &[11]), 1);
    // A fork's trunk stays as long as either of its branches.
    let mut router = full(4);
    stored(&mut router, &[1, 2], None);
    stored(&mut router, &[3], Some(1));
    stored(&mut router, &[30, 31], None);
    assert_eq!((matched(&mut router, &[1, 3]), matched(&mut router, &[1, 2])), (2, 1));
}

// scenario: F22
#[test]
fn a_parent_that_its_own_event_names_may_go_as_any_other() {
    let mut router = full(4);
    stored(&mut router, &[3, 0], None);
    assert_eq!(stored(&mut router, &[4, 0, 5, 1], Some(4)), 4);
    assert_eq!((matched(&mut router, &[4]), matched(&mut router, &[1])), (0, 1));
}

// scenario: F22
#[test]
fn a_name_told_twice_leaves_nothing_behind() {
    let tokens: Vec<u32> = (0..16).collect();
    let text = |blocks: usize| Text { tokens: &tokens[..4 * blocks], marks: &[], space: 7 };
    let streams: &[Named<'_>] = &[
        &[(&[6, 6], None)],
        &[(&[6, 7, 6], None)],
        &[(&[6], None), (&[6], Some(6))],
        &[(&[11, 12], None), (&[11], Some(12))],
        &[(&[11, 12], None), (&[13], Some(12)), (&[12], Some(13))],
        &[(&[1, 2], None), (&[3], None), (&[2], Some(3))],
        &[(&[1, 2, 3], None), (&[2], None), (&[4], Some(2))],
    ];
    for stream in streams {
        let names: BTreeSet<u64> = stream.iter().flat_map(|(own, _)| own.iter().copied()).collect();
        for backwards in [false, true] {
            let mut router = Router::new(4, 100);
            router.add_worker(1);
            for (own, parent) in *stream {
                router.stored(at(1), own, *parent, text(own.len()), 0);
            }
            let mut names: Vec<u64> = names.iter().copied().collect();
            if backwards {
                names.reverse();
            }
            router.removed(at(1), &names, 0);
            assert!(router.match_tokens(text(4)).is_empty(), "{stream:?}");
            assert_eq!((router.len(), router.check()), (0, Ok(())), "{stream:?}");
        }
    }
    // What was told first stands, and the rest is counted.
    let mut router = Router::new(4, 100);
    router.add_worker(1);
    assert_eq!(router.stored(at(1), &[6, 6], None, text(2), 0), 1);
    assert_eq!((router.counts().unplaced, router.match_tokens(text(2))[0].blocks[0]), (1, 1));
}

#[derive(Debug, Default, Clone)]
struct Block {
    parent: Option<u64>,
    held: BTreeSet<Holder>,
    used: u32,
}

/// What the index is to do, by going through all blocks each time.
#[derive(Debug, Default)]
struct Model {
    capacity: usize,
    blocks: BTreeMap<u64, Block>,
    now: u32,
    dropped: u64,
}

impl Model {
    fn is_leaf(&self, key: u64) -> bool {
        self.blocks.values().all(|block| block.parent != Some(key))
    }

    fn remove(&mut self, key: u64) {
        let Some(block) = self.blocks.remove(&key) else { return };
        if let Some(parent) = block.parent.and_then(|key| self.blocks.get_mut(&key)) {
            parent.used = parent.used.max(block.used);
        }
    }

    /// Blocks that no worker holds stay only before others.
    fn prune(&mut self, kept: Option<u64>) {
        let idle = |key: &u64, block: &Block| block.held.is_empty() && self.is_leaf(*key);
        let found = self.blocks.iter().find(|(key, block)| Some(**key) != kept && idle(key, block));
        if let Some(key) = found.map(|(key, _)| *key) {
            self.remove(key);
            self.prune(kept);
        }
    }

    fn is_above(&self, key: u64, below: u64) -> bool {
        let parent = self.blocks.get(&below).and_then(|block| block.parent);
        key == below || parent.is_some_and(|parent| self.is_above(key, parent))
    }

    fn stored(&mut self, worker: u64, keys: &[u64], parent: Option<u64>, tier: u8) -> usize {
        self.now += 1;
        let (mut tip, mut missing) = (parent, false);
        if let Some(key) = parent {
            let room = self.blocks.len() + 2 <= self.capacity;
            if room || self.blocks.contains_key(&key) {
                self.blocks.entry(key).or_default().used = self.now;
            } else {
                (tip, missing) = (None, true);
            }
        }
        let mut placed = 0;
        for &key in keys {
            if !self.blocks.contains_key(&key) && !self.make_room(tip, parent, missing) {
                break;
            }
            let loose = self.blocks.get(&key).is_none_or(|block| block.parent.is_none());
            let link = tip.filter(|tip| loose && !self.is_above(key, *tip));
            let block = self.blocks.entry(key).or_default();
            block.parent = block.parent.or(link);
            block.held.insert((worker, tier));
            block.used = self.now;
            (tip, missing) = (Some(key), false);
            placed += 1;
        }
        self.dropped += (keys.len() - placed) as u64;
        self.prune(None);
        placed
    }

    fn make_room(&mut self, tip: Option<u64>, parent: Option<u64>, missing: bool) -> bool {
        while !missing && self.blocks.len() >= self.capacity {
            let may_go = |(key, block): &(&u64, &Block)| {
                Some(**key) != tip && !block.held.is_empty() && self.is_leaf(**key)
            };
            let going = self.blocks.iter().filter(may_go).min_by_key(|(key, b)| (b.used, **key));
            let Some((&key, _)) = going else { return false };
            self.remove(key);
            self.prune(parent);
            self.dropped += 1;
        }
        !missing
    }

    fn removed(&mut self, worker: u64, keys: &[u64], tier: u8) {
        for key in keys {
            if let Some(block) = self.blocks.get_mut(key) {
                block.held.remove(&(worker, tier));
            }
            self.prune(None);
        }
    }

    fn cleared(&mut self, worker: u64) {
        self.blocks.values_mut().for_each(|block| block.held.retain(|(w, _)| *w != worker));
        self.prune(None);
    }

    fn matched(&mut self, keys: &[u64]) -> Vec<(u64, u32)> {
        self.now += 1;
        let mut going: Option<BTreeSet<u64>> = None;
        let mut reach = BTreeMap::new();
        for key in keys {
            let Some(block) = self.blocks.get_mut(key).filter(|b| !b.held.is_empty()) else {
                break;
            };
            block.used = self.now;
            let here: BTreeSet<u64> = block.held.iter().map(|(worker, _)| *worker).collect();
            let still = going.map_or_else(|| here.clone(), |before| &before & &here);
            for worker in &still {
                *reach.entry(*worker).or_insert(0) += 1;
            }
            if still.is_empty() {
                break;
            }
            going = Some(still);
        }
        reach.into_iter().collect()
    }

    fn held(&self) -> usize {
        self.blocks.values().filter(|block| !block.held.is_empty()).count()
    }
}

#[derive(Debug, Clone)]
enum Event {
    Stored(u64, Vec<u64>, Option<u64>, u8),
    Removed(u64, Vec<u64>, u8),
    Cleared(u64),
    Match(Vec<u64>),
}

fn event() -> impl Strategy<Value = Event> {
    // Few keys contradict each other soon: repeats, cycles, a block behind two others.
    // Long chains are matched in runs.
    let chain = || (0..9_u64, 0..40_u64).prop_map(|(from, len)| (from..from + len).collect());
    let keys = || prop_oneof![4 => prop::collection::vec(0..9_u64, 0..6), 1 => chain()];
    prop_oneof![
        6 => (0..3_u64, keys(), prop::option::of(0..9_u64), 0..2_u8)
            .prop_map(|(w, k, p, t)| Event::Stored(w, k, p, t)),
        3 => (0..3_u64, keys(), 0..2_u8).prop_map(|(w, k, t)| Event::Removed(w, k, t)),
        1 => (0..3_u64).prop_map(Event::Cleared),
        3 => keys().prop_map(Event::Match),
    ]
}

proptest! {
    // scenario: F22
    #[test]
    fn a_full_index_agrees_with_a_plain_model(
        capacity in prop_oneof![4 => 1..10_usize, 1 => 10..60_usize],
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut router = Router::new(0, capacity);
        let mut model = Model { capacity, ..Model::default() };
        for worker in 0..3 {
            router.add_worker(worker);
        }
        for event in events {
            match event {
                Event::Stored(w, keys, parent, tier) => {
                    let placed = router.stored(at(w), &keys, parent, Text::default(), tier);
                    prop_assert_eq!(placed, model.stored(w, &keys, parent, tier));
                }
                Event::Removed(w, keys, tier) => {
                    router.removed(at(w), &keys, tier);
                    model.removed(w, &keys, tier);
                }
                Event::Cleared(w) => {
                    router.cleared(at(w));
                    model.cleared(w);
                }
                Event::Match(keys) => {
                    let found = router.match_keys(&keys);
                    let found: Vec<_> = found.iter().map(|r| (r.worker, r.blocks[3])).collect();
                    prop_assert_eq!(found, model.matched(&keys));
                }
            }
            prop_assert_eq!(router.check(), Ok(()));
            let told = (router.len(), router.counts().dropped);
            prop_assert_eq!(told, (model.held(), model.dropped));
        }
        for worker in 0..3 {
            router.cleared(at(worker));
        }
        prop_assert!(router.is_empty() && router.match_keys(&[0, 1, 2, 3, 4, 5, 6, 7, 8]).is_empty());
    }
}

/// Events of an engine that goes by tokens: a worker, its names for the blocks, the parent's, and two
/// values of a token, so that prompts share heads.
#[derive(Debug, Clone)]
enum RouterEvent {
    Stored(u64, Vec<(u64, bool)>, Option<u64>, u8),
    Lies(u64, Vec<u64>, u8),
    Removed(u64, Vec<u64>, u8),
    Cleared(u64),
}

fn told() -> impl Strategy<Value = RouterEvent> {
    let blocks = || prop::collection::vec((0..7_u64, any::<bool>()), 0..5);
    let names = || prop::collection::vec(0..7_u64, 0..5);
    prop_oneof![
        6 => (0..2_u64, blocks(), prop::option::of(0..7_u64), 0..2_u8)
            .prop_map(|(w, b, p, t)| RouterEvent::Stored(w, b, p, t)),
        1 => (0..2_u64, names(), 0..2_u8).prop_map(|(w, n, t)| RouterEvent::Lies(w, n, t)),
        4 => (0..2_u64, names(), 0..2_u8).prop_map(|(w, n, t)| RouterEvent::Removed(w, n, t)),
        1 => (0..2_u64).prop_map(RouterEvent::Cleared),
    ]
}

/// All prompts of up to `depth` blocks of one token of two values.
fn prompts(depth: usize) -> impl Iterator<Item = Vec<u32>> {
    (0..1_u32 << depth).map(move |bits| (0..depth).map(|i| bits >> i & 1).collect())
}

proptest! {
    // scenario: F22
    #[test]
    fn whatever_is_told_of_names_no_match_is_stale(
        capacity in prop_oneof![Just(1000_usize), 1..8_usize],
        stream in prop::collection::vec(told(), 1..60),
    ) {
        let mut router = Router::new(1, capacity);
        (0..2).for_each(|worker| { router.add_worker(worker); });
        // A name and a tier, while the worker says that it holds the block there.
        let mut held = BTreeSet::<(u64, u64, u8)>::new();
        // What a name was told to stand for since it was last held nowhere.
        let mut stands = BTreeSet::<(u64, u64, Vec<u32>)>::new();
        for one in stream {
            match one {
                RouterEvent::Stored(w, blocks, parent, tier) => {
                    let names: Vec<u64> = blocks.iter().map(|(name, _)| *name).collect();
                    let tokens: Vec<u32> = blocks.iter().map(|(_, bit)| u32::from(*bit)).collect();
                    let text = Text { tokens: &tokens, marks: &[], space: 7 };
                    router.stored(at(w), &names, parent, text, tier);
                    held.extend(names.iter().map(|name| (w, *name, tier)));
                    let mut above: Vec<Vec<u32>> = match parent {
                        None => vec![Vec::new()],
                        Some(own) => stands.iter().filter(|s| (s.0, s.1) == (w, own))
                            .map(|s| s.2.clone()).collect(),
                    };
                    for (name, token) in names.iter().zip(tokens) {
                        for prefix in &mut above {
                            prefix.push(token);
                        }
                        stands.extend(above.iter().map(|prefix| (w, *name, prefix.clone())));
                    }
                }
                RouterEvent::Lies(w, names, tier) => {
                    router.stored(at(w), &names, None, Text::default(), tier);
                    held.extend(names.iter().map(|name| (w, *name, tier)));
                }
                RouterEvent::Removed(w, names, tier) => {
                    router.removed(at(w), &names, tier);
                    held.retain(|(who, name, t)| !(*who == w && *t == tier && names.contains(name)));
                }
                RouterEvent::Cleared(w) => {
                    router.cleared(at(w));
                    held.retain(|(who, ..)| *who != w);
                    stands.retain(|(who, ..)| *who != w);
                }
            }
            prop_assert_eq!(router.check(), Ok(()));
            for prompt in prompts(4) {
                for reach in router.match_tokens(Text { tokens: &prompt, marks: &[], space: 7 }) {
                    for until in 1..=reach.blocks[3] as usize {
                        let names = stands.iter().filter(|s| s.0 == reach.worker && s.2 == prompt[..until]);
                        let is_held = |name: u64| held.iter().any(|h| (h.0, h.1) == (reach.worker, name));
                        prop_assert!(names.map(|s| s.1).any(is_held), "{:?} of {:?}", reach, prompt);
                    }
                }
            }
        }
        for worker in 0..2 {
            for tier in 0..2 {
                router.removed(at(worker), &(0..7).collect::<Vec<_>>(), tier);
            }
        }
        prop_assert_eq!((router.len(), router.check()), (0, Ok(())));
    }
}
