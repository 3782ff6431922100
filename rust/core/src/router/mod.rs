//! Which worker holds which prefix: the index of a router over many caches.
//!
//! It is fed with the events of workers and asked for a prompt. A block goes by a 64-bit key: the
//! worker's own, where router and workers hash alike, or one made here of the tokens that its event
//! brings, so that workers of different engines can be asked at once. A key stands for a whole
//! prefix, so a walk along a prompt's keys is all a match takes; a hole ends it, and a head that
//! comes back joins what is still held behind it. A wrong answer costs a worse route, nothing else:
//! keys made of tokens need not be cryptographic.

mod holders;
mod nodes;
mod reach;

use std::collections::VecDeque;

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use nodes::Nodes;
use reach::Walk;

pub use holders::{TIERS, Tier};
pub use reach::Reach;

#[derive(Debug)]
struct Worker {
    name: u64,
    live: bool,
    /// Its own keys to those made of tokens; empty where its own are used.
    aliases: HashMap<u64, u64>,
    /// Of those, blocks it held nowhere any more, the first to go first.
    gone: VecDeque<u64>,
}

/// What happened to events so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events of workers that are not known (any more).
    pub ignored: u64,
    /// Blocks that could not be placed: an unknown parent, or too few tokens.
    pub unplaced: u64,
    /// Blocks forgotten because the index was full.
    pub dropped: u64,
}

/// What keys are made of, block by block. Empty where workers' own keys are used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text<'a> {
    /// Token ids, one block after the other.
    pub tokens: &'a [u32],
    /// What sets each block apart beside its tokens, an image say; 0, or no mark, where nothing does.
    pub marks: &'a [u64],
    /// The root of prompts with this salt and adapter, see [`Router::space`].
    pub space: u64,
}

impl Text<'_> {
    fn blocks(&self, size: usize) -> impl Iterator<Item = (&[u32], u64)> {
        let marks = self.marks.iter().copied().chain(std::iter::repeat(0));
        self.tokens.chunks_exact(size).zip(marks)
    }
}

/// Blocks by key, each with its holders.
#[derive(Debug)]
pub struct Router {
    block_size: usize,
    capacity: usize,
    nodes: Nodes,
    /// Keys in the order they came, gone ones among them; those in use go round once more.
    ring: VecDeque<u64>,
    workers: Vec<Worker>,
    slots: HashMap<u64, u32>,
    counts: Counts,
}

/// Blocks for which there is room up front; a larger index grows as it is fed.
const RESERVE: usize = 1 << 18;

/// Blocks of a worker that are remembered when it holds them nowhere: the news that one went down a tier
/// may come behind the news that it is gone from this one, and names no tokens.
const GONE: usize = 1024;

/// Aliases beyond twice the capacity are looked through, but not below this many.
const FEW: usize = 1024;

