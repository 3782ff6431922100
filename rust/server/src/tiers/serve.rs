//! Where the scheduler meets the tiers. Without tiers nothing here does anything.

use kvframe_core::manager::AllocStatus;
use kvframe_core::{Allocation, Key, SeqId};

use super::request::Known;
use super::{Found, Landed, Room, Tiers};
use crate::cache::Stopped;
use crate::loading::Loading;
use crate::running::Running;
use crate::scheduler::Scheduler;

/// What the tiers have of a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Below {
    /// Full blocks that the request may take: its last token is always computed.
    most: usize,
    found: Found,
    /// The engine that has what it lacks.
    peer: Option<usize>,
}

impl Scheduler<'_> {
    /// Looks up what tiers have of the request that is asked for, asks for as much of that as is worth
    /// loading, and makes room for it.
    pub fn find_below(&mut self, i: usize) -> Result<Below, Stopped> {
        let most = self.asked.keys.len().min(self.limit(i) as usize);
        if self.is_swapped(i) || self.progress[i].is_handed {
            self.ask_for_computed(i)?;
            return Ok(Below { most, ..Below::default() });
        }
        let found = self.find_in_tiers(most)?;
        let peer = self.find_at_peers((most, found.worth))?;
        Ok(Below { most, found, peer })
    }

    fn find_in_tiers(&mut self, most: usize) -> Result<Found, Stopped> {
        let size = self.block_size;
        let Some(tiers) = &mut self.tiers else { return Ok(Found::default()) };
        let pooled = if tiers.looks_first() {
            self.cache.manager.lookup_request(&self.asked)?.tokens / size
        } else {
            0
        };
        let found = tiers.find(&self.asked.keys[..most], pooled);
        self.asked.external_until = found.worth * size;
        let known = (pooled.max(found.worth) * size).saturating_add(self.asked.chunk);
        let until = known.min(self.asked.until.max(found.worth * size));
        if tiers.makes_room() && self.cache.manager.can_allocate(&self.asked)? == AllocStatus::Ok {
            self.make_room(until.div_ceil(size).saturating_sub(pooled), pooled)?;
            return self.find_again(most);
        }
        Ok(found)
    }

    /// What went down to make room may be what the request had found in the pool.
    fn find_again(&mut self, most: usize) -> Result<Found, Stopped> {
        let Some(tiers) = &self.tiers else { return Ok(Found::default()) };
        let pooled = self.cache.manager.lookup_request(&self.asked)?.tokens / self.block_size;
        let found = tiers.find(&self.asked.keys[..most], pooled);
        self.asked.external_until = found.worth * self.block_size;
        Ok(found)
    }

    /// Room for so many blocks, where not only the policy says what goes; the first `pooled` blocks of the request that
    /// is asked for are wanted, too.
    pub fn make_room(&mut self, blocks: u32, pooled: u32) -> Result<(), Stopped> {
        let can_be_had = self.cache.manager.pool().available() >= blocks;
        match &mut self.tiers {
            Some(tiers) if can_be_had && tiers.makes_room() => {
                let spared = &self.asked.keys[..pooled as usize];
                tiers.make_room(&mut self.cache, Room(blocks, spared))
            }
            _ => Ok(()),
        }
    }

    /// A request was allocated. Returns its sequence if that can run now; else it waits for its load, or for
    /// what another sequence computes.
    pub fn begin_below(
        &mut self,
        one: Running,
        given: &Allocation,
        Below { most, found, peer }: Below,
        now: f64,
    ) -> Result<Option<Running>, Stopped> {
        if self.progress[one.request].is_handed {
            return Ok(self.receive(one, given, now));
        }
        let fetched = peer.zip(given.load);
        let mut landed = Some(Landed::default());
        if let Some(tiers) = &mut self.tiers {
            let known = known(&self.asked);
            tiers.announce(&self.asked.keys, &self.asked.next_use);
            tiers.drop_prefetch(one.request);
            if tiers.is_swapped(one.request) {
                tiers.remember(given.seq, &known);
                let lost = self.progress[one.request].lost;
                landed = tiers.swap_in(one.request, given, lost)?;
            } else {
                let keys = &self.asked.keys[..most];
                let asked = (keys, found, fetched.is_none());
                tiers.began(&mut self.cache, given, asked, &known)?;
                if given.load.is_some() {
                    landed = tiers.take_arrived().pop();
                }
            }
        }
        if let Some(fetched) = fetched {
            self.fetch(one, given, fetched, now);
            return Ok(None);
        }
        if let Some(landed) = landed.as_ref().filter(|_| given.joined_tokens == 0) {
            return self.land(one, landed).map(Some);
        }
        self.loading.push(Loading::new(one, landed, given.joined_tokens));
        Ok(None)
    }

    /// Backs up what a sequence has computed by `now`.
    pub fn back_up(&mut self, seq: SeqId, now: f64) -> Result<(), Stopped> {
        match &mut self.tiers {
            Some(tiers) => tiers.back_up(&mut self.cache, seq, now),
            None => Ok(()),
        }
    }

    /// A sequence has ended.
    pub fn forget_below(&mut self, seq: SeqId) {
        if let Some(tiers) = &mut self.tiers {
            tiers.forget(seq);
        }
    }

    /// Has the pages of requests at the front of the queue brought to host memory.
    pub fn prefetch_waiting(&mut self) -> Result<(), Stopped> {
        let count = self.tiers.as_ref().map_or(0, Tiers::prefetches);
        let waiting: Vec<usize> = self.queue.waiting().take(count).collect();
        for i in waiting {
            if std::mem::replace(&mut self.progress[i].is_prefetched, true) || self.is_swapped(i) {
                continue;
            }
            self.prompts.ask(i, &mut self.progress[i], self.cache.manager, &mut self.asked)?;
            let most = self.asked.keys.len().min(self.limit(i) as usize);
            let keys: Vec<Key> = self.asked.keys[..most].to_vec();
            if let Some(tiers) = &mut self.tiers {
                tiers.prefetch(&mut self.cache, (i, &keys), known(&self.asked))?;
            }
        }
        Ok(())
    }

    /// When the step that is decided at `now` can begin: blocks that it writes to are being copied until then.
    pub fn wait_for_copies(&mut self, now: f64) -> f64 {
        self.tiers.as_mut().map_or(now, |tiers| tiers.wait_for_copies(now))
    }

    /// Prompt tokens that request `i` had from each tier as it first came in.
    pub fn note_loaded(&mut self, i: usize, loaded: &[u32]) {
        if let Some(tiers) = &mut self.tiers {
            tiers.note_loaded(i, loaded);
        }
    }
}

