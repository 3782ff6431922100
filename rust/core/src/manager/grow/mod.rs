//! More slots for a sequence; a block that others read is copied first.
mod advance;
mod cross;
pub(super) mod growth;
mod rows;
pub(super) mod windows;

use crate::error::{Error, Result, WHOLE_POOL};
use crate::events::Kind;
use crate::groups::{GroupKind, GroupReach};
use crate::hash::Key;
use crate::manager::Manager;
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{BlockTable, SeqId, Sequence, check_length, check_missing, check_no_gap};
use crate::store::Store;
use crate::tenants::OTHERS;
use crate::transfers::BlockCopy;

/// Tokens to append.
#[derive(Debug, Clone, Copy)]
pub enum Ids<'a> {
    /// Their ids.
    Known(&'a [u32]),
    /// How many; their ids are still being computed (asynchronous scheduling).
    Unknown(u32),
}

impl Ids<'_> {
    /// How many.
    #[inline]
    #[allow(clippy::len_without_is_empty)] // no caller needs it
    pub fn len(self) -> usize {
        match self {
            Self::Known(tokens) => tokens.len(),
            Self::Unknown(count) => count as usize,
        }
    }

    #[inline]
    fn enter(self, sequence: &mut Sequence) {
        if let Self::Known(&[token]) = self {
            sequence.tokens.push(token);
            sequence.known = sequence.tokens.len() as u32;
        } else {
            self.enter_many(sequence);
        }
    }

    #[inline(never)]
    fn enter_many(self, sequence: &mut Sequence) {
        match self {
            Self::Known(tokens) => sequence.tokens.extend_from_slice(tokens),
            Self::Unknown(count) => {
                sequence.unknown += count;
                if sequence.came_as_keys() {
                    sequence.known += count;
                    return;
                }
                sequence.tokens.resize(sequence.tokens.len() + count as usize, 0);
            }
        }
        sequence.known = sequence.tokens.len() as u32;
    }

    #[inline]
    fn are_known(self) -> bool {
        matches!(self, Self::Known(_))
    }
}

#[cold]
fn log_append(store: &mut Store, (seq, until): (SeqId, u32), ids: Ids<'_>) {
    let (unknown, tokens) = match ids {
        Ids::Known(tokens) => (0, tokens),
        Ids::Unknown(count) => (count, &[][..]),
    };
    store.note_ids(Kind::Append, seq, (u64::from(until), u64::from(unknown)), tokens);
}

impl Manager {
    /// Slots for `tokens` after everything known of `seq`.
    ///
    /// # Errors
    /// Unknown handles; [`Error::NoCapacity`]; [`Error::Invalid`] while prompt tokens have no slots
    /// yet, or where the request came as keys.
    pub fn append(&mut self, seq: SeqId, tokens: &[u32]) -> Result<()> {
        self.append_ids(seq, Ids::Known(tokens))
    }

    /// Slots for `count` tokens whose ids are still being computed (asynchronous scheduling).
    ///
    /// # Errors
    /// As [`Manager::append`].
    pub fn append_placeholders(&mut self, seq: SeqId, count: u32) -> Result<()> {
        self.append_ids(seq, Ids::Unknown(count))
    }

    /// The ids of the first tokens of `seq` that were not known yet.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] for more ids than are missing, and where keys are.
    pub fn fill_placeholders(&mut self, seq: SeqId, tokens: &[u32]) -> Result<()> {
        let sequence = self.sequences.get_mut(seq)?;
        check_missing(tokens.len(), sequence.unknown)?;
        sequence.check_tokens("tokens", tokens.len())?;
        if tokens.is_empty() {
            return Ok(());
        }
        let missing = sequence.unknown as usize;
        let at = sequence.tokens.len() - missing;
        sequence.tokens[at..at + tokens.len()].copy_from_slice(tokens);
        sequence.unknown -= tokens.len() as u32;
        self.store.note_ids(Kind::Fill, seq, (0, 0), tokens);
        self.note_computing(seq);
        Ok(())
    }

    fn append_ids(&mut self, seq: SeqId, ids: Ids<'_>) -> Result<()> {
        if self.append_in_place(seq, ids).is_some() {
            self.note_grown(seq);
            return Ok(());
        }
        self.append_anywhere(seq, ids)
    }

    /// Appends tokens without the shortcut of [`Self::append_in_place`].
    pub(super) fn append_anywhere(&mut self, seq: SeqId, ids: Ids<'_>) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        sequence.check_append(ids.len())?;
        if let Ids::Known(tokens) = ids {
            check_no_gap(tokens.len(), sequence.unknown)?;
        }
        if ids.len() == 0 {
            return Ok(());
        }
        let until = u64::from(self.sequences.get(seq)?.len) + ids.len() as u64;
        let until = self.checked_len(until)?;
        self.make_slots(seq, until)?;
        self.note_append(seq, until, ids);
        ids.enter(self.sequences.get_mut(seq)?);
        self.note_computing(seq);
        Ok(())
    }

