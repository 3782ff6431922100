//! Everything that must hold between calls, checked from scratch.

use super::Manager;
use crate::error::{Error, Result};
use crate::pool::{BlockId, NIL, State};

impl Manager {
    /// Recounts owners, states, tree, index, tables and the policy's state. O(blocks); for tests,
    /// debugging and health checks.
    ///
    /// # Errors
    /// [`Error::Integrity`] names the first thing that disagrees.
    pub fn check_integrity(&self) -> Result<()> {
        let checks =
            [self.check_counts(), self.check_owners(), self.check_tree(), self.check_sequences()];
        checks
            .into_iter()
            .chain([self.store.validate(), self.locks.validate(), self.check_promised()])
            .chain([self.computing.validate(|seq| self.sequences.get(seq).is_ok())])
            .collect::<std::result::Result<(), String>>()
            .map_err(Error::Integrity)
    }

    fn check_counts(&self) -> std::result::Result<(), String> {
        let pool = &self.store.pool;
        let mut listed = vec![false; pool.created() as usize];
        for &block in pool.free_list() {
            if std::mem::replace(&mut listed[block as usize], true) {
                return Err(format!("block {block} is free twice"));
            }
        }
        let (mut free, mut cached, mut owned) = (0, 0, 0);
        for block in 0..pool.created() {
            let state = pool.state(block);
            if (state == State::Free) != listed[block as usize] {
                return Err(format!("block {block} is {} but the free list differs", state.name()));
            }
            match state {
                State::Free => free += 1,
                State::Cached => cached += 1,
                _ => owned += 1,
            }
            let unowned = matches!(state, State::Free | State::Cached | State::Null);
            if unowned != (pool.refs(block) == 0) {
                let refs = pool.refs(block);
                return Err(format!("block {block} is {} with {refs} owners", state.name()));
            }
        }
        free += pool.capacity() - pool.created();
        if (free, cached, owned) != (pool.free(), pool.cached(), pool.referenced())
            || u64::from(free) + u64::from(cached) + u64::from(owned) != u64::from(pool.capacity())
        {
            return Err(format!(
                "{free} free + {cached} cached + {owned} referenced of {}; the pool says {}, {}, {}",
                pool.capacity(),
                pool.free(),
                pool.cached(),
                pool.referenced()
            ));
        }
        Ok(())
    }

    fn check_owners(&self) -> std::result::Result<(), String> {
        let mut owners = vec![0_u32; self.store.pool.created() as usize];
        let tables = self.sequences.iter().flat_map(|(_, s)| s.tables.iter().flatten());
        let others = self.tickets.owners().chain(self.fences.owners()).chain(self.locks.owners());
        for block in tables.copied().filter(|&b| b != NIL).chain(others) {
            owners[block as usize] += 1;
        }
        self.check_waits()?;
        for block in 0..self.store.pool.created() {
            let lent = u32::from(self.store.pool.state(block) == State::Lent);
            let held = self.held_blocks.count(block);
            let (counted, kept) =
                (owners[block as usize] + lent + held, self.store.pool.refs(block));
            if counted != kept {
                return Err(format!("block {block} has {counted} owners, its count says {kept}"));
            }
        }
        Ok(())
    }

    fn check_waits(&self) -> std::result::Result<(), String> {
        let pool = &self.store.pool;
        let mut waits = vec![0_u32; pool.created() as usize];
        self.fences.owners().for_each(|block| waits[block as usize] += 1);
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

    fn check_tree(&self) -> std::result::Result<(), String> {
        let pool = &self.store.pool;
        let mut children = vec![0_u32; pool.created() as usize];
        let mut findable = 0;
        for block in 0..pool.created() {
            if !matches!(pool.state(block), State::Committed | State::Cached) {
                continue;
            }
            findable += 1;
            let parent = pool.parent(block);
            if parent != NIL {
                children[parent as usize] += 1;
                if !matches!(pool.state(parent), State::Committed | State::Cached) {
                    let state = pool.state(parent).name();
                    return Err(format!("block {block} follows block {parent}, which is {state}"));
                }
                if pool.state(block) == State::Committed && pool.state(parent) == State::Cached {
                    return Err(format!("block {block} is owned, block {parent} before it is not"));
                }
            }
        }
        if let Some(block) = (0..pool.created()).find(|&b| children[b as usize] != pool.children(b))
        {
            let (counted, kept) = (children[block as usize], pool.children(block));
            return Err(format!("block {block} has {counted} children, its count says {kept}"));
        }
        let mut indexed = vec![false; pool.created() as usize];
        for block in self.store.index.blocks() {
            let state = pool.state(block);
            if !matches!(state, State::Committed | State::Cached) {
                return Err(format!("the index holds block {block}, which is {}", state.name()));
            }
            if std::mem::replace(&mut indexed[block as usize], true) {
                return Err(format!("the index holds block {block} twice"));
            }
        }
        if findable != self.store.index.len() {
            return Err(format!(
                "{findable} blocks findable, {} in the index",
                self.store.index.len()
            ));
        }
        Ok(())
    }

    fn check_sequences(&self) -> std::result::Result<(), String> {
        let size = self.block_size();
        for (seq, s) in self.sequences.iter() {
            if s.committed > s.len || s.len > s.known() || s.published > s.committed / size {
                return Err(format!(
                    "sequence {seq:#x}: {} published blocks, {} committed, {} slots, {} known",
                    s.published,
                    s.committed,
                    s.len,
                    s.known()
                ));
            }
            for (group, table) in s.tables.iter().enumerate() {
                let blocks = self.layout.table_len(group, s.len, s.encoder_tokens);
                if table.len() != blocks {
                    let have = table.len();
                    return Err(format!(
                        "sequence {seq:#x}: group {group} has {have} blocks, {} tokens need {blocks}",
                        s.len
                    ));
                }
                if table.last().is_some_and(|&last| last != table.last_block()) {
                    return Err(format!(
                        "sequence {seq:#x}: group {group} has lost its last entry"
                    ));
                }
                let reach = &self.layout.groups()[group];
                let next = reach.computed(s.committed, s.cached);
                let wrong = |&(i, &b): &(u32, &BlockId)| match b {
                    NIL => reach.kind.keeps_all() || reach.keeps(i, next),
                    _ => usize::from(self.store.pool.group(b)) != group,
                };
                if let Some((i, _)) = (0..).zip(table).find(wrong) {
                    let i = i as usize;
                    return Err(format!(
                        "sequence {seq:#x}: group {group}, entry {i}: {}",
                        table[i]
                    ));
                }
            }
        }
        Ok(())
    }
}
