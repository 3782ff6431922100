//! The tree as text and as a graph, for people.

use std::fmt::Write;

use super::Radix;
use super::nodes::NodeId;
use crate::pool::{BlockId, Pool, State};

/// Tokens and blocks of a node that are written out.
const SHOWN: usize = 4;

/// A node on its way into a dump.
struct Line<'a> {
    id: NodeId,
    /// How far it is indented: nodes above it.
    level: usize,
    start: usize,
    blocks: &'a [BlockId],
    text: &'a [u32],
    owned: usize,
}

impl Radix {
    /// One line a node, indented below the one it follows: tokens covered, blocks, how many of them
    /// have an owner, and the first tokens. Siblings come in the order of their tokens.
    pub fn text(&self, pool: &Pool) -> String {
        let mut out = String::new();
        for line in self.lines(pool) {
            let Line { id, level, start, blocks, owned, .. } = line;
            if blocks.is_empty() {
                let _ = writeln!(out, "namespace {:032x}", self.tree.nodes[id].mark.0);
                continue;
            }
            let indent = "  ".repeat(level);
            let size = self.tree.texts.size();
            let (from, to) = (start * size, (start + blocks.len()) * size);
            let (ids, text) = (some(blocks), some(line.text));
            let total = blocks.len();
            let _ = writeln!(
                out,
                "{indent}tokens {from}..{to}: {text}; blocks {ids}; {owned} of {total} owned"
            );
        }
        out
    }

    /// The tree as a Graphviz graph.
    pub fn dot(&self, pool: &Pool) -> String {
        let mut out = String::from("digraph radix {\n  node [shape=box];\n");
        for line in self.lines(pool) {
            let Line { id, blocks, owned, .. } = line;
            let node = &self.tree.nodes[id];
            if blocks.is_empty() {
                let _ = writeln!(out, "  n{id} [label=\"namespace {:032x}\"];", node.mark.0);
                continue;
            }
            let (ids, text, total) = (some(blocks), some(line.text), blocks.len());
            let label = format!("{text}\\nblocks {ids}\\n{owned} of {total} owned");
            let _ = writeln!(out, "  n{id} [label=\"{label}\"];\n  n{} -> n{id};", node.parent);
        }
        out.push_str("}\n");
        out
    }

    /// Every node after the one it follows.
    fn lines(&self, pool: &Pool) -> Vec<Line<'_>> {
        let mut below: Vec<Vec<NodeId>> = vec![Vec::new(); self.tree.nodes.slots()];
        for id in self.children.ids() {
            below[self.tree.nodes[id].parent as usize].push(id);
        }
        for siblings in &mut below {
            let key = |&id: &NodeId| (self.tree.first_text(id), self.tree.nodes[id].mark);
            siblings.sort_by(|a, b| key(b).cmp(&key(a)));
        }
        let mut tops: Vec<NodeId> = self.tops.iter().copied().collect();
        tops.sort_by_key(|&id| std::cmp::Reverse(self.tree.nodes[id].mark));
        let mut left: Vec<(NodeId, usize)> = tops.into_iter().map(|id| (id, 0)).collect();
        let mut lines = Vec::with_capacity(self.nodes());
        while let Some((id, level)) = left.pop() {
            let blocks = self.tree.blocks(id);
            let is_owned = |&&b: &&BlockId| self.ring(b).any(|b| pool.state(b) == State::Committed);
            lines.push(Line {
                id,
                level,
                start: self.tree.nodes[id].start as usize,
                blocks,
                text: blocks.first().map_or(&[], |&first| self.tree.texts.of(first)),
                owned: blocks.iter().filter(is_owned).count(),
            });
            left.extend(below[id as usize].iter().map(|&child| (child, level + 1)));
        }
        lines
    }
}

/// The first few, and that there are more.
fn some(values: &[u32]) -> String {
    let mut out: Vec<String> = values.iter().take(SHOWN).map(u32::to_string).collect();
    if values.len() > SHOWN {
        out.push("…".into());
    }
    out.join(" ")
}
