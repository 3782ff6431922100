//! The lengths and state of a sequence while the lists of a step are checked.

use super::{Sequence, check_filled};
use crate::error::{Error, Result};

/// A sequence while a step is checked: its lengths after the lists that were read so far, and which lists
/// name it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    /// The number of the step that this mark belongs to. A mark of an earlier step is void.
    pub step: u64,
    /// Tokens with slots, less those cut.
    pub len: u32,
    /// Tokens known, less those cut.
    pub known: u32,
    /// Of those, tokens whose ids are missing and not filled.
    pub missing: u32,
    /// Tokens committed.
    pub committed: u32,
    /// Whether a token may be appended to the sequence in its present state, before any cut by this step.
    pub open: bool,
    /// Whether the step cuts it.
    pub cut: bool,
    /// Whether the step brings missing ids.
    pub fills: bool,
    /// Whether the step commits it.
    pub commits: bool,
    /// Whether the step appends to it or extends it.
    pub grows: bool,
    /// Whether the step ends it.
    pub ends: bool,
}

impl Mark {
    /// The mark of a sequence that no list has named yet.
    #[inline]
    pub fn begin(step: u64, sequence: &Sequence) -> Self {
        Self {
            step,
            len: sequence.len,
            known: sequence.known(),
            missing: sequence.unknown,
            committed: sequence.committed,
            open: sequence.is_open() && sequence.has_place(sequence.len),
            ..Self::default()
        }
    }

    /// Whether the step may commit it up to `upto` tokens.
    ///
    /// # Errors
    /// [`Error::CommitPastEnd`]; [`Error::Backwards`]; [`Error::Invalid`] past the known ids.
    #[inline]
    pub fn check_commit(&self, upto: u32) -> Result<()> {
        if upto > self.len {
            let limit = u64::from(self.len);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        let floor = self.committed.min(self.len);
        if upto < floor {
            let (asked, limit) = (u64::from(upto), u64::from(floor));
            return Err(Error::Backwards { what: "commit", asked, limit });
        }
        check_filled(upto, self.known - self.missing)
    }
}
