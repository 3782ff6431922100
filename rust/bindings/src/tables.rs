//! Block tables and slot mappings into the caller's buffers. An `impl` of `Manager`.

use kvframe_core::Manager as Core;
use kvframe_core::NIL;
use kvframe_core::groups::Layout;
use kvframe_core::sequence::Sequence;
use numpy::{Ix1, Ix2, PyArray1};
use pyo3::prelude::*;

use crate::args::{Group, Pad};
use crate::buffers::{Offsets, altered, target, u64s, whole, writable};
use crate::errors::{from_core, usage};
use crate::look::Target;
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

/// 0, and the sum of the first, of the first two, and so on.
fn running(counts: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(counts.scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    }))
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
        let out = target::<i32, Ix2>(out, "out")?;
        let &[have, width] = out.shape() else { return Err(altered(py, "out")) };
        if have < seqs.len() {
            return Err(usage(py, format!("{} sequences, but out has {have} rows", seqs.len())));
        }
        if let Some(have) = start.as_ref().map(Vec::len).filter(|&have| have != seqs.len()) {
            return Err(usage(py, format!("{} sequences, but start has {have}", seqs.len())));
        }
        self.locked(py, |core| {
            let null = null_entry(core);
            // Everything is checked before anything is written.
            for &seq in &seqs {
                let sequence = core.sequence(seq).map_err(|e| from_core(py, &e))?;
                let table = sequence.tables.get(group.0).ok_or_else(|| no_group(py, group.0))?;
                if table.len() > width {
                    let message = format!(
                        "sequence {seq} has {} blocks, but out has {width} columns",
                        table.len()
                    );
                    return Err(usage(py, message));
                }
            }
            if !out.is_same() {
                return Err(altered(py, "out"));
            }
            // SAFETY: `is_same` found it unchanged, and no Python code runs until all is written.
            let mut rows = unsafe { out.view() };
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
        let out = Target::of(whole(writable::<i32, Ix1>(blocks, "out")?, "out")?);
        indptr.apart(py, ["indptr", "out"], &out)?;
        self.locked(py, |core| {
            let mut needed = 0;
            for &seq in &seqs {
                let sequence = core.sequence(seq).map_err(|e| from_core(py, &e))?;
                let table = sequence.tables.get(group.0).ok_or_else(|| no_group(py, group.0))?;
                needed += table.len();
            }
            if needed > out.len() {
                let message = format!("{needed} entries, but out holds {}", out.len());
                return Err(usage(py, message));
            }
            if !out.is_same() {
                return Err(altered(py, "out"));
            }
            indptr.check(py, "indptr", needed)?;
            let null = null_entry(core);
            let tables =
                || seqs.iter().map(|&s| core.sequence(s).map_or(&[][..], |s| &s.tables[group.0]));
            // SAFETY: both are the same, they lie apart, and no Python code runs until all is written.
            unsafe {
                let entries = tables().flatten().map(|&block| entry(block, null));
                out.slice().iter_mut().zip(entries).for_each(|(place, entry)| *place = entry);
                indptr.put(running(tables().map(<[_]>::len)));
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
        let mut out = Offsets::of(out, "seq_lens", seqs.len())?;
        self.locked(py, |core| {
            let len = |&seq: &u64| core.sequence(seq).map(|s| s.len as usize);
            let lens: Result<Vec<usize>, _> = seqs.iter().map(len).collect();
            let lens = lens.map_err(|e| from_core(py, &e))?;
            out.check(py, "seq_lens", lens.iter().copied().max().unwrap_or(0))?;
            // SAFETY: it was checked just now.
            unsafe { out.put(lens.into_iter()) };
            Ok(())
        })?
    }

    /// Handles of the live sequences, in no order that means anything.
    fn running<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let live = self.locked(py, |core| core.running())?;
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
        let (starts, counts) = (u64s(Some(starts), "starts")?, u64s(Some(counts), "counts")?);
        let mut indptr =
            indptr.map(|given| Offsets::of(given, "indptr", seqs.len() + 1)).transpose()?;
        if starts.len() != seqs.len() || counts.len() != seqs.len() {
            let message = format!(
                "{} sequences, {} starts, {} counts: must be as many",
                seqs.len(),
                starts.len(),
                counts.len()
            );
            return Err(usage(py, message));
        }
        let out = Target::of(whole(writable::<i64, Ix1>(out, "out")?, "out")?);
        if let Some(indptr) = &indptr {
            indptr.apart(py, ["indptr", "out"], &out)?;
        }
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
                        "sequence {seq}: tokens {start} to {end} asked for, {len} have slots"
                    );
                    return Err(usage(py, message));
                }
                needed += count as usize;
            }
            if needed > out.len() {
                let message = format!("{needed} slots, but out holds {}", out.len());
                return Err(usage(py, message));
            }
            if !out.is_same() {
                return Err(altered(py, "out"));
            }
            if let Some(indptr) = &mut indptr {
                indptr.check(py, "indptr", needed)?;
                // SAFETY: it was checked just now.
                unsafe { indptr.put(running(counts.iter().map(|&count| count as usize))) };
            }
            // SAFETY: `is_same` found it unchanged, and no Python code runs until all is written.
            let slots = unsafe { out.slice() };
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
