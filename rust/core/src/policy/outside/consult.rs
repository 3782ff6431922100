//! How an operation consults a policy outside the core. Nothing here runs that policy's code.
//!
//! An operation that needs victims is refused with [`Error::NeedVictims`](crate::Error::NeedVictims)
//! and has changed nothing. The caller then takes a [`Decision`] to the policy without the lock, hands
//! the [`Choice`] in, and tries the operation again.

use crate::policy::{Candidates, Eviction, External, Journal, View};
use crate::pool::BlockId;

/// Which `n` blocks should be evicted, as it is put to a policy.
#[derive(Debug, Default)]
pub struct Decision {
    /// Blocks that the operation needs.
    pub n: usize,
    /// The logical clock.
    pub now: u64,
    /// The engine's clock; 0 where there is none.
    pub time: u64,
    /// Blocks of the pool, as large as it is now, that a request can ever have.
    pub capacity: u32,
    /// What may be chosen.
    pub offer: Candidates,
    /// What the operation has found, and does not offer.
    pub found: Vec<BlockId>,
    /// What happened since the last decision.
    pub journal: Journal,
}

/// Blocks in the order of eviction, each with the generation that it had when it was offered.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// The blocks.
    pub blocks: Vec<BlockId>,
    /// Their generations.
    pub generations: Vec<u32>,
}

/// Blocks whose policy may live outside the core.
pub trait Consult {
    /// The policy, and what it looks at.
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>);

    /// What the pending operation has found, for a policy that hears what it misses. A tier looks nothing
    /// up.
    fn found(&mut self) -> Vec<BlockId> {
        Vec::new()
    }

    /// Forgets what is left of the last choice. A tier does that itself, where a call has used it.
    fn settle_choice(&mut self) {}

    /// Which instance of the policy is to be asked, where each tenant has one of its own.
    fn instance(&mut self) -> usize {
        0
    }

    /// The next questions are for that instance.
    fn ask_instance(&mut self, _at: usize) {}

    /// The index that the core keeps for a policy outside of it.
    fn external(&mut self) -> Option<&mut External> {
        self.consulted().0.external()
    }

    /// Fills in what the policy decides by: up to `window` candidates (0: all), at least as many as are
    /// needed where there are.
    fn consult(&mut self, window: usize, decision: &mut Decision) {
        self.candidates(decision.n, window, &mut decision.offer);
        decision.journal = self.take_journal();
        decision.found = self.found();
        let (_, view) = self.consulted();
        (decision.now, decision.capacity) = (view.now, view.pool.usable());
        decision.time = self.external().map_or(0, |external| external.time());
    }

    /// Takes the policy's choice for the operation that follows; where that is too short for `n` blocks,
    /// the built-in order decides.
    fn decided(&mut self, n: usize, choice: Option<&Choice>) {
        match choice {
            Some(choice) if choice.blocks.len() >= n => {
                self.choose(&choice.blocks, &choice.generations);
            }
            _ => drop(self.fall_back(n)),
        }
    }

    /// What the policy may judge: up to `limit` blocks (0: all), at least `n` where there are.
    fn candidates(&mut self, n: usize, limit: usize, out: &mut Candidates) {
        let limit = if limit == 0 { 0 } else { limit.max(n) };
        let (policy, view) = self.consulted();
        if let Some(external) = policy.external() {
            external.candidates(view.pool, limit, out);
        }
    }

    /// Takes the policy's choice for the operation that follows.
    fn choose(&mut self, blocks: &[BlockId], generations: &[u32]) {
        let (policy, view) = self.consulted();
        if let Some(external) = policy.external() {
            external.choose(view.pool, blocks, generations);
        }
    }

    /// Lets the built-in order stand in for `n` victims of the operation that follows. False if the
    /// policy keeps no such order.
    fn fall_back(&mut self, n: usize) -> bool {
        self.external().map(|external| external.fall_back(n)).is_some()
    }

    /// Has a policy that answers inside the core name `n` victims for the operation that was just
    /// refused. False if that stands.
    fn decide(&mut self, n: u32) -> bool {
        let (policy, view) = self.consulted();
        policy.decide(n as usize, view)
    }

    /// Events that have not been delivered to the policy.
    fn journal_len(&mut self) -> usize {
        self.external().map_or(0, |external| external.journal_len())
    }

    /// Those events.
    fn take_journal(&mut self) -> Journal {
        self.external().map(External::take_journal).unwrap_or_default()
    }
}
