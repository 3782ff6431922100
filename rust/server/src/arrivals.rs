//! When requests arrive: at their times by the clock, or after the turn before has ended.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use kvframe_trace::{NO_SESSION, Trace};

use crate::options::ServerOptions;

/// A request that arrives at a time, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    pub time: f64,
    pub request: usize,
}

impl Eq for Arrival {}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arrival {
    fn cmp(&self, other: &Self) -> Ordering {
        self.time.total_cmp(&other.time).then(self.request.cmp(&other.request))
    }
}

/// Requests that have not arrived yet, as far as it is known when they will.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// By the clock, the last one first.
    clock: Vec<Arrival>,
    /// After the turn before.
    turns: BinaryHeap<Reverse<Arrival>>,
    /// In a closed loop, the turn after each request and the seconds between the two; else empty.
    next_turn: Vec<Option<Arrival>>,
    /// The times of `next_turn` are the clock's.
    is_in_turn: bool,
}

/// The next request of the same session, for each request that has one.
pub(crate) fn next_turns(trace: &Trace) -> Vec<Option<usize>> {
    let mut next = vec![None; trace.requests.len()];
    let mut last = vec![None; trace.sessions.len()];
    for (i, request) in trace.requests.iter().enumerate() {
        if request.session == NO_SESSION {
            continue;
        }
        if let Some(before) = last[request.session as usize].replace(i) {
            next[before] = Some(i);
        }
    }
    next
}

impl Arrivals {
    pub fn new(trace: &Trace, next: &[Option<usize>], options: &ServerOptions) -> Self {
        let seconds = |i: usize| trace.requests[i].timestamp_ms as f64 / 1_000.0;
        let mut follows = vec![false; trace.requests.len()];
        let mut next_turn = Vec::new();
        if options.one_at_a_time {
            let next = |j| (j < follows.len()).then(|| Arrival { time: seconds(j), request: j });
            next_turn = (1..=follows.len()).map(next).collect();
            follows.iter_mut().skip(1).for_each(|follows| *follows = true);
        }
        if options.closed_loop {
            let after = |(i, next): (usize, &Option<usize>)| {
                next.map(|j| Arrival { time: seconds(j) - seconds(i), request: j })
            };
            next_turn = next.iter().enumerate().map(after).collect();
            next.iter().flatten().for_each(|&j| follows[j] = true);
        }
        let by_clock = (0..trace.requests.len()).rev().filter(|&i| !follows[i]);
        let at = |i| Arrival { time: trace.arrival(i, options.load), request: i };
        let is_in_turn = options.one_at_a_time;
        Self { clock: by_clock.map(at).collect(), turns: BinaryHeap::new(), next_turn, is_in_turn }
    }

    /// The first to arrive.
    pub fn next(&self) -> Option<Arrival> {
        let turn = self.turns.peek().map(|first| first.0);
        match (self.clock.last().copied(), turn) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The first to arrive, if it has by `now`.
    pub fn take_due(&mut self, now: f64) -> Option<Arrival> {
        let first = self.next().filter(|first| first.time <= now)?;
        if self.clock.last() == Some(&first) {
            self.clock.pop();
        } else {
            self.turns.pop();
        }
        Some(first)
    }

    /// Notes that `request` has ended, or will never be served. The arrival time of the turn after it is now
    /// known.
    pub fn ended(&mut self, request: usize, now: f64) {
        if let Some(Some(turn)) = self.next_turn.get(request) {
            let time = if self.is_in_turn { now.max(turn.time) } else { now + turn.time };
            self.turns.push(Reverse(Arrival { time, request: turn.request }));
        }
    }
}
