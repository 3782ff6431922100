//! Preempted sequences whose pages go to host memory and come back, as `kvframe.tiers.swap` has it.
//!
//! The pages are copied before the step that follows: it writes to their blocks.

use kvframe_core::pool::BlockId;
use kvframe_core::{Allocation, Error, SeqId};

use super::break_even::compute;
use super::link::Way;
use super::{Errand, Landed, Leg, Tiers};
use crate::cache::{Cache, Stopped};
use crate::options::Preemption;
use crate::running::Running;
use crate::scheduler::Scheduler;

/// A sequence on its way back.
#[derive(Debug)]
pub(super) struct Return {
    seq: SeqId,
    /// The load of its whole blocks, and how many it brings.
    load: Option<(u64, u32)>,
    pages: Vec<BlockId>,
    tokens: u32,
}

impl Scheduler<'_> {
    /// Keeps in host memory what a sequence has computed that is about to be preempted, if that is wanted, and
    /// there is room for it.
    pub fn swap_out(&mut self, one: &Running) -> Result<(), Stopped> {
        let Some(tiers) = &mut self.tiers else { return Ok(()) };
        let rows = one.computed.div_ceil(self.block_size);
        let is_wanted = match self.options.preemption {
            Preemption::Recompute | Preemption::Never => false,
            Preemption::Swap => true,
            Preemption::Auto => {
                let whole = one.computed / self.block_size * self.block_size;
                let keys = self.cache.manager.tier_keys(one.seq, whole)?;
                let backed = tiers.levels[0].pages.find(&keys);
                let there = backed * self.block_size;
                let chunk = self.options.max_num_batched_tokens;
                let again = compute(self.times, (there, one.computed), chunk);
                let again = again * self.options.time_factor;
                let load = if backed > 0 { tiers.host_seconds(backed).0 } else { 0.0 };
                let (read, written) = tiers.host_seconds(rows);
                read + written < again + load
            }
        };
        if is_wanted && rows > 0 {
            tiers.swap_out(&mut self.cache, one.request, rows)?;
        }
        Ok(())
    }

    /// Whether the pages of request `i` are in host memory, since it was preempted.
    pub fn is_swapped(&self, i: usize) -> bool {
        self.tiers.as_ref().is_some_and(|tiers| tiers.is_swapped(i))
    }
}

impl Tiers {
    pub(crate) fn is_swapped(&self, request: usize) -> bool {
        self.swapped.contains_key(&request)
    }

    /// Seconds for so many pages to come from host memory, and to go there, over a free link.
    fn host_seconds(&self, pages: u32) -> (f64, f64) {
        let seconds = |way| self.seconds(0, (way, pages), true);
        (seconds(Way::Read), seconds(Way::Write))
    }

    /// Takes so many pages of host memory for a request, if there is room.
    fn swap_out(
        &mut self,
        cache: &mut Cache<'_>,
        request: usize,
        rows: u32,
    ) -> Result<(), Stopped> {
        if self.is_refused(cache.host, rows)? {
            return Ok(());
        }
        let take = |pages: &mut kvframe_core::tier::TierPages| match pages.take(rows) {
            Err(Error::NoCapacity { .. }) => Ok(None),
            taken => taken.map(Some),
        };
        let Some((pages, gone)) = self.levels[0].with_victims(cache.host, take)? else {
            return Ok(());
        };
        self.evicted(0, &gone);
        self.copy(rows);
        self.report.swapped_out_pages += u64::from(rows);
        self.version += 1;
        self.swapped.insert(request, pages);
        Ok(())
    }

    /// A preempted sequence has blocks again, and had computed so many tokens. Its pages come back; what landed,
    /// if the pool still had all of them.
    pub(super) fn swap_in(
        &mut self,
        request: usize,
        given: &Allocation,
        tokens: u32,
    ) -> Result<Option<Landed>, Stopped> {
        let pages = self.swapped.remove(&request).unwrap_or_default();
        self.report.swaps += 1;
        let size = self.block_size;
        let missing = (pages.len() as u32).saturating_sub(given.cached_tokens / size);
        if given.cached_tokens >= tokens {
            self.touch(0);
            self.levels[0].pages.free(&pages)?;
            self.version += 1;
            return Ok(Some(Landed { seq: given.seq, ..Landed::default() }));
        }
        let back = Leg { place: 0, way: Way::Read, pages: missing, to_pool: true };
        let carried = self.carry(back, self.now.max(self.copied_at));
        self.report.swapped_in_pages += u64::from(missing);
        let load = given.load.map(|ticket| (ticket, given.external_tokens / size));
        self.start([carried], Errand::SwapIn(Return { seq: given.seq, load, pages, tokens }));
        Ok(None)
    }

    /// A preempted sequence is as long as it was.
    pub(super) fn swapped_in(
        &mut self,
        cache: &mut Cache<'_>,
        back: &Return,
    ) -> Result<(), Stopped> {
        if let Some((ticket, blocks)) = back.load {
            cache.loaded(ticket, blocks)?;
        }
        self.touch(0);
        self.levels[0].pages.free(&back.pages)?;
        let (seq, swapped) = (back.seq, back.tokens);
        self.arrived.push(Landed { seq, swapped, ..Landed::default() });
        Ok(())
    }
}
