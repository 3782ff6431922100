//! A policy at work in the first tier.

use super::{Admit, Ask, Offer, Verdict};

/// What came of the blocks that were to become findable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdmissionCounts {
    /// Kept.
    pub kept: u64,
    /// Dropped, or behind one that was.
    pub dropped: u64,
    /// Of those, passed on to a lower tier.
    pub lowered: u64,
}

/// The policy, what it has done, and its buffers.
pub struct Gate {
    /// Who decides.
    pub policy: Box<dyn Admit>,
    /// What came of it.
    pub counts: AdmissionCounts,
    /// Rows of the question at hand.
    pub offer: Offer,
    /// Its answers.
    pub verdicts: Vec<Verdict>,
    /// Blocks (group, place) of the question at hand that are not kept although what follows them may
    /// be.
    pub gaps: Vec<(usize, usize)>,
}

impl Gate {
    /// A gate kept by `policy`.
    pub fn new(policy: Box<dyn Admit>) -> Self {
        Self {
            policy,
            counts: AdmissionCounts::default(),
            offer: Offer::default(),
            verdicts: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// Has the rows of `offer` judged.
    pub fn judge(&mut self, ask: Ask) {
        self.verdicts.clear();
        self.verdicts.resize(self.offer.len(), Verdict::Keep);
        self.policy.admit(&self.offer, ask, &mut self.verdicts);
    }
}
