//! Copies under way. Both pages of a copy belong to it as well until its ticket is settled, so
//! neither can be given to anybody while the copy may still run.

use crate::error::{Error, Result};
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

/// One page to copy before the step's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
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
pub struct Plan {
    /// Hand it back when the copies are ordered on the stream that writes later, or have failed.
    pub ticket: u64,
    /// In the order to run them.
    pub copies: Vec<Copy>,
}

/// Blocks of a sequence that somebody else fills; `Tickets` has their pages as copies without a
/// source, block by block, in each a page of every group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its ticket.
    pub ticket: u64,
    /// Place of the first block in the tables.
    pub start: u32,
    /// How many.
    pub blocks: u32,
    /// The sequence that computes them, where it is one of this pool: a joined computation.
    pub filler: Option<SeqId>,
}

/// What somebody looking in sees of a ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outstanding {
    /// The ticket; 0 for the plan that is being gathered.
    pub ticket: u64,
    /// Copies to carry out; without a source in a load.
    pub copies: Vec<Copy>,
    /// Blocks it keeps besides their ends; all that a lease keeps.
    pub held: Vec<BlockId>,
    /// Whether somebody else fills its pages.
    pub load: bool,
}

/// Plans not given out yet, and those given out and not settled.
#[derive(Debug, Default)]
pub struct Tickets {
    gathering: Vec<Copy>,
    outstanding: Vec<Plan>,
    /// Blocks that the copies of a ticket (0: the plan being gathered) keep besides their ends.
    held: Vec<(u64, BlockId)>,
    /// Of the outstanding ones, pages that come from elsewhere.
    loads: Vec<Load>,
    /// When a ticket lapses, by the caller's clock.
    deadlines: Vec<(u64, u64)>,
    next: u64,
}

impl Tickets {
    /// Adds a copy to the plan being gathered.
    pub fn add(&mut self, copy: Copy) {
        self.gathering.push(copy);
    }

    /// Blocks that the plan being gathered owns besides the ends of its copies.
    pub fn hold(&mut self, blocks: impl Iterator<Item = BlockId>) {
        self.held.extend(blocks.map(|block| (0, block)));
    }

    /// Copies being gathered.
    pub fn gathered(&self) -> usize {
        self.gathering.len()
    }

    /// Closes the plan being gathered; `None` if it is empty.
    pub fn take_plan(&mut self) -> Option<Plan> {
        if self.gathering.is_empty() {
            return None;
        }
        self.next += 1;
        let plan = Plan { ticket: self.next, copies: std::mem::take(&mut self.gathering) };
        self.outstanding.push(plan.clone());
        self.held.iter_mut().filter(|(owner, _)| *owner == 0).for_each(|held| held.0 = plan.ticket);
        Some(plan)
    }

    /// A ticket for `blocks` blocks from the place `start` on, which somebody else fills.
    pub fn issue_load(
        &mut self,
        start: u32,
        blocks: u32,
        filler: Option<SeqId>,
        copies: Vec<Copy>,
    ) -> u64 {
        let ticket = self.issue(copies);
        self.loads.push(Load { ticket, start, blocks, filler });
        ticket
    }

    /// Outstanding loads.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The load that was opened for `seq`, joined computations apart.
    pub fn load_for(&self, seq: SeqId) -> Option<Load> {
        let own = |load: &&Load| {
            let first = self.load(load.ticket).and_then(|(_, pages)| pages.first());
            load.filler.is_none() && first.is_some_and(|copy| copy.seq == seq)
        };
        self.loads.iter().find(own).copied()
    }

    /// Takes the first `blocks` blocks of a load, or (from its end) all others, out of it; a load of
    /// which nothing is left is settled. Returns their pages, which the ticket owns no more.
    pub fn split_load(
        &mut self,
        ticket: u64,
        blocks: u32,
        groups: usize,
        front: bool,
    ) -> Vec<Copy> {
        let place = self.loads.iter().position(|load| load.ticket == ticket);
        let plan = self.outstanding.iter().position(|p| p.ticket == ticket);
        let (Some(place), Some(plan)) = (place, plan) else { return Vec::new() };
        let load = &mut self.loads[place];
        let copies = &mut self.outstanding[plan].copies;
        let at = blocks.min(load.blocks) as usize * groups;
        let taken: Vec<Copy> = if front {
            load.start += blocks.min(load.blocks);
            load.blocks -= blocks.min(load.blocks);
            copies.drain(..at).collect()
        } else {
            load.blocks = blocks.min(load.blocks);
            copies.drain(at..).collect()
        };
        if load.blocks == 0 {
            self.loads.remove(place);
            self.outstanding.swap_remove(plan);
        }
        taken
    }