    #[inline]
    fn note_append(&mut self, seq: SeqId, until: u32, ids: Ids<'_>) {
        if self.store.is_logging() {
            log_append(&mut self.store, (seq, until), ids);
        }
    }

    /// The common decode step: the tokens fit into a tail block that only `seq` owns and that is
    /// not findable. `None` in every other case, and if anything is wrong.
    #[inline]
    pub(super) fn append_in_place(&mut self, seq: SeqId, ids: Ids<'_>) -> Option<&Sequence> {
        let uniform = self.layout.is_uniform();
        if !uniform && !self.fits_uneven(seq, ids.len()) {
            return None;
        }
        let (size, pool) = (self.options.block_size, self.store.pool());
        let sequence = self.sequences.get_mut(seq).ok()?;
        let (len, count) = (sequence.len, ids.len());
        if !sequence.is_open() || (sequence.unknown > 0 && ids.are_known()) {
            return None;
        }
        let ours = |table: &BlockTable| {
            // It ends with the block of the last token: no division to find that.
            let (tail, room) = (table.last_block(), table.len() as u32 * size - len);
            count.wrapping_sub(1) < room as usize && (tail == NIL || pool.is_pending_alone(tail))
        };
        if uniform && !sequence.tables.iter().all(ours) {
            return None;
        }
        // There is at least one.
        if !sequence.has_place(len + count as u32 - 1) {
            return None;
        }
        self.store.tick();
        sequence.len += count as u32;
        if self.store.is_logging() {
            log_append(&mut self.store, (seq, sequence.len), ids);
        }
        ids.enter(sequence);
        Some(sequence)
    }

    /// Whether `count` tokens fit into tail blocks that only `seq` reads, where the groups' tail
    /// blocks differ.
    #[inline(never)]
    fn fits_uneven(&self, seq: SeqId, count: usize) -> bool {
        let (size, Ok(sequence)) = (self.options.block_size, self.sequences.get(seq)) else {
            return false;
        };
        let offset = sequence.len % size;
        offset > 0
            && (1..=(size - offset) as usize).contains(&count)
            && self.shared_ahead(seq).is_ok_and(|shared| shared.is_empty())
    }

    /// Slots for the known tokens of `seq` up to `until` (chunked prefill).
    ///
    /// # Errors
    /// Unknown handles; [`Error::NoCapacity`]; [`Error::Backwards`]; [`Error::Invalid`] past what
    /// is known.
    pub fn extend(&mut self, seq: SeqId, until: u32) -> Result<()> {
        self.check_extend(seq, until)?;
        if until > self.sequences.get(seq)?.len {
            self.make_slots(seq, until)?;
            self.store.note(Kind::Extend, seq, u64::from(until));
            self.note_computing(seq);
        }
        Ok(())
    }

    /// Slots up to `until`, as `extend` gives them, and past what is known for tokens whose ids, or
    /// keys where the request came as keys, come later.
    ///
    /// # Errors
    /// As [`Manager::extend`]; [`Error::Invalid`] past the full length.
    pub fn reserve(&mut self, seq: SeqId, until: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let known = sequence.known();
        if until <= known {
            return self.extend(seq, until);
        }
        check_length("reserve", u64::from(until - known), (known, sequence.max_seq_len))?;
        self.make_slots(seq, until)?;
        self.note_append(seq, until, Ids::Unknown(until - known));
        Ids::Unknown(until - known).enter(self.sequences.get_mut(seq)?);
        self.note_computing(seq);
        Ok(())
    }

    /// Whether `seq` may get slots up to `until`, room apart.
    pub(super) fn check_extend(&self, seq: SeqId, until: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        if until < sequence.len {
            let limit = u64::from(sequence.len);
            return Err(Error::Backwards { what: "extend", asked: u64::from(until), limit });
        }
        self.check_known(seq, until)
    }

    /// Whether so many tokens of `seq` are known.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] past what is known.
    pub fn check_known(&self, seq: SeqId, until: u32) -> Result<()> {
        let known = self.sequences.get(seq)?.known();
        if until <= known {
            return Ok(());
        }
        let limit = format!("only {known} tokens are known");
        Err(Error::Invalid { what: "extend", value: until.to_string(), limit })
    }

