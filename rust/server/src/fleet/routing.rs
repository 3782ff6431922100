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
    },
    /// The one that served the session before; a new session, and a request without one, goes as with
    /// `LeastLoaded`.
    Session,
}

impl Routing {
    /// Whether it goes by the engines' events.
    pub fn wants_events(self) -> bool {
        matches!(self, Self::Prefix { .. })
    }
}

/// What an engine has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Requests that run or wait.
    pub requests: usize,
    /// Tokens of their prompts that are to be computed, if nothing of those that wait is cached.
    tokens: u64,
}

impl Load {
    pub fn of(engine: &Engine<'_>) -> Self {
        let scheduler = &engine.scheduler;
        let computing = scheduler.running.iter().filter(|one| !one.decodes());
        let computing: u64 = computing.map(|one| u64::from(one.remaining())).sum();
        Self {
            requests: scheduler.running.len() + scheduler.loading.len() + scheduler.queue.len(),
            tokens: computing + scheduler.waiting_tokens,
        }
    }
}

/// The router's choice, and what it remembers.
#[derive(Debug)]
pub(super) struct Routes {
    pub routing: Routing,
    engines: usize,
    last: usize,
    sessions: HashMap<u32, usize>,
}

impl Routes {
    pub fn new(routing: Routing, engines: usize) -> Self {
        Self { routing, engines, last: engines - 1, sessions: HashMap::new() }
    }

    /// The engine for a prompt of so many tokens, of which each engine is believed to have `matched`.
    pub fn choose(&mut self, session: u32, prompt: u32, loads: &[Load], matched: &[u32]) -> usize {
        let at = match self.routing {
            Routing::RoundRobin => (self.last + 1) % self.engines,
            Routing::LeastLoaded => self.least_loaded(loads),
            Routing::Prefix { queue } => {
                let cost = |at: usize| {
                    let computed = f64::from(prompt.saturating_sub(matched[at]));
                    computed + queue * loads[at].tokens as f64
                };
                let least = (0..self.engines).map(cost).fold(f64::INFINITY, f64::min);
                self.least_by(|at| (cost(at) > least, loads[at].requests))
            }
            Routing::Session if session == NO_SESSION => self.least_loaded(loads),
            Routing::Session => {
                let known = self.sessions.get(&session).copied();
                let at = known.unwrap_or_else(|| self.least_loaded(loads));
                self.sessions.insert(session, at);
                at
            }
        };
        self.last = at;
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
