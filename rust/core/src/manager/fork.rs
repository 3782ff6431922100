//! A second sequence over the same blocks.

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::pool::NIL;
use crate::sequence::{SeqId, Sequence, Usage};

impl Manager {
    /// A sequence that shares every block of `seq`; whichever writes first copies the tail.
    /// Costs no block.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn fork(&mut self, seq: SeqId) -> Result<SeqId> {
        let source = self.sequences.get(seq)?.clone();
        self.tick += 1;
        let child = self.sequences.create(self.options.groups.len());
        for &block in source.tables.iter().flatten().filter(|&&b| b != NIL) {
            self.pool.share(block);
        }
        // Nobody looked whether there is room for the child to grow, too.
        *self.sequences.get_mut(child)? =
            Sequence { whole: false, usage: Usage::default(), ..source };
        self.note(Kind::Fork, child, seq);
        Ok(child)
    }

    /// A sequence that shares the first `upto` computed tokens of `seq` and knows no more. With
    /// `copy`, a partial last block is copied at once, not when it is written on.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`] beyond what is computed; [`Error::Invalid`] where a
    /// window has moved on; with `copy`, [`Error::NoCapacity`] and [`Error::NeedVictims`].
    pub fn fork_prefix(&mut self, seq: SeqId, upto: u32, copy: bool) -> Result<SeqId> {
        let committed = self.sequences.get(seq)?.committed;
        if upto > committed {
            let (asked, limit) = (u64::from(upto), u64::from(committed));
            return Err(Error::CommitPastEnd { asked, limit });
        }
        self.check_cut(seq, upto, &|_| false)?;
        let (tail, rest) = ((upto / self.block_size()) as usize, upto % self.block_size());
        let copies = copy && rest > 0;
        if copies {
            let tables = &self.sequences.get(seq)?.tables;
            let needed = tables.iter().filter(|table| table[tail] != NIL).count() as u32;
            self.check_room(needed, 0)?;
        }
        let child = self.fork(seq)?;
        self.cut(child, upto)?;
        if copies {
            self.copy_tail(child, tail, rest)?;
        }
        Ok(child)
    }
}
