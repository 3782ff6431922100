//! Partial blocks that ended sequences leave under the hash index, found by their exact tokens.

use std::collections::{HashMap, VecDeque};

use kvframe_core::hash::{Hasher, MmItem};
use kvframe_core::index::IndexKind;
use kvframe_core::{BlockId, Key, Options, SeqId};

use super::ops::Run;
use super::texts::{SPACES, Text, space, text};
use super::world::World;

/// What the keys of partial blocks stand for.
pub struct Tails {
    hasher: Hasher,
    on: bool,
    /// Tokens of a partial block by its key.
    tokens: HashMap<Key, u32>,
    /// What the latest that ended knew.
    ended: VecDeque<Text>,
}

impl Tails {
    pub fn new(options: &Options) -> Self {
        Self {
            hasher: Hasher::new(options.chain_hash(), options.block_size, &options.fingerprint),
            on: options.partial_hits && options.index == IndexKind::Hash,
            tokens: HashMap::new(),
            ended: VecDeque::new(),
        }
    }

    /// Other weights name everything anew.
    pub fn reset(&mut self, options: &Options, fingerprint: &[u8]) {
        self.hasher = Hasher::new(options.chain_hash(), options.block_size, fingerprint);
    }

    /// How many tokens of a page count, if its key is that of a partial block.
    pub fn tokens(&self, key: Key) -> Option<u32> {
        self.tokens.get(&key).copied()
    }
}

/// How a prompt may go on behind the whole blocks that are found of it.
pub struct Ends {
    /// Lengths at which every group has a partial block.
    pub at: Vec<u32>,
    /// Whether one of them, or what they follow, has copies: only one of those stands in the index,
    /// and the partial block may follow another.
    pub copied: bool,
}

impl World {
    /// `seq` ends, at whatever length the step leaves it.
    pub fn name_tails(&mut self, seq: SeqId) {
        if !self.tails.on {
            return;
        }
        let s = self.m.sequence(seq).expect("live");
        let Tails { hasher, tokens: named, ended, .. } = &mut self.tails;
        let name = (&s.tenant[..], &s.cache_salt[..], &s.lora_name[..], &s.encoder[..]);
        let space = SPACES.iter().position(|&other| other == name).expect("one of them");
        ended.push_front(Text::of(s.tokens.clone(), s.mm_items.clone(), space));
        ended.truncate(4);
        let mut keys = Vec::new();
        hasher.extend(s.root, &s.mm_items, &s.tokens, &mut keys);
        for (row, part) in s.tokens.chunks(self.size as usize).enumerate() {
            let previous = if row == 0 { s.root } else { keys[row - 1] };
            for end in 1..=part.len().min(self.size as usize - 1) {
                let key = hasher.tail(previous, row, &s.mm_items, &part[..end]);
                let groups = 0..s.tables.len();
                named.extend(groups.map(|group| (key.for_group(group), end as u32)));
            }
        }
    }

    /// How `text`, of which `whole` tokens are found in whole blocks, may go on.
    pub fn tail_ends(&self, text: &Text, whole: u32) -> Ends {
        let mut ends = Ends { at: Vec::new(), copied: false };
        let most = (text.tokens.len() as u32).saturating_sub(1).min(whole + self.size - 1);
        if !self.tails.on || !self.m.options().prefix_caching {
            return ends;
        }
        let hasher = &self.tails.hasher;
        let (root, row) = (hasher.root(space(text.space)), (whole / self.size) as usize);
        let mut keys = Vec::new();
        hasher.extend(root, &text.mm_items, &text.tokens[..whole as usize], &mut keys);
        let previous = keys.last().copied().unwrap_or(root);
        let groups = || 0..self.m.options().groups.len();
        ends.copied = row > 0 && groups().any(|g| self.named(previous.for_group(g)).len() > 1);
        for end in whole + 1..=most {
            let tokens = &text.tokens[whole as usize..end as usize];
            let key = hasher.tail(previous, row, &text.mm_items, tokens);
            let blocks = groups().map(|group| self.named(key.for_group(group)).len());
            if blocks.clone().all(|count| count > 0) {
                ends.at.push(end);
                ends.copied |= blocks.max() > Some(1);
            }
        }
        ends
    }

    fn named(&self, key: Key) -> Vec<BlockId> {
        let pool = self.m.pool();
        let created = 0..pool.created();
        created.filter(|&b| pool.is_findable(b) && pool.key(b) == key).collect()
    }
}

impl Run {
    /// A prompt; where partial blocks are found, often one that goes on where a sequence ended.
    pub fn text(&mut self) -> Text {
        if self.w.tails.ended.is_empty() || self.dice.one_in(2) {
            return text(&mut self.dice, self.w.grain());
        }
        let known = &self.w.tails.ended[self.dice.below(self.w.tails.ended.len())];
        let mut tokens = known.tokens.clone();
        tokens.extend((0..self.dice.below(4)).map(|_| self.dice.between(0, 1)));
        tokens.truncate(tokens.len() - self.dice.below(3).min(tokens.len()));
        // An item ends with its prompt: what is generated is no part of it.
        let len = tokens.len() as u32;
        let inside = known.mm_items.iter().filter(|extra| extra.start < len);
        let mm_items = inside.map(|extra| MmItem { end: extra.end.min(len), ..extra.clone() });
        Text::of(tokens, mm_items.collect(), known.space)
    }
}
