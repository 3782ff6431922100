//! From the pool to host memory: a sequence's blocks, or blocks that are about to be evicted.

use std::collections::HashSet;

use kvframe_core::policy::admission::Occasion;
use kvframe_core::{Key, SeqId};
use kvframe_trace::NEVER;

use super::link::Way;
use super::request::Known;
use super::{Errand, Leg, Tiers};
use crate::cache::{Cache, Stopped};

/// Blocks that an operation of the pool needs, of those without an owner, beside those of the prefix that it has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'k>(pub u32, pub &'k [Key]);

impl Tiers {
    /// A sequence that serves a request has begun.
    pub(super) fn remember(&mut self, seq: SeqId, known: &Known) {
        self.requests.insert(seq, known.clone());
    }

    /// A sequence has ended.
    pub(crate) fn forget(&mut self, seq: SeqId) {
        self.requests.remove(&seq);
    }

    /// Backs up what a sequence has computed by `now`, as far as host memory lets it in.
    pub(crate) fn back_up(
        &mut self,
        cache: &mut Cache<'_>,
        seq: SeqId,
        now: f64,
    ) -> Result<(), Stopped> {
        self.now = now;
        let size = self.block_size;
        let rows = cache.manager.num_readable_tokens(seq)? / size;
        let keys = cache.manager.tier_keys(seq, rows * size)?;
        let known = self.requests.get(&seq).cloned().unwrap_or_default();
        let host = &mut self.levels[0];
        let wanted = host.wanted(cache.host, &keys, (&self.uses, None), &known)?;
        let keys = host.lasting(wanted).to_vec();
        let present = host.pages.present(wanted) as usize;
        if present >= keys.len() || self.is_refused(cache.host, (keys.len() - present) as u32)? {
            return Ok(());
        }
        // A backup would starve a load that waits for what is on its way in host memory.
        let reserved = if self.starved.is_empty() {
            self.reserve(cache.host, 0, &keys, &known)?
        } else {
            None
        };
        let Some((stored, taken)) = reserved else {
            self.report.deferred += 1;
            return Ok(());
        };
        if stored.ticket == 0 {
            return Ok(());
        }
        let keys = keys[..taken as usize].to_vec();
        let lease = cache.manager.lease(seq, taken * size)?;
        let pages = stored.pages.len() as u32;
        let down = Leg { place: 0, way: Way::Write, pages, to_pool: true };
        let carried = self.carry(down, self.now);
        let (ticket, present) = (stored.ticket, stored.present);
        self.start([carried], Errand::Offload { ticket, lease, keys, present, known });
        Ok(())
    }

    /// Whether blocks go down as they are evicted from the pool.
    pub(crate) fn writes_back(&self) -> bool {
        self.levels[0].writes_back()
    }

    /// Whether room is made before it is needed: what goes is not only the policy's choice.
    pub(crate) fn makes_room(&self) -> bool {
        self.writes_back() || self.evict_backed_first
    }

    /// Evicts from the pool until there is room, as far as that loses nothing. The copies are queued at once,
    /// and the step that follows waits for them: it writes to these blocks.
    pub(crate) fn make_room(
        &mut self,
        cache: &mut Cache<'_>,
        Room(free, spared): Room<'_>,
    ) -> Result<(), Stopped> {
        if self.evict_backed_first {
            let short = free.saturating_sub(cache.manager.pool().free());
            self.evict_backed(cache, short, spared);
        }
        if !self.writes_back() {
            return Ok(());
        }
        let pool = cache.manager.pool();
        let (pool_free, cached) = (pool.free(), pool.cached());
        let short = free.saturating_sub(pool_free).min(cached);
        if short == 0 {
            return Ok(());
        }
        let doomed: Vec<u32> = cache.manager.eviction_order(short);
        let (mut clean, mut seen) = (0, HashSet::new());
        for block in doomed {
            let chain =
                if seen.contains(&block) { Vec::new() } else { cache.manager.prefix_of(block) };
            if !chain.is_empty() {
                let keys: Vec<Key> = chain.iter().map(|&(_, key)| key).collect();
                if !self.copy_now(cache, &keys)? {
                    break;
                }
                seen.extend(chain.iter().map(|&(block, _)| block));
            }
            clean += 1;
        }
        cache.evict_until(pool_free + clean)
    }

    /// Takes down which of its blocks a request says are used again.
    pub(super) fn announce(&mut self, keys: &[Key], next_use: &[u32]) {
        let Some(live) = &mut self.live else { return };
        for (key, &next) in keys.iter().zip(next_use) {
            if next == NEVER {
                live.remove(key);
            } else {
                live.insert(*key);
            }
        }
    }

    /// Whether a prefix that is about to lose its last block goes down.
    fn is_live(&self, keys: &[Key]) -> bool {
        self.live.as_ref().is_none_or(|live| keys.last().is_some_and(|last| live.contains(last)))
    }

    /// Copies what host memory admits of a prefix that is about to lose its last block. False if it has no
    /// room for all of that.
    fn copy_now(&mut self, cache: &mut Cache<'_>, keys: &[Key]) -> Result<bool, Stopped> {
        if !self.is_live(keys) {
            return Ok(true);
        }
        let (known, evicted) = (Known::default(), Some(Occasion::Evicted));
        let level = &mut self.levels[0];
        let wanted = level.wanted(cache.host, keys, (&self.uses, evicted), &known)?;
        let present = level.pages.present(wanted) as usize;
        if self.is_refused(cache.host, (wanted.len() - present) as u32)? {
            return Ok(false);
        }
        if let Some((stored, taken)) = self.reserve(cache.host, 0, wanted, &known)?
            && stored.ticket > 0
        {
            let pages = stored.pages.len() as u32;
            self.copy(pages);
            let good = self.settle(0, stored.ticket, pages)?;
            self.version += 1;
            self.report.tiers[0].written_pages += u64::from(good);
            debug_assert_eq!(stored.present + good, taken);
            self.note_owned(0, &wanted[stored.present as usize..(stored.present + good) as usize]);
            self.offer(cache.host, 0, &wanted[..(stored.present + good) as usize], &known)?;
        }
        Ok(self.levels[0].pages.present(wanted) as usize == wanted.len())
    }
}
