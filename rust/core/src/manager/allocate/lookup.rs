//! How much of a prompt is there. Pure: nothing is counted, moved or owned (rule 6).

use crate::groups::GroupKind;
use crate::hash::{Key, MmItem, Space};
use crate::index::radix::Path;
use crate::index::{KeyMatch, Proof, Radix};
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};
use crate::sequence::Sequence;

/// A lookup's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Tokens that need not be computed.
    pub tokens: u32,
    /// Their blocks, a list a group; `NIL` where a group needs none.
    pub blocks: Vec<Vec<BlockId>>,
    /// Keys that matched while the tokens did not.
    pub collisions: u32,
    /// What is attached to exactly this prompt.
    pub attached: Option<u64>,
}

/// How much of a prompt is there, in units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::manager) struct Found {
    /// What every group can serve.
    pub units: usize,
    /// What groups of full attention could serve: more, where a window or a state is missing.
    pub attended: usize,
    /// Keys that matched while the tokens did not.
    pub collisions: u32,
}

/// What is looked up: keys, and the tokens they came from where those are known.
#[derive(Clone, Copy)]
pub(in crate::manager) struct PrefixQuery<'a> {
    pub keys: &'a [Key],
    pub tokens: &'a [u32],
    pub root: Key,
    pub mm_items: &'a [MmItem],
    pub limit: usize,
}

impl<'a> PrefixQuery<'a> {
    /// All that is known of `sequence`.
    pub(in crate::manager) fn of(sequence: &'a Sequence) -> Self {
        let Sequence { keys, tokens, root, mm_items, .. } = sequence;
        Self { keys, tokens, root: *root, mm_items, limit: 0 }
    }
}

impl Manager {
    /// How much of a prompt could be reused now.
    pub fn lookup(&self, tokens: &[u32], space: Space<'_>, mm_items: &[MmItem]) -> Hit {
        let mut keys = Vec::new();
        let limit = self.hit_limit(tokens.len() as u32) * self.block_size() as usize;
        if self.store.index().takes_keys() {
            self.hasher.extend(self.hasher.root(space), mm_items, &tokens[..limit], &mut keys);
        }
        self.lookup_hashed(&keys, tokens, space, mm_items)
    }

    /// [`Self::lookup`] for a caller that has the keys of the prompt's blocks.
    pub fn lookup_hashed(
        &self,
        keys: &[Key],
        tokens: &[u32],
        space: Space<'_>,
        mm_items: &[MmItem],
    ) -> Hit {
        let (root, limit) = (self.hasher.root(space), self.hit_limit(tokens.len() as u32));
        let mut blocks = vec![Vec::new(); self.options.groups.len()];
        let wanted = PrefixQuery { keys, tokens, root, mm_items, limit };
        let Found { units, collisions, .. } = self.find_prefix(wanted, &mut blocks);
        let mut tokens_found = units as u32 * self.block_size();
        if self.options.partial_hits {
            let most = self.less_the_last(tokens.len() as u32);
            if let Some(tail) = self.find_tail(wanted, most, &mut blocks) {
                tokens_found += tail.tokens;
                blocks.iter_mut().zip(tail.blocks).for_each(|(found, block)| found.push(block));
            }
        }
        let attached = if self.store.attached().is_empty() {
            None
        } else {
            let mut keys = keys.to_vec();
            self.hasher.extend(root, mm_items, tokens, &mut keys);
            self.find_attached(PrefixQuery { keys: &keys, tokens, root, mm_items, limit })
        };
        Hit { tokens: tokens_found, blocks, collisions, attached }
    }

    /// The keys of the full blocks of a prompt.
    pub fn keys(&self, tokens: &[u32], space: Space<'_>, mm_items: &[MmItem]) -> Vec<Key> {
        let mut keys = Vec::new();
        self.hasher.extend(self.hasher.root(space), mm_items, tokens, &mut keys);
        keys
    }

    /// Rule 5: units that a hit on a prompt of `tokens` may cover.
    pub(super) fn hit_limit(&self, tokens: u32) -> usize {
        if !self.options.prefix_caching {
            return 0;
        }
        (self.less_the_last(tokens) / self.block_size()) as usize
    }

    /// Rule 5: of `tokens` of a prompt, those that need not be computed.
    pub(super) fn less_the_last(&self, tokens: u32) -> u32 {
        tokens - u32::from(self.options.compute_last_token && tokens > 0)
    }

