//! As `random-compute`, but a draw costs a node of the prefix tree a chunk (`PartialNodeRandomCompute`,
//! arXiv 2609.28870), from its tail: under the rule of leaves nothing else can be evicted of it.
//!
//! A node's blocks are those that have always been used together; its tail is weighed. The paper draws 32
//! nodes. How long its chunk is, it does not tell: 16 blocks of 16 tokens are `LMCache`'s.

use super::random_compute::ByWork;
use crate::policy::adapters::dice::SEED;
use crate::policy::adapters::sampled::{Drawn, Sampled, Weighed};
use crate::policy::{ATTENTION_BLOCKS, Configured, PolicyOption, PolicyOptions};

const SAMPLES: PolicyOption = PolicyOption::positive("samples", 32, "Nodes drawn for a chunk.");

pub(super) const CHUNK: PolicyOption =
    PolicyOption::positive("chunk_blocks", 16, "Blocks that a tail loses at a time.");

/// Work, and how much of a node goes at a time.
#[derive(Debug, Clone)]
pub struct ByNode {
    work: ByWork,
    samples: u32,
    chunk: u32,
}

/// See the module.
pub type PartialNodeRandomCompute = Sampled<ByNode>;

impl Configured for PartialNodeRandomCompute {
    const OPTIONS: &'static [PolicyOption] = &[ATTENTION_BLOCKS, CHUNK, SAMPLES, SEED];

    fn with(options: PolicyOptions<'_>) -> Self {
        let (samples, chunk) = (options.get(&SAMPLES), options.get(&CHUNK));
        Self::new(ByNode { work: ByWork::of(options), samples, chunk }, options.get(&SEED))
    }
}

impl Weighed for ByNode {
    const NAME: &'static str = "partial-node-random-compute";

    fn weight(&self, drawn: Drawn) -> f64 {
        self.work.weight(drawn)
    }

    fn samples(&self) -> u32 {
        self.samples
    }

    fn chunk(&self) -> u32 {
        self.chunk
    }
}
