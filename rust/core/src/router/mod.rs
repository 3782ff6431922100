//! Which worker holds which prefix: the index of a router over many caches.
//!
//! It is fed with the events of workers and asked for a prompt. A block goes by a 64-bit key: the
//! worker's own, where router and workers hash alike, or one made here of the tokens that its event
//! brings, so that workers of different engines can be asked at once. A key stands for a whole
//! prefix, so a walk along a prompt's keys is all a match takes; a hole ends it, and a head that
//! comes back joins what is still held behind it. A wrong answer costs a worse route, nothing else:
//! keys made of tokens need not be cryptographic.

mod aliases;
mod chain;
mod holders;
mod leaves;
mod nodes;
mod places;
mod reach;

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use aliases::{Alias, Aliases};
use holders::Holder;
use nodes::Nodes;
use reach::Walk;

pub use holders::{SOMEWHERE, TIERS, TierId};
pub use reach::PrefixReach;

/// Who holds blocks: a worker, or one of its data-parallel ranks, each of which has a cache of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// The worker, by its own number.
    pub worker: u64,
    /// 0 where a worker has but one.
    pub rank: u32,
}

impl From<u64> for Rank {
    fn from(worker: u64) -> Self {
        Self { worker, rank: 0 }
    }
}

#[derive(Debug)]
struct Worker {
    name: Rank,
    live: bool,
    /// Empty where its own keys are used. Elsewhere, so that an answer of many workers reads their names
    /// side by side.
    aliases: Box<Aliases>,
}

/// What happened to events so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouterCounts {
    /// Events of workers that are not known (any more).
    pub ignored: u64,
    /// Blocks that could not be placed: an unknown parent, too few tokens, or a block behind itself.
    pub unplaced: u64,
    /// Blocks forgotten, or not taken, because the index was full.
    pub dropped: u64,
    /// Events that name a tier [`SOMEWHERE`].
    pub somewhere: u64,
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
    nodes: Nodes,
    workers: Vec<Worker>,
    slots: HashMap<Rank, u32>,
    counts: RouterCounts,
}

impl Router {
    /// An index of at most `capacity` blocks. A `block_size` of 0 takes the workers' own keys.
    pub fn new(block_size: u32, capacity: usize) -> Self {
        Self {
            block_size: block_size as usize,
            nodes: Nodes::new(capacity.max(1)),
            workers: Vec::new(),
            slots: HashMap::new(),
            counts: RouterCounts::default(),
        }
    }

    /// Blocks that workers hold.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no worker holds anything.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// What happened to events so far.
    pub fn counts(&self) -> RouterCounts {
        RouterCounts { dropped: self.counts.dropped + self.nodes.dropped, ..self.counts }
    }

