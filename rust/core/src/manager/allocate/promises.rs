//! What sequences that were allocated whole (`full_sequence_must_fit`) may yet take, kept as they grow, so that an
//! allocation does not have to ask each of them.

use hashbrown::HashMap;

use crate::manager::Manager;
use crate::manager::grow::growth::{Count, GrowthPath};
use crate::pool::BlockId;
use crate::sequence::{BlockTable, SeqId, Sequence};

/// The most blocks that each sequence allocated whole may yet take, and their sum.
#[derive(Debug, Default)]
pub(in crate::manager) struct Promises {
    most: HashMap<SeqId, u32>,
    sum: u64,
}

impl Promises {
    fn set(&mut self, seq: SeqId, most: u32) {
        let before = self.most.insert(seq, most).unwrap_or(0);
        self.sum = self.sum - u64::from(before) + u64::from(most);
    }

    /// A sequence has ended.
    pub(in crate::manager) fn end(&mut self, seq: SeqId) {
        if self.most.is_empty() {
            return;
        }
        self.sum -= u64::from(self.most.remove(&seq).unwrap_or(0));
    }
}

impl Manager {
    /// The number of slots of `seq`, or of the tokens known of it, has changed.
    #[inline]
    pub(in crate::manager) fn note_promised(&mut self, seq: SeqId) {
        if self.sequences.get(seq).is_ok_and(|sequence| sequence.full_sequence_must_fit) {
            self.count_promised(seq);
        }
    }

    #[cold]
    fn count_promised(&mut self, seq: SeqId) {
        let Ok(sequence) = self.sequences.get(seq) else { return };
        let most = self.may_yet_take(sequence);
        self.promised.set(seq, most);
    }

    /// The most blocks that `sequence` may yet take until its slots change again, whichever of its
    /// blocks are shared: exact where no group gives blocks up.
    fn may_yet_take(&self, sequence: &Sequence) -> u32 {
        let mut way = self.way_of(sequence);
        if self.layout.gives_up() {
            // Tokens may come into its last block.
            way.tokens = way.tokens.max(way.len.next_multiple_of(self.block_size()));
        }
        self.still_lacks(&way, Count::Above, |_, _, _| true)
    }

    fn way_of<'a>(&self, sequence: &'a Sequence) -> GrowthPath<'a, BlockTable> {
        GrowthPath {
            tokens: sequence.max_seq_len.max(sequence.known()),
            encoder: sequence.encoder_tokens,
            committed: sequence.committed,
            cached: sequence.cached,
            len: sequence.len,
            pace: self.pace_of(sequence.known(), sequence.chunk),
            tables: &sequence.tables,
        }
    }

    /// Blocks that an allocation which finds `hits` must leave for running sequences: the reserve, and
    /// what those that came in with their whole length still lack. Exact where it is above `spare`.
    pub(super) fn kept_for_growth(&self, hits: &[Vec<BlockId>], spare: u32) -> u32 {
        // No sequence runs: nothing will grow, and waiting would not help.
        if self.sequences.is_empty() {
            return 0;
        }
        let reserve = self.options.reserve;
        if self.promised.most.is_empty() {
            return reserve;
        }
        let most = u32::try_from(self.most_kept_for_growth()).unwrap_or(u32::MAX);
        if most <= spare || !self.layout.gives_up() {
            return most;
        }
        let kept = |count| {
            let lacks = |s: &Sequence| {
                // What is found now has another owner soon.
                let found = |group: usize, at: usize, block| {
                    hits.get(group).and_then(|hits| hits.get(at)) == Some(&block)
                };
                self.still_lacks(&self.way_of(s), count, |group, at, block| {
                    self.pool().refs(block) > 1 || found(group, at, block)
                })
            };
            let whole = self.promised.most.keys().filter_map(|&seq| self.sequences.get(seq).ok());
            whole.map(lacks).fold(reserve, u32::saturating_add)
        };
        let above = kept(Count::Above);
        if above <= spare { above } else { kept(Count::Exact) }
    }

    /// An upper bound of [`Manager::kept_for_growth`], which is reached if that many blocks are to spare.
    pub(super) fn most_kept_for_growth(&self) -> u64 {
        u64::from(self.options.reserve) + self.promised.sum
    }

    /// Compares the sum with what each sequence allocated whole lacks.
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub(in crate::manager) fn check_promised(&self) -> std::result::Result<(), String> {
        let Promises { most, sum } = &self.promised;
        let whole = self.sequences.iter().filter(|(_, s)| s.full_sequence_must_fit);
        let mut count = 0;
        for (seq, s) in whole {
            count += 1;
            let shared = |_: usize, _: usize, block| self.pool().refs(block) > 1;
            let lacks = self.still_lacks(&self.way_of(s), Count::Exact, shared);
            let kept = most.get(&seq).copied();
            if kept.is_none_or(|kept| kept < lacks || (kept > lacks && !self.layout.gives_up())) {
                return Err(format!("sequence {seq} lacks {lacks} blocks, promised {kept:?}"));
            }
        }
        let counted = most.values().copied().map(u64::from).sum::<u64>();
        if (count, counted) != (most.len(), *sum) {
            let kept = most.len();
            return Err(format!("{count} sequences whole, {kept} promised {counted}, sum {sum}"));
        }
        Ok(())
    }
}
