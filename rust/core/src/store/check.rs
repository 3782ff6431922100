//! Everything that must hold of the blocks between calls, checked from scratch.

use super::Store;
use crate::pool::{BlockId, NIL, State};
use crate::tenants::Account;

impl Store {
    /// Recounts the pool, and compares what index, policy, retention and origins say with it. O(blocks).
    ///
    /// # Errors
    /// One line that says what disagrees.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.check_counts()?;
        self.check_tree()?;
        self.check_tenants()?;
        self.index.validate(&self.pool)?;
        self.policy.validate(&self.pool)?;
        self.retention.validate(&self.pool)?;
        self.sessions.validate()?;
        self.origins.validate(&self.pool)
    }

    fn check_counts(&self) -> Result<(), String> {
        let pool = &self.pool;
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

    fn check_tenants(&self) -> Result<(), String> {
        let pool = &self.pool;
        let Some(ledger) = pool.ledger() else { return Ok(()) };
        let over = |own: &Account| own.used > own.quota && own.cached > 0;
        if let Some((at, own)) = ledger.accounts().iter().enumerate().find(|(_, own)| over(own)) {
            return Err(format!("tenant {at}: above its quota with cached blocks: {own:?}"));
        }
        let taken = |block: &BlockId| !matches!(pool.state(*block), State::Free | State::Null);
        let taken = (0..pool.created()).filter(taken);
        ledger.validate(taken.map(|block| (block, pool.state(block) == State::Cached)))
    }

    fn check_tree(&self) -> Result<(), String> {
        let pool = &self.pool;
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
        for block in self.index.blocks() {
            let state = pool.state(block);
            if !matches!(state, State::Committed | State::Cached) {
                return Err(format!("the index holds block {block}, which is {}", state.name()));
            }
            if std::mem::replace(&mut indexed[block as usize], true) {
                return Err(format!("the index holds block {block} twice"));
            }
        }
        if findable != self.index.len() {
            return Err(format!("{findable} blocks findable, {} in the index", self.index.len()));
        }
        Ok(())
    }
}
