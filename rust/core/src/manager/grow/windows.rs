//! Blocks that no later token attends to are given up; what a sequence still sees.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::groups::GroupKind;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// What the next token of a sequence sees of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleRange {
    /// Tokens it attends to, by their absolute places.
    pub visible: Vec<Range<u32>>,
    /// Tokens whose KV is in a kept block, and which it must not attend to.
    pub masked: Vec<Range<u32>>,
    /// Blocks kept.
    pub blocks: u32,
}

impl Manager {
    /// Gives up the blocks that no token behind the first `computed` attends to, the latest first. Returns
    /// how many of them have no other owner.
    pub(in crate::manager) fn leave_windows(&mut self, seq: SeqId, computed: u32) -> Result<u32> {
        let available = self.pool().available();
        for group in 0..self.layout.groups().len() {
            let reach = self.layout.groups()[group];
            if reach.kind.keeps_all() {
                continue;
            }
            let sequence = self.sequences.get_mut(seq)?;
            let mut gone = reach.gone(reach.computed(computed, sequence.cached));
            gone.end = gone.end.min(sequence.tables[group].len());
            if gone.is_empty() {
                continue;
            }
            if !self.transfers.tickets().is_idle() {
                // A sequence that computed over a page whose copy or load may yet fail keeps the
                // page: if it fails, the page leads to the sequences to cut.
                let unsettled = |&b: &BlockId| b != NIL && self.transfers.tickets().holds(b) > 0;
                let kept = sequence.tables[group][gone.clone()].iter().position(unsettled);
                gone.end = kept.map_or(gone.end, |at| gone.start + at);
            }
            let mut blocks = std::mem::take(&mut self.scratch.blocks);
            blocks.clear();
            let table = &mut sequence.tables[group];
            // Those before the last gap went before.
            let gap = table[gone.clone()].iter().rposition(|&b| b == NIL);
            gone.start += gap.map_or(0, |i| i + 1);
            blocks.extend_from_slice(&table[gone.clone()]);
            let first = gone.start;
            table.give_up(gone);
            // What is computed without them is no longer what the prefix alone says.
            let is_sink = matches!(reach.kind, GroupKind::SinkWindow { .. });
            sequence.private |= is_sink && !blocks.is_empty();
            if self.notes_uses() {
                self.retain(seq, group, first, &blocks, false)?;
            }
            self.store.drop_owners(seq, &blocks);
            self.scratch.blocks = blocks;
        }
        Ok(self.pool().available() - available)
    }

    /// Whether tokens between a sink and its window are missing from these tables.
    pub(in crate::manager) fn is_cut(&self, tables: &[Vec<BlockId>]) -> bool {
        let sink = |kind| matches!(kind, GroupKind::SinkWindow { .. });
        let groups = self.layout.groups().iter().zip(tables);
        groups.filter(|(reach, _)| sink(reach.kind)).any(|(_, table)| table.contains(&NIL))
    }

    /// What the next token of `seq` sees of `group`.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] for a group there is not.
    pub fn visible_range(&self, seq: SeqId, group: usize) -> Result<VisibleRange> {
        let sequence = self.sequences.get(seq)?;
        let Some(reach) = self.layout.groups().get(group) else {
            return Err(Error::Invalid {
                what: "group",
                value: group.to_string(),
                limit: format!("there are {} layer groups", self.layout.groups().len()),
            });
        };
        let len = match reach.kind {
            GroupKind::Cross => sequence.encoder_tokens,
            _ => reach.computed(sequence.committed, sequence.cached),
        };
        let needs = reach.kind.needs(len);
        // A sink and its window that touch are one.
        let (head, from) = if needs.head < needs.from { (needs.head, needs.from) } else { (0, 0) };
        let visible = [0..head, from..len];
        let is_hidden = |t: u32| (needs.head..needs.from).contains(&t);
        let mut masked: Vec<Range<u32>> = Vec::new();
        for (i, _) in (0..).zip(&sequence.tables[group]).filter(|&(_, &b)| b != NIL) {
            let start = (i * reach.span).max(needs.head);
            let end = ((i + 1) * reach.span).min(needs.from);
            match masked.last_mut() {
                Some(last) if start < end && last.end == start => last.end = end,
                _ if start < end && is_hidden(start) => masked.push(start..end),
                _ => {}
            }
        }
        let blocks = sequence.tables[group].iter().filter(|&&b| b != NIL).count() as u32;
        let visible = visible.into_iter().filter(|range| !range.is_empty()).collect();
        Ok(VisibleRange { visible, masked, blocks })
    }

    /// The shortest length above 0 after which every group still has what the next token needs.
    pub(in crate::manager) fn least_cut(&self, seq: SeqId) -> Result<u32> {
        let sequence = self.sequences.get(seq)?;
        let mut least = 0;
        for (reach, table) in self.layout.groups().iter().zip(&sequence.tables) {
            if reach.kind.keeps_all() {
                continue;
            }
            if let Some(gap) = table.iter().rposition(|&b| b == NIL) {
                least = least.max(reach.least_cut(gap as u32 + 1, sequence.cached));
            }
        }
        Ok(least.min(sequence.len))
    }

    /// Whether a cut to `len` leaves recurrent layers a state to go on from: that of all that is
    /// computed, or one at the end of a block.
    pub(in crate::manager) fn keeps_state(&self, seq: SeqId, len: u32) -> Result<bool> {
        let sequence = self.sequences.get(seq)?;
        let groups = self.layout.groups().iter().zip(&sequence.tables);
        Ok(len == 0
            || len >= sequence.committed
            || groups.filter(|(reach, _)| reach.kind == GroupKind::State).all(|(reach, table)| {
                len.is_multiple_of(reach.span)
                    && table.get((len / reach.span) as usize - 1).is_some_and(|&b| b != NIL)
            }))
    }

    /// Whether what some group computes depends on more than the tokens: on how far it was before.
    pub(in crate::manager) fn steps_matter(&self) -> bool {
        let steps = |kind| matches!(kind, GroupKind::State | GroupKind::SinkWindow { .. });
        self.layout.groups().iter().any(|reach| steps(reach.kind))
    }

    /// Whether recurrent layers have the state after `upto` tokens where nothing writes any more.
    pub(in crate::manager) fn holds_state(&self, seq: SeqId, upto: u32) -> Result<bool> {
        let sequence = self.sequences.get(seq)?;
        let at_rest = upto == sequence.committed && upto == sequence.len;
        let mut groups = self.layout.groups().iter().filter(|r| r.kind == GroupKind::State);
        let ends = groups.all(|reach| upto.is_multiple_of(reach.span));
        Ok(at_rest || upto == 0 || (ends && self.keeps_state(seq, upto)?))
    }

    /// The longest length of at most `len` tokens that `seq` can be cut to.
    pub(in crate::manager) fn last_good(&self, seq: SeqId, len: u32) -> Result<u32> {
        if len < self.least_cut(seq)? {
            return Ok(0);
        }
        if self.keeps_state(seq, len)? {
            return Ok(len);
        }
        let whole = self.whole_units(len);
        let good = whole >= self.least_cut(seq)? && self.keeps_state(seq, whole)?;
        Ok(if good { whole } else { 0 })
    }
}
