//! What a step writes into the caller's buffers.

use kvframe_core::Manager as Core;
use kvframe_core::manager::{Reach, Step};
use kvframe_core::pool::BlockId;
use kvframe_core::sequence::Sequence;
use numpy::ndarray::ArrayViewMut2;

use crate::views::entry;

/// The caller's buffers, one of each a layer group; either list may be empty.
pub struct Outputs<'a> {
    pub tables: Vec<ArrayViewMut2<'a, i32>>,
    pub slots: Vec<&'a mut [i64]>,
    /// The row of each append; its place where None.
    pub rows: Option<Vec<u64>>,
    /// Tokens of a block.
    pub size: u32,
    /// Slots written so far.
    pub written: usize,
}

impl Outputs<'_> {
    /// Whether everything a step may write fits; says what does not.
    pub fn check(&self, core: &Core, step: &Step<'_>, reach: &[Reach]) -> Result<(), String> {
        let groups = core.options().groups.len();
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
        for table in &self.tables {
            let (rows, width) = table.dim();
            if self.rows.is_none() && rows < grown {
                return Err(format!("{grown} sequences grow, but tables has {rows} rows"));
            }
            if let Some(row) = largest.filter(|&row| row >= rows as u64) {
                return Err(format!("rows has {row}, but tables has {rows} rows"));
            }
            let most = width as u64 * u64::from(core.options().block_size);
            if let Some(i) = reach.iter().position(|r| r.end > most) {
                let (seq, end) = (step.append[i].0, reach[i].end);
                return Err(format!(
                    "sequence {seq:#x} grows to {end} tokens, but tables has {width} columns"
                ));
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
            self.write_entries(i, (kept.min(sequence.len) / self.size) as usize, sequence);
        }
        if tokens == 0 {
            return;
        }
        let first = sequence.len - tokens as u32;
        for (slots, blocks) in self.slots.iter_mut().zip(&sequence.tables) {
            let mut block = (first / self.size) as usize;
            let mut offset = first % self.size;
            let mut base = page(blocks, block, self.size);
            for place in &mut slots[from..end] {
                if offset == self.size {
                    (block, offset) = (block + 1, 0);
                    base = page(blocks, block, self.size);
                }
                *place = if base < 0 { -1 } else { base + i64::from(offset) };
                offset += 1;
            }
        }
    }
}

impl Outputs<'_> {
    // Not inlined: the common decode step changes no entry.
    #[inline(never)]
    fn write_entries(&mut self, i: usize, first: usize, sequence: &Sequence) {
        let row = self.rows.as_ref().map_or(i, |rows| rows[i] as usize);
        for (table, blocks) in self.tables.iter_mut().zip(&sequence.tables) {
            for (column, &block) in blocks.iter().enumerate().skip(first) {
                // Another thread may have made it longer while a policy was asked.
                if let Some(place) = table.get_mut([row, column]) {
                    *place = entry(block);
                }
            }
        }
    }
}

/// The first slot of an entry's block; -1 where it left a window.
#[inline]
fn page(blocks: &[BlockId], at: usize, size: u32) -> i64 {
    match entry(blocks[at]) {
        -1 => -1,
        block => i64::from(block) * i64::from(size),
    }
}
