//! Copies under way. Both pages of a copy belong to it as well until its ticket is settled, so
//! neither can be given to a sequence while the copy may still run.

mod pages;
mod ticket;

use std::collections::BTreeSet;

use hashbrown::HashMap;

use self::pages::PageUses;
use self::ticket::{LoadState, Ticket};
use crate::error::{Error, Result};
use crate::hash::Key;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// One page to copy before the step's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCopy {
    /// Page to read; [`NIL`] for one that comes from elsewhere (a load).
    pub src: BlockId,
    /// Page to write.
    pub dst: BlockId,
    /// Tokens of it that matter.
    pub tokens: u32,
    /// Whose table holds `dst`.
    pub seq: SeqId,
    /// Layer group.
    pub group: u8,
}

/// Copies that the data plane carries out together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyPlan {
    /// Hand it back when the copies are ordered on the stream that writes later, or have failed.
    pub ticket: u64,
    /// In the order to run them.
    pub copies: Vec<BlockCopy>,
}

/// Blocks of a sequence that a load or another sequence fills. `Tickets` keeps their pages as
/// copies without a source, block by block, with a page of every group in each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTicket {
    /// Its ticket.
    pub ticket: u64,
    /// Place of the first block in the tables.
    pub start: u32,
    /// How many.
    pub blocks: u32,
    /// The sequence that computes them, where it is one of this pool: a joined computation.
    pub filler: Option<SeqId>,
}

/// A ticket as an inspection shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutstandingTicket {
    /// The ticket; 0 for the plan that is being gathered.
    pub ticket: u64,
    /// Copies to carry out; without a source in a load.
    pub copies: Vec<BlockCopy>,
    /// Blocks it keeps besides their ends; all that a lease keeps.
    pub held: Vec<BlockId>,
    /// Whether a load or another sequence fills its pages.
    pub load: bool,
}

/// A ticket that is settled: what it owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettledTicket {
    /// Its number.
    pub ticket: u64,
    /// Its copies.
    pub copies: Vec<BlockCopy>,
    /// Blocks it kept besides their ends.
    pub held: Vec<BlockId>,
    /// Sequences that came to share a page that its copies write.
    pub sharers: Vec<(BlockId, SeqId)>,
}

impl SettledTicket {
    /// Every page that it owned and owns no more, prefixes before what follows them.
    pub fn owned(&self) -> Vec<BlockId> {
        let ends = self.copies.iter().flat_map(|c| [c.src, c.dst]);
        let mut out: Vec<BlockId> = ends.filter(|&b| b != NIL).collect();
        out.extend(&self.held);
        out.reverse();
        out
    }
}

/// Plans not given out yet, and those given out and not settled.
#[derive(Debug, Default)]
pub struct Tickets {
    gathering: Vec<BlockCopy>,
    /// Blocks that the plan being gathered keeps besides the ends of its copies.
    gathering_held: Vec<BlockId>,
    outstanding: HashMap<u64, Ticket>,
    pages: PageUses,
    /// How many of the outstanding ones are loads, joined computations included.
    loads: usize,
    /// The load that was opened for a sequence.
    opened: HashMap<SeqId, u64>,
    /// Loads by the name of the first block that each brings.
    names: HashMap<Key, BTreeSet<u64>>,
    /// Tickets of what others joined of a sequence's computation.
    fillers: HashMap<SeqId, BTreeSet<u64>>,
    /// When tickets lapse, by the caller's clock.
    deadlines: BTreeSet<(u64, u64)>,
    next: u64,
}

impl Tickets {
    /// Adds a copy to the plan being gathered.
    pub fn add(&mut self, copy: BlockCopy) {
        self.pages.add(&copy, 0);
        self.gathering.push(copy);
    }

    /// Blocks that the plan being gathered owns besides the ends of its copies.
    pub fn hold(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.gathering_held.extend(blocks);
    }

    /// Copies being gathered.
    pub fn gathered(&self) -> usize {
        self.gathering.len()
    }

    /// Closes the plan being gathered; `None` if it is empty.
    pub fn take_plan(&mut self) -> Option<CopyPlan> {
        if self.gathering.is_empty() {
            return None;
        }
        let copies = std::mem::take(&mut self.gathering);
        let held = std::mem::take(&mut self.gathering_held);
        let plan = CopyPlan { ticket: self.next + 1, copies: copies.clone() };
        self.pages.give_out(&copies, plan.ticket);
        self.issue(Ticket { copies, held, ..Ticket::default() });
        Some(plan)
    }

    fn issue(&mut self, ticket: Ticket) -> u64 {
        self.next += 1;
        self.outstanding.insert(self.next, ticket);
        self.next
    }

