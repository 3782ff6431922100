//! Several engines under one clock, and a router before them.
//!
//! Each engine is the one of [`crate::simulate()`], with a core of its own. A request is sent to one of them
//! when it arrives, by what the router knows then, and stays there.
//!
//! | module | purpose |
//! | --- | --- |
//! | `routing` | which engine gets a request |
//! | `feed` | the engines' events on their way to the router's index: late, or lost |
//! | `directory` | what each engine's pool has, for engines that take blocks from others |
//! | `copies` | how many other engines hold a block, for policies that want to know |

mod copies;
mod directory;
mod feed;
mod routing;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use kvframe_core::{Manager, SeqId};
use kvframe_trace::replay::Host;
use kvframe_trace::{ReplayPlan, Trace};

use crate::arrivals::{Arrival, Arrivals, next_turns};
use crate::cache::Stopped;
use crate::engine::Engine;
use crate::handover::{Handover, HandoverOptions};
use crate::options::ServerOptions;
use crate::peers::{Begun, Peers};
use crate::profile::StepTime;
use crate::prompts::Prompts;
use crate::report::{Fate, RequestRecord, ServerReport};
use crate::simulate::PATIENCE;
use crate::tiers::{Commons, SharedTiers, Tiers};
use copies::Copies;
use feed::Feed;
use routing::{Load, Routes};

pub(crate) use directory::Directory;
pub use directory::PeerOptions;
pub use feed::FeedOptions;
pub use routing::Routing;

/// How requests get to engines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FleetOptions {
    /// Which engine gets a request.
    pub routing: Routing,
    /// How events get to the router.
    pub feed: FeedOptions,
    /// Each engine knows how many others hold a block ([`Manager::set_copies`]).
    pub counts_copies: bool,
    /// Tiers that engines have together.
    pub shared: SharedTiers,
    /// The first so many engines compute prompts alone, and the others what comes behind; they get the prompts' KV
    /// over a link each.
    pub prefill: Option<(usize, HandoverOptions)>,
    /// Which of the others goes on with a prompt that has been computed; of equals, the first.
    pub decode_routing: Routing,
    /// What an engine's pool and tiers lack comes from another's pool.
    pub peers: Option<PeerOptions>,
}

impl Default for FleetOptions {
    fn default() -> Self {
        Self {
            routing: Routing::default(),
            feed: FeedOptions::default(),
            counts_copies: false,
            shared: SharedTiers::default(),
            prefill: None,
            decode_routing: Routing::LeastLoaded,
            peers: None,
        }
    }
}

impl FleetOptions {
    /// Whether the router, or an engine, goes by events of the engines.
    pub fn is_heard(&self) -> bool {
        let decodes = self.prefill.is_some() && self.decode_routing.wants_events();
        self.routing.wants_events() || decodes || self.counts_copies
    }
}

/// What a simulation of several engines counted.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetReport {
    /// A record a request, in the order of the trace.
    pub requests: Vec<RequestRecord>,
    /// The engine that each was sent to; [`FleetReport::NOWHERE`] if it never arrived.
    pub engine_of: Vec<u32>,
    /// The engine that computed the answer behind its first token, where others compute prompts.
    pub decoded_by: Vec<u32>,
    /// Prompt tokens that the router believed to be cached there. 0 unless it goes by prefixes.
    pub promised_tokens: Vec<u32>,
    /// What each engine counted; without records.
    pub engines: Vec<ServerReport>,
    /// Messages with events that engines sent, and how many of them were lost.
    pub messages: (u64, u64),
}

impl FleetReport {
    /// See [`FleetReport::engine_of`].
    pub const NOWHERE: u32 = u32::MAX;
}

/// An engine: a manager made as for [`crate::simulate()`], its host, and the tiers below its pool.
pub type EngineParts<'a> = (&'a mut Manager, &'a mut dyn Host, Option<Tiers>);

