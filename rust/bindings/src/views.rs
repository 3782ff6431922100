//! What a manager shows of itself: tables, counters, the log. A second `impl` block of `Manager`.

use kvframe_core::events::Event;
use kvframe_core::pool::NIL;
use kvframe_core::stats::Stats;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::{BlockNumber, FromEntry, Group, Seq};
use crate::manager::Manager;
use crate::tables::null_entry;

/// Rows of `width` out of a flat vector.
pub fn matrix<T: numpy::Element>(
    py: Python<'_>,
    flat: Vec<T>,
    width: usize,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let rows = flat.len() / width;
    PyArray1::from_vec(py, flat).reshape([rows, width])
}

/// A table entry as engines take it; `null` where it was given up.
pub fn entry(block: u32, null: i32) -> i32 {
    if block == NIL { null } else { block as i32 }
}

#[pymethods]
impl Manager {
    /// A sequence's block table in a group; -1, or the null block, where one was given up.
    #[pyo3(signature = (seq, group=Group(0), start=FromEntry(0)))]
    fn block_table<'py>(
        &self,
        py: Python<'py>,
        seq: Seq,
        group: Group,
        start: FromEntry,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let null = self.locked(py, |core| null_entry(core))?;
        let table = self.sequence(py, seq.0, |s| {
            let table = s.tables.get(group.0)?.get(start.0..).unwrap_or(&[]);
            Some(table.iter().map(|&b| entry(b, null)).collect::<Vec<_>>())
        })?;
        let table = table.ok_or_else(|| no_group(py, group.0))?;
        Ok(PyArray1::from_vec(py, table))
    }

    /// A sequence's lengths: (known, with slots, committed, cached at admission) tokens.
    fn lengths(&self, py: Python<'_>, seq: Seq) -> PyResult<(u32, u32, u32, u32)> {
        self.sequence(py, seq.0, |s| (s.known(), s.len, s.committed, s.cached))
    }

    /// Blocks: (free, cached, referenced, all).
    fn counts(&self, py: Python<'_>) -> PyResult<(u32, u32, u32, u32)> {
        self.locked(py, |core| counts(core))
    }

    /// A block's state and generation.
    fn block_state(
        &self,
        py: Python<'_>,
        block: BlockNumber,
    ) -> PyResult<(&'static str, u32, u32)> {
        self.locked(py, |core| {
            let pool = core.pool();
            let refs = pool.refs_or_none(block.0).unwrap_or(0);
            (pool.state(block.0).name(), pool.generation(block.0), refs)
        })
    }

    /// The counters.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let gate = self.locked(py, |core| core.admission_counts())?;
        let (stats, freed, live, waiting, fallbacks, peak) = self.locked(py, |core| {
            let (stats, freed, fallbacks) = (core.stats(), core.freed(), core.fallbacks());
            (stats, freed, core.num_running(), core.waiting(), fallbacks, core.peak())
        })?;
        let extra = [
            ("freed", freed),
            ("live_sequences", live as u64),
            ("waiting_blocks", waiting as u64),
            ("peak_blocks", u64::from(peak)),
            ("policy_failures", self.host.failures()),
            ("policy_fallbacks", fallbacks),
            ("admission_kept", gate.kept),
            ("admission_dropped", gate.dropped),
            ("admission_lowered", gate.lowered),
            ("admission_failures", self.admission_failures()),
        ];
        stats_dict(py, &stats, &extra)
    }

    /// Counts the peak of blocks in use anew; the peak until then.
    fn reset_peak(&self, py: Python<'_>) -> PyResult<u32> {
        self.locked(py, kvframe_core::Manager::reset_peak)
    }

    /// The events since the last call, as arrays of equal length.
    fn take_events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let events = self.locked(py, kvframe_core::Manager::take_events)?;
        events_dict(py, &events)
    }

    /// The first cached blocks in the policy's present order of eviction, as far as it is settled: so
    /// many, or all.
    #[pyo3(signature = (most=u32::MAX))]
    fn eviction_order<'py>(
        &self,
        py: Python<'py>,
        most: u32,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let order = self.locked(py, |core| core.eviction_order(most))?;
        Ok(PyArray1::from_iter(py, order.iter().map(|&b| entry(b, -1))))
    }
}

