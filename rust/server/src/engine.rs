//! One engine on a clock: its scheduler, the step that runs, and what it has counted.

use kvframe_core::Manager;
use kvframe_trace::replay::Host;

use crate::arrivals::Arrival;
use crate::cache::Stopped;
use crate::gaps;
use crate::handover::Handover;
use crate::options::ServerOptions;
use crate::peers::Peers;
use crate::profile::{Batch, StepTime};
use crate::prompts::Prompts;
use crate::report::{RequestRecord, ServerReport};
use crate::running::Running;
use crate::scheduler::{Scheduled, Scheduler};
use crate::speculation::Drafter;
use crate::tiers::Tiers;

/// An engine. Its caller says who arrives, begins a step, and ends it at the time that the step says.
pub(crate) struct Engine<'a> {
    pub scheduler: Scheduler<'a>,
    options: &'a ServerOptions,
    times: &'a dyn StepTime,
    /// Steps that are taken together still need to know what each sequence attends to.
    has_layers: bool,
    /// When the step that runs ends, or when the last one ended.
    pub now: f64,
    report: ServerReport,
    /// Steps that run, one after the other.
    steps: u32,
    /// A request has arrived since the last step began.
    is_met: bool,
    ended: Vec<usize>,
    /// Requests that have ended or were turned away, since the caller last took them.
    pub done: Vec<(usize, RequestRecord)>,
}

impl<'a> Engine<'a> {
    pub fn new(
        manager: &'a mut Manager,
        host: &'a mut dyn Host,
        prompts: &'a Prompts<'a>,
        options: &'a ServerOptions,
        times: &'a dyn StepTime,
        tiers: Option<Tiers>,
    ) -> Self {
        Self {
            scheduler: Scheduler::new(manager, host, prompts, (options, times), tiers),
            options,
            times,
            has_layers: times.layers().is_some(),
            now: f64::NEG_INFINITY,
            report: ServerReport::default(),
            steps: 0,
            is_met: false,
            ended: Vec::new(),
            done: Vec::new(),
        }
    }

    /// A request has arrived. Its record, if it is rejected.
    pub fn arrive(&mut self, arrival: Arrival) -> Option<RequestRecord> {
        self.is_met = true;
        self.report.last_arrival = arrival.time;
        if self.scheduler.arrive(arrival.request, arrival.time) {
            return None;
        }
        self.scheduler.records.take(arrival.request)
    }

    /// Whether requests wait, load or run here.
    pub fn is_busy(&self) -> bool {
        let Scheduler { queue, loading, running, .. } = &self.scheduler;
        queue.len() + loading.len() + running.len() > 0
    }

    /// A request has arrived whose prompt another server has computed. Its record, if it is rejected.
    pub fn arrive_computed(
        &mut self,
        request: usize,
        record: RequestRecord,
    ) -> Option<RequestRecord> {
        self.is_met = true;
        if self.scheduler.arrive_computed(request, record) {
            return None;
        }
        self.scheduler.records.take(request)
    }

    /// When a transfer ends or is planned, or infinity.
    pub fn next_transfer(&self) -> f64 {
        let below = self.scheduler.tiers.as_ref().map_or(f64::INFINITY, Tiers::next_event);
        let fetched = self.scheduler.peers.as_ref().map_or(f64::INFINITY, Peers::next_end);
        let handed = self.scheduler.handover.as_ref().map_or(f64::INFINITY, Handover::next_end);
        below.min(fetched).min(handed)
    }

    /// Begins a step at `now`, or all following steps that would be decided the same way as long as no request
    /// arrives, and sets the clock to their end. False if there is nothing to compute.
    pub fn begin(&mut self, next_arrival: f64) -> Result<bool, Stopped> {
        let scheduled = self.scheduler.schedule(self.now)?;
        let mut turned_away = std::mem::take(&mut self.scheduler.turned_away);
        self.leave(turned_away.drain(..));
        self.scheduler.turned_away = turned_away;
        let waiting = self.scheduler.queue.len() as u64;
        self.report.peak_waiting = self.report.peak_waiting.max(waiting);
        if std::mem::take(&mut self.is_met) {
            self.report.waiting_at_last_arrival = waiting;
        }
        if scheduled.batch.num_tokens() == 0 {
            return Ok(false);
        }
        self.steps = self.advance(scheduled, next_arrival);
        Ok(true)
    }

    /// What was begun has ended.
    pub fn end(&mut self) -> Result<(), Stopped> {
        self.scheduler.finish(self.steps, self.now, &mut self.ended)?;
        let mut ended = std::mem::take(&mut self.ended);
        self.leave(ended.drain(..));
        self.ended = ended;
        Ok(())
    }

    /// Waits until nothing moves in the tiers.
    pub fn rest(&mut self) -> Result<(), Stopped> {
        loop {
            self.scheduler.settle_transfers(self.now)?;
            match self.next_transfer() {
                f64::INFINITY => return Ok(()),
                next => self.now = self.now.max(next),
            }
        }
    }

