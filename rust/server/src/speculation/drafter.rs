//! What drafting takes.

/// A drafter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drafter {
    /// This share of the step for each draft of a sequence.
    Share(f64),
    /// A small model that runs once for each place: with the sequences that still draft there.
    Autoregressive {
        /// Seconds of one token's operations.
        token: f64,
        /// Seconds to read what every pass reads.
        dense: f64,
        /// Seconds to read one expert.
        expert: f64,
        /// Experts that are chosen among, how many a token takes, and how many every token takes besides.
        experts: (u32, u32, u32),
    },
    /// One pass drafts a block of a fixed size, however much of it is verified.
    Block {
        /// Seconds of one sequence's operations.
        sequence: f64,
        /// Seconds to read the weights.
        weights: f64,
    },
}

impl Drafter {
    /// Seconds of one place's pass, for so many sequences.
    pub(super) fn pass(&self, sequences: u32) -> f64 {
        let Self::Autoregressive { token, dense, expert, experts: (of, used, shared) } = *self
        else {
            return 0.0;
        };
        if sequences == 0 {
            return 0.0;
        }
        let of = f64::from(of);
        let draws = f64::from(sequences) * f64::from(used);
        // Different ones among so many draws.
        let read = if of > 0.0 { of * (1.0 - (1.0 - 1.0 / of).powf(draws)) } else { 0.0 };
        (token * f64::from(sequences)).max(dense + (f64::from(shared) + read) * expert)
    }

    /// Seconds for sequences with so many drafts each, beside a step of `verifying` seconds.
    pub(crate) fn seconds(&self, drafts: impl Iterator<Item = u32>, verifying: f64) -> f64 {
        let drafts: Vec<u32> = drafts.collect();
        let deepest = drafts.iter().copied().max().unwrap_or(0);
        match *self {
            _ if deepest == 0 => 0.0,
            Self::Share(share) => share * f64::from(deepest) * verifying,
            Self::Autoregressive { .. } => {
                let at = |place| drafts.iter().filter(|&&count| count >= place).count() as u32;
                (1..=deepest).map(|place| self.pass(at(place))).sum()
            }
            Self::Block { sequence, weights } => (sequence * drafts.len() as f64).max(weights),
        }
    }

    /// The same, of `sequences` with `count` drafts each.
    pub(super) fn evenly(&self, count: u32, sequences: u32, verifying: f64) -> f64 {
        self.seconds(std::iter::repeat_n(count, sequences as usize), verifying)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // sums of small binary fractions
mod tests {
    use super::*;

    #[test]
    fn a_small_model_runs_for_each_place_with_those_that_draft_there() {
        let drafter =
            Drafter::Autoregressive { token: 1.0, dense: 2.0, expert: 1.0, experts: (2, 1, 1) };
        // One that all take, and one, one and a half, or nearly two of the others.
        assert_eq!((drafter.pass(0), drafter.pass(1), drafter.pass(2)), (0.0, 4.0, 4.5));
        // Five tokens' operations take longer than reading 2 + 1 + 1.9375.
        assert_eq!(drafter.pass(5), 5.0);
        assert_eq!(drafter.seconds([2, 1, 0].into_iter(), 99.0), 4.5 + 4.0);
        assert_eq!(drafter.evenly(2, 2, 99.0), 9.0);
    }

    #[test]
    fn a_block_takes_the_same_however_much_of_it_is_verified() {
        let drafter = Drafter::Block { sequence: 2.0, weights: 5.0 };
        assert_eq!((drafter.evenly(1, 2, 99.0), drafter.evenly(7, 3, 99.0)), (5.0, 6.0));
        assert_eq!(drafter.evenly(0, 3, 99.0), 0.0);
        assert_eq!(Drafter::Share(0.25).seconds([3, 1].into_iter(), 8.0), 6.0);
    }
}
