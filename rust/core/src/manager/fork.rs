//! A second sequence over the same blocks.

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::NIL;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// A sequence that shares every block of `seq`; whichever writes first copies the tail.
    /// Costs no block.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] with slots that are not computed in a group where each of the
    /// two would compute something else into them: recurrent layers, tokens behind a sink.
    pub fn fork(&mut self, seq: SeqId) -> Result<SeqId> {
        let source = self.sequences.get(seq)?;
        if self.steps_matter() && source.committed < source.len {
            let (committed, len) = (source.committed, source.len);
            return Err(Error::Invalid {
                what: "fork",
                value: format!("{seq:#x}"),
                limit: format!(
                    "{len} tokens have slots and {committed} are computed: cut it to those first"
                ),
            });
        }
        let source = source.clone();
        self.tick += 1;
        let child = self.sequences.create(self.options.groups.len());
        for &block in source.tables.iter().flatten().filter(|&&b| b != NIL) {
            self.pool.share(block);
        }
        // Nobody looked whether there is room for the child to grow, too.
        *self.sequences.get_mut(child)? = Sequence { whole: false, ..source };
        self.note(Kind::Fork, child, seq);
        Ok(child)
    }
}
