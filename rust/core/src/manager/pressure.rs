//! Room: how scarce it is, and a pool that grows, shrinks or sleeps.

use std::collections::HashSet;

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::{BlockId, State};

/// How scarce room is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pressure {
    /// Plenty.
    #[default]
    Normal,
    /// From the high mark on, until use falls below the low one.
    High,
    /// From the critical mark on, until use falls below the high one; high then.
    Critical,
}

impl Manager {
    /// Blocks that are referenced, without those that make room once a fence has passed.
    pub(super) fn in_use(&self) -> u32 {
        self.pool.usable() - self.pool.available() - self.pool.coming()
    }

    /// The share of usable blocks that are referenced, without those that make room once a fence has
    /// passed.
    pub fn usage(&self) -> f64 {
        f64::from(self.in_use()) / f64::from(self.pool.usable())
    }

    /// The most blocks that were in use at the end of a call that was watched.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// Counts the peak anew, from what is in use now; the peak until then.
    pub fn reset_peak(&mut self) -> u32 {
        let now = self.in_use();
        std::mem::replace(&mut self.peak, now)
    }

    /// The pressure level now; asking does not move it.
    pub fn pressure(&self) -> Pressure {
        let (usage, marks) = (self.usage(), self.options.watermarks);
        match self.pressure {
            _ if usage >= marks.critical => Pressure::Critical,
            Pressure::Critical if usage >= marks.high => Pressure::Critical,
            Pressure::Normal if usage < marks.high => Pressure::Normal,
            _ if usage >= marks.low => Pressure::High,
            _ => Pressure::Normal,
        }
    }

    /// Moves the pressure level, with hysteresis, to match the share of blocks in use. The caller
    /// does so after each call that may change that share. Returns the level before and after, if
    /// they differ.
    pub fn watch(&mut self) -> Option<(Pressure, Pressure)> {
        let before = self.pressure;
        self.peak = self.peak.max(self.in_use());
        self.pressure = self.pressure();
        if self.pressure != before {
            self.note(Kind::Pressure, 0, self.pressure as u64);
        }
        (self.pressure != before).then_some((before, self.pressure))
    }

    /// Evicts cached blocks, in the policy's order, until `free` blocks are free or none is cached.
    /// Returns how many were evicted.
    ///
    /// # Errors
    /// [`Error::NeedVictims`].
    pub fn evict_until(&mut self, free: u32) -> Result<u32> {
        let short = free.saturating_sub(self.pool.free()).min(self.pool.cached());
        if short == 0 {
            return Ok(0);
        }
        if !self.policy.ready(short as usize) {
            return Err(Error::NeedVictims { n: short });
        }
        self.tick += 1;
        self.note(Kind::EvictUntil, 0, u64::from(free));
        for _ in 0..short {
            let Some(victim) = self.next_victim() else { break };
            self.evict(victim);
        }
        Ok(short)
    }

    /// Grows the pool, or shrinks it from its end; cached blocks there, and what follows them, go.
    ///
    /// # Errors
    /// [`Error::InUse`] if a block that would go is owned; [`Error::Invalid`];
    /// [`Error::PolicyRefused`].
    pub fn resize(&mut self, blocks: u32) -> Result<()> {
        let options = crate::Options { blocks, ..self.options.clone() };
        options.validate()?;
        let owned = |&b: &BlockId| !matches!(self.pool.state(b), State::Free | State::Cached);
        let in_use = || (blocks..self.pool.created()).filter(owned);
        if let Some(first) = in_use().next() {
            let coming =
                |&b: &BlockId| self.pool.state(b) != State::Null && self.pool.stays(b) == 0;
            return Err(Error::InUse {
                blocks: in_use().count() as u64,
                from: u64::from(blocks),
                first: u64::from(first),
                coming: in_use().filter(coming).count() as u64,
            });
        }
        self.policy.size(blocks, options.block_size).map_err(Error::PolicyRefused)?;
        self.tick += 1;
        self.note(Kind::Resize, 0, u64::from(blocks));
        for block in self.doomed_by(blocks) {
            self.invalidate(block);
        }
        self.pool.resize(blocks);
        self.options = options;
        Ok(())
    }

    /// Cached blocks with ids from `end` on, and all that follow such a block, the deepest first.
    fn doomed_by(&self, end: u32) -> Vec<BlockId> {
        if end >= self.pool.created() {
            return Vec::new();
        }
        let mut cached: Vec<BlockId> =
            (0..self.pool.created()).filter(|&b| self.pool.state(b) == State::Cached).collect();
        cached.sort_by_key(|&b| (self.pool.depth(b), b));
        let mut doomed = HashSet::new();
        for &block in &cached {
            if block >= end || doomed.contains(&self.pool.parent(block)) {
                doomed.insert(block);
            }
        }
        cached.retain(|b| doomed.contains(b));
        cached.reverse();
        cached
    }

    /// Forgets all that is cached and allocates nothing until `wake`; for engines that give their GPU
    /// memory away.
    ///
    /// # Errors
    /// [`Error::Invalid`] while sequences run, loans are out or copies are under way.
    pub fn sleep(&mut self) -> Result<()> {
        let busy = self.pool.referenced() - u32::from(self.options.null_block);
        let live = self.sequences.len();
        if busy > 0 || live > 0 {
            return Err(Error::Invalid {
                what: "sleep",
                value: format!(
                    "{live} sequences, {busy} blocks in use{}",
                    crate::error::on_their_way(self.pool.coming().into())
                ),
                limit: "sequences, pins, loans and tickets must have ended, and fences passed"
                    .into(),
            });
        }
        self.note(Kind::Sleep, 0, 0);
        self.reset_prefix_cache();
        self.asleep = true;
        Ok(())
    }

    /// Ends `sleep`.
    pub fn wake(&mut self) {
        self.asleep = false;
        self.note(Kind::Wake, 0, 0);
    }

    /// The weights have changed: nothing of the old is found again, and what runs keeps its blocks
    /// to itself.
    pub fn set_weight_version(&mut self, fingerprint: &[u8]) -> u32 {
        let bytes: Vec<u32> = fingerprint.iter().map(|&byte| u32::from(byte)).collect();
        self.note_ids(Kind::Weights, 0, (0, 0), &bytes);
        let freed = self.reset_prefix_cache();
        self.options.fingerprint = fingerprint.to_vec();
        self.hasher = crate::hash::Hasher::new(
            self.options.chain_hash(),
            self.options.block_size,
            &self.options.fingerprint,
        );
        freed
    }
}
