//! Frees that wait: blocks of an ended sequence that steps still in flight may write or read.

use super::Manager;
use crate::error::Result;
use crate::events::Kind;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// Blocks that become available once a step has passed.
#[derive(Debug, Default)]
pub struct Fences {
    /// (the step, blocks of one table), in the order they came in.
    waiting: Vec<(u64, Vec<BlockId>)>,
}

impl Fences {
    /// Every block that waits, once for each owner it lost.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.waiting.iter().flat_map(|(_, blocks)| blocks.iter().copied())
    }
}

impl Manager {
    /// Ends `seq` as `release` does, but its blocks stay as they are until `fence` has passed:
    /// findable if they were, nobody else's to write.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn release_behind(&mut self, seq: SeqId, fence: u64) -> Result<()> {
        let len = self.sequences.get(seq)?.len;
        self.tick += 1;
        self.publish(seq)?;
        let tables = &self.sequences.get(seq)?.tables;
        for table in tables {
            let blocks = table.iter().copied().filter(|&b| b != NIL).collect();
            self.fences.waiting.push((fence, blocks));
        }
        self.sequences.remove(seq);
        self.note(Kind::Finish, seq, u64::from(len));
        Ok(())
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub fn pass(&mut self, fence: u64) {
        let (passed, waiting) =
            std::mem::take(&mut self.fences.waiting).into_iter().partition(|&(at, _)| at <= fence);
        self.fences.waiting = waiting;
        let passed: Vec<(u64, Vec<BlockId>)> = passed;
        for (_, blocks) in passed {
            self.tick += 1;
            self.drop_owners(0, &blocks);
        }
    }

    /// Blocks that wait for a fence.
    pub fn waiting(&self) -> usize {
        self.fences.owners().count()
    }
}
