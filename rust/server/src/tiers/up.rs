//! From the tiers to the pool, in two stages where a page is below host memory; and prefetches.

use kvframe_core::{Allocation, Key, SeqId};
use kvframe_trace::replay::Host;

use super::fill::Opened;
use super::options::HitRefresh;
use super::request::Known;
use super::{Errand, Sent, Tiers};
use crate::cache::{Cache, Stopped};

/// A load's number.
pub(super) type LoadId = u64;

/// Most tokens that prefetches bring at once; further ones queue.
const PREFETCH_TOKENS: u32 = 1 << 17;

/// Where a load is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Too much is on its way.
    Queued,
    /// From a tier to host memory.
    Promoting,
    /// For pages that others promote, or for room.
    Waiting,
    /// To the pool.
    Onboarding,
}

/// The sequence that a load is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub seq: SeqId,
    pub ticket: u64,
    /// It serves no request: it has blocks for what comes before a request asks for it.
    pub is_ahead: bool,
}

/// Pages of a prefix on their way up.
#[derive(Debug)]
pub(super) struct Load {
    id: LoadId,
    pub(super) keys: Vec<Key>,
    pub(super) known: Known,
    state: State,
    /// The request that a prefetch is for.
    request: Option<usize>,
    /// The lowest tier from which it has stopped in the next.
    pub(super) via: usize,
    /// What is below host memory is waited for until then.
    pub(super) deadline: f64,
    /// None for a prefetch.
    target: Option<Target>,
    start: u32,
    /// Pages of the prefix that host memory had as the load began.
    in_host: u32,
    /// The tier that had the rest.
    source: usize,
    /// Once it is on its way to the pool.
    sent: Option<Sent>,
}

impl Load {
    pub(super) fn id(&self) -> LoadId {
        self.id
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// It is not on its way anywhere.
    pub(super) fn is_waiting(&self) -> bool {
        self.state == State::Waiting
    }

    /// It is on its way to a tier.
    pub(super) fn is_rising(&mut self) {
        self.state = State::Promoting;
    }

    /// A sequence waits for what is not in host memory.
    pub(super) fn waits_below(&self) -> bool {
        self.target.is_some() && matches!(self.state, State::Promoting | State::Waiting)
    }

    /// Nothing more than so many pages is waited for.
    pub(super) fn go_on_with(&mut self, pages: u32) {
        self.keys.truncate(pages as usize);
        self.state = State::Waiting;
        self.deadline = f64::INFINITY;
    }

    /// A prefetch for a request, which waits for its turn.
    pub(super) fn is_queued_for(&self, request: usize) -> bool {
        self.state == State::Queued && self.request == Some(request)
    }
}

/// Pages of a prompt, from its first on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    /// Some tier has so many, or host memory is about to.
    pub there: u32,
    /// Up to here a load is worth it.
    pub worth: u32,
}

/// A load that has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Landed {
    pub seq: SeqId,
    /// Tokens that came, by the tier that had them.
    pub tokens: Vec<u32>,
    /// Tokens that a preempted sequence has again.
    pub swapped: u32,
    /// Tokens that came from another engine.
    pub from_peers: u32,
}

impl Tiers {
    /// What tiers have of a prompt of which the pool has the first `pooled` pages.
    pub(super) fn find(&self, keys: &[Key], pooled: u32) -> Found {
        let mut found = Found::default();
        for (place, level) in self.levels.iter().enumerate() {
            let there = level.pages.find(keys);
            let there = if place == 0 { there.max(level.pages.present(keys)) } else { there };
            let tokens = there.saturating_sub(pooled).saturating_mul(self.block_size);
            found.there = found.there.max(there);
            if self.takes_what_is_there() {
                let here = if place == 0 { level.pages.find(keys) } else { 0 };
                let tokens = here.saturating_sub(pooled).saturating_mul(self.block_size);
                found.worth = found.worth.max(if tokens >= self.least[0] { here } else { 0 });
            } else if tokens >= self.least[place] {
                found.worth = found.worth.max(there);
            }
        }
        found
    }

