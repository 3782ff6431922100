//! A trace's rows as requests: keys for the blocks of the prompt, and for those that decoding fills.

use std::borrow::Cow;

use kvframe_core::sequence::Meta;
use kvframe_core::{Error, Key, Manager, Request};
use kvframe_trace::replay::node_key;
use kvframe_trace::{Mode, NEVER, NO_SESSION, ReplayPlan, Trace};

use crate::options::ServerOptions;
use crate::queue::Facts;
use crate::running::Progress;

/// The requests of a trace, as the core is asked for them.
pub(crate) struct Prompts<'a> {
    trace: &'a Trace,
    plan: &'a ReplayPlan,
    metas: Vec<Meta>,
    /// For each request, the turn after it whose prompt goes on from its answer, if one does.
    continued: Vec<Option<usize>>,
    /// For each request, the turn after it, where it matters when that comes.
    next: Vec<Option<usize>>,
    closed_loop: bool,
    load: f64,
    cache_generated: bool,
    one_token: bool,
    tells_next_use: bool,
    /// Classes are tenants.
    tenants: bool,
}

/// A key for block `at` of request `i` that no other block has.
fn own_key(i: usize, at: usize) -> Key {
    Key(!node_key(i as u32).0 ^ at as u128)
}

impl<'a> Prompts<'a> {
    /// `plan` is the trace's plan of a mode that counts full blocks; `next` the turn after each
    /// request.
    pub fn new(
        trace: &'a Trace,
        plan: &'a ReplayPlan,
        next: &[Option<usize>],
        options: &ServerOptions,
    ) -> Self {
        let mut prompts = Self {
            trace,
            plan,
            metas: metas(trace, &options.priorities),
            continued: Vec::new(),
            next: if options.returns.is_some() { next.to_vec() } else { Vec::new() },
            closed_loop: options.closed_loop,
            load: options.load,
            cache_generated: options.cache_generated,
            one_token: options.one_at_a_time,
            tells_next_use: options.tell_next_use,
            tenants: options.tenants,
        };
        if options.cache_generated {
            let goes_on =
                |(i, next): (usize, &Option<usize>)| next.filter(|&j| prompts.is_continued(i, j));
            prompts.continued = next.iter().enumerate().map(goes_on).collect();
        }
        prompts
    }

    /// The same requests for a server that hands them over with their first token.
    pub fn of_prefill(&self) -> Self {
        let (metas, continued) = (self.metas.clone(), self.continued.clone());
        Self { metas, continued, next: self.next.clone(), one_token: true, ..*self }
    }

    /// Tokens of the prompt of request `i`: a server computes at least one.
    pub fn prompt(&self, i: usize) -> u32 {
        self.trace.requests[i].input_tokens.max(1)
    }

    /// Tokens of its answer: a server samples at least one.
    pub fn answer(&self, i: usize) -> u32 {
        if self.one_token { 1 } else { self.trace.requests[i].output_tokens.max(1) }
    }

    /// Tokens whose KV it has at its end: the last one sampled is never computed.
    pub fn known(&self, i: usize) -> u32 {
        self.prompt(i).saturating_add(self.answer(i) - 1)
    }

    /// What the queue ranks it by.
    pub fn facts(&self, i: usize) -> Facts {
        let (prompt, answer) = (self.prompt(i), self.answer(i));
        Facts { prompt, answer, priority: self.metas[i].priority }
    }

    /// Its class: one more than its place in [`Trace::classes`]; 0 if it has none.
    pub fn class(&self, i: usize) -> usize {
        self.trace.class_of.get(i).copied().unwrap_or(0).into()
    }

    /// How many classes the trace names.
    pub fn classes(&self) -> usize {
        self.trace.classes.len()
    }

    /// The session of request `i`, if it has one.
    pub fn session(&self, i: usize) -> Option<u32> {
        Some(self.trace.requests[i].session).filter(|&session| session != NO_SESSION)
    }

    /// The session of request `i`, which has ended at `now`; the turn after it, if one comes, and when.
    pub fn next_turn(&self, i: usize, now: f64) -> Option<(u32, Option<(usize, f64)>)> {
        let session = self.session(i)?;
        let seconds = |i: usize| self.trace.requests[i].timestamp_ms as f64 / 1_000.0;
        let turn = self.next.get(i).copied().flatten().map(|j| {
            let by_clock = !self.closed_loop;
            let time = if by_clock {
                self.trace.arrival(j, self.load)
            } else {
                now + seconds(j) - seconds(i)
            };
            (j, time)
        });
        Some((session, turn))
    }

    /// The key of a block of request `i`: tenants share none.
    fn key(&self, i: usize, node: u32) -> Key {
        let key = node_key(node);
        if !self.tenants {
            return key;
        }
        // Odd: classes keep apart.
        Key(key.0 ^ (self.class(i) as u128).wrapping_mul(0xD6E8_FEB8_6659_FD93_C2B2_AE3D_27D4_EB4F))
    }

    /// Tokens a block.
    pub fn block_size(&self) -> u32 {
        self.trace.block_size
    }

    /// Keys of the blocks of its prompt, and the most tokens that a hit on them can cover.
    pub fn findable(&self, i: usize) -> (impl Iterator<Item = Key>, u32) {
        let size = self.block_size();
        let nodes = self.trace.prefix(i, self.trace.blocks(i, Mode::Engine) as usize);
        let keys = nodes.into_owned().into_iter().map(move |node| self.key(i, node));
        (keys, (self.prompt(i) - 1) / size * size)
    }

