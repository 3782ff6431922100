//! Inspecting a manager: its log with token ids and requests, statistics, a snapshot. An `impl` of
//! `Manager`.

use kvframe_core::manager::{SequenceCopy, Snapshot, SnapshotBlocks as BlockColumns};
use kvframe_core::pool::NIL;
use kvframe_core::stats::{Histogram, Miss, MissReason};
use kvframe_core::transfers::OutstandingTicket;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::args::{Fence, Passed, Seq};
use crate::buffers::key_words;
use crate::manager::Manager;
use crate::request::Request;
use crate::views::{entry, events_dict, matrix, stats_dict};

/// (reason, layer group, full blocks looked for, ticks since the next block left)
type MissTuple = (u8, u8, u32, Option<u64>);

fn miss_tuple(miss: Miss) -> MissTuple {
    (miss.reason as u8, miss.group, miss.wanted, miss.ago)
}

#[pymethods]
impl Manager {
    /// The log since the last call: (events as arrays, their token ids one event after the other,
    /// what each admission asked for by its sequence).
    #[allow(clippy::type_complexity)]
    fn take_log<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyArray1<u32>>, Vec<(u64, Request)>)> {
        let taken = self.locked(py, kvframe_core::Manager::take_log)?;
        let asked = taken.asked.into_iter().map(Request::of_logged);
        let (events, ids) = (events_dict(py, &taken.events)?, PyArray1::from_vec(py, taken.ids));
        Ok((events, ids, asked.collect()))
    }

    /// Why admissions found no more: {reason: (admissions, tokens)}, admissions cut short by each
    /// layer group, and the last requests as (requests, with a hit, prompt tokens, hit tokens).
    /// None with statistics off.
    #[allow(clippy::type_complexity)]
    fn prefix_statistics<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Vec<u64>, (u64, u64, u64, u64))>> {
        let kept = self.locked(py, |core| {
            core.prefix_statistics().map(|(reasons, window)| {
                let last = window.len() as u64;
                let last = (last, window.with_hit, window.prompt_tokens, window.hit_tokens);
                (*reasons, core.options().groups.len(), last)
            })
        })?;
        let Some((reasons, groups, last)) = kept else { return Ok(None) };
        let dict = PyDict::new(py);
        for (reason, tally) in MissReason::ALL.iter().zip(reasons.tally) {
            dict.set_item(reason.name(), tally)?;
        }
        Ok(Some((dict, reasons.groups[..groups].to_vec(), last)))
    }

    /// Why the admission of a live sequence found no more; None with statistics off.
    fn miss_reason(&self, py: Python<'_>, seq: Seq) -> PyResult<Option<MissTuple>> {
        Ok(self.with(py, |core| core.miss_reason(seq.0))?.map(miss_tuple))
    }

    /// Histograms of sampled blocks: lifetime, idle before eviction, gap between uses; None if no
    /// block is sampled.
    #[allow(clippy::type_complexity)]
    fn block_lifetimes<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<[Bound<'py, PyArray1<u64>>; 3]>> {
        let kept = self.locked(py, |core| {
            let samples = core.block_lifetimes();
            samples.is_on().then_some([samples.lifetime, samples.idle, samples.gap])
        })?;
        let array = |counts: Histogram| PyArray1::from_slice(py, &counts);
        Ok(kept.map(|histograms| histograms.map(array)))
    }

    /// What a snapshot tells of one live sequence.
    fn sequence_snapshot<'py>(&self, py: Python<'py>, seq: Seq) -> PyResult<Bound<'py, PyDict>> {
        let copy = self.with(py, |core| core.sequence_copy(seq.0))?;
        sequence_dict(py, &copy)
    }

    /// Everything the manager holds at one instant, copied.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (snapshot, fallbacks, gate) = self
            .locked_long(py, |core| (core.snapshot(), core.fallbacks(), core.admission_counts()))?;
        let dict = PyDict::new(py);
        let live = snapshot.sequences.iter().filter(|s| !s.stand_in).count();
        let waiting = snapshot.waiting();
        let extra = [
            ("freed", snapshot.freed),
            ("live_sequences", live as u64),
            ("waiting_blocks", waiting),
            ("peak_blocks", u64::from(snapshot.peak)),
            ("policy_failures", self.host.failures()),
            ("policy_fallbacks", fallbacks),
            ("admission_kept", gate.kept),
            ("admission_dropped", gate.dropped),
            ("admission_lowered", gate.lowered),
            ("admission_failures", self.admission_failures()),
        ];
        dict.set_item("stats", stats_dict(py, &snapshot.stats, &extra)?)?;
        dict.set_item("tick", snapshot.tick)?;
        dict.set_item("counts", snapshot.counts)?;
        dict.set_item("usage", snapshot.usage)?;
        dict.set_item("pressure", snapshot.pressure as u8)?;
        dict.set_item("asleep", snapshot.asleep)?;
        dict.set_item("passed", snapshot.passed)?;
        let Snapshot { blocks, sequences, tickets, fences, pins, held, .. } = snapshot;
        dict.set_item("blocks", columns(py, blocks)?)?;
        let rows = sequences.iter().map(|s| sequence_dict(py, s));
        dict.set_item("sequences", rows.collect::<PyResult<Vec<_>>>()?)?;
        let rows = tickets.iter().map(|ticket| ticket_tuple(py, ticket));
        dict.set_item("tickets", rows.collect::<PyResult<Vec<_>>>()?)?;
        let rows = fences.iter().map(|(step, blocks)| (*step, ids(py, blocks)));
        dict.set_item("fences", rows.collect::<Vec<_>>())?;
        let rows = pins.iter().map(|(receipt, blocks)| (*receipt, ids(py, blocks)));
        dict.set_item("pins", rows.collect::<Vec<_>>())?;
        dict.set_item("held", held)?;
        Ok(dict)
    }

    /// For replaying a log: steps have run.
    fn let_pass(&self, py: Python<'_>, passed: Passed) -> PyResult<()> {
        self.locked(py, |core| core.pass(passed.0))
    }

    /// For replaying a log: holds these blocks, as `pin` did.
    fn pin_blocks(&self, py: Python<'_>, blocks: Vec<u32>) -> PyResult<u64> {
        self.with(py, |core| core.lock_blocks(&blocks)).map(|receipt| receipt.id)
    }

    /// For replaying a log: what is given up waits for a step from now on, or no more.
    #[pyo3(signature = (fence=None))]
    fn put_fence(&self, py: Python<'_>, fence: Option<Fence>) -> PyResult<()> {
        self.locked(py, |core| {
            core.fence_down();
            core.fence_up(fence.map(|f| f.0));
        })
    }
}

