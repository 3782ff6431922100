//! The least work saved for the time since the last use, of a sample (`RandomCompute`, arXiv 2609.28870).
//!
//! Time counts block accesses, and of 128 samples the one with the least cost / max(1, age) is evicted. There
//! blocks behind a missing one are hits, and any block may be drawn; here only those that may be evicted are.

use crate::policy::adapters::dice::SEED;
use crate::policy::adapters::sampled::{Drawn, Sampled, Weighed};
use crate::policy::{ATTENTION_BLOCKS, Configured, PolicyOption, PolicyOptions};

pub(super) const SAMPLES: PolicyOption =
    PolicyOption::positive("samples", 128, "Blocks drawn for a victim.");

/// The cost of a block, and how many are drawn.
#[derive(Debug, Clone)]
pub struct ByWork {
    attention_blocks: f64,
    samples: u32,
}

impl ByWork {
    pub(super) fn of(options: PolicyOptions<'_>) -> Self {
        let attention_blocks = options.get(&ATTENTION_BLOCKS).into();
        Self { attention_blocks, samples: options.get(&SAMPLES) }
    }

    /// What it takes to compute a block again, where one without attention takes 1.
    pub(super) fn cost(&self, drawn: Drawn) -> f64 {
        1.0 + f64::from(drawn.depth) / self.attention_blocks
    }
}

/// See the module.
pub type RandomCompute = Sampled<ByWork>;

impl Configured for RandomCompute {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS, SAMPLES, SEED];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self::new(ByWork::of(options), options.get(&SEED))
    }
}

impl Weighed for ByWork {
    const NAME: &'static str = "random-compute";

    fn weight(&self, drawn: Drawn) -> f64 {
        self.cost(drawn) / drawn.age.max(1) as f64
    }

    fn samples(&self) -> u32 {
        self.samples
    }
}
