//! Tickets that lapse, and who holds a block.

use crate::error::Result;
use crate::locks::Receipt;
use crate::manager::Manager;
use crate::pool::BlockId;
use crate::sequence::SeqId;

/// What a ticket stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TicketKind {
    /// Copies of a plan.
    Copies,
    /// Pages that a load or another sequence fills.
    Load,
    /// Pages kept for a reader elsewhere.
    Lease,
}

/// Who holds a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// Sequences with it in a table, once for each time.
    pub sequences: Vec<SeqId>,
    /// Tickets, joined computations apart.
    pub tickets: Vec<u64>,
    /// Owners that left, and wait for a fence.
    pub waiting: u32,
    /// How often it is held one by one.
    pub held: u32,
    /// Pins: what ends each, and whose it is.
    pub pins: Vec<(Receipt, String)>,
}

/// What has lapsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpiryResult {
    /// Tickets whose deadline had come.
    pub tickets: Vec<u64>,
    /// Sequences that were cut because a load or a copy did not come.
    pub cut: Vec<SeqId>,
    /// Pins whose lease was over.
    pub pins: Vec<Receipt>,
    /// Blocks whose retention priority is another.
    pub blocks: u32,
}

impl Manager {
    /// Lets an outstanding ticket lapse at `at`, by whatever clock `expire_until` is called with.
    ///
    /// # Errors
    /// [`Error::UnknownTicket`].
    pub fn set_deadline(&mut self, ticket: u64, at: u64) -> Result<()> {
        self.transfers.set_deadline(ticket, at)
    }

    /// It is `now`. Retention priorities are what they are at that time, from which durations count;
    /// every ticket whose deadline has come is settled: a lease ends, a load or a copy has failed; and
    /// pins end with their leases.
    ///
    /// # Errors
    /// None of its own.
    pub fn expire_until(&mut self, now: u64) -> Result<ExpiryResult> {
        let blocks = self.notify_time(now);
        let lapsed = self.transfers.tickets().lapsed(now);
        let mut cut = Vec::new();
        for &ticket in &lapsed {
            if self.kind_of(ticket) == TicketKind::Lease {
                self.done(ticket)?;
            } else {
                cut.extend(self.failed(ticket)?);
            }
        }
        let pins = self.locks.lapsed(self.store.retention().time());
        for &receipt in &pins {
            self.unlock(receipt)?;
        }
        Ok(ExpiryResult { tickets: lapsed, cut, pins, blocks })
    }

    /// Outstanding tickets: what each stands for, the blocks it keeps (once each), and its deadline.
    pub fn tickets(&self) -> Vec<(u64, TicketKind, u32, Option<u64>)> {
        let row = |ticket| {
            let mut blocks = self.transfers.tickets().blocks_of(ticket);
            blocks.sort_unstable();
            blocks.dedup();
            let deadline = self.transfers.tickets().deadline(ticket);
            (ticket, self.kind_of(ticket), blocks.len() as u32, deadline)
        };
        self.transfers.tickets().given().into_iter().map(row).collect()
    }

    fn kind_of(&self, ticket: u64) -> TicketKind {
        if self.transfers.tickets().load(ticket).is_some() {
            TicketKind::Load
        } else if self.transfers.tickets().copies_pages(ticket) {
            TicketKind::Copies
        } else {
            TicketKind::Lease
        }
    }

    /// Who holds a block. O(blocks in use).
    pub fn owners(&self, block: BlockId) -> Owners {
        let tables = |(seq, s): (SeqId, &crate::sequence::Sequence)| {
            let times = s.tables.iter().flatten().filter(|&&b| b == block).count();
            std::iter::repeat_n(seq, times)
        };
        let sequences = self
            .sequences
            .iter()
            .flat_map(tables)
            .filter(|&seq| !self.transfers.orphans().has(seq));
        let keeps = |&ticket: &u64| self.transfers.tickets().blocks_of(ticket).contains(&block);
        Owners {
            sequences: sequences.collect(),
            tickets: self.transfers.tickets().given().into_iter().filter(keeps).collect(),
            waiting: self.transfers.fences().owners().filter(|&b| b == block).count() as u32,
            held: self.held(block),
            pins: self.pins_of(block),
        }
    }
}
