//! Path locks: whoever holds one owns a prefix, all of its blocks, until the receipt is back.

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
struct Slot {
    generation: u32,
    /// Prefixes before what follows them; empty while nothing is locked.
    path: Vec<BlockId>,
}

/// Locks that are held.
#[derive(Debug, Default)]
pub struct Locks {
    slots: Vec<Slot>,
    vacant: Vec<u32>,
}

impl Locks {
    /// Owns every block of `path`, which are findable, each after the one it follows. Appends to
    /// `claimed` those that had no owner before.
    ///
    /// # Errors
    /// [`Error::NotFindable`]; [`Error::Invalid`] for no block at all.
    pub fn lock(
        &mut self,
        pool: &mut Pool,
        path: &[BlockId],
        claimed: &mut Vec<BlockId>,
    ) -> Result<Receipt> {
        if let Some(&block) = path.iter().find(|&&block| !pool.is_findable(block)) {
            let state = pool.state(block).name();
            return Err(Error::NotFindable { block: u64::from(block), state });
        }
        let Some(&block) = path.last() else {
            let limit = "nothing to lock".into();
            return Err(Error::Invalid { what: "blocks", value: "0".into(), limit });
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let held = &mut self.slots[slot as usize];
        held.generation += 1;
        held.path.extend_from_slice(path);
        claimed.extend(path.iter().filter(|&&block| pool.share(block)));
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
                self.vacant.push(slot);
                Ok(())
            }
        }
    }

    /// Every block that a lock owns, once for each.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.slots.iter().flat_map(|slot| slot.path.iter().copied())
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
