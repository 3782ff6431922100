//! What is in flight: copies, loads, leases and joined computations, and what waits for a step to pass.
//!
//! Readers look at [`Transfers::tickets`], [`Transfers::fences`] and [`Transfers::computing`]. Changes go through
//! [`Transfers`], so that blocks in flight have their owners in the [`Store`].

mod computing;
mod fences;
mod orphans;
mod tickets;

pub use tickets::{BlockCopy, CopyPlan, LoadTicket, OutstandingTicket, SettledTicket, Tickets};

pub(crate) use computing::Computations;
pub(crate) use fences::Fences;
pub(crate) use orphans::Orphans;

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::hash::Key;
use crate::pool::BlockId;
use crate::sequence::{SeqId, Sequence};
use crate::store::Store;

/// Blocks that are being written or read outside of any operation.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    tickets: Tickets,
    fences: Fences,
    orphans: Orphans,
    computing: Computations,
    /// Sequences cut since the caller last asked, because a computation they joined was.
    rewound: Vec<SeqId>,
}

impl Transfers {
    /// Copies, loads and leases.
    #[inline]
    pub(crate) fn tickets(&self) -> &Tickets {
        &self.tickets
    }

    /// What waits for a step.
    #[inline]
    pub(crate) fn fences(&self) -> &Fences {
        &self.fences
    }

    /// What may be joined.
    #[inline]
    pub(crate) fn computing(&self) -> &Computations {
        &self.computing
    }

    /// Loads whose sequence has ended.
    #[inline]
    pub(crate) fn orphans(&self) -> &Orphans {
        &self.orphans
    }

