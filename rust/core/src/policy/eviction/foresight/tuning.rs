//! The constants of foresight.

use super::{DEPTHS, GENERATIONS, USES};

/// What was chosen by measurement. Configuration has none of it; experiments may change it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Classes by uses, at most 5, by turns, at most 3, and by depth, at most 4; 1 tells none apart.
    pub uses: usize,
    /// See `uses`.
    pub generations: usize,
    /// See `uses`.
    pub depths: usize,
    /// Departed blocks that are watched for a return, by the capacity: gaps much longer than the
    /// cache lasts must be seen for their tails to be known.
    pub watched: usize,
    /// How many idle blocks at an age it takes to believe their rate of reuse as much as what is
    /// known without them: of those used as often, of all classes, and before that of all ages.
    pub trust: f64,
    /// Of blocks used once, twice and so on, until they have been seen: their chance of a use at each
    /// age, by that of all.
    pub prior: [f64; USES],
    /// What is kept of the past at each refresh.
    pub keep: f64,
    /// Victims from one refresh of all classes to the next: this part of the capacity.
    pub refresh: u32,
    /// Victims between two refreshes of a family at the least, so that they cost little a victim.
    pub least: u32,
    /// The first comes after as many victims: this part of the capacity.
    pub start: u32,
    /// While it begins, when there is most to learn, they are this part of all victims.
    pub first: u64,
    /// Waits of one block in so many, a power of two, are counted, from [`Tuning::few`] blocks on; their
    /// keys say which.
    pub share: u32,
    /// Among fewer blocks every wait is counted.
    pub few: u32,
    /// Block accesses that ages are told apart by, at the finest: this part of the capacity.
    pub epoch: u32,
    /// Hits by accesses that lru may get ahead.
    pub budget: f64,
    /// Victims, by the capacity, until what was learned is trusted in full: gaps longer than the cache
    /// lasts are not known before.
    pub ramp: f64,
    /// Accesses granted to the budget from the start, by the capacity.
    pub grace: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            uses: USES,
            generations: GENERATIONS,
            depths: DEPTHS,
            watched: 16,
            trust: 50.0,
            // The odds of another use after one, two and three of them, .30, .69 and .89 in traffic of
            // coding agents (FreeInference, arXiv 2609.28870); beyond, about as they go on.
            prior: [0.43, 2.2, 8.1, 16.0, 24.0],
            // Half after 64 capacities: 2^(-1/256).
            keep: 0.997_296,
            refresh: 4,
            least: 800,
            start: 64,
            first: 2,
            share: 4,
            few: 1_024,
            epoch: 64,
            budget: 0.004,
            ramp: 1.0,
            grace: 8.0,
        }
    }
}
