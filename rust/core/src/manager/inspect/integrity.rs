//! Everything that must hold between calls, checked from scratch.

use crate::error::{Error, Result};
use crate::manager::Manager;
use crate::pool::{BlockId, NIL, State};
use crate::tenants::Ledger;

impl Manager {
    /// Recounts owners, states, tree, index, tables and the policy's state. O(blocks); for tests,
    /// debugging and health checks.
    ///
    /// # Errors
    /// [`Error::Integrity`] names the first thing that disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        self.check_all().map_err(Error::Integrity)
    }

    fn check_all(&self) -> std::result::Result<(), String> {
        self.store.validate()?;
        self.check_owners()?;
        self.check_sequences()?;
        self.locks.validate()?;
        self.check_promised()?;
        self.transfers.computing().validate(|seq| self.sequences.get(seq).is_ok())
    }

    fn check_owners(&self) -> std::result::Result<(), String> {
        let mut owners = vec![0_u32; self.pool().created() as usize];
        let tables = self.sequences.iter().flat_map(|(_, s)| s.tables.iter().flatten());
        let others = self.transfers.owners().chain(self.locks.owners());
        for block in tables.copied().filter(|&b| b != NIL).chain(others) {
            owners[block as usize] += 1;
        }
        self.check_waits()?;
        for block in 0..self.pool().created() {
            let lent = u32::from(self.pool().state(block) == State::Lent);
            let held = self.held_blocks.count(block);
            let (counted, kept) = (owners[block as usize] + lent + held, self.pool().refs(block));
            if counted != kept {
                return Err(format!("block {block} has {counted} owners, its count says {kept}"));
            }
        }
        Ok(())
    }

    fn check_waits(&self) -> std::result::Result<(), String> {
        let pool = self.pool();
        let mut waits = vec![0_u32; pool.created() as usize];
        self.transfers.fences().owners().for_each(|block| waits[block as usize] += 1);
        let wrong = |&b: &BlockId| pool.waits(b) != waits[b as usize];
        if let Some(block) = (0..pool.created()).find(wrong) {
            let (counted, kept) = (waits[block as usize], pool.waits(block));
            return Err(format!("block {block}: {counted} owners wait, its count says {kept}"));
        }
        let (counted, kept) = (waits.iter().filter(|&&count| count > 0).count(), pool.waiting());
        if counted != kept as usize {
            return Err(format!("{counted} blocks wait for fences, the pool says {kept}"));
        }
        let coming = |&b: &BlockId| waits[b as usize] > 0 && pool.stays(b) == 0;
        let (counted, kept) = ((0..pool.created()).filter(coming).count(), pool.coming());
        if counted != kept as usize {
            return Err(format!("{counted} blocks wait for fences alone, the pool says {kept}"));
        }
        Ok(())
    }

    fn check_sequences(&self) -> std::result::Result<(), String> {
        let size = self.block_size();
        for (seq, s) in self.sequences.iter() {
            if s.committed > s.len || s.len > s.known() || s.published > s.committed / size {
                return Err(format!(
                    "sequence {seq}: {} published blocks, {} committed, {} slots, {} known",
                    s.published,
                    s.committed,
                    s.len,
                    s.known()
                ));
            }
            // Keys that a caller made may name blocks of others, in a request or under which it published a block.
            let made = s.came_as_keys() || self.store.origins().had_unknown();
            let public = self.pool().ledger().and_then(Ledger::public);
            let foreign = |&b: &BlockId| {
                b != NIL
                    && !made
                    && self.pool().tenant(b) != s.meta.tenant
                    && Some(self.pool().tenant(b)) != public
            };
            if let Some(block) = s.tables.iter().flatten().copied().find(foreign) {
                let (tenant, other) = (s.meta.tenant, self.pool().tenant(block));
                return Err(format!("sequence {seq} of tenant {tenant} has {block} of {other}"));
            }
            for (group, table) in s.tables.iter().enumerate() {
                let blocks = self.layout.table_len(group, s.len, s.encoder_tokens);
                if table.len() != blocks {
                    let have = table.len();
                    return Err(format!(
                        "sequence {seq}: group {group} has {have} blocks, {} tokens need {blocks}",
                        s.len
                    ));
                }
                if table.last().is_some_and(|&last| last != table.last_block()) {
                    return Err(format!("sequence {seq}: group {group} has lost its last entry"));
                }
                let reach = &self.layout.groups()[group];
                let next = reach.computed(s.committed.max(s.passed), s.cached);
                let wrong = |&(i, &b): &(u32, &BlockId)| match b {
                    NIL => reach.kind.keeps_all() || reach.keeps(i, next),
                    _ => usize::from(self.pool().group(b)) != group,
                };
                if let Some((i, _)) = (0..).zip(table).find(wrong) {
                    let i = i as usize;
                    return Err(format!("sequence {seq}: group {group}, entry {i}: {}", table[i]));
                }
            }
        }
        Ok(())
    }
}
