//! A policy that scores what it is offered, once an operation that needs victims; the core picks.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::Arc;

use kvframe_core::policy::{
    Access, Candidates, Consulted, Eviction, External, Fact, RemovalCause, Subscriptions, View,
};
use kvframe_core::pool::{BlockId, Pool};

use crate::faults::Faults;
use crate::policy::{Fault, Policy};
use crate::v1::COLUMNS;

/// The policy, and the core's state for one that is not built in.
pub struct Scoring {
    policy: Policy,
    state: External,
    faults: Arc<Faults>,
    /// Candidates offered at a time, 0 for all.
    window: u32,
    lost: bool,
    offer: Candidates,
    scores: Vec<f64>,
}

impl Scoring {
    /// A policy over an empty pool. `window`, if given, replaces the one that the policy asks for.
    #[must_use]
    pub fn new(policy: Policy, window: Option<u32>, faults: Arc<Faults>) -> Self {
        let mut offer = Candidates::default();
        let wanted = COLUMNS.iter().enumerate().filter(|&(column, _)| policy.wants_column(column));
        offer.facts.want(wanted.filter_map(|(_, name)| Fact::by_name(name)));
        Self {
            window: window.unwrap_or_else(|| policy.window()),
            policy,
            state: External::new(Subscriptions::default()),
            faults,
            lost: false,
            offer,
            scores: Vec::new(),
        }
    }

    fn event(&mut self, call: impl FnOnce(&mut Policy) -> Result<(), Fault>) {
        if !self.lost
            && let Err(fault) = call(&mut self.policy)
        {
            self.lost = true;
            self.faults.add(format!("{fault}; its state is incomplete, it is not asked again"));
        }
    }

    /// The policy's choice of `n` blocks, handed to the state.
    fn choose(&mut self, n: usize, view: View<'_>) -> Result<(), Fault> {
        let limit = if self.window == 0 { 0 } else { (self.window as usize).max(n) };
        self.state.candidates(view.pool, limit, &mut self.offer);
        let offer = &self.offer;
        self.scores.clear();
        self.scores.resize(offer.blocks.len(), f64::NAN);
        let policy = &self.policy;
        let columns = columns(offer, |column| policy.wants_column(column));
        self.policy.score(&columns, &mut self.scores, view)?;
        offer.check_scores(&self.scores)?;
        let places = offer.lowest(&self.scores, n);
        if places.len() < n {
            self.state.fall_back(n);
            return Ok(());
        }
        let choice = offer.choice(&places);
        self.state.choose(view.pool, &choice.blocks, &choice.generations);
        Ok(())
    }
}

/// Pointers by number: each to as many entries as are offered, or null where it is not wanted.
fn columns(offer: &Candidates, wanted: impl Fn(usize) -> bool) -> [*const c_void; COLUMNS.len()] {
    let facts = &offer.facts;
    let all: [*const c_void; COLUMNS.len()] = [
        offer.blocks.as_ptr().cast(),
        facts.depth.as_ptr().cast(),
        offer.parents.as_ptr().cast(),
        facts.last_use.as_ptr().cast(),
        facts.inserted.as_ptr().cast(),
        facts.uses.as_ptr().cast(),
        facts.reach.as_ptr().cast(),
        facts.session.as_ptr().cast(),
        facts.turn.as_ptr().cast(),
        facts.class.as_ptr().cast(),
        facts.priority.as_ptr().cast(),
        facts.next_use.as_ptr().cast(),
    ];
    std::array::from_fn(|i| if wanted(i) { all[i] } else { null() })
}

impl Eviction for Scoring {
    fn name(&self) -> &'static str {
        "native"
    }

    fn wants_keys(&self) -> bool {
        self.policy.wants_block_keys()
    }

    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.state.insert(blocks, access, view);
        self.event(|policy| policy.insert(blocks, &access, view));
    }

    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.state.hit(blocks, access, view);
        self.event(|policy| policy.hit(blocks, &access, view));
    }

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.state.acquire(blocks, view);
        self.event(|policy| policy.acquire(blocks, view));
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        self.state.release(blocks, view);
        self.event(|policy| policy.release(blocks, view));
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        self.state.on_evictable(block, view);
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.state.priority_changed(block, view);
    }

    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>) {
        self.state.remove(block, cause, view);
        self.event(|policy| policy.remove(block, cause, view));
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        self.state.victim(view)
    }

    fn size(&mut self, blocks: u32, block_size: u32) -> Result<(), String> {
        self.policy.size(blocks, block_size)
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        self.state.order(view, most)
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        self.state.validate(pool)
    }
}

impl Consulted for Scoring {
    fn ready(&self, n: usize) -> bool {
        self.state.ready(n)
    }

    fn decide(&mut self, n: usize, view: View<'_>) -> bool {
        if !self.lost {
            match self.choose(n, view) {
                Ok(()) => return true,
                Err(fault) => self.faults.add(fault),
            }
        }
        if !self.faults.is_strict() {
            self.state.fall_back(n);
        }
        !self.faults.is_strict()
    }

    fn fallbacks(&self) -> u64 {
        self.state.fallbacks()
    }

    fn external(&mut self) -> Option<&mut External> {
        Some(&mut self.state)
    }
}
