//! How a policy outside the core is asked for victims. Nothing here runs the policy's own code.

use crate::hash::Key;
use crate::manager::Manager;
use crate::policy::{Consult, Eviction, External, View};
use crate::pool::BlockId;
use crate::tenants::PerTenant;

impl Consult for Manager {
    fn consulted(&mut self) -> (&mut dyn Eviction, View<'_>) {
        self.store.consulted()
    }

    fn found(&mut self) -> Vec<BlockId> {
        self.external().map(|external| external.found().to_vec()).unwrap_or_default()
    }

    fn settle_choice(&mut self) {
        self.store.each_external(External::settle);
    }

    fn instance(&mut self) -> usize {
        self.store.policy().tenants().map_or(0, PerTenant::to_ask)
    }

    fn ask_instance(&mut self, at: usize) {
        if let Some(policies) = self.store.policy().tenants() {
            policies.ask(at);
        }
    }
}

impl Manager {
    /// Whether the policy ranks by what only a replay knows.
    pub fn needs_future(&self) -> bool {
        self.store.policy().needs_future()
    }

    /// How many victims the built-in order named for a policy outside the core.
    pub fn fallbacks(&self) -> u64 {
        self.store.fallbacks()
    }

    /// It is `now`, for policies alone: nothing lapses.
    pub fn set_time(&mut self, now: u64) {
        self.store.set_time(now);
    }

    /// Tells a policy outside the core that so many other engines hold the block under `key` too, until that
    /// is said again or the block is computed anew. Nothing happens if no block is found under `key`.
    pub fn set_copies(&mut self, key: Key, copies: u32) {
        self.store.set_copies(key, copies);
    }
}
