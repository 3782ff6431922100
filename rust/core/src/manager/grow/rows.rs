//! Table entries for one unit of a sequence, in all of its groups.

use crate::groups::GroupKind;
use crate::hash::Key;
use crate::manager::Manager;
use crate::sequence::{BlockTable, SeqId};

impl Manager {
    /// Tells a policy with ghosts which keys the blocks that start at unit `row` are for.
    pub(in crate::manager) fn announce(&mut self, keys: &[Key], row: u32) {
        for (group, reach) in self.layout.groups().iter().enumerate() {
            let starts = reach.kind != GroupKind::Cross && row.is_multiple_of(reach.units);
            let Some(key) = keys.get((row + reach.units) as usize - 1).filter(|_| starts) else {
                continue;
            };
            self.store.on_miss(key.for_group(group));
        }
    }

    /// Tells a policy outside the core the same, of all blocks of an operation that takes `n` more than
    /// are free, before it decides: behind the first `rows` units.
    pub(in crate::manager) fn announce_all(&mut self, keys: &[Key], rows: u32, n: u32) {
        let groups = self.layout.groups().iter().enumerate();
        let groups: Vec<_> = groups.filter(|(_, g)| g.kind != GroupKind::Cross).collect();
        let of_row = |row: u32| {
            let starts = groups.iter().filter(move |(_, reach)| row.is_multiple_of(reach.units));
            starts.filter_map(move |(group, reach)| {
                keys.get((row + reach.units) as usize - 1).map(|key| key.for_group(*group))
            })
        };
        let taken = n.saturating_add(self.pool().free()) as usize;
        let announced = (rows..keys.len() as u32).flat_map(of_row).take(taken);
        let now = self.store.now();
        if let Some(outside) = self.store.external_served() {
            outside.announce(announced, now);
        }
    }

    /// Groups whose table has no slots for the unit `row` yet, as bits.
    #[inline]
    fn short_groups(&self, tables: &[BlockTable], row: u32) -> u32 {
        if self.layout.is_uniform() {
            return (1 << tables.len()) - 1;
        }
        let end = (u64::from(row) + 1) * u64::from(self.block_size());
        let mut short = 0;
        for (group, (reach, table)) in self.layout.groups().iter().zip(tables).enumerate() {
            let has = table.len() as u64 * u64::from(reach.span);
            short |= u32::from(reach.kind != GroupKind::Cross && has < end) << group;
        }
        short
    }

    /// Blocks that slots for the unit `row` take.
    #[inline]
    pub(in crate::manager) fn row_blocks(&self, tables: &[BlockTable], row: u32) -> u32 {
        if self.layout.is_uniform() {
            return tables.len() as u32;
        }
        self.short_groups(tables, row).count_ones()
    }

    /// Slots for the unit `row` in every group's table, or in none.
    #[inline]
    pub(in crate::manager) fn obtain_row(
        &mut self,
        seq: SeqId,
        tables: &mut [BlockTable],
        row: u32,
        next_use: Option<u32>,
    ) -> bool {
        match tables {
            // The common layout: a row is one block.
            [table] if self.layout.is_uniform() => {
                let block = self.store.obtain(seq, 0, next_use);
                block.inspect(|&block| table.push(block)).is_some()
            }
            _ => self.obtain_row_of_groups(seq, tables, row, next_use),
        }
    }

    fn obtain_row_of_groups(
        &mut self,
        seq: SeqId,
        tables: &mut [BlockTable],
        row: u32,
        next_use: Option<u32>,
    ) -> bool {
        let short = self.short_groups(tables, row);
        let is_short = |group: &usize| short >> group & 1 == 1;
        for group in (0..tables.len()).filter(is_short) {
            let Some(block) = self.store.obtain(seq, group, next_use) else {
                for group in (0..group).filter(is_short) {
                    let block = tables[group].pop().expect("the group got its block just now");
                    self.store.give_back(seq, block);
                }
                return false;
            };
            tables[group].push(block);
        }
        true
    }
}
