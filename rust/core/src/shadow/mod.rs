//! What policies and sizes beside the real ones would have hit, from the traffic of an engine.
//!
//! ```text
//!                     ┌▶ Shadow (lru, 500)  ──▶ counts
//!  engine ──▶ Step ──▶│  Shadow (lfu, 500)  ──▶ counts      each: ShadowPool ──▶ TierPolicy, Keys
//!             once    └▶ Shadow (lfu, 1000) ──▶ counts
//! ```
//!
//! There are two ways. If it is known how the engine makes up its steps ([`Batching`]), it says which requests
//! came and how much each has generated, and each shadow makes up steps of its own: where more is found,
//! requests are computed and end sooner, and in a small pool fewer run at once. Otherwise the engine says what
//! its own requests did: begun, grown, preempted, ended ([`Step`]). A shadow lets its requests do the same
//! in its own pool; where that has no room, they wait or are preempted. Requests and their keys are kept
//! once for all shadows.
//!
//! | | |
//! | --- | --- |
//! | `step` | what an engine says |
//! | `pool`, `keys` | the blocks of one shadow, and how they are found |
//! | `sample` | which blocks are followed |
//! | `arrivals`, `scheduled` | requests that came, and a shadow that makes up its own steps |
//! | `requests`, `one` | requests as the engine ran them, and a shadow that does as the engine did |

mod arrivals;
mod keys;
mod one;
mod pool;
mod requests;
mod sample;
mod scheduled;
mod step;

pub use one::Counts;
pub use scheduled::Batching;
pub use step::{Arrived, Begun, Generated, Progress, Progressed, Step};

use self::arrivals::Arrivals;
use self::one::Shadow;
use self::requests::Requests;
use self::scheduled::Scheduled;
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
    /// Blocks that each pool has beside its capacity, and no request may have.
    pub reserved: u32,
}

impl Grain {
    /// Tokens of a block of a shadow.
    fn tokens(self) -> u32 {
        self.block_size.saturating_mul(self.stride)
    }
}

/// The shadows, by how they come to their steps.
#[derive(Debug)]
enum Way {
    Followed(Requests, Vec<Shadow>),
    Scheduled(Batching, Arrivals, Vec<Scheduled>),
}

/// Any number of shadows of one engine.
#[derive(Debug)]
pub struct ShadowSet {
    grain: Grain,
    way: Way,
}

impl ShadowSet {
    /// A set without shadows, which make up their own steps if it is known how.
    ///
    /// # Errors
    /// [`Error::Invalid`] for blocks of no tokens, a stride of 0, or steps without requests or tokens.
    pub fn new(grain: Grain, batching: Option<Batching>) -> Result<Self> {
        let mut least = vec![("block_size", grain.block_size), ("stride", grain.stride)];
        if let Some(batching) = batching {
            least.push(("max_num_seqs", batching.max_requests));
            least.push(("max_num_batched_tokens", batching.max_tokens));
        }
        for (what, value) in least {
            if value == 0 {
                return Err(Error::Invalid {
                    what,
                    value: "0".into(),
                    limit: "must be at least 1".into(),
                });
            }
        }
        let way = match batching {
            Some(batching) => Way::Scheduled(batching, Arrivals::new(grain.stride), Vec::new()),
            None => Way::Followed(Requests::new(grain), Vec::new()),
        };
        Ok(Self { grain, way })
    }

    /// Adds a shadow of a pool of `capacity` blocks of the engine, before its first step.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pool without a block; [`Error::PolicyRefused`].
    pub fn add(&mut self, capacity: u32, policy: Box<dyn Eviction>) -> Result<()> {
        match &mut self.way {
            Way::Followed(requests, shadows) => {
                requests.sampler.fit(capacity);
                shadows.push(Shadow::new(capacity, self.grain, policy)?);
            }
            Way::Scheduled(batching, arrivals, shadows) => {
                arrivals.sampler.fit(capacity);
                shadows.push(Scheduled::new(capacity, self.grain, *batching, policy)?);
            }
        }
        Ok(())
    }

