//! Block tables and slot mappings into the caller's buffers. An `impl` of `Manager`.

use kvframe_core::Manager as Core;
use kvframe_core::NIL;
use kvframe_core::groups::Layout;
use kvframe_core::sequence::Sequence;
use numpy::{Ix1, Ix2, PyArray1};
use pyo3::prelude::*;

use crate::buffers::{Offsets, rows_of, slice, u64s, writable};
use crate::errors::{from_core, usage};
use crate::ints::{Group, Pad};
use crate::manager::Manager;
use crate::views::{entry, no_group};

/// What an entry that was given up reads as: the null block, where there is one.
pub fn null_entry(core: &Core) -> i32 {
    if core.options().null_block { 0 } else { -1 }
}

/// The slot of a token; -1 where its block was given up, or the group's tokens are another input's.
pub fn slot(sequence: &Sequence, layout: &Layout, group: usize, token: u64) -> i64 {
    let size = u64::from(layout.groups()[group].span);
    match sequence.tables[group].get((token / size) as usize) {
        None | Some(&NIL) => -1,
        Some(&block) => i64::from(block) * size as i64 + (token % size) as i64,
    }
}

#[pymethods]
impl Manager {
    /// Writes the block tables of `seqs` into the rows of `out` and pads them with `pad`. With
    /// `start`, only entries from `start[i]` on are written in row i: the rest is the caller's.
    #[pyo3(signature = (seqs, out, *, group=Group(0), pad=Pad(-1), start=None))]
    fn block_tables(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        group: Group,
        pad: Pad,
        start: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let seqs = u64s(Some(seqs), "seqs")?;
        let start = start.map(|s| u64s(Some(s), "start")).transpose()?;
        let mut out = writable::<i32, Ix2>(out, "out")?;
        let mut rows = rows_of(&mut out);
        if rows.nrows() < seqs.len() {
            let have = rows.nrows();
            return Err(usage(py, format!("{} sequences, but out has {have} rows", seqs.len())));
        }
        if let Some(have) = start.as_ref().map(Vec::len).filter(|&have| have != seqs.len()) {
            return Err(usage(py, format!("{} sequences, but start has {have}", seqs.len())));
        }
        let width = rows.ncols();
        self.locked(py, |core| {
            let null = null_entry(core);
            // Everything is checked before anything is written.
            for &seq in &seqs {
                let sequence = core.sequence(seq).map_err(|e| from_core(py, &e))?;
                let table = sequence.tables.get(group.0).ok_or_else(|| no_group(py, group.0))?;
                if table.len() > width {
                    let message = format!(
                        "sequence {seq:#x} has {} blocks, but out has {width} columns",
                        table.len()
                    );
                    return Err(usage(py, message));
                }
            }
            for (i, &seq) in seqs.iter().enumerate() {
                let from = start.as_ref().map_or(0, |s| s[i] as usize).min(width);
                let table = core.sequence(seq).map_or(&[][..], |s| &s.tables[group.0]);
                let entries = table.get(from..).unwrap_or(&[]);
                let mut row = rows.row_mut(i);
                let mut row = row.slice_mut(numpy::ndarray::s![from..]);
                for (slot, &block) in row.iter_mut().zip(entries) {
                    *slot = entry(block, null);
                }
                row.slice_mut(numpy::ndarray::s![entries.len()..]).fill(pad.0);
            }
            Ok(())
        })?
    }

    /// Writes the block tables of `seqs` one after the other into `blocks`; table i is
    /// `blocks[indptr[i]:indptr[i + 1]]`. Returns how many entries there are.
    #[pyo3(signature = (seqs, indptr, blocks, *, group=Group(0)))]
    fn ragged_tables(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        indptr: &Bound<'_, PyAny>,
        blocks: &Bound<'_, PyAny>,
        group: Group,
    ) -> PyResult<usize> {
        let seqs = u64s(Some(seqs), "seqs")?;
        let mut indptr = Offsets::of(indptr, "indptr", seqs.len() + 1)?;
        let mut out = writable::<i32, Ix1>(blocks, "blocks")?;
        let out = slice(py, &mut out, "blocks")?;
        self.locked(py, |core| {
            let mut needed = 0;
            for &seq in &seqs {
                let sequence = core.sequence(seq).map_err(|e| from_core(py, &e))?;
                let table = sequence.tables.get(group.0).ok_or_else(|| no_group(py, group.0))?;
                needed += table.len();
            }
            if needed > out.len() {
                let message = format!("{needed} entries, but blocks holds {}", out.len());
                return Err(usage(py, message));
            }
            indptr.check(py, needed)?;
            let null = null_entry(core);
            let mut at = 0;
            indptr.put(0, 0);
            for (i, &seq) in seqs.iter().enumerate() {
                let table = core.sequence(seq).map_or(&[][..], |s| &s.tables[group.0]);
                for (place, &block) in out[at..].iter_mut().zip(table) {
                    *place = entry(block, null);
                }
                at += table.len();
                indptr.put(i + 1, at);
            }
            Ok(needed)
        })?
    }