/// Serves a trace with several engines. The logs of their managers must be on ([`kvframe_core::Options::event_log`]) if the router goes by prefixes or copies are counted.
///
/// # Errors
/// As [`crate::simulate()`].
pub fn simulate_fleet(
    (trace, plan): (&Trace, &ReplayPlan),
    engines: Vec<EngineParts<'_>>,
    options: &ServerOptions,
    fleet: FleetOptions,
    times: &dyn StepTime,
) -> Result<FleetReport, Stopped> {
    let mut options = options.clone();
    // When a turn ends in one engine, the next may arrive in another before the steps taken there together
    // have ended.
    options.every_step |= options.closed_loop && engines.len() > 1 || fleet.prefill.is_some();
    // So is what another engine does to tiers that both have.
    options.every_step |= (fleet.shared.is_any() || fleet.peers.is_some()) && engines.len() > 1;
    let next = next_turns(trace);
    let prompts = Prompts::new(trace, plan, &next, &options);
    let first_tokens = prompts.of_prefill();
    let prefill = fleet.prefill.map_or(0, |(engines, _)| engines);
    let directory =
        fleet.peers.map(|how| Rc::new(RefCell::new(Directory::new(how, engines.len()))));
    let count = trace.requests.len();
    let arrivals = Arrivals::new(trace, &next, &options);
    let blocks = engines.iter().map(|(manager, ..)| manager.options().blocks as usize).sum();
    let mut engines: Vec<_> = engines
        .into_iter()
        .enumerate()
        .map(|(at, (manager, host, mut tiers))| {
            if let Some(tiers) = &mut tiers {
                tiers.set_break_even(times, options.time_factor, options.max_num_batched_tokens);
                tiers.expect(count);
            }
            let asked = if at < prefill { &first_tokens } else { &prompts };
            let mut engine = Engine::new(manager, host, asked, &options, times, tiers);
            if let Some((_, how)) = fleet.prefill.filter(|_| at >= prefill) {
                engine.scheduler.handover = Some(Handover::new(how));
            }
            engine.scheduler.peers = directory.clone().map(|held| Peers::new(at, held));
            engine
        })
        .collect();
    let below = engines.iter_mut().filter_map(|engine| engine.scheduler.tiers.as_mut());
    let commons = Commons::new(fleet.shared, below.collect())?;
    let runs = vec![false; engines.len()];
    let is_heard = fleet.is_heard();
    let feed = (is_heard || directory.is_some())
        .then(|| Feed::new(fleet.feed, engines.len(), blocks).telling(directory));
    Fleet {
        copies: fleet.counts_copies.then(|| Copies::new(engines.len())),
        routes: Routes::new(fleet.routing, if prefill > 0 { prefill } else { engines.len() }),
        decode_routes: Routes::of_decode(fleet.decode_routing, runs.len() - prefill),
        prefill,
        report: FleetReport {
            requests: vec![RequestRecord::default(); count],
            engine_of: vec![FleetReport::NOWHERE; count],
            decoded_by: vec![FleetReport::NOWHERE; if prefill > 0 { count } else { 0 }],
            promised_tokens: vec![0; count],
            engines: Vec::new(),
            messages: (0, 0),
        },
        trace,
        prompts: &prompts,
        arrivals,
        engines,
        kept: HashMap::new(),
        woken: vec![false; runs.len()],
        runs,
        computed: Vec::new(),
        feed,
        is_heard,
        commons,
        now: f64::NEG_INFINITY,
    }
    .run()
}

struct Fleet<'a> {
    trace: &'a Trace,
    prompts: &'a Prompts<'a>,
    arrivals: Arrivals,
    engines: Vec<Engine<'a>>,
    /// Whether a step runs, by engine.
    runs: Vec<bool>,
    /// What engines keep for others, by who reads it and the number there: who keeps it, and as which sequence.
    kept: HashMap<(usize, u64), (usize, SeqId)>,
    /// Engines that have blocks back from others.
    woken: Vec<bool>,
    /// Requests whose prompts have been computed.
    computed: Vec<(usize, RequestRecord)>,
    routes: Routes,
    decode_routes: Routes,
    /// Engines that compute prompts alone.
    prefill: usize,
    feed: Option<Feed>,
    /// Whether the router or the engines go by events.
    is_heard: bool,
    copies: Option<Copies>,
    commons: Option<Commons>,
    now: f64,
    report: FleetReport,
}

