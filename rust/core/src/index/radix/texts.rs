//! The tokens of findable blocks, a row a block: a split moves none of them.

use crate::pool::BlockId;

#[derive(Debug)]
pub(super) struct Texts {
    size: usize,
    tokens: Vec<u32>,
}

/// The most tokens that one comparison covers if the blocks are neighbours in the pool.
const STROKE: usize = 2048;

impl Texts {
    pub fn new(size: u32) -> Self {
        Self { size: size as usize, tokens: Vec::new() }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    #[inline]
    pub fn of(&self, block: BlockId) -> &[u32] {
        &self.tokens[block as usize * self.size..][..self.size]
    }

    pub fn keep(&mut self, block: BlockId, tokens: &[u32]) {
        let (from, to) = (block as usize * self.size, (block as usize + 1) * self.size);
        if self.tokens.len() < to {
            self.tokens.resize(to, 0);
        }
        self.tokens[from..to].copy_from_slice(tokens);
    }

    /// How many of `blocks`, from the first on, hold what `tokens` says.
    pub fn common(&self, blocks: &[BlockId], tokens: &[u32]) -> usize {
        if self.size == 1 {
            let rows = blocks.iter().zip(tokens);
            return rows.take_while(|&(&b, token)| self.tokens[b as usize] == *token).count();
        }
        let most = (STROKE / self.size).max(1);
        let mut at = 0;
        while let Some(&first) = blocks.get(at) {
            let neighbours = blocks[at..].iter().take(most).zip(first..);
            let count = neighbours.take_while(|&(&block, next)| block == next).count();
            let ours = &self.tokens[first as usize * self.size..][..count * self.size];
            let theirs = &tokens[at * self.size..][..count * self.size];
            if ours != theirs {
                let rows = ours.chunks_exact(self.size).zip(theirs.chunks_exact(self.size));
                return at + rows.take_while(|(ours, theirs)| ours == theirs).count();
            }
            at += count;
        }
        at
    }

    /// How many tokens at the front of `block` are those of `tokens`.
    pub fn shared(&self, block: BlockId, tokens: &[u32]) -> usize {
        self.of(block).iter().zip(tokens).take_while(|(ours, theirs)| ours == theirs).count()
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> usize {
        self.tokens.capacity() * size_of::<u32>()
    }
}
