//! How much of a prompt is there. Pure: nothing is counted, moved or owned (rule 6).

use super::Manager;
use crate::hash::{Extra, Key, Space};
use crate::index::radix::Path;
use crate::index::{Found, Index, Proof, Radix};
use crate::options::GroupKind;
use crate::pool::{BlockId, NIL};

/// A lookup's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Tokens that need not be computed.
    pub tokens: u32,
    /// Their blocks, a list a group; `NIL` where a window needs none.
    pub blocks: Vec<Vec<BlockId>>,
    /// Keys that matched while the tokens did not.
    pub collisions: u32,
}

/// What is looked up: keys, and the tokens they came from where those are known.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub keys: &'a [Key],
    pub tokens: &'a [u32],
    pub root: Key,
    pub extras: &'a [Extra],
    pub limit: usize,
}

impl Manager {
    /// How much of a prompt could be reused now.
    pub fn lookup(&self, tokens: &[u32], space: Space<'_>, extras: &[Extra]) -> Hit {
        let mut keys = Vec::new();
        let limit = self.hit_limit(tokens.len() as u32) * self.block_size() as usize;
        if self.index.takes_keys() {
            self.hasher.extend(self.hasher.root(space), extras, &tokens[..limit], &mut keys);
        }
        self.lookup_hashed(&keys, tokens, space, extras)
    }

    /// The same, with the keys of the prompt's blocks at hand.
    pub fn lookup_hashed(
        &self,
        keys: &[Key],
        tokens: &[u32],
        space: Space<'_>,
        extras: &[Extra],
    ) -> Hit {
        let (root, limit) = (self.hasher.root(space), self.hit_limit(tokens.len() as u32));
        let mut blocks = vec![Vec::new(); self.options.groups.len()];
        let wanted = Wanted { keys, tokens, root, extras, limit };
        let (count, collisions) = self.find_prefix(wanted, &mut blocks);
        Hit { tokens: count as u32 * self.block_size(), blocks, collisions }
    }

    /// The keys of the full blocks of a prompt.
    pub fn keys(&self, tokens: &[u32], space: Space<'_>, extras: &[Extra]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.hasher.extend(self.hasher.root(space), extras, tokens, &mut keys);
        keys
    }

    /// Rule 5: blocks that a hit on a prompt of `tokens` may cover.
    pub(super) fn hit_limit(&self, tokens: u32) -> usize {
        if !self.options.prefix_caching {
            return 0;
        }
        (self.less_the_last(tokens) / self.block_size()) as usize
    }

    /// Rule 5: of `tokens` of a prompt, those that need not be computed.
    pub(super) fn less_the_last(&self, tokens: u32) -> u32 {
        tokens - u32::from(self.options.compute_last_token && tokens > 0)
    }

