//! The cache is forgotten: all of it, or what one adapter, salt or session left in it.

use std::collections::HashSet;

use crate::events::Kind;
use crate::manager::Manager;
use crate::origins::Scope;
use crate::pool::{BlockId, NIL};
use crate::sequence::SeqId;

impl Manager {
    /// Forgets every cached block; running sequences keep theirs, and leave nothing findable.
    /// Returns how many blocks were freed.
    pub fn reset_prefix_cache(&mut self) -> u32 {
        self.store.tick();
        let freed = self.store.forget_all(self.store.index().blocks());
        self.store.attached_mut().drop_below();
        self.sequences.make_private();
        self.transfers.clear_computing();
        self.store.note(Kind::Reset, 0, u64::from(freed));
        freed
    }

    /// Forgets what `scope` holds. Running sequences in it keep their blocks, leave nothing findable,
    /// and count as of other weights ([`Manager::is_current`]). Returns how many blocks were freed.
    /// One pass over the pool and over the sequences.
    pub fn clear_scope(&mut self, scope: Scope<'_>) -> u32 {
        self.store.tick();
        let found = self.store.origins().blocks_in(scope, self.pool());
        let freed = self.store.forget_all(self.store.with_followers(found));
        // A handle below a block does not say whose it is.
        self.store.attached_mut().drop_below();
        for seq in self.sequences.disown(scope) {
            self.transfers.end_computing(seq);
        }
        self.note_scope(scope);
        freed
    }

    /// Blocks that the sequences of `tenant` own, each once, and these sequences; of those that ended before
    /// their load, the blocks alone. O(sequences and their blocks).
    pub fn held_by_tenant(&self, tenant: &[u8]) -> (u32, Vec<SeqId>) {
        let its = || self.sequences.iter().filter(|(_, sequence)| sequence.tenant == tenant);
        let blocks = its().flat_map(|(_, sequence)| sequence.tables.iter().flatten().copied());
        let blocks: HashSet<BlockId> = blocks.filter(|&block| block != NIL).collect();
        let running = its().map(|(seq, _)| seq).filter(|&seq| !self.transfers.orphans().has(seq));
        (blocks.len() as u32, running.collect())
    }

    /// Salts of findable blocks and of running sequences, each once; those without one apart.
    pub fn salts(&self) -> Vec<Vec<u8>> {
        let mut salts: Vec<Vec<u8>> =
            self.store.origins().salts().into_iter().map(<[u8]>::to_vec).collect();
        salts.extend(
            self.sequences.iter().map(|(_, s)| s.cache_salt.clone()).filter(|s| !s.is_empty()),
        );
        salts.sort_unstable();
        salts.dedup();
        salts
    }

    /// The bytes are logged as ids: the number of the salt's bytes, these bytes, then the
    /// adapter's; where a tenant is given, then its bytes and how many they are.
    fn note_scope(&mut self, scope: Scope<'_>) {
        let Scope { tenant, cache_salt: salt, lora_name: adapter, session } = scope;
        let given = [salt.is_some(), adapter.is_some(), session.is_some(), tenant.is_some()];
        let given = (0..).zip(given).map(|(at, given)| u64::from(given) << at).sum();
        let (salt, adapter) = (salt.unwrap_or_default(), adapter.unwrap_or_default());
        let bytes = salt.iter().chain(adapter).map(|&byte| u32::from(byte));
        let mut ids: Vec<u32> = std::iter::once(salt.len() as u32).chain(bytes).collect();
        if let Some(tenant) = tenant {
            ids.extend(tenant.iter().map(|&byte| u32::from(byte)));
            ids.push(tenant.len() as u32);
        }
        self.store.note_ids(Kind::ResetScope, 0, (given, session.unwrap_or_default()), &ids);
    }
}
