//! From a tier to the one below it, so that what a tier evicts is not lost.

use kvframe_core::{Error, Key};
use kvframe_trace::replay::Host;

use super::link::Way;
use super::request::Known;
use super::{Errand, Leg, Tiers};
use crate::cache::Stopped;

/// Prefixes that wait for room in a tier below; more are dropped, and counted.
const MOST_BEHIND: usize = 1024;

/// So many of them are tried again in a poll.
const MOST_AGAIN: usize = 16;

impl Tiers {
    /// Sends the tier below what it admits of a prefix that the tier at `place` has.
    pub(super) fn offer(
        &mut self,
        host: &mut dyn Host,
        place: usize,
        keys: &[Key],
        known: &Known,
    ) -> Result<(), Stopped> {
        let Some(below) = self.levels.get_mut(place + 1) else { return Ok(()) };
        let wanted = below.wanted(host, keys, (&self.uses, None), known)?;
        self.write(host, place, wanted, known)
    }

    /// Writes a prefix from the tier at `place` to the one below; what has no room waits.
    pub(super) fn write(
        &mut self,
        host: &mut dyn Host,
        place: usize,
        keys: &[Key],
        known: &Known,
    ) -> Result<(), Stopped> {
        let found = self.levels[place].pages.find(keys) as usize;
        let keys = self.levels[place + 1].lasting(&keys[..found]);
        if self.levels[place + 1].pages.present(keys) as usize == keys.len() {
            self.note_backed(place, keys);
            return Ok(());
        }
        let is_free = place > 0 || self.starved.is_empty();
        let reserved = if is_free { self.reserve(host, place + 1, keys, known)? } else { None };
        let Some((stored, taken)) = reserved else {
            self.put_off(place, keys);
            return Ok(());
        };
        let taken = &keys[..taken as usize];
        if taken.len() < keys.len() {
            self.put_off(place, keys);
        }
        if stored.ticket == 0 {
            return Ok(());
        }
        let load = |pages: &mut kvframe_core::tier::TierPages| match pages.load(
            taken,
            stored.present,
            1,
            None,
        ) {
            Err(Error::Busy { .. } | Error::NoCapacity { .. }) => Ok(None),
            loaded => loaded.map(Some),
        };
        let Some(source) = self.levels[place].with_victims(host, load)? else {
            self.give_up(place + 1, stored.ticket)?;
            self.put_off(place, keys);
            return Ok(());
        };
        let pages = stored.pages.len() as u32;
        let ready = self.now.max(self.copied_at);
        let write = Leg { place: place + 1, way: Way::Write, pages, to_pool: false };
        let (carried, next) = if place > 0 {
            self.carry_both(Leg { place, way: Way::Read, pages, to_pool: false }, write, ready)
        } else {
            (self.carry(write, ready), None)
        };
        let (keys, present) = (taken.to_vec(), stored.present);
        let (source, ticket) = (source.ticket, stored.ticket);
        let errand = Errand::Demote { place, keys, present, source, ticket };
        self.start_legs(([carried], next), errand);
        Ok(())
    }

    /// Tries again what waited; it is counted once.
    pub(super) fn catch_up(&mut self, host: &mut dyn Host) -> Result<(), Stopped> {
        let deferred = self.report.deferred;
        for place in 0..self.behind.len() {
            let names: Vec<Key> = self.behind[place].keys().take(MOST_AGAIN).collect();
            for name in names {
                if let Some(keys) = self.behind[place].remove(&name) {
                    self.write(host, place, &keys, &Known::default())?;
                }
            }
        }
        self.report.deferred = deferred;
        Ok(())
    }

    /// A prefix waits for room below.
    fn put_off(&mut self, place: usize, keys: &[Key]) {
        let Some(&last) = keys.last() else { return };
        self.report.deferred += 1;
        let waiting = &mut self.behind[place];
        waiting.set(last, keys.to_vec());
        while waiting.len() > MOST_BEHIND {
            waiting.pop_first();
            self.report.dropped_pages += 1;
        }
    }
}