    pub(super) fn checked_len(&self, until: u64) -> Result<u32> {
        u32::try_from(until).map_err(|_| Error::NeverFits {
            needed: until.div_ceil(self.block_size().into()),
            total: u64::from(self.pool().usable()),
            limit: WHOLE_POOL,
        })
    }

    /// Blocks that `seq` holds where it has slots up to `until`, all before them are computed and
    /// nothing else is in the pool. Public ones, which are not its tenant's, do not count.
    fn held_alone(&self, seq: SeqId, until: u32) -> Result<u64> {
        let sequence = self.sequences.get(seq)?;
        let held = |(reach, table): (&GroupReach, &BlockTable)| {
            let computed = reach.computed(sequence.len, sequence.cached);
            let gone = reach.gone(computed);
            let kept = table.iter().enumerate().filter(|(at, _)| !gone.contains(at));
            let public = kept.filter(|&(_, &block)| block != NIL && self.is_public(block)).count();
            u64::from(reach.held_up_to(computed, until)) - public as u64
        };
        let held = self.layout.groups().iter().zip(&sequence.tables).map(held).sum::<u64>();
        // A block that is findable is copied also where no other sequence has it.
        let shared = self.shared_ahead(seq)?;
        let found =
            |&(group, at): &(usize, usize)| self.pool().is_findable(sequence.tables[group][at]);
        let copied = shared.iter().filter(|&place| found(place)).count() as u64;
        Ok(held + self.layout.cross_blocks(sequence.encoder_tokens) + copied)
    }

    /// Want of room for slots up to `until`, or that there can never be room.
    #[cold]
    fn never_or_later(&self, seq: SeqId, until: u32, later: Error) -> Error {
        let tenant = self.tenant_of(seq);
        match self.held_alone(seq, until) {
            Ok(needed) if needed > u64::from(self.store.usable(tenant)) => {
                self.never_fits(needed, tenant)
            }
            _ => later,
        }
    }

    /// Blocks that the tenant of `seq` can ever have.
    fn usable_of(&self, seq: SeqId) -> u32 {
        self.store.usable(self.tenant_of(seq))
    }

    fn tenant_of(&self, seq: SeqId) -> u8 {
        self.sequences.get(seq).map_or(OTHERS, |s| s.meta.tenant)
    }

