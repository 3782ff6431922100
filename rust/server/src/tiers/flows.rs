//! Transfers that share links evenly, each over a path of one or several, up to a most of its own: their rates are
//! max-min fair.
//!
//! That is progressive filling: all rates rise together; one that has reached its most, or crosses a link that is
//! full, stays where it is.

use std::collections::HashMap;

/// A transfer.
#[derive(Debug, Clone)]
struct Flow {
    number: u64,
    lanes: Vec<usize>,
    most: f64,
    /// Bytes that have not gone yet, and how many go in a second.
    left: f64,
    rate: f64,
}

/// What is on one way of links that paths have in common.
#[derive(Debug, Clone, Default)]
pub(super) struct Flows {
    /// Bytes a second of each link.
    rates: Vec<f64>,
    /// When a transfer began or ended last.
    clock: f64,
    active: Vec<Flow>,
    /// Those that begin later, the next one last.
    later: Vec<(f64, Flow)>,
    ended: HashMap<u64, f64>,
    /// When the others end, if none comes.
    ahead: Option<HashMap<u64, f64>>,
    count: u64,
}

impl Flows {
    /// One link more, of so many bytes a second. Returns its place.
    pub fn add_lane(&mut self, rate: f64) -> usize {
        self.rates.push(rate);
        self.rates.len() - 1
    }

    /// A transfer of at most `most` bytes a second that begins at `begin`. Returns its number.
    pub fn add(&mut self, (begin, bytes): (f64, f64), lanes: Vec<usize>, most: f64) -> u64 {
        self.count += 1;
        let begin = if self.count == 1 { begin } else { begin.max(self.clock) };
        let flow = Flow { number: self.count, lanes, most, left: bytes, rate: 0.0 };
        let at = self.later.partition_point(|&(other, _)| other > begin);
        self.later.insert(at, (begin, flow));
        self.ahead = None;
        self.count
    }

    /// The rate of each transfer that is on its way.
    fn share(&mut self) {
        let Self { rates, active, .. } = self;
        let mut room = rates.clone();
        let mut users = vec![0_u32; room.len()];
        active.iter().flat_map(|flow| &flow.lanes).for_each(|&lane| users[lane] += 1);
        let mut rising: Vec<&mut Flow> = active.iter_mut().collect();
        while !rising.is_empty() {
            let shares: Vec<f64> =
                room.iter().zip(&users).map(|(room, &users)| room / f64::from(users)).collect();
            let share =
                |flow: &Flow| flow.lanes.iter().fold(flow.most, |least, &at| least.min(shares[at]));
            let level = rising.iter().map(|flow| share(flow)).fold(f64::INFINITY, f64::min);
            let (full, others) = rising.into_iter().partition(|flow| share(flow) <= level);
            rising = others;
            let full: Vec<&mut Flow> = full;
            for flow in full {
                flow.rate = level;
                for &lane in &flow.lanes {
                    room[lane] = (room[lane] - level).max(0.0);
                    users[lane] -= 1;
                }
            }
        }
    }

    /// What happens next, if it does by `until`. False if nothing does.
    fn step(&mut self, until: f64) -> bool {
        let end = |flow: &Flow| self.clock + flow.left / flow.rate;
        let ends = self.active.iter().map(end).fold(f64::INFINITY, f64::min);
        let begins = self.later.last().map_or(f64::INFINITY, |&(begin, _)| begin);
        let time = ends.min(begins);
        if time > until || time == f64::INFINITY {
            return false;
        }
        let (clock, ended) = (self.clock, &mut self.ended);
        self.active.retain_mut(|flow| {
            if clock + flow.left / flow.rate <= time {
                ended.insert(flow.number, time);
                return false;
            }
            flow.left = (flow.left - flow.rate * (time - clock)).max(0.0);
            true
        });
        self.clock = time;
        while self.later.last().is_some_and(|&(begin, _)| begin <= time) {
            self.active.extend(self.later.pop().map(|(_, flow)| flow));
        }
        self.share();
        true
    }

    /// Time has passed.
    pub fn advance(&mut self, now: f64) {
        while self.step(now) {}
    }

