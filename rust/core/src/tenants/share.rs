//! What the eviction policy of one tenant is shown: a pool of that tenant's findable blocks alone, with ids, a
//! size and a clock of its own. Nothing that another tenant does reaches it, not even by a block's number.

use crate::policy::{Access, Eviction, RemovalCause, View, grow};
use crate::pool::{BlockId, NIL, Pool};

/// A tenant's policy, and its blocks as it sees them.
pub struct Share {
    policy: Box<dyn Eviction>,
    pool: Pool,
    /// By its own id: the block's in the whole pool.
    whole: Vec<BlockId>,
    /// By the block's id in the whole pool: its own.
    own: Vec<BlockId>,
    /// A tick for each operation that it heard of.
    now: u64,
    /// The whole pool's clock when it last heard of one.
    heard: u64,
    scratch: [Vec<BlockId>; 2],
}

fn share_all(pool: &mut Pool, blocks: &[BlockId]) {
    for &block in blocks {
        pool.share(block);
    }
}

impl Share {
    pub fn new(policy: Box<dyn Eviction>) -> Self {
        Self {
            policy,
            pool: Pool::new(0, false),
            whole: Vec::new(),
            own: Vec::new(),
            now: 0,
            heard: 0,
            scratch: [Vec::new(), Vec::new()],
        }
    }

    pub fn policy(&self) -> &dyn Eviction {
        &*self.policy
    }

    pub fn policy_mut(&mut self) -> &mut dyn Eviction {
        &mut *self.policy
    }

    /// The policy, and what it looks at.
    pub fn asked(&mut self, clock: u64) -> (&mut dyn Eviction, View<'_>) {
        self.hear(clock);
        (&mut *self.policy, View { pool: &self.pool, now: self.now })
    }

