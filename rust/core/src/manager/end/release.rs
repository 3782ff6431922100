//! Sequences end or are cut (`release`, `abort`, `preempt`, `truncate`), and tickets are settled (`done`,
//! `failed`): their blocks lose owners. What a preempted request keeps is in `crate::request`.

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::{GroupKind, GroupReach};
use crate::hash::MmItem;
use crate::manager::Manager;
use crate::pool::BlockId;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// Ends `seq`. Its findable blocks stay cached, the tail first in line to be evicted; the rest are free.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn release(&mut self, seq: SeqId) -> Result<()> {
        self.let_go(seq)?;
        self.end_promise(seq);
        self.sequences.remove(seq);
        Ok(())
    }

    /// Ends `seq` as `release` does, and makes nothing more of it findable: what it committed before
    /// stays cached, a partial last block or a load under way does not become so.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn abort(&mut self, seq: SeqId) -> Result<()> {
        self.sequences.get_mut(seq)?.private = true;
        self.store.note(Kind::Abort, seq, 0);
        self.release(seq)
    }

    /// Ends `seq` as `release` does, and returns what was known of it, to bring it back with.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn preempt(&mut self, seq: SeqId) -> Result<Sequence> {
        self.let_go(seq)?;
        self.end_promise(seq);
        let mut sequence = self.sequences.take(seq);
        sequence.chunk = self.chunk_to_return(&sequence);
        Ok(sequence)
    }

    fn let_go(&mut self, seq: SeqId) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let (len, session) = (sequence.len, sequence.meta.session);
        self.store.tick();
        // Blocks whose copy was still under way at the last commit may be findable by now.
        self.publish(seq)?;
        self.publish_tail(seq)?;
        self.leave_orphan(seq)?;
        self.leave_joiners(seq, 0)?;
        self.transfers.end_computing(seq);
        self.cut_tables(seq, None)?;
        self.leave_computation(seq)?;
        self.remapped.retain(|entry| entry.seq != seq);
        self.end_in_session(session);
        self.store.note(Kind::Finish, seq, u64::from(len));
        Ok(())
    }

    /// Cuts `seq` to `len` tokens: speculative tokens that were not accepted, a failed load.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] beyond the present length, where a window group gave
    /// up blocks that the next token would attend to, or inside a block that is being loaded.
    pub fn truncate(&mut self, seq: SeqId, len: u32) -> Result<()> {
        self.check_cut(seq, len, &|_| false)?;
        self.cut(seq, len)
    }

    /// For replaying a log: cuts what is known of `seq` to `len` tokens where it has fewer slots, as in a
    /// step in which a copy of it failed first.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn cut_known(&mut self, seq: SeqId, len: u32) -> Result<()> {
        self.cut(seq, len)
    }

    /// Whether `seq` may be cut to `len` tokens once the `settled` tickets are.
    pub(in crate::manager) fn check_cut(
        &self,
        seq: SeqId,
        len: u32,
        settled: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        // The common case: no block was given up, and no load writes there.
        if len <= sequence.len && !self.layout.gives_up() && !self.transfers.tickets().has_loads() {
            return Ok(());
        }
        let (has, least) = (sequence.len, self.least_cut(seq)?);
        let groups = self.layout.groups().iter().zip(&sequence.tables);
        let mut partial = groups
            .filter(|(reach, _)| reach.kind != GroupKind::Cross)
            .filter(|(reach, _)| len < has && !len.is_multiple_of(reach.span))
            .map(|(reach, table)| (reach, (len / reach.span) as usize, table))
            .filter_map(|(reach, tail, table)| Some((reach, tail, *table.get(tail)?)));
        // What a load brings is the state at the end of its block, also if it has just come.
        let loading = |reach: &GroupReach, page| match reach.kind {
            GroupKind::State => {
                self.transfers.tickets().is_loading(page, sequence.joined, &|_| false)
            }
            _ => self.transfers.tickets().is_loading(page, sequence.joined, settled),
        };
        let limit = match len {
            _ if len > has => format!("the sequence has {has} tokens"),
            _ if len > 0 && len < least => format!(
                "a window gave up what tokens before {least} attend to: {least} to {has}, or 0"
            ),
            _ if len < has && !self.keeps_state(seq, len)? => format!(
                "recurrent layers have the state after {} tokens, and after a kept block: not this",
                sequence.committed
            ),
            // What comes after the cut would be written where the load still writes.
            _ => match partial.find(|&(reach, _, page)| loading(reach, page)) {
                Some((_, tail, _)) => format!(
                    "block {tail} is being loaded: cut between blocks, or settle its ticket"
                ),
                None => return Ok(()),
            },
        };
        Err(Error::Invalid { what: "truncate", value: len.to_string(), limit })
    }

    /// Cuts to `len` tokens what `seq` has and knows.
    pub(in crate::manager) fn cut(&mut self, seq: SeqId, len: u32) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        if len >= sequence.len && sequence.known() <= len {
            return Ok(());
        }
        self.store.tick();
        let (slots, known) = (len.min(sequence.len), len.min(sequence.known()));
        self.rewind(seq, slots)?;
        self.store.note_two(Kind::Truncate, seq, u64::from(slots), u64::from(known));
        let full = (len / self.block_size()) as usize;
        let sequence = self.sequences.get_mut(seq)?;
        let gone = sequence.known().saturating_sub(len);
        sequence.unknown = sequence.unknown.saturating_sub(gone);
        sequence.tokens.truncate(len as usize);
        sequence.known = len;
        sequence.keys.truncate(full);
        sequence.next_use.truncate(full);
        // Other blocks take these places, and the admission policy has not been asked about them.
        sequence.sighted = sequence.sighted.min(full as u32);
        sequence.closed = sequence.closed.filter(|&closed| (closed as usize) < full);
        // Tokens that come in the place of a cut item are not that item; those in the place of public ones are not
        // public.
        let has_public = sequence.public > 0;
        let is_current = has_public && sequence.root == self.hasher.root(sequence.space());
        let boundary = if has_public { sequence.mm_items.pop() } else { None };
        sequence.mm_items.retain(|e| e.start < len);
        sequence.mm_items.iter_mut().for_each(|e| e.end = e.end.min(len));
        if let Some(boundary) = boundary {
            let size = self.options.block_size;
            sequence.public = sequence.public.min(full as u32);
            if sequence.public > 0 {
                let start = sequence.public * size;
                sequence.mm_items.push(MmItem { start, end: start + 1, ..boundary });
            } else if is_current {
                // What other weights computed keeps their root.
                sequence.root = self.hasher.root(sequence.space());
            }
        }
        self.note_promised(seq);
        Ok(())
    }

    /// Takes slots away down to `len` tokens; what is known of the sequence stays known.
    pub(in crate::manager) fn rewind(&mut self, seq: SeqId, len: u32) -> Result<()> {
        let full = len / self.block_size();
        self.leave_joiners(seq, full)?;
        self.cut_tables(seq, Some(len))?;
        let sequence = self.sequences.get_mut(seq)?;
        sequence.len = len;
        sequence.committed = sequence.committed.min(len);
        sequence.cached = sequence.cached.min(len);
        sequence.published = sequence.published.min(full);
        sequence.passed = sequence.passed.min(len);
        self.note_computing(seq);
        self.note_promised(seq);
        Ok(())
    }

    /// Shortens every table of `seq` to `len` tokens, or to nothing, dropping the blocks tail first, or
    /// behind the fence that is up: then the last group first, as vLLM does with what it frees late.
    fn cut_tables(&mut self, seq: SeqId, len: Option<u32>) -> Result<()> {
        let (groups, waits) = (self.layout.groups().len(), self.transfers.fences().is_up());
        for at in 0..groups {
            let group = if waits { groups - 1 - at } else { at };
            let sequence = self.sequences.get_mut(seq)?;
            let keep = |len| self.layout.table_len(group, len, sequence.encoder_tokens);
            let keep = len.map_or(0, keep);
            if keep >= sequence.tables[group].len() {
                continue;
            }
            let mut table = std::mem::take(&mut sequence.tables[group]);
            if self.notes_uses() {
                self.retain(seq, group, keep, &table[keep..], true)?;
            }
            self.transfers.drop_table(&mut self.store, seq, &table, keep);
            table.truncate(keep);
            self.sequences.get_mut(seq)?.tables[group] = table;
        }
        Ok(())
    }

    /// A plan's copies are ordered on the stream of every later writer: their pages are released. A
    /// load has ended well; a lease is over.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn done(&mut self, ticket: u64) -> Result<()> {
        if let Some((load, _)) = self.transfers.tickets().load(ticket) {
            return self.loaded(ticket, load.blocks).map(drop);
        }
        self.transfers.done(&mut self.store, ticket)
    }

    /// A plan's copies failed: what they would have filled is cut from its sequences, which go on
    /// from the last good block (`extend` gives the slots back), or from the start where a window
    /// has moved past that. Returns each sequence that was cut.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn failed(&mut self, ticket: u64) -> Result<Vec<SeqId>> {
        self.transfers.check(ticket)?;
        let cut = self.lose(ticket)?;
        self.end_orphans(ticket)?;
        Ok(cut)
    }

    /// What `failed` does to pages and sequences.
    pub(in crate::manager) fn lose(&mut self, ticket: u64) -> Result<Vec<SeqId>> {
        let loads = u64::from(self.transfers.tickets().load(ticket).is_some());
        let plan = self.transfers.settle(ticket)?;
        self.store.tick();
        self.store.stats_mut().loads += loads;
        self.store.note_two(Kind::Fail, 0, ticket, plan.copies.len() as u64);
        let mut cut = Vec::new();
        self.store.stats_mut().failed_copies += plan.copies.len() as u64;
        let mut ends: HashMap<BlockId, u32> = HashMap::new();
        for page in plan.copies.iter().flat_map(|c| [c.src, c.dst]) {
            *ends.entry(page).or_default() += 1;
        }
        for (page, group, seq) in self.transfers.tickets().spoiled(&plan) {
            let seq = self.transfers.orphans().get(ticket).unwrap_or(seq);
            let copies =
                ends.get(&page).copied().unwrap_or(0) + self.transfers.tickets().holds(page);
            let first = plan.sharers.partition_point(|&(shared, _)| shared < page);
            let settled = plan.sharers[first..].iter().take_while(|&&(shared, _)| shared == page);
            let mut sharers: Vec<SeqId> = settled.map(|&(_, seq)| seq).collect();
            sharers.extend(self.transfers.tickets().sharers(page));
            for (seq, at) in self.holders(page, group, seq, copies, sharers) {
                let good = at as u32 * self.layout.groups()[group as usize].span;
                let good = self.last_good(seq, good)?;
                self.rewind(seq, good)?;
                self.store.note(Kind::Rewind, seq, u64::from(good));
                if !self.transfers.orphans().has(seq) {
                    cut.push(seq);
                }
            }
        }
        self.transfers.drop_owners(&mut self.store, 0, &plan.owned());
        cut.sort_unstable();
        cut.dedup();
        Ok(cut)
    }

    /// Who has `page` in a table, and where, if `copies` of its owners are copies. That is mostly `seq`
    /// alone; `sharers`, forks of it and those that joined its load, may have it too.
    pub(in crate::manager) fn holders(
        &self,
        page: BlockId,
        group: u8,
        seq: SeqId,
        copies: u32,
        mut sharers: Vec<SeqId>,
    ) -> Vec<(SeqId, usize)> {
        let place = |s: &Sequence| s.tables[group as usize].iter().position(|&b| b == page);
        let own = self.sequences.get(seq).ok().and_then(place).map(|at| (seq, at));
        match (self.pool().refs(page).saturating_sub(copies), own) {
            (0, _) => Vec::new(),
            (1, Some(own)) => vec![own],
            _ => {
                sharers.push(seq);
                // In the order of their slots.
                sharers.sort_unstable_by_key(|&seq| (seq as u32, seq));
                sharers.dedup();
                let live = sharers.into_iter().filter_map(|seq| {
                    let sequence = self.sequences.get(seq).ok()?;
                    Some((seq, place(sequence)?))
                });
                live.collect()
            }
        }
    }
}