    /// Lets a ticket lapse at `at`, by the caller's clock.
    pub fn set_deadline(&mut self, ticket: u64, at: u64) {
        self.deadlines.retain(|&(other, _)| other != ticket);
        self.deadlines.push((ticket, at));
    }

    /// When a ticket lapses.
    pub fn deadline(&self, ticket: u64) -> Option<u64> {
        self.deadlines.iter().find(|&&(other, _)| other == ticket).map(|&(_, at)| at)
    }

    /// Tickets that have lapsed by `now`, in the order they were given out.
    pub fn lapsed(&self, now: u64) -> Vec<u64> {
        let lapsed = self.deadlines.iter().filter(|&&(_, at)| at <= now);
        let mut tickets: Vec<u64> = lapsed.map(|&(ticket, _)| ticket).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Every ticket given out and not settled, joined computations apart.
    pub fn given(&self) -> impl Iterator<Item = u64> + '_ {
        self.outstanding.iter().map(|plan| plan.ticket).filter(|&t| self.is_outstanding(t))
    }

    /// Blocks that a ticket owns, once for each time.
    pub fn blocks_of(&self, ticket: u64) -> Vec<BlockId> {
        let plan = self.outstanding.iter().filter(|plan| plan.ticket == ticket);
        let ends = plan.flat_map(|plan| &plan.copies).flat_map(|c| [c.src, c.dst]);
        let held = self.held.iter().filter(|&&(owner, _)| owner == ticket).map(|&(_, b)| b);
        ends.filter(|&b| b != NIL).chain(held).collect()
    }

    /// Whether a ticket copies pages of this pool.
    pub fn copies_pages(&self, ticket: u64) -> bool {
        let plan = self.outstanding.iter().find(|plan| plan.ticket == ticket);
        plan.is_some_and(|plan| plan.copies.iter().any(|copy| copy.src != NIL))
    }

    fn issue(&mut self, copies: Vec<Copy>) -> u64 {
        self.next += 1;
        self.outstanding.push(Plan { ticket: self.next, copies });
        self.next
    }

    /// A ticket that only keeps blocks.
    pub fn lease(&mut self, blocks: Vec<BlockId>) -> u64 {
        let ticket = self.issue(Vec::new());
        self.held.extend(blocks.into_iter().map(|block| (ticket, block)));
        ticket
    }

    /// An outstanding load, and its pages.
    pub fn load(&self, ticket: u64) -> Option<(Load, &[Copy])> {
        let load = *self.loads.iter().find(|load| load.ticket == ticket)?;
        let plan = self.outstanding.iter().find(|p| p.ticket == ticket)?;
        Some((load, &plan.copies))
    }

    /// Whether somebody else is to fill `page`; tickets of which `settled` is true do not count, nor
    /// joined computations other than `joined`.
    pub fn is_loading(&self, page: BlockId, joined: u64, settled: &dyn Fn(u64) -> bool) -> bool {
        let counts = |load: &&Load| load.filler.is_none() || load.ticket == joined;
        self.loads.iter().filter(counts).filter(|load| !settled(load.ticket)).any(|load| {
            let pages = self.load(load.ticket).map_or(&[][..], |(_, pages)| pages);
            pages.iter().any(|copy| copy.src == NIL && copy.dst == page)
        })
    }

    /// Takes the first `good` copies out of an outstanding plan.
    pub fn keep_only(&mut self, ticket: u64, good: usize) {
        if let Some(plan) = self.outstanding.iter_mut().find(|p| p.ticket == ticket) {
            plan.copies.drain(..good);
        }
    }

