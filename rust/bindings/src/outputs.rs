//! What a step writes into the caller's buffers.

use kvframe_core::Manager as Core;
use kvframe_core::groups::{GroupKind, GroupReach};
use kvframe_core::manager::{Extent, Remap, Step};
use kvframe_core::pool::{BlockId, NIL};
use kvframe_core::sequence::Sequence;
use numpy::ndarray::ArrayViewMut2;
use numpy::{Ix1, Ix2};
use pyo3::prelude::*;

use crate::buffers::{target, whole, writable};
use crate::look::Target;
use crate::tables::null_entry;
use crate::views::entry;

/// The caller's arrays, one of each a layer group; either list may be empty.
pub struct Targets<'py> {
    pub tables: Vec<Target<'py, i32, Ix2>>,
    pub slots: Vec<Target<'py, i64, Ix1>>,
}

impl<'py> Targets<'py> {
    pub fn of(tables: &[Bound<'py, PyAny>], slots: &[Bound<'py, PyAny>]) -> PyResult<Self> {
        let row = |given| Ok(Target::of(whole(writable(given, "slots")?, "slots")?));
        Ok(Self {
            tables: tables.iter().map(|given| target(given, "tables")).collect::<PyResult<_>>()?,
            slots: slots.iter().map(row).collect::<PyResult<_>>()?,
        })
    }

    /// Whether no two share memory.
    pub fn are_apart(&self) -> bool {
        let tables: Option<Vec<_>> = self.tables.iter().map(Target::borrow).collect();
        let slots: Option<Vec<_>> = self.slots.iter().map(Target::borrow).collect();
        tables.is_some() && slots.is_some()
    }

    fn are_same(&self) -> bool {
        self.tables.iter().all(Target::is_same) && self.slots.iter().all(Target::is_same)
    }
}

/// What a step writes into them.
pub struct Outputs<'a> {
    pub targets: &'a Targets<'a>,
    pub tables: Vec<ArrayViewMut2<'a, i32>>,
    pub slots: Vec<&'a mut [i64]>,
    /// The row of each append; its place where None.
    pub rows: Option<Vec<u64>>,
    /// What an entry that was given up reads as.
    pub null: i32,
    /// Of each group, the tokens of a block, and how far it lags; `None` where they are another input's.
    pub spans: Vec<Option<(u32, u32)>>,
    /// Whether the tokens of a block differ.
    pub mixed: bool,
    /// Slots written so far.
    pub written: usize,
    /// Whether the arrays were changed before all was written: nothing more is.
    pub lost: bool,
}

