//! What unsettled copies do with each page, so that no question about one page walks all copies.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::BlockCopy;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// What unsettled copies do with a page.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// Ends of copies here, those of joined computations too.
    ends: u32,
    /// Of those, ends of joined computations; all of `filler`.
    joins: u32,
    filler: SeqId,
    /// The ticket given out whose copy or load writes here; 0 for none.
    writer: u64,
    /// Whether it is a load.
    load: bool,
}

/// A copy within the pool: see [`BlockCopy`].
#[derive(Debug, Clone, Copy)]
pub(super) struct PageRead {
    pub(super) tokens: u32,
    pub(super) seq: SeqId,
    pub(super) group: u8,
}

/// Pages with ends of unsettled copies.
#[derive(Debug, Default)]
pub(super) struct PageUses {
    by_block: HashMap<BlockId, Page>,
    /// Copies within the pool by source and target. A page is the target of one copy at a time.
    reads: BTreeMap<(BlockId, BlockId), PageRead>,
    /// Sequences that came to share a page while it had ends of copies.
    sharers: BTreeSet<(BlockId, SeqId)>,
}

impl PageUses {
    pub(super) fn is_empty(&self) -> bool {
        self.by_block.is_empty()
    }

    /// A copy of `writer`, or of the plan being gathered (0).
    pub(super) fn add(&mut self, copy: &BlockCopy, writer: u64) {
        if copy.src != NIL {
            let BlockCopy { tokens, seq, group, .. } = *copy;
            self.reads.insert((copy.src, copy.dst), PageRead { tokens, seq, group });
            self.by_block.entry(copy.src).or_default().ends += 1;
        }
        let page = self.by_block.entry(copy.dst).or_default();
        page.ends += 1;
        (page.writer, page.load) = (writer, copy.src == NIL);
    }

    /// The plan being gathered is given out as `writer`.
    pub(super) fn give_out(&mut self, copies: &[BlockCopy], writer: u64) {
        for copy in copies {
            if let Some(page) = self.by_block.get_mut(&copy.dst) {
                page.writer = writer;
            }
        }
    }

    /// A copy is settled.
    pub(super) fn remove(&mut self, copy: &BlockCopy) {
        if copy.src != NIL {
            self.reads.remove(&(copy.src, copy.dst));
            self.lose_end(copy.src, |_| ());
        }
        self.lose_end(copy.dst, |page| (page.writer, page.load) = (0, false));
    }

    /// `seq` shares `block` from now on; noted where copies end there.
    pub(super) fn share(&mut self, block: BlockId, seq: SeqId) {
        if self.by_block.contains_key(&block) {
            self.sharers.insert((block, seq));
        }
    }

    /// Sequences that came to share `block` while copies ended there.
    pub(super) fn sharers(&self, block: BlockId) -> impl Iterator<Item = SeqId> + '_ {
        self.sharers.range((block, 0)..=(block, SeqId::MAX)).map(|&(_, seq)| seq)
    }

    /// What `filler` computes here is joined.
    pub(super) fn join(&mut self, page: BlockId, filler: SeqId) {
        let page = self.by_block.entry(page).or_default();
        debug_assert!(page.joins == 0 || page.filler == filler, "one sequence computes a page");
        page.filler = filler;
        page.joins += 1;
        page.ends += 1;
    }

    /// Notes that one sequence no longer waits for what is computed here.
    pub(super) fn leave(&mut self, page: BlockId) {
        self.lose_end(page, |page| page.joins -= 1);
    }

    fn lose_end(&mut self, block: BlockId, change: impl FnOnce(&mut Page)) {
        let Some(page) = self.by_block.get_mut(&block) else { return };
        page.ends -= 1;
        if page.ends == 0 {
            self.by_block.remove(&block);
            // Most copies are settled before anything shares their pages.
            while !self.sharers.is_empty()
                && let Some(&gone) = self.sharers.range((block, 0)..=(block, SeqId::MAX)).next()
            {
                self.sharers.remove(&gone);
            }
        } else {
            change(page);
        }
    }

    /// How many ends of copies are at `block`.
    pub(super) fn ends(&self, block: BlockId) -> u32 {
        self.by_block.get(&block).map_or(0, |page| page.ends)
    }

    /// [`Self::ends`] without the computations that were joined with `filler`.
    pub(super) fn ends_besides(&self, block: BlockId, filler: SeqId) -> u32 {
        let besides = |page: &Page| page.ends - if page.filler == filler { page.joins } else { 0 };
        self.by_block.get(&block).map_or(0, besides)
    }

    /// The ticket given out whose copy or load writes `block`, and whether it is a load.
    pub(super) fn writer(&self, block: BlockId) -> Option<(u64, bool)> {
        let page = self.by_block.get(&block).filter(|page| page.writer > 0)?;
        Some((page.writer, page.load))
    }

    /// The sequence whose computation of `block` others joined.
    pub(super) fn filler(&self, block: BlockId) -> Option<SeqId> {
        self.by_block.get(&block).filter(|page| page.joins > 0).map(|page| page.filler)
    }

    /// Copies that read `block`, by their targets.
    pub(super) fn reads(&self, block: BlockId) -> impl Iterator<Item = (BlockId, PageRead)> + '_ {
        let all = self.reads.range((block, 0)..=(block, BlockId::MAX));
        all.map(|(&(_, dst), &read)| (dst, read))
    }
}