    /// The proof that block `i` of `group` has to match.
    #[inline]
    pub(in crate::manager) fn proof<'a>(
        &self,
        wanted: PrefixQuery<'a>,
        group: usize,
        i: usize,
    ) -> Option<Proof<'a>> {
        if !self.store.index().wants_proof() {
            return None;
        }
        let reach = &self.layout.groups()[group];
        let (size, units) = (reach.span as usize, reach.units as usize);
        let tokens = wanted.tokens.get(i * size..(i + 1) * size)?;
        let PrefixQuery { root, keys, mm_items, .. } = wanted;
        Some(Proof { link: self.hasher.link_of(root, keys, i * units, units, mm_items), tokens })
    }

    /// The key of block `i` of `group`: that of its last unit.
    #[inline]
    pub(in crate::manager) fn key_of(&self, keys: &[Key], group: usize, i: usize) -> Key {
        let units = self.layout.groups()[group].units as usize;
        keys[(i + 1) * units - 1].for_group(group)
    }

    #[inline]
    pub(in crate::manager) fn find(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        i: usize,
    ) -> KeyMatch {
        self.store.find_key(self.key_of(wanted.keys, group, i), self.proof(wanted, group, i))
    }

    /// Fills `blocks` with the longest prefix that every group can serve (rule 11).
    pub(in crate::manager) fn find_prefix(
        &self,
        wanted: PrefixQuery<'_>,
        blocks: &mut [Vec<BlockId>],
    ) -> Found {
        if self.answers.is_some()
            && let Some(found) = self.find_answered(wanted, blocks)
        {
            return found;
        }
        self.find_own(wanted, blocks)
    }

    /// [`Self::find_prefix`] by the core's own index, whatever a matcher outside answered.
    pub(super) fn find_own(&self, wanted: PrefixQuery<'_>, blocks: &mut [Vec<BlockId>]) -> Found {
        if let Some(radix) = self.store.index().radix() {
            let units = self.find_path(radix, wanted, blocks);
            return Found { units, attended: units, collisions: 0 };
        }
        let unit = self.layout.unit() as usize;
        let whole = |count: usize| count - count % unit;
        let mut count = whole(wanted.limit.min(wanted.keys.len()));
        let mut collisions = 0;
        for (group, found) in blocks.iter_mut().enumerate() {
            found.clear();
            let reach = &self.layout.groups()[group];
            if reach.kind == GroupKind::Full {
                let units = reach.units as usize;
                collisions += self.find_chain(wanted, group, count / units, found);
                count = whole(found.len() * units);
            }
        }
        let attended = count;
        if self.layout.gives_up() {
            count = self.find_ends(wanted, count, blocks);
        }
        let attended = if self.layout.attends_to_all() { attended } else { count };
        for (reach, found) in self.layout.groups().iter().zip(blocks) {
            if reach.kind == GroupKind::Full {
                found.truncate(count / reach.units as usize);
                if self.store.has_copies() {
                    self.follow_chain(found);
                }
            }
        }
        Found { units: count, attended, collisions }
    }

    /// As [`Self::find_own`], for an index of tokens.
    fn find_path(
        &self,
        radix: &Radix,
        wanted: PrefixQuery<'_>,
        blocks: &mut [Vec<BlockId>],
    ) -> usize {
        let PrefixQuery { root, tokens, mm_items, limit, .. } = wanted;
        // A request known by its length alone has no tokens to look up, however long it is.
        let limit = limit.min(tokens.len() / self.block_size() as usize);
        let marks = &self.hasher.marks(mm_items, limit)[..];
        let mut count = limit;
        for (group, found) in blocks.iter_mut().enumerate() {
            radix.find(Path { root: root.for_group(group), tokens, marks }, count, found);
            count = found.len();
        }
        for found in blocks {
            found.truncate(count);
            if self.store.has_copies() {
                self.follow_chain(found);
            }
        }
        count
    }

    /// Fills `found` with the chain of blocks from the first on, `count` at the most; returns how
    /// many collisions ended it.
    #[inline]
    fn find_chain(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        count: usize,
        found: &mut Vec<BlockId>,
    ) -> u32 {
        while found.len() < count {
            let i = found.len();
            if self.follow_children(wanted, group, count, found) {
                continue;
            }
            match self.find(wanted, group, i) {
                KeyMatch::Block(block) if self.follows(wanted, group, block, found) => {
                    found.push(block);
                }
                KeyMatch::Block(_) | KeyMatch::Nothing => break,
                KeyMatch::Collision => return 1,
            }
        }
        0
    }

    /// The longest hit of at most `count` units for which every group that gives blocks up still has
    /// what the next token attends to. One group may need a shorter hit, and then another one too.
    fn find_ends(
        &self,
        wanted: PrefixQuery<'_>,
        mut count: usize,
        blocks: &mut [Vec<BlockId>],
    ) -> usize {
        loop {
            let before = count;
            for (group, found) in blocks.iter_mut().enumerate() {
                if !self.layout.groups()[group].kind.keeps_all() {
                    count = self.find_end(wanted, group, count, found);
                }
            }
            if count == before {
                return count;
            }
        }
    }

    /// Goes on from the last block found to its neighbours or the children that became findable last, where
    /// they are the ones wanted: most prompts go on as the last one did, and that is found without the
    /// index. Not where tokens have to be compared, nor in groups whose keys are not the prompt's own.
    #[inline]
    fn follow_children(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        count: usize,
        found: &mut Vec<BlockId>,
    ) -> bool {
        let from = found.len();
        match found.last() {
            // Which of several copies a neighbour is depends on other tenants.
            Some(_) if self.store.has_copies() && !self.numbers.is_empty() => {}
            Some(&last)
                if group == 0
                    && self.layout.groups()[0].units == 1
                    && !self.store.index().wants_proof() =>
            {
                let keys = &wanted.keys[from..count];
                let column = self.store.index().numbered();
                // Of several copies, the one that goes on as the blocks before it is wanted.
                if let Some(column) = column.filter(|_| !self.store.has_copies()) {
                    self.pool().follow_numbers(last, keys, column, found);
                } else {
                    self.pool().follow_children(last, keys, found);
                }
            }
            _ => {}
        }
        found.len() > from
    }

    /// Whether `block` comes right after the last of `found`, or a copy of it: keys that a caller
    /// made up may name blocks out of their chain.
    #[inline]
    pub(super) fn follows(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        block: BlockId,
        found: &[BlockId],
    ) -> bool {
        // Where copies stay, no block follows another.
        if self.options.keep_duplicates {
            return true;
        }
        let parent = self.pool().parent(block);
        match found.last() {
            None => parent == NIL,
            Some(&last) if parent == last => true,
            // A private block of a tenant follows none, where the one before it is public.
            Some(&last) if parent == NIL => self.store.is_of_other(block, last),
            Some(_) if self.store.index().wants_proof() => {
                self.is_copy(wanted, group, parent, found)
            }
            Some(&last) => self.pool().key(parent) == self.pool().key(last),
        }
    }

    /// Whether `block` and those before it hold what the blocks found hold: where hashes can be made to
    /// collide, the key of the last one says nothing of those before it.
    #[cold]
    fn is_copy(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        mut block: BlockId,
        found: &[BlockId],
    ) -> bool {
        for (i, &there) in found.iter().enumerate().rev() {
            if block == there {
                return true;
            }
            let same = block != NIL && self.pool().key(block) == self.key_of(wanted.keys, group, i);
            if !same || !self.store.index().vouches(block, self.proof(wanted, group, i)) {
                return false;
            }
            block = self.pool().parent(block);
        }
        block == NIL
    }

    /// If a key has several copies, takes the one that the last found block follows. Otherwise a block
    /// could have an owner while its parent has none, and the parent could not be evicted.
    pub(in crate::manager) fn follow_chain(&self, found: &mut [BlockId]) {
        if self.options.keep_duplicates {
            return;
        }
        for i in (1..found.len()).rev() {
            match self.pool().parent(found[i]) {
                // It is private, and what comes before it is public.
                NIL => {}
                parent => found[i - 1] = parent,
            }
        }
    }

    /// Finds the longest hit of at most `count` units that one group can serve, and fills `found` with its
    /// blocks.
    fn find_end(
        &self,
        wanted: PrefixQuery<'_>,
        group: usize,
        mut count: usize,
        found: &mut Vec<BlockId>,
    ) -> usize {
        let (reach, unit) = (&self.layout.groups()[group], self.layout.unit() as usize);
        let units = reach.units as usize;
        loop {
            found.clear();
            found.resize(count / units, NIL);
            let gone = reach.gone((count * self.block_size() as usize) as u32);
            let needed =
                (gone.end..found.len()).rev().chain((0..gone.start.min(found.len())).rev());
            let missing = needed.into_iter().find(|&i| match self.find(wanted, group, i) {
                KeyMatch::Block(block) => {
                    found[i] = block;
                    false
                }
                KeyMatch::Nothing | KeyMatch::Collision => true,
            });
            // Every shorter hit that reaches past a block needs it, too.
            let Some(missing) = missing else { return count };
            count = missing * units - missing * units % unit;
        }
    }
}