impl Tiers {
    /// Whether it has to be known what the pool has before a request is asked for.
    fn looks_first(&self) -> bool {
        self.makes_room() || self.least.iter().any(|&tokens| tokens > self.block_size)
    }

    fn wait_for_copies(&mut self, now: f64) -> f64 {
        let mut net = self.links.net();
        self.copying.retain(|&passage| match net.arrived(passage, now) {
            Ok(_) => false,
            Err(end) => {
                self.copied_at = self.copied_at.max(end);
                true
            }
        });
        drop(net);
        let wait = (self.copied_at - now).max(0.0);
        self.report.stalled_seconds += wait;
        now + wait
    }

    /// So many requests will come.
    pub(crate) fn expect(&mut self, requests: usize) {
        self.report.loaded.iter_mut().for_each(|loaded| *loaded = vec![0; requests]);
    }

    fn note_loaded(&mut self, i: usize, loaded: &[u32]) {
        for (column, &tokens) in self.report.loaded.iter_mut().zip(loaded) {
            column[i] = tokens;
        }
    }

    /// What was moved.
    pub(crate) fn into_report(self) -> super::report::TierReport {
        self.report
    }
}

pub(super) fn known(asked: &kvframe_core::Request) -> Known {
    let (meta, tokens) = (asked.meta, asked.num_tokens);
    Known { meta, tokens, next_use: asked.next_use.as_slice().into() }
}
