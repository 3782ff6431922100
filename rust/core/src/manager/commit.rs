//! Commit: what is computed and accepted becomes findable.

use std::ops::Range;

use super::Manager;
use super::lookup::Wanted;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::index::radix::Path;
use crate::index::{Found, Index};
use crate::options::GroupKind;
use crate::policy::{NEVER, Use, View};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence};

/// What a commit did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// Blocks that became findable (in group 0).
    pub stored: u32,
    /// Of those, blocks that were findable elsewhere already.
    pub duplicates: u32,
}

impl Manager {
    /// `seq` is computed and accepted up to `upto` tokens. Full blocks become findable; blocks
    /// that left a window are given up.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`]; [`Error::Backwards`].
    pub fn commit(&mut self, seq: SeqId, upto: u32) -> Result<Committed> {
        let done = self.accept(seq, upto, Kind::Commit)?;
        if self.full_groups() < self.options.groups.len() as u32 {
            self.leave_windows(seq)?;
        }
        Ok(done)
    }

    /// A commit that leaves windows as they are, noted as `kind`.
    pub(super) fn accept(&mut self, seq: SeqId, upto: u32, kind: Kind) -> Result<Committed> {
        let sequence = self.sequences.get_mut(seq)?;
        if upto > sequence.len {
            let limit = u64::from(sequence.len);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        if upto < sequence.committed {
            let limit = u64::from(sequence.committed);
            return Err(Error::Backwards { what: "commit", asked: u64::from(upto), limit });
        }
        sequence.check_filled(upto)?;
        sequence.committed = upto;
        self.tick += 1;
        self.note(kind, seq, u64::from(upto));
        // The common decode step fills no block.
        let sequence = self.sequences.get(seq)?;
        let settled = sequence.private || sequence.published == upto / self.options.block_size;
        if settled { Ok(Committed::default()) } else { self.publish(seq) }
    }

    /// Makes the full committed blocks of `seq` findable, from the first that is not.
    pub(super) fn publish(&mut self, seq: SeqId) -> Result<Committed> {
        let size = self.options.block_size;
        let slot = self.sequences.get_mut(seq)?;
        let (from, mut until) = (slot.published as usize, (slot.committed / size) as usize);
        if slot.private || from >= until {
            return Ok(Committed::default());
        }
        let mut sequence = std::mem::take(slot);
        let full = (until as u32 * size) as usize;
        let tokens = sequence.tokens.get(..full).unwrap_or(&sequence.tokens);
        if self.wants_keys() {
            self.hasher.extend(sequence.root, &sequence.extras, tokens, &mut sequence.keys);
        }
        until = until.min(match self.index {
            Index::Hash(_) => sequence.keys.len(),
            Index::Radix(_) => tokens.len() / size as usize,
        });
        let mut done = Committed::default();
        let mut settled = until;
        for group in 0..sequence.tables.len() {
            let (reached, counts) = self.publish_group(seq, &mut sequence, group, from..until);
            settled = settled.min(reached);
            if group == 0 {
                done = counts;
            }
        }
        sequence.published = settled.max(from) as u32;
        *self.sequences.get_mut(seq)? = sequence;
        Ok(done)
    }

    /// One group's share of `publish`; returns how far it came. A block whose copy is still under
    /// way is left for later, and one whose key stands for other tokens ends it for good.
    fn publish_group(
        &mut self,
        seq: SeqId,
        sequence: &mut Sequence,
        group: usize,
        range: Range<usize>,
    ) -> (usize, Committed) {
        let mut done = Committed::default();
        let mut stored = std::mem::take(&mut self.scratch.blocks);
        let mut outlook = std::mem::take(&mut self.scratch.outlook);
        stored.clear();
        outlook.clear();
        let mut reached = range.end;
        let copying = !self.tickets.is_idle();
        for i in range {
            let block = sequence.tables[group][i];
            if block == NIL || self.pool.state(block) != State::Pending {
                continue;
            }
            if copying && self.tickets.holds(block) > 0 {
                reached = i;
                break;
            }
            let Some(copy) = self.store(seq, sequence, group, i) else {
                sequence.private = true;
                break;
            };
            done.duplicates += u32::from(copy);
            stored.push(block);
            outlook.push(sequence.outlook.get(i).copied().unwrap_or(NEVER));
        }
        done.stored = stored.len() as u32;
        self.stats.stored += u64::from(done.stored);
        let using = Use { outlook: &outlook, meta: sequence.meta, tokens: sequence.known() };
        self.policy.insert(&stored, using, View { pool: &self.pool, now: self.tick });
        if self.observer.samples.is_on() {
            self.observer.samples.born(&stored, self.tick);
        }
        self.scratch.blocks = stored;
        self.scratch.outlook = outlook;
        (reached, done)
    }

    /// Makes one block findable. `Some(true)` if a copy was findable already; `None` if the key
    /// stands for other tokens, and this block must stay private.
    fn store(&mut self, seq: SeqId, sequence: &Sequence, group: usize, i: usize) -> Option<bool> {
        let wanted = Wanted {
            keys: &sequence.keys,
            tokens: &sequence.tokens,
            root: sequence.root,
            extras: &sequence.extras,
            limit: 0,
        };
        let table = &sequence.tables[group];
        let key = sequence.keys.get(i).copied().unwrap_or_default().for_group(group);
        let block = table[i];
        let ordered = self.options.groups[group] == GroupKind::Full && i > 0;
        let parent = if ordered { table[i - 1] } else { NIL };
        let proof = self.proof(wanted, i);
        let found = match &mut self.index {
            Index::Hash(index) => index.store(&self.pool, block, key, proof),
            Index::Radix(index) => {
                let marks = [(i as u32, self.hasher.mark(i, &sequence.extras))];
                let marks = if sequence.extras.is_empty() { &[][..] } else { &marks };
                let root = sequence.root.for_group(group);
                let path = Path { root, tokens: &sequence.tokens, marks };
                index.store(block, parent, i as u32, path)
            }
        };
        if found == Found::Collision {
            self.count_collisions(1);
            return None;
        }
        self.pool.publish(block, key, parent, i as u32);
        if let Found::Block(copy) = found {
            self.pool.set_duplicated(block, true);
            self.pool.set_duplicated(copy, true);
            self.stats.duplicates += 1;
            let outlook = [sequence.outlook.get(i).copied().unwrap_or(NEVER)];
            let using = Use { outlook: &outlook, meta: sequence.meta, tokens: sequence.known() };
            self.policy.hit(&[copy], using, View { pool: &self.pool, now: self.tick });
        }
        self.note_store(seq, sequence, group, i);
        Some(found != Found::Nothing)
    }

    /// Gives up the blocks that no token to come can attend to, the latest first.
    fn leave_windows(&mut self, seq: SeqId) -> Result<()> {
        for group in 0..self.options.groups.len() {
            let GroupKind::SlidingWindow { window } = self.options.groups[group] else {
                continue;
            };
            let size = self.options.block_size;
            let sequence = self.sequences.get_mut(seq)?;
            // The next token, at `committed`, attends from here on.
            let first = (sequence.committed + 1).saturating_sub(window);
            let mut gone = ((first / size) as usize).min(sequence.tables[group].len());
            if !self.tickets.is_idle() {
                // Whoever computed over a page that may yet fail to be filled keeps it, to be found
                // and cut if it does.
                let unsettled = |&b: &BlockId| b != NIL && self.tickets.holds(b) > 0;
                let kept = sequence.tables[group][..gone].iter().position(unsettled);
                gone = kept.unwrap_or(gone);
            }
            let mut blocks = std::mem::take(&mut self.scratch.blocks);
            blocks.clear();
            let first = sequence.tables[group][..gone].iter().rposition(|&b| b == NIL);
            for entry in &mut sequence.tables[group][first.map_or(0, |i| i + 1)..gone] {
                blocks.push(std::mem::replace(entry, NIL));
            }
            self.drop_owners(seq, &blocks);
            self.scratch.blocks = blocks;
        }
        Ok(())
    }
}
