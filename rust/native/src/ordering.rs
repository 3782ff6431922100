//! A policy that names victims from an order of its own, one at a time, as a built-in one does.

use std::sync::Arc;

use kvframe_core::policy::{Eviction, Use, View, Why};
use kvframe_core::pool::{BlockId, Pool};

use crate::faults::Faults;
use crate::policy::{Fault, Policy};
use crate::spare::Spare;
use crate::v1::NONE;

/// The policy, and the built-in order for when it fails.
pub struct Ordering {
    policy: Policy,
    spare: Spare,
    faults: Arc<Faults>,
    /// It failed on an event: its books are not whole, and it is not called any more.
    lost: bool,
    fallbacks: u64,
    exposed: Vec<BlockId>,
    /// Blocks that may not die for the moment, though nobody owns them; sorted.
    aside: Vec<BlockId>,
}

impl Ordering {
    /// An order over an empty pool.
    #[must_use]
    pub fn new(policy: Policy, faults: Arc<Faults>) -> Self {
        Self {
            policy,
            spare: Spare::default(),
            faults,
            lost: false,
            fallbacks: 0,
            exposed: Vec::new(),
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
        self.faults.add(format!("{fault}; its books are not whole, it is not asked again"));
    }

    fn named(&mut self, view: View<'_>) -> Option<BlockId> {
        let fault = match self.policy.victim(view) {
            Ok(block) if view.pool.is_evictable(block) => return Some(block),
            Ok(block) if self.aside.binary_search(&block).is_ok() => return Some(block),
            Ok(NONE) => format!("victim named none of {} cached blocks", view.pool.cached()),
            Ok(block) => {
                let state = view.pool.state(block).name();
                format!("victim named block {block}, which may not die ({state})")
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

    fn insert(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        self.event(|policy| policy.insert(blocks, &using, view));
    }

    fn hit(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>) {
        self.event(|policy| policy.hit(blocks, &using, view));
    }

    fn claim(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.aside.retain(|block| !blocks.contains(block));
        self.spare.claim(blocks, view);
        self.event(|policy| policy.claim(blocks, view));
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.spare.release(blocks, view);
        self.event(|policy| policy.release(blocks, view));
        if self.policy.hears_expose() {
            let mut exposed = std::mem::take(&mut self.exposed);
            exposed.clear();
            exposed.extend(blocks.iter().copied().filter(|&b| view.pool.is_evictable(b)));
            if !exposed.is_empty() {
                self.event(|policy| policy.expose(&exposed, view));
            }
            self.exposed = exposed;
        }
    }

    fn expose(&mut self, block: BlockId, view: View<'_>) {
        self.event(|policy| policy.expose(&[block], view));
    }

    fn restore(&mut self, block: BlockId, view: View<'_>) {
        // A policy that was told of an owner waits to be told that it left.
        self.release(&[block], view);
    }

    fn set_aside(&mut self, blocks: &[BlockId]) {
        self.aside.clear();
        self.aside.extend_from_slice(blocks);
        self.aside.sort_unstable();
    }

    fn shows_order(&self) -> bool {
        self.lost
    }

    fn remove(&mut self, block: BlockId, why: Why, view: View<'_>) {
        self.spare.remove(block, why, view);
        self.event(|policy| policy.remove(block, why, view));
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        if !self.lost
            && let Some(block) = self.named(view)
        {
            return Some(block);
        }
        self.fallbacks += 1;
        self.spare.victim(&self.aside, view)
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

    fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        self.policy.size(blocks, block_size)
    }

    fn order(&self, view: View<'_>) -> Vec<BlockId> {
        self.spare.order(&self.aside, view)
    }

    fn validate(&self, _: &Pool) -> Result<(), String> {
        Ok(())
    }
}
