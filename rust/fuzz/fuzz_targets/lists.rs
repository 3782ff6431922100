//! Every order of eviction beside a plain one: a sorted list of the leaves, or of what was released.
//!
//! The policies are driven as the manager drives them, over a tree of prefixes without copies.
#![no_main]

use arbitrary::Arbitrary;
use kvframe_core::policy::{
    Access, BlockAccess, Candidates, Consulted, Eviction, External, NAMES, PolicyOptions, Rank,
    RankOrder, RemovalCause, Subscriptions, View, by_name,
};
use kvframe_core::pool::{Pool, State};
use kvframe_core::{BlockId, Key, NIL};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    capacity: u8,
    policy: u8,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Debug)]
enum Op {
    /// A sequence takes a prefix that is there and goes on behind it.
    Start { leaf: u8, take: bool, new: Vec<u8> },
    /// A sequence goes on.
    Grow { pick: u8, new: Vec<u8> },
    /// A sequence ends.
    End { pick: u8 },
    /// A copy of a findable block was computed.
    Touch { pick: u8, next_use: u8 },
    /// The next victims are evicted.
    Evict { count: u8 },
    /// A leaf is forgotten for another reason.
    Forget { pick: u8 },
    /// A policy outside the core is asked, and its choice is evicted.
    Choose { count: u8, window: u8, scores: Vec<u8> },
}

/// Ranks that the input gives: the next_use of the last insert or hit.
#[derive(Default)]
struct Given(Vec<u32>);

impl Rank for Given {
    fn name(&self) -> &'static str {
        "given"
    }

    fn insert(&mut self, block: BlockId, touch: BlockAccess<'_>, _: View<'_>) {
        self.0.resize(self.0.len().max(block as usize + 1), 0);
        self.0[block as usize] = touch.next();
    }

    fn hit(&mut self, block: BlockId, touch: BlockAccess<'_>, _: View<'_>) {
        self.0[block as usize] = touch.next();
    }

    fn release(&mut self, _: BlockId, _: View<'_>) {}

    fn rank(&self, block: BlockId, _: View<'_>) -> u128 {
        self.0[block as usize].into()
    }
}

/// What the order is compared with.
#[derive(PartialEq)]
enum Expected {
    Released,
    Given,
    AnyLeaf,
}

struct World {
    pool: Pool,
    policy: Box<dyn Eviction>,
    expected: Expected,
    now: u64,
    /// Each sequence's blocks, a prefix.
    live: Vec<Vec<BlockId>>,
    /// Cached blocks as they were released.
    released: Vec<BlockId>,
    ranks: Vec<u32>,
}

macro_rules! view {
    ($world:ident) => {
        View { pool: &$world.pool, now: $world.now }
    };
}

impl World {
    fn new(capacity: u8, policy: u8) -> Self {
        let at = policy as usize % (NAMES.len() + 2);
        let (policy, expected): (Box<dyn Eviction>, _) = match NAMES.get(at) {
            Some(name) => {
                let policy = by_name(name, PolicyOptions::default()).expect("a shipped policy");
                let lists = matches!(policy.name(), "lru");
                (policy, if lists { Expected::Released } else { Expected::AnyLeaf })
            }
            None if at == NAMES.len() => (
                Box::new(External::new(Subscriptions { events: true, ..Subscriptions::default() })),
                Expected::Released,
            ),
            None => (Box::new(RankOrder::new(Given::default())), Expected::Given),
        };
        Self {
            pool: Pool::new(u32::from(capacity).max(1), false),
            policy,
            expected,
            now: 0,
            live: Vec::new(),
            released: Vec::new(),
            ranks: vec![0; 256],
        }
    }

    fn leaves(&self) -> Vec<BlockId> {
        (0..self.pool.created()).filter(|&b| self.pool.is_evictable(b)).collect()
    }

    fn findable(&self) -> Vec<BlockId> {
        let states = (0..self.pool.created()).map(|b| (b, self.pool.state(b)));
        let findable = states.filter(|(_, s)| matches!(s, State::Committed | State::Cached));
        findable.map(|(b, _)| b).collect()
    }

    /// The blocks up to a findable one become a sequence's.
    fn acquire(&mut self, leaf: BlockId, next_use: u32) -> Vec<BlockId> {
        let mut path = Vec::new();
        let mut block = leaf;
        while block != NIL {
            path.push(block);
            block = self.pool.parent(block);
        }
        path.reverse();
        let cached: Vec<_> =
            path.iter().copied().filter(|&b| self.pool.state(b) == State::Cached).collect();
        assert_eq!(self.pool.share_chain(&path), cached.len());
        self.policy.acquire(&cached, view!(self));
        self.released.retain(|b| !cached.contains(b));
        let next_use = vec![next_use; path.len()];
        let access = Access { next_use: &next_use, ..Access::default() };
        self.policy.hit(&path, access, view!(self));
        path.iter().for_each(|&b| self.ranks[b as usize] = next_use[0]);
        path
    }

    /// New blocks behind `path`, findable at once.
    fn extend(&mut self, path: &mut Vec<BlockId>, next_uses: &[u8]) {
        let start = path.len();
        for &next_use in next_uses.iter().take(6) {
            if self.pool.free() == 0 && !self.evict() {
                break;
            }
            let block = self.pool.take(0).expect("there is room");
            self.policy.take(&[block]);
            path.push(block);
            self.ranks[block as usize] = next_use.into();
        }
        for i in start..path.len() {
            let parent = if i == 0 { NIL } else { path[i - 1] };
            self.pool.publish(path[i], Key(path[i].into()), parent, i as u32);
        }
        let new = &path[start..];
        let next_use: Vec<u32> = new.iter().map(|&b| self.ranks[b as usize]).collect();
        let access = Access { next_use: &next_use, tokens: path.len() as u32, ..Access::default() };
        self.policy.insert(new, access, view!(self));
    }