impl Outputs<'_> {
    /// To be asked after anything that may have run Python code: whether the arrays are as they were
    /// given. If not, nothing more is written into them.
    pub fn keep(&mut self) -> bool {
        if !self.lost && !self.targets.are_same() {
            self.lost = true;
            self.tables.clear();
            self.slots.clear();
        }
        !self.lost
    }

    /// Whether everything a step may write fits; says what does not.
    pub fn check(&mut self, core: &Core, step: &Step<'_>, reach: &[Extent]) -> Result<(), String> {
        self.null = null_entry(core);
        let own = |group: &GroupReach| group.kind != GroupKind::Cross;
        let span = |group: &GroupReach| own(group).then_some((group.span, group.lag));
        self.mixed = core.layout().is_mixed();
        self.spans = core.layout().groups().iter().map(span).collect();
        let groups = self.spans.len();
        for (name, given) in [("tables", self.tables.len()), ("slots", self.slots.len())] {
            if given != 0 && given != groups {
                return Err(format!("{given} {name}, but the manager has {groups} layer groups"));
            }
        }
        if !self.slots.is_empty() {
            let tokens: usize = step.append.iter().map(|(_, ids)| ids.len()).sum();
            if let Some(slots) = self.slots.iter().find(|s| s.len() < tokens) {
                let have = slots.len();
                return Err(format!("{tokens} tokens are appended, but slots holds {have}"));
            }
        }
        let grown = step.append.len();
        if let Some(have) = self.rows.as_ref().map(Vec::len).filter(|&have| have != grown) {
            return Err(format!("{grown} sequences grow, but rows has {have}"));
        }
        let largest = self.rows.as_ref().and_then(|rows| rows.iter().max().copied());
        for (group, table) in self.tables.iter().enumerate() {
            let (rows, width) = table.dim();
            if self.rows.is_none() && rows < grown {
                return Err(format!("{grown} sequences grow, but tables has {rows} rows"));
            }
            if let Some(row) = largest.filter(|&row| row >= rows as u64) {
                return Err(format!("rows has {row}, but tables has {rows} rows"));
            }
            let longest = reach.iter().map(|extent| extent.end).max().unwrap_or(0);
            let holds = |(span, _)| longest <= width as u64 * u64::from(span);
            if self.spans[group].is_some_and(holds) {
                continue;
            }
            for (&(seq, _), extent) in step.append.iter().zip(reach) {
                let encoder = core.sequence(seq).map_or(0, |s| s.encoder_tokens);
                let end = u32::try_from(extent.end).unwrap_or(u32::MAX);
                if core.layout().table_len(group, end, encoder) > width {
                    return Err(format!(
                        "sequence {seq} grows to {end} tokens, but tables has {width} columns"
                    ));
                }
            }
        }
        self.check_rows(step)
    }

    /// Refuses a row that is given for two sequences: it would hold a mixture of two tables.
    fn check_rows(&self, step: &Step<'_>) -> Result<(), String> {
        let (Some(rows), Some(table)) = (&self.rows, self.tables.first()) else { return Ok(()) };
        if rows.is_sorted_by(|a, b| a < b) {
            return Ok(());
        }
        let mut first = vec![None; table.nrows()];
        for (place, &row) in rows.iter().enumerate() {
            if let Some(other) = first[row as usize].replace(place) {
                let [a, b] = [other, place].map(|place: usize| step.append[place].0);
                return Err(format!("rows has {row} twice, for sequences {a} and {b}"));
            }
        }
        Ok(())
    }

    /// For an append: the entries from the block that was written last on, and the slots of its
    /// tokens; no slots where it was refused.
    #[inline]
    pub fn write(
        &mut self,
        i: usize,
        tokens: usize,
        kept: u32,
        granted: Option<(&Sequence, bool)>,
    ) {
        let (from, end) = (self.written, self.written + tokens);
        self.written = end;
        let Some((sequence, changed)) = granted else {
            self.slots.iter_mut().for_each(|slots| slots[from..end].fill(-1));
            return;
        };
        if changed {
            self.write_entries(i, kept, sequence);
        }
        if tokens == 0 {
            return;
        }
        let first = sequence.len - tokens as u32;
        let groups = self.spans.iter().zip(&sequence.tables);
        for (slots, (&span, table)) in self.slots.iter_mut().zip(groups) {
            let slots = &mut slots[from..end];
            let Some((span, _)) = span else {
                slots.fill(-1);
                continue;
            };
            // Mostly all of them are in the last block.
            let offset =
                first.wrapping_sub((table.len() as u32).wrapping_sub(1).wrapping_mul(span));
            if offset < span && tokens <= (span - offset) as usize {
                write_slots(slots, table.last_block(), span, offset);
            } else {
                write_scattered(slots, table, span, first);
            }
        }
    }

    /// One entry of an append's table, which changed although its tokens did not.
    pub fn patch(&mut self, i: usize, remap: &Remap) {
        let row = self.rows.as_ref().map_or(i, |rows| rows[i] as usize);
        let table = self.tables.get_mut(remap.group as usize);
        if let Some(place) = table.and_then(|table| table.get_mut([row, remap.place as usize])) {
            *place = entry(remap.block, self.null);
        }
    }

    // Not inlined: the common decode step changes no entry.
    #[inline(never)]
    fn write_entries(&mut self, i: usize, kept: u32, sequence: &Sequence) {
        let row = self.rows.as_ref().map_or(i, |rows| rows[i] as usize);
        let groups = self.spans.iter().zip(&sequence.tables);
        for (table, (&span, blocks)) in self.tables.iter_mut().zip(groups) {
            // Another input's blocks are those of the admission.
            let Some((span, lag)) = span else { continue };
            // A copy may have put another block behind what is still to be computed.
            let kept = if self.mixed { kept.min(sequence.committed) } else { kept };
            let first = (kept.min(sequence.len).saturating_sub(lag) / span) as usize;
            for (column, &block) in blocks.iter().enumerate().skip(first) {
                // Another thread may have made it longer while a policy was asked.
                if let Some(place) = table.get_mut([row, column]) {
                    *place = entry(block, self.null);
                }
            }
        }
    }
}

/// Slots of a block from `offset` on; -1 where the block was given up.
#[inline]
fn write_slots(slots: &mut [i64], block: BlockId, span: u32, offset: u32) {
    if block == NIL {
        slots.fill(-1);
        return;
    }
    let first = i64::from(block) * i64::from(span) + i64::from(offset);
    if let [slot] = slots {
        *slot = first;
        return;
    }
    for (place, slot) in slots.iter_mut().zip(first..) {
        *place = slot;
    }
}

/// Slots of tokens from `first` on, wherever in the table they are.
#[inline(never)]
fn write_scattered(mut slots: &mut [i64], table: &[BlockId], span: u32, first: u32) {
    let (mut at, mut offset) = ((first / span) as usize, first % span);
    while !slots.is_empty() {
        let here = slots.len().min((span - offset) as usize);
        let (now, later) = slots.split_at_mut(here);
        write_slots(now, table.get(at).copied().unwrap_or(NIL), span, offset);
        (slots, at, offset) = (later, at + 1, 0);
    }
}
