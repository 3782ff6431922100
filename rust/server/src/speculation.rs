//! Tokens of answers are drafted, and the drafts verified in the next step.
//!
//! | module | purpose |
//! | --- | --- |
//! | `depth` | how many drafts each sequence gets, where that adapts |
//! | `drafter` | what drafting takes |
//! | `measured` | steps that were measured with drafts |

mod depth;
mod drafter;
mod measured;

pub use depth::{DraftPolicy, Switch};
pub use drafter::Drafter;
pub use measured::MeasuredSteps;

pub(crate) use depth::Depth;

use crate::profile::{Batch, StepTime};

/// Drafts of a sequence that were verified in an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// How many were right, the first ones.
    pub right: u32,
    /// How likely the drafter took each to be right, if those before it are.
    pub told: Vec<f64>,
}

/// Which drafts are right.
#[derive(Debug, Clone, PartialEq)]
pub enum Acceptance {
    /// Each with this probability if those before it are. A sequence gets as many as that is on the mean.
    Each(f64),
    /// Each place with its own probability, likewise; those behind the last one never.
    Places(Vec<f64>),
    /// As in one of these rounds, which is drawn for each step and sequence.
    Rounds(Vec<Round>),
}

impl Acceptance {
    /// The longest draft of which something is known.
    fn depth(&self) -> usize {
        match self {
            Self::Each(_) | Self::Places(_) => usize::MAX,
            Self::Rounds(rounds) => rounds.iter().map(|round| round.told.len()).max().unwrap_or(0),
        }
    }

    /// How likely the draft at `place` is right, if those before it are.
    fn of_place(&self, place: usize) -> f64 {
        match self {
            Self::Each(accepted) => *accepted,
            Self::Places(accepted) => accepted.get(place).copied().unwrap_or(0.0),
            Self::Rounds(_) => 0.0,
        }
    }

    /// The round of a sequence's step: the same however many steps were simulated before it.
    fn round(&self, request: usize, sampled: u32) -> Option<&Round> {
        let Self::Rounds(rounds) = self else { return None };
        // SplitMix64.
        let mut x =
            ((request as u64) << 32 | u64::from(sampled)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        rounds.get((x ^ (x >> 31)) as usize % rounds.len().max(1))
    }
}

/// How answers are drafted.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// Drafts of a sequence in a step, at most.
    pub drafts: u32,
    /// Which of them are right.
    pub acceptance: Acceptance,
    /// What drafting takes.
    pub drafter: Drafter,
    /// How many a step verifies.
    pub policy: DraftPolicy,
    /// What keeps [`DraftPolicy::GatedAggregate`] from another number in each step.
    pub switch: Switch,
    /// What a step's decoding takes, instead of the profile's word.
    pub measured: Option<MeasuredSteps>,
}

/// How many drafts of a sequence are right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Right {
    /// So many on the mean.
    Mean(f64),
    /// So many in this step.
    Drawn(u32),
}

impl Speculation {
    /// How many of so many drafts are right on the mean: the first ones up to the first that is wrong.
    pub fn right(&self, drafts: u32) -> f64 {
        match &self.acceptance {
            Acceptance::Each(accepted) => {
                (1..=drafts).map(|place| accepted.powi(place as i32)).sum()
            }
            Acceptance::Places(_) => {
                let mut all = 1.0;
                let so_far = |place| {
                    all *= self.acceptance.of_place(place as usize);
                    all
                };
                (0..drafts).map(so_far).sum()
            }
            Acceptance::Rounds(rounds) => {
                let sum: u64 = rounds.iter().map(|round| u64::from(round.right.min(drafts))).sum();
                sum as f64 / rounds.len().max(1) as f64
            }
        }
    }

    /// How many of so many drafts of a sequence are right in its next step.
    pub(crate) fn right_of(&self, drafts: u32, request: usize, sampled: u32) -> Right {
        match self.acceptance.round(request, sampled) {
            Some(round) => Right::Drawn(round.right.min(drafts)),
            None => Right::Mean(self.right(drafts)),
        }
    }

    /// Whether the number of drafts follows from more than the sequence itself.
    pub(crate) fn adapts(&self) -> bool {
        self.policy != DraftPolicy::Fixed
    }

    /// Seconds of a step but for the drafting, and whether they were measured, with the drafting.
    pub(crate) fn step_seconds(&self, times: &dyn StepTime, batch: &Batch) -> (f64, bool) {
        let measured = self.measured.as_ref().filter(|_| batch.n_decode > 0);
        let mean = f64::from(batch.drafts) / f64::from(batch.n_decode.max(1));
        let decoding = Batch {
            n_decode: batch.n_decode,
            kv_decode: batch.kv_decode,
            drafts: batch.drafts,
            ..Batch::default()
        };
        match measured.and_then(|table| table.seconds(times, &decoding, mean)) {
            None => (times.seconds(batch), false),
            Some(seconds) if batch.prefill_tokens == 0 => (seconds, true),
            Some(seconds) => {
                let prompts = Batch { n_decode: 0, kv_decode: 0, drafts: 0, ..*batch };
                (seconds + times.seconds(&prompts), true)
            }
        }
    }
}
