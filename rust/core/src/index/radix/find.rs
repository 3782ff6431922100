//! Lookups. They change nothing, and take as long as comparing the tokens takes.

use super::Radix;
use super::nodes::NodeId;
use super::path::{PLAIN, Path};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};

/// A block that begins as a prompt goes on, but ends otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Findable; its first `tokens` tokens may be copied.
    pub source: BlockId,
    /// At least one, less than a block.
    pub tokens: u32,
}

/// Siblings tried for a hit that ends inside a block, the newest first: more would make a lookup
/// depend on how many there are.
const TRIES: usize = 64;

impl Radix {
    /// Fills `out` with the blocks of the longest prefix of `path` that is there, `limit` blocks at
    /// the most.
    pub fn find(&self, path: Path<'_>, limit: usize, out: &mut Vec<BlockId>) {
        out.clear();
        let size = self.tree.texts.size();
        let limit = limit.min(path.tokens.len() / size);
        let Some(mut node) = self.top(path.root) else { return };
        out.reserve(limit);
        while out.len() < limit {
            let from = out.len();
            // Blocks inside a node carry no multimodal items; where the prompt's do, it ends there.
            let most = path.next_mark(from + 1).min(limit) - from;
            let (mark, tokens) = (path.mark(from), &path.tokens[from * size..]);
            let mut child = self.tree.nodes[node].last_child;
            let mut same = self.common(child, mark, most, tokens);
            if same == 0 {
                let text = &tokens[..size];
                let Some(found) = self.children.find(&self.tree, node, mark, text) else { return };
                child = found;
                same = self.common(child, mark, most, tokens);
            }
            let blocks = self.tree.blocks(child);
            out.extend_from_slice(&blocks[..same]);
            if same < blocks.len() {
                return;
            }
            node = child;
        }
    }

    /// How many blocks of `node`, `most` at the most, hold what `tokens` say; 0 for no node, and for one
    /// with another mark.
    #[inline]
    fn common(&self, node: NodeId, mark: Key, most: usize, tokens: &[u32]) -> usize {
        if node == NIL || self.tree.nodes[node].mark != mark {
            return 0;
        }
        let blocks = self.tree.blocks(node);
        self.tree.texts.common(&blocks[..most.min(blocks.len())], tokens)
    }

    /// Looks behind the `found` blocks for a block that begins with the prompt's next tokens, before `until`
    /// (an absolute position), so that these could be copied. Tries only the newest 64 siblings.
    pub fn find_partial(&self, path: Path<'_>, found: &[BlockId], until: usize) -> Option<Partial> {
        let size = self.tree.texts.size();
        let start = found.len() * size;
        let until = until.min(path.tokens.len()).min(start + size - 1);
        // An item may begin later in the block than the compared text. Its effect on the KV could not be told
        // from the tokens, so marked blocks are not offered.
        if start >= until || path.mark(found.len()) != PLAIN {
            return None;
        }
        let rest = &path.tokens[start..until];
        let best = |best: Option<Partial>, source: BlockId| {
            let tokens = self.tree.texts.shared(source, rest) as u32;
            if tokens > best.map_or(0, |b| b.tokens) {
                Some(Partial { source, tokens })
            } else {
                best
            }
        };
        let (node, offset) = match found.last() {
            None => (self.top(path.root)?, 0),
            Some(&last) => self.position_after(last, found.len() as u32),
        };
        if let Some(&next) = self.tree.blocks(node).get(offset) {
            return best(None, next);
        }
        let alike = self.children.alike(&self.tree, node, rest[0]).take(TRIES);
        alike.map(|child| self.tree.blocks(child)[0]).fold(None, best)
    }

    /// A block's node, and its place there plus one; `depth` is its depth plus one.
    #[inline]
    pub(super) fn position_after(&self, block: BlockId, depth: u32) -> (NodeId, usize) {
        let node = self.place[block as usize];
        debug_assert_ne!(node, NIL, "the block is findable");
        (node, (depth - self.tree.nodes[node].start) as usize)
    }
}
