//! Commit: what is computed and accepted becomes findable.
pub(super) mod admission;
mod plain;
mod public;
pub(super) mod remap;
pub(super) mod tails;

use std::ops::Range;

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::index::radix::Path;
use crate::index::{Index, KeyMatch};
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::policy::{Access, NEVER};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence, check_filled};

/// What a commit did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitResult {
    /// Blocks that became findable (in group 0).
    pub stored: u32,
    /// Of those, blocks that were findable elsewhere already.
    pub duplicates: u32,
    /// Blocks of all groups that no future token attends to and that have no other owner.
    pub freed: u32,
}

impl Manager {
    /// `seq` is computed and accepted up to `upto` tokens. Full blocks become findable; blocks
    /// that left a window are given up.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`]; [`Error::Backwards`].
    #[inline]
    pub fn commit(&mut self, seq: SeqId, upto: u32) -> Result<CommitResult> {
        let mut done = self.commit_noted(seq, upto, 0)?;
        if self.layout.gives_up() {
            done.freed = self.leave_windows(seq, upto)?;
        }
        Ok(done)
    }

    /// [`Manager::commit`] for an engine that makes findable what it is about to compute. The step still
    /// attends to blocks that later steps do without, so windows keep them until [`Manager::computed`].
    ///
    /// # Errors
    /// As [`Manager::commit`].
    pub fn commit_ahead(&mut self, seq: SeqId, upto: u32) -> Result<CommitResult> {
        self.commit_noted(seq, upto, 1)
    }

    #[inline]
    fn commit_noted(&mut self, seq: SeqId, upto: u32, ahead: u64) -> Result<CommitResult> {
        match self.accept_in_block(seq, upto, ahead) {
            Some(()) => Ok(CommitResult::default()),
            None => self.accept(seq, upto, (Kind::Commit, ahead)),
        }
    }

