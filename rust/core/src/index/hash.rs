//! The hash index: keys live in the pool's columns, the table holds ids alone.

use std::collections::BTreeSet;

use hashbrown::HashMap;

use super::mirror::{Changes, Mirror};
use super::table::Table;
use crate::hash::{HashAlgo, Key};
use crate::pool::{BlockId, Pool, State};

/// Findable blocks by key. A key may have several copies.
#[derive(Debug)]
pub struct HashIndex {
    /// One block for each key: the first of its copies, if the key has several.
    table: Table,
    /// All copies of the keys that have several. They are kept outside the table, because entries with equal
    /// keys collide there.
    copies: HashMap<Key, BTreeSet<(u64, BlockId)>>,
    /// Of each block, how many blocks became findable before it, if the oldest copy is found and not that with
    /// the lowest id.
    ages: Option<Box<Ages>>,
    /// Copies that are not in the table.
    more: usize,
    verify: Option<Witness>,
    /// Changes for an index outside the core, if there is one.
    mirror: Option<Box<Mirror>>,
}

/// What a non-cryptographic key is checked against: each block's link and tokens.
#[derive(Debug)]
struct Witness {
    /// The most tokens a block spans.
    span: usize,
    links: Vec<Key>,
    tokens: Vec<u32>,
}

/// What a lookup knows of the block it wants, beyond its key.
#[derive(Debug, Clone, Copy)]
pub struct Proof<'a> {
    /// What the key was chained from.
    pub link: Key,
    /// The block's tokens.
    pub tokens: &'a [u32],
}

/// A lookup's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMatch {
    /// This block.
    Block(BlockId),
    /// Nothing under the key.
    Nothing,
    /// The key matches, the tokens do not.
    Collision,
}

impl HashIndex {
    /// An empty index of blocks of up to `span` tokens.
    pub fn new(algo: HashAlgo, span: u32, capacity: u32) -> Self {
        let verify = (!algo.is_cryptographic()).then(|| Witness {
            span: span as usize,
            links: Vec::new(),
            tokens: Vec::new(),
        });
        let table = Table::hashed(capacity.min(1 << 20) as usize);
        Self { table, copies: HashMap::new(), ages: None, more: 0, verify, mirror: None }
    }

    /// Of several copies, finds the oldest, and not that with the lowest id.
    #[must_use]
    pub fn by_age(mut self, yes: bool) -> Self {
        self.ages = yes.then(Box::default);
        self
    }

    /// From now on, all keys are [numbered](Key::number) below `count`: they are found without hashing. The
    /// caller: has stored nothing yet, and gives each key a number of its own.
    pub fn number(&mut self, count: u32) {
        debug_assert!(self.is_empty());
        self.table = Table::numbered(count);
    }

    /// By number, the block that is found, where keys are numbered.
    #[inline]
    pub fn numbered(&self) -> Option<&[BlockId]> {
        self.table.column()
    }

    /// Whether lookups should bring a [`Proof`].
    pub fn wants_proof(&self) -> bool {
        self.verify.is_some()
    }

    /// A block under `key`, checked against `proof` where the hash is not cryptographic.
    #[inline]
    pub fn find(&self, pool: &Pool, key: Key, proof: Option<Proof<'_>>) -> KeyMatch {
        match self.table.find(pool, key) {
            None => KeyMatch::Nothing,
            Some(block) => match (&self.verify, proof) {
                (Some(witness), Some(proof)) if !witness.vouches(block, proof) => {
                    KeyMatch::Collision
                }
                _ => KeyMatch::Block(block),
            },
        }
    }

    /// Makes `blocks` findable under `keys` in the common case: nothing is findable under them, and the
    /// index keeps no tokens. The pool's columns hold the keys already. Stops at the first block that is
    /// another case, and returns how many it stored.
    pub fn store_plain(&mut self, pool: &Pool, blocks: &[BlockId], keys: &[Key]) -> usize {
        if self.wants_proof() || self.ages.is_some() {
            return 0;
        }
        let stored = self.table.enter_all(pool, blocks, keys);
        if let Some(mirror) = &mut self.mirror {
            blocks[..stored].iter().for_each(|&block| mirror.touch(block));
        }
        stored
    }

