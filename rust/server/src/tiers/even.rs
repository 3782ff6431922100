//! One way over a link whose transfers share it evenly (processor sharing), each up to a most of its own.
//!
//! All that are on the link are served alike, so that each needs only what has been served to one by the time that
//! it ends.

use std::collections::{BTreeSet, HashMap};

/// Numbers that are not negative, in their order: so are their bits.
fn ordered(value: f64) -> u64 {
    value.max(0.0).to_bits()
}

/// What is on one way of a link.
#[derive(Debug, Clone)]
pub(super) struct Even {
    rate: f64,
    each: f64,
    clock: f64,
    /// Bytes served to each that was here since the link was last empty.
    served: f64,
    /// What will have been served when a transfer ends, and its number.
    active: BTreeSet<(u64, u64)>,
    /// Those that begin later: when, their numbers, and their bytes.
    later: Vec<(f64, u64, f64)>,
    ended: HashMap<u64, f64>,
    count: u64,
}

impl Even {
    /// Bytes a second for all, and for one at most.
    pub fn new(rate: f64, each: f64) -> Self {
        Self {
            rate,
            each,
            clock: f64::NEG_INFINITY,
            served: 0.0,
            active: BTreeSet::new(),
            later: Vec::new(),
            ended: HashMap::new(),
            count: 0,
        }
    }

    /// A transfer that begins at `begin`. Returns its number.
    pub fn add(&mut self, begin: f64, bytes: f64) -> u64 {
        self.count += 1;
        // The last one is the next to begin.
        let begin = begin.max(self.clock);
        let at = self.later.partition_point(|&(other, ..)| other > begin);
        self.later.insert(at, (begin, self.count, bytes));
        self.count
    }

    /// What happens next at or before `until`, and then. False if nothing does.
    fn step(&mut self, until: f64) -> bool {
        let rate = self.each.min(self.rate / self.active.len().max(1) as f64);
        let first = self.active.first().map(|&(target, _)| f64::from_bits(target));
        let ends = first
            .map_or(f64::INFINITY, |target| self.clock + (target - self.served).max(0.0) / rate);
        let begins = self.later.last().map_or(f64::INFINITY, |&(begin, ..)| begin);
        let time = ends.min(begins);
        if time > until || time == f64::INFINITY {
            if !self.active.is_empty() && until > self.clock {
                self.served += rate * (until - self.clock);
            }
            self.clock = self.clock.max(until);
            return false;
        }
        if ends <= begins {
            self.served = first.unwrap_or(self.served);
        } else if !self.active.is_empty() {
            self.served += rate * (time - self.clock);
        }
        self.clock = time;
        let past = ordered(self.served);
        while let Some(&(target, number)) = self.active.first()
            && target <= past
        {
            self.active.pop_first();
            self.ended.insert(number, time);
        }
        if self.active.is_empty() {
            self.served = 0.0;
        }
        while let Some(&(begin, number, bytes)) = self.later.last()
            && begin <= time
        {
            self.later.pop();
            self.active.insert((ordered(self.served + bytes), number));
        }
        true
    }

    /// Lets time pass.
    pub fn advance(&mut self, now: f64) {
        while self.step(now) {}
    }

    /// When a transfer ends, if no other one comes.
    pub fn end_of(&self, number: u64) -> f64 {
        if let Some(&end) = self.ended.get(&number) {
            return end;
        }
        let mut ahead = Self { ended: HashMap::new(), ..self.clone() };
        while !ahead.ended.contains_key(&number) && ahead.step(f64::MAX) {}
        ahead.ended.get(&number).copied().unwrap_or(self.clock)
    }

    /// A transfer that has ended is asked for no more.
    pub fn forget(&mut self, number: u64) {
        self.ended.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Against the rule walked in small steps; and nothing is carried faster than the link does.
        #[test]
        fn each_gets_its_share(
            jobs in prop::collection::vec((0u32..40, 1u32..60), 1..12), each in 1.0f64..12.0
        ) {
            let (rate, tick) = (10.0, 1.0 / 1024.0);
            let mut link = Even::new(rate, each);
            let mut begins: Vec<(f64, f64)> =
                jobs.iter().map(|&(at, bytes)| (f64::from(at), f64::from(bytes))).collect();
            begins.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut numbers = Vec::new();
            for &(begin, bytes) in &begins {
                link.advance(begin);
                numbers.push(link.add(begin, bytes));
            }
            let ends: Vec<f64> = numbers.iter().map(|&number| link.end_of(number)).collect();
            let mut left: Vec<f64> = begins.iter().map(|&(_, bytes)| bytes).collect();
            let mut walked = vec![0.0; left.len()];
            let mut now = 0.0;
            while left.iter().any(|&bytes| bytes > 0.0) {
                let on: Vec<usize> = (0..left.len())
                    .filter(|&i| begins[i].0 <= now && left[i] > 0.0).collect();
                let speed = each.min(rate / on.len().max(1) as f64);
                now += tick;
                for i in on {
                    left[i] -= speed * tick;
                    walked[i] = now;
                }
            }
            for (end, walked) in ends.iter().zip(&walked) {
                prop_assert!((end - walked).abs() < 0.05, "{end} {walked}");
            }
            let (first, last) = (begins[0].0, ends.iter().copied().fold(0.0, f64::max));
            let all: f64 = begins.iter().map(|&(_, bytes)| bytes).sum();
            prop_assert!(last - first >= all / rate - 1e-9);
        }
    }
}
