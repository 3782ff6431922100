//! How many blocks a sequence holds at once on its way to a length.

use std::iter::once;

use super::Layout;

impl Layout {
    /// Blocks that a sequence of `len` tokens holds at some time, whatever its steps: exact where
    /// that is more than `room`, else from above. The groups need not peak at the same length.
    pub fn least(&self, len: u32, encoder: u32, room: u64) -> u64 {
        let each: u64 = self.groups().iter().map(|reach| u64::from(reach.most(len))).sum();
        let most = each + self.cross_blocks(encoder);
        if most <= room || self.groups().len() == 1 {
            return most;
        }
        let held = |at| self.groups().iter().map(|reach| u64::from(reach.held(at, 0))).sum();
        self.peak(0..len, held).unwrap_or(0) + self.cross_blocks(encoder)
    }

    /// The most that `held` says of the lengths in `lengths`, if it goes up only where some block
    /// begins, and what it says of a length is no more than of one a period later.
    pub fn peak<N: Ord>(
        &self,
        lengths: std::ops::Range<u32>,
        held: impl Fn(u32) -> N,
    ) -> Option<N> {
        let (start, end) = (u64::from(lengths.start), u64::from(lengths.end));
        let first = start.max(end.saturating_sub(self.period()));
        let size = u64::from(self.block_size());
        let begins = (first.next_multiple_of(size)..end).step_by(size as usize);
        once(first).filter(|&at| at < end).chain(begins).map(|at| held(at as u32)).max()
    }
}
