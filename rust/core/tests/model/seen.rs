//! How often a run did what is rare.

/// How often something happened that is rare.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    pub operations: u64,
    /// Prompts that go on inside a partial block.
    pub tails: u64,
    pub lapsed_copies: u64,
    pub lapsed_loads: u64,
    /// In a step.
    pub forks: u64,
    pub preempted: u64,
    /// Prompts of which more was found when they were matched again.
    pub rematched: u64,
    /// Namespaces and sessions that were forgotten.
    pub cleared: u64,
}

impl std::iter::Sum for Seen {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            operations: a.operations + b.operations,
            tails: a.tails + b.tails,
            lapsed_copies: a.lapsed_copies + b.lapsed_copies,
            lapsed_loads: a.lapsed_loads + b.lapsed_loads,
            forks: a.forks + b.forks,
            preempted: a.preempted + b.preempted,
            rematched: a.rematched + b.rematched,
            cleared: a.cleared + b.cleared,
        })
    }
}

impl Seen {
    /// Whether nothing was too rare to say anything.
    pub fn is_enough(&self) -> bool {
        let rare = [self.tails, self.lapsed_copies, self.lapsed_loads, self.rematched];
        rare.iter().all(|times| times * 16_000 > self.operations)
            && [self.forks, self.preempted, self.cleared]
                .iter()
                .all(|times| times * 1000 > self.operations)
    }
}
