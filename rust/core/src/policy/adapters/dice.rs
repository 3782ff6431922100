//! Numbers drawn at random, the same ones each time from the same seed.

use crate::policy::PolicyOption;

/// The seed of a policy that draws.
pub(crate) const SEED: PolicyOption = PolicyOption::number(
    "seed",
    0,
    "Of the numbers drawn at random: the same draws from the same seed.",
);

/// splitmix64.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dice(u64);

impl Dice {
    pub fn of(seed: u32) -> Self {
        Self(u64::from(seed) << 32)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number from 0 on, below 1.
    pub fn share(&mut self) -> f64 {
        (self.throw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.throw()) * n as u128) >> 64) as usize
    }
}
