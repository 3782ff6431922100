//! A queue's blocks under another policy: their owners, keys, order and use counts are kept.

use super::{BlockQueue, RequestInfo};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::View;
use crate::pool::{BlockId, NIL, State};

/// What a queue holds, without what its policy has learnt.
#[derive(Debug)]
pub struct QueueContents {
    findable: Vec<Findable>,
    free: Vec<BlockId>,
    evictions: u64,
    keyless: u64,
    capacity: u32,
}

#[derive(Debug)]
struct Findable {
    block: BlockId,
    key: Key,
    depth: u32,
    uses: u8,
    owned: bool,
}

impl BlockQueue {
    /// What it holds, given the order of the cached blocks.
    pub fn contents(&self, order: &[BlockId]) -> QueueContents {
        let pool = &self.tier.pool;
        let mut listed = vec![false; pool.created() as usize];
        let mut findable = Vec::with_capacity(pool.created() as usize);
        for &block in order.iter().filter(|&&block| pool.state(block) == State::Cached) {
            listed[block as usize] = true;
            findable.push(self.findable(block));
        }
        // Those in use are the most recent ones.
        let others = (0..pool.created()).filter(|&b| pool.is_findable(b) && !listed[b as usize]);
        findable.extend(others.map(|block| self.findable(block)));
        QueueContents {
            findable,
            free: pool.free_list().to_vec(),
            evictions: self.evictions,
            keyless: self.keyless,
            capacity: pool.capacity(),
        }
    }

    fn findable(&self, block: BlockId) -> Findable {
        let pool = &self.tier.pool;
        Findable {
            block,
            key: pool.key(block),
            depth: pool.depth(block),
            uses: self.uses[block as usize],
            owned: pool.state(block) != State::Cached,
        }
    }

    /// Takes over what another queue holds; this one is new. The policy is notified of every block in its
    /// order, and of each use that was counted.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the pools differ in size.
    pub fn adopt(&mut self, contents: &QueueContents) -> Result<()> {
        let (ours, theirs) = (self.tier.pool.capacity(), contents.capacity);
        if ours != theirs {
            let limit = format!("must be the {theirs} of the other queue");
            return Err(Error::Invalid { what: "capacity", value: ours.to_string(), limit });
        }
        for one in &contents.findable {
            self.tier.tick();
            self.tier.pool.publish(one.block, one.key, NIL, one.depth);
            self.uses[one.block as usize] = one.uses;
            let view = View { pool: &self.tier.pool, now: self.tier.now };
            self.tier.policy.insert(&[one.block], RequestInfo::default().access(), view);
        }
        self.use_again(contents);
        for &block in &contents.free {
            self.tier.pool.unshare(block);
            self.tier.pool.put_back(block);
        }
        for one in contents.findable.iter().filter(|one| !one.owned) {
            self.tier.tick();
            self.tier.pool.unshare(one.block);
            let view = View { pool: &self.tier.pool, now: self.tier.now };
            self.tier.policy.release(&[one.block], view);
        }
        self.evictions = contents.evictions;
        self.keyless = contents.keyless;
        Ok(())
    }

    /// Tells the policy of the counted uses: the second of all blocks, the third, and so on.
    fn use_again(&mut self, contents: &QueueContents) {
        // As in a prefix, the last of a call is evicted first.
        let mut left: Vec<(BlockId, u8)> =
            contents.findable.iter().rev().map(|one| (one.block, one.uses)).collect();
        for uses in 2..=u8::MAX {
            left.retain(|&(_, counted)| counted >= uses);
            if left.is_empty() {
                return;
            }
            self.tier.tick();
            let blocks: Vec<BlockId> = left.iter().map(|&(block, _)| block).collect();
            let view = View { pool: &self.tier.pool, now: self.tier.now };
            self.tier.policy.hit(&blocks, RequestInfo::default().access(), view);
        }
    }
}
