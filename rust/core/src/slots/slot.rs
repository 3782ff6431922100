//! One slot, and what is reported of slots.

use crate::hash::{Key, Space};
use crate::policy::NEVER;
use crate::pool::BlockId;
use crate::sequence::{Meta, SeqId};

/// A slot and what is in it.
#[derive(Debug)]
pub(super) struct Slot {
    /// How many sequences this slot has had.
    pub version: u32,
    pub live: bool,
    /// Its prefix is being copied in.
    pub filling: bool,
    /// What is here was allocated before the cache was cleared, and is never found.
    pub private: bool,
    /// Unsettled copies out of it and into it.
    pub holds: u32,
    pub root: Key,
    pub cache_salt: Vec<u8>,
    pub lora_name: Vec<u8>,
    /// Leading tokens that requests of other sessions than the last used as well.
    pub shared: u32,
    /// Known tokens of a live sequence; those that are found of a cached one.
    pub tokens: Vec<u32>,
    pub committed: u32,
    /// Leading tokens that others find; 0 while it is not in the order.
    pub found: u32,
    /// Its name at the policy while it is found.
    pub block: Option<BlockId>,
    /// The last call that named it.
    pub call: u64,
    /// Tokens that each pin holds.
    pub pinned: Vec<u32>,
    /// How often it ceased to be found.
    pub life: u32,
    /// The request that came last.
    pub meta: Meta,
    /// When that one expects the slot to be used next.
    pub next_use: u32,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            version: 0,
            live: false,
            filling: false,
            private: false,
            holds: 0,
            root: Key(0),
            cache_salt: Vec::new(),
            lora_name: Vec::new(),
            shared: 0,
            tokens: Vec::new(),
            committed: 0,
            found: 0,
            block: None,
            call: 0,
            pinned: Vec::new(),
            life: 0,
            meta: Meta::default(),
            next_use: NEVER,
        }
    }
}

impl Slot {
    pub fn findable(&self) -> &[u32] {
        &self.tokens[..self.found as usize]
    }

    /// What is here from now on was computed in `space`.
    pub fn name(&mut self, space: Space<'_>) {
        self.cache_salt.clear();
        self.cache_salt.extend_from_slice(space.cache_salt);
        self.lora_name.clear();
        self.lora_name.extend_from_slice(space.lora_name);
    }

    /// Whether neither a sequence nor a copy needs it.
    pub fn is_idle(&self) -> bool {
        !self.live && self.holds == 0
    }
}

/// What an allocation gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotAllocation {
    /// The sequence: its slot in the low half, the slot's version in the high half.
    pub seq: SeqId,
    /// Tokens that need not be computed.
    pub cached: u32,
    /// The slot that they are copied from, if they are not there already.
    pub copied_from: Option<u32>,
}

/// Where a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Holds nothing.
    Empty,
    /// Without a sequence, and findable.
    Cached,
    /// A sequence runs in it.
    Live,
    /// Without a sequence, while a copy reads or writes it.
    Copying,
}

/// A slot, for people to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the slot's field of that name
pub struct SlotRow {
    pub version: u32,
    pub standing: Standing,
    pub known: u32,
    pub committed: u32,
    pub found: u32,
    /// Pins that hold some of it.
    pub pins: u32,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sequences allocated.
    pub allocated: u64,
    /// Of them, those that go on in a slot whose prefix they share.
    pub in_place: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Of those, tokens that need not be computed.
    pub hit_tokens: u64,
    /// Prefixes copied from slot to slot.
    pub copies: u64,
    /// Their tokens.
    pub copied_tokens: u64,
    /// Cached slots given up whole.
    pub evictions: u64,
    /// Cached tokens given up behind a prefix that is gone on from in place.
    pub overwritten: u64,
}
