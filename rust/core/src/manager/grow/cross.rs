//! Blocks of another input (an encoder's): there from allocation to the end of the sequence, found by
//! the content of that input alone.

use crate::error::{Error, Result};
use crate::hash::{Hasher, Key};
use crate::index::{Index, KeyMatch};
use crate::manager::Manager;
use crate::policy::Access;
use crate::pool::{BlockId, NIL, State};
use crate::request::Attempt;
use crate::sequence::{BlockTable, SeqId, Sequence};

impl Manager {
    /// Refuses another input where no group attends to one.
    pub(in crate::manager) fn check_encoder(&self, request: &Attempt<'_>) -> Result<()> {
        if request.encoder_tokens == 0 || self.layout.has_cross() {
            return Ok(());
        }
        Err(Error::Invalid {
            what: "encoder_tokens",
            value: request.encoder_tokens.to_string(),
            limit: "no layer group is of the kind cross".into(),
        })
    }

    /// Fills the lists of the groups that attend to another input with its blocks, if all are there.
    pub(in crate::manager) fn find_cross(
        &self,
        request: &Attempt<'_>,
        root: Key,
        hits: &mut [Vec<BlockId>],
    ) {
        self.layout.cross_groups().for_each(|group| hits[group].clear());
        let reads = request.read_cache && self.options.prefix_caching;
        // Each block depends on all of the input: with one missing, all are computed again.
        if !reads || !self.all_cross(request.encoder_tokens, root, hits) {
            self.layout.cross_groups().for_each(|group| hits[group].clear());
        }
    }

    /// Whether all blocks of an input are findable. Stops at the first that is not, because their number
    /// comes from the caller unchecked.
    fn all_cross(&self, tokens: u32, root: Key, hits: &mut [Vec<BlockId>]) -> bool {
        let Index::Hash(index) = self.store.index() else { return false };
        for group in self.layout.cross_groups() {
            for i in 0..self.layout.table_len(group, 0, tokens) {
                let key = Hasher::cross_key(root, tokens, i as u32).for_group(group);
                let KeyMatch::Block(block) = index.find(self.pool(), key, None) else {
                    return false;
                };
                hits[group].push(block);
            }
        }
        true
    }

    /// Blocks of another input that an allocation has to take.
    pub(in crate::manager) fn cross_missing(&self, hits: &[Vec<BlockId>], tokens: u32) -> u32 {
        if !self.layout.has_cross() {
            return 0;
        }
        let missing = |group| self.layout.table_len(group, 0, tokens) - hits[group].len();
        let sum = self.layout.cross_groups().map(missing).sum::<usize>();
        u32::try_from(sum).unwrap_or(u32::MAX)
    }

    /// Blocks for what was not found of another input; whether there is one and all was found. Room
    /// for them was counted.
    pub(in crate::manager) fn obtain_cross(
        &mut self,
        seq: SeqId,
        tokens: u32,
        tables: &mut [BlockTable],
    ) -> bool {
        if tokens == 0 {
            return false;
        }
        let mut found = true;
        for group in self.layout.cross_groups() {
            while tables[group].len() < self.layout.table_len(group, 0, tokens) {
                found = false;
                let block = self.store.obtain(seq, group, None).expect("room was counted");
                tables[group].push(block);
            }
        }
        found
    }

    /// Makes the blocks of another input findable once a token has been computed over them.
    pub(in crate::manager) fn publish_cross(&mut self, seq: SeqId, sequence: &mut Sequence) {
        let due = sequence.encoder_tokens > 0 && !sequence.encoder_published;
        if !due || !sequence.has_encoder() {
            return;
        }
        sequence.encoder_published = true;
        for group in self.layout.cross_groups() {
            let mut stored = std::mem::take(&mut self.scratch.blocks);
            stored.clear();
            for (i, &block) in (0..).zip(&sequence.tables[group]) {
                if self.pool().state(block) != State::Pending {
                    continue;
                }
                let key = Hasher::cross_key(sequence.root, sequence.encoder_tokens, i);
                self.store_cross(seq, block, key.for_group(group), i);
                stored.push(block);
            }
            let access = Access { next_use: &[], meta: sequence.meta, tokens: sequence.known() };
            self.store.insert(&stored, (sequence.root, sequence.space()), access);
            self.scratch.blocks = stored;
        }
    }

    fn store_cross(&mut self, seq: SeqId, block: BlockId, key: Key, i: u32) {
        self.store.publish(block, (key, None), (NIL, i));
        self.store.note_stored(seq, block, Key(0), &[]);
    }
}