    /// A ticket for `blocks` blocks from the place `start` on, which a load or another sequence
    /// fills.
    pub fn issue_load(
        &mut self,
        start: u32,
        blocks: u32,
        filler: Option<SeqId>,
        copies: Vec<BlockCopy>,
    ) -> u64 {
        let ticket = self.next + 1;
        for copy in &copies {
            match filler {
                Some(filler) => self.pages.join(copy.dst, filler),
                None => self.pages.add(copy, ticket),
            }
        }
        let opened_for = copies.first().map_or(0, |copy| copy.seq);
        match filler {
            Some(filler) => drop(self.fillers.entry(filler).or_default().insert(ticket)),
            None => drop(self.opened.insert(opened_for, ticket)),
        }
        self.loads += 1;
        let load = LoadTicket { ticket, start, blocks, filler };
        let loading = LoadState { load, opened_for, name: None, joiners: BTreeSet::new() };
        self.issue(Ticket { copies, loading: Some(Box::new(loading)), ..Ticket::default() })
    }

    /// A load can be found by the name of the first block that it brings.
    pub fn name_load(&mut self, ticket: u64, name: Key) {
        if let Some(loading) = self.loading_mut(ticket) {
            loading.name = Some(name);
            self.names.entry(name).or_default().insert(ticket);
        }
    }

