//! Uses for the time since the last one, by work, of a sample; what was never used again counts a tenth
//! (`RandomQuickDemotion`, arXiv 2609.28870).
//!
//! The weight is (reuses + 1) / (age + 1) · cost, where age counts block accesses.

use super::random_compute::{ByWork, SAMPLES};
use crate::policy::adapters::dice::SEED;
use crate::policy::adapters::sampled::{Drawn, Sampled, Weighed};
use crate::policy::{ATTENTION_BLOCKS, Configured, PolicyOption, PolicyOptions};

/// What a block weighs that was never used again.
const UNPROVEN: f64 = 0.1;

/// Uses, age and work.
#[derive(Debug, Clone)]
pub struct ByUses(ByWork);

/// See the module.
pub type RandomQuickDemotion = Sampled<ByUses>;

impl Configured for RandomQuickDemotion {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS, SAMPLES, SEED];

    fn with(options: PolicyOptions<'_>) -> Self {
        Self::new(ByUses(ByWork::of(options)), options.get(&SEED))
    }
}

impl Weighed for ByUses {
    const NAME: &'static str = "random-quick-demotion";

    fn weight(&self, drawn: Drawn) -> f64 {
        let proven = if drawn.uses > 1 { 1.0 } else { UNPROVEN };
        f64::from(drawn.uses) / (drawn.age + 1) as f64 * self.0.cost(drawn) * proven
    }

    fn samples(&self) -> u32 {
        self.0.samples()
    }
}
