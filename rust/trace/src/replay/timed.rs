//! Replay by the clock: one prefill server, first come first served, and sequences that run on.
//!
//! A request waits for the server and for memory: it gets the blocks of its prompt and its answer
//! all at once. They stay pinned until its last token. The blocks of the answer, and of a partial
//! tail, are not shared.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kvframe_core::policy::Consult;
use kvframe_core::{Allocation, Error, Manager, Request, SeqId};

use super::{Host, Outcome, PATIENCE, PreparedTrace, RequestOutcome};
use crate::ByTime;

/// How fast the server is: two rates, whatever else runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedRates {
    /// Prompt tokens computed in a second, one prompt after the other.
    pub prefill: f64,
    /// Seconds that a running sequence takes for a token.
    pub decode: f64,
}

impl Default for FixedRates {
    fn default() -> Self {
        Self { prefill: 50_000.0, decode: 0.020 }
    }
}

/// When a request was served. Times are seconds of the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServedTimes {
    /// The request's index in the trace.
    pub request: usize,
    /// It arrived.
    pub arrival: f64,
    /// It got its blocks.
    pub start: f64,
    /// Its prompt was computed.
    pub first_token: f64,
    /// Its last token was generated.
    pub end: f64,
    /// Prompt tokens found in the longest cached prefix.
    pub cached_tokens: u32,
}

/// What runs, by when it ends; the number is the request's.
type Ends = BinaryHeap<Reverse<ByTime<SeqId>>>;

/// Ends what has ended by `now`.
fn end_until(manager: &mut Manager, running: &mut Ends, now: f64) -> Result<(), Error> {
    while let Some(&Reverse(first)) = running.peek().filter(|first| first.0.at <= now) {
        running.pop();
        manager.release(first.what)?;
    }
    Ok(())
}

/// Tries `work` until the host has named the victims it needs. `None` if the host stops.
fn with_victims<T>(
    manager: &mut Manager,
    host: &mut dyn Host,
    mut work: impl FnMut(&mut Manager) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    loop {
        match work(manager) {
            Err(Error::NeedVictims { n }) if host.judge(manager, n) => {}
            Err(Error::NeedVictims { .. }) => return Ok(None),
            settled => return settled.map(Some),
        }
    }
}

