//! How many drafts each sequence gets, where that follows from the load and from what drafters tell.
//!
//! What is weighed is the tokens that a step brings for each second that it takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Acceptance, Drafter, Speculation};
use crate::profile::{Batch, StepTime};

/// How many drafts a step verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DraftPolicy {
    /// As many as a sequence may have.
    #[default]
    Fixed,
    /// The number, the same for all, that brings most with the mean acceptance.
    GoodputBudget,
    /// Each sequence its own, by what the drafter tells of it.
    GatedBudget,
    /// The number, the same for all, that brings most by what the drafter tells of each sequence.
    GatedAggregate,
}

/// What keeps the number of drafts from changing in each step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Switch {
    /// It is weighed anew every so many steps.
    pub cooldown: u32,
    /// And changes by so many of the numbers that can be had, at most.
    pub max_step: Option<u32>,
    /// Seconds that a change takes.
    pub cost: f64,
}

/// The number of drafts that is in force.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Depth {
    drafts: Option<u32>,
    steps: u32,
    /// Seconds of a change that have not been spent.
    pub owed: f64,
}

/// What a step takes and brings.
struct Weighed<'a> {
    /// Seconds to verify so many drafts of each sequence, but for the drafting; infinite where nothing was measured.
    curve: Vec<f64>,
    drafter: &'a Drafter,
    sequences: u32,
}

impl Speculation {
    /// Drafts for the next step of each decoding sequence, given as its request and the tokens that it has sampled.
    pub(crate) fn plan(
        &self,
        depth: &mut Depth,
        decoding: &[(usize, u32)],
        kv_decode: u64,
        times: &dyn StepTime,
    ) -> Vec<u32> {
        let sequences = decoding.len() as u32;
        let most = self.acceptance.depth().min(self.drafts as usize);
        let weighed = Weighed {
            curve: (0..=most as u32)
                .map(|drafts| self.verifying(times, (sequences, kv_decode), drafts))
                .collect(),
            drafter: &self.drafter,
            sequences,
        };
        let survive =
            || -> Vec<Vec<f64>> { decoding.iter().map(|&one| self.survival(one, most)).collect() };
        match self.policy {
            DraftPolicy::Fixed => vec![self.drafts; decoding.len()],
            DraftPolicy::GoodputBudget => {
                let right = |drafts: usize| f64::from(sequences) * self.right(drafts as u32);
                vec![weighed.best((0..=most).map(right)); decoding.len()]
            }
            DraftPolicy::GatedAggregate => {
                let best = weighed.best(right_by_depth(&survive(), most).into_iter());
                vec![depth.moved(best, &weighed.curve, self.switch); decoding.len()]
            }
            DraftPolicy::GatedBudget => {
                let survive = survive();
                let best = weighed.best(right_by_depth(&survive, most).into_iter());
                match self.drafter {
                    _ if best == 0 => vec![0; decoding.len()],
                    Drafter::Block { .. } => weighed.added(&survive, best),
                    _ => weighed.taken_away(&survive, best),
                }
            }
        }
    }

    fn verifying(&self, times: &dyn StepTime, of: (u32, u64), drafts: u32) -> f64 {
        let (n_decode, kv_decode) = of;
        let all = n_decode * drafts;
        let batch = Batch { n_decode, kv_decode, drafts: all, ..Batch::default() };
        match &self.measured {
            None => times.seconds(&batch),
            Some(table) => table
                .at(n_decode, drafts)
                .map_or(f64::INFINITY, |seconds| table.in_context(times, &batch, seconds)),
        }
    }

    /// For each place, how likely its draft and all before it are right.
    fn survival(&self, (request, sampled): (usize, u32), most: usize) -> Vec<f64> {
        let mut all = 1.0;
        let mut times = |accepted: f64| {
            all *= accepted.clamp(0.0, 1.0);
            all
        };
        match (&self.acceptance, self.acceptance.round(request, sampled)) {
            (Acceptance::Rounds(_), Some(round)) => {
                round.told.iter().take(most).map(|&accepted| times(accepted)).collect()
            }
            _ => (0..most).map(|place| times(self.acceptance.of_place(place))).collect(),
        }
    }
}