    /// A request was allocated, of whose prompt the tiers have `found`; what it lacks `is_below`, or elsewhere.
    pub(super) fn began(
        &mut self,
        cache: &mut Cache<'_>,
        given: &Allocation,
        (keys, found, is_below): (&[Key], Found, bool),
        known: &Known,
    ) -> Result<(), Stopped> {
        self.remember(given.seq, known);
        let pooled = given.cached_tokens / self.block_size;
        if self.wants_uses {
            for level in &mut self.levels {
                level.seen(cache.host, keys)?;
            }
            self.uses.count(&keys[..keys.len().min(found.there.max(pooled) as usize)]);
        }
        self.note_use(keys, pooled as usize);
        if let Some(ticket) = given.load.filter(|_| is_below) {
            let start = pooled + given.joined_tokens / self.block_size;
            let rows = start + given.external_tokens / self.block_size;
            let target = Some(Target { seq: given.seq, ticket, is_ahead: false });
            let keys = keys[..rows as usize].to_vec();
            let load = self.new_load(keys, known.clone(), (target, start));
            return self.promote(cache, load);
        }
        if found.there > 0 && self.hit_refresh == HitRefresh::FirstTier {
            let here = self.levels[0].pages.present(keys) as usize;
            self.levels[0].pages.touch(&keys[..here], known.info())?;
            self.used(0, &keys[..here]);
        }
        Ok(())
    }

    pub(super) fn new_load(
        &mut self,
        keys: Vec<Key>,
        known: Known,
        (target, start): (Option<Target>, u32),
    ) -> Load {
        self.last_load += 1;
        let in_host = self.levels[0].pages.present(&keys);
        let source = self.source(&keys).map_or(0, |(place, _)| place);
        let state = State::Queued;
        let id = self.last_load;
        let deadline = self.deadline(target.is_none_or(|target| target.is_ahead));
        let (request, via, sent) = (None, usize::MAX, None);
        Load {
            id,
            keys,
            known,
            state,
            request,
            via,
            deadline,
            target,
            start,
            in_host,
            source,
            sent,
        }
    }

    /// Whether requests that wait have their pages brought to host memory.
    pub(super) fn prefetches(&self) -> usize {
        if self.levels.len() > 1 && self.stages() { self.prefetch } else { 0 }
    }

    /// Brings what tiers have of a prompt to host memory; queued if too much is on its way.
    pub(super) fn prefetch(
        &mut self,
        cache: &mut Cache<'_>,
        (request, keys): (usize, &[Key]),
        known: Known,
    ) -> Result<(), Stopped> {
        let load = self.new_load(keys.to_vec(), known, (None, 0));
        let load = Load { request: Some(request), ..load };
        self.loads.push(load);
        self.start_queued(cache)
    }

    /// Goes on with loads that waited for others, or for room.
    pub(super) fn go_on_with_loads(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        let waiting = self.loads.iter().filter(|load| load.state == State::Waiting);
        for id in waiting.map(|load| load.id).collect::<Vec<_>>() {
            self.go_on(cache, id)?;
        }
        self.start_queued(cache)
    }

    fn start_queued(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        while let Some(at) = self.loads.iter().position(|load| load.state == State::Queued) {
            let under_way =
                self.loads.iter().filter(|l| l.target.is_none() && l.state != State::Queued);
            let busy: usize = under_way.map(|load| load.keys.len()).sum();
            let most = (PREFETCH_TOKENS / self.block_size) as usize;
            if busy > 0 && busy + self.loads[at].keys.len() > most {
                return Ok(());
            }
            let load = self.loads.remove(at);
            self.promote(cache, load)?;
        }
        Ok(())
    }

    // --- from a tier to host memory ---------------------------------------------------------------

    /// The nearest tier below host memory that has most of a prefix, and how many pages of it.
    pub(super) fn source(&self, keys: &[Key]) -> Option<(usize, u32)> {
        let mut best = None;
        for (place, level) in self.levels.iter().enumerate().skip(1) {
            let found = level.pages.find(keys);
            if found > best.map_or(0, |(_, most)| most) {
                best = Some((place, found));
            }
        }
        best
    }

    pub(super) fn promote(&mut self, cache: &mut Cache<'_>, mut load: Load) -> Result<(), Stopped> {
        let found = self.source(&load.keys);
        let present = self.levels[0].pages.present(&load.keys);
        load.keys.truncate(present.max(found.map_or(0, |(_, pages)| pages)) as usize);
        load.state = State::Waiting;
        if let Some((place, pages)) = found
            && pages > present
            && self.stages()
        {
            self.rise(cache.host, &mut load, place)?;
        }
        let id = load.id;
        self.loads.push(load);
        self.go_on(cache, id)
    }

    /// How much of a prefix fits without an eviction that `when_full = "refuse"` forbids.
    pub(super) fn sparing(&mut self, host: &mut dyn Host, keys: &[Key]) -> Result<usize, Stopped> {
        let present = self.levels[0].pages.present(keys) as usize;
        if !self.is_refused(host, (keys.len() - present) as u32)? {
            return Ok(keys.len());
        }
        self.report.deferred += 1;
        Ok(keys.len().min(present + self.levels[0].pages.counts().0 as usize))
    }

