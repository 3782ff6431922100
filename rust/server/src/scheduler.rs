//! One step: running sequences grow in the order in which they came in, then waiting requests come in.
//!
//! The order of events is that of vLLM's scheduler: the budget goes to running sequences first; where
//! memory is short, the sequence that came in last is preempted and computes again later; in a step
//! that preempted one, no request comes in.

use kvframe_core::manager::PreemptionOrder;
use kvframe_core::sequence::Sequence;
use kvframe_core::{Error, Manager, Request, SeqId};
use kvframe_trace::replay::Host;

use crate::cache::{Cache, Stopped};
use crate::fair::Fair;
use crate::handover::Handover;
use crate::loading::Loading;
use crate::options::{Preemption, ServerOptions};
use crate::peers::Peers;
use crate::present::ByRequest;
use crate::profile::{Batch, StepTime};
use crate::prompts::Prompts;
use crate::queue::{Outlook, Queue, Waiter};
use crate::report::{Fate, RequestRecord};
use crate::running::{Progress, Running};
use crate::speculation::{Depth, Speculation};
use crate::tiers::{Sent, Tiers};

/// What decides a step.
pub(crate) struct Scheduler<'a> {
    pub cache: Cache<'a>,
    pub prompts: &'a Prompts<'a>,
    pub options: &'a ServerOptions,
    pub times: &'a dyn StepTime,
    pub block_size: u32,
    capacity: u32,
    pub queue: Queue,
    pub fair: Fair,
    /// Prompt tokens of requests that wait.
    pub waiting_tokens: u64,
    /// In the order in which they came in.
    pub running: Vec<Running>,
    /// They have blocks, and wait for what comes into these.
    pub loading: Vec<Loading>,
    /// Loads of sequences that are in the step.
    pub beside: Vec<Sent>,
    pub tiers: Option<Tiers>,
    /// What other servers have computed comes to this one.
    pub handover: Option<Handover>,
    /// What other engines' pools have comes to this one.
    pub peers: Option<Peers>,
    pub progress: ByRequest<Progress>,
    /// Of requests that are here.
    pub records: ByRequest<RequestRecord>,
    /// See [`crate::report::ServerReport::found_on_return`].
    pub found_on_return: u64,
    arrived: u32,
    /// Requests that the pool can never hold, which only its layer groups knew.
    pub turned_away: Vec<usize>,
    pub asked: Request,
    /// Drafts of each sequence, where all have as many.
    pub depth: Depth,
    /// A running prompt waits for a step that takes all of it.
    is_held: bool,
    /// The manager's clock, the versions of queue and tiers and the budget when no request could come in.
    refused_at: Option<(u64, u64, u64, u32)>,
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
        (options, times): (&'a ServerOptions, &'a dyn StepTime),
        tiers: Option<Tiers>,
    ) -> Self {
        let (block_size, capacity) = (manager.options().block_size, manager.options().blocks);
        let fair = Fair::new(options, prompts.classes());
        Self {
            cache: Cache { manager, host },
            options,
            times,
            block_size,
            capacity,
            queue: Queue::new(options.order, fair.classes()),
            fair,
            waiting_tokens: 0,
            running: Vec::new(),
            loading: Vec::new(),
            beside: Vec::new(),
            tiers,
            handover: None,
            peers: None,
            progress: ByRequest::default(),
            records: ByRequest::default(),
            found_on_return: 0,
            arrived: 0,
            turned_away: Vec::new(),
            asked: Request::default(),
            depth: Depth::default(),
            is_held: false,
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
        self.has_returned(request, time);
        let (number, own_from) = (self.arrived, self.prompts.own_from(request));
        self.progress.insert(request, Progress::fresh(number, own_from));
        self.arrived += 1;
        let facts = self.prompts.facts(request);
        self.queue.push(self.class(request), request, number, facts);
        self.waiting_tokens += u64::from(facts.prompt);
        true
    }

    /// Decides what the step at `now` computes.
    pub fn schedule(&mut self, now: f64) -> Result<Scheduled, Stopped> {
        self.cache.manager.set_time((now * 1_000.0).max(0.0) as u64);
        self.settle_transfers(now)?;
        let mut budget = self.options.max_num_batched_tokens;
        let Self { fair, prompts, running, loading, .. } = self;
        let loads = loading.iter().map(|waits| waits.one.request);
        let here = running.iter().map(|one| one.request).chain(loads);
        fair.begin(here.map(|request| prompts.class(request)));
        self.plan_drafts();
        let preempted = self.grow_all(&mut budget)?;
        let is_full = std::mem::take(&mut self.is_held);
        self.beside.clear();
        self.run_beside_loads(&mut budget, now)?;
        let before = self.state(budget);
        if !is_full && (!preempted || !self.fair.is_off()) {
            self.let_in(&mut budget, now)?;
        }
        // An attempt that failed may have made room, so that the next one does not.
        let is_settled = before == self.state(budget);
        self.run_beside_loads(&mut budget, now)?;
        if self.tiers.is_some() {
            self.prefetch_waiting()?;
        }
        let mut scheduled = Scheduled {
            is_steady: !preempted && is_settled && self.beside.is_empty() && !self.adapts(),
            ..Scheduled::default()
        };
        for one in &self.running {
            if one.scheduled > 0 {
                scheduled.batch.add(one.computed, one.scheduled, one.decodes());
                scheduled.batch.drafts += one.drafts;
            }
            scheduled.is_steady &= one.scheduled == 1 && one.decodes() && one.drafts == 0;
        }
        self.attend(&mut scheduled.batch, 0);
        Ok(scheduled)
    }

    /// Slots for what running sequences compute now. Whether any was preempted.
    fn grow_all(&mut self, budget: &mut u32) -> Result<bool, Stopped> {
        let (mut at, mut preempted) = (0, false);
        'sequences: while at < self.running.len() {
            let (request, decodes) = (self.running[at].request, self.running[at].decodes());
            let class = self.class(request);
            let remaining = self.running[at].remaining();
            let count =
                if decodes { 1.min(*budget) } else { self.portion(class, *budget, remaining) };
            if count == 0 && !self.options.chunked_prefill {
                // Who comes in now would take its tokens in the next step, too.
                self.is_held |= remaining > *budget;
                self.fair.close(class);
            }
            self.running[at].scheduled = count;
            let drafts = self.draft(at, *budget - count);
            while count > 0 && !self.make_slots(at, count + drafts)? {
                preempted = true;
                if self.send_back()? {
                    continue;
                }
                // Those that load came in later, and can be preempted once they have landed.
                let waits = at + 1 == self.running.len() && !self.loading.is_empty();
                if waits || self.waits_for_copies() {
                    let one = &mut self.running[at];
                    (one.scheduled, one.drafts, one.right) = (0, 0, 0);
                    break;
                }
                let (place, tokens) = self.preempt_one(class, at)?;
                if place == at {
                    continue 'sequences;
                }
                if place < at {
                    // It was to compute in this step, and those behind it moved up.
                    *budget += tokens;
                    at -= 1;
                }
            }
            if !decodes {
                self.fair.spend(class, self.running[at].scheduled);
            }
            let one = &self.running[at];
            *budget -= one.scheduled + one.drafts;
            at += 1;
        }
        Ok(preempted)
    }

    /// Whether the number of drafts is decided anew in every step.
    fn adapts(&self) -> bool {
        self.options.speculation.as_ref().is_some_and(Speculation::adapts)
    }

    /// How many drafts each sequence is to verify in this step.
    fn plan_drafts(&mut self) {
        let Some(how) = &self.options.speculation else { return };
        let decoding = || self.running.iter().filter(|one| one.decodes());
        if !how.adapts() {
            self.running.iter_mut().for_each(|one| one.planned = how.drafts);
            return;
        }
        let sequences: Vec<_> = decoding().map(|one| (one.request, one.sampled)).collect();
        if sequences.is_empty() {
            return;
        }
        let kv_decode = decoding().map(|one| u64::from(one.computed) + 1).sum();
        let planned = how.plan(&mut self.depth, &sequences, kv_decode, self.times);
        let decoding = self.running.iter_mut().filter(|one| one.decodes());
        decoding.zip(planned).for_each(|(one, planned)| one.planned = planned);
    }

    /// How many drafts a running sequence verifies behind its next token, with so many tokens left to compute.
    fn draft(&mut self, at: usize, budget: u32) -> u32 {
        let Some(speculation) = &self.options.speculation else { return 0 };
        let one = &mut self.running[at];
        let drafts = one.most_drafts().min(one.planned).min(budget);
        one.draft(drafts, speculation.right_of(drafts, one.request, one.sampled));
        drafts
    }

    /// Gets slots for `count` more tokens of a running sequence, up to the end of a block. That takes no more
    /// blocks than these tokens alone would. False for want of room.
    pub fn make_slots(&mut self, at: usize, count: u32) -> Result<bool, Stopped> {
        let one = &self.running[at];
        let until = one.computed + count;
        if until <= one.slots {
            return Ok(true);
        }
        let until = until.next_multiple_of(self.block_size).min(one.prompt + one.answer - 1);
        let (seq, slots) = (one.seq, one.slots);
        if self.tiers.is_some() {
            self.make_room(until.div_ceil(self.block_size) - slots.div_ceil(self.block_size), 0)?;
        }
        let grown = self.cache.extend(seq, until)?;
        if grown {
            self.running[at].slots = until;
        }
        Ok(grown)
    }

    /// A sequence of `class` gives its blocks up and waits again, so that the one at `at`, of that class too, may
    /// grow. Its place, and the tokens that it was to compute if its turn has been.
    fn preempt_one(&mut self, class: usize, at: usize) -> Result<(usize, u32), Stopped> {
        let place = self.first_to_preempt(class, at)?;
        let one = self.running.remove(place);
        if place < at && !one.decodes() {
            self.fair.give_back(class, one.scheduled);
        }
        self.fair.close(class);
        self.swap_out(&one)?;
        self.cache.manager.preempt(one.seq)?;
        self.forget_below(one.seq);
        let progress = &mut self.progress[one.request];
        progress.sampled = one.sampled;
        progress.lost = one.computed;
        progress.last_token = one.last_token;
        self.records[one.request].preemptions += 1;
        self.wait_again(&one);
        Ok((place, one.scheduled + one.drafts))
    }

    /// Tokens of a prompt of `class` that a step computes with so many left, at most.
    pub fn chunk(&self, class: usize, budget: u32) -> u32 {
        let ServerOptions { chunked_prefill, long_prefill_token_threshold, .. } = *self.options;
        let most = if chunked_prefill { long_prefill_token_threshold } else { u32::MAX };
        self.fair.tokens(class).min(budget).min(most)
    }

    /// Tokens of `remaining` ones that a prompt of `class` computes in this step, with so many left.
    pub fn portion(&self, class: usize, budget: u32, remaining: u32) -> u32 {
        let most = self.chunk(class, budget);
        let whole = self.fair.most_tokens(class).min(self.options.max_num_batched_tokens);
        let waits = !self.options.chunked_prefill && most < remaining && remaining <= whole;
        if waits { 0 } else { remaining.min(most) }
    }

    /// Whether request `i`, as it is asked for, has to wait for a step that takes all that it is to compute.
    fn waits_for_a_step(&self, i: usize, class: usize, budget: u32) -> Result<bool, Stopped> {
        if self.options.chunked_prefill || self.progress[i].is_handed || self.is_swapped(i) {
            return Ok(false);
        }
        let pooled = self.cache.manager.lookup_request(&self.asked)?.tokens;
        let remaining = self.prompts.prompt(i) + self.progress[i].sampled - pooled;
        // It computes once its load has come.
        let loads = self.asked.external_until > pooled;
        Ok(!loads && self.portion(class, budget, remaining) == 0)
    }

    /// The class of a request, as far as classes are told apart.
    pub fn class(&self, request: usize) -> usize {
        self.fair.class(self.prompts.class(request))
    }

    /// The place of the sequence of `class` that is preempted next, so that the one at `at` may grow: the last, if
    /// no other would free a block. Never the one that came in first while there is another, or two would take each
    /// other's blocks for ever.
    fn first_to_preempt(&self, class: usize, at: usize) -> Result<usize, Stopped> {
        let its = |one: &Running| self.class(one.request) == class;
        let last = at + self.running[at..].iter().rposition(its).unwrap_or(0);
        let rule = self.options.preemption_order;
        if rule == PreemptionOrder::LastAdmitted {
            return Ok(last);
        }
        let seqs: Vec<SeqId> =
            self.running.iter().filter(|&one| its(one)).skip(1).map(|one| one.seq).collect();
        let first = self.cache.manager.preemption_order(&seqs, rule)?.first().map(|one| one.seq);
        let place = |seq| self.running.iter().position(|one| one.seq == seq);
        Ok(first.and_then(place).unwrap_or(last))
    }

    /// A request that has given its blocks up waits again.
    pub fn wait_again(&mut self, one: &Running) {
        let (i, number) = (one.request, self.progress[one.request].number);
        if self.records[i].preemptions > 0 {
            self.queue.push_preempted(self.class(i), i, number);
        } else {
            self.queue.push(self.class(i), i, number, self.prompts.facts(i));
        }
        self.waiting_tokens += u64::from(one.prompt);
    }

    /// Waiting requests come in while there are tokens, places and blocks.
    fn let_in(&mut self, budget: &mut u32, now: f64) -> Result<(), Stopped> {
        let places = self.options.max_num_seqs as usize;
        while *budget > 0 && self.running.len() + self.loading.len() < places {
            let state = self.state(*budget);
            if self.fair.is_off() && self.refused_at == Some(state) {
                return Ok(());
            }
            let Some(waiter) = self.first_waiter()? else { return Ok(()) };
            let i = waiter.request;
            let class = self.class(i);
            if !self.fits_to_its_end(i) {
                self.refused_at = Some(state);
                self.fair.close(class);
                continue;
            }
            let most = self.chunk(class, *budget);
            self.asked.chunk = most;
            self.asked.external_until = 0;
            self.prompts.ask(i, &mut self.progress[i], self.cache.manager, &mut self.asked)?;
            self.ask_to_join(i);
            let found = self.find_below(i)?;
            if self.waits_for_a_step(i, class, *budget)? {
                self.refused_at = Some(state);
                self.fair.close(class);
                continue;
            }
            let allocation = match self.cache.allocate(&self.asked) {
                Err(Stopped::ByCore(Error::NeverFits { .. })) => {
                    self.queue.remove(&waiter);
                    self.waiting_tokens -= u64::from(self.prompts.prompt(i));
                    self.records[i].fate = Fate::Rejected;
                    self.progress.take(i);
                    self.turned_away.push(i);
                    continue;
                }
                tried => tried?,
            };
            let Some(allocation) = allocation else {
                self.refused_at = Some(state);
                self.fair.close(class);
                continue;
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
                drafts: 0,
                right: 0,
                planned: 0,
                credit: 0.0,
                last_token: progress.last_token,
            };
            if self.records[i].start.is_nan() {
                self.records[i].start = now;
            }
            match self.begin_below(one, &allocation, found, now)? {
                None => continue,
                Some(landed) => one = landed,
            }
            self.fair.take_place(class);
            one.scheduled = self.portion(class, *budget, one.remaining());
            self.fair.spend(class, one.scheduled);
            *budget -= one.scheduled;
            self.running.push(one);
            // A load that brought less than it promised took slots along, which are free now.
            self.make_slots(self.running.len() - 1, one.scheduled)?;
        }
        Ok(())
    }

    /// Whether the blocks of request `i` and of all that are here fit up to their ends, where none is preempted.
    fn fits_to_its_end(&self, i: usize) -> bool {
        if self.options.preemption != Preemption::Never {
            return true;
        }
        let here = self.running.iter().chain(self.loading.iter().map(|waits| &waits.one));
        let blocks = |i: usize| u64::from(self.prompts.known(i).div_ceil(self.block_size));
        let taken: u64 = here.map(|one| blocks(one.request)).sum();
        taken + blocks(i) <= u64::from(self.capacity)
    }

    /// Whether blocks are short only until something has moved, where none is preempted.
    fn waits_for_copies(&self) -> bool {
        self.options.preemption == Preemption::Never
            && self.tiers.as_ref().is_some_and(Tiers::is_moving)
    }

    /// What decides whether a request can come in.
    fn state(&self, budget: u32) -> (u64, u64, u64, u32) {
        let version = self.tiers.as_ref().map_or(0, |tiers| tiers.version);
        (self.cache.manager.now(), self.queue.version, version, budget)
    }

    fn first_waiter(&mut self) -> Result<Option<Waiter>, Stopped> {
        let Self { queue, fair, prompts, progress, cache, asked, running, block_size, .. } = self;
        let mut failed = None;
        let prefilling: Vec<&Running> =
            running.iter().filter(|one| one.computed < one.prompt).collect();
        let outlook = |i: usize| {
            let target = prompts.prompt(i) + progress[i].sampled;
            let looked = prompts
                .ask(i, &mut progress[i], cache.manager, asked)
                .and_then(|()| cache.manager.lookup_request(&*asked));
            let cached = looked.map_or_else(
                |error| {
                    failed = Some(error);
                    0
                },
                |hit| hit.tokens,
            );
            let place = (cached / *block_size) as usize;
            let wanted = asked.keys.get(place);
            // Its last known token is always computed: a block that holds it is not waited for.
            let is_near = cached + *block_size < target
                && prefilling.iter().any(|one| {
                    let keys = |of: &'_ Sequence| of.keys.get(place).copied();
                    let has = cache.manager.sequence(one.seq).ok().and_then(keys);
                    cached + *block_size <= one.prompt && has.as_ref() == wanted
                });
            Outlook { cached, uncached: target - cached, is_near }
        };
        let first = queue.first(|class| fair.is_open(class), outlook);
        failed.map_or(Ok(first), |error| Err(error.into()))
    }

    /// Request `i` begins behind `cached` tokens of the pool, `joined` ones that another sequence has computed
    /// meanwhile, `fetched` ones of other engines, and `loaded` ones of the tiers.
    pub fn note_found(
        &mut self,
        i: usize,
        (cached, joined, fetched): (u32, u32, u32),
        loaded: &[u32],
    ) {
        let (record, lost) = (&mut self.records[i], self.progress[i].lost);
        if record.preemptions == 0 {
            (record.cached_tokens, record.joined_tokens) = (cached, joined);
            record.peer_tokens = fetched;
            self.note_loaded(i, loaded);
        } else {
            let found = cached + joined + fetched + loaded.iter().sum::<u32>();
            record.recomputed_tokens += lost.saturating_sub(found);
            self.found_on_return += u64::from(found.saturating_sub(lost));
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
                    one.sampled += steps + one.right;
                    one.computed += one.right;
                    one.last_token = now;
                }
                (one.drafts, one.right) = (0, 0);
            }
            let (has_filled, has_ended) =
                (one.computed / size > before / size, one.sampled == one.answer);
            if has_filled {
                self.cache.commit(one.seq, one.computed)?;
            }
            if has_filled || has_ended {
                self.back_up(one.seq, now)?;
            }
            if has_ended {
                self.expect_return(&one, now);
                self.cache.manager.release(one.seq)?;
                self.forget_below(one.seq);
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