/// The percentile by nearest rank: the smallest of the `sorted` values that at least `percent` (1
/// to 100) per cent of them do not exceed. 0 if there are no values.
pub fn nearest_rank(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

impl PreparedTrace<'_> {
    /// As [`PreparedTrace::drive`], by the clock, at other rates and with every arrival divided by
    /// `load`: 0.5 halves the requests a second. `served` gets the times of each request that was
    /// served. `None` if the host stopped it.
    ///
    /// # Errors
    /// What the manager says.
    pub fn drive_at(
        &self,
        manager: &mut Manager,
        host: &mut dyn Host,
        (rates, load): (FixedRates, f64),
        served: &mut Vec<ServedTimes>,
    ) -> Result<Option<Outcome>, Error> {
        let mut outcome = Outcome::default();
        let half = self.trace.requests.len() / 2;
        let (mut asked, mut turns) = (Request::default(), vec![0; self.sessions()]);
        let (mut running, mut free) = (Ends::new(), 0.0f64);
        let capacity = manager.options().blocks;
        // If no request ever waits and no block is evicted, room for answers changes nothing, and
        // it could exceed memory.
        let ample = capacity >= self.ceiling();
        served.reserve(self.trace.requests.len());
        for (i, request) in self.trace.requests.iter().enumerate() {
            if i % PATIENCE == 0 && host.stop() {
                return Ok(None);
            }
            let arrival = self.trace.arrival(i, load);
            let mut now = arrival.max(free);
            end_until(manager, &mut running, now)?;
            manager.set_time((now * 1_000.0).max(0.0) as u64);
            outcome.requests += 1;
            outcome.input_tokens += u64::from(request.input_tokens);
            outcome.block_accesses += u64::from(self.trace.blocks(i, self.mode));
            asked.meta = self.meta(i, &mut turns);
            let answer = if ample { 0 } else { request.output_tokens };
            let len = request.input_tokens.saturating_add(answer);
            let allocation = loop {
                self.ask_for_all(manager, i, len, &mut asked)?;
                if !host.find(manager, &asked) {
                    return Ok(None);
                }
                let tried = with_victims(manager, host, |manager| manager.allocate(&asked));
                manager.settle_choice();
                manager.forget_answer(&asked.keys);
                match tried {
                    Err(Error::NoCapacity { .. }) if !running.is_empty() => {
                        now = running.peek().map_or(now, |first| first.0.at);
                        end_until(manager, &mut running, now)?;
                    }
                    Err(Error::NeverFits { .. }) => break None,
                    got => match got? {
                        Some(allocation) => break Some(allocation),
                        None => return Ok(None),
                    },
                }
            };
            let Some(Allocation { seq, cached_tokens, .. }) = allocation else {
                outcome.rejected += 1;
                host.served(RequestOutcome { hit_tokens: 0, after_gap_tokens: 0, wait: f64::NAN });
                continue;
            };
            if !host.admit(manager, seq, request.input_tokens) {
                return Ok(None);
            }
            manager.commit(seq, request.input_tokens)?;
            host.admitted(manager);
            free = now + f64::from(request.input_tokens - cached_tokens) / rates.prefill;
            let end = free + f64::from(request.output_tokens) * rates.decode;
            let (start, first_token) = (now, free);
            let wait = first_token - arrival;
            host.served(RequestOutcome { hit_tokens: cached_tokens, after_gap_tokens: 0, wait });
            served.push(ServedTimes {
                request: i,
                arrival,
                start,
                first_token,
                end,
                cached_tokens,
            });
            running.push(Reverse(ByTime { at: end, number: i, what: seq }));
            self.count(i, cached_tokens, &mut outcome);
            if i >= half {
                outcome.hit_tokens_last_half += u64::from(cached_tokens);
            }
        }
        outcome.input_tokens_last_half =
            self.trace.requests[half..].iter().map(|r| u64::from(r.input_tokens)).sum();
        let mut waits: Vec<f64> = served.iter().map(|s| s.first_token - s.arrival).collect();
        waits.sort_unstable_by(f64::total_cmp);
        outcome.mean_wait = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
        outcome.late_wait = nearest_rank(&waits, 95);
        Ok(Some(outcome))
    }

    /// Request `i`, with room for `len` tokens: the blocks of its answer have no keys, so that they are
    /// never findable.
    fn ask_for_all(
        &self,
        manager: &Manager,
        i: usize,
        len: u32,
        asked: &mut Request,
    ) -> Result<(), Error> {
        let request = &self.trace.requests[i];
        let blocks = self.trace.blocks(i, self.mode) as usize;
        asked.num_tokens = len;
        asked.next_use.clear();
        asked.next_use.extend_from_slice(self.next_use(manager, i));
        asked.keys.clear();
        self.keys(i, blocks, &mut asked.keys);
        // A request computes at least one token of its prompt: if every block is cached, it
        // computes the last one again, for itself.
        if blocks > 0
            && request.input_tokens.is_multiple_of(self.trace.block_size)
            && manager.lookup_request(&*asked)?.tokens >= request.input_tokens
        {
            asked.keys.truncate(blocks - 1);
            asked.next_use.truncate(blocks - 1);
        }
        Ok(())
    }

    fn count(&self, i: usize, cached_tokens: u32, outcome: &mut Outcome) {
        let hit = u64::from(cached_tokens);
        let input = self.trace.requests[i].input_tokens;
        outcome.hit_tokens += hit;
        outcome.block_hits += u64::from(cached_tokens / self.trace.block_size);
        outcome.request_hit_rates += hit as f64 / f64::from(input.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::nearest_rank;

    // scenario: F24
    #[test]
    #[allow(clippy::float_cmp)] // a rank is one of the values
    fn ranks_are_the_nearest() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        for n in 0..=values.len() {
            for percent in 1..=100 {
                let found = nearest_rank(&values[..n], percent);
                // The least value that so many do not exceed.
                let enough = |k: &usize| k * 100 >= n * percent;
                let expected = (1..=n).find(enough).unwrap_or(0);
                assert_eq!(found, expected as f64, "{percent} of {n}");
            }
        }
        assert_eq!(nearest_rank(&[1.0, 2.0], 95), 2.0);
        assert_eq!(nearest_rank(&[1.0, 2.0], 50), 1.0);
    }
}
