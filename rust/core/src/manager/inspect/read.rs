//! Which pages hold computed tokens of a sequence, and how far they may be read.

use crate::error::{Error, Result};
use crate::groups::GroupKind;
use crate::hash::Key;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Usage};

/// Pages of a range of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRange {
    /// Their blocks, in order.
    pub blocks: Vec<BlockId>,
    /// Tokens of the first block that come before the range.
    pub offset: u32,
    /// Tokens of the last block that are of the range or before it.
    pub last: u32,
}

impl Manager {
    /// Tokens at the front of `seq` that may be read: committed, and none of them still to be
    /// filled by a load or by another sequence.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn num_readable_tokens(&self, seq: SeqId) -> Result<u32> {
        let sequence = self.sequences.get(seq)?;
        let mut readable = sequence.committed;
        if sequence.joined > 0
            && let Some((load, pages)) = self.transfers.tickets().load(sequence.joined)
            && let Some(page) = pages.first()
            && sequence.tables[0].get(load.start as usize) == Some(&page.dst)
        {
            readable = readable.min(load.start * self.block_size());
        }
        // A fork knows of what its source was brought, too.
        if sequence.brought > 0 && self.transfers.tickets().has_loads() {
            let loads = sequence.tables.iter().filter_map(|table| {
                table.iter().find_map(|&page| self.transfers.tickets().loading(page))
            });
            let start = loads.map(|load| load.start).min();
            readable = readable.min(start.map_or(u32::MAX, |start| start * self.block_size()));
        }
        Ok(readable)
    }

    /// Whether what `seq` has was computed under the present weights, and is not to be forgotten.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn is_current(&self, seq: SeqId) -> Result<bool> {
        let sequence = self.sequences.get(seq)?;
        Ok(!sequence.disowned && sequence.root == self.hasher.root(sequence.space()))
    }

    /// The keys under which lower tiers may keep the full blocks of the first `upto` tokens of
    /// `seq`, whichever index finds them here; none if the sequence leaves nothing findable.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn tier_keys(&self, seq: SeqId, upto: u32) -> Result<Vec<Key>> {
        let sequence = self.sequences.get(seq)?;
        if sequence.private || !sequence.write_cache {
            return Ok(Vec::new());
        }
        let tokens = &sequence.tokens[..sequence.tokens.len().min(upto as usize)];
        let mut keys = sequence.keys.clone();
        self.hasher.extend(sequence.root, &sequence.mm_items, tokens, &mut keys);
        keys.truncate((upto / self.block_size()) as usize);
        Ok(keys)
    }

    /// The findable blocks of the prefix that ends with `block`, from its first on, each with the
    /// key under which lower tiers keep it. Empty where that is not known: the block is not
    /// findable, it has no such prefix, or the index has no keys.
    pub fn prefix_of(&self, block: BlockId) -> Vec<(BlockId, Key)> {
        let pool = self.pool();
        if block >= pool.created() || !pool.is_findable(block) || !self.store.index().takes_keys() {
            return Vec::new();
        }
        let up = |&block: &BlockId| Some(pool.parent(block)).filter(|&parent| parent != NIL);
        let mut chain: Vec<_> =
            std::iter::successors(Some(block), up).map(|b| (b, pool.key(b))).collect();
        if chain.len() != pool.depth(block) as usize + 1 {
            chain.clear();
        }
        chain.reverse();
        chain
    }

    /// The pages of the tokens `start..stop` of `seq` in a group.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] past what the group has computed, or where a window moved on.
    pub fn pages(&self, seq: SeqId, start: u32, stop: u32, group: usize) -> Result<PageRange> {
        let readable = self.num_readable_tokens(seq)?;
        let sequence = self.sequences.get(seq)?;
        let wrong = |limit: String| Error::Invalid {
            what: "read",
            value: format!("tokens {start} to {stop}"),
            limit,
        };
        let groups = self.layout.groups();
        let reach = groups.get(group).ok_or_else(|| wrong(format!("no layer group {group}")))?;
        let computed = match reach.kind {
            GroupKind::Cross if !sequence.has_encoder() => 0,
            GroupKind::Cross => sequence.encoder_tokens,
            _ => reach.computed(readable, sequence.cached),
        };
        if start > stop || stop > computed {
            return Err(wrong(format!("the first {computed} tokens are computed")));
        }
        if start == stop {
            return Ok(PageRange { blocks: Vec::new(), offset: 0, last: 0 });
        }
        let span = reach.span;
        let places = (start / span) as usize..reach.blocks(stop) as usize;
        let blocks = sequence.tables[group][places].to_vec();
        if blocks.contains(&NIL) {
            return Err(wrong("some of it left the window".into()));
        }
        Ok(PageRange { blocks, offset: start % span, last: (stop - 1) % span + 1 })
    }

    /// The blocks of `seq` that are not findable, in each group by place: not full, not computed,
    /// or not to be shared. A connector that brings KV from elsewhere fills these.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn unhashed_blocks(&self, seq: SeqId) -> Result<Vec<Vec<BlockId>>> {
        let unkeyed = |&block: &BlockId| block != NIL && self.pool().state(block) == State::Pending;
        let tables = &self.sequences.get(seq)?.tables;
        Ok(tables.iter().map(|table| table.iter().copied().filter(unkeyed).collect()).collect())
    }

    /// What a live sequence cost so far.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn usage_of(&self, seq: SeqId) -> Result<Usage> {
        self.sequences.get(seq).map(|sequence| sequence.usage)
    }
}
