//! A trace through the manager: admit, commit, release, one request at a time, or by the clock.

mod shadowed;
mod timed;

pub use timed::{FixedRates, ServedTimes, nearest_rank};

use std::time::Instant;

use kvframe_core::policy::admission::{Ask, Offer, Verdict};
use kvframe_core::policy::{Consult, Eviction};
use kvframe_core::sequence::Meta;
use kvframe_core::tier::TierPages;
use kvframe_core::{Error, Key, Manager, Options, Request, SeqId};

use crate::{Mode, NO_SESSION, ReplayPlan, Trace, TraceRequest};

/// What a replay counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Requests replayed.
    pub requests: u64,
    /// Their prompt tokens.
    pub input_tokens: u64,
    /// Prompt tokens found in the longest cached prefix.
    pub hit_tokens: u64,
    /// Prompt tokens of the later half of the requests (index ≥ n / 2).
    pub input_tokens_last_half: u64,
    /// Hits among those.
    pub hit_tokens_last_half: u64,
    /// Tokens resident beyond the first missing block: of no use, so never counted as hits.
    pub after_gap_hit_tokens: u64,
    /// Blocks found.
    pub block_hits: u64,
    /// Blocks asked for, of all requests.
    pub block_accesses: u64,
    /// Sum over requests of hit tokens over prompt tokens.
    pub request_hit_rates: f64,
    /// Cached blocks that were evicted.
    pub evictions: u64,
    /// Requests larger than the cache, in timed mode: not served, and all their tokens missed.
    pub rejected: u64,
    /// Seconds from arrival to the first token, in timed mode: their mean, and their 95th
    /// percentile by nearest rank.
    pub mean_wait: f64,
    /// See `mean_wait`.
    pub late_wait: f64,
    /// Wall time of the replay alone.
    pub seconds: f64,
}

/// What a replay counted of one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestOutcome {
    /// Prompt tokens found in the longest cached prefix.
    pub hit_tokens: u32,
    /// Tokens resident beyond the first missing block.
    pub after_gap_tokens: u32,
    /// Seconds from arrival to the first token, in timed mode; NaN elsewhere, and where the request
    /// was larger than the cache.
    pub wait: f64,
}

/// A trace made ready for one mode.
#[derive(Debug)]
pub struct PreparedTrace<'a> {
    trace: &'a Trace,
    mode: Mode,
    plan: &'a ReplayPlan,
}

/// The caller of a replay. The replay asks it now and then whether to stop, and for victims where
/// the policy is outside the core.
pub trait Host {
    /// Whether to stop here.
    fn stop(&mut self) -> bool {
        false
    }

    /// The next request of the trace, in its order, was served or rejected.
    fn served(&mut self, _outcome: RequestOutcome) {}

    /// Makes `n` victims known to the manager. False stops the replay.
    fn judge(&mut self, _manager: &mut Manager, _n: u32) -> bool {
        false
    }

    /// Makes known to the manager what a matcher outside the core says of a request. False stops the
    /// replay.
    fn find(&mut self, _manager: &mut Manager, _request: &Request) -> bool {
        true
    }

    /// Makes known to the manager which blocks may become findable by a commit of `upto` tokens, for
    /// an admission policy outside the core. False stops the replay.
    fn admit(&mut self, _manager: &mut Manager, _seq: SeqId, _upto: u32) -> bool {
        true
    }

    /// [`Self::admit`] for a load that has ended with its first `blocks` blocks good.
    fn admit_load(&mut self, _manager: &mut Manager, _ticket: u64, _blocks: u32) -> bool {
        true
    }

    /// Makes `n` victims known to the tier at `place` below the pool. False stops the replay.
    fn judge_tier(&mut self, _place: usize, _pages: &mut TierPages, _n: u32) -> bool {
        false
    }

    /// What an admission policy outside the core says of pages offered to the tier at `place`; before that,
    /// it hears of pages that a request has `seen`. `None` stops the replay.
    fn admit_tier(
        &mut self,
        _place: usize,
        _offered: (&Offer, Ask),
        _seen: &[Key],
    ) -> Option<Vec<Verdict>> {
        None
    }

    /// That commit or load is done.
    fn admitted(&mut self, _manager: &mut Manager) {}
}

