//! A policy that names victims from an order of its own, one at a time, as a built-in one does.

use std::sync::Arc;

use kvframe_core::policy::{Access, Consulted, Eviction, PriorityBuckets, RemovalCause, View};
use kvframe_core::pool::{BlockId, Pool};
use kvframe_core::retention::DEFAULT_PRIORITY;

use crate::apart::Apart;
use crate::faults::Faults;
use crate::policy::{Fault, Policy};
use crate::spare::Spare;
use crate::v1::NONE;

/// The policy, and the built-in order for when it fails.
pub struct Ordering {
    policy: Policy,
    spare: Spare,
    /// Every block that may be evicted, by retention priority, once these differ.
    buckets: Option<PriorityBuckets>,
    /// The policy is notified of cached blocks up to this priority.
    notified: u8,
    /// Cached blocks of higher ones.
    apart: Apart,
    faults: Arc<Faults>,
    /// It failed on an event: its state is incomplete, and it is not called any more.
    lost: bool,
    fallbacks: u64,
    evictable: Vec<BlockId>,
    /// Blocks without an owner that may not be evicted for the moment; sorted.
    aside: Vec<BlockId>,
}

impl Ordering {
    /// An order over an empty pool.
    #[must_use]
    pub fn new(policy: Policy, faults: Arc<Faults>) -> Self {
        Self {
            policy,
            spare: Spare::default(),
            buckets: None,
            notified: DEFAULT_PRIORITY,
            apart: Apart::default(),
            faults,
            lost: false,
            fallbacks: 0,
            evictable: Vec::new(),
            aside: Vec::new(),
        }
    }

    #[inline]
    fn event(&mut self, call: impl FnOnce(&mut Policy) -> Result<(), Fault>) {
        if !self.lost
            && let Err(fault) = call(&mut self.policy)
        {
            self.lose(&fault);
        }
    }

    #[cold]
    fn lose(&mut self, fault: &Fault) {
        self.lost = true;
        self.faults.add(format!("{fault}; its state is incomplete, it is not asked again"));
    }

    /// The buckets, made of the built-in order where there were none.
    fn banded(&mut self, view: View<'_>) -> &mut PriorityBuckets {
        let (spare, aside) = (&self.spare, &self.aside);
        self.buckets.get_or_insert_with(|| {
            let mut buckets = PriorityBuckets::default();
            for block in spare.order(aside, view, usize::MAX) {
                buckets.release(&[block], view.pool);
            }
            buckets
        })
    }

    /// `blocks`, in the order of their prefix, are cached: the policy is notified, or they are kept apart.
    fn share_out(&mut self, blocks: &[BlockId], view: View<'_>) {
        let level = self.notified;
        let apart = |block| view.pool.priority(block) > level;
        for run in blocks.chunk_by(|&a, &b| apart(a) == apart(b)).rev() {
            if apart(run[0]) {
                self.apart.release(run, view.pool);
            } else {
                self.enter(run, view);
            }
        }
    }

    /// Notifies the policy of the blocks kept apart whose priority is at most `priority`, leaves
    /// first.
    fn notify_up_to(&mut self, priority: u8, view: View<'_>) {
        self.notified = priority;
        while let Some(block) = self.apart.first()
            && view.pool.priority(block) <= priority
        {
            self.apart.remove(block);
            self.enter(&[block], view);
        }
    }

    /// The policy's choice if it has the priority of `least`, the block that the built-in order
    /// would evict first; else `least`.
    fn named_beside(&mut self, least: BlockId, view: View<'_>) -> Option<BlockId> {
        let lowest = view.pool.priority(least);
        if lowest > self.notified {
            self.notify_up_to(lowest, view);
        }
        let named = self.named(view)?;
        let priority = view.pool.priority(named);
        if priority == lowest || self.aside.binary_search(&named).is_ok() {
            return Some(named);
        }
        if priority > DEFAULT_PRIORITY {
            // Blocks of a lower priority have come in since: if this one stayed in its order, the
            // policy would name it again.
            self.notified = lowest.max(DEFAULT_PRIORITY);
            self.event(|policy| policy.acquire(&[named], view));
            self.apart.release(&[named], view.pool);
        }
        Some(least)
    }

    /// `blocks`, in the order of their prefix, are cached, and the policy's to rank.
    fn enter(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.event(|policy| policy.release(blocks, view));
        if self.policy.hears_evictable() {
            let mut evictable = std::mem::take(&mut self.evictable);
            evictable.clear();
            evictable.extend(blocks.iter().copied().filter(|&b| view.pool.is_evictable(b)));
            if !evictable.is_empty() {
                self.event(|policy| policy.on_evictable(&evictable, view));
            }
            self.evictable = evictable;
        }
    }

