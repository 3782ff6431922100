//! One step: running sequences grow in the order in which they came in, then waiting requests come in.
//!
//! The order of events is that of vLLM's scheduler: the budget goes to running sequences first; where
//! memory is short, the sequence that came in last is preempted and computes again later; in a step
//! that preempted one, no request comes in.

use kvframe_core::{Manager, Request};
use kvframe_trace::replay::Host;

use crate::cache::{Cache, Stopped};
use crate::options::ServerOptions;
use crate::present::ByRequest;
use crate::profile::Batch;
use crate::prompts::Prompts;
use crate::queue::{Queue, Waiter};
use crate::report::{Fate, RequestRecord};
use crate::running::{Progress, Running};

/// What decides a step.
pub(crate) struct Scheduler<'a> {
    pub cache: Cache<'a>,
    prompts: &'a Prompts<'a>,
    options: &'a ServerOptions,
    block_size: u32,
    capacity: u32,
    pub queue: Queue,
    /// Prompt tokens of requests that wait.
    pub waiting_tokens: u64,
    /// In the order in which they came in.
    pub running: Vec<Running>,
    progress: ByRequest<Progress>,
    /// Of requests that are here.
    pub records: ByRequest<RequestRecord>,
    /// See [`crate::report::ServerReport::found_on_return`].
    pub found_on_return: u64,
    arrived: u32,
    asked: Request,
    /// The manager's clock, the queue's version and the budget when no request could come in.
    refused_at: Option<(u64, u64, u32)>,
}

/// What a step is to compute.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scheduled {
    pub batch: Batch,
    /// The next step would be decided likewise as long as every sequence has slots and tokens left.
    pub is_steady: bool,
}

impl<'a> Scheduler<'a> {
    pub fn new(
        manager: &'a mut Manager,
        host: &'a mut dyn Host,
        prompts: &'a Prompts<'a>,
        options: &'a ServerOptions,
    ) -> Self {
        let (block_size, capacity) = (manager.options().block_size, manager.options().blocks);
        Self {
            cache: Cache { manager, host },
            options,
            block_size,
            capacity,
            queue: Queue::new(options.order),
            waiting_tokens: 0,
            running: Vec::new(),
            progress: ByRequest::default(),
            records: ByRequest::default(),
            found_on_return: 0,
            arrived: 0,
            asked: Request::default(),
            refused_at: None,
            prompts,
        }
    }

    /// `request` has arrived. False if it is larger than the pool: it is rejected.
    pub fn arrive(&mut self, request: usize, time: f64) -> bool {
        self.records.insert(request, RequestRecord { arrival: time, ..RequestRecord::default() });
        if self.prompts.known(request).div_ceil(self.block_size) > self.capacity {
            self.records[request].fate = Fate::Rejected;
            return false;
        }
        let (number, own_from) = (self.arrived, self.prompts.own_from(request));
        self.progress.insert(request, Progress::fresh(number, own_from));
        self.arrived += 1;
        let facts = (self.prompts.prompt(request), self.prompts.priority(request));
        self.queue.push(request, number, facts);
        self.waiting_tokens += u64::from(facts.0);
        true
    }

    /// Decides what the step at `now` computes.
    pub fn schedule(&mut self, now: f64) -> Result<Scheduled, Stopped> {
        self.cache.manager.set_time((now * 1_000.0).max(0.0) as u64);
        let mut budget = self.options.max_num_batched_tokens;
        let preempted = self.grow_all(&mut budget)?;
        if !preempted {
            self.let_in(&mut budget, now)?;
        }
        let mut scheduled = Scheduled { is_steady: !preempted, ..Scheduled::default() };
        for one in &self.running {
            if one.scheduled > 0 {
                scheduled.batch.add(one.computed, one.scheduled, one.decodes());
            }
            scheduled.is_steady &= one.scheduled == 1 && one.decodes();
        }
        Ok(scheduled)
    }

    /// Slots for what running sequences compute now. Whether any was preempted.
    fn grow_all(&mut self, budget: &mut u32) -> Result<bool, Stopped> {
        let (mut at, mut preempted) = (0, false);
        while at < self.running.len() {
            let count = self.running[at].remaining().min(*budget);
            self.running[at].scheduled = count;
            while count > 0 && !self.make_slots(at, count)? {
                preempted = true;
                self.preempt_last()?;
                if at == self.running.len() {
                    return Ok(true);
                }
            }
            *budget -= count;
            at += 1;
        }
        Ok(preempted)
    }