impl Router {
    /// An index of at most `capacity` blocks. A `block_size` of 0 takes the workers' own keys.
    pub fn new(block_size: u32, capacity: usize) -> Self {
        Self {
            block_size: block_size as usize,
            capacity: capacity.max(1),
            nodes: Nodes::with_capacity(capacity.min(RESERVE)),
            ring: VecDeque::with_capacity(capacity.min(RESERVE)),
            workers: Vec::new(),
            slots: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Blocks that somebody holds.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What happened to events so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The workers, in the order they came.
    pub fn workers(&self) -> impl Iterator<Item = u64> + '_ {
        self.workers.iter().filter(|w| w.live).map(|w| w.name)
    }

    /// A worker that starts with nothing; whether it was not known.
    pub fn add_worker(&mut self, name: u64) -> bool {
        if self.slots.contains_key(&name) {
            return false;
        }
        let fresh = Worker { name, live: true, aliases: HashMap::new(), gone: VecDeque::new() };
        let slot = if let Some(slot) = self.workers.iter().position(|w| !w.live) {
            self.workers[slot] = fresh;
            slot
        } else {
            self.workers.push(fresh);
            self.workers.len() - 1
        };
        self.slots.insert(name, slot as u32);
        true
    }

    /// A worker is gone with all it held; what still comes from it is ignored. Blocks it held.
    pub fn remove_worker(&mut self, name: u64) -> Option<usize> {
        let slot = self.slots.remove(&name)?;
        let held = self.forget(slot);
        self.workers[slot as usize].live = false;
        Some(held)
    }

    /// A worker holds nothing any more. Blocks it held.
    pub fn cleared(&mut self, name: u64) -> usize {
        self.slot(name).map_or(0, |slot| self.forget(slot))
    }

    fn forget(&mut self, slot: u32) -> usize {
        let held = self.nodes.forget_worker(slot);
        let worker = &mut self.workers[slot as usize];
        (worker.aliases, worker.gone) = (HashMap::new(), VecDeque::new());
        self.tidy();
        held
    }

    fn slot(&mut self, name: u64) -> Option<u32> {
        let slot = self.slots.get(&name).copied();
        self.counts.ignored += u64::from(slot.is_none());
        slot
    }

    /// Blocks that a worker has now in a tier, each the child of the one before. Those that were
    /// placed, all but where `parent` is not known or there are too few tokens.
    pub fn stored(
        &mut self,
        name: u64,
        hashes: &[u64],
        parent: Option<u64>,
        text: Text<'_>,
        tier: Tier,
    ) -> usize {
        let Some(slot) = self.slot(name) else { return 0 };
        if self.block_size == 0 {
            for &key in hashes {
                self.hold(key, slot, tier);
            }
            return hashes.len();
        }
        let placed = self.stored_by_tokens(slot, hashes, parent, text, tier);
        self.counts.unplaced += (hashes.len() - placed) as u64;
        placed
    }

    /// A worker tells of blocks of another size than the index's: none of them is placed.
    pub fn misfit(&mut self, name: u64, blocks: usize) {
        if self.slot(name).is_some() {
            self.counts.unplaced += blocks as u64;
        }
    }

    fn stored_by_tokens(
        &mut self,
        slot: u32,
        hashes: &[u64],
        parent: Option<u64>,
        text: Text<'_>,
        tier: Tier,
    ) -> usize {
        if text.tokens.is_empty() {
            // Only where it lies is told, as when a block went down a tier.
            let known = |own: &u64| self.workers[slot as usize].aliases.get(own).copied();
            let keys: Vec<_> = hashes.iter().filter_map(known).collect();
            for &key in &keys {
                self.hold(key, slot, tier);
            }
            return keys.len();
        }
        let above = match parent {
            None => Some(text.space),
            Some(own) => self.workers[slot as usize].aliases.get(&own).copied(),
        };
        let Some(mut key) = above else { return 0 };
        let mut placed = 0;
        for (&own, (block, mark)) in hashes.iter().zip(text.blocks(self.block_size)) {
            key = child(key, block, mark);
            self.workers[slot as usize].aliases.insert(own, key);
            self.hold(key, slot, tier);
            placed += 1;
        }
        let most = 2 * self.capacity.max(FEW);
        let (nodes, aliases) = (&self.nodes, &mut self.workers[slot as usize].aliases);
        if aliases.len() > most {
            aliases.retain(|_, key| nodes.contains(*key));
        }
        placed
    }

    fn hold(&mut self, key: u64, slot: u32, tier: Tier) {
        if self.nodes.hold(key, slot, tier) {
            self.ring.push_back(key);
            if self.nodes.len() > self.capacity {
                self.drop_one();
            }
        }
    }

    /// Blocks that a worker has in a tier no longer; elsewhere it may still hold them. How many it
    /// held there.
    pub fn removed(&mut self, name: u64, hashes: &[u64], tier: Tier) -> usize {
        let Some(slot) = self.slot(name) else { return 0 };
        let mut held = 0;
        for own in hashes {
            let aliases = &mut self.workers[slot as usize].aliases;
            let Some(key) =
                (if self.block_size == 0 { Some(*own) } else { aliases.get(own).copied() })
            else {
                continue;
            };
            let (was, gone) = self.nodes.release(key, slot, tier).unwrap_or((false, true));
            held += usize::from(was);
            if gone && self.block_size > 0 {
                self.remember(slot, *own);
            }
        }
        self.tidy();
        held
    }

    /// A worker's block that it holds nowhere any more; an earlier one is forgotten for it.
    fn remember(&mut self, slot: u32, own: u64) {
        let worker = &mut self.workers[slot as usize];
        worker.gone.push_back(own);
        if worker.gone.len() > GONE
            && let Some(first) = worker.gone.pop_front()
            && let Some(&key) = worker.aliases.get(&first)
            && !self.nodes.holds(key, slot)
        {
            worker.aliases.remove(&first);
        }
    }

    /// One block is forgotten for all workers: of those not used for a round, the oldest.
    fn drop_one(&mut self) {
        while let Some(key) = self.ring.pop_front() {
            match self.nodes.take_turn(key) {
                Some(true) => {
                    self.counts.dropped += 1;
                    return;
                }
                Some(false) => self.ring.push_back(key),
                None => {}
            }
        }
    }

    /// Keys that are gone leave the ring once they are most of it.
    fn tidy(&mut self) {
        if self.ring.len() > 2 * self.nodes.len().max(FEW) {
            let mut seen = hashbrown::HashSet::with_capacity(self.nodes.len());
            let nodes = &self.nodes;
            self.ring.retain(|key| nodes.contains(*key) && seen.insert(*key));
        }
    }

    /// The parent of the first blocks of prompts with this salt and adapter.
    pub fn space(salt: &[u8], adapter: &[u8]) -> u64 {
        // Each is hashed by itself, so that no two pairs run together.
        xxh3_64_with_seed(adapter, xxh3_64_with_seed(salt, 0))
    }

    /// How far each worker reaches into a prompt, by the keys of its blocks.
    pub fn match_keys(&mut self, keys: impl IntoIterator<Item = u64>) -> Vec<Reach> {
        let (mut walk, mut depth) = (Walk::default(), 0);
        for key in keys {
            let Some(holders) = self.nodes.ask(key) else { break };
            if depth == 0 {
                walk.begin(holders.as_slice());
            } else if !walk.go_on(depth, holders.as_slice()) {
                break;
            }
            depth += 1;
        }
        let workers = &self.workers;
        walk.end(depth, |slot| workers[slot as usize].name)
    }

    /// How far each worker reaches into a prompt. Nobody where workers' own keys are used.
    pub fn match_tokens(&mut self, text: Text<'_>) -> Vec<Reach> {
        if self.block_size == 0 {
            return Vec::new();
        }
        let mut key = text.space;
        self.match_keys(text.blocks(self.block_size).map(|(block, mark)| {
            key = child(key, block, mark);
            key
        }))
    }
}

/// The key of a block after `parent`.
fn child(parent: u64, tokens: &[u32], mark: u64) -> u64 {
    const MOST: usize = 256;
    let mut bytes = [0; 4 * MOST];
    let mut key = parent;
    for part in tokens.chunks(MOST) {
        for (to, token) in bytes.chunks_exact_mut(4).zip(part) {
            to.copy_from_slice(&token.to_le_bytes());
        }
        key = xxh3_64_with_seed(&bytes[..4 * part.len()], key);
    }
    if mark == 0 { key } else { xxh3_64_with_seed(&mark.to_le_bytes(), !key) }
}