/// Drafts that are right together, for every number of drafts of each sequence.
fn right_by_depth(survive: &[Vec<f64>], most: usize) -> Vec<f64> {
    let at = |place: usize| survive.iter().filter_map(|one| one.get(place)).sum::<f64>();
    let mut sum = 0.0;
    let mut right = vec![0.0];
    right.extend((0..most).map(|place| {
        sum += at(place);
        sum
    }));
    right
}

impl Weighed<'_> {
    /// The number of drafts of each that brings most, where so many are right together.
    fn best(&self, right: impl Iterator<Item = f64>) -> u32 {
        let mut best = (0, f64::MIN);
        for (drafts, (right, &verifying)) in (0..).zip(right.zip(&self.curve)) {
            if !verifying.is_finite() {
                continue;
            }
            let seconds = verifying + self.drafter.evenly(drafts, self.sequences, verifying);
            let goodput = (right + f64::from(self.sequences)) / seconds;
            if goodput > best.1 {
                best = (drafts, goodput);
            }
        }
        best.0
    }

    /// Seconds to verify so many tokens of all sequences, between the numbers of drafts.
    fn verifying(&self, tokens: f64) -> f64 {
        let most = self.curve.len() - 1;
        let mean = (tokens / f64::from(self.sequences) - 1.0).clamp(0.0, most as f64);
        let below = (mean as usize).min(most.saturating_sub(1));
        let part = mean - below as f64;
        let low = self.curve[below];
        if part > 0.0 { low + part * (self.curve[below + 1] - low) } else { low }
    }

    /// From `best` drafts each, the least likely last ones are taken away as long as that brings more.
    fn taken_away(&self, survive: &[Vec<f64>], best: u32) -> Vec<u32> {
        let mut drafts: Vec<u32> = survive.iter().map(|one| best.min(one.len() as u32)).collect();
        let mut drafting: Vec<u32> = (1..=best)
            .map(|place| drafts.iter().filter(|&&count| count >= place).count() as u32)
            .collect();
        let mut seconds: f64 = drafting.iter().map(|&count| self.drafter.pass(count)).sum();
        let kept = survive.iter().zip(&drafts);
        let mut brought = f64::from(self.sequences)
            + kept.map(|(one, &count)| one[..count as usize].iter().sum::<f64>()).sum::<f64>();
        let mut tokens = f64::from(self.sequences + drafts.iter().sum::<u32>());
        let last = |drafts: &[u32], at: usize| {
            let count = drafts[at] as usize;
            (count > 0).then(|| (Reverse(survive[at][count - 1].to_bits()), at))
        };
        let mut heap: BinaryHeap<_> =
            (0..drafts.len()).filter_map(|at| last(&drafts, at)).collect();
        while let Some((Reverse(bits), at)) = heap.pop() {
            let likely = f64::from_bits(bits);
            let place = drafts[at] as usize - 1;
            let count = drafting[place];
            let saved = self.drafter.pass(count) - self.drafter.pass(count - 1);
            let now = brought / (self.verifying(tokens) + seconds);
            let then = (brought - likely) / (self.verifying(tokens - 1.0) + seconds - saved);
            if then > now {
                drafts[at] -= 1;
                drafting[place] -= 1;
                brought -= likely;
                tokens -= 1.0;
                seconds -= saved;
                heap.extend(last(&drafts, at));
            }
        }
        drafts
    }

    /// Of a block of `best` drafts, those are verified that are most likely right, as long as one more brings more.
    fn added(&self, survive: &[Vec<f64>], best: u32) -> Vec<u32> {
        let drafting = self.drafter.evenly(best, self.sequences, self.curve[best as usize]);
        let mut drafts = vec![0u32; survive.len()];
        let next = |drafts: &[u32], at: usize| {
            let count = drafts[at];
            let likely = survive[at].get(count as usize).filter(|_| count < best);
            likely.map(|likely| (likely.to_bits(), at))
        };
        let mut heap: BinaryHeap<_> =
            (0..drafts.len()).filter_map(|at| next(&drafts, at)).collect();
        let (mut brought, mut tokens) = (f64::from(self.sequences), f64::from(self.sequences));
        while let Some((bits, at)) = heap.pop() {
            let likely = f64::from_bits(bits);
            let then = self.verifying(tokens + 1.0) + drafting;
            if !then.is_finite() {
                continue;
            }
            if (brought + likely) / then <= brought / (self.verifying(tokens) + drafting) {
                break;
            }
            drafts[at] += 1;
            brought += likely;
            tokens += 1.0;
            heap.extend(next(&drafts, at));
        }
        drafts
    }
}

