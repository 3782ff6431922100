//! Room: how scarce it is, and a pool that grows, shrinks or sleeps.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::manager::Manager;
use crate::options::Watermarks;
use crate::pool::{BlockId, State};
use crate::tenants::OTHERS;

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

/// How much of the pool was in use when it was last watched.
#[derive(Debug, Default)]
pub(in crate::manager) struct Capacity {
    pressure: Pressure,
    peak: u32,
    asleep: bool,
}

impl Capacity {
    /// The level when it was last watched.
    pub(in crate::manager) fn pressure(&self) -> Pressure {
        self.pressure
    }

    /// Whether nothing is allocated until `wake`.
    pub(in crate::manager) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// The level now that `usage` is the share of blocks in use.
    fn pressure_at(&self, usage: f64, marks: Watermarks) -> Pressure {
        match self.pressure {
            _ if usage >= marks.critical => Pressure::Critical,
            Pressure::Critical if usage >= marks.high => Pressure::Critical,
            Pressure::Normal if usage < marks.high => Pressure::Normal,
            _ if usage >= marks.low => Pressure::High,
            _ => Pressure::Normal,
        }
    }
}

impl Manager {
    /// Blocks that are referenced, without those that make room once a fence has passed.
    pub(in crate::manager) fn in_use(&self) -> u32 {
        self.pool().usable() - self.pool().available() - self.pool().coming()
    }

    /// The share of usable blocks that are referenced, without those that make room once a fence has
    /// passed.
    pub fn usage(&self) -> f64 {
        f64::from(self.in_use()) / f64::from(self.pool().usable())
    }

    /// The most blocks that were in use at the end of a call that was watched.
    pub fn peak(&self) -> u32 {
        self.capacity.peak
    }

    /// Counts the peak anew, from what is in use now; the peak until then.
    pub fn reset_peak(&mut self) -> u32 {
        let now = self.in_use();
        std::mem::replace(&mut self.capacity.peak, now)
    }

    /// The pressure level now; asking does not move it.
    pub fn pressure(&self) -> Pressure {
        self.capacity.pressure_at(self.usage(), self.options.watermarks)
    }

    /// Moves the pressure level, with hysteresis, to match the share of blocks in use. The caller
    /// does so after each call that may change that share. Returns the level before and after, if
    /// they differ.
    pub fn watch(&mut self) -> Option<(Pressure, Pressure)> {
        let (before, now) = (self.capacity.pressure, self.pressure());
        self.capacity.peak = self.capacity.peak.max(self.in_use());
        self.capacity.pressure = now;
        if now == before {
            return None;
        }
        self.store.note(Kind::Pressure, 0, now as u64);
        Some((before, now))
    }

    /// Evicts cached blocks, in the policy's order, until `free` blocks are free or none is cached.
    /// Returns how many were evicted.
    ///
    /// # Errors
    /// [`Error::NeedVictims`].
    pub fn evict_until(&mut self, free: u32) -> Result<u32> {
        let short = free.saturating_sub(self.pool().free()).min(self.store.evictable_ahead());
        if short == 0 {
            return Ok(0);
        }
        self.store.check_ready_ahead(short)?;
        self.store.serve(OTHERS);
        self.store.tick();
        self.store.note(Kind::EvictUntil, 0, u64::from(free));
        for _ in 0..short {
            let Some(victim) = self.store.next_victim() else { break };
            self.store.evict(victim);
        }
        Ok(short)
    }

    /// Evicts up to `n` of `blocks`, of those that may be evicted, in their order, and a parent once its children have
    /// gone: for a caller that knows of copies elsewhere. Returns how many.
    pub fn evict_of(&mut self, blocks: &[BlockId], n: u32) -> u32 {
        let (mut evicted, mut before) = (0, u32::MAX);
        while evicted != before && evicted < n {
            before = evicted;
            for &block in blocks {
                if evicted < n && self.pool().is_evictable(block) {
                    if evicted == 0 {
                        self.store.serve(OTHERS);
                        self.store.tick();
                    }
                    self.store.evict(block);
                    evicted += 1;
                }
            }
        }
        evicted
    }

    /// Grows the pool, or shrinks it from its end; cached blocks there, and what follows them, go.
    ///
    /// # Errors
    /// [`Error::InUse`] if a block that would go is owned; [`Error::Invalid`];
    /// [`Error::PolicyRefused`].
    pub fn resize(&mut self, blocks: u32) -> Result<()> {
        let options = crate::Options { blocks, ..self.options.clone() };
        options.validate()?;
        let owned = |&b: &BlockId| !matches!(self.pool().state(b), State::Free | State::Cached);
        let in_use = || (blocks..self.pool().created()).filter(owned);
        if let Some(first) = in_use().next() {
            let coming =
                |&b: &BlockId| self.pool().state(b) != State::Null && self.pool().stays(b) == 0;
            return Err(Error::InUse {
                blocks: in_use().count() as u64,
                from: u64::from(blocks),
                first: u64::from(first),
                coming: in_use().filter(coming).count() as u64,
            });
        }
        self.store.check_floors(blocks)?;
        self.store.resize(blocks, options.block_size)?;
        self.options = options;
        Ok(())
    }

    /// Forgets all that is cached and allocates nothing until `wake`; for engines that give their GPU
    /// memory away.
    ///
    /// # Errors
    /// [`Error::Invalid`] while sequences run, loans are out or copies are under way.
    pub fn sleep(&mut self) -> Result<()> {
        let busy = self.pool().referenced() - u32::from(self.options.null_block);
        let live = self.sequences.len();
        if busy > 0 || live > 0 {
            return Err(Error::Invalid {
                what: "sleep",
                value: format!(
                    "{live} sequences, {busy} blocks in use{}",
                    crate::error::on_their_way(self.pool().coming().into())
                ),
                limit: "sequences, pins, loans and tickets must have ended, and fences passed"
                    .into(),
            });
        }
        self.store.note(Kind::Sleep, 0, 0);
        self.reset_prefix_cache();
        self.capacity.asleep = true;
        Ok(())
    }

    /// Ends `sleep`.
    pub fn wake(&mut self) {
        self.capacity.asleep = false;
        self.store.note(Kind::Wake, 0, 0);
    }

    /// Notes that the weights have changed. Nothing computed with the old ones is found again, and running
    /// sequences publish no more blocks.
    pub fn set_weight_version(&mut self, fingerprint: &[u8]) -> u32 {
        let bytes: Vec<u32> = fingerprint.iter().map(|&byte| u32::from(byte)).collect();
        self.store.note_ids(Kind::Weights, 0, (0, 0), &bytes);
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