fn ids<'py>(py: Python<'py>, blocks: &[u32]) -> Bound<'py, PyArray1<i32>> {
    PyArray1::from_iter(py, blocks.iter().map(|&b| entry(b, -1)))
}

/// (ticket, "plan" | "load" | "lease", copies, blocks held)
type TicketTuple<'py> =
    (u64, &'static str, Bound<'py, numpy::PyArray2<i32>>, Bound<'py, PyArray1<i32>>);

fn ticket_tuple<'py>(py: Python<'py>, ticket: &OutstandingTicket) -> PyResult<TicketTuple<'py>> {
    let kind = match ticket {
        OutstandingTicket { load: true, .. } => "load",
        OutstandingTicket { copies, .. } if copies.is_empty() => "lease",
        _ => "plan",
    };
    let flat = ticket.copies.iter().flat_map(|c| {
        let src = if c.src == NIL { -1 } else { c.src as i32 };
        [src, c.dst as i32, c.tokens as i32, i32::from(c.group)]
    });
    Ok((ticket.ticket, kind, matrix(py, flat.collect(), 4)?, ids(py, &ticket.held)))
}

fn columns(py: Python<'_>, blocks: BlockColumns) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("parent", ids(py, &blocks.parent))?;
    dict.set_item("state", PyArray1::from_vec(py, blocks.state))?;
    dict.set_item("refs", PyArray1::from_vec(py, blocks.refs))?;
    dict.set_item("group", PyArray1::from_vec(py, blocks.group))?;
    dict.set_item("generation", PyArray1::from_vec(py, blocks.generation))?;
    dict.set_item("priority", PyArray1::from_vec(py, blocks.priority))?;
    dict.set_item("depth", PyArray1::from_vec(py, blocks.depth))?;
    let words = blocks.key.iter().flat_map(|&key| key_words(key)).collect();
    dict.set_item("key", matrix(py, words, 2)?)?;
    Ok(dict)
}

fn sequence_dict<'py>(py: Python<'py>, s: &SequenceCopy) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("seq", s.seq)?;
    row.set_item("lengths", (s.known, s.slots, s.committed, s.cached))?;
    row.set_item("unknown", s.unknown)?;
    row.set_item("private", s.private)?;
    let tables = s.tables.iter().map(|table| ids(py, table));
    row.set_item("tables", PyList::new(py, tables)?)?;
    let (m, miss) = (s.meta, s.miss.map(miss_tuple));
    row.set_item("meta", (m.session, m.turn, m.class, m.priority))?;
    row.set_item("tenant", PyBytes::new(py, &s.tenant))?;
    row.set_item("admitted", s.admitted)?;
    row.set_item("max_tokens", s.max_seq_len)?;
    row.set_item("salt", PyBytes::new(py, &s.cache_salt))?;
    row.set_item("adapter", PyBytes::new(py, &s.lora_name))?;
    row.set_item("encoder", PyBytes::new(py, &s.encoder))?;
    row.set_item("encoder_tokens", s.encoder_tokens)?;
    row.set_item("miss", miss)?;
    row.set_item("stand_in", s.stand_in)?;
    Ok(row)
}
