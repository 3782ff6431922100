//! What a load from below host memory fills on its way to the pool: host memory, every tier above, or none.

use kvframe_core::tier::TierPages;
use kvframe_core::{Error, Key};
use kvframe_trace::replay::Host;

use super::link::{Passage, Way};
use super::options::PromoteFill;
use super::request::Known;
use super::up::{Load, LoadId};
use super::{Errand, Leg, Tiers};
use crate::cache::{Cache, Stopped};

/// Pages on their way from a tier to one above it.
#[derive(Debug)]
pub(super) struct Rise {
    load: LoadId,
    place: usize,
    to: usize,
    keys: Vec<Key>,
    present: u32,
    source: u64,
    ticket: u64,
}

/// Pages that a load reads, from each tier its place, the ticket and how many; over which legs they come.
#[derive(Debug, Default)]
pub(super) struct Opened {
    pub parts: Vec<(usize, u64, u32)>,
    pub carried: Vec<Passage>,
    pub next: Option<Leg>,
}

/// Opens pages for a reader; none while too much is on its way.
fn open(
    pages: &mut TierPages,
    keys: &[Key],
    from: u32,
    known: Option<&Known>,
) -> Result<Option<(u64, u32)>, Error> {
    match pages.load(keys, from, 1, known.map(Known::info)) {
        Err(Error::Busy { .. } | Error::NoCapacity { .. }) => Ok(None),
        opened => opened.map(|opened| Some((opened.ticket, opened.pages.len() as u32))),
    }
}

impl Tiers {
    /// Whether pages from below stop in host memory before they go on to the pool.
    pub(super) fn stages(&self) -> bool {
        matches!(self.fill, PromoteFill::Host | PromoteFill::Through)
    }

    /// Where pages of the tier at `place` go next.
    fn stop_above(&self, load: &Load, place: usize) -> usize {
        if self.fill == PromoteFill::Through && place < load.via { place - 1 } else { 0 }
    }

    /// Places of the links that pages of a tier come to the pool over.
    pub(super) fn hops(&self, place: usize) -> Vec<usize> {
        match self.fill {
            _ if place == 0 => vec![0],
            PromoteFill::Direct => vec![place],
            PromoteFill::Host | PromoteFill::Buffer => vec![place, 0],
            PromoteFill::Through => (0..=place).rev().collect(),
        }
    }

    /// Sends pages of the tier at `place` on their way up, if there is room for any.
    pub(super) fn rise(
        &mut self,
        host: &mut dyn Host,
        load: &mut Load,
        place: usize,
    ) -> Result<(), Stopped> {
        let to = self.stop_above(load, place);
        if to == 0 {
            return self.fetch(host, load, (place, 0));
        }
        // Whatever comes of it, the next stop from here is host memory.
        load.via = place;
        self.fetch(host, load, (place, to))?;
        if load.is_waiting() { self.fetch(host, load, (place, 0)) } else { Ok(()) }
    }

    /// Sends pages of a tier to one above it, if there is room for any.
    fn fetch(
        &mut self,
        host: &mut dyn Host,
        load: &mut Load,
        (place, to): (usize, usize),
    ) -> Result<(), Stopped> {
        let present = self.levels[to].pages.present(&load.keys);
        let wanted = if to == 0 { self.sparing(host, &load.keys)? } else { load.keys.len() };
        // What went down to spare it may have cost the source some pages.
        let still = self.levels[place].pages.find(&load.keys[..wanted]).max(present);
        let wanted = wanted.min(still as usize);
        let reserved = self.reserve(host, to, &load.keys[..wanted], &Known::default())?;
        let Some((stored, taken)) = reserved else {
            self.report.deferred += 1;
            if to == 0 {
                load.keys.truncate(present as usize);
            }
            return Ok(());
        };
        let keys = load.keys[..taken as usize].to_vec();
        if to == 0 {
            load.keys.truncate(taken as usize);
        }
        if stored.ticket == 0 {
            return Ok(());
        }
        let known = &load.known;
        let read = |pages: &mut TierPages| open(pages, &keys, stored.present, Some(known));
        let Some((source, _)) = self.levels[place].with_victims(host, read)? else {
            return Ok(self.give_up(to, stored.ticket)?);
        };
        self.used(place, &keys);
        self.note_source(place, &keys[stored.present as usize..]);
        load.is_rising();
        let pages = stored.pages.len() as u32;
        let leg = Leg { place, way: Way::Read, pages, to_pool: false };
        let carried = self.carry(leg, self.now);
        let (ticket, present, load) = (stored.ticket, stored.present, load.id());
        let rise = Rise { load, place, to, keys, present, source, ticket };
        self.start([carried], Errand::Promote(rise));
        Ok(())
    }

    /// Pages have come to a tier from one below it.
    pub(super) fn risen(&mut self, cache: &mut Cache<'_>, rise: Rise) -> Result<(), Stopped> {
        let Rise { load, place, to, keys, present, source, ticket } = rise;
        self.settle(place, source, u32::MAX)?;
        let good = self.settle(to, ticket, u32::MAX)?;
        self.note_backed(to, &keys[..(present + good) as usize]);
        self.note_owned(to, &keys[present as usize..(present + good) as usize]);
        self.report.tiers[place].read_pages += u64::from(good);
        self.report.tiers[to].filled_pages += u64::from(good);
        if to == 0 { self.promoted(cache, load) } else { self.go_up(cache, load) }
    }

    /// Opens what a load reads where it lies: in host memory up to `found`, and below. `None` while too much of host
    /// memory is on its way.
    pub(super) fn open_below(
        &mut self,
        host: &mut dyn Host,
        (keys, known): (&[Key], &Known),
        (start, found): (u32, u32),
    ) -> Result<Option<Opened>, Stopped> {
        let mut opened = Opened::default();
        // What was evicted from the pool just now is still on its way to host memory.
        let ready = self.now.max(self.copied_at);
        if found > start {
            let near = &keys[..found as usize];
            let read = |pages: &mut TierPages| open(pages, near, start, Some(known));
            let Some((ticket, pages)) = self.levels[0].with_victims(host, read)? else {
                return Ok(None);
            };
            self.used(0, near);
            self.note_source(0, &near[start as usize..]);
            opened.parts.push((0, ticket, pages));
            let near = Leg { place: 0, way: Way::Read, pages, to_pool: true };
            opened.carried.push(self.carry(near, ready));
        }
        let below = if self.stages() { None } else { self.source(keys) };
        if let Some((place, most)) = below
            && most > found.max(start)
        {
            let (far, from) = (&keys[..most as usize], found.max(start));
            let read = |pages: &mut TierPages| open(pages, far, from, Some(known));
            let Some((ticket, pages)) = self.levels[place].with_victims(host, read)? else {
                return Ok(Some(opened));
            };
            self.used(place, far);
            self.note_source(place, &far[from as usize..]);
            self.report.direct_pages += u64::from(pages);
            opened.parts.push((place, ticket, pages));
            let is_direct = self.fill == PromoteFill::Direct;
            let leg = Leg { place, way: Way::Read, pages, to_pool: is_direct };
            let last = Leg { place: 0, way: Way::Read, pages, to_pool: true };
            if is_direct {
                let carried = self.carry(leg, self.now);
                opened.carried.push(carried);
            } else {
                let (carried, next) = self.carry_both(leg, last, self.now);
                opened.carried.push(carried);
                opened.next = next;
            }
        }
        Ok(Some(opened))
    }
}