    fn end(&mut self, path: &[BlockId]) {
        let mut kept = path.to_vec();
        if !self.pool.unshare_chain(path) {
            kept.clear();
            for &block in path.iter().rev() {
                if self.pool.unshare(block) == Some(State::Cached) {
                    kept.push(block);
                }
            }
            kept.reverse();
        }
        self.policy.release(&kept, view!(self));
        self.released.extend(kept.iter().rev());
    }

    fn forget(&mut self, block: BlockId, why: RemovalCause) {
        let parent = self.pool.unpublish(block);
        self.policy.remove(block, why, view!(self));
        if parent != NIL && self.pool.is_evictable(parent) {
            self.policy.on_evictable(parent, view!(self));
        }
        self.pool.put_back(block);
        self.released.retain(|&b| b != block);
    }

    /// The next victim is evicted; false if nobody may.
    fn evict(&mut self) -> bool {
        let leaves = self.leaves();
        let Some(victim) = self.policy.victim(view!(self)) else {
            assert!(leaves.is_empty(), "{} leaves, and no victim", leaves.len());
            return false;
        };
        assert!(leaves.contains(&victim), "the victim {victim} is no leaf");
        let first =
            self.expected().and_then(|order| order.into_iter().find(|b| leaves.contains(b)));
        assert!(first.is_none_or(|first| first == victim), "{victim} is evicted before {first:?}");
        self.forget(victim, RemovalCause::Evicted);
        true
    }

    /// The whole order, where this target knows it.
    fn expected(&self) -> Option<Vec<BlockId>> {
        match self.expected {
            Expected::AnyLeaf => None,
            Expected::Released => Some(self.released.clone()),
            Expected::Given => {
                let mut leaves = self.leaves();
                leaves.sort_by_key(|&b| (self.ranks[b as usize], b));
                Some(leaves)
            }
        }
    }

    fn choose(&mut self, count: u8, window: u8, scores: &[u8]) {
        let Some(outside) = self.policy.external() else { return };
        let mut offer = Candidates::default();
        outside.candidates(&self.pool, window.into(), &mut offer);
        for (i, &block) in offer.blocks.iter().enumerate() {
            assert_eq!(self.pool.state(block), State::Cached, "{block} is offered");
            assert_eq!(offer.children[i], self.pool.children(block), "children of {block}");
            let parent = offer.blocks.get(offer.parents[i] as usize);
            assert!(parent.is_none_or(|&p| p == self.pool.parent(block)), "parent of {block}");
        }
        let score = |i: usize| f64::from(scores.get(i).copied().unwrap_or(0));
        let given: Vec<f64> = (0..offer.blocks.len()).map(score).collect();
        let lowest = offer.lowest(&given, count.into());
        assert_eq!(lowest.len(), offer.blocks.len().min(count.into()));
        let blocks: Vec<_> = lowest.iter().map(|&p| offer.blocks[p as usize]).collect();
        assert_eq!(offer.check(&blocks).as_ref(), Ok(&lowest));
        let generations: Vec<_> = lowest.iter().map(|&p| offer.generations[p as usize]).collect();
        outside.choose(&self.pool, &blocks, &generations);
        assert!(outside.ready(blocks.len()));
        for block in blocks {
            assert_eq!(self.policy.victim(view!(self)), Some(block), "not the choice");
            self.forget(block, RemovalCause::Evicted);
        }
        self.policy.external().expect("as before").settle();
    }

    fn act(&mut self, op: &Op) {
        self.now += 1;
        match op {
            Op::Start { leaf, take, new } => {
                let findable = self.findable();
                let found = (*take && !findable.is_empty())
                    .then(|| findable[*leaf as usize % findable.len()]);
                let mut path = found.map_or(Vec::new(), |b| self.acquire(b, (*leaf).into()));
                self.extend(&mut path, new);
                self.live.push(path);
            }
            Op::Grow { pick, new } if !self.live.is_empty() => {
                let at = *pick as usize % self.live.len();
                let mut path = std::mem::take(&mut self.live[at]);
                self.extend(&mut path, new);
                self.live[at] = path;
            }
            Op::End { pick } if !self.live.is_empty() => {
                let path = self.live.swap_remove(*pick as usize % self.live.len());
                self.end(&path);
            }
            Op::Touch { pick, next_use } => {
                let findable = self.findable();
                if let Some(&block) = findable.get(*pick as usize % findable.len().max(1)) {
                    let next_use = [u32::from(*next_use)];
                    let access = Access { next_use: &next_use, ..Access::default() };
                    self.policy.hit(&[block], access, view!(self));
                    self.ranks[block as usize] = next_use[0];
                }
            }
            Op::Evict { count } => {
                let _ = (0..*count % 8).all(|_| self.evict());
            }
            Op::Forget { pick } => {
                let leaves = self.leaves();
                if let Some(&block) = leaves.get(*pick as usize % leaves.len().max(1)) {
                    self.forget(block, RemovalCause::Invalidated);
                }
            }
            Op::Choose { count, window, scores } => self.choose(*count % 16, *window, scores),
            Op::Grow { .. } | Op::End { .. } => {}
        }
    }
}

fuzz_target!(|input: Input| {
    let mut world = World::new(input.capacity, input.policy);
    for op in &input.ops {
        world.act(op);
        world.policy.validate(&world.pool).expect("a sound state");
        assert_eq!(world.released.len() as u32, world.pool.cached());
        if let Some(order) = world.expected() {
            assert_eq!(world.policy.order(view!(world), usize::MAX), order);
        }
    }
});
