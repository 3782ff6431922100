//! The blocks of one shadow. They are taken and given back in the order in which an engine does it.

use std::collections::VecDeque;

use super::Grain;
use super::keys::Keys;
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::{Consult, Eviction, RemovalCause};
use crate::pool::{BlockId, NIL, State};
use crate::tier::{Place, RequestInfo, TierPolicy};

/// The blocks that a request holds in one shadow.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Findable ones, from the start of its prefix on.
    pub blocks: Vec<BlockId>,
    /// The others, in the order of its block table.
    pub pending: VecDeque<BlockId>,
}

impl Held {
    pub fn rows(&self) -> u32 {
        (self.blocks.len() + self.pending.len()) as u32
    }
}

#[derive(Debug)]
pub(super) struct ShadowPool {
    tier: TierPolicy,
    index: Keys,
    /// Blocks that no request may have.
    reserved: u32,
    chained: bool,
    pub evictions: u64,
}

impl ShadowPool {
    /// A pool for `capacity` blocks of the engine.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that is less than a block here; [`Error::PolicyRefused`].
    pub fn new(capacity: u32, grain: Grain, policy: Box<dyn Eviction>) -> Result<Self> {
        let nearest = |blocks: u32| (blocks + grain.stride / 2) / grain.stride;
        let (rows, reserved) = (nearest(capacity), nearest(grain.reserved));
        if rows == 0 {
            let limit = format!("must be at least {}", grain.stride.div_ceil(2));
            return Err(Error::Invalid { what: "capacity", value: capacity.to_string(), limit });
        }
        let mut tier = TierPolicy::new(rows + reserved, grain.tokens(), policy)?;
        tier.take_blocks(reserved)?;
        Ok(Self { tier, index: Keys::default(), reserved, chained: grain.chained, evictions: 0 })
    }

    /// Blocks that requests may have.
    pub fn capacity(&self) -> u32 {
        self.tier.pool().capacity() - self.reserved
    }

    /// The longest prefix of `keys` that is cached.
    pub fn find(&self, keys: &[Key]) -> Vec<BlockId> {
        keys.iter().map_while(|&key| self.index.find(key)).collect()
    }

    /// Whether `rows` blocks beside `found` ones can be had.
    pub fn has_room(&self, rows: u32, found: &[BlockId]) -> bool {
        let pool = self.tier.pool();
        let unowned = found.iter().filter(|&&block| pool.state(block) == State::Cached).count();
        rows + unowned as u32 <= pool.available()
    }

    /// A request found `blocks`, and holds them.
    pub fn hold(&mut self, blocks: Vec<BlockId>, info: RequestInfo<'_>) -> Held {
        if !blocks.is_empty() {
            self.tier.own(&blocks, info);
        }
        Held { blocks, pending: VecDeque::new() }
    }

    /// `rows` blocks more for a request; there must be room.
    pub fn obtain(&mut self, held: &mut Held, rows: u32) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let (blocks, evicted) = loop {
            match self.tier.take_blocks(rows) {
                Err(Error::NeedVictims { n }) if self.tier.decide(n) => {}
                settled => break settled?,
            }
        };
        self.tier.settle_choice();
        self.evictions += evicted as u64;
        for &block in &blocks[blocks.len() - evicted..] {
            self.index.remove(self.tier.pool().key(block), block);
        }
        held.pending.extend(blocks);
        Ok(())
    }

    /// The next blocks of a request become findable, up to `keys`, which are those of all its blocks.
    pub fn commit(&mut self, held: &mut Held, keys: &[Key], info: RequestInfo<'_>) {
        let mut at = held.blocks.len();
        while at < keys.len() && !held.pending.is_empty() {
            let copy = if self.chained { self.find(&keys[at..]) } else { Vec::new() };
            if copy.is_empty() {
                // New blocks end at the first key that is findable already.
                let is_new = |&&key: &&Key| !self.chained || self.index.find(key).is_none();
                let fresh = keys[at..].iter().take_while(is_new).count();
                let new = fresh.min(held.pending.len());
                self.enter(held, &keys[at..at + new], info);
            } else {
                self.join(held, copy, info);
            }
            at = held.blocks.len();
        }
    }

    /// Pending blocks of a request are found under `keys` from now on.
    fn enter(&mut self, held: &mut Held, keys: &[Key], info: RequestInfo<'_>) {
        let parent = held.blocks.last().copied().unwrap_or(NIL);
        let place = Place { parent, depth: held.blocks.len() as u32, chained: self.chained };
        let blocks: Vec<BlockId> = held.pending.drain(..keys.len()).collect();
        self.tier.enter(&blocks, keys, place, info);
        for (&block, &key) in blocks.iter().zip(keys) {
            self.index.insert(key, block);
        }
        held.blocks.extend(blocks);
    }

    /// Replaces a request's own pending blocks by those that another request computed for the same keys.
    fn join(&mut self, held: &mut Held, mut copy: Vec<BlockId>, info: RequestInfo<'_>) {
        copy.truncate(held.pending.len());
        let own: Vec<BlockId> = held.pending.drain(..copy.len()).collect();
        self.tier.give_back(&own);
        self.tier.own(&copy, info);
        held.blocks.extend(copy);
    }

    /// A request lets its blocks go; those that are findable stay cached.
    pub fn release(&mut self, held: &mut Held) -> Result<()> {
        self.tier.give_back(held.pending.make_contiguous());
        self.tier.release(&held.blocks)
    }

    /// Every cached block is forgotten.
    pub fn reset(&mut self) -> Result<()> {
        let pool = self.tier.pool();
        let cached = (0..pool.created()).filter(|&block| pool.state(block) == State::Cached);
        let mut cached: Vec<BlockId> = cached.collect();
        // A block is forgotten after the blocks that follow it.
        cached.sort_by_key(|&block| std::cmp::Reverse(pool.depth(block)));
        for &block in &cached {
            self.index.remove(self.tier.pool().key(block), block);
        }
        self.tier.remove(&cached, RemovalCause::Invalidated)
    }

    /// The pool against its policy and its index.
    pub fn check_integrity(&self, held: usize) -> Result<()> {
        self.tier.check_integrity()?;
        let pool = self.tier.pool();
        let count = |state| (0..pool.created()).filter(|&b| pool.state(b) == state).count();
        let pending = count(State::Pending);
        let findable = count(State::Cached) + count(State::Committed);
        if pending != held + self.reserved as usize || findable != self.index.len() {
            return Err(Error::Integrity(format!(
                "shadow: {pending} pending, {held} held; {findable} findable, {} in the index",
                self.index.len()
            )));
        }
        Ok(())
    }
}
