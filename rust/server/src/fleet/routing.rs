//! Which engine gets a request.

use std::collections::HashMap;

use kvframe_trace::NO_SESSION;

use crate::engine::Engine;

/// How the router chooses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Routing {
    /// One after the other, in the order of arrival.
    #[default]
    RoundRobin,
    /// The one with the fewest requests; of equals, the next after the one that was chosen last.
    LeastLoaded,
    /// The one where least is to be computed before the request's first token: the tokens of its prompt that
    /// are not cached there, by what the router has heard, and `queue` times those of the prompts before it.
    /// Of equals, as `LeastLoaded`.
    Prefix {
        /// What a token that is waited for weighs beside a token that is computed.
        queue: f64,
        /// One that has more requests than this many times the mean of all gets none: it goes as with
        /// `LeastLoaded`.
        max_load_ratio: Option<f64>,
    },
    /// The one where least comes together of the prompt's tokens that are not cached there, by what the router
    /// has heard, and `load` for each sequence that runs: what is to be sent there, and what the batch weighs that
    /// it joins. One whose free blocks do not hold these tokens is passed over, unless none's do.
    KvAware {
        /// Tokens that a running sequence weighs.
        load: f64,
    },
    /// The one that served the session before; a new session, and a request without one, goes as with
    /// `LeastLoaded`.
    Session,
}

impl Routing {
    /// Whether it goes by the engines' events.
    pub fn wants_events(self) -> bool {
        matches!(self, Self::Prefix { .. } | Self::KvAware { .. })
    }
}

/// What an engine has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests that run or wait.
    pub requests: usize,
    /// Tokens of their prompts that are to be computed, if nothing of those that wait is cached.
    tokens: u64,
    /// Sequences that have blocks.
    running: usize,
    /// Tokens that blocks without an owner can hold.
    free: u64,
}

impl Load {
    pub fn of(engine: &Engine<'_>) -> Self {
        let scheduler = &engine.scheduler;
        let computing = scheduler.running.iter().filter(|one| !one.decodes());
        let computing: u64 = computing.map(|one| u64::from(one.remaining())).sum();
        let running = scheduler.running.len() + scheduler.loading.len();
        let blocks = scheduler.cache.manager.pool().available();
        Self {
            requests: running + scheduler.queue.len(),
            tokens: computing + scheduler.waiting_tokens,
            running,
            free: u64::from(blocks) * u64::from(scheduler.block_size),
        }
    }
}

/// The router's choice, and what it remembers.
#[derive(Debug)]
pub(super) struct Routes {
    pub routing: Routing,
    engines: usize,
    last: usize,
    /// Of equals, the next after the one that was chosen last; otherwise the first.
    rotates: bool,
    sessions: HashMap<u32, usize>,
}

impl Routes {
    pub fn new(routing: Routing, engines: usize) -> Self {
        let (last, sessions) = (engines - 1, HashMap::new());
        Self { routing, engines, last, rotates: true, sessions }
    }

    /// The same, but of equals the first one is chosen.
    pub fn of_decode(routing: Routing, engines: usize) -> Self {
        Self { rotates: false, ..Self::new(routing, engines) }
    }

    /// The engine for a prompt of so many tokens, of which each engine is believed to have `matched`.
    pub fn choose(&mut self, session: u32, prompt: u32, loads: &[Load], matched: &[u32]) -> usize {
        let at = match self.routing {
            Routing::RoundRobin => (self.last + 1) % self.engines,
            Routing::LeastLoaded => self.least_loaded(loads),
            Routing::Prefix { queue, max_load_ratio } => {
                let cost = |at: usize| {
                    let computed = f64::from(prompt.saturating_sub(matched[at]));
                    computed + queue * loads[at].tokens as f64
                };
                let least = (0..self.engines).map(cost).fold(f64::INFINITY, f64::min);
                let at = self.least_by(|at| (cost(at) > least, loads[at].requests));
                let sum: usize = loads.iter().map(|load| load.requests).sum();
                let mean = sum as f64 / self.engines as f64;
                let is_over = |ratio: f64| loads[at].requests as f64 > ratio * mean;
                if max_load_ratio.is_some_and(is_over) { self.least_loaded(loads) } else { at }
            }
            Routing::KvAware { load } => {
                let missing = |at: usize| prompt.saturating_sub(matched[at]);
                let cost = |at: usize| f64::from(missing(at)) + load * loads[at].running as f64;
                let fits = |at: usize| loads[at].free >= u64::from(missing(at));
                let any = (0..self.engines).any(fits);
                let open = |at: usize| !any || fits(at);
                let costs = (0..self.engines).filter(|&at| open(at)).map(cost);
                let least = costs.fold(f64::INFINITY, f64::min);
                self.least_by(|at| (!open(at), cost(at) > least))
            }
            Routing::Session if session == NO_SESSION => self.least_loaded(loads),
            Routing::Session => {
                let known = self.sessions.get(&session).copied();
                let at = known.unwrap_or_else(|| self.least_loaded(loads));
                self.sessions.insert(session, at);
                at
            }
        };
        if self.rotates || self.routing == Routing::RoundRobin {
            self.last = at;
        }
        at
    }

    fn least_loaded(&self, loads: &[Load]) -> usize {
        self.least_by(|at| loads[at].requests)
    }

    /// The least of all; of equals, the next after the one that was chosen last.
    fn least_by<K: Ord>(&self, key: impl Fn(usize) -> K) -> usize {
        let turn = |at: usize| (at + self.engines - self.last - 1) % self.engines;
        (0..self.engines).min_by_key(|&at| (key(at), turn(at))).unwrap_or(0)
    }
}
