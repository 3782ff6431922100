//! The core's verbs as the server calls them; policies outside the core are asked through the host.

use kvframe_core::policy::Consult;
use kvframe_core::{Allocation, Error, Manager, Request, SeqId};
use kvframe_trace::replay::Host;

/// Why a simulation ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stopped {
    /// The host stopped it.
    ByHost,
    /// The core refused what a server may do.
    ByCore(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::ByCore(error)
    }
}

/// The manager, and the host that is asked for victims.
pub(crate) struct Cache<'a> {
    pub manager: &'a mut Manager,
    pub host: &'a mut dyn Host,
}

impl Cache<'_> {
    /// Blocks for a request, or None for want of room.
    pub fn allocate(&mut self, asked: &Request) -> Result<Option<Allocation>, Stopped> {
        if !self.host.find(self.manager, asked) {
            return Err(Stopped::ByHost);
        }
        let tried = self.with_victims(|manager| manager.allocate(asked));
        self.manager.settle_choice();
        self.manager.forget_answer(&asked.keys);
        tried
    }

    /// Slots up to `until`, or false for want of room.
    pub fn extend(&mut self, seq: SeqId, until: u32) -> Result<bool, Stopped> {
        let tried = self.with_victims(|manager| manager.extend(seq, until))?;
        self.manager.settle_choice();
        Ok(tried.is_some())
    }

    /// `seq` is computed up to `upto`.
    pub fn commit(&mut self, seq: SeqId, upto: u32) -> Result<(), Stopped> {
        if !self.host.admit(self.manager, seq, upto) {
            return Err(Stopped::ByHost);
        }
        self.manager.commit(seq, upto)?;
        self.host.admitted(self.manager);
        Ok(())
    }

    /// A load has ended: its first `blocks` blocks are good.
    pub fn loaded(&mut self, ticket: u64, blocks: u32) -> Result<(), Stopped> {
        if !self.host.admit_load(self.manager, ticket, blocks) {
            return Err(Stopped::ByHost);
        }
        self.manager.loaded(ticket, blocks)?;
        self.host.admitted(self.manager);
        Ok(())
    }

    /// Evicts until `free` blocks are free, or none is cached.
    pub fn evict_until(&mut self, free: u32) -> Result<(), Stopped> {
        self.with_victims(|manager| manager.evict_until(free))?;
        self.manager.settle_choice();
        Ok(())
    }

    /// Does `work` once the host has named the victims that it needs; None for want of room.
    fn with_victims<T>(
        &mut self,
        mut work: impl FnMut(&mut Manager) -> Result<T, Error>,
    ) -> Result<Option<T>, Stopped> {
        loop {
            match work(self.manager) {
                Err(Error::NeedVictims { n }) if self.host.judge(self.manager, n) => {}
                Err(Error::NeedVictims { .. }) => return Err(Stopped::ByHost),
                Err(Error::NoCapacity { .. }) => return Ok(None),
                settled => return Ok(Some(settled?)),
            }
        }
    }
}