    /// Every block that something in flight owns, once for each owner.
    pub(crate) fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.tickets.owners().chain(self.fences.owners())
    }

    // --- copies ---------------------------------------------------------------------------------

    /// Plans a copy whose pages have owners for it.
    pub(crate) fn copy(&mut self, store: &mut Store, copy: BlockCopy) {
        store.count_copy(copy.seq, (copy.src, copy.dst), copy.tokens);
        self.tickets.add(copy);
    }

    /// Owns the blocks of `path`, which what is copied next follows, until the plan is done.
    pub(crate) fn hold(&mut self, store: &mut Store, path: &[BlockId]) {
        store.hold(0, path);
        self.tickets.hold(path.iter().rev().copied());
    }

    /// `seq` is a further owner of `block`, which may be copied or loaded.
    #[inline]
    pub(crate) fn share(&mut self, block: BlockId, seq: SeqId) {
        self.tickets.share(block, seq);
    }

    /// Closes the plan of copies gathered since the last call.
    pub(crate) fn take_plan(&mut self, store: &mut Store) -> Option<CopyPlan> {
        let plan = self.tickets.take_plan()?;
        store.note_two(Kind::Plan, 0, plan.ticket, plan.copies.len() as u64);
        Some(plan)
    }

    // --- tickets --------------------------------------------------------------------------------

    /// Refuses a ticket that is not outstanding.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub(crate) fn check(&self, ticket: u64) -> Result<()> {
        if self.tickets.is_outstanding(ticket) { Ok(()) } else { Err(Error::UnknownTicket(ticket)) }
    }

    /// Opens the ticket of `blocks` blocks from `start` on, which a load fills, or `filler` computes.
    pub(crate) fn open_load(
        &mut self,
        store: &mut Store,
        (start, blocks): (u32, u32),
        filler: Option<SeqId>,
        pages: Vec<BlockCopy>,
    ) -> u64 {
        for page in &pages {
            store.hold(0, &[page.dst]);
        }
        self.tickets.issue_load(start, blocks, filler, pages)
    }

    /// What the first block of a load will be found by.
    pub(crate) fn name_load(&mut self, ticket: u64, name: Key) {
        self.tickets.name_load(ticket, name);
    }

    /// Keeps only the first `good` pages of a load.
    pub(crate) fn keep_only(&mut self, ticket: u64, good: usize) {
        self.tickets.keep_only(ticket, good);
    }

    /// Takes a ticket back.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub(crate) fn settle(&mut self, ticket: u64) -> Result<SettledTicket> {
        self.tickets.settle(ticket)
    }

    /// Settles a ticket: its copies are ordered before every later writer, or its lease is over.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub(crate) fn done(&mut self, store: &mut Store, ticket: u64) -> Result<()> {
        self.check(ticket)?;
        let mut plan = self.tickets.settle(ticket)?;
        store.tick();
        store.note(Kind::Done, 0, ticket);
        self.tickets.hand_over(&mut plan);
        store.drop_owners(0, &plan.owned());
        Ok(())
    }

    /// Holds blocks of `seq` for a reader elsewhere. Returns the ticket.
    pub(crate) fn lease(&mut self, store: &mut Store, held: Vec<BlockId>) -> u64 {
        store.hold(0, &held);
        self.tickets.lease(held)
    }

    /// An outstanding ticket lapses at `at`.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub(crate) fn set_deadline(&mut self, ticket: u64, at: u64) -> Result<()> {
        self.check(ticket)?;
        self.tickets.set_deadline(ticket, at);
        Ok(())
    }

    // --- joins ----------------------------------------------------------------------------------

    /// `seq` waits for what a ticket brings.
    pub(crate) fn add_joiner(&mut self, ticket: u64, seq: SeqId) {
        self.tickets.add_joiner(ticket, seq);
    }

    /// `seq` does not wait any more.
    pub(crate) fn remove_joiner(&mut self, ticket: u64, seq: SeqId) {
        self.tickets.remove_joiner(ticket, seq);
    }

    /// Takes blocks of `groups` groups out of a joined computation: the first `blocks` of them, or all behind
    /// those, as `front` says. Returns their pages.
    pub(crate) fn split(
        &mut self,
        store: &mut Store,
        ticket: u64,
        (blocks, groups): (u32, usize),
        front: bool,
    ) -> Vec<BlockId> {
        let taken = self.tickets.split_load(ticket, blocks, groups, front);
        let pages: Vec<BlockId> = taken.iter().map(|copy| copy.dst).collect();
        store.drop_owners(0, &pages);
        pages
    }

    /// A join is asked for beside `count` sequences. True if all that run are to be offered from now on.
    pub(crate) fn expect_joins(&mut self, count: usize) -> bool {
        self.computing.expect(count)
    }

    /// What `seq` computes may have changed: its blocks of `size` tokens, named by their keys or by
    /// their tokens.
    pub(crate) fn offer(&mut self, seq: SeqId, sequence: &Sequence, size: usize, by_key: bool) {
        let from = sequence.committed as usize / size;
        let known = if by_key { sequence.keys.len() } else { sequence.filled() as usize / size };
        let to = known.min(sequence.len as usize / size).max(from);
        if sequence.private || self.is_brought(sequence, from) {
            return self.computing.forget(seq);
        }
        self.computing.offer(seq, from, to, |computing, at, before| {
            if by_key {
                return sequence.keys.get(at).copied().unwrap_or_default();
            }
            let before = if at == 0 { sequence.root } else { before };
            let tokens = sequence.tokens.get(at * size..(at + 1) * size);
            computing.name(before, tokens.unwrap_or_default())
        });
    }

    /// Whether a load or another sequence fills the block at place `at`: it is noted once it is
    /// filled.
    fn is_brought(&self, sequence: &Sequence, at: usize) -> bool {
        let mut pages = sequence.tables.iter().filter_map(|table| table.get(at));
        pages.any(|&page| self.tickets.is_loading(page, sequence.joined, &|_| false))
    }

    /// `seq` computes nothing any more.
    pub(crate) fn end_computing(&mut self, seq: SeqId) {
        if self.computing.is_on() {
            self.computing.forget(seq);
        }
    }

    /// Nothing that is computed may be joined any more.
    pub(crate) fn clear_computing(&mut self) {
        self.computing.clear();
    }

    /// `seq` was cut because what it had joined was.
    pub(crate) fn note_rewound(&mut self, seq: SeqId) {
        self.rewound.push(seq);
    }

    /// Whether a sequence was cut since the last call of [`Transfers::take_rewound`].
    pub(crate) fn has_rewound(&self) -> bool {
        !self.rewound.is_empty()
    }

    /// Those since the last call.
    pub(crate) fn take_rewound(&mut self) -> Vec<SeqId> {
        std::mem::take(&mut self.rewound)
    }

    // --- sequences that have ended --------------------------------------------------------------

    /// `orphan` keeps the place of a load whose sequence ends.
    pub(crate) fn add_orphan(&mut self, ticket: u64, orphan: SeqId) {
        self.orphans.add(ticket, orphan);
    }

    /// The ticket is settled: its stand-in, which ends.
    pub(crate) fn take_orphan(&mut self, ticket: u64) -> Option<SeqId> {
        self.orphans.take(ticket)
    }

    // --- fences ---------------------------------------------------------------------------------

    /// From now on, what sequences give up waits until `fence` has passed, if it has not.
    pub(crate) fn fence_up(&mut self, fence: Option<u64>) {
        self.fences.put_up(fence);
    }

    /// What sequences give up is dropped at once again.
    pub(crate) fn fence_down(&mut self) {
        self.fences.take_down();
    }

    /// Every step up to `fence` has run: what waited for them is dropped, in the order it came.
    pub(crate) fn pass(&mut self, store: &mut Store, fence: u64) {
        self.fences.pass(store, fence);
    }

    /// `seq` gives up the end of a table from `keep` on, behind the fence that is up.
    pub(crate) fn drop_table(
        &mut self,
        store: &mut Store,
        seq: SeqId,
        table: &[BlockId],
        keep: usize,
    ) {
        if self.fences.is_up() {
            self.fences.put_behind(store, table, keep);
        } else {
            store.drop_table(seq, &table[keep..]);
        }
    }

    /// `seq` gives up `blocks`, in the order of their prefix, behind the fence that is up.
    pub(crate) fn drop_owners(&mut self, store: &mut Store, seq: SeqId, blocks: &[BlockId]) {
        if self.fences.is_up() {
            self.fences.put_behind(store, blocks, 0);
        } else {
            store.drop_owners(seq, blocks);
        }
    }

    /// `seq` gives up the entries of a table at `places`, in their order, behind the fence that is up.
    pub(crate) fn drop_places(
        &mut self,
        store: &mut Store,
        seq: SeqId,
        table: &[BlockId],
        places: &[usize],
    ) {
        if self.fences.is_up() {
            self.fences.put_places_behind(store, table, places);
        } else {
            let gone: Vec<BlockId> = places.iter().map(|&i| table[i]).collect();
            store.drop_owners(seq, &gone);
        }
    }
}