/// A host that lets a replay of a built-in policy run to its end.
#[derive(Debug, Clone, Copy)]
pub struct SilentHost;

impl Host for SilentHost {}

/// How often a replay looks whether it should stop: requests.
const PATIENCE: usize = 256;

/// The key that stands for a prefix node: its number, spread over 128 bits (a bijection). The number is that
/// of the key, too ([`Key::number`]).
#[must_use]
pub fn node_key(node: u32) -> Key {
    let mut x = u64::from(node) + 1;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    Key((u128::from(x) << 64) | u128::from(node))
}

impl<'a> PreparedTrace<'a> {
    /// `plan` is `trace.plan(mode)`.
    pub fn new(trace: &'a Trace, mode: Mode, plan: &'a ReplayPlan) -> Self {
        Self { trace, mode, plan }
    }

    /// The options of a manager that serves this trace with `capacity` blocks (`None`: all of them).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a capacity of 0.
    pub fn options(&self, capacity: Option<u32>) -> Result<Options, Error> {
        let options = Options {
            blocks: capacity.unwrap_or(u32::MAX).min(self.ceiling()),
            block_size: self.trace.block_size,
            compute_last_token: self.mode != Mode::Trace,
            ..Options::default()
        };
        options.validate()?;
        Ok(options)
    }

    /// The number of blocks beyond which a larger pool changes nothing: the trace cannot fill more.
    fn ceiling(&self) -> u32 {
        let longest = (0..self.trace.requests.len()).map(|i| self.trace.blocks(i, self.mode)).max();
        let mut ceiling = self.plan.unique + u64::from(longest.unwrap_or(0)) + 1;
        if self.mode == Mode::Timed {
            // By the clock, requests also hold blocks for their answers: at most all of them at
            // once.
            let blocks = |r: &TraceRequest| u64::from(r.input_tokens) + u64::from(r.output_tokens);
            let size = u64::from(self.trace.block_size);
            ceiling += self.trace.requests.iter().map(|r| blocks(r).div_ceil(size)).sum::<u64>();
        }
        ceiling.min(u64::from(u32::MAX - 1)) as u32
    }

    /// Replays the trace with `capacity` blocks under `policy`. `None` if the host stopped it.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a capacity of 0; what the manager says of a policy that misbehaves.
    pub fn replay(
        &self,
        capacity: Option<u32>,
        policy: Box<dyn Eviction>,
        host: &mut dyn Host,
    ) -> Result<Option<Outcome>, Error> {
        let mut manager = Manager::new(self.options(capacity)?, policy)?;
        self.drive(&mut manager, host)
    }

    /// [`Self::replay`] on a manager made with [`PreparedTrace::options`]. `None` if the host stopped it.
    ///
    /// # Errors
    /// What the manager says.
    pub fn drive(
        &self,
        manager: &mut Manager,
        host: &mut dyn Host,
    ) -> Result<Option<Outcome>, Error> {
        let start = Instant::now();
        if !self.plan.keys.is_empty() {
            manager.number_keys(self.plan.keys.len() as u32);
        }
        let mut outcome = match self.mode {
            Mode::Timed => {
                let as_told = (FixedRates::default(), 1.0);
                self.drive_at(manager, host, as_told, &mut Vec::new())?
            }
            Mode::Trace | Mode::Engine => self.drive_one_by_one(manager, host)?,
        };
        if let Some(outcome) = &mut outcome {
            outcome.seconds = start.elapsed().as_secs_f64();
            outcome.evictions = manager.stats().evictions;
        }
        Ok(outcome)
    }

    fn drive_one_by_one(
        &self,
        manager: &mut Manager,
        host: &mut dyn Host,
    ) -> Result<Option<Outcome>, Error> {
        let mut outcome =
            Outcome { requests: self.trace.requests.len() as u64, ..Outcome::default() };
        let half = self.trace.requests.len() / 2;
        let mut request = Request { partial: true, ..Request::default() };
        let mut turns = vec![0; self.sessions()];
        for i in 0..self.trace.requests.len() {
            if i % PATIENCE == 0 && host.stop() {
                return Ok(None);
            }
            manager.set_time(self.trace.requests[i].timestamp_ms.max(0) as u64);
            request.meta = self.meta(i, &mut turns);
            let served = self.serve(manager, host, i, &mut request, &mut outcome)?;
            let Some((input, hit)) = served else {
                return Ok(None);
            };
            outcome.input_tokens += input;
            outcome.hit_tokens += hit;
            if i >= half {
                outcome.input_tokens_last_half += input;
                outcome.hit_tokens_last_half += hit;
            }
        }
        Ok(Some(outcome))
    }

