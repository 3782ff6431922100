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
    most: HashMap<SeqId, Promise>,
    sum: u64,
}

/// What a sequence was promised.
#[derive(Debug, Clone, Copy)]
struct Promise {
    blocks: u32,
    tenant: u8,
}

impl Promises {
    /// Returns what it was promised before.
    fn set(&mut self, seq: SeqId, promise: Promise) -> u32 {
        let before = self.most.insert(seq, promise).map_or(0, |before| before.blocks);
        self.sum = self.sum - u64::from(before) + u64::from(promise.blocks);
        before
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
        let (blocks, tenant) = (self.may_yet_take(sequence), sequence.meta.tenant);
        let before = self.promised.set(seq, Promise { blocks, tenant });
        self.store.promise(tenant, blocks, before);
    }

    /// A sequence has ended: it is promised nothing more.
    #[inline]
    pub(in crate::manager) fn end_promise(&mut self, seq: SeqId) {
        if !self.promised.most.is_empty() {
            self.forget_promise(seq);
        }
    }

    #[cold]
    fn forget_promise(&mut self, seq: SeqId) {
        if let Some(Promise { blocks, tenant }) = self.promised.most.remove(&seq) {
            self.promised.sum -= u64::from(blocks);
            self.store.promise(tenant, 0, blocks);
        }
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
    pub(super) fn kept_for_growth(&self, hits: &[Vec<BlockId>], spare: u32, tenant: u8) -> u32 {
        // No sequence runs: nothing will grow, and waiting would not help.
        if self.sequences.is_empty() || self.runs_nothing(tenant) {
            return 0;
        }
        let reserve = self.options.reserve;
        if self.promised.most.is_empty() {
            return reserve;
        }
        let most = u32::try_from(self.most_kept_for_growth(tenant)).unwrap_or(u32::MAX);
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
            let its = self.promised.most.iter().filter(|(_, promise)| promise.tenant == tenant);
            let whole = its.filter_map(|(&seq, _)| self.sequences.get(seq).ok());
            whole.map(lacks).fold(reserve, u32::saturating_add)
        };
        let above = kept(Count::Above);
        if above <= spare { above } else { kept(Count::Exact) }
    }

    /// An upper bound of [`Manager::kept_for_growth`], which is reached if that many blocks are to spare.
    pub(super) fn most_kept_for_growth(&self, tenant: u8) -> u64 {
        // What others were promised is not available to it.
        let promised = match self.store.accounts().get(usize::from(tenant)) {
            None => self.promised.sum,
            Some(account) => account.promised,
        };
        u64::from(self.options.reserve) + promised
    }

    /// Whether no sequence of `tenant` has a block, where tenants are told apart.
    fn runs_nothing(&self, tenant: u8) -> bool {
        let account = self.store.accounts().get(usize::from(tenant));
        account.is_some_and(|account| account.owned() == 0)
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
            let kept = most.get(&seq).map(|promise| promise.blocks);
            if kept.is_none_or(|kept| kept < lacks || (kept > lacks && !self.layout.gives_up())) {
                return Err(format!("sequence {seq} lacks {lacks} blocks, promised {kept:?}"));
            }
        }
        let counted = most.values().map(|promise| u64::from(promise.blocks)).sum::<u64>();
        if (count, counted) != (most.len(), *sum) {
            let kept = most.len();
            return Err(format!("{count} sequences whole, {kept} promised {counted}, sum {sum}"));
        }
        Ok(())
    }
}