    /// What each shadow has counted, in the order in which they were added.
    pub fn counts(&self) -> Vec<Counts> {
        match &self.way {
            Way::Followed(_, shadows) => shadows.iter().map(Shadow::counts).collect(),
            Way::Scheduled(_, arrivals, shadows) => {
                shadows.iter().map(|shadow| shadow.counts(arrivals)).collect()
            }
        }
    }

    /// Requests that are followed, and have not ended.
    pub fn followed(&self) -> usize {
        match &self.way {
            Way::Followed(requests, _) => requests.len(),
            Way::Scheduled(_, arrivals, _) => arrivals.live(),
        }
    }

    /// Carries out a step of the engine. Ignores requests that are not known.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the shadows make up their own steps; [`Error::NeedVictims`] where a policy outside
    /// the core names none, and then the set is of no use any more.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        let Way::Followed(requests, shadows) = &mut self.way else {
            return Err(other("step", "these shadows make up their own steps"));
        };
        shadows.iter_mut().for_each(Shadow::begin_step);
        for progress in &step.ended {
            if requests.advance(progress) {
                shadows.iter_mut().try_for_each(|shadow| shadow.end(progress.id, requests))?;
            }
            requests.forget(progress.id);
        }
        for progress in &step.grown {
            if requests.advance(progress) {
                shadows.iter_mut().try_for_each(|shadow| shadow.grow(progress.id, requests))?;
            }
        }
        for &id in &step.preempted {
            shadows.iter_mut().try_for_each(|shadow| shadow.preempt(id, requests))?;
        }
        shadows.iter_mut().try_for_each(|shadow| shadow.start_waiting(requests))?;
        for begun in &step.begun {
            requests.begin(begun);
            let (id, first) = (begun.id, begun.first);
            shadows.iter_mut().try_for_each(|shadow| shadow.begin(id, first, requests))?;
        }
        Ok(())
    }

    /// Takes in what came of some steps of the engine. Ignores requests that are not known.
    ///
    /// # Errors
    /// As [`ShadowSet::step`], for shadows that do not make up their own steps.
    pub fn advance(&mut self, told: &Progressed) -> Result<()> {
        let Way::Scheduled(_, arrivals, shadows) = &mut self.way else {
            return Err(other("advance", "these shadows do as the engine does"));
        };
        for arrived in &told.arrived {
            arrivals.add(arrived, shadows.len());
        }
        for &(id, found) in &told.found {
            if let Some(number) = arrivals.begin(id, found) {
                for shadow in shadows.iter_mut() {
                    shadow.begun(number, arrivals);
                }
            }
        }
        told.running.iter().for_each(|generated| arrivals.advance(generated));
        told.ended.iter().for_each(|generated| arrivals.end_one(generated));
        let (step, rests) = (told.step, told.rests);
        shadows.iter_mut().try_for_each(|shadow| shadow.advance(step, rests, arrivals))
    }

    /// Every cached block is forgotten: the engine has reset its prefix cache, after the step of that number if
    /// the shadows make up their own.
    ///
    /// # Errors
    /// [`Error::Integrity`].
    pub fn reset(&mut self, step: u64) -> Result<()> {
        match &mut self.way {
            Way::Followed(_, shadows) => shadows.iter_mut().try_for_each(Shadow::reset),
            Way::Scheduled(_, _, shadows) => {
                for shadow in shadows {
                    shadow.reset(step);
                }
                Ok(())
            }
        }
    }

    /// Recounts every shadow: O(blocks).
    ///
    /// # Errors
    /// [`Error::Integrity`] with what disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        match &self.way {
            Way::Followed(_, shadows) => shadows.iter().try_for_each(Shadow::check_integrity),
            Way::Scheduled(_, _, shadows) => {
                shadows.iter().try_for_each(Scheduled::check_integrity)
            }
        }
    }
}

fn other(what: &'static str, limit: &str) -> Error {
    Error::Invalid { what, value: "called".into(), limit: limit.into() }
}
