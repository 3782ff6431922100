//! Path locks: a lock owns every block of a prefix until its receipt is handed back or its lease
//! ends.

use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::pool::{BlockId, Pool};

/// Proof of a lock, to be handed back once. It names what it locked, so that it opens nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// Slot in the low half, generation in the high half.
    pub id: u64,
    /// The last block of the path.
    pub block: BlockId,
}

/// A slot for a lock, used again with its buffer.
#[derive(Debug, Default)]
struct PinSlot {
    generation: u32,
    /// Prefixes before what follows them; empty while nothing is locked.
    path: Vec<BlockId>,
    holder: PinOwner,
}

/// Who holds a lock, and what it was given for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinOwner {
    /// Any name; empty if none was given.
    pub owner: String,
    /// When it ends by itself, by the clock that `expire_until` is called with.
    pub until: Option<u64>,
    /// Tokens of the prefix.
    pub tokens: u32,
    /// The session that a hint pinned it for, or 0.
    pub session: u64,
}

/// A lock that is held.
#[derive(Debug, Clone, Copy)]
pub struct PinInfo<'a> {
    /// What ends it.
    pub receipt: Receipt,
    /// Its blocks.
    pub path: &'a [BlockId],
    /// Who holds it.
    pub holder: &'a PinOwner,
}

/// Locks that are held.
#[derive(Debug, Default)]
pub struct Locks {
    slots: Vec<PinSlot>,
    vacant: Vec<u32>,
    /// How many locks own each block.
    counts: HashMap<BlockId, u32>,
    /// When locks end by themselves, and their slots.
    ends: BTreeSet<(u64, u32)>,
    /// The slots of those that name an owner, and of those made for a session.
    by_owner: BTreeSet<(String, u32)>,
    by_session: BTreeSet<(u64, u32)>,
}

impl Locks {
    /// Holds every block of `path`, which are findable, each after the one it follows. The caller
    /// owns them from then on.
    ///
    /// # Errors
    /// [`Error::NotFindable`]; [`Error::Invalid`] for no block at all.
    pub fn lock(&mut self, pool: &Pool, path: &[BlockId]) -> Result<Receipt> {
        if let Some(&block) = path.iter().find(|&&block| !pool.is_findable(block)) {
            let state = pool.state(block).name();
            return Err(Error::NotFindable { block: u64::from(block), state });
        }
        let Some(&block) = path.last() else {
            let limit = "nothing to lock".into();
            return Err(Error::Invalid { what: "blocks", value: "0".into(), limit });
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(PinSlot::default());
            self.slots.len() as u32 - 1
        });
        let held = &mut self.slots[slot as usize];
        held.generation += 1;
        held.path.extend_from_slice(path);
        for &block in path {
            *self.counts.entry(block).or_default() += 1;
        }
        Ok(Receipt { id: (u64::from(held.generation) << 32) | u64::from(slot), block })
    }

    /// Ends a lock: moves its path into `path`, whose blocks have one owner too many from now on.
    ///
    /// # Errors
    /// [`Error::UnknownReceipt`] for a receipt that never was, was handed back before, or names
    /// another block than the one that it locked.
    pub fn unlock(&mut self, receipt: Receipt, path: &mut Vec<BlockId>) -> Result<()> {
        let (slot, generation) = (receipt.id as u32, (receipt.id >> 32) as u32);
        let refuse =
            |why| Err(Error::UnknownReceipt { id: receipt.id, block: receipt.block.into(), why });
        let Some(held) = self.slots.get_mut(slot as usize) else {
            return refuse("it was never given out");
        };
        match held.path.last() {
            _ if generation == 0 || generation > held.generation => {
                refuse("it was never given out")
            }
            _ if generation < held.generation => refuse("it was handed back before"),
            None => refuse("it was handed back before"),
            Some(&block) if block != receipt.block => refuse("it was given out for another block"),
            Some(_) => {
                path.clear();
                path.append(&mut held.path);
                let PinOwner { owner, until, session, .. } = std::mem::take(&mut held.holder);
                if let Some(until) = until {
                    self.ends.remove(&(until, slot));
                }
                self.by_owner.remove(&(owner, slot));
                self.by_session.remove(&(session, slot));
                self.vacant.push(slot);
                for block in &*path {
                    if let Some(count) = self.counts.get_mut(block) {
                        *count -= 1;
                        if *count == 0 {
                            self.counts.remove(block);
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Says who holds a lock that was given out just now.
    pub fn set_holder(&mut self, receipt: Receipt, holder: PinOwner) {
        let slot = receipt.id as u32;
        self.ends.extend(holder.until.map(|until| (until, slot)));
        self.by_owner.insert((holder.owner.clone(), slot));
        if holder.session != 0 {
            self.by_session.insert((holder.session, slot));
        }
        self.slots[slot as usize].holder = holder;
    }

    /// Blocks that locks own, each counted once.
    pub fn blocks(&self) -> u32 {
        self.counts.len() as u32
    }

    /// How many of `path`, where no block comes twice, no lock owns yet.
    pub fn fresh(&self, path: &[BlockId]) -> u32 {
        path.iter().filter(|block| !self.counts.contains_key(block)).count() as u32
    }

    /// Locks whose lease is over by `now`, in the order in which they end.
    pub fn lapsed(&self, now: u64) -> Vec<Receipt> {
        let over = self.ends.range(..=(now, u32::MAX));
        let mut over: Vec<_> = over.filter_map(|&(_, slot)| self.held_in(slot)).collect();
        over.sort_unstable_by_key(|held| (held.holder.until, held.receipt.id));
        over.into_iter().map(|held| held.receipt).collect()
    }

    fn held_in(&self, at: u32) -> Option<PinInfo<'_>> {
        let slot = self.slots.get(at as usize)?;
        let id = (u64::from(slot.generation) << 32) | u64::from(at);
        let receipt = Receipt { id, block: *slot.path.last()? };
        Some(PinInfo { receipt, path: &slot.path, holder: &slot.holder })
    }

    /// The locks of an owner.
    pub fn held_by(&self, owner: &str) -> impl Iterator<Item = PinInfo<'_>> {
        let from = (owner.to_owned(), 0)..=(owner.to_owned(), u32::MAX);
        self.by_owner.range(from).filter_map(|&(_, slot)| self.held_in(slot))
    }

    /// The locks that hints made for a session.
    pub fn held_for(&self, session: u64) -> impl Iterator<Item = PinInfo<'_>> {
        let all = self.by_session.range((session, 0)..=(session, u32::MAX));
        all.filter_map(|&(_, slot)| self.held_in(slot))
    }

    /// Every block that a lock owns, once for each.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.slots.iter().flat_map(|slot| slot.path.iter().copied())
    }

    /// The locks that are held.
    pub fn held(&self) -> impl Iterator<Item = PinInfo<'_>> {
        (0..self.slots.len() as u32).filter_map(|slot| self.held_in(slot))
    }

    /// Whether the counts are those of the locks.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self) -> std::result::Result<(), String> {
        let mut counts: HashMap<BlockId, u32> = HashMap::new();
        self.owners().for_each(|block| *counts.entry(block).or_default() += 1);
        let wrong = self.counts.iter().find(|(block, count)| counts.get(block) != Some(count));
        match wrong {
            Some((block, count)) => Err(format!("block {block} is counted in {count} pins")),
            None if counts.len() != self.counts.len() => {
                Err("a pinned block is not counted".into())
            }
            None => Ok(()),
        }
    }

    /// Locks held.
    pub fn len(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
