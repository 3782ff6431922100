//! Prefixes shared, read and attached to; tickets that lapse. An `impl` of `Manager`.

use kvframe_core::manager::{Remap, TicketKind};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::args::{
    BlockNumber, CopyTail, Deadline, Group, Handle, Now, Seq, Start, Stop, Ticket, Upto,
};
use crate::blocks::in_pool;
use crate::errors::usage;
use crate::manager::Manager;
use crate::views::entry;

/// (sequence, group, place in its table, the block there now)
pub type RemapTuple = (u64, u8, u32, u32);

/// Changed table entries as Python takes them.
pub fn remap_tuples(entries: &[Remap]) -> Vec<RemapTuple> {
    entries.iter().map(|e| (e.seq, e.group, e.place, e.block)).collect()
}

fn kind_name(kind: TicketKind) -> &'static str {
    match kind {
        TicketKind::Copies => "copies",
        TicketKind::Load => "load",
        TicketKind::Lease => "lease",
    }
}

/// (ticket, what it stands for, blocks it keeps, when it lapses)
type TicketTuple = (u64, &'static str, u32, Option<u64>);

#[pymethods]
impl Manager {
    /// A sequence over the first computed tokens of another; with `copy`, its partial block is
    /// copied at once.
    #[pyo3(signature = (seq, upto, *, copy=CopyTail(false)))]
    fn fork_prefix(&self, py: Python<'_>, seq: Seq, upto: Upto, copy: CopyTail) -> PyResult<u64> {
        self.with_victims(py, |core| core.fork_prefix(seq.0, upto.0, copy.0))
    }

    /// Tokens that may be read.
    fn num_readable_tokens(&self, py: Python<'_>, seq: Seq) -> PyResult<u32> {
        self.with(py, |core| core.num_readable_tokens(seq.0))
    }

    /// Pages of a range of tokens: (blocks, tokens before it in the first, tokens up to its end in
    /// the last).
    #[pyo3(signature = (seq, start, stop, group=Group(0)))]
    fn pages<'py>(
        &self,
        py: Python<'py>,
        seq: Seq,
        start: Start,
        stop: Stop,
        group: Group,
    ) -> PyResult<(Bound<'py, PyArray1<i32>>, u32, u32)> {
        let pages = self.with(py, |core| core.pages(seq.0, start.0, stop.0, group.0))?;
        let blocks = PyArray1::from_iter(py, pages.blocks.iter().map(|&block| entry(block, -1)));
        Ok((blocks, pages.offset, pages.last))
    }

    /// Blocks that are not findable, in each group.
    fn unhashed_blocks<'py>(
        &self,
        py: Python<'py>,
        seq: Seq,
    ) -> PyResult<Vec<Bound<'py, PyArray1<i32>>>> {
        let groups = self.with(py, |core| core.unhashed_blocks(seq.0))?;
        let array =
            |blocks: Vec<_>| PyArray1::from_iter(py, blocks.into_iter().map(|b| entry(b, -1)));
        Ok(groups.into_iter().map(array).collect())
    }

    /// Usage in tokens: (read, created, joined, loaded, whether it was resumed).
    fn request_usage(&self, py: Python<'_>, seq: Seq) -> PyResult<(u32, u32, u32, u32, bool)> {
        let usage = self.with(py, |core| core.usage_of(seq.0))?;
        Ok((usage.read, usage.created, usage.joined, usage.loaded, usage.resumed))
    }

    /// Attaches a handle to a prefix; returns the one it replaces.
    fn attach(
        &self,
        py: Python<'_>,
        seq: Seq,
        upto: Upto,
        handle: Handle,
    ) -> PyResult<Option<u64>> {
        self.with(py, |core| core.attach(seq.0, upto.0, handle.0))
    }

    /// Handles whose prefix is gone, since the last call.
    fn take_detached(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        self.locked(py, kvframe_core::Manager::take_detached)
    }

    /// Since the last call: (sequences cut with a computation they joined, changed table entries).
    fn take_changes(&self, py: Python<'_>) -> PyResult<(Vec<u64>, Vec<RemapTuple>)> {
        self.locked(py, |core| (core.take_rewound(), remap_tuples(&core.take_remapped())))
    }

    /// Lets a ticket lapse.
    fn set_deadline(&self, py: Python<'_>, ticket: Ticket, deadline: Deadline) -> PyResult<()> {
        self.with(py, |core| core.set_deadline(ticket.0, deadline.0))
    }

    /// Settles what has lapsed; returns (tickets, sequences cut, receipts of pins, blocks with another
    /// priority).
    #[allow(clippy::type_complexity)]
    fn expire_until(
        &self,
        py: Python<'_>,
        now: Now,
    ) -> PyResult<(Vec<u64>, Vec<u64>, Vec<u64>, u32)> {
        let lapsed = self.with(py, |core| core.expire_until(now.0))?;
        let pins = lapsed.pins.iter().map(|receipt| receipt.id).collect();
        Ok((lapsed.tickets, lapsed.cut, pins, lapsed.blocks))
    }

    /// Outstanding tickets: (ticket, "copies" | "load" | "lease", blocks, deadline).
    fn tickets(&self, py: Python<'_>) -> PyResult<Vec<TicketTuple>> {
        let rows = self.locked(py, |core| core.tickets())?;
        Ok(rows.into_iter().map(|(t, kind, n, at)| (t, kind_name(kind), n, at)).collect())
    }

    /// Who holds a block: (sequences, tickets, owners behind a fence, holds one by one, receipt and
    /// owner of each pin).
    #[allow(clippy::type_complexity)]
    fn owners(
        &self,
        py: Python<'_>,
        block: BlockNumber,
    ) -> PyResult<(Vec<u64>, Vec<u64>, u32, u32, Vec<(u64, String)>)> {
        let owners =
            self.locked(py, |core| in_pool(core, block.0).map(|()| core.owners(block.0)))?;
        let owners = owners.map_err(|why| usage(py, why))?;
        let pins = owners.pins.into_iter().map(|(receipt, owner)| (receipt.id, owner)).collect();
        Ok((owners.sequences, owners.tickets, owners.waiting, owners.held, pins))
    }
}
