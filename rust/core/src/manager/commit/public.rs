//! Public blocks at the front of a prompt: whose they become as they are findable.

use crate::index::KeyMatch;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::policy::Access;
use crate::pool::{BlockId, NIL};
use crate::sequence::Sequence;

impl Manager {
    /// Before block `i` of a table becomes findable: a public one leaves the tenant that computed it. False if it
    /// stays with that tenant, and not findable: there is a copy already, or no room among public blocks.
    pub(super) fn give_to_all(&mut self, sequence: &Sequence, group: usize, i: usize) -> bool {
        let units = self.layout.groups()[group].units as usize;
        if !self.store.has_tenants() || (i + 1) * units > sequence.public as usize {
            return true;
        }
        let wanted = PrefixQuery::of(sequence);
        let found = |i| self.find(wanted, group, i);
        let table = &sequence.tables[group];
        // An owner of a findable block owns what it follows too, and a copy of its own is not what is found there.
        let follows_own = |i: usize| found(i - 1) == KeyMatch::Block(table[i - 1]);
        (i == 0 || !self.follows_others(group) || follows_own(i))
            && !matches!(found(i), KeyMatch::Block(_))
            && self.store.give_to_all(table[i])
    }

    /// The block that block `i` of a table follows, where tenants are told apart: the first private one none, others
    /// `parent`.
    pub(super) fn parent_apart(
        &self,
        sequence: &Sequence,
        group: usize,
        i: usize,
        parent: BlockId,
    ) -> BlockId {
        let units = self.layout.groups()[group].units as usize;
        let public = sequence.public as usize;
        let is_first = i * units <= public && (i + 1) * units > public;
        if is_first { NIL } else { parent }
    }

    fn follows_others(&self, group: usize) -> bool {
        self.layout.groups()[group].kind.is_ordered() && !self.options.keep_duplicates
    }

    /// `stored` blocks, of `units` each, became findable: the public ones are of no tenant and no salt, whichever request computed them.
    pub(super) fn insert_apart(
        &mut self,
        sequence: &Sequence,
        units: usize,
        stored: &[BlockId],
        access: Access<'_>,
    ) {
        let is_public = |&block: &BlockId| {
            (self.pool().depth(block) as usize + 1) * units <= sequence.public as usize
        };
        let at = stored.partition_point(is_public);
        let (all, own) = stored.split_at(at);
        let (first, rest) = access.next_use.split_at(at);
        let (space, root) = (sequence.space(), self.hasher.root(sequence.space().of_private()));
        if !all.is_empty() {
            let access = Access { next_use: first, ..access };
            self.store.insert(all, (sequence.root, space.of_public()), access);
        }
        if !own.is_empty() {
            let access = Access { next_use: rest, ..access };
            self.store.insert(own, (root, space.of_private()), access);
        }
    }
}