    fn leave(&mut self, requests: impl Iterator<Item = usize>) {
        for request in requests {
            let record = self.scheduler.records.take(request);
            self.done.extend(record.map(|record| (request, record)));
        }
    }

    /// Lets what moves in the tiers arrive.
    pub fn wind_up(&mut self) -> Result<(), Stopped> {
        let Scheduler { tiers, cache, .. } = &mut self.scheduler;
        tiers.as_mut().map_or(Ok(()), |tiers| tiers.wind_up(cache))
    }

    /// What was counted, and the requests that were not served to their end, once it is wound up.
    pub fn close(mut self) -> (ServerReport, Vec<(usize, RequestRecord)>) {
        self.report.found_on_return = self.scheduler.found_on_return;
        self.report.evictions = self.scheduler.cache.manager.stats().evictions;
        self.report.handed_tokens = self.scheduler.handover.map_or(0, |handover| handover.tokens);
        if let Some(peers) = &self.scheduler.peers {
            (self.report.peer_tokens, self.report.peer_bytes) = (peers.tokens, peers.bytes);
        }
        self.report.tiers = self.scheduler.tiers.map(Tiers::into_report);
        self.done.extend(self.scheduler.records.drain());
        (self.report, self.done)
    }

    fn advance(&mut self, scheduled: Scheduled, next_arrival: f64) -> u32 {
        let Scheduled { mut batch, is_steady } = scheduled;
        let running = &self.scheduler.running;
        let is_quiet = self.scheduler.tiers.as_ref().is_none_or(Tiers::is_quiet);
        let most = if is_steady && is_quiet && !self.options.every_step {
            running.iter().map(Running::quiet_steps).min().unwrap_or(1)
        } else {
            1
        };
        let owned = f64::from(self.scheduler.cache.manager.pool().referenced());
        let next_event = next_arrival.min(self.next_transfer());
        let mut steps = 0;
        let mut owed = self.switching();
        loop {
            let start = self.now;
            self.now = self.scheduler.wait_for_copies(start);
            let (begin, computing) = (self.now, self.seconds(&batch) + owed);
            owed = 0.0;
            self.now = self.scheduler.end_of_step(begin, computing);
            let waits = self.now > begin + computing;
            let seconds = if waits { self.now - begin } else { computing };
            self.report.busy_seconds += seconds;
            self.report.block_seconds += owned * seconds;
            if steps == 0 {
                self.note_gaps(start);
            } else {
                gaps::note(&mut self.report.gaps, self.now - start, batch.n_decode);
            }
            steps += 1;
            if steps == most || next_event <= self.now {
                break;
            }
            batch.kv_decode += u64::from(batch.n_decode);
            if self.has_layers {
                self.scheduler.attend(&mut batch, steps);
            }
        }
        self.count(&batch, steps);
        steps
    }

    fn seconds(&self, batch: &Batch) -> f64 {
        let factor = self.options.time_factor;
        let Some(how) = &self.options.speculation else {
            return self.times.seconds(batch) * factor;
        };
        let (seconds, with_drafting) = how.step_seconds(self.times, batch);
        let seconds = seconds * factor;
        if with_drafting || batch.drafts == 0 {
            return seconds;
        }
        let drafts = self.scheduler.running.iter().map(|one| one.drafts);
        match how.drafter {
            // All draft as far as any may.
            Drafter::Share(share) if !how.adapts() => {
                seconds * (1.0 + share * f64::from(how.drafts))
            }
            Drafter::Share(_) => seconds + how.drafter.seconds(drafts, seconds),
            _ => seconds + factor * how.drafter.seconds(drafts.filter(|&one| one > 0), seconds),
        }
    }

    /// Seconds that another number of drafts takes, once.
    fn switching(&mut self) -> f64 {
        std::mem::take(&mut self.scheduler.depth.owed) * self.options.time_factor
    }

    fn count(&mut self, batch: &Batch, steps: u32) {
        self.report.steps += u64::from(steps);
        self.report.prefill_tokens += u64::from(batch.prefill_tokens);
        let right = self.scheduler.running.iter().map(|one| u64::from(one.right)).sum::<u64>();
        self.report.decode_tokens += u64::from(batch.n_decode) * u64::from(steps) + right;
        self.report.wrong_drafts += u64::from(batch.drafts) - right;
    }

    /// Records the time since the last token for every sequence that samples a token in the step from `start`
    /// on.
    #[allow(clippy::float_cmp)] // a sequence that sampled at the end of the last step has its very time
    fn note_gaps(&mut self, start: f64) {
        let mut regular = 0;
        let mut at_once = 0;
        for one in &self.scheduler.running {
            at_once += one.right;
            let samples = one.sampled > 0 && one.scheduled > 0 && one.scheduled == one.remaining();
            if samples && one.last_token == start {
                regular += 1;
            } else if samples {
                gaps::note(&mut self.report.gaps, self.now - one.last_token, 1);
            }
        }
        if regular > 0 {
            gaps::note(&mut self.report.gaps, self.now - start, regular);
        }
        if at_once > 0 {
            gaps::note(&mut self.report.gaps, 0.0, at_once);
        }
    }
}