    /// Whether all that is counted twice agrees; for tests.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        self.nodes.check()
    }

    /// The workers, in the order they came.
    pub fn workers(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.workers.iter().filter(|w| w.live && w.name.rank == 0);
        first.map(|w| w.name.worker)
    }

    /// A worker that starts with nothing; whether it was not known. Its ranks are known with it.
    pub fn add_worker(&mut self, name: u64) -> bool {
        let fresh = !self.slots.contains_key(&Rank::from(name));
        if fresh {
            self.add(name.into());
        }
        fresh
    }

    fn add(&mut self, name: Rank) -> u32 {
        let fresh = Worker { name, live: true, aliases: Box::default() };
        let slot = if let Some(slot) = self.workers.iter().position(|w| !w.live) {
            self.workers[slot] = fresh;
            slot
        } else {
            self.workers.push(fresh);
            self.workers.len() - 1
        };
        self.slots.insert(name, slot as u32);
        slot as u32
    }

    /// Removes a worker with everything it held. Later events of it are ignored. Returns how many blocks its
    /// ranks held; `None` if it is not known.
    pub fn remove_worker(&mut self, name: u64) -> Option<usize> {
        self.slots.get(&Rank::from(name))?;
        let mut held = 0;
        for slot in self.ranks(name) {
            held += self.forget(slot);
            let gone = &mut self.workers[slot as usize];
            gone.live = false;
            self.slots.remove(&gone.name);
        }
        Some(held)
    }

    fn ranks(&self, name: u64) -> Vec<u32> {
        let all = self.workers.iter().enumerate();
        let its = all.filter(|(_, w)| w.live && w.name.worker == name);
        its.map(|(slot, _)| slot as u32).collect()
    }

    /// A rank holds nothing any more. Blocks it held.
    pub fn cleared(&mut self, rank: Rank) -> usize {
        self.slot(rank).map_or(0, |slot| self.forget(slot))
    }

    /// No rank of a worker holds anything any more. Blocks that they held.
    pub fn cleared_all(&mut self, name: u64) -> usize {
        match self.slot(name.into()) {
            Some(_) => self.ranks(name).into_iter().map(|slot| self.forget(slot)).sum(),
            None => 0,
        }
    }

    fn forget(&mut self, slot: u32) -> usize {
        let held = self.nodes.forget_worker(slot);
        *self.workers[slot as usize].aliases = Aliases::default();
        self.nodes.tidy();
        held
    }

    /// A rank of a worker that is known is known.
    fn slot(&mut self, name: Rank) -> Option<u32> {
        if let Some(&slot) = self.slots.get(&name) {
            return Some(slot);
        }
        if self.slots.contains_key(&Rank::from(name.worker)) {
            return Some(self.add(name));
        }
        self.counts.ignored += 1;
        None
    }

    /// Blocks that a rank has now in a tier, each the child of the one before. Those that were
    /// placed, all but where `parent` is not known, there are too few tokens, or no room is left.
    pub fn stored(
        &mut self,
        rank: Rank,
        hashes: &[u64],
        parent: Option<u64>,
        text: Text<'_>,
        tier: TierId,
    ) -> usize {
        let Some(slot) = self.slot(rank) else { return 0 };
        self.counts.somewhere += u64::from(tier == SOMEWHERE);
        self.nodes.tick();
        let holder = Holder::new(slot, tier);
        let placed = if self.block_size == 0 {
            let mut chain = self.nodes.begin(parent);
            let placed = self.nodes.place_all(&mut chain, hashes, holder);
            self.nodes.end(&chain);
            self.counts.dropped += (hashes.len() - placed) as u64;
            placed
        } else if text.tokens.is_empty() {
            self.stored_elsewhere(hashes, holder)
        } else {
            self.stored_by_tokens(hashes, parent, text, holder)
        };
        self.nodes.tidy();
        placed
    }

    /// A worker reports blocks of another size than the index's: none of them is placed.
    pub fn misfit(&mut self, rank: Rank, blocks: usize) {
        if self.slot(rank).is_some() {
            self.counts.unplaced += blocks as u64;
        }
    }

    /// Only where blocks lie is told, as when they went down a tier.
    fn stored_elsewhere(&mut self, hashes: &[u64], holder: Holder) -> usize {
        let (mut placed, mut full) = (0, 0);
        for &own in hashes {
            let Some(alias) = self.workers[holder.worker as usize].aliases.get(own) else {
                continue;
            };
            let mut chain = self.nodes.begin(alias.parent());
            let fits = self.nodes.place(&mut chain, alias.key, holder, false);
            self.nodes.end(&chain);
            placed += usize::from(fits);
            full += usize::from(!fits);
        }
        self.counts.dropped += full as u64;
        self.counts.unplaced += (hashes.len() - placed - full) as u64;
        placed
    }

    fn stored_by_tokens(
        &mut self,
        hashes: &[u64],
        parent: Option<u64>,
        text: Text<'_>,
        holder: Holder,
    ) -> usize {
        let (nodes, worker) = (&mut self.nodes, &mut self.workers[holder.worker as usize]);
        let above = match parent {
            None => Some(text.space),
            Some(own) => worker.aliases.get(own).map(|alias| alias.key),
        };
        let Some(mut key) = above else {
            self.counts.unplaced += hashes.len() as u64;
            return 0;
        };
        let mut chain = nodes.begin(parent.map(|_| key));
        let (mut placed, mut full) = (0, false);
        for (&own, (block, mark)) in hashes.iter().zip(text.blocks(self.block_size)) {
            let before = key;
            key = child(key, block, mark);
            let alias = Alias::new(key, chain.tip().map(|_| before));
            if let Some(other) = worker.aliases.put(own, alias)
                && other.key != key
            {
                let above = nodes.find(other.key);
                if chain.tip().zip(above).is_some_and(|(tip, row)| nodes.is_above(row, tip)) {
                    // A block behind itself: what was told first stands.
                    worker.aliases.put(own, other);
                    break;
                }
                // The worker's name for a block stands for another one now.
                nodes.release_all(other.key, holder.worker);
            }
            full = !nodes.place(&mut chain, key, holder, placed + 1 < hashes.len());
            if full {
                break;
            }
            placed += 1;
        }
        nodes.end(&chain);
        worker.aliases.tidy(nodes);
        let rest = (hashes.len() - placed) as u64;
        *(if full { &mut self.counts.dropped } else { &mut self.counts.unplaced }) += rest;
        placed
    }

    /// Blocks that a rank has in a tier no longer; elsewhere it may still hold them. How many it
    /// held there.
    pub fn removed(&mut self, rank: Rank, hashes: &[u64], tier: TierId) -> usize {
        let Some(slot) = self.slot(rank) else { return 0 };
        self.counts.somewhere += u64::from(tier == SOMEWHERE);
        let aliases = &mut self.workers[slot as usize].aliases;
        let mut held = 0;
        for &own in hashes {
            if self.block_size == 0 {
                held +=
                    usize::from(self.nodes.release(own, slot, tier).is_some_and(|(was, _)| was));
                continue;
            }
            let Some(alias) = aliases.get(own) else { continue };
            let (was, gone) = self.nodes.release(alias.key, slot, tier).unwrap_or((false, true));
            held += usize::from(was);
            if gone {
                aliases.remember(own, &self.nodes, slot);
            }
        }
        self.nodes.tidy();
        held
    }

    /// The parent of the first blocks of prompts with this salt and adapter.
    pub fn space(salt: &[u8], adapter: &[u8]) -> u64 {
        // Each is hashed by itself, so that no two pairs run together.
        xxh3_64_with_seed(adapter, xxh3_64_with_seed(salt, 0))
    }

    /// How far each worker reaches into a prompt, by the keys of its blocks.
    pub fn match_keys(&self, keys: &[u64]) -> Vec<PrefixReach> {
        let mut walk = Walk::begin(&self.nodes);
        walk.go_on(keys);
        walk.end(|slot| self.workers[slot as usize].name)
    }

    /// How far each worker reaches into a prompt. None where workers' own keys are used.
    pub fn match_tokens(&self, text: Text<'_>) -> Vec<PrefixReach> {
        if self.block_size == 0 {
            return Vec::new();
        }
        let mut walk = Walk::begin(&self.nodes);
        let (mut key, mut blocks) = (text.space, text.blocks(self.block_size));
        // Few at first: most prompts that are not known part from all others soon.
        let (mut keys, mut few) = (Vec::new(), 8);
        loop {
            keys.clear();
            keys.extend(blocks.by_ref().take(few).map(|(block, mark)| {
                key = child(key, block, mark);
                key
            }));
            if keys.is_empty() || !walk.go_on(&keys) {
                break;
            }
            few = (2 * few).min(256);
        }
        walk.end(|slot| self.workers[slot as usize].name)
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