    pub fn view(&self) -> View<'_> {
        View { pool: &self.pool, now: self.now }
    }

    /// It may have so many blocks findable, of so many tokens.
    pub fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        // One that has become too small keeps what it has, and its numbers.
        let blocks = blocks.max(self.pool.created());
        self.policy.size(blocks, block_size)?;
        self.pool.resize(blocks);
        Ok(())
    }

    /// Goes on by the clock of `before`, whose place it takes.
    pub fn follow(&mut self, before: &Self) {
        (self.now, self.heard) = (before.now, before.heard);
    }

    /// What the core keeps of blocks for a policy outside of it goes over from `before`.
    pub fn take_rows(&mut self, before: &mut Self) {
        let (Some(outside), Some(old)) = (self.policy.external(), before.policy.external()) else {
            return;
        };
        for (own, &block) in self.whole.iter().enumerate().filter(|&(_, &block)| block != NIL) {
            let known = before.own.get(block as usize).copied().unwrap_or(NIL);
            outside.set_row(own as BlockId, old.row(known));
        }
    }

    fn hear(&mut self, clock: u64) {
        self.now += u64::from(clock != self.heard);
        self.heard = clock;
    }

    /// A block as the policy knows it; [`NIL`] if it does not.
    pub fn shown(&self, block: BlockId) -> BlockId {
        self.own.get(block as usize).copied().unwrap_or(NIL)
    }

    /// The block that the policy knows as `own`.
    pub fn block(&self, own: BlockId) -> BlockId {
        self.whole.get(own as usize).copied().unwrap_or(NIL)
    }

    /// `work` with the policy, what it looks at, and `blocks` as it knows them.
    fn with(
        &mut self,
        blocks: &[BlockId],
        clock: u64,
        work: impl FnOnce(&mut dyn Eviction, &mut Pool, &[BlockId], u64),
    ) {
        self.hear(clock);
        let mut shown = std::mem::take(&mut self.scratch[0]);
        shown.clear();
        shown.extend(blocks.iter().map(|&block| self.shown(block)));
        work(&mut *self.policy, &mut self.pool, &shown, self.now);
        self.scratch[0] = shown;
    }

    pub fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        for &block in blocks {
            let Some(own) = self.pool.take(view.pool.group(block)) else { continue };
            grow(&mut self.own, block, NIL);
            grow(&mut self.whole, own, NIL);
            (self.own[block as usize], self.whole[own as usize]) = (own, block);
            self.policy.take(&[own]);
            let parent = match view.pool.parent(block) {
                NIL => NIL,
                parent => self.shown(parent),
            };
            self.pool.publish(own, view.pool.key(block), parent, view.pool.depth(block));
            self.follow_priority(block, view.pool);
        }
        self.with(blocks, view.now, |policy, pool, shown, now| {
            policy.insert(shown, access, View { pool, now });
        });
    }

    pub fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.with(blocks, view.now, |policy, pool, shown, now| {
            policy.hit(shown, access, View { pool, now });
        });
    }

    pub fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.with(blocks, view.now, |policy, pool, shown, now| {
            share_all(pool, shown);
            policy.acquire(shown, View { pool, now });
        });
    }

    pub fn own(
        &mut self,
        blocks: &[BlockId],
        first: &[BlockId],
        access: Access<'_>,
        view: View<'_>,
    ) {
        let mut came = std::mem::take(&mut self.scratch[1]);
        came.clear();
        came.extend(first.iter().map(|&block| self.shown(block)));
        self.with(blocks, view.now, |policy, pool, shown, now| {
            share_all(pool, &came);
            policy.own(shown, &came, access, View { pool, now });
        });
        self.scratch[1] = came;
    }

    pub fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        for &block in blocks {
            self.follow_priority(block, view.pool);
        }
        self.with(blocks, view.now, |policy, pool, shown, now| {
            for &block in shown {
                pool.unshare(block);
            }
            policy.release(shown, View { pool, now });
        });
    }

    pub fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.with(&[block], view.now, |policy, pool, shown, now| {
            policy.on_evictable(shown[0], View { pool, now });
        });
    }

    pub fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.follow_priority(block, view.pool);
        self.with(&[block], view.now, |policy, pool, shown, now| {
            policy.priority_changed(shown[0], View { pool, now });
        });
    }

    /// Gives the policy's block the priority that it has in the whole pool.
    fn follow_priority(&mut self, block: BlockId, whole: &Pool) {
        if let Some(priority) = whole.asked_priority(block) {
            self.pool.set_priority(self.shown(block), priority);
        }
    }

    pub fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.with(&[block], view.now, |policy, pool, shown, now| {
            pool.unpublish(shown[0]);
            policy.remove(shown[0], cause, View { pool, now });
            if pool.refs(shown[0]) > 0 {
                pool.unshare(shown[0]);
            }
            pool.put_back(shown[0]);
        });
        let own = std::mem::replace(&mut self.own[block as usize], NIL);
        self.whole[own as usize] = NIL;
    }

    /// The block that is evicted next of those of its tenant: where the policy names none that may be, the
    /// one with the lowest id of its own.
    pub fn victim(&mut self, clock: u64) -> Option<BlockId> {
        if self.pool.cached() == 0 {
            return None;
        }
        self.hear(clock);
        let view = View { pool: &self.pool, now: self.now };
        let named = self.policy.victim(view).filter(|&own| self.pool.is_evictable(own));
        let any = || (0..self.pool.created()).find(|&own| self.pool.is_evictable(own));
        named.or_else(any).map(|own| self.block(own))
    }

    /// Its policy's state against its pool, and that against the whole pool, of which `is_its` are its
    /// tenant's blocks.
    pub fn validate(&self, whole: &Pool, is_its: impl Fn(BlockId) -> bool) -> Result<(), String> {
        self.policy.validate(&self.pool)?;
        let findable = (0..whole.created()).filter(|&b| whole.is_findable(b) && is_its(b));
        let mut count = 0;
        for block in findable {
            count += 1;
            let own = self.shown(block);
            if own == NIL || self.block(own) != block {
                return Err(format!("block {block} is findable and its tenant's policy lacks it"));
            }
            let owned = whole.refs(block) > 0;
            let parent = match whole.parent(block) {
                NIL => NIL,
                parent => self.shown(parent),
            };
            let told = (self.pool.refs(own) > 0, self.pool.parent(own), self.pool.key(own));
            if told != (owned, parent, whole.key(block)) {
                return Err(format!("block {block} is another to its tenant's policy"));
            }
            if whole.state(block) == crate::pool::State::Cached
                && whole.priority(block) != self.pool.priority(own)
            {
                return Err(format!("block {block} has another priority to its tenant's policy"));
            }
        }
        let had = self.pool.capacity() - self.pool.free();
        if count == had { Ok(()) } else { Err(format!("a tenant's policy has {had}, not {count}")) }
    }
}
