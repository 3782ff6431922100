//! The event loop: arrivals, steps, ends, on one clock.

use kvframe_core::Manager;
use kvframe_trace::replay::Host;
use kvframe_trace::{ReplayPlan, Trace};

use crate::arrivals::{Arrivals, next_turns};
use crate::cache::Stopped;
use crate::options::ServerOptions;
use crate::profile::{Batch, StepTime};
use crate::prompts::Prompts;
use crate::report::ServerReport;
use crate::running::Running;
use crate::scheduler::{Scheduled, Scheduler};
use crate::tiers::Tiers;

/// Steps between two looks whether the host wants to stop.
const PATIENCE: u64 = 256;

/// Serves a trace with a manager made by [`kvframe_trace::replay::PreparedTrace::options`] in timed mode.
/// `plan` is the trace's plan of that mode.
///
/// # Errors
/// [`Stopped::ByCore`]: what the manager says of a policy that misbehaves; [`Stopped::ByHost`]: the host
/// wanted to stop, or its policy did not answer.
pub fn simulate(
    (trace, plan): (&Trace, &ReplayPlan),
    manager: &mut Manager,
    host: &mut dyn Host,
    options: &ServerOptions,
    times: &dyn StepTime,
) -> Result<ServerReport, Stopped> {
    simulate_with(None, (trace, plan), manager, host, options, times)
}

/// As [`simulate`], with tiers below the pool.
///
/// # Errors
/// As there.
pub fn simulate_with(
    mut tiers: Option<Tiers>,
    (trace, plan): (&Trace, &ReplayPlan),
    manager: &mut Manager,
    host: &mut dyn Host,
    options: &ServerOptions,
    times: &dyn StepTime,
) -> Result<ServerReport, Stopped> {
    let next = next_turns(trace);
    let prompts = Prompts::new(trace, plan, &next, options);
    let count = trace.requests.len();
    if let Some(tiers) = &mut tiers {
        tiers.set_break_even(times, options.time_factor, options.max_num_batched_tokens);
        tiers.expect(count);
    }
    let scheduler = Scheduler::new(manager, host, prompts, (options, count), tiers);
    let arrivals = Arrivals::new(trace, &next, options);
    Simulation {
        scheduler,
        arrivals,
        options,
        times,
        now: f64::NEG_INFINITY,
        report: ServerReport::default(),
        ended: Vec::new(),
    }
    .run()
}

struct Simulation<'a> {
    scheduler: Scheduler<'a>,
    arrivals: Arrivals,
    options: &'a ServerOptions,
    times: &'a dyn StepTime,
    now: f64,
    report: ServerReport,
    ended: Vec<usize>,
}

impl Simulation<'_> {
    fn run(mut self) -> Result<ServerReport, Stopped> {
        let mut turns: u64 = 0;
        loop {
            if turns.is_multiple_of(PATIENCE) && self.scheduler.cache.host.stop() {
                return Err(Stopped::ByHost);
            }
            turns += 1;
            let is_last = self.take_arrivals();
            let scheduled = self.scheduler.schedule(self.now)?;
            for request in self.scheduler.turned_away.drain(..) {
                self.arrivals.ended(request, self.now);
            }
            let waiting = self.scheduler.queue.len() as u64;
            self.report.peak_waiting = self.report.peak_waiting.max(waiting);
            if is_last {
                self.report.waiting_at_last_arrival = waiting;
            }
            if scheduled.batch.num_tokens() == 0 {
                match self.next_event() {
                    f64::INFINITY => break,
                    next => self.now = self.now.max(next),
                }
                continue;
            }
            let steps = self.advance(scheduled);
            self.scheduler.finish(steps, self.now, &mut self.ended)?;
            for request in self.ended.drain(..) {
                self.arrivals.ended(request, self.now);
            }
        }
        self.report.found_on_return = self.scheduler.found_on_return;
        self.report.evictions = self.scheduler.cache.manager.stats().evictions;
        self.report.requests = self.scheduler.records;
        self.report.tiers = self.scheduler.tiers.map(Tiers::into_report);
        Ok(self.report)
    }

    /// All that has arrived by now waits. Whether the last request was among it.
    fn take_arrivals(&mut self) -> bool {
        let mut any = false;
        while let Some(arrival) = self.arrivals.take_due(self.now) {
            any = true;
            self.report.last_arrival = arrival.time;
            if !self.scheduler.arrive(arrival.request, arrival.time) {
                self.arrivals.ended(arrival.request, arrival.time);
            }
        }
        any && self.arrivals.next().is_none()
    }

    /// When the next request arrives, or the next transfer ends.
    fn next_event(&self) -> f64 {
        let arrival = self.arrivals.next().map_or(f64::INFINITY, |next| next.time);
        arrival.min(self.scheduler.tiers.as_ref().map_or(f64::INFINITY, Tiers::next_end))
    }

    /// Advances the clock over one step, or over all following steps that would be decided the same way.
    /// Returns the number of steps.
    fn advance(&mut self, Scheduled { mut batch, is_steady }: Scheduled) -> u32 {
        let running = &self.scheduler.running;
        let is_quiet = self.scheduler.tiers.as_ref().is_none_or(Tiers::is_quiet);
        let most = if is_steady && is_quiet && !self.options.every_step {
            running.iter().map(Running::quiet_steps).min().unwrap_or(1)
        } else {
            1
        };
        let owned = f64::from(self.scheduler.cache.manager.pool().referenced());
        let next_event = self.next_event();
        let mut steps = 0;
        loop {
            let start = self.now;
            self.now = self.scheduler.wait_for_copies(start);
            let seconds = self.times.seconds(&batch) * self.options.time_factor;
            self.now += seconds;
            self.report.busy_seconds += seconds;
            self.report.block_seconds += owned * seconds;
            if steps == 0 {
                self.note_gaps(start);
            } else {
                self.report.gaps.push((self.now - start, batch.n_decode));
            }
            steps += 1;
            if steps == most || next_event <= self.now {
                break;
            }
            batch.kv_decode += u64::from(batch.n_decode);
        }
        self.count(&batch, steps);
        steps
    }

    fn count(&mut self, batch: &Batch, steps: u32) {
        self.report.steps += u64::from(steps);
        self.report.prefill_tokens += u64::from(batch.prefill_tokens);
        self.report.decode_tokens += u64::from(batch.n_decode) * u64::from(steps);
    }

    /// Records the time since the last token for every sequence that samples a token in the step from `start`
    /// on.
    #[allow(clippy::float_cmp)] // a sequence that sampled at the end of the last step has its very time
    fn note_gaps(&mut self, start: f64) {
        let mut regular = 0;
        for one in &self.scheduler.running {
            let samples = one.sampled > 0 && one.scheduled > 0 && one.scheduled == one.remaining();
            if samples && one.last_token == start {
                regular += 1;
            } else if samples {
                self.report.gaps.push((self.now - one.last_token, 1));
            }
        }
        if regular > 0 {
            self.report.gaps.push((self.now - start, regular));
        }
    }
}