    /// The longest length up to `until` that `seq` could have slots for, were it alone in the pool;
    /// `until` if that is none longer than it has.
    pub(super) fn longest_alone(&self, seq: SeqId, until: u32) -> Result<u32> {
        let total = u64::from(self.usable_of(seq));
        if !self.layout.gives_up() || self.held_alone(seq, until)? <= total {
            return Ok(until);
        }
        let len = self.sequences.get(seq)?.len;
        let (mut low, mut high) = (len, until);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.held_alone(seq, middle)? <= total { low = middle } else { high = middle - 1 }
        }
        Ok(if low > len { low } else { until })
    }

    /// Counts, then grows every group's table to hold `until` tokens.
    fn make_slots(&mut self, seq: SeqId, until: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let (from, encoder) = (sequence.len, sequence.encoder_tokens);
        let tenant = sequence.meta.tenant;
        if until == from {
            return Ok(());
        }
        self.store.serve(tenant);
        let rows = self.blocks_for(from)..self.blocks_for(until);
        let more = if rows.is_empty() {
            0
        } else {
            self.layout.blocks(until, encoder) - self.layout.blocks(from, encoder)
        };
        // The common decode step touches a partial block of its own: nothing to count.
        let ahead = !self.layout.is_uniform() || !from.is_multiple_of(self.block_size());
        let copies = if ahead { self.shared_ahead(seq)? } else { Vec::new() };
        let needed = more + copies.len() as u64;
        if needed > 0 {
            let needed = u32::try_from(needed).unwrap_or(u32::MAX);
            let refused = |error| match error {
                Error::NoCapacity { .. } => self.never_or_later(seq, until, error),
                error => error,
            };
            let room = self.room_for(needed, 0, tenant).map_err(refused);
            let room = room.inspect_err(|error| self.count_refusal(error, tenant));
            if let Err(Error::NeedVictims { n }) = room {
                self.with_missed(seq, |kv, keys| kv.announce_all(keys, rows.start, n));
            }
            room?;
            self.store.approach(needed);
        }
        self.store.tick();
        for (group, at) in copies {
            self.copy_block(seq, group, at)?;
        }
        let mut tables = std::mem::take(&mut self.sequences.get_mut(seq)?.tables);
        for row in rows {
            if self.store.policy().wants_misses() {
                self.with_missed(seq, |kv, keys| kv.announce(keys, row));
            }
            let obtained = self.obtain_row(seq, &mut tables, row, None);
            debug_assert!(obtained, "room was counted");
        }
        if let Some(outside) = self.store.external_served() {
            outside.end_announced();
        }
        let sequence = self.sequences.get_mut(seq)?;
        sequence.tables = tables;
        sequence.len = until;
        self.note_promised(seq);
        Ok(())
    }

    /// Does `work` with the keys of the tokens that `seq` knows: of a prompt that is computed in chunks, all but
    /// the first chunk get their blocks here.
    fn with_missed(&mut self, seq: SeqId, work: impl FnOnce(&mut Self, &[Key])) {
        let Ok(sequence) = self.sequences.get_mut(seq) else { return };
        if !sequence.write_cache || sequence.private {
            return;
        }
        let keys = std::mem::take(&mut sequence.keys);
        work(self, &keys);
        if let Ok(sequence) = self.sequences.get_mut(seq) {
            sequence.keys = keys;
        }
    }

    /// Whether another reader would see a write into `block`: another owner, or a sequence that finds it in
    /// the index. A copy under way is no such owner, because it only reads the block, or fills it for this
    /// one.
    fn is_shared(&self, block: BlockId) -> bool {
        self.has_other_owner(block) || (block != NIL && self.pool().state(block) != State::Pending)
    }

    fn has_other_owner(&self, block: BlockId) -> bool {
        if block == NIL {
            return false;
        }
        let refs = self.pool().refs(block);
        refs > 1 && refs - self.transfers.tickets().holds(block) > 1
    }

    /// Blocks (group, place) that `seq` writes into next and that have another reader: the last
    /// block if it is not full, and in a group that lags all blocks that are still to be computed.
    /// Where blocks differ in size, all of those: a copy that fails in one group would spoil them
    /// in another.
    fn shared_ahead(&self, seq: SeqId) -> Result<Vec<(usize, usize)>> {
        self.written_ahead(seq, |block| self.is_shared(block))
    }

    /// Blocks (group, place) that `seq` writes into next and that are `copied`.
    pub(super) fn written_ahead(
        &self,
        seq: SeqId,
        copied: impl Fn(BlockId) -> bool,
    ) -> Result<Vec<(usize, usize)>> {
        let sequence = self.sequences.get(seq)?;
        let mut shared = Vec::new();
        for (group, reach) in self.layout.groups().iter().enumerate() {
            if reach.kind == GroupKind::Cross {
                continue;
            }
            let (table, tail) = (&sequence.tables[group], (sequence.len / reach.span) as usize);
            if reach.lag > 0 || self.layout.is_mixed() {
                let len = if self.layout.is_mixed() { sequence.committed } else { sequence.len };
                let from = reach.computed(len, sequence.cached) / reach.span;
                let open = |&at: &usize| {
                    // One that is loaded comes computed. One that is findable is here only after a
                    // cut to what lags behind it.
                    table[at] != NIL
                        && copied(table[at])
                        && !self
                            .transfers
                            .tickets()
                            .is_loading(table[at], sequence.joined, &|_| false)
                };
                let ahead = (from as usize..tail.min(table.len())).filter(open);
                shared.extend(ahead.map(|at| (group, at)));
            }
            let is_partial = !sequence.len.is_multiple_of(reach.span);
            if is_partial && table[tail] != NIL && copied(table[tail]) {
                shared.push((group, tail));
            }
        }
        Ok(shared)
    }

    /// Copy-on-write: a block gets a page of its own before `seq` writes on.
    pub(super) fn copy_block(&mut self, seq: SeqId, group: usize, at: usize) -> Result<()> {
        let reach = self.layout.groups()[group];
        let sequence = self.sequences.get(seq)?;
        let src = sequence.tables[group][at];
        let tokens = (sequence.len - at as u32 * reach.span).min(reach.span);
        self.store.serve(sequence.meta.tenant);
        let dst = self
            .store
            .obtain(seq, group, None)
            .ok_or_else(|| Error::Integrity("room for a copy was counted and is gone".into()))?;
        // The sequence's own reference to `src` becomes the copy's; `dst` gets one for it too.
        self.store.hold(0, &[dst]);
        self.sequences.get_mut(seq)?.tables[group].replace(at, dst);
        let copy = BlockCopy { src, dst, tokens, seq, group: group as u8 };
        if self.pool().parent(src) != NIL && self.pool().state(src) == State::Committed {
            // A findable block keeps those it follows owned, also where only its copy needs it.
            let path = &self.sequences.get(seq)?.tables[group][..at];
            self.transfers.hold(&mut self.store, path);
        }
        self.transfers.copy(&mut self.store, copy);
        let sequence = self.sequences.get_mut(seq)?;
        sequence.published = sequence.published.min(at as u32 * reach.units);
        Ok(())
    }
}