    /// Makes `block` findable under `key`, beside a copy that is there already. The pool's
    /// column has to say `key` by the next call.
    #[inline]
    pub fn store(
        &mut self,
        pool: &Pool,
        block: BlockId,
        key: Key,
        proof: Option<Proof<'_>>,
    ) -> KeyMatch {
        if let Some(ages) = &mut self.ages {
            ages.came(block);
        }
        let found = match self.table.enter(pool, key, block) {
            None => KeyMatch::Nothing,
            Some(first) => {
                if let (Some(witness), Some(proof)) = (&self.verify, proof)
                    && !witness.vouches(first, proof)
                {
                    return KeyMatch::Collision;
                }
                let place = |block| Ages::place(self.ages.as_deref(), block);
                let copies = self.copies.entry(key).or_default();
                copies.extend([place(first), place(block)]);
                self.more += 1;
                if place(block) < place(first) {
                    self.table.replace(pool, key, block);
                }
                KeyMatch::Block(first)
            }
        };
        if let (Some(witness), Some(proof)) = (&mut self.verify, proof) {
            witness.keep(block, proof);
        }
        if let Some(mirror) = &mut self.mirror {
            mirror.touch(block);
        }
        found
    }

    /// Whether `block` is what is found under its key.
    #[inline]
    pub fn holds(&self, pool: &Pool, block: BlockId) -> bool {
        self.table.holds(pool.key(block), block)
    }

    /// Takes `block` out. False if it was not there.
    #[inline]
    pub fn remove(&mut self, pool: &Pool, block: BlockId) -> bool {
        if let Some(mirror) = &mut self.mirror {
            mirror.touch(block);
        }
        let key = pool.key(block);
        if self.more > 0 && pool.is_duplicated(block) && self.copies.contains_key(&key) {
            return self.remove_copy(pool, block, key);
        }
        self.table.remove(key, block)
    }

    /// Takes `block` out, one of several copies.
    #[cold]
    fn remove_copy(&mut self, pool: &Pool, block: BlockId, key: Key) -> bool {
        let Some(copies) = self.copies.get_mut(&key) else { return false };
        if !copies.remove(&Ages::place(self.ages.as_deref(), block)) {
            return false;
        }
        self.more -= 1;
        if let Some(&(_, first)) = copies.first() {
            self.table.replace(pool, key, first);
        }
        if copies.len() == 1 {
            self.copies.remove(&key);
        }
        true
    }

    /// Keeps what changes, from now on.
    pub fn mirror(&mut self) {
        self.mirror = Some(Box::default());
    }

    /// What changed since the last call.
    pub fn take_changes(&mut self, pool: &Pool) -> Changes {
        let findable = |b| matches!(pool.state(b), State::Committed | State::Cached);
        self.mirror.as_mut().map(|mirror| mirror.take(pool, findable)).unwrap_or_default()
    }

    /// Whether `block`, which has the key, holds what the proof says too.
    pub fn vouches(&self, block: BlockId, proof: Option<Proof<'_>>) -> bool {
        match (&self.verify, proof) {
            (Some(witness), Some(proof)) => witness.vouches(block, proof),
            _ => true,
        }
    }

    /// Another findable block under `block`'s key, the first of several.
    pub fn other_copy(&self, pool: &Pool, block: BlockId) -> Option<BlockId> {
        let copies = self.copies.get(&pool.key(block))?;
        copies.iter().map(|&(_, copy)| copy).find(|&copy| copy != block)
    }

    /// Findable blocks.
    pub fn len(&self) -> usize {
        self.table.len() + self.more
    }

    /// Whether nothing is findable.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Every findable block, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let more =
            self.copies.values().flat_map(|copies| copies.iter().skip(1).map(|&(_, copy)| copy));
        self.table.blocks().chain(more)
    }
}

/// When blocks became findable.
#[derive(Debug, Default)]
struct Ages {
    next: u64,
    of: Vec<u64>,
}

impl Ages {
    fn came(&mut self, block: BlockId) {
        let at = block as usize;
        self.of.resize(self.of.len().max(at + 1), 0);
        self.of[at] = self.next;
        self.next += 1;
    }

    /// Where a block stands among the copies of its key: by age, or by its id.
    fn place(ages: Option<&Self>, block: BlockId) -> (u64, BlockId) {
        (ages.map_or(u64::from(block), |ages| ages.of[block as usize]), block)
    }
}

impl Witness {
    fn vouches(&self, block: BlockId, proof: Proof<'_>) -> bool {
        let (i, start) = (block as usize, block as usize * self.span);
        self.links.get(i) == Some(&proof.link)
            && self.tokens[start..start + proof.tokens.len()] == *proof.tokens
    }

    fn keep(&mut self, block: BlockId, proof: Proof<'_>) {
        let (i, start) = (block as usize, block as usize * self.span);
        if self.links.len() <= i {
            self.links.resize(i + 1, Key::default());
            self.tokens.resize((i + 1) * self.span, 0);
        }
        self.links[i] = proof.link;
        self.tokens[start..start + proof.tokens.len()].copy_from_slice(proof.tokens);
    }
}
