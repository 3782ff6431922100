//! What an admission policy in Python is asked, from gathering it to the end of its operation.

use kvframe_core::manager::Due;
use kvframe_core::policy::admission::{Ask, Offer, Verdict};
use kvframe_core::{Key, Manager as Core};

/// Keys seen that wait for the next question at the most.
const MANY_SEEN: usize = 1 << 16;

/// What an operation would make findable, and what the policy is to know besides.
pub struct Question {
    pub offer: Offer,
    pub ask: Ask,
    pub seen: Vec<Key>,
}

impl Question {
    /// About what is `due`; of nothing to ask, none.
    pub fn gather(core: &mut Core, due: &[Due<'_>]) -> Option<Self> {
        let mut offer = Offer::default();
        let ask = core.admission_due(due, &mut offer);
        let state = core.verdicts()?;
        if offer.is_empty() && state.seen_len() < MANY_SEEN {
            return None;
        }
        Some(Self { offer, ask, seen: state.take_seen() })
    }

    /// Hands the verdicts in.
    pub fn answer(&self, core: &mut Core, verdicts: &[Verdict]) {
        if let Some(state) = core.verdicts() {
            state.enter(&self.offer, verdicts);
        }
    }

    /// The operation is over.
    pub fn close(&self, core: &mut Core) {
        if let Some(state) = core.verdicts() {
            state.leave(&self.offer);
        }
    }
}
