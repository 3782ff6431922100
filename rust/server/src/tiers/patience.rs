//! How long a load from below host memory is waited for: a prefetch may be given up for what is there.
//!
//! What is on its way then arrives all the same, for who asks next.

use super::Tiers;
use super::options::StoragePrefetch;
use super::up::LoadId;
use crate::cache::{Cache, Stopped};

impl Tiers {
    /// When a load that begins now is waited for no longer, or infinity.
    pub(super) fn deadline(&self, is_ahead: bool) -> f64 {
        match self.storage_prefetch {
            StoragePrefetch::Timeout(seconds) if !is_ahead => self.now + seconds,
            _ => f64::INFINITY,
        }
    }

    /// Whether requests that come in take what is in host memory by then, and nothing below.
    pub(super) fn takes_what_is_there(&self) -> bool {
        self.storage_prefetch == StoragePrefetch::BestEffort
    }

    /// When a request waits for what is below host memory no longer, or infinity.
    pub(super) fn next_deadline(&self) -> f64 {
        let waits = self.loads.iter().filter(|load| load.waits_below());
        waits.map(|load| load.deadline).fold(f64::INFINITY, f64::min)
    }

    /// Loads whose time is over go on with what host memory has.
    pub(super) fn give_up_late(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        let is_late = |load: &&super::up::Load| load.waits_below() && load.deadline <= self.now;
        let late: Vec<LoadId> =
            self.loads.iter().filter(is_late).map(super::up::Load::id).collect();
        for id in late {
            let Some(at) = self.loads.iter().position(|load| load.id() == id) else { continue };
            let there = self.levels[0].pages.find(self.loads[at].keys());
            self.loads[at].go_on_with(there);
            self.report.given_up += 1;
            self.go_on(cache, id)?;
        }
        Ok(())
    }

    /// A request has come in that takes what is there: its prefetch no longer waits for its turn.
    pub(crate) fn drop_prefetch(&mut self, request: usize) {
        if self.takes_what_is_there() {
            self.loads.retain(|load| !load.is_queued_for(request));
        }
    }
}
