//! When requests arrive: at their times by the clock, or after the turn before has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kvframe_trace::{ByTime, NO_SESSION, Trace};

use crate::options::ServerOptions;

/// A request that arrives at a time, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub time: f64,
    pub request: usize,
}

/// Requests that have not arrived yet, as far as it is known when they will. A number is a request's.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// By the clock, the last one first.
    clock: Vec<ByTime>,
    /// After the turn before.
    turns: BinaryHeap<Reverse<ByTime>>,
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
        let at = |i| ByTime { at: trace.arrival(i, options.load), number: i, what: () };
        let is_in_turn = options.one_at_a_time;
        Self { clock: by_clock.map(at).collect(), turns: BinaryHeap::new(), next_turn, is_in_turn }
    }

    /// The first to arrive.
    pub fn next(&self) -> Option<Arrival> {
        self.first().map(|first| Arrival { time: first.at, request: first.number })
    }

    fn first(&self) -> Option<ByTime> {
        let turn = self.turns.peek().map(|first| first.0);
        match (self.clock.last().copied(), turn) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The first to arrive, if it has by `now`.
    pub fn take_due(&mut self, now: f64) -> Option<Arrival> {
        let first = self.first().filter(|first| first.at <= now)?;
        if self.clock.last() == Some(&first) {
            self.clock.pop();
        } else {
            self.turns.pop();
        }
        Some(Arrival { time: first.at, request: first.number })
    }

    /// Notes that `request` has ended, or will never be served. The arrival time of the turn after it is now
    /// known.
    pub fn ended(&mut self, request: usize, now: f64) {
        if let Some(Some(turn)) = self.next_turn.get(request) {
            let time = if self.is_in_turn { now.max(turn.time) } else { now + turn.time };
            self.turns.push(Reverse(ByTime { at: time, number: turn.request, what: () }));
        }
    }
}
