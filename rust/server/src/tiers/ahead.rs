//! Room in a tier ahead of need: pages that are next to be evicted go down first.

use kvframe_core::Key;
use kvframe_core::policy::admission::Occasion;
use kvframe_trace::replay::Host;

use super::Tiers;
use super::request::Known;
use crate::cache::Stopped;

/// How many pages next to be evicted a poll offers to the tier below.
const MOST_CLEANED: u32 = 256;

impl Tiers {
    /// Makes room in each tier that is fuller than its high mark, down to its low mark.
    pub(super) fn tidy(&mut self, host: &mut dyn Host) -> Result<(), Stopped> {
        for place in 0..self.levels.len() {
            let level = &self.levels[place];
            if !level.is_too_full() {
                continue;
            }
            let mut short = level.in_use().saturating_sub(level.marked(level.options.low));
            let (mut free, ..) = level.pages.counts();
            let has_below = place + 1 < self.levels.len();
            if has_below && !self.levels[place].cleaned.is_empty() {
                let level = &mut self.levels[place];
                let cleaned: Vec<Key> = level.cleaned.keys().collect();
                let gone = level.pages.evict_backed(&cleaned, short);
                self.evicted(place, &gone);
                let count = gone.len() as u32;
                (free, short) = (free + count, short - count);
            }
            if short == 0 {
                continue;
            }
            let most = if has_below { short.min(MOST_CLEANED) } else { short };
            let mut doomed = self.levels[place].order(host, most)?;
            if has_below {
                doomed = self.clean(host, place, doomed)?;
            }
            let until = free + doomed.len() as u32;
            let gone = self.levels[place].with_victims(host, |pages| pages.evict_until(until))?;
            self.evicted(place, &gone);
        }
        Ok(())
    }

    /// Whether `rows` pages fit in host memory without evicting what `when_full = "refuse"` keeps. What they
    /// would evict starts on its way down.
    pub(super) fn is_refused(&mut self, host: &mut dyn Host, rows: u32) -> Result<bool, Stopped> {
        let level = &mut self.levels[0];
        let short = rows.saturating_sub(level.pages.counts().0);
        if !level.options.refuses || short == 0 || self.levels.len() == 1 {
            return Ok(false);
        }
        let doomed = self.levels[0].order(host, short)?;
        Ok(!self.lost(host, 0, &doomed)?.is_empty())
    }

    /// Backs up pages that are about to be evicted and that the tier below admits. Returns those that may be
    /// evicted now.
    fn clean(
        &mut self,
        host: &mut dyn Host,
        place: usize,
        mut doomed: Vec<u32>,
    ) -> Result<Vec<u32>, Stopped> {
        let lost = self.lost(host, place, &doomed)?;
        let level = &mut self.levels[place];
        if !level.options.refuses && level.pages.counts().0 == 0 {
            // A page on its way down cannot be evicted, and another would be evicted instead.
            let front = level.order(host, 1)?.first().copied();
            if front.is_some() && front == doomed.first().copied() {
                doomed.truncate(1);
                return Ok(doomed);
            }
        }
        let clean = doomed.iter().position(|page| lost.contains(page)).unwrap_or(doomed.len());
        doomed.truncate(clean);
        Ok(doomed)
    }

    /// Of pages that are about to be evicted, those that the tier below admits and lacks. This starts their
    /// transfer.
    fn lost(
        &mut self,
        host: &mut dyn Host,
        place: usize,
        doomed: &[u32],
    ) -> Result<Vec<u32>, Stopped> {
        let mut lost = Vec::new();
        let backed = |page: &u32| self.levels[place].pages.is_backed(*page);
        let unbacked: Vec<u32> = doomed.iter().copied().filter(|page| !backed(page)).collect();
        for page in unbacked {
            let prefix = self.levels[place].pages.prefix(page);
            let Some(last) = prefix.last() else { continue };
            if self.levels[place].cleaned.get(last) == Some(&true) {
                continue;
            }
            let (known, evicted) = (Known::default(), Some(Occasion::Evicted));
            let below = &mut self.levels[place + 1];
            let wanted = below.wanted(host, &prefix, (&self.uses, evicted), &known)?;
            if below.lasting(wanted).len() < prefix.len() {
                continue;
            }
            lost.push(page);
            // Reading a page makes it the most recently used, which must not delay its eviction.
            let cleaned = &mut self.levels[place].cleaned;
            for &key in prefix.iter().rev() {
                if cleaned.get(&key).is_none() {
                    cleaned.set(key, false);
                }
            }
            self.write(host, place, &prefix, &known)?;
        }
        Ok(lost)
    }
}
