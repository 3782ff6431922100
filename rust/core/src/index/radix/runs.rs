//! Lists of block ids in one buffer. A list lives in a chunk of a power of two; freed chunks wait in a
//! list of their size, so that steady state allocates nothing.

use crate::pool::{BlockId, NIL};

/// A list: where its chunk starts, how much of it is used, and the chunk's size as a power of two.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    at: u32,
    len: u32,
    class: u8,
}

impl Run {
    pub fn len(self) -> usize {
        self.len as usize
    }
}

#[derive(Debug)]
pub(super) struct Runs {
    words: Vec<BlockId>,
    /// First free chunk of each size; each free chunk's first word names the next.
    free: [u32; 33],
}

impl Default for Runs {
    fn default() -> Self {
        Self { words: Vec::new(), free: [NIL; 33] }
    }
}

impl Runs {
    #[inline]
    pub fn get(&self, run: Run) -> &[BlockId] {
        &self.words[run.at as usize..][..run.len as usize]
    }

    /// A list of `blocks`, which must not be empty.
    pub fn make(&mut self, blocks: &[BlockId]) -> Run {
        let run = self.room_for(blocks.len());
        self.words[run.at as usize..][..blocks.len()].copy_from_slice(blocks);
        run
    }

    /// A list of the first `count` blocks of `of`.
    pub fn copy_head(&mut self, of: Run, count: usize) -> Run {
        let run = self.room_for(count);
        self.words.copy_within(of.at as usize..of.at as usize + count, run.at as usize);
        run
    }

    pub fn push(&mut self, run: &mut Run, block: BlockId) {
        if run.len == 1 << run.class {
            self.move_to(run, run.class + 1);
        }
        self.words[(run.at + run.len) as usize] = block;
        run.len += 1;
    }

    /// Takes the last block off.
    pub fn pop(&mut self, run: &mut Run) {
        run.len -= 1;
        self.fit(run);
    }

    /// Takes the first `count` blocks off; some must remain.
    pub fn drop_head(&mut self, run: &mut Run, count: usize) {
        let (at, len) = (run.at as usize, run.len as usize);
        self.words.copy_within(at + count..at + len, at);
        run.len -= count as u32;
        self.fit(run);
    }

    pub fn set(&mut self, run: Run, index: usize, block: BlockId) {
        self.words[run.at as usize + index] = block;
    }

    /// Gives the chunk back.
    pub fn release(&mut self, run: Run) {
        let head = &mut self.free[run.class as usize];
        self.words[run.at as usize] = std::mem::replace(head, run.at);
    }

    /// Words reserved, those of free chunks included.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    fn room_for(&mut self, len: usize) -> Run {
        let class = len.next_power_of_two().trailing_zeros() as u8;
        Run { at: self.chunk(class), len: len as u32, class }
    }

    fn chunk(&mut self, class: u8) -> u32 {
        let at = self.free[class as usize];
        if at == NIL {
            let at = self.words.len();
            self.words.resize(at + (1 << class), NIL);
            return at as u32;
        }
        self.free[class as usize] = self.words[at as usize];
        at
    }

    /// Moves a list into a smaller chunk once three quarters of its chunk are unused. So a list that shrinks
    /// block by block is copied as rarely as one that grows.
    fn fit(&mut self, run: &mut Run) {
        let snug = run.len.next_power_of_two().trailing_zeros() as u8;
        if run.class > snug + 1 {
            self.move_to(run, snug + 1);
        }
    }

    fn move_to(&mut self, run: &mut Run, class: u8) {
        let at = self.chunk(class);
        self.words.copy_within(run.at as usize..(run.at + run.len) as usize, at as usize);
        self.release(*run);
        (run.at, run.class) = (at, class);
    }
}
