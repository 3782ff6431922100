//! One shadow: a policy and a size, and the requests that run and wait there.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::Grain;
use super::pool::{Held, ShadowPool};
use super::requests::Requests;
use crate::error::Result;
use crate::policy::Eviction;

/// What a shadow has counted. Requests count once, when they first begin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Tokens of their prompts.
    pub query_tokens: u64,
    /// Of these, tokens that were cached.
    pub hit_tokens: u64,
    /// Of these, tokens that the engine itself has found.
    pub found_tokens: u64,
    /// Requests for which the shadow and the engine have found the same number of tokens.
    pub equal_requests: u64,
    /// Requests that a pool of this size could never hold; they hit nothing.
    pub too_large: u64,
    /// Times that this pool preempted a request and the engine did not; where a shadow makes up its own steps,
    /// all times.
    pub preemptions: u64,
    /// Cached blocks that were evicted, of the engine's size.
    pub evictions: u64,
    /// Requests that run in the engine, or ran, and still wait for room here.
    pub waiting: u64,
}

/// A request in line.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: u64,
    /// Whether it has not been counted.
    counts: bool,
}

/// A policy and a size beside the real ones.
#[derive(Debug)]
pub(super) struct Shadow {
    grain: Grain,
    pool: ShadowPool,
    /// Requests that hold blocks, by the engine's number.
    held: HashMap<u64, Held>,
    /// The requests in `held`, in the order in which they started.
    running: Vec<u64>,
    /// Requests that found no room, the first in front.
    line: VecDeque<Waiting>,
    /// Whether this step has preempted a request: none starts then, as in an engine.
    preempted: bool,
    counts: Counts,
}

impl Shadow {
    pub(super) fn new(capacity: u32, grain: Grain, policy: Box<dyn Eviction>) -> Result<Self> {
        Ok(Self {
            grain,
            pool: ShadowPool::new(capacity, grain, policy)?,
            held: HashMap::new(),
            running: Vec::new(),
            line: VecDeque::new(),
            preempted: false,
            counts: Counts::default(),
        })
    }

    /// What has been counted so far.
    pub fn counts(&self) -> Counts {
        let evictions = self.pool.evictions * u64::from(self.grain.stride);
        Counts { evictions, waiting: self.line.len() as u64, ..self.counts }
    }

    pub(super) fn begin_step(&mut self) {
        self.preempted = false;
    }

    /// Notes that the engine has begun a request, or has begun it again after a preemption of its own.
    pub(super) fn begin(&mut self, id: u64, first: bool, requests: &mut Requests) -> Result<()> {
        if self.held.contains_key(&id) || self.line.iter().any(|waiting| waiting.id == id) {
            return Ok(());
        }
        self.line.push_back(Waiting { id, counts: first });
        requests.waits(id);
        self.start_waiting(requests)
    }

    /// Starts requests in line for as long as there is room.
    pub(super) fn start_waiting(&mut self, requests: &mut Requests) -> Result<()> {
        while let Some(&waiting) = self.line.front()
            && !self.preempted
            && self.start(waiting, requests)?
        {
            self.line.pop_front();
            requests.waited(waiting.id);
        }
        Ok(())
    }

    /// Gives a request its blocks. False if there is no room.
    fn start(&mut self, waiting: Waiting, requests: &mut Requests) -> Result<bool> {
        let Some(request) = requests.get(waiting.id) else { return Ok(true) };
        let rows = request.rows;
        if request.whole > self.pool.capacity() {
            self.counts.too_large += u64::from(waiting.counts);
            self.count(waiting, requests, 0);
            return Ok(true);
        }
        let found = self.pool.find(request.findable());
        let hits = found.len() as u32;
        if !self.pool.has_room(request.whole - hits, &found) {
            return Ok(false);
        }
        let mut held = self.pool.hold(found, request.info());
        self.pool.obtain(&mut held, rows.saturating_sub(hits))?;
        self.pool.commit(&mut held, request.computed(), request.info());
        if request.ended {
            self.pool.release(&mut held)?;
        } else {
            self.held.insert(waiting.id, held);
            self.running.push(waiting.id);
        }
        self.count(waiting, requests, hits);
        Ok(true)
    }

    fn count(&mut self, waiting: Waiting, requests: &Requests, hits: u32) {
        let Some(request) = requests.get(waiting.id).filter(|_| waiting.counts) else { return };
        let tokens = request.found(hits, &requests.sampler) * self.grain.block_size;
        self.counts.requests += 1;
        self.counts.query_tokens += u64::from(request.tokens);
        self.counts.hit_tokens += u64::from(tokens);
        self.counts.found_tokens += u64::from(request.really_found);
        self.counts.equal_requests += u64::from(tokens == request.really_found);
    }

    /// A running request got slots.
    pub(super) fn grow(&mut self, id: u64, requests: &mut Requests) -> Result<()> {
        let Some(request) = requests.get(id) else { return Ok(()) };
        let rows = request.rows;
        while let Some(held) = self.held.get_mut(&id) {
            let more = rows.saturating_sub(held.rows());
            if self.pool.has_room(more, &[]) {
                self.pool.obtain(held, more)?;
                if let Some(request) = requests.get(id) {
                    self.pool.commit(held, request.computed(), request.info());
                }
                break;
            }
            // The request that started last is preempted first, even if it is this one.
            let Some(last) = self.running.pop() else { break };
            self.counts.preemptions += 1;
            self.preempted = true;
            self.let_go(last)?;
            self.line.push_front(Waiting { id: last, counts: false });
            requests.waits(last);
        }
        Ok(())
    }

    /// The engine has preempted a request.
    pub(super) fn preempt(&mut self, id: u64, requests: &mut Requests) -> Result<()> {
        if self.held.contains_key(&id) {
            self.stop(id)?;
        } else if let Some(at) = self.line.iter().position(|w| w.id == id && !w.counts) {
            self.line.remove(at);
            requests.waited(id);
        }
        Ok(())
    }

    /// A request has ended; if it is in line, it still runs when its turn comes.
    pub(super) fn end(&mut self, id: u64, requests: &mut Requests) -> Result<()> {
        if let (Some(held), Some(request)) = (self.held.get_mut(&id), requests.get(id)) {
            self.pool.commit(held, request.computed(), request.info());
            self.stop(id)?;
        }
        Ok(())
    }

    fn stop(&mut self, id: u64) -> Result<()> {
        self.running.retain(|&running| running != id);
        self.let_go(id)
    }

    fn let_go(&mut self, id: u64) -> Result<()> {
        match self.held.remove(&id) {
            Some(mut held) => self.pool.release(&mut held),
            None => Ok(()),
        }
    }

    pub(super) fn reset(&mut self) -> Result<()> {
        self.pool.reset()
    }

    pub(super) fn check_integrity(&self) -> Result<()> {
        self.pool.check_integrity(self.held.values().map(|held| held.pending.len()).sum())
    }
}