fn counts(core: &kvframe_core::Manager) -> (u32, u32, u32, u32) {
    let pool = core.pool();
    (pool.free(), pool.cached(), pool.referenced(), pool.capacity())
}

/// The counters, with `extra` besides.
pub fn stats_dict<'py>(
    py: Python<'py>,
    stats: &Stats,
    extra: &[(&str, u64)],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("requests", stats.requests),
        ("prompt_tokens", stats.prompt_tokens),
        ("hit_tokens", stats.hit_tokens),
        ("unread", stats.unread),
        ("unread_tokens", stats.unread_tokens),
        ("lookup_blocks", stats.lookup_blocks),
        ("hit_blocks", stats.hit_blocks),
        ("hit_share_ppm", stats.hit_share_ppm),
        ("requests_with_hit", stats.requests_with_hit),
        ("resumed", stats.resumed),
        ("resumed_tokens", stats.resumed_tokens),
        ("resumed_hit_tokens", stats.resumed_hit_tokens),
        ("resumed_unread_tokens", stats.resumed_unread_tokens),
        ("refused", stats.refused),
        ("allocated", stats.allocated),
        ("taken", stats.taken),
        ("returned", stats.returned),
        ("forks", stats.forks),
        ("stored", stats.stored),
        ("duplicates", stats.duplicates),
        ("evictions", stats.evictions),
        ("evictions_ahead", stats.evictions_ahead),
        ("evictions_for_taken", stats.evictions_for_taken),
        ("copies", stats.copies),
        ("copied_tokens", stats.copied_tokens),
        ("collisions", stats.collisions),
        ("loads", stats.loads),
        ("loaded_tokens", stats.loaded_tokens),
        ("leases", stats.leases),
        ("leased_tokens", stats.leased_tokens),
        ("failed_copies", stats.failed_copies),
        ("joined_tokens", stats.joined_tokens),
        ("remapped", stats.remapped),
    ]
    .iter()
    .chain(extra)
    {
        dict.set_item(*name, *value)?;
    }
    Ok(dict)
}

/// Events as arrays of equal length.
pub fn events_dict<'py>(py: Python<'py>, events: &[Event]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("tick", PyArray1::from_iter(py, events.iter().map(|e| e.tick)))?;
    dict.set_item("kind", PyArray1::from_iter(py, events.iter().map(|e| e.kind as u8)))?;
    dict.set_item("group", PyArray1::from_iter(py, events.iter().map(|e| e.group)))?;
    dict.set_item("block", PyArray1::from_iter(py, events.iter().map(|e| entry(e.block, -1))))?;
    dict.set_item("seq", PyArray1::from_iter(py, events.iter().map(|e| e.seq)))?;
    let words = events.iter().flat_map(|e| crate::buffers::key_words(e.key)).collect();
    dict.set_item("key", matrix(py, words, 2)?)?;
    let words = events.iter().flat_map(|e| crate::buffers::key_words(e.parent)).collect();
    dict.set_item("parent", matrix(py, words, 2)?)?;
    dict.set_item("value", PyArray1::from_iter(py, events.iter().map(|e| e.value)))?;
    dict.set_item("other", PyArray1::from_iter(py, events.iter().map(|e| e.other)))?;
    dict.set_item("ids", PyArray1::from_iter(py, events.iter().map(|e| e.ids)))?;
    Ok(dict)
}

/// The error for a group that is not there.
pub fn no_group(py: Python<'_>, group: usize) -> PyErr {
    crate::errors::usage(py, format!("group = {group}: the manager has no such group"))
}