    /// What the witness of block `i` must be.
    #[inline]
    pub(super) fn proof<'a>(&self, wanted: Wanted<'a>, i: usize) -> Option<Proof<'a>> {
        if !self.index.wants_proof() {
            return None;
        }
        let size = self.block_size() as usize;
        let tokens = wanted.tokens.get(i * size..(i + 1) * size)?;
        let previous = if i == 0 { wanted.root } else { wanted.keys[i - 1] };
        Some(Proof { link: self.hasher.link(previous, i, wanted.extras), tokens })
    }

    #[inline]
    pub(super) fn find(&self, wanted: Wanted<'_>, group: usize, i: usize) -> Found {
        let Index::Hash(index) = &self.index else { return Found::Nothing };
        index.find(&self.pool, wanted.keys[i].for_group(group), self.proof(wanted, i))
    }

    /// Fills `blocks` with the longest prefix that every group can serve (rule 11); returns its
    /// length in blocks, and collisions met.
    pub(super) fn find_prefix(
        &self,
        wanted: Wanted<'_>,
        blocks: &mut [Vec<BlockId>],
    ) -> (usize, u32) {
        if let Some(radix) = self.index.radix() {
            return (self.find_path(radix, wanted, blocks), 0);
        }
        let mut count = wanted.limit.min(wanted.keys.len());
        let mut collisions = 0;
        for (group, found) in blocks.iter_mut().enumerate() {
            found.clear();
            if self.options.groups[group] != GroupKind::Full {
                continue;
            }
            while found.len() < count {
                let i = found.len();
                if self.follow_heirs(wanted, group, count, found) {
                    continue;
                }
                match self.find(wanted, group, i) {
                    Found::Block(block) if self.follows(block, found) => found.push(block),
                    Found::Block(_) | Found::Nothing => break,
                    Found::Collision => {
                        collisions += 1;
                        break;
                    }
                }
            }
            count = found.len();
        }
        // A window group may need a shorter hit, and then another one may too.
        loop {
            let before = count;
            for (group, found) in blocks.iter_mut().enumerate() {
                if let GroupKind::SlidingWindow { window } = self.options.groups[group] {
                    count = self.find_window(wanted, group, window, count, found);
                }
            }
            if count == before {
                break;
            }
        }
        for (group, found) in blocks.iter_mut().enumerate() {
            found.truncate(count);
            if self.options.groups[group] == GroupKind::Full && self.stats.duplicates > 0 {
                self.follow_chain(found);
            }
        }
        (count, collisions)
    }

    /// The same by the tokens themselves.
    fn find_path(&self, radix: &Radix, wanted: Wanted<'_>, blocks: &mut [Vec<BlockId>]) -> usize {
        let Wanted { root, tokens, extras, limit, .. } = wanted;
        let marks = &self.hasher.marks(extras, limit)[..];
        let mut count = limit;
        for (group, found) in blocks.iter_mut().enumerate() {
            radix.find(Path { root: root.for_group(group), tokens, marks }, count, found);
            count = found.len();
        }
        for found in blocks {
            found.truncate(count);
            if self.stats.duplicates > 0 {
                self.follow_chain(found);
            }
        }
        count
    }

    /// Goes on from the last block found to the children used last, where they are the ones wanted:
    /// most prompts go on as the last one did, and that is found without the index. Not where
    /// tokens have to be compared, nor in groups whose keys are not the prompt's own.
    #[inline]
    fn follow_heirs(
        &self,
        wanted: Wanted<'_>,
        group: usize,
        count: usize,
        found: &mut Vec<BlockId>,
    ) -> bool {
        let from = found.len();
        match found.last() {
            Some(&last) if group == 0 && !self.index.wants_proof() => {
                self.pool.follow_heirs(last, &wanted.keys[from..count], found);
            }
            _ => {}
        }
        found.len() > from
    }

    /// Whether `block` comes right after the last of `found`, or a copy of it: keys that a caller
    /// made up may name blocks out of their chain.
    #[inline]
    fn follows(&self, block: BlockId, found: &[BlockId]) -> bool {
        let parent = self.pool.parent(block);
        match found.last() {
            None => parent == NIL,
            Some(&last) => {
                parent == last || (parent != NIL && self.pool.key(parent) == self.pool.key(last))
            }
        }
    }

    /// Where a key has several copies, takes those that the last block found follows: otherwise a
    /// block could be owned while the one it follows is not, which then could not die.
    fn follow_chain(&self, found: &mut [BlockId]) {
        for i in (1..found.len()).rev() {
            found[i - 1] = self.pool.parent(found[i]);
        }
    }

    /// The longest hit of at most `count` blocks whose last window is there; fills `found`.
    fn find_window(
        &self,
        wanted: Wanted<'_>,
        group: usize,
        window: u32,
        count: usize,
        found: &mut Vec<BlockId>,
    ) -> usize {
        let need = (window - 1).div_ceil(self.block_size()) as usize;
        found.clear();
        found.resize(count, NIL);
        let (mut end, mut run, mut i) = (count, 0, count);
        while i > 0 && run < need {
            i -= 1;
            if let Found::Block(block) = self.find(wanted, group, i) {
                found[i] = block;
                run += 1;
            } else {
                found[i..].fill(NIL);
                (end, run) = (i, 0);
            }
        }
        found.truncate(end);
        end
    }
}