    /// When a transfer ends, if no other one comes.
    pub fn end_of(&mut self, number: u64) -> f64 {
        if let Some(&end) = self.ended.get(&number) {
            return end;
        }
        let ahead = self.ahead.take().unwrap_or_else(|| {
            let mut ahead = Self { ended: HashMap::new(), ..self.clone() };
            ahead.advance(f64::MAX);
            ahead.ended
        });
        let end = ahead.get(&number).copied().unwrap_or(self.clock);
        self.ahead = Some(ahead);
        end
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

    /// When it begins, its bytes, which of three links it crosses, and its most.
    type Job = (u32, u32, usize, f64);

    fn jobs() -> impl Strategy<Value = Vec<Job>> {
        prop::collection::vec((0u32..40, 1u32..60, 1usize..8, 1.0f64..12.0), 1..12)
    }

    fn lanes(mask: usize) -> Vec<usize> {
        (0..3).filter(|lane| mask & 1 << lane != 0).collect()
    }

    fn flows(rates: [f64; 3]) -> Flows {
        let mut flows = Flows::default();
        for rate in rates {
            flows.add_lane(rate);
        }
        flows
    }

    /// Rates that rise together in small steps.
    fn raised(rates: [f64; 3], on: &[(Vec<usize>, f64)]) -> Vec<f64> {
        let (step, mut got) = (1.0 / 256.0, vec![0.0; on.len()]);
        loop {
            let used = |lane: usize, got: &[f64]| -> f64 {
                on.iter()
                    .zip(got)
                    .filter(|(one, _)| one.0.contains(&lane))
                    .map(|(_, got)| got)
                    .sum()
            };
            let may: Vec<usize> = (0..on.len())
                .filter(|&i| {
                    let (lanes, most) = &on[i];
                    let fits = |&lane: &usize| {
                        let users = on.iter().filter(|one| one.0.contains(&lane)).count();
                        used(lane, &got) + step * users as f64 <= rates[lane]
                    };
                    got[i] + step <= *most && lanes.iter().all(fits)
                })
                .collect();
            if may.is_empty() {
                return got;
            }
            for i in may {
                got[i] += step;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// No link carries more than it can, and each transfer has its most, or crosses a full link on which none is
        /// faster: that is what max-min fair means.
        #[test]
        fn rates_are_max_min_fair(jobs in jobs(), rates in [1.0f64..20.0, 1.0f64..20.0, 1.0f64..20.0]) {
            let mut flows = flows(rates);
            for &(_, bytes, mask, most) in &jobs {
                flows.add((0.0, f64::from(bytes)), lanes(mask), most);
            }
            flows.step(0.0);
            let used = |lane: usize| -> f64 {
                flows.active.iter().filter(|flow| flow.lanes.contains(&lane)).map(|flow| flow.rate).sum()
            };
            for (lane, rate) in rates.iter().enumerate() {
                prop_assert!(used(lane) <= rate + 1e-9);
            }
            for flow in &flows.active {
                let holds = |&lane: &usize| {
                    let others = flows.active.iter().filter(|other| other.lanes.contains(&lane));
                    let fastest = others.map(|other| other.rate).fold(0.0, f64::max);
                    used(lane) >= rates[lane] - 1e-9 && flow.rate >= fastest - 1e-9
                };
                prop_assert!(flow.rate >= flow.most - 1e-9 || flow.lanes.iter().any(holds));
            }
        }

        /// Against a fluid that flows in small steps.
        #[test]
        fn transfers_end_when_their_bytes_have_gone(
            jobs in jobs(), rates in [4.0f64..20.0, 4.0f64..20.0, 4.0f64..20.0]
        ) {
            let (mut jobs, tick) = (jobs, 1.0 / 128.0);
            jobs.sort_by_key(|job| job.0);
            let mut flows = flows(rates);
            let mut numbers = Vec::new();
            for &(begin, bytes, mask, most) in &jobs {
                flows.advance(f64::from(begin));
                numbers.push(flows.add((f64::from(begin), f64::from(bytes)), lanes(mask), most));
            }
            let told: Vec<f64> = numbers.iter().map(|&number| flows.end_of(number)).collect();
            flows.advance(f64::MAX);
            let ends: Vec<f64> = numbers.iter().map(|&number| flows.end_of(number)).collect();
            prop_assert_eq!(&told, &ends);
            let mut left: Vec<f64> = jobs.iter().map(|job| f64::from(job.1)).collect();
            let (mut walked, mut now) = (vec![0.0; left.len()], 0.0);
            let (mut before, mut speeds) = (Vec::new(), Vec::new());
            while left.iter().any(|&bytes| bytes > 0.0) {
                let on: Vec<usize> = (0..left.len())
                    .filter(|&i| f64::from(jobs[i].0) <= now && left[i] > 0.0).collect();
                if on != before {
                    let paths: Vec<_> = on.iter().map(|&i| (lanes(jobs[i].2), jobs[i].3)).collect();
                    speeds = raised(rates, &paths);
                    before = on.clone();
                }
                now += tick;
                for (&i, speed) in on.iter().zip(&speeds) {
                    left[i] -= speed * tick;
                    walked[i] = now;
                }
            }
            for (end, walked) in ends.iter().zip(&walked) {
                // A step of the rates and one of time, over and over.
                prop_assert!((end - walked).abs() < 0.3 + 0.02 * end, "{end} {walked}");
            }
        }
    }
}