    /// Whether the prompt of `j` begins with all of `i`'s prompt and is long enough for its answer.
    fn is_continued(&self, i: usize, j: usize) -> bool {
        let blocks = self.trace.blocks(i, Mode::Engine) as usize;
        let (before, after) = (self.trace.chain(i), self.trace.chain(j));
        self.prompt(j) >= self.known(i) && after.get(..blocks) == before.get(..blocks)
    }

    /// Full blocks with which the prompts of all these requests begin; 0 for fewer than two.
    pub fn shared_blocks(&self, mut requests: impl Iterator<Item = usize>) -> u32 {
        let nodes = |i: usize| self.trace.prefix(i, self.trace.blocks(i, Mode::Engine) as usize);
        let Some(first) = requests.next() else { return 0 };
        let (all, mut shared) = (nodes(first), None);
        for other in requests {
            let is_apart = self.tenants && self.class(first) != self.class(other);
            let most = if is_apart { 0 } else { shared.unwrap_or(all.len()) };
            let other = nodes(other);
            let alike = all[..most].iter().zip(&*other).take_while(|(a, b)| a == b);
            shared = Some(alike.count());
            if shared == Some(0) {
                break;
            }
        }
        shared.unwrap_or(0) as u32
    }

    /// Makes request `i`, with the tokens that it knows so far. Its blocks from `own_from` on get unique keys
    /// if otherwise a hit could cover its last known token, which is always computed.
    pub fn ask(
        &self,
        i: usize,
        progress: &mut Progress,
        manager: &Manager,
        asked: &mut Request,
    ) -> Result<(), Error> {
        self.describe(i, progress, manager, asked);
        let target = self.prompt(i) + progress.sampled;
        let limit = (target - 1) / self.trace.block_size;
        let could_hit = limit < progress.own_from && (limit as usize) < asked.keys.len();
        if could_hit && manager.lookup_request(&*asked)?.tokens > limit * self.trace.block_size {
            progress.own_from = limit;
            self.fill(i, limit, manager.needs_future(), asked);
        }
        Ok(())
    }

    /// Request `i` with the keys that its blocks have had so far.
    pub fn describe(&self, i: usize, progress: &Progress, manager: &Manager, asked: &mut Request) {
        let size = self.trace.block_size;
        let target = self.prompt(i) + progress.sampled;
        asked.num_tokens = self.known(i);
        // Slots for what is to be computed before the next token, and not for the answer behind it.
        asked.until = target.next_multiple_of(size).min(asked.num_tokens);
        asked.meta = self.metas[i];
        asked.tenant.clear();
        if self.tenants
            && let Some(name) = self.class(i).checked_sub(1)
        {
            asked.tenant.extend_from_slice(self.trace.classes[name].as_bytes());
        }
        asked.resumed = progress.lost > 0;
        self.fill(i, progress.own_from, manager.needs_future(), asked);
    }

    /// Keys and next uses of the blocks of request `i`.
    pub fn fill(&self, i: usize, own_from: u32, needs_future: bool, asked: &mut Request) {
        let Request { keys, next_use, .. } = asked;
        keys.clear();
        next_use.clear();
        let shared = self.shared(i);
        let prompt = self.trace.blocks(i, Mode::Engine) as usize;
        let all = (self.known(i) / self.trace.block_size) as usize;
        let all = if self.cache_generated { all } else { prompt };
        let nodes = &shared[..shared.len().min(all).min(own_from as usize)];
        keys.extend(nodes.iter().map(|&node| self.key(i, node)));
        keys.extend((nodes.len()..all).map(|at| own_key(i, at)));
        if needs_future || self.tells_next_use {
            let told = prompt.min(nodes.len());
            let from = self.plan.offsets[i] as usize;
            next_use.extend_from_slice(&self.plan.next_uses(self.trace)[from..from + told]);
            let turn = self.continued.get(i).copied().flatten().map_or(NEVER, |j| j as u32);
            next_use.extend((told..nodes.len()).map(|_| turn));
            next_use.resize(all, NEVER);
        }
    }

    /// Nodes of the blocks that another request can share: those of the prompt, and those of the answer if
    /// the next turn's prompt goes on from it.
    fn shared(&self, i: usize) -> Cow<'_, [u32]> {
        let j = self.continued.get(i).copied().flatten().unwrap_or(i);
        self.trace.prefix(j, self.trace.blocks(j, Mode::Engine) as usize)
    }

    /// The first block of request `i` that can have a key of its own from the start.
    pub fn own_from(&self, i: usize) -> u32 {
        self.shared(i).len() as u32
    }
}

/// What policies may know of each request.
fn metas(trace: &Trace, priorities: &[i32]) -> Vec<Meta> {
    let mut turns = vec![0; trace.sessions.len()];
    let class = |i: usize| trace.class_of.get(i).copied().unwrap_or(0);
    let meta = |(i, session): (usize, u32)| {
        let named = usize::from(class(i)).checked_sub(1);
        let priority = named.and_then(|at| priorities.get(at)).copied().unwrap_or(0);
        let meta = Meta { priority, class: class(i).into(), ..Meta::default() };
        if session == NO_SESSION {
            return meta;
        }
        let turn = &mut turns[session as usize];
        *turn += 1;
        Meta { session: trace.sessions[session as usize], turn: *turn - 1, ..meta }
    };
    trace.requests.iter().map(|request| request.session).enumerate().map(meta).collect()
}