    /// The first `upto` tokens of `seq` are computed, and were committed ahead as far as that goes: blocks
    /// that left a window by then are given up. Returns how many of them have no other owner.
    ///
    /// # Errors
    /// Unknown handles; [`Error::CommitPastEnd`] behind what has slots.
    pub fn computed(&mut self, seq: SeqId, upto: u32) -> Result<u32> {
        let sequence = self.sequences.get_mut(seq)?;
        if sequence.len < upto {
            let limit = u64::from(sequence.len);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        if !self.layout.gives_up() {
            return Ok(0);
        }
        sequence.passed = sequence.passed.max(upto);
        self.store.tick();
        self.store.note(Kind::Computed, seq, u64::from(upto));
        self.leave_windows(seq, upto)
    }

    /// Commits in the common decode step, in which nothing becomes findable. `None` in every other case, and
    /// for every mistake of the caller.
    #[inline]
    fn accept_in_block(&mut self, seq: SeqId, upto: u32, ahead: u64) -> Option<()> {
        let (size, sequence) = (self.options.block_size, self.sequences.get_mut(seq).ok()?);
        let settled = sequence.private
            || (self.layout.settles_at_once()
                && upto.wrapping_sub(sequence.published * size) < size);
        let allowed = sequence.committed <= upto && upto <= sequence.len.min(sequence.filled());
        if !(allowed
            && settled
            && self.store.gate().is_none()
            && !self.transfers.tickets().has_loads())
        {
            return None;
        }
        self.store.tick();
        (sequence.committed, sequence.used) = (upto, self.store.now());
        self.store.note_two(Kind::Commit, seq, u64::from(upto), ahead);
        Some(())
    }

    /// A commit that leaves windows as they are, noted as `kind` with its second value.
    pub(super) fn accept(
        &mut self,
        seq: SeqId,
        upto: u32,
        (kind, other): (Kind, u64),
    ) -> Result<CommitResult> {
        let sequence = self.sequences.get_mut(seq)?;
        if upto > sequence.len {
            let limit = u64::from(sequence.len);
            return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
        }
        if upto < sequence.committed {
            let limit = u64::from(sequence.committed);
            return Err(Error::Backwards { what: "commit", asked: u64::from(upto), limit });
        }
        check_filled(upto, sequence.filled())?;
        self.store.tick();
        (sequence.committed, sequence.used) = (upto, self.store.now());
        self.store.note_two(kind, seq, u64::from(upto), other);
        if !self.transfers.tickets().has_loads() {
            let done = self.publish(seq)?;
            self.note_computing(seq);
            return Ok(done);
        }
        let joiners = self.vouch(seq);
        let done = self.publish(seq)?;
        self.note_computing(seq);
        self.notify_joiners(joiners)?;
        Ok(done)
    }

    /// Makes the full committed blocks of `seq` findable, from the first that is not.
    pub(super) fn publish(&mut self, seq: SeqId) -> Result<CommitResult> {
        // Takes all sequences out together, because moving one sequence alone would copy a large struct.
        let mut sequences = std::mem::take(&mut self.sequences);
        let done = sequences.get_mut(seq).map(|sequence| self.publish_all(seq, sequence));
        self.sequences = sequences;
        done
    }

    fn publish_all(&mut self, seq: SeqId, sequence: &mut Sequence) -> CommitResult {
        let size = self.options.block_size;
        if self.store.gate().is_some() {
            self.store.serve(sequence.meta.tenant);
            self.notify_seen(sequence);
        }
        let (from, mut until) = (sequence.published as usize, (sequence.committed / size) as usize);
        if sequence.private || (from >= until && self.layout.settles_at_once()) {
            return CommitResult::default();
        }
        let full = (until as u32 * size) as usize;
        let tokens = sequence.tokens.get(..full).unwrap_or(&sequence.tokens);
        if self.wants_keys() {
            self.hasher.extend(sequence.root, &sequence.mm_items, tokens, &mut sequence.keys);
        }
        until = until.min(match self.store.index() {
            Index::Hash(_) => sequence.keys.len(),
            Index::Radix(_) => tokens.len() / size as usize,
        });
        if !self.transfers.tickets().is_idle() {
            // Every group's KV is computed over every other's.
            until = until.min(self.first_unsettled(sequence, from..until));
        }
        if self.store.gate().is_some() {
            until = self.admitted(sequence, from..until);
        }
        let mut done = CommitResult::default();
        for group in 0..sequence.tables.len() {
            if self.layout.groups()[group].kind == GroupKind::Cross {
                continue;
            }
            let counts = self.publish_group(seq, sequence, group, from..until);
            if group == 0 {
                done = counts;
            }
        }
        sequence.published = until.max(from) as u32;
        if self.layout.has_cross() && !sequence.private {
            self.publish_cross(seq, sequence);
        }
        done
    }

    /// The first unit of `range` that lies in a block whose copy is still under way: it, and what was
    /// computed over it, is left for later.
    #[cold]
    fn first_unsettled(&self, sequence: &Sequence, range: Range<usize>) -> usize {
        let mut first = range.end;
        for (group, reach) in self.layout.groups().iter().enumerate() {
            let (units, table) = (reach.units as usize, &sequence.tables[group]);
            let end = range.end.div_ceil(units).min(table.len());
            let start = self.due_blocks(sequence, group, range.clone()).start.min(end);
            let copied = |&b: &BlockId| {
                b != NIL
                    && self.pool().state(b) == State::Pending
                    && self.transfers.tickets().holds(b) > 0
            };
            if let Some(at) = table[start..end].iter().position(copied) {
                first = first.min((start + at) * units);
            }
        }
        first
    }

    /// One group's share of `publish`, of the units in `range`. A block whose key stands for other
    /// tokens ends it for good.
    fn publish_group(
        &mut self,
        seq: SeqId,
        sequence: &mut Sequence,
        group: usize,
        range: Range<usize>,
    ) -> CommitResult {
        let mut done = CommitResult::default();
        let mut stored = std::mem::take(&mut self.scratch.blocks);
        let mut next_use = std::mem::take(&mut self.scratch.next_use);
        stored.clear();
        next_use.clear();
        let reach = self.layout.groups()[group];
        let units = reach.units as usize;
        let mut due = self.due_blocks(sequence, group, range);
        let plain = self.publish_plain(sequence, group, due.clone());
        let mut created = plain.len() as u32;
        due.start = plain.end;
        stored.extend_from_slice(sequence.tables[group].get(plain.clone()).unwrap_or_default());
        let told = plain.start..plain.end.min(sequence.next_use.len());
        next_use.extend_from_slice(sequence.next_use.get(told).unwrap_or_default());
        next_use.resize(stored.len(), NEVER);
        for i in due {
            let block = sequence.tables[group][i];
            if block == NIL {
                continue;
            }
            if self.pool().state(block) != State::Pending {
                // Another sequence that has it made it findable first.
                self.store.used(&[block], sequence.meta.session);
                continue;
            }
            if !self.layout.is_reachable(group, i, sequence.prompt) {
                continue;
            }
            if self.is_gap(group, i) {
                continue;
            }
            if self.options.remap_duplicates && self.remap(seq, sequence, group, i) {
                done.duplicates += 1;
                continue;
            }
            if sequence.public > 0 && !self.give_to_all(sequence, group, i) {
                done.duplicates += 1;
                continue;
            }
            let Some(copy) = self.store(seq, sequence, group, i) else {
                sequence.private = true;
                break;
            };
            done.duplicates += u32::from(copy);
            created += u32::from(!copy);
            stored.push(block);
            next_use.push(sequence.next_use.get(i * units).copied().unwrap_or(NEVER));
        }
        done.stored = stored.len() as u32;
        if group == 0 {
            sequence.usage.created += created * reach.span;
        }
        let access = Access { next_use: &next_use, meta: sequence.meta, tokens: sequence.known() };
        if sequence.public > 0 {
            self.insert_apart(sequence, units, &stored, access);
        } else {
            self.store.insert(&stored, (sequence.root, sequence.space()), access);
        }
        self.scratch.blocks = stored;
        self.scratch.next_use = next_use;
        done
    }

    /// Makes one block findable. `Some(true)` if a copy was findable already; `None` if the key
    /// stands for other tokens, and this block must stay private.
    fn store(&mut self, seq: SeqId, sequence: &Sequence, group: usize, i: usize) -> Option<bool> {
        let wanted = PrefixQuery::of(sequence);
        let table = &sequence.tables[group];
        let reach = &self.layout.groups()[group];
        let block = table[i];
        let ordered = reach.kind.is_ordered() && !self.options.keep_duplicates;
        let mut parent = if ordered && i > 0 { table[i - 1] } else { NIL };
        if parent != NIL && sequence.public > 0 && self.store.has_tenants() {
            parent = self.parent_apart(sequence, group, i, parent);
        }
        let last = sequence.keys.get((i + 1) * reach.units as usize - 1);
        let key = last.copied().unwrap_or_default().for_group(group);
        let proof = self.proof(wanted, group, i);
        let place = (parent, i as u32);
        let found = if self.store.index().takes_keys() {
            self.store.publish(block, (key, proof), place)
        } else {
            let marks = [(i as u32, self.hasher.mark(i, &sequence.mm_items))];
            let marks = if sequence.mm_items.is_empty() { &[][..] } else { &marks };
            let root = sequence.root.for_group(group);
            let path = Path { root, tokens: &sequence.tokens, marks };
            self.store.publish_path(block, (key, path), place)
        };
        if found == KeyMatch::Collision {
            self.count_collisions(1);
            return None;
        }
        if let KeyMatch::Block(copy) = found {
            let at = i * reach.units as usize;
            let next_use = [sequence.next_use.get(at).copied().unwrap_or(NEVER)];
            let access =
                Access { next_use: &next_use, meta: sequence.meta, tokens: sequence.known() };
            self.store.hit(&[copy], access);
        }
        self.note_store(seq, sequence, group, i);
        Some(found != KeyMatch::Nothing)
    }

    /// The blocks of `group` that end in the units of `range`, as far as its KV is there.
    #[inline]
    pub(super) fn due_blocks(
        &self,
        sequence: &Sequence,
        group: usize,
        range: Range<usize>,
    ) -> Range<usize> {
        let reach = &self.layout.groups()[group];
        let units = reach.units as usize;
        if reach.lag == 0 {
            return range.start / units..range.end / units;
        }
        // What lagged when the units before were committed is due now.
        let size = self.options.block_size;
        let from = (range.start as u32 * size).saturating_sub(reach.lag) / reach.span;
        let there = reach.computed(sequence.committed, sequence.cached);
        from as usize..there.min(range.end as u32 * size) as usize / reach.span as usize
    }
}
