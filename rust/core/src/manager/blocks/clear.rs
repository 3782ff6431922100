//! The cache is forgotten: all of it, or what one adapter, salt or session left in it.

use crate::events::Kind;
use crate::hash::Space;
use crate::manager::Manager;
use crate::origins::Scope;

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
    /// adapter's.
    fn note_scope(&mut self, scope: Scope<'_>) {
        let Scope { cache_salt: salt, lora_name: adapter, session } = scope;
        let given = [salt.is_some(), adapter.is_some(), session.is_some()];
        let given = (0..).zip(given).map(|(at, given)| u64::from(given) << at).sum();
        let (salt, adapter) = (salt.unwrap_or_default(), adapter.unwrap_or_default());
        let bytes = salt.iter().chain(adapter).map(|&byte| u32::from(byte));
        let ids: Vec<u32> = std::iter::once(salt.len() as u32).chain(bytes).collect();
        self.store.note_ids(Kind::ResetScope, 0, (given, session.unwrap_or_default()), &ids);
    }

    /// The space of a sequence's keys.
    pub(in crate::manager) fn space_of(sequence: &crate::sequence::Sequence) -> Space<'_> {
        let crate::sequence::Sequence { cache_salt: salt, lora_name: adapter, encoder, .. } =
            sequence;
        Space { cache_salt: salt, lora_name: adapter, encoder }
    }
}
