//! Computations of running sequences that others may join.

use hashbrown::HashMap;

use crate::hash::Key;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// Joins are asked for: sooner or later, what runs is noted.
    pub fn expect_joins(&mut self) {
        if self.transfers.expect_joins(self.sequences.len()) {
            for seq in self.sequences.iter().map(|(seq, _)| seq).collect::<Vec<_>>() {
                self.offer_computing(seq);
            }
        }
    }

    /// What `seq` computes may have changed.
    #[inline]
    pub(in crate::manager) fn note_computing(&mut self, seq: SeqId) {
        if self.transfers.computing().is_on() {
            self.offer_computing(seq);
        }
    }

    /// `seq` has grown within its last block, which is news if that is full now.
    #[inline]
    pub(in crate::manager) fn note_grown(&mut self, seq: SeqId) {
        let size = self.options.block_size;
        let full = |s: &Sequence| s.len.is_multiple_of(size);
        if self.transfers.computing().is_on() && self.sequences.get(seq).is_ok_and(full) {
            self.offer_computing(seq);
        }
    }

    fn offer_computing(&mut self, seq: SeqId) {
        let Ok(sequence) = self.sequences.get(seq) else { return };
        let (size, by_key) = (self.options.block_size as usize, self.store.index().takes_keys());
        self.transfers.offer(seq, sequence, size, by_key);
    }

    /// The sequence that computes most of what is wanted behind the first `found` blocks; how many
    /// blocks they have in common, and how many of those are findable. Of equals, the first.
    pub(super) fn find_offered(
        &self,
        wanted: PrefixQuery<'_>,
        found: usize,
    ) -> Option<(SeqId, usize, usize)> {
        if self.transfers.computing().is_empty() {
            return None;
        }
        let named;
        let names = if self.store.index().takes_keys() {
            wanted.keys
        } else {
            named = self.names(wanted);
            &named
        };
        let mut tried: HashMap<SeqId, (usize, usize)> = HashMap::new();
        for at in (found..wanted.limit.min(names.len())).rev() {
            for seq in self.transfers.computing().who(names[at]) {
                let shared = || {
                    let sequence = self.sequences.get(seq).ok()?;
                    self.shared_rows(wanted, seq, sequence)
                };
                let (rows, good) = *tried.entry(seq).or_insert_with(|| shared().unwrap_or((0, 0)));
                if rows == at + 1 && good >= found {
                    return Some((seq, rows, good));
                }
            }
        }
        None
    }

    /// The names of the blocks that are wanted, where they have no keys.
    fn names(&self, wanted: PrefixQuery<'_>) -> Vec<Key> {
        let blocks = wanted.tokens.chunks_exact(self.options.block_size as usize);
        let mut before = wanted.root;
        let name = |tokens| {
            before = self.transfers.computing().name(before, tokens);
            before
        };
        blocks.take(wanted.limit).map(name).collect()
    }
}
