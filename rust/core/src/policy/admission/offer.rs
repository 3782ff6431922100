//! Blocks about to enter a tier, as columns.

use crate::hash::Key;
use crate::sequence::Meta;

/// One block about to enter.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfferRow {
    /// Key of its prefix, the same in every layer group.
    pub key: Key,
    /// Key of the prefix one block longer, where its sequence knows so much; 0 otherwise.
    pub next: Key,
    /// Place in the prefix, in blocks of its group.
    pub depth: u32,
    /// Tokens that it holds.
    pub span: u32,
    /// Layer group.
    pub group: u8,
    /// Whether it holds the state of recurrent layers.
    pub state: bool,
    /// Tokens known of the request.
    pub reach: u32,
    /// Of those, tokens of its prompt.
    pub prompt: u32,
    /// Uses since it became findable in the tier above; 0 for what was computed just now.
    pub uses: u32,
    /// The request.
    pub meta: Meta,
}

/// Rows of one question, each column by itself. Those of one sequence and group stand together, in the
/// order of their prefix.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)] // each is the field of [`Row`] of that name
pub struct Offer {
    pub keys: Vec<Key>,
    pub nexts: Vec<Key>,
    pub depths: Vec<u32>,
    pub spans: Vec<u32>,
    pub groups: Vec<u8>,
    pub states: Vec<bool>,
    pub reaches: Vec<u32>,
    pub prompts: Vec<u32>,
    pub uses: Vec<u32>,
    pub metas: Vec<Meta>,
}

impl Offer {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a row.
    pub fn push(&mut self, row: OfferRow) {
        self.keys.push(row.key);
        self.nexts.push(row.next);
        self.depths.push(row.depth);
        self.spans.push(row.span);
        self.groups.push(row.group);
        self.states.push(row.state);
        self.reaches.push(row.reach);
        self.prompts.push(row.prompt);
        self.uses.push(row.uses);
        self.metas.push(row.meta);
    }

    /// Takes all rows out.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.nexts.clear();
        self.depths.clear();
        self.spans.clear();
        self.groups.clear();
        self.states.clear();
        self.reaches.clear();
        self.prompts.clear();
        self.uses.clear();
        self.metas.clear();
    }

    /// Tokens of the prefix that row `i` ends.
    pub fn end(&self, i: usize) -> u64 {
        (u64::from(self.depths[i]) + 1) * u64::from(self.spans[i])
    }
}