impl<'a> Fleet<'a> {
    fn run(mut self) -> Result<FleetReport, Stopped> {
        let mut turns: u64 = 0;
        let mut is_due = vec![false; self.engines.len()];
        loop {
            if turns.is_multiple_of(PATIENCE)
                && self.engines.iter_mut().any(|engine| engine.scheduler.cache.host.stop())
            {
                return Err(Stopped::ByHost);
            }
            turns += 1;
            let now = self.next_event();
            if now == f64::INFINITY {
                return self.close();
            }
            self.now = now;
            for (at, is_due) in is_due.iter_mut().enumerate() {
                *is_due = !self.runs[at]
                    && (self.engines[at].next_transfer() <= now || self.waits_for_others(at));
            }
            self.end_steps(now, &mut is_due)?;
            self.hand_over(now, &mut is_due);
            while let Some(arrival) = self.arrivals.take_due(now) {
                self.send(arrival, now, &mut is_due);
            }
            self.begin_steps(now, &is_due)?;
        }
    }

    /// When a step ends, a request arrives, or a transfer ends where no step runs.
    fn next_event(&self) -> f64 {
        let arrival = self.next_arrival();
        // Tiers may tidy up for ever: they are waited for as long as a request is here.
        let is_over = arrival == f64::INFINITY && !self.engines.iter().any(Engine::is_busy);
        let next = |at: usize| match (&self.engines[at], self.runs[at]) {
            (engine, true) => engine.now,
            _ if is_over => f64::INFINITY,
            _ if self.waits_for_others(at) => self.now,
            (engine, false) => engine.next_transfer().max(engine.now),
        };
        (0..self.engines.len()).map(next).fold(arrival, f64::min)
    }

    /// Whether others have changed what an engine may wait for that runs nothing.
    fn waits_for_others(&self, at: usize) -> bool {
        let is_idle = !self.runs[at] && self.engines[at].is_busy();
        let has_news = self.commons.as_ref().is_some_and(|commons| commons.has_news(at));
        is_idle && (has_news || self.woken[at])
    }

