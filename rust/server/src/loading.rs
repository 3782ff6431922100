//! Sequences that have blocks and cannot compute yet: a load brings some of them, or another sequence computes
//! them.

use kvframe_core::SeqId;

use crate::cache::Stopped;
use crate::running::Running;
use crate::scheduler::Scheduler;
use crate::tiers::{Landed, Tiers};

/// A sequence that waits.
#[derive(Debug, Clone)]
pub(crate) struct Loading {
    pub one: Running,
    /// What its load brought; `None` while it is under way.
    landed: Option<Landed>,
    /// Its blocks are good up to here, in tokens, when what it joined is there.
    joined: u32,
}

impl Loading {
    pub fn new(one: Running, landed: Option<Landed>, joined: u32) -> Self {
        Self { one, landed, joined: one.computed + joined }
    }

    /// A load is under way, and nothing else is waited for.
    pub fn is_only_loading(&self) -> bool {
        self.landed.is_none() && self.joined == self.one.computed
    }
}

impl Scheduler<'_> {
    /// Settles transfers that have ended by `now`. Sequences that wait for nothing any more run from now on.
    pub fn settle_transfers(&mut self, now: f64) -> Result<(), Stopped> {
        if let Some(tiers) = &mut self.tiers {
            tiers.poll(&mut self.cache, now)?;
            for landed in tiers.take_arrived() {
                self.has_landed(landed);
            }
        }
        self.settle_handovers(now)?;
        self.settle_fetches(now)?;
        // Their lengths say who was cut.
        self.cache.manager.take_rewound();
        let mut at = 0;
        while at < self.loading.len() {
            if !self.is_there(&self.loading[at])? {
                at += 1;
                continue;
            }
            let Loading { one, landed, joined } = self.loading.remove(at);
            let mut landed = landed.unwrap_or_default();
            if self.cache.manager.num_readable_tokens(one.seq)? < joined {
                // What it had loaded lay behind what it has lost.
                landed.tokens.clear();
                landed.from_peers = 0;
            }
            let one = self.land(one, &landed)?;
            self.running.push(one);
        }
        Ok(())
    }

    /// What a sequence waited for has come.
    pub fn has_landed(&mut self, landed: Landed) {
        let waits = self.loading.iter_mut().find(|waits| waits.one.seq == landed.seq);
        if let Some(waits) = waits {
            waits.landed = Some(landed);
        }
    }

    fn is_there(&self, waits: &Loading) -> Result<bool, Stopped> {
        let (manager, seq) = (&self.cache.manager, waits.one.seq);
        let sequence = manager.sequence(seq)?;
        let is_whole = sequence.len >= waits.joined;
        let joins =
            sequence.joined > 0 || (is_whole && manager.num_readable_tokens(seq)? < waits.joined);
        Ok(!joins && waits.landed.is_some())
    }

    /// What a sequence waited for is there, or what there is of it.
    pub fn land(&mut self, mut one: Running, landed: &Landed) -> Result<Running, Stopped> {
        let found = one.computed;
        one.computed = self.cache.manager.num_readable_tokens(one.seq)?.max(landed.swapped);
        one.slots = self.cache.manager.sequence(one.seq)?.len;
        let loaded = landed.tokens.iter().sum::<u32>() + landed.from_peers;
        let cached = found.min(one.computed - loaded);
        let joined = one.computed - loaded - cached;
        // What was computed elsewhere was found there.
        if self.records[one.request].first_token.is_nan()
            || self.records[one.request].preemptions > 0
        {
            let found = (cached, joined, landed.from_peers);
            self.note_found(one.request, found, &landed.tokens);
        }
        Ok(one)
    }

    /// The last that waits for a computation gives its blocks up, and its place in the order is its old one.
    /// False if there is none.
    pub fn send_back(&mut self) -> Result<bool, Stopped> {
        let manager = &self.cache.manager;
        let joins =
            |seq: SeqId| manager.sequence(seq).is_ok_and(|of| manager.joined(of.joined).is_some());
        let waits = |waits: &Loading| waits.landed.is_some() && joins(waits.one.seq);
        let Some(at) = self.loading.iter().rposition(waits) else { return Ok(false) };
        let one = self.loading.remove(at).one;
        self.cache.manager.release(one.seq)?;
        self.forget_below(one.seq);
        self.wait_again(&one);
        Ok(true)
    }

    /// Asks to share what running sequences compute, but for the block with the request's last known token.
    pub fn ask_to_join(&mut self, i: usize) {
        self.asked.join = self.options.join && !self.is_swapped(i);
        if !self.asked.join {
            return;
        }
        let limit = self.limit(i) as usize;
        let Some(key) = self.asked.keys.get(limit).copied() else { return };
        let served = self.running.iter().chain(self.loading.iter().map(|waits| &waits.one));
        let ahead = self.tiers.iter().flat_map(Tiers::sequences_ahead);
        let is_there = |seq: SeqId| {
            let of = self.cache.manager.sequence(seq);
            of.is_ok_and(|of| of.keys.get(limit) == Some(&key))
        };
        if served.map(|one| one.seq).chain(ahead).any(is_there) {
            let own_from = self.progress[i].own_from.min(limit as u32);
            self.progress[i].own_from = own_from;
            let needs_future = self.cache.manager.needs_future();
            self.prompts.fill(i, own_from, needs_future, &mut self.asked);
        }
    }

    /// Full blocks that request `i` may take: its last known token is always computed.
    pub fn limit(&self, i: usize) -> u32 {
        (self.prompts.prompt(i) + self.progress[i].sampled - 1) / self.block_size
    }
}