    /// Settles a ticket and returns its copies.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn settle(&mut self, ticket: u64) -> Result<Plan> {
        let at = self.outstanding.iter().position(|p| p.ticket == ticket);
        self.loads.retain(|load| load.ticket != ticket);
        self.deadlines.retain(|&(other, _)| other != ticket);
        at.map(|at| self.outstanding.swap_remove(at)).ok_or(Error::UnknownTicket(ticket))
    }

    /// Of a settled plan, hands each copy whose source another ticket has yet to fill over to that
    /// ticket: such a page is no better than its source.
    pub fn hand_over(&mut self, plan: &mut Plan) {
        let Self { outstanding, loads, .. } = self;
        // What a running sequence computes is written where it stands: a copy has what was there.
        let joined = |t| loads.iter().any(|load| load.ticket == t && load.filler.is_some());
        plan.copies.retain(|copy| {
            let fills =
                |p: &&mut Plan| p.copies.iter().any(|c| c.dst == copy.src) && !joined(p.ticket);
            let other = outstanding.iter_mut().find(fills);
            other.map(|other| other.copies.push(*copy)).is_none()
        });
    }

    /// Every page that a settled plan owned and owns no more, prefixes before what follows them.
    pub fn owned(&mut self, plan: &Plan) -> Vec<BlockId> {
        let ends = plan.copies.iter().flat_map(|c| [c.src, c.dst]);
        let mut out: Vec<BlockId> = ends.filter(|&b| b != NIL).collect();
        let ours = |&(ticket, _): &(u64, BlockId)| ticket == plan.ticket;
        out.extend(self.held.iter().filter(|h| ours(h)).map(|&(_, block)| block));
        self.held.retain(|h| !ours(h));
        out.reverse();
        out
    }

    /// The pages that become worthless if the copies of `plan` never ran: their targets, and the
    /// targets of copies made from those.
    pub fn spoiled(&self, plan: &Plan) -> Vec<(BlockId, u8)> {
        let mut pages: Vec<_> = plan.copies.iter().map(|c| (c.dst, c.group)).collect();
        let mut at = 0;
        while let Some(&(page, _)) = pages.get(at) {
            let from = self.copies().filter(|c| c.src == page).map(|c| (c.dst, c.group));
            pages.extend(from.collect::<Vec<_>>());
            at += 1;
        }
        pages
    }

    /// Blocks that unsettled copies own, once for each time.
    pub fn owners(&self) -> impl Iterator<Item = BlockId> + '_ {
        let ends = self.copies().flat_map(|c| [c.src, c.dst]).filter(|&b| b != NIL);
        ends.chain(self.held.iter().map(|&(_, block)| block))
    }

    /// Every unsettled ticket, by number.
    pub fn outstanding(&self) -> Vec<Outstanding> {
        let gathering = (!self.gathering.is_empty()).then_some((0, &self.gathering));
        let plans = self.outstanding.iter().map(|p| (p.ticket, &p.copies)).chain(gathering);
        let mut all: Vec<Outstanding> = plans
            .map(|(ticket, copies)| Outstanding {
                ticket,
                copies: copies.clone(),
                held: self.held.iter().filter(|h| h.0 == ticket).map(|h| h.1).collect(),
                load: self.loads.iter().any(|load| load.ticket == ticket),
            })
            .collect();
        all.sort_unstable_by_key(|t| t.ticket);
        all
    }

    /// Whether the ticket is out, for the caller to settle.
    pub fn is_outstanding(&self, ticket: u64) -> bool {
        let joined = self.loads.iter().any(|load| load.ticket == ticket && load.filler.is_some());
        !joined && self.outstanding.iter().any(|p| p.ticket == ticket)
    }

    /// Every copy not settled, given out or not.
    pub fn copies(&self) -> impl Iterator<Item = &Copy> {
        self.gathering.iter().chain(self.outstanding.iter().flat_map(|p| &p.copies))
    }

    /// How many unsettled copies hold `block`, at either end.
    pub fn holds(&self, block: BlockId) -> u32 {
        self.copies().map(|c| u32::from(c.src == block) + u32::from(c.dst == block)).sum()
    }

    /// Whether anything is to fill or read `page`, computations joined with `filler` apart.
    pub fn is_busy(&self, page: BlockId, filler: SeqId) -> bool {
        let own = |ticket| {
            self.loads.iter().any(|load| load.ticket == ticket && load.filler == Some(filler))
        };
        let others = self.outstanding.iter().filter(|plan| !own(plan.ticket));
        let mut copies = self.gathering.iter().chain(others.flat_map(|plan| &plan.copies));
        copies.any(|copy| copy.src == page || copy.dst == page)
    }

    /// Whether no copy is unsettled.
    pub fn is_idle(&self) -> bool {
        self.gathering.is_empty() && self.outstanding.is_empty()
    }
}