    /// An engine does something, with the tiers that all share.
    fn turn<T>(&mut self, at: usize, work: impl FnOnce(&mut Engine<'a>) -> T) -> T {
        let engine = &mut self.engines[at];
        if let (Some(commons), Some(tiers)) = (&mut self.commons, &mut engine.scheduler.tiers) {
            commons.lend(at, tiers);
        }
        let done = work(engine);
        if let (Some(commons), Some(tiers)) = (&mut self.commons, &mut engine.scheduler.tiers) {
            commons.take_back(at, tiers);
        }
        done
    }

    /// Engine `at` has had its turn: what it began to read others keep, and what it has is kept no longer.
    fn keep_for_others(&mut self, at: usize) -> Result<(), Stopped> {
        let Some(peers) = &mut self.engines[at].scheduler.peers else { return Ok(()) };
        let (begun, over) = peers.news();
        for Begun { number, from, kept } in begun {
            if let Some(seq) = self.engines[from].scheduler.keep(&kept)? {
                self.kept.insert((at, number), (from, seq));
            }
        }
        for number in over {
            if let Some((from, seq)) = self.kept.remove(&(at, number)) {
                self.engines[from].scheduler.cache.manager.release(seq)?;
                self.woken[from] = true;
            }
        }
        Ok(())
    }

    fn next_arrival(&self) -> f64 {
        self.arrivals.next().map_or(f64::INFINITY, |next| next.time)
    }

    /// Ends the steps that end at `now`; their engines are due to begin another.
    fn end_steps(&mut self, now: f64, is_due: &mut [bool]) -> Result<(), Stopped> {
        for (at, is_due) in is_due.iter_mut().enumerate() {
            if !self.runs[at] || self.engines[at].now > now {
                continue;
            }
            self.runs[at] = false;
            *is_due = true;
            self.turn(at, Engine::end)?;
            self.keep_for_others(at)?;
            let engine = &mut self.engines[at];
            if let Some(feed) = &mut self.feed {
                feed.take(at, engine.scheduler.cache.manager, now);
            }
            for (request, record) in engine.done.drain(..) {
                if at < self.prefill
                    && record.fate == Fate::Finished
                    && self.prompts.answer(request) > 1
                {
                    self.computed.push((request, record));
                    continue;
                }
                self.report.requests[request] = record;
                self.arrivals.ended(request, now);
            }
        }
        Ok(())
    }

    /// Requests whose prompts have been computed go on elsewhere.
    fn hand_over(&mut self, now: f64, is_due: &mut [bool]) {
        let computed = std::mem::take(&mut self.computed);
        if self.decode_routes.routing.wants_events() && !computed.is_empty() {
            self.hear(now);
        }
        for (request, record) in computed {
            let loads: Vec<Load> = self.engines[self.prefill..].iter().map(Load::of).collect();
            let matched = self.matched(request, self.decode_routes.routing);
            let session = self.trace.requests[request].session;
            let prompt = self.prompts.prompt(request);
            let matched = &matched[self.prefill..];
            let at = self.prefill + self.decode_routes.choose(session, prompt, &loads, matched);
            self.report.decoded_by[request] = at as u32;
            is_due[at] |= !self.runs[at];
            let record = RequestRecord { fate: Fate::Unfinished, ..record };
            if let Some(rejected) = self.engines[at].arrive_computed(request, record) {
                self.report.requests[request] = rejected;
                self.arrivals.ended(request, now);
            }
        }
    }

    /// A request that has arrived goes to an engine.
    fn send(&mut self, arrival: Arrival, now: f64, is_due: &mut [bool]) {
        self.hear(now);
        let request = arrival.request;
        let choice = if self.prefill > 0 { self.prefill } else { self.engines.len() };
        let loads: Vec<Load> = self.engines[..choice].iter().map(Load::of).collect();
        let session = self.trace.requests[request].session;
        let matched = self.matched(request, self.routes.routing);
        let prompt = self.prompts.prompt(request);
        let at = self.routes.choose(session, prompt, &loads, &matched);
        self.report.engine_of[request] = at as u32;
        self.report.promised_tokens[request] = matched[at];
        let engine = &mut self.engines[at];
        is_due[at] |= !self.runs[at];
        if let Some(rejected) = engine.arrive(arrival) {
            self.report.requests[request] = rejected;
            self.arrivals.ended(request, arrival.time);
        }
    }

    /// Tokens of a prompt that each engine is believed to have, where a routing goes by them.
    fn matched(&self, request: usize, routing: Routing) -> Vec<u32> {
        match &self.feed {
            Some(feed) if routing.wants_events() => {
                feed.matched(self.prompts, request, self.engines.len())
            }
            _ => vec![0; self.engines.len()],
        }
    }

    /// The router, and who counts copies, hear what has reached them by `now`.
    fn hear(&mut self, now: f64) {
        let Some(feed) = &mut self.feed else { return };
        feed.deliver(now, self.copies.as_mut());
        if let Some(copies) = &mut self.copies {
            let managers =
                self.engines.iter_mut().map(|engine| &mut *engine.scheduler.cache.manager);
            copies.tell(&mut managers.collect::<Vec<_>>());
        }
    }

    fn begin_steps(&mut self, now: f64, is_due: &[bool]) -> Result<(), Stopped> {
        let next_arrival = self.next_arrival();
        if self.copies.is_some() {
            self.hear(now);
        }
        for (at, _) in is_due.iter().enumerate().filter(|&(_, &is_due)| is_due) {
            self.engines[at].now = now;
            self.woken[at] = false;
            self.runs[at] = self.turn(at, |engine| engine.begin(next_arrival))?;
            self.keep_for_others(at)?;
            let engine = &mut self.engines[at];
            if let Some(feed) = &mut self.feed {
                feed.take(at, engine.scheduler.cache.manager, now);
            }
            for (request, record) in engine.done.drain(..) {
                self.report.requests[request] = record;
                self.arrivals.ended(request, now);
            }
        }
        Ok(())
    }

    fn close(mut self) -> Result<FleetReport, Stopped> {
        for at in 0..self.engines.len() {
            self.turn(at, Engine::wind_up)?;
        }
        for engine in self.engines {
            let (report, left) = engine.close();
            self.report.engines.push(report);
            for (request, record) in left {
                self.report.requests[request] = record;
            }
        }
        let heard = self.feed.filter(|_| self.is_heard);
        self.report.messages = heard.map_or((0, 0), |feed| feed.messages());
        Ok(self.report)
    }
}