    /// Sessions of the trace.
    fn sessions(&self) -> usize {
        let named = self.trace.requests.iter().map(|r| r.session).filter(|&s| s != NO_SESSION);
        named.max().map_or(0, |last| last as usize + 1)
    }

    /// What a policy may know of request `i`: its session (0: none), its turn, and its class (0: none).
    fn meta(&self, i: usize, turns: &mut [u32]) -> Meta {
        let class = self.trace.class_of.get(i).copied().unwrap_or(0).into();
        match self.trace.requests[i].session {
            NO_SESSION => Meta { class, ..Meta::default() },
            session => {
                let turn = &mut turns[session as usize];
                *turn += 1;
                let id = self.trace.sessions[session as usize];
                Meta { session: id, turn: *turn - 1, class, ..Meta::default() }
            }
        }
    }

    /// When the blocks of request `i` are used next. Only a policy that needs the future gets it:
    /// an engine could not tell the others.
    fn next_use(&self, manager: &Manager, i: usize) -> &[u32] {
        if !manager.needs_future() {
            return &[];
        }
        let (from, until) = (self.plan.offsets[i] as usize, self.plan.offsets[i + 1] as usize);
        &self.plan.next_uses(self.trace)[from..until]
    }

    /// Adds the keys of the first `blocks` blocks of request `i`.
    fn keys(&self, i: usize, blocks: usize, keys: &mut Vec<Key>) {
        self.plan.extend_keys(&self.trace.prefix(i, blocks), keys);
    }

    fn serve(
        &self,
        manager: &mut Manager,
        host: &mut dyn Host,
        i: usize,
        asked: &mut Request,
        outcome: &mut Outcome,
    ) -> Result<Option<(u64, u64)>, Error> {
        let request = &self.trace.requests[i];
        let (size, blocks) = (self.trace.block_size, self.trace.blocks(i, self.mode));
        asked.keys.clear();
        self.keys(i, blocks as usize, &mut asked.keys);
        // Trace mode counts the partial tail as a block; engine mode asks for full blocks only.
        let slots = blocks * size;
        let len = if self.mode == Mode::Trace { slots } else { request.input_tokens };
        (asked.num_tokens, asked.until) = (len, slots);
        asked.next_use.clear();
        asked.next_use.extend_from_slice(self.next_use(manager, i));
        let asked = &*asked;
        if !host.find(manager, asked) {
            return Ok(None);
        }
        let allocation = loop {
            match manager.allocate(asked) {
                Err(Error::NeedVictims { n }) if host.judge(manager, n) => {}
                Err(Error::NeedVictims { .. }) => return Ok(None),
                settled => break settled?,
            }
        };
        manager.settle_choice();
        manager.forget_answer(&asked.keys);
        if !host.admit(manager, allocation.seq, allocation.granted_tokens) {
            return Ok(None);
        }
        let done = manager.commit(allocation.seq, allocation.granted_tokens)?;
        host.admitted(manager);
        manager.release(allocation.seq)?;
        let input = u64::from(request.input_tokens);
        let hit = u64::from(allocation.cached_tokens).min(input);
        let allowed = if self.mode == Mode::Trace { slots } else { (len.max(1) - 1) / size * size };
        let behind = allocation.cached_tokens < allowed;
        let after_gap_tokens = if behind { done.duplicates * size } else { 0 };
        outcome.after_gap_hit_tokens += u64::from(after_gap_tokens);
        host.served(RequestOutcome { hit_tokens: hit as u32, after_gap_tokens, wait: f64::NAN });
        outcome.block_accesses += u64::from(blocks);
        outcome.block_hits += u64::from(allocation.cached_tokens / size);
        outcome.request_hit_rates += if input > 0 { hit as f64 / input as f64 } else { 0.0 };
        Ok(Some((input, hit)))
    }
}