    /// Writes the lengths of `seqs`, in tokens with slots.
    fn seq_lens(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let seqs = u64s(Some(seqs), "seqs")?;
        let mut out = Offsets::of(out, "out", seqs.len())?;
        self.locked(py, |core| {
            let len = |&seq: &u64| core.sequence(seq).map(|s| s.len as usize);
            let lens: Result<Vec<usize>, _> = seqs.iter().map(len).collect();
            let lens = lens.map_err(|e| from_core(py, &e))?;
            out.check(py, lens.iter().copied().max().unwrap_or(0))?;
            lens.into_iter().enumerate().for_each(|(i, len)| out.put(i, len));
            Ok(())
        })?
    }

    /// Handles of the live sequences, in no order that means anything.
    fn live<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let live = self.locked(py, |core| core.live())?;
        Ok(PyArray1::from_vec(py, live))
    }

    /// Writes the slots of tokens `starts[i] .. starts[i] + counts[i]` of each sequence, one after
    /// the other, into `out`: block × block size + offset; those of sequence i are
    /// `out[indptr[i]:indptr[i + 1]]`. Returns how many were written.
    #[pyo3(signature = (seqs, starts, counts, out, *, group=Group(0), indptr=None))]
    fn slot_mapping(
        &self,
        py: Python<'_>,
        seqs: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        group: Group,
        indptr: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let seqs = u64s(Some(seqs), "seqs")?;
        let mut indptr =
            indptr.map(|given| Offsets::of(given, "indptr", seqs.len() + 1)).transpose()?;
        let (starts, counts) = (u64s(Some(starts), "starts")?, u64s(Some(counts), "counts")?);
        if starts.len() != seqs.len() || counts.len() != seqs.len() {
            let message = format!(
                "{} sequences, {} starts, {} counts: must be as many",
                seqs.len(),
                starts.len(),
                counts.len()
            );
            return Err(usage(py, message));
        }
        let mut out = writable::<i64, Ix1>(out, "out")?;
        let slots = slice(py, &mut out, "out")?;
        self.locked(py, |core| {
            let layout = core.layout();
            let mut needed = 0;
            for ((&seq, &start), &count) in seqs.iter().zip(&starts).zip(&counts) {
                let sequence = core.sequence(seq).map_err(|e| from_core(py, &e))?;
                sequence.tables.get(group.0).ok_or_else(|| no_group(py, group.0))?;
                let is_cross = layout.cross_groups().any(|cross| cross == group.0);
                let len = if is_cross { sequence.encoder_tokens } else { sequence.len };
                let (end, len) = (start.saturating_add(count), u64::from(len));
                if end > len {
                    let message = format!(
                        "sequence {seq:#x}: tokens {start} to {end} asked for, {len} have slots"
                    );
                    return Err(usage(py, message));
                }
                needed += count as usize;
            }
            if needed > slots.len() {
                let message = format!("{needed} slots, but out holds {}", slots.len());
                return Err(usage(py, message));
            }
            if let Some(indptr) = &mut indptr {
                indptr.check(py, needed)?;
                indptr.put(0, 0);
                let mut at = 0;
                for (i, &count) in counts.iter().enumerate() {
                    at += count as usize;
                    indptr.put(i + 1, at);
                }
            }
            let mut at = 0;
            for ((&seq, &start), &count) in seqs.iter().zip(&starts).zip(&counts) {
                let Ok(sequence) = core.sequence(seq) else { continue };
                for token in start..start + count {
                    slots[at] = slot(sequence, layout, group.0, token);
                    at += 1;
                }
            }
            Ok(needed)
        })?
    }
}

impl Manager {
    /// Reads a live sequence.
    pub(crate) fn sequence<T>(
        &self,
        py: Python<'_>,
        seq: u64,
        read: impl FnOnce(&kvframe_core::sequence::Sequence) -> T,
    ) -> PyResult<T> {
        self.locked(py, |core| core.sequence(seq).map(read))?.map_err(|e| from_core(py, &e))
    }
}