    fn named(&mut self, view: View<'_>) -> Option<BlockId> {
        let fault = match self.policy.victim(view) {
            Ok(block) if view.pool.is_evictable(block) => return Some(block),
            Ok(block) if self.aside.binary_search(&block).is_ok() => return Some(block),
            // What it has may not be evicted: blocks that follow it are apart.
            Ok(_) if !self.apart.is_empty() => return None,
            Ok(NONE) => format!("victim named none of {} cached blocks", view.pool.cached()),
            Ok(block) => {
                let state = view.pool.state(block).name();
                format!("victim named block {block}, which may not be evicted ({state})")
            }
            Err(fault) => fault,
        };
        self.faults.add(fault);
        None
    }
}

impl Eviction for Ordering {
    fn name(&self) -> &'static str {
        "native"
    }

    fn wants_keys(&self) -> bool {
        self.policy.wants_block_keys()
    }

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.event(|policy| policy.insert(blocks, &access, view));
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.event(|policy| policy.hit(blocks, &access, view));
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.aside.retain(|block| !blocks.contains(block));
        self.spare.acquire(blocks, view);
        if let Some(buckets) = &mut self.buckets {
            for &block in blocks {
                buckets.remove(block);
            }
        }
        if self.apart.is_empty() {
            return self.event(|policy| policy.acquire(blocks, view));
        }
        let runs: Vec<_> =
            blocks.chunk_by(|&a, &b| self.apart.has(a) == self.apart.has(b)).collect();
        for run in runs {
            if self.apart.has(run[0]) {
                for &block in run {
                    self.apart.remove(block);
                }
            } else {
                self.event(|policy| policy.acquire(run, view));
            }
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.spare.release(blocks, view);
        if !view.pool.has_priorities() {
            return self.enter(blocks, view);
        }
        match &mut self.buckets {
            Some(buckets) => buckets.release(blocks, view.pool),
            None => drop(self.banded(view)),
        }
        self.share_out(blocks, view);
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.spare.on_evictable(block, view);
        if let Some(buckets) = &mut self.buckets {
            buckets.on_evictable(block, view.pool);
        }
        if !self.apart.has(block) {
            return self.event(|policy| policy.on_evictable(&[block], view));
        }
        if view.pool.priority(block) > self.notified {
            return self.apart.on_evictable(block, view.pool);
        }
        self.apart.remove(block);
        self.enter(&[block], view);
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.spare.priority_changed(block, view);
        self.banded(view).priority_changed(block, view.pool);
        match (self.apart.has(block), view.pool.priority(block) > self.notified) {
            (true, true) => self.apart.priority_changed(block, view.pool),
            (true, false) => {
                self.apart.remove(block);
                self.enter(&[block], view);
            }
            (false, true) => {
                self.event(|policy| policy.acquire(&[block], view));
                self.apart.release(&[block], view.pool);
            }
            (false, false) => {}
        }
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.spare.remove(block, cause, view);
        if let Some(buckets) = &mut self.buckets {
            buckets.remove(block);
        }
        if self.apart.has(block) {
            // As far as the policy knows, it has an owner; what is evicted is cached.
            self.apart.remove(block);
            self.event(|policy| policy.release(&[block], view));
        }
        self.event(|policy| policy.remove(block, cause, view));
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        if !self.lost {
            let least = self.buckets.as_ref().and_then(PriorityBuckets::first);
            let named = match least {
                None => self.named(view),
                Some(least) => self.named_beside(least, view),
            };
            if named.is_some() {
                return named;
            }
        }
        self.fallbacks += 1;
        self.spare.victim(&self.aside, view)
    }

    fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        self.policy.size(blocks, block_size)
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        self.spare.order(&self.aside, view, most)
    }

    fn validate(&self, _: &Pool) -> Result<(), String> {
        Ok(())
    }
}

impl Consulted for Ordering {
    fn restore(&mut self, block: BlockId, view: View<'_>) -> bool {
        // A policy that was notified of an owner has to be notified that the owner left.
        self.spare.release(&[block], view);
        if let Some(buckets) = &mut self.buckets {
            buckets.on_evictable(block, view.pool);
        }
        self.share_out(&[block], view);
        true
    }

    fn set_aside(&mut self, blocks: &[BlockId]) {
        self.aside.clear();
        self.aside.extend_from_slice(blocks);
        self.aside.sort_unstable();
    }

    fn shows_order(&self) -> bool {
        self.lost
    }

    fn ready(&self, _: usize) -> bool {
        !self.faults.is_final()
    }

    fn decide(&mut self, _: usize, _: View<'_>) -> bool {
        !self.faults.is_final()
    }

    fn fallbacks(&self) -> u64 {
        self.fallbacks
    }
}
