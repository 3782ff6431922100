//! Steps that were measured with drafts, the drafting included.

use std::collections::BTreeMap;

use crate::profile::{Batch, StepTime};

/// Seconds of steps that decode, by drafts of a sequence and sequences.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredSteps {
    /// By drafts, the sequences and the seconds, of fewer sequences first.
    rows: BTreeMap<u32, Vec<(u32, f64)>>,
    /// Tokens that each sequence attended to, if that is known.
    context: Option<u32>,
}

impl MeasuredSteps {
    /// A step that takes this many times as long as one of more sequences was disturbed.
    const DISTURBED: f64 = 1.3;
    /// What is taken off for a shorter context leaves this share.
    const LEAST: f64 = 0.25;

    /// Of rows (sequences, drafts of each, seconds). Those that were disturbed are left out. None without rows.
    pub fn new(rows: &[(u32, u32, f64)], context: Option<u32>) -> Option<Self> {
        let mut by_drafts: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
        for &(sequences, drafts, seconds) in rows {
            by_drafts.entry(drafts).or_default().push((sequences, seconds));
        }
        for rows in by_drafts.values_mut() {
            rows.sort_by_key(|&(sequences, _)| sequences);
            let mut next = f64::INFINITY;
            let all = std::mem::take(rows);
            for &(sequences, seconds) in all.iter().rev() {
                if seconds <= Self::DISTURBED * next {
                    rows.push((sequences, seconds));
                }
                next = seconds;
            }
            rows.reverse();
        }
        (!by_drafts.is_empty()).then_some(Self { rows: by_drafts, context })
    }

    /// What was measured with so many drafts, for the nearest number of sequences; of two, the lower.
    pub(super) fn at(&self, sequences: u32, drafts: u32) -> Option<f64> {
        let rows = self.rows.get(&drafts)?;
        let near = rows.iter().min_by_key(|&&(of, _)| (of.abs_diff(sequences), of));
        near.map(|&(_, seconds)| seconds)
    }

    /// Seconds with `drafts` of a sequence on the mean, between the numbers that were measured. None beyond these.
    pub(super) fn seconds(&self, times: &dyn StepTime, batch: &Batch, drafts: f64) -> Option<f64> {
        let below = self.rows.keys().rev().copied().find(|&of| f64::from(of) <= drafts)?;
        let above = self.rows.keys().copied().find(|&of| f64::from(of) >= drafts)?;
        let low = self.at(batch.n_decode, below)?;
        let high = self.at(batch.n_decode, above)?;
        let part = (drafts - f64::from(below)) / f64::from((above - below).max(1));
        Some(self.in_context(times, batch, low + part * (high - low)))
    }

    /// What was measured, with what the profile says of the batch's context against that of the measurement.
    pub(super) fn in_context(&self, times: &dyn StepTime, batch: &Batch, seconds: f64) -> f64 {
        let Some(context) = self.context else { return seconds };
        let then = Batch { kv_decode: u64::from(batch.n_decode) * u64::from(context), ..*batch };
        let more = times.seconds(batch) - times.seconds(&then);
        (seconds + more).max(Self::LEAST * seconds)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // sums of whole numbers
mod tests {
    use super::*;

    #[test]
    fn between_the_drafts_that_were_measured_lies_the_mean() {
        let rows =
            [(1, 0, 10.0), (1, 2, 14.0), (4, 2, 15.0), (8, 0, 10.0), (7, 0, 13.1), (6, 0, 12.0)];
        let table = MeasuredSteps::new(&rows, None).unwrap();
        let seconds = |n_decode: u32, drafts: f64| {
            table.seconds(&|_: &Batch| 0.0, &Batch { n_decode, ..Batch::default() }, drafts)
        };
        assert_eq!(seconds(1, 1.0), Some(12.0));
        assert_eq!(seconds(1, 2.5), None);
        // As near to 1 as to 8 would be 4.5; 7 was disturbed, and 6 is kept beside it.
        assert_eq!(
            (table.at(7, 0), table.at(5, 0), table.at(3, 0)),
            (Some(12.0), Some(12.0), Some(10.0))
        );
        assert_eq!((table.at(3, 2), table.at(9, 1)), (Some(15.0), None));
        assert_eq!(MeasuredSteps::new(&[], None), None);
    }

    #[test]
    fn another_context_takes_what_the_profile_says_of_it() {
        let table = MeasuredSteps::new(&[(2, 0, 8.0)], Some(10)).unwrap();
        let times = |batch: &Batch| 100.0 + batch.kv_decode as f64;
        let seconds = |kv_decode: u64| {
            table.seconds(&times, &Batch { n_decode: 2, kv_decode, ..Batch::default() }, 0.0)
        };
        assert_eq!((seconds(20), seconds(25), seconds(15)), (Some(8.0), Some(13.0), Some(3.0)));
        // No less than a quarter.
        assert_eq!(seconds(0), Some(2.0));
    }
}