impl Depth {
    /// The number in force, now that `best` would bring most.
    fn moved(&mut self, best: u32, curve: &[f64], how: Switch) -> u32 {
        let Some(now) = self.drafts else {
            self.drafts = Some(best);
            return best;
        };
        self.steps += 1;
        if self.steps < how.cooldown.max(1) {
            return now;
        }
        self.steps = 0;
        let can_be_had: Vec<u32> =
            (0..).zip(curve).filter(|(_, seconds)| seconds.is_finite()).map(|(at, _)| at).collect();
        let Some(last) = can_be_had.len().checked_sub(1) else { return now };
        let place = |drafts: u32| can_be_had.partition_point(|&one| one < drafts).min(last);
        let (from, to) = (place(now), place(best));
        let most = how.max_step.map_or(last, |most| most as usize);
        let next = can_be_had[to.clamp(from.saturating_sub(most), from + most)];
        if next != now {
            self.owed += how.cost;
            self.drafts = Some(next);
        }
        next
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // whole numbers
mod tests {
    use super::*;

    /// Two sequences, steps of 10 s and 1 s a token.
    fn weighed(drafter: &Drafter) -> Weighed<'_> {
        Weighed { curve: vec![12.0, 14.0, 16.0], drafter, sequences: 2 }
    }

    #[test]
    fn each_sequence_gets_what_brings_more_than_it_takes() {
        let survive = [vec![0.9, 0.8], vec![0.1, 0.05]];
        let right = right_by_depth(&survive, 2);
        assert!((right[1] - 1.0).abs() < 1e-12 && (right[2] - 1.85).abs() < 1e-12);
        let free = Drafter::Share(0.0);
        // 2 / 12, 3 / 14, 3.85 / 16.
        assert_eq!(weighed(&free).best(right.into_iter()), 2);
        // 3.85 / 16, 3.8 / 15, 3.7 / 14, and not 2.9 / 13.
        assert_eq!(weighed(&free).taken_away(&survive, 2), [2, 0]);
        // 2 / 12, 2.9 / 13, 3.7 / 14, and not 3.8 / 15.
        let block = Drafter::Block { sequence: 0.0, weights: 0.0 };
        assert_eq!(weighed(&block).added(&survive, 2), [2, 0]);
        // Beside 100 s one more second is little: 3.85 / 116.
        let block = Drafter::Block { sequence: 0.0, weights: 100.0 };
        assert_eq!(weighed(&block).added(&survive, 2), [2, 2]);
    }

    #[test]
    fn the_number_in_force_walks_and_pays() {
        let how = Switch { cooldown: 2, max_step: Some(1), cost: 3.0 };
        let curve = [1.0, 1.0, 1.0, f64::INFINITY, 1.0];
        let mut depth = Depth::default();
        let told: Vec<(u32, f64)> =
            [4, 0, 0, 0, 0, 4, 4].map(|best| (depth.moved(best, &curve, how), depth.owed)).into();
        let due = [(4, 0.0), (4, 0.0), (2, 3.0), (2, 3.0), (1, 6.0), (1, 6.0), (2, 9.0)];
        assert_eq!(told, due);
        let mut free = Depth::default();
        let told = [4, 0, 2].map(|best| free.moved(best, &curve, Switch::default()));
        assert_eq!(told, [4, 0, 2]);
    }
}
