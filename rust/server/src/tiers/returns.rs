//! A session's blocks come back into the pool before its next turn does.
//!
//! When a turn ends, it is guessed when the next one comes. Blocks that have left the pool by then are sent for so early
//! that they are there some time before it, over free links. They take room in the pool like any others: a guess
//! that is wrong evicts what others would have found.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use kvframe_core::{Error, Key, Request};
use kvframe_trace::ByTime;

use super::up::Target;
use super::{Room, Tiers};
use crate::cache::{Cache, Stopped};
use crate::running::Running;
use crate::scheduler::Scheduler;

/// When the next turn of a session is expected, and how long before it its blocks are to be there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReturnOptions {
    /// So many seconds after each turn has ended, whether another one comes or not; `None`: when the trace has it.
    pub after: Option<f64>,
    /// Seconds before it.
    pub lead: f64,
}

/// Blocks that are sent for at a time.
#[derive(Debug)]
struct Plan {
    session: u32,
    asked: Request,
}

/// What is expected to come back, and what was brought for it.
#[derive(Debug, Default)]
pub(super) struct Returns {
    plans: BinaryHeap<Reverse<ByTime<Plan>>>,
    /// The plan of each session, by its number, and when it was made: another turn of it voids it.
    valid: HashMap<u32, (usize, f64)>,
    made: usize,
    /// Blocks that were brought, and that no request has asked for since.
    unused: HashSet<Key>,
}

impl Scheduler<'_> {
    /// A turn has ended at `now`: the blocks of its session are planned to be back before the next one.
    pub fn expect_return(&mut self, one: &Running, now: f64) {
        let (Some(how), Some(tiers)) = (self.options.returns, &mut self.tiers) else { return };
        let i = one.request;
        let Some((session, next)) = self.prompts.next_turn(i, now) else { return };
        if next.is_some_and(|(_, time)| time <= now) {
            return;
        }
        let back = match (how.after, next) {
            (Some(after), _) => now + after,
            (None, Some((_, time))) => time,
            (None, None) => return,
        };
        let mut wanted = Request::default();
        self.prompts.describe(i, &self.progress[i], self.cache.manager, &mut wanted);
        if let (None, Some((turn, _))) = (how.after, next) {
            let (keys, most) = self.prompts.findable(turn);
            let most = (most / self.block_size) as usize;
            let same = keys.take(most).zip(&wanted.keys).take_while(|(a, b)| a == *b).count();
            wanted.keys.truncate(same);
        }
        tiers.plan(session, wanted, (now, back - how.lead));
    }

    /// A turn of a session has come at `time`: what was planned for it by then is void.
    pub fn has_returned(&mut self, request: usize, time: f64) {
        if let Some(tiers) = &mut self.tiers
            && self.options.returns.is_some()
            && let Some(session) = self.prompts.session(request)
        {
            let made = tiers.returns.valid.get(&session);
            // A server that takes steps at once hears of who came during one when that has ended.
            if made.is_some_and(|&(_, made)| made <= time) {
                tiers.returns.valid.remove(&session);
            }
        }
    }
}

impl Tiers {
    /// When the next blocks are sent for, or infinity.
    pub(super) fn next_plan(&self) -> f64 {
        self.returns.plans.peek().map_or(f64::INFINITY, |first| first.0.at)
    }

    /// Plans that the blocks of `asked` are in the pool at `due`.
    fn plan(&mut self, session: u32, asked: Request, (now, due): (f64, f64)) {
        let there = |&place: &usize| {
            self.levels[place].pages.present(&asked.keys) as usize == asked.keys.len()
        };
        // What is on its way down is in host memory soon.
        let source = (0..self.levels.len()).find(there).unwrap_or(0);
        let at = due - self.load_seconds(source, asked.keys.len() as u32);
        self.returns.valid.remove(&session);
        if asked.keys.is_empty() || at <= now {
            return;
        }
        self.returns.made += 1;
        let number = self.returns.made;
        self.returns.valid.insert(session, (number, now));
        self.returns.plans.push(Reverse(ByTime { at, number, what: Plan { session, asked } }));
    }

    /// Sends for what is planned by now.
    pub(super) fn bring_back(&mut self, cache: &mut Cache<'_>) -> Result<(), Stopped> {
        while self.next_plan() <= self.now {
            let Some(Reverse(due)) = self.returns.plans.pop() else { return Ok(()) };
            let (number, plan) = (due.number, due.what);
            let valid = self.returns.valid.get(&plan.session);
            if valid.is_some_and(|&(last, _)| last == number) {
                self.returns.valid.remove(&plan.session);
                self.send_for(cache, plan.asked)?;
            }
        }
        Ok(())
    }

    /// Blocks that the pool lacks and a tier has come to the pool, if it has room without giving up what runs.
    fn send_for(&mut self, cache: &mut Cache<'_>, mut asked: Request) -> Result<(), Stopped> {
        let size = self.block_size;
        let mut pooled = self.limit_to_found(cache, &mut asked)?;
        let blocks = asked.keys.len() as u32 - pooled;
        if blocks == 0 || cache.manager.pool().available() < blocks {
            return Ok(());
        }
        if self.makes_room() {
            self.make_room(cache, Room(blocks, &asked.keys[..pooled as usize]))?;
            pooled = self.limit_to_found(cache, &mut asked)?;
        }
        let found = asked.keys.len() as u32;
        if found == pooled {
            return Ok(());
        }
        asked.external_until = found * size;
        let given = match cache.allocate(&asked) {
            // One token more than a sequence that filled the whole pool.
            Err(Stopped::ByCore(Error::NeverFits { .. })) | Ok(None) => return Ok(()),
            Err(stopped) => return Err(stopped),
            Ok(Some(given)) => given,
        };
        let Some(ticket) = given.load else { return Ok(cache.manager.release(given.seq)?) };
        let target = Target { seq: given.seq, ticket, is_ahead: true };
        let known = super::serve::known(&asked);
        let load = self.new_load(asked.keys, known, (Some(target), given.cached_tokens / size));
        self.promote(cache, load)
    }

    /// Asks for no more blocks than the tiers have. Returns how many of them the pool has.
    fn limit_to_found(&self, cache: &Cache<'_>, asked: &mut Request) -> Result<u32, Stopped> {
        let ask = |asked: &mut Request| {
            let tokens = asked.keys.len() as u32 * self.block_size;
            // One token more than is brought: the last one of a prompt is never taken from a cache.
            (asked.num_tokens, asked.until, asked.chunk) = (tokens + 1, tokens, u32::MAX);
            (asked.external_until, asked.join) = (0, false);
        };
        ask(asked);
        let pooled = cache.manager.lookup_request(&*asked)?.tokens / self.block_size;
        let found = self.find(&asked.keys, pooled).worth.max(pooled) as usize;
        asked.keys.truncate(found);
        asked.next_use.truncate(found);
        ask(asked);
        Ok(pooled)
    }

    /// Blocks that were sent for are in the pool.
    pub(super) fn brought_back<'k>(&mut self, keys: impl ExactSizeIterator<Item = &'k Key>) {
        self.report.ahead_pages += keys.len() as u64;
        self.returns.unused.extend(keys);
    }

    /// A request asks for these blocks, of which the pool has the first `pooled`.
    pub(super) fn note_use(&mut self, keys: &[Key], pooled: usize) {
        if self.returns.unused.is_empty() {
            return;
        }
        for (at, key) in keys.iter().enumerate() {
            // One that the pool lacks was evicted again, for nothing.
            if self.returns.unused.remove(key) && at < pooled {
                self.report.ahead_used_pages += 1;
            }
        }
    }
}