    /// Loads whose first block has that name.
    pub fn named(&self, name: Key) -> impl Iterator<Item = LoadTicket> + '_ {
        let tickets = self.names.get(&name).into_iter().flatten();
        tickets.filter_map(|ticket| self.outstanding.get(ticket)?.load())
    }

    /// Whether loads are under way, or computations that others joined.
    #[inline]
    pub fn has_loads(&self) -> bool {
        self.loads > 0
    }

    /// Whether anything is joined.
    pub fn has_joined(&self) -> bool {
        !self.fillers.is_empty()
    }

    /// The tickets by which other sequences joined the computation of `filler`.
    pub fn joined_with(&self, filler: SeqId) -> Vec<LoadTicket> {
        let tickets = self.fillers.get(&filler).into_iter().flatten();
        tickets.filter_map(|ticket| self.outstanding.get(ticket)?.load()).collect()
    }

    /// `seq` waits for what the ticket joined.
    pub fn add_joiner(&mut self, ticket: u64, seq: SeqId) {
        if let Some(joined) = self.loading_mut(ticket) {
            joined.joiners.insert((seq as u32, seq));
        }
    }

    /// `seq` waits no more.
    pub fn remove_joiner(&mut self, ticket: u64, seq: SeqId) {
        if let Some(joined) = self.loading_mut(ticket) {
            joined.joiners.remove(&(seq as u32, seq));
        }
    }

    /// Who waits for what the ticket joined.
    pub fn joiners(&self, ticket: u64) -> impl Iterator<Item = SeqId> + '_ {
        let joined = self.outstanding.get(&ticket).and_then(|ticket| ticket.loading.as_ref());
        joined.into_iter().flat_map(|joined| &joined.joiners).map(|&(_, seq)| seq)
    }

    fn loading_mut(&mut self, ticket: u64) -> Option<&mut LoadState> {
        self.outstanding.get_mut(&ticket)?.loading.as_deref_mut()
    }

    /// The load that was opened for `seq`, joined computations apart.
    pub fn load_for(&self, seq: SeqId) -> Option<LoadTicket> {
        self.outstanding.get(self.opened.get(&seq)?)?.load()
    }

    /// Takes the first `blocks` blocks of a joined computation, or (from its end) all others, out of
    /// it; one of which nothing is left is settled. Returns their pages, which the ticket owns no
    /// more.
    pub fn split_load(
        &mut self,
        ticket: u64,
        blocks: u32,
        groups: usize,
        front: bool,
    ) -> Vec<BlockCopy> {
        let Some(split) = self.outstanding.get_mut(&ticket) else { return Vec::new() };
        let Some(LoadState { load, .. }) = split.loading.as_deref_mut() else { return Vec::new() };
        let blocks = blocks.min(load.blocks);
        if front {
            load.start += blocks;
            load.blocks -= blocks;
        } else {
            load.blocks = blocks;
        }
        let (left, filler, at) = (load.blocks, load.filler, blocks as usize * groups);
        let taken = if front {
            split.take_front(at)
        } else {
            split.copies.drain(split.skip + at..).collect()
        };
        for copy in &taken {
            match filler {
                Some(_) => self.pages.leave(copy.dst),
                None => self.pages.remove(copy),
            }
        }
        if left == 0 {
            self.forget(ticket);
        }
        taken
    }

    /// Takes a ticket off every list but that of pages.
    fn forget(&mut self, ticket: u64) -> Option<Ticket> {
        let gone = self.outstanding.remove(&ticket)?;
        if let Some(at) = gone.deadline {
            self.deadlines.remove(&(at, ticket));
        }
        let Some(loading) = &gone.loading else { return Some(gone) };
        self.loads -= 1;
        if let Some(filler) = loading.load.filler {
            let left = self.fillers.get_mut(&filler).is_some_and(|tickets| {
                tickets.remove(&ticket);
                !tickets.is_empty()
            });
            if !left {
                self.fillers.remove(&filler);
            }
        } else {
            self.opened.remove(&loading.opened_for);
        }
        if let Some(name) = loading.name
            && let Some(tickets) = self.names.get_mut(&name)
        {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.names.remove(&name);
            }
        }
        Some(gone)
    }

    /// Lets a ticket lapse at `at`, by the caller's clock.
    pub fn set_deadline(&mut self, ticket: u64, at: u64) {
        let Some(lapses) = self.outstanding.get_mut(&ticket) else { return };
        if let Some(before) = lapses.deadline.replace(at) {
            self.deadlines.remove(&(before, ticket));
        }
        self.deadlines.insert((at, ticket));
    }

    /// When a ticket lapses.
    pub fn deadline(&self, ticket: u64) -> Option<u64> {
        self.outstanding.get(&ticket)?.deadline
    }

    /// Tickets that have lapsed by `now`, in the order they were given out.
    pub fn lapsed(&self, now: u64) -> Vec<u64> {
        let lapsed = self.deadlines.range(..=(now, u64::MAX));
        let mut tickets: Vec<u64> = lapsed.map(|&(_, ticket)| ticket).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Every ticket given out and not settled, in that order, joined computations apart.
    pub fn given(&self) -> Vec<u64> {
        let given = self.outstanding.iter().filter(|(_, ticket)| !ticket.is_joined());
        let mut given: Vec<u64> = given.map(|(&ticket, _)| ticket).collect();
        given.sort_unstable();
        given
    }

    /// Blocks that a ticket owns, once for each time.
    pub fn blocks_of(&self, ticket: u64) -> Vec<BlockId> {
        let Some(ticket) = self.outstanding.get(&ticket) else { return Vec::new() };
        let ends = ticket.copies().iter().flat_map(|c| [c.src, c.dst]);
        ends.filter(|&b| b != NIL).chain(ticket.held.iter().copied()).collect()
    }

    /// Whether a ticket copies pages of this pool.
    pub fn copies_pages(&self, ticket: u64) -> bool {
        let ticket = self.outstanding.get(&ticket);
        ticket.is_some_and(|ticket| ticket.copies().iter().any(|copy| copy.src != NIL))
    }

    /// A ticket that only keeps blocks.
    pub fn lease(&mut self, held: Vec<BlockId>) -> u64 {
        self.issue(Ticket { held, ..Ticket::default() })
    }

    /// An outstanding load, and its pages.
    pub fn load(&self, ticket: u64) -> Option<(LoadTicket, &[BlockCopy])> {
        let ticket = self.outstanding.get(&ticket)?;
        Some((ticket.load()?, ticket.copies()))
    }

    /// Whether a load or the joined computation `joined` has yet to fill `page`. Tickets for which
    /// `settled` is true do not count.
    pub fn is_loading(&self, page: BlockId, joined: u64, settled: &dyn Fn(u64) -> bool) -> bool {
        let load = self.loading(page).is_some_and(|load| !settled(load.ticket));
        load || (joined > 0 && self.is_joined(page, joined) && !settled(joined))
    }

    /// The load that brings `page`, joined computations apart.
    pub fn loading(&self, page: BlockId) -> Option<LoadTicket> {
        let (ticket, _) = self.pages.writer(page).filter(|&(_, load)| load)?;
        self.outstanding.get(&ticket)?.load()
    }

    /// Whether `page` is one of a computation that the ticket joined.
    pub fn is_joined(&self, page: BlockId, ticket: u64) -> bool {
        let filler = self.outstanding.get(&ticket).and_then(Ticket::load).and_then(|l| l.filler);
        filler.is_some() && self.pages.filler(page) == filler
    }

    /// Takes the first `good` copies out of an outstanding plan.
    pub fn keep_only(&mut self, ticket: u64, good: usize) {
        let Some(ticket) = self.outstanding.get_mut(&ticket) else { return };
        for copy in ticket.take_front(good) {
            self.pages.remove(&copy);
        }
    }

    /// Settles a ticket and returns what it owned.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn settle(&mut self, ticket: u64) -> Result<SettledTicket> {
        let mut gone = self.forget(ticket).ok_or(Error::UnknownTicket(ticket))?;
        gone.copies.drain(..gone.skip);
        let mut sharers = Vec::new();
        for copy in &gone.copies {
            sharers.extend(self.pages.sharers(copy.dst).map(|seq| (copy.dst, seq)));
            self.pages.remove(copy);
        }
        sharers.sort_unstable();
        Ok(SettledTicket { ticket, copies: gone.copies, held: gone.held, sharers })
    }

    /// Moves copies of a settled plan to another ticket if that ticket has yet to fill their source: until
    /// then, the copied page is not valid either. A source that a running sequence computes does not count,
    /// because the copy has what was there before.
    pub fn hand_over(&mut self, plan: &mut SettledTicket) {
        let Self { outstanding, pages, .. } = self;
        let SettledTicket { copies, sharers, .. } = plan;
        copies.retain(|copy| {
            let Some((ticket, _)) = pages.writer(copy.src) else { return true };
            let Some(other) = outstanding.get_mut(&ticket) else { return true };
            pages.add(copy, ticket);
            let first = sharers.partition_point(|&(shared, _)| shared < copy.dst);
            let same = sharers[first..].iter().take_while(|&&(shared, _)| shared == copy.dst);
            same.for_each(|&(page, seq)| pages.share(page, seq));
            other.copies.push(*copy);
            false
        });
    }

    /// The pages that become worthless if the copies of `plan` never ran: their targets, and the targets of
    /// copies made from those. Each has its layer group, and the sequence that had it when the copy was
    /// planned.
    pub fn spoiled(&self, plan: &SettledTicket) -> Vec<(BlockId, u8, SeqId)> {
        let mut pages: Vec<_> = plan.copies.iter().map(|c| (c.dst, c.group, c.seq)).collect();
        let mut at = 0;
        while let Some(&(page, ..)) = pages.get(at) {
            pages.extend(self.pages.reads(page).map(|(dst, read)| (dst, read.group, read.seq)));
            at += 1;
        }
        pages
    }

    /// Blocks that unsettled copies own, once for each time.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        let ends = self.copies().flat_map(|c| [c.src, c.dst]).filter(|&b| b != NIL);
        let held = self.outstanding.values().flat_map(|ticket| &ticket.held);
        ends.chain(held.chain(&self.gathering_held).copied())
    }

    /// Every unsettled ticket, by number.
    pub fn outstanding(&self) -> Vec<OutstandingTicket> {
        let gathering = (!self.gathering.is_empty()).then(|| OutstandingTicket {
            ticket: 0,
            copies: self.gathering.clone(),
            held: self.gathering_held.clone(),
            load: false,
        });
        let given = self.outstanding.iter().map(|(&ticket, t)| OutstandingTicket {
            ticket,
            copies: t.copies().to_vec(),
            held: t.held.clone(),
            load: t.loading.is_some(),
        });
        let mut all: Vec<OutstandingTicket> = gathering.into_iter().chain(given).collect();
        all.sort_unstable_by_key(|given| given.ticket);
        all
    }

    /// Whether the ticket is out, for the caller to settle.
    pub fn is_outstanding(&self, ticket: u64) -> bool {
        self.outstanding.get(&ticket).is_some_and(|ticket| !ticket.is_joined())
    }

    /// Every copy not settled, given out or not.
    pub fn copies(&self) -> impl Iterator<Item = &BlockCopy> {
        self.gathering.iter().chain(self.outstanding.values().flat_map(Ticket::copies))
    }

    /// How many unsettled copies hold `block`, at either end.
    pub fn holds(&self, block: BlockId) -> u32 {
        self.pages.ends(block)
    }

    /// `seq` shares `block` from now on.
    pub fn share(&mut self, block: BlockId, seq: SeqId) {
        self.pages.share(block, seq);
    }

    /// Sequences that came to share `page` while the copy or load that writes it was under way.
    pub fn sharers(&self, page: BlockId) -> impl Iterator<Item = SeqId> + '_ {
        self.pages.sharers(page)
    }

    /// Tokens of `block` that unsettled copies read.
    pub fn tokens_read(&self, block: BlockId) -> u32 {
        self.pages.reads(block).map(|(_, read)| read.tokens).max().unwrap_or(0)
    }

    /// Whether a copy or a load is still to fill or read `page`. Computations joined with `filler` do not
    /// count.
    pub fn is_busy(&self, page: BlockId, filler: SeqId) -> bool {
        self.pages.ends_besides(page, filler) > 0
    }

    /// Whether no copy is unsettled.
    pub fn is_idle(&self) -> bool {
        self.pages.is_empty()
    }
}
