//! Pinned prefixes: a hold keeps their blocks from eviction, independently of any sequence.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::hash::{MmItem, Space};
use crate::locks::{PinInfo, PinOwner, Receipt};
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::pool::{BlockId, NIL};

/// Who pins, and for how long.
#[derive(Debug, Clone, Copy, Default)]
pub struct PinRequest<'a> {
    /// Any name.
    pub owner: &'a str,
    /// How long, by the clock that `expire_until` is called with; until the receipt is back if `None`.
    pub lease: Option<u64>,
    /// The session that it is for, or 0.
    pub session: u64,
}

/// A prefix that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinResult {
    /// Ends it, once.
    pub receipt: Receipt,
    /// Tokens held.
    pub tokens: u32,
    /// Tokens that were found, and would be held if pins might hold so much.
    pub found: u32,
}

impl Manager {
    /// Holds as much of `tokens` as is cached and as pins may hold, from the front, in whole
    /// blocks; `None` if nothing is cached. No hit is counted. A reset still makes the held blocks
    /// unfindable.
    ///
    /// # Errors
    /// [`Error::PinsFull`] if pins may hold nothing of it; [`Error::NotFindable`] if the index
    /// answers with a block that is not findable: a defect.
    pub fn lock(
        &mut self,
        tokens: &[u32],
        space: Space<'_>,
        mm_items: &[MmItem],
        pinner: PinRequest<'_>,
    ) -> Result<Option<PinResult>> {
        let limit = if self.options.prefix_caching { tokens.len() as u32 } else { 0 };
        let limit = (limit / self.block_size()) as usize;
        let root = self.hasher.root(space);
        let mut keys = Vec::new();
        if self.store.index().takes_keys() {
            self.hasher.extend(root, mm_items, tokens, &mut keys);
        }
        let mut hits = vec![Vec::new(); self.options.groups.len()];
        let mut wanted = PrefixQuery { keys: &keys, tokens, root, mm_items, limit };
        let mut find = |limit| {
            wanted.limit = limit;
            let found = self.find_prefix(wanted, &mut hits).units;
            let path: Vec<BlockId> = hits.iter().flatten().copied().filter(|&b| b != NIL).collect();
            (found, path)
        };
        let (found, mut path) = find(limit);
        if path.is_empty() {
            return Ok(None);
        }
        let (mut held, fresh) = (found, self.locks.fresh(&path));
        let tenant = self.tenant_number(space.tenant);
        // Pinned blocks are owned: those of a tenant leave others their floors.
        let room = self.pin_room().min(self.store.available(tenant).max(self.all_if_alone()));
        if fresh > room {
            // Longest prefix that fits: a longer one needs no fewer blocks.
            let (mut fits, mut over) = (0, found);
            while fits + 1 < over {
                let middle = fits.midpoint(over);
                let (_, path) = find(middle);
                if self.locks.fresh(&path) <= room { fits = middle } else { over = middle }
            }
            (held, path) = find(fits);
        }
        if path.is_empty() || self.locks.fresh(&path) > room {
            return Err(self.pins_full(fresh));
        }
        let receipt = self.lock_blocks(&path)?;
        let size = self.block_size();
        let locked = PinResult { receipt, tokens: held as u32 * size, found: found as u32 * size };
        self.name_lock(receipt, pinner, locked.tokens);
        Ok(Some(locked))
    }

    pub(super) fn name_lock(&mut self, receipt: Receipt, pinner: PinRequest<'_>, tokens: u32) {
        let now = self.store.retention().time();
        let until = pinner.lease.map(|lease| now.saturating_add(lease));
        let (owner, session) = (pinner.owner.into(), pinner.session);
        self.locks.set_holder(receipt, PinOwner { owner, until, tokens, session });
    }

    /// Blocks that pins may hold besides those they do.
    pub(super) fn pin_room(&self) -> u32 {
        self.pin_cap().saturating_sub(self.locks.blocks())
    }

    /// All blocks where tenants are not told apart: then a pin takes none from another tenant.
    fn all_if_alone(&self) -> u32 {
        if self.store.accounts().is_empty() { u32::MAX } else { 0 }
    }

    fn pin_cap(&self) -> u32 {
        (self.options.pin_cap * f64::from(self.pool().usable())).floor() as u32
    }

    pub(super) fn pins_full(&self, asked: u32) -> Error {
        Error::PinsFull {
            asked: u64::from(asked),
            held: u64::from(self.locks.blocks()),
            cap: u64::from(self.pin_cap()),
        }
    }

    /// The pins that hold a block, and whose they are.
    pub(in crate::manager) fn pins_of(&self, block: BlockId) -> Vec<(Receipt, String)> {
        let has = self.locks.held().filter(|held| held.path.contains(&block));
        has.map(|held| (held.receipt, held.holder.owner.clone())).collect()
    }

    /// The pins of one owner, or of all.
    pub fn pins(&self, owner: Option<&str>) -> impl Iterator<Item = PinInfo<'_>> {
        let pins: Vec<PinInfo<'_>> = match owner {
            None => self.locks.held().collect(),
            // A pin without an owner belongs to every caller.
            Some("") => self.locks.held().filter(|held| held.holder.owner.is_empty()).collect(),
            Some(owner) => self.locks.held_by(owner).collect(),
        };
        pins.into_iter()
    }

    /// Ends the pins of one owner, or all; how many.
    ///
    /// # Errors
    /// None of its own.
    pub fn unpin_all(&mut self, owner: Option<&str>) -> Result<u32> {
        let receipts: Vec<Receipt> = self.pins(owner).map(|held| held.receipt).collect();
        for &receipt in &receipts {
            self.unlock(receipt)?;
        }
        Ok(receipts.len() as u32)
    }

    /// Holds these findable blocks, prefixes before what follows them: `lock` once the blocks are
    /// known, as a log knows them.
    ///
    /// # Errors
    /// [`crate::Error::NotFindable`]; [`crate::Error::Invalid`] for no block at all.
    pub fn lock_blocks(&mut self, path: &[BlockId]) -> Result<Receipt> {
        let receipt = self.locks.lock(self.store.pool(), path)?;
        self.store.tick();
        self.store.note_blocks(Kind::Hold, 0, path.iter(), 0);
        self.store.note_block(Kind::Pin, 0, receipt.block, receipt.id);
        self.store.acquire_path(path);
        Ok(receipt)
    }

    /// Ends a hold: its blocks may be evicted again unless they have another owner.
    ///
    /// # Errors
    /// [`crate::Error::UnknownReceipt`].
    pub fn unlock(&mut self, receipt: Receipt) -> Result<()> {
        let mut path = Vec::new();
        self.locks.unlock(receipt, &mut path)?;
        self.store.tick();
        self.store.note_block(Kind::Unpin, 0, receipt.block, receipt.id);
        let group = |b: BlockId| self.pool().group(b);
        let groups: Vec<_> = path.chunk_by(|&a, &b| group(a) == group(b)).collect();
        for blocks in groups {
            self.store.drop_owners(0, blocks);
        }
        Ok(())
    }

    /// Prefixes held.
    pub fn locks(&self) -> usize {
        self.locks.len()
    }
}
