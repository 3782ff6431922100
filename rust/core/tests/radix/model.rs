//! What the tree means, as short as it can be said: a map from whole prefixes to blocks.

use std::collections::BTreeMap;

use kvframe_core::index::radix::{PLAIN, Path};
use kvframe_core::{BlockId, Key};

/// A namespace, then each block's mark and tokens.
type Prefix = (Key, Vec<(Key, Vec<u32>)>);

#[derive(Default)]
pub struct Model {
    held: BTreeMap<Prefix, Vec<BlockId>>,
    owners: BTreeMap<BlockId, u32>,
}

fn prefix(path: Path<'_>, size: usize, blocks: usize) -> Prefix {
    let mark = |i: usize| path.marks.iter().find(|m| m.0 as usize == i).map_or(PLAIN, |m| m.1);
    let rows = path.tokens.chunks_exact(size).take(blocks).enumerate();
    (path.root, rows.map(|(i, row)| (mark(i), row.to_vec())).collect())
}

impl Model {
    pub fn store(&mut self, path: Path<'_>, size: usize, blocks: &[BlockId]) {
        for (i, &block) in blocks.iter().enumerate() {
            let copies = self.held.entry(prefix(path, size, i + 1)).or_default();
            if !copies.contains(&block) {
                copies.push(block);
            }
        }
    }

    pub fn own(&mut self, path: &[BlockId]) {
        for &block in path {
            *self.owners.entry(block).or_default() += 1;
        }
    }

    pub fn disown(&mut self, path: &[BlockId]) {
        for &block in path {
            let count = self.owners.get_mut(&block).expect("owned");
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&block);
            }
        }
    }

    pub fn remove(&mut self, block: BlockId) {
        for copies in self.held.values_mut() {
            copies.retain(|&b| b != block);
        }
        self.held.retain(|_, copies| !copies.is_empty());
    }

    /// The blocks that may stand for each block of the longest prefix there.
    pub fn find(&self, path: Path<'_>, size: usize) -> Vec<&[BlockId]> {
        let most = path.tokens.len() / size;
        (1..=most).map_while(|n| self.held.get(&prefix(path, size, n)).map(Vec::as_slice)).collect()
    }

    /// The most tokens of the next block that can be copied, less than a block and before `until`.
    pub fn partial(&self, path: Path<'_>, size: usize, found: usize, until: usize) -> usize {
        let until = until.min(path.tokens.len()).min((found + 1) * size - 1);
        if path.marks.iter().any(|m| m.0 as usize == found) || until <= found * size {
            return 0;
        }
        let (above, rest) = (prefix(path, size, found), &path.tokens[found * size..until]);
        let next = self.held.keys().filter_map(|(root, rows)| {
            let ((mark, row), before) = rows.split_last()?;
            (*root == above.0 && before == above.1 && *mark == PLAIN).then_some(row)
        });
        let shared = next
            .map(|row| row.iter().zip(rest).take_while(|(ours, theirs)| ours == theirs).count());
        shared.max().unwrap_or(0)
    }

    /// Evictable, protected, total.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let total = self.held.values().map(Vec::len).sum::<usize>();
        (total - self.owners.len(), self.owners.len(), total)
    }

    /// Every block that stands at `block`'s place.
    pub fn holds(&self, block: BlockId) -> bool {
        self.held.values().any(|copies| copies.contains(&block))
    }
}