    /// What a load sent to host memory is there.
    pub(super) fn promoted(&mut self, cache: &mut Cache<'_>, id: LoadId) -> Result<(), Stopped> {
        // It may have gone on without.
        let is_its = |load: &&mut Load| load.id == id && load.state == State::Promoting;
        if let Some(load) = self.loads.iter_mut().find(is_its) {
            load.state = State::Waiting;
        }
        self.go_on(cache, id)
    }

    /// What a load sent to a tier above its own is there: on from there.
    pub(super) fn go_up(&mut self, cache: &mut Cache<'_>, id: LoadId) -> Result<(), Stopped> {
        let is_its = |load: &Load| load.id == id && load.state == State::Promoting;
        let Some(at) = self.loads.iter().position(is_its) else { return Ok(()) };
        let load = self.loads.remove(at);
        self.promote(cache, load)
    }

    // --- from host memory into the pool -------------------------------------------------------------

    /// On to the pool, once nothing of the prefix is still on its way to host memory.
    pub(super) fn go_on(&mut self, cache: &mut Cache<'_>, id: LoadId) -> Result<(), Stopped> {
        let Some(at) = self.loads.iter().position(|load| load.id == id) else { return Ok(()) };
        let load = &self.loads[at];
        let index = &self.levels[0].pages;
        let found = index.find(&load.keys);
        if load.state != State::Waiting || found < index.present(&load.keys) {
            return Ok(());
        }
        if load.target.is_none() {
            self.loads.remove(at);
            return Ok(());
        }
        let most = if self.stages() { found } else { load.keys.len() as u32 };
        if most <= load.start {
            return self.bring_in(cache, id, 0);
        }
        let (keys, known) = (load.keys[..most as usize].to_vec(), load.known.clone());
        let ends = (load.start, found);
        let Some(opened) = self.open_below(cache.host, (&keys, &known), ends)? else {
            if !self.starved.contains(&id) {
                self.report.deferred += 1;
                self.starved.push(id);
            }
            return Ok(());
        };
        self.starved.retain(|&other| other != id);
        let Opened { parts, carried, next } = opened;
        if parts.is_empty() {
            return self.bring_in(cache, id, 0);
        }
        self.loads[at].state = State::Onboarding;
        if let ([part], [carried], None) = (&parts[..], &carried[..], next) {
            self.loads[at].sent = Some(Sent::new(*carried, part.2));
        }
        self.start_legs((carried, next), Errand::Onboard { load: id, parts });
        Ok(())
    }

    /// The load of a sequence that is on its way to the pool.
    pub(super) fn sent_for(&self, seq: SeqId) -> Option<(LoadId, Sent)> {
        let is_for = |load: &&Load| load.target.is_some_and(|target| target.seq == seq);
        let load = self.loads.iter().find(is_for)?;
        load.sent.map(|sent| (load.id, sent))
    }

    /// The load has ended with so many pages good.
    pub(super) fn bring_in(
        &mut self,
        cache: &mut Cache<'_>,
        id: LoadId,
        good: u32,
    ) -> Result<(), Stopped> {
        self.starved.retain(|&other| other != id);
        let Some(at) = self.loads.iter().position(|load| load.id == id) else { return Ok(()) };
        let load = self.loads.remove(at);
        let Some(Target { seq, ticket, is_ahead }) = load.target else { return Ok(()) };
        cache.loaded(ticket, good)?;
        if is_ahead {
            let come = load.keys.iter().skip(load.start as usize).take(good as usize);
            self.brought_back(come);
            return Ok(cache.manager.release(seq)?);
        }
        let mut tokens = vec![0; self.levels.len()];
        let from_host = load.in_host.saturating_sub(load.start).min(good);
        tokens[0] = from_host * self.block_size;
        tokens[load.source] += (good - from_host) * self.block_size;
        for (tier, &tokens) in self.report.tiers.iter_mut().zip(&tokens) {
            tier.loaded_tokens += u64::from(tokens);
        }
        self.arrived.push(Landed { seq, tokens, ..Landed::default() });
        Ok(())
    }

    /// Sequences that have blocks for what comes before a request asks for it.
    pub(crate) fn sequences_ahead(&self) -> impl Iterator<Item = SeqId> {
        let ahead = self.loads.iter().filter_map(|load| load.target);
        ahead.filter(|target| target.is_ahead).map(|target| target.seq)
    }

    /// Blocks of loads that serve no request and have not come are given back.
    pub(super) fn drop_loads(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        for load in std::mem::take(&mut self.loads) {
            if let Some(target) = load.target.filter(|target| target.is_ahead) {
                cache.loaded(target.ticket, 0)?;
                cache.manager.release(target.seq)?;
            }
        }
        Ok(())
    }

    /// The loads that have ended since this was asked last.
    pub(crate) fn take_arrived(&mut self) -> Vec<Landed> {
        std::mem::take(&mut self.arrived)
    }
}