    /// Gets slots for `count` more tokens of a running sequence, up to the end of a block. That takes no more
    /// blocks than these tokens alone would. False for want of room.
    fn make_slots(&mut self, at: usize, count: u32) -> Result<bool, Stopped> {
        let one = &self.running[at];
        let until = one.computed + count;
        if until <= one.slots {
            return Ok(true);
        }
        let until = until.next_multiple_of(self.block_size).min(one.prompt + one.answer - 1);
        let grown = self.cache.extend(one.seq, until)?;
        if grown {
            self.running[at].slots = until;
        }
        Ok(grown)
    }

    /// The sequence that came in last gives its blocks up and waits again.
    fn preempt_last(&mut self) -> Result<(), Stopped> {
        let Some(one) = self.running.pop() else { return Ok(()) };
        self.cache.manager.preempt(one.seq)?;
        let progress = &mut self.progress[one.request];
        progress.sampled = one.sampled;
        progress.lost = one.computed;
        progress.last_token = one.last_token;
        self.records[one.request].preemptions += 1;
        self.queue.push_preempted(one.request, progress.number);
        self.waiting_tokens += u64::from(one.prompt);
        Ok(())
    }

    /// Waiting requests come in while there are tokens, places and blocks.
    fn let_in(&mut self, budget: &mut u32, now: f64) -> Result<(), Stopped> {
        while *budget > 0 && self.running.len() < self.options.max_num_seqs as usize {
            let state = (self.cache.manager.now(), self.queue.version, *budget);
            if self.refused_at == Some(state) {
                return Ok(());
            }
            let Some(waiter) = self.first_waiter()? else { return Ok(()) };
            let i = waiter.request;
            self.asked.chunk = *budget;
            self.prompts.ask(i, &mut self.progress[i], self.cache.manager, &mut self.asked)?;
            let Some(allocation) = self.cache.allocate(&self.asked)? else {
                self.refused_at = Some(state);
                return Ok(());
            };
            self.queue.remove(&waiter);
            self.waiting_tokens -= u64::from(self.prompts.prompt(i));
            let progress = self.progress[i];
            let cached = allocation.cached_tokens;
            let mut one = Running {
                request: i,
                seq: allocation.seq,
                prompt: self.prompts.prompt(i),
                answer: self.prompts.answer(i),
                computed: cached,
                slots: allocation.granted_tokens,
                sampled: progress.sampled,
                scheduled: 0,
                last_token: progress.last_token,
            };
            one.scheduled = one.remaining().min(*budget);
            *budget -= one.scheduled;
            self.running.push(one);
            self.note_start(i, cached, now);
        }
        Ok(())
    }

    fn first_waiter(&mut self) -> Result<Option<Waiter>, Stopped> {
        let Self { queue, prompts, progress, cache, asked, .. } = self;
        let mut failed = None;
        let first = queue.first(|i| {
            let looked = prompts
                .ask(i, &mut progress[i], cache.manager, asked)
                .and_then(|()| cache.manager.lookup_request(&*asked));
            looked.map_or_else(
                |error| {
                    failed = Some(error);
                    0
                },
                |hit| hit.tokens,
            )
        });
        failed.map_or(Ok(first), |error| Err(error.into()))
    }

    fn note_start(&mut self, i: usize, cached: u32, now: f64) {
        let (record, lost) = (&mut self.records[i], self.progress[i].lost);
        if record.preemptions == 0 {
            (record.start, record.cached_tokens) = (now, cached);
        } else {
            record.recomputed_tokens += lost.saturating_sub(cached);
            self.found_on_return += u64::from(cached.saturating_sub(lost));
        }
    }

    /// A step, or `steps` of them that each decoded, has ended at `now`: tokens are sampled, full blocks
    /// become findable, sequences end. `ended` gets the requests that did.
    pub fn finish(&mut self, steps: u32, now: f64, ended: &mut Vec<usize>) -> Result<(), Stopped> {
        let size = self.block_size;
        let mut at = 0;
        for k in 0..self.running.len() {
            let mut one = self.running[k];
            let before = one.computed;
            if one.scheduled > 0 {
                one.computed += one.scheduled * steps;
                one.scheduled = 0;
                if one.has_sampled(steps) {
                    if one.sampled == 0 {
                        self.records[one.request].first_token = now;
                    }
                    one.sampled += steps;
                    one.last_token = now;
                }
            }
            if one.computed / size > before / size {
                self.cache.commit(one.seq, one.computed)?;
            }
            if one.sampled == one.answer {
                self.cache.manager.release(one.seq)?;
                let record = &mut self.records[one.request];
                (record.fate, record.end) = (Fate::Finished, now);
                self.progress.take(one.request);
                ended.push(one.request);
            } else {
                self.running[at] = one;
                at += 1;
            }
        }
        self.running.truncate(at);
        Ok(())
    }
}
