//! The blocks of one shadow. Only findable blocks have an id. Blocks in use that are not findable are only
//! counted.

use super::Grain;
use crate::error::{Error, Result};
use crate::hash::{HashAlgo, Key};
use crate::index::{HashIndex, KeyMatch};
use crate::policy::{Consult, Eviction, RemovalCause};
use crate::pool::{BlockId, NIL, State};
use crate::tier::{Place, RequestInfo, TierPolicy};

/// The blocks that a request holds in one shadow.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Findable ones, from the start of its prefix on.
    pub blocks: Vec<BlockId>,
    /// The number of the others.
    pub pending: u32,
}

impl Held {
    pub fn rows(&self) -> u32 {
        self.blocks.len() as u32 + self.pending
    }
}

#[derive(Debug)]
pub(super) struct ShadowPool {
    tier: TierPolicy,
    index: HashIndex,
    /// Blocks in use that are not findable, those among them that no request may have.
    pending: u32,
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
        let tier = TierPolicy::new(rows + reserved, grain.tokens(), policy)?;
        // The engine made the keys, so they are not compared with tokens.
        let index = HashIndex::new(HashAlgo::Sha256, grain.tokens(), rows + reserved);
        Ok(Self { tier, index, pending: reserved, reserved, chained: grain.chained, evictions: 0 })
    }

    /// Blocks that requests may have.
    pub fn capacity(&self) -> u32 {
        self.tier.pool().capacity() - self.reserved
    }

    /// The longest prefix of `keys` that is cached.
    pub fn find(&self, keys: &[Key]) -> Vec<BlockId> {
        let found = |&key: &Key| match self.index.find(self.tier.pool(), key, None) {
            KeyMatch::Block(block) => Some(block),
            _ => None,
        };
        keys.iter().map_while(found).collect()
    }

    /// Whether `rows` blocks beside `found` ones can be had.
    pub fn has_room(&self, rows: u32, found: &[BlockId]) -> bool {
        let pool = self.tier.pool();
        let unowned = found.iter().filter(|&&block| pool.state(block) == State::Cached).count();
        rows + self.pending + unowned as u32 <= pool.available()
    }

    /// A request found `blocks`, and holds them.
    pub fn hold(&mut self, blocks: Vec<BlockId>, info: RequestInfo<'_>) -> Held {
        if !blocks.is_empty() {
            self.tier.own(&blocks, info);
        }
        Held { blocks, pending: 0 }
    }

    /// `rows` blocks more for a request; there must be room.
    pub fn obtain(&mut self, held: &mut Held, rows: u32) -> Result<()> {
        let free = self.tier.pool().free() - self.pending;
        self.evict(rows.saturating_sub(free))?;
        self.pending += rows;
        held.pending += rows;
        Ok(())
    }

    fn evict(&mut self, n: u32) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let victims = loop {
            match self.tier.victims(n, &[]) {
                Err(Error::NeedVictims { n }) if self.tier.decide(n) => {}
                settled => break settled?.unwrap_or_default(),
            }
        };
        self.tier.settle_choice();
        self.evictions += victims.len() as u64;
        for block in victims {
            self.index.remove(self.tier.pool(), block);
        }
        Ok(())
    }

    /// The next blocks of a request become findable, up to `keys`, which are those of all its blocks.
    pub fn commit(&mut self, held: &mut Held, keys: &[Key], info: RequestInfo<'_>) {
        let mut at = held.blocks.len();
        while at < keys.len() && held.pending > 0 {
            let copy = if self.chained { self.find(&keys[at..]) } else { Vec::new() };
            if copy.is_empty() {
                // New blocks end at the first key that is findable already.
                let is_new = |&&key: &&Key| !self.chained || self.find(&[key]).is_empty();
                let fresh = keys[at..].iter().take_while(is_new).count();
                let new = fresh.min(held.pending as usize);
                self.enter(held, &keys[at..at + new], info);
            } else {
                self.join(held, copy, info);
            }
            at = held.blocks.len();
        }
    }

    /// Pending blocks of a request are found under `keys` from now on.
    fn enter(&mut self, held: &mut Held, keys: &[Key], info: RequestInfo<'_>) {
        self.pending -= keys.len() as u32;
        held.pending -= keys.len() as u32;
        let parent = held.blocks.last().copied().unwrap_or(NIL);
        let place = Place { parent, depth: held.blocks.len() as u32, chained: self.chained };
        for (block, &key) in self.tier.enter(keys, place, info).into_iter().zip(keys) {
            if let KeyMatch::Block(other) = self.index.store(self.tier.pool(), block, key, None) {
                self.tier.note_copies([block, other]);
            }
            held.blocks.push(block);
        }
    }

    /// Replaces a request's own pending blocks by those that another request computed for the same keys.
    fn join(&mut self, held: &mut Held, mut copy: Vec<BlockId>, info: RequestInfo<'_>) {
        copy.truncate(held.pending as usize);
        self.pending -= copy.len() as u32;
        held.pending -= copy.len() as u32;
        self.tier.own(&copy, info);
        held.blocks.extend(copy);
    }

    /// A request lets its blocks go; those that are findable stay cached.
    pub fn release(&mut self, held: &Held) -> Result<()> {
        self.pending -= held.pending;
        self.tier.release(&held.blocks)
    }

    /// Every cached block is forgotten.
    pub fn reset(&mut self) -> Result<()> {
        let pool = self.tier.pool();
        let cached = (0..pool.created()).filter(|&block| pool.state(block) == State::Cached);
        let mut cached: Vec<BlockId> = cached.collect();
        // A block is forgotten after the blocks that follow it.
        cached.sort_by_key(|&block| std::cmp::Reverse(pool.depth(block)));
        cached.retain(|&block| self.index.remove(self.tier.pool(), block));
        self.tier.remove(&cached, RemovalCause::Invalidated)
    }

    /// The pool against its policy and its index.
    pub fn check_integrity(&self, held: u32) -> Result<()> {
        self.tier.check_integrity()?;
        let pending = held + self.reserved;
        let pool = self.tier.pool();
        let findable = (0..pool.created()).filter(|&block| pool.is_findable(block)).count();
        if self.pending != pending || self.pending > pool.free() || findable != self.index.len() {
            return Err(Error::Integrity(format!(
                "shadow: {} pending, {pending} held, {} free; {findable} findable, {} in the index",
                self.pending,
                pool.free(),
                self.index.len()
            )));
        }
        Ok(())
    }
}
