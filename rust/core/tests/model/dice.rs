//! Choices: of a seed, the same on every machine (splitmix64), or off a tape that proptest writes.

/// Dice.
#[derive(Debug, Clone)]
pub enum Dice {
    /// Of a seed.
    Seed(u64),
    /// What is next comes last; 0, the plainest choice, once it is used up.
    Tape(Vec<u16>),
}

/// Mixes two numbers into one that depends on all bits of both.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.rotate_left(17) ^ b.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Seeds to try: as many as `KVFRAME_RUNS` says, which `make test-all` sets, else `few`.
pub fn runs(few: u64) -> u64 {
    std::env::var("KVFRAME_RUNS").map_or(few, |n| n.parse().expect("a number"))
}

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self::Seed(mix(seed, 1))
    }

    pub fn next(&mut self) -> u64 {
        match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                mix(*state, 0)
            }
            Self::Tape(tape) => tape.pop().map_or(0, u64::from),
        }
    }

    /// A number below `n` (0 if `n` is 0).
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below((high - low) as usize + 1) as u32
    }

    /// True once in `n` throws.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}
