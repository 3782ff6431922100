//! What policies and sizes beside the real ones would have hit, from the traffic of an engine.
//!
//! ```text
//!                     ┌▶ Shadow (lru, 500)  ──▶ counts
//!  engine ──▶ Step ──▶│  Shadow (lfu, 500)  ──▶ counts      each: ShadowPool ──▶ TierPolicy, HashIndex
//!             once    └▶ Shadow (lfu, 1000) ──▶ counts
//! ```
//!
//! The engine says what its own requests did: begun, grown, preempted, ended ([`Step`]). A shadow lets its
//! requests do the same in its own pool; where that has no room, they wait or are preempted, as an engine's
//! would. Requests and their keys are kept once for all shadows.
//!
//! | | |
//! | --- | --- |
//! | `step` | what an engine says |
//! | `requests` | its requests, as far as they are known |
//! | `pool` | the blocks of one shadow |
//! | `one` | one shadow: which requests run there, and which wait |
//!
//! With a stride of R, every R-th block stands for R blocks: the shadow follows 1/R of the blocks in a pool
//! of 1/R of the size. Sampling whole prompts would fail if many share one beginning, because a sample would
//! have all of them or none.

mod one;
mod pool;
mod requests;
mod step;

pub use one::{Counts, Shadow};
pub use step::{Begun, Progress, Step};

use self::requests::Requests;
use crate::error::{Error, Result};
use crate::policy::Eviction;

/// How the blocks of all shadows of a set are made.
#[derive(Debug, Clone, Copy)]
pub struct Grain {
    /// Tokens of a block of the engine.
    pub block_size: u32,
    /// Blocks of the engine that one block of a shadow stands for.
    pub stride: u32,
    /// Whether a block is evicted only after those that follow it.
    pub chained: bool,
}

impl Grain {
    /// Tokens of a block of a shadow.
    fn tokens(self) -> u32 {
        self.block_size.saturating_mul(self.stride)
    }

    /// Blocks of a shadow for this many slots: the engine's blocks divided by the stride, rounded to the
    /// nearest.
    fn rows(self, slots: u32) -> u32 {
        (slots.div_ceil(self.block_size) + self.stride / 2) / self.stride
    }
}

/// Any number of shadows of one engine.
#[derive(Debug)]
pub struct ShadowSet {
    grain: Grain,
    requests: Requests,
    shadows: Vec<Shadow>,
}

impl ShadowSet {
    /// A set without shadows.
    ///
    /// # Errors
    /// [`Error::Invalid`] for blocks of no tokens, or a stride of 0.
    pub fn new(grain: Grain) -> Result<Self> {
        for (what, value) in [("block_size", grain.block_size), ("stride", grain.stride)] {
            if value == 0 {
                return Err(Error::Invalid {
                    what,
                    value: "0".into(),
                    limit: "must be at least 1".into(),
                });
            }
        }
        Ok(Self { grain, requests: Requests::new(grain), shadows: Vec::new() })
    }

    /// Adds a shadow of a pool of `capacity` blocks of the engine, which has no requests yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pool without a block; [`Error::PolicyRefused`].
    pub fn add(&mut self, capacity: u32, policy: Box<dyn Eviction>) -> Result<()> {
        self.shadows.push(Shadow::new(capacity, self.grain, policy)?);
        Ok(())
    }

    /// The shadows, in the order in which they were added.
    pub fn shadows(&self) -> &[Shadow] {
        &self.shadows
    }

    /// Requests that are followed.
    pub fn followed(&self) -> usize {
        self.requests.len()
    }

    /// Carries out a step of the engine. Ignores requests that are not known.
    ///
    /// # Errors
    /// [`Error::NeedVictims`] where a policy outside the core names none; the set is of no use any more.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        self.shadows.iter_mut().for_each(Shadow::begin_step);
        for progress in &step.ended {
            self.advance(progress, true)?;
            self.requests.forget(progress.id);
        }
        for progress in &step.grown {
            self.advance(progress, false)?;
        }
        for &id in &step.preempted {
            for shadow in &mut self.shadows {
                shadow.preempt(id, &mut self.requests)?;
            }
        }
        for shadow in &mut self.shadows {
            shadow.start_waiting(&mut self.requests)?;
        }
        for begun in &step.begun {
            self.requests.begin(begun);
            for shadow in &mut self.shadows {
                shadow.begin(begun.id, begun.first, &mut self.requests)?;
            }
        }
        Ok(())
    }

    fn advance(&mut self, progress: &Progress, ends: bool) -> Result<()> {
        if !self.requests.advance(progress) {
            return Ok(());
        }
        for shadow in &mut self.shadows {
            if ends {
                shadow.end(progress.id, &mut self.requests)?;
            } else {
                shadow.grow(progress.id, &mut self.requests)?;
            }
        }
        Ok(())
    }

    /// Every cached block is forgotten: the engine has reset its prefix cache.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn reset(&mut self) -> Result<()> {
        self.shadows.iter_mut().try_for_each(Shadow::reset)
    }

    /// Recounts every shadow: O(blocks).
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.shadows.iter().try_for_each(Shadow::check_integrity)
    }
}
