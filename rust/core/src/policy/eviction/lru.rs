//! Least recently used: cached blocks in the order their last owner left.
//!
//! A request's blocks are released tail first, so the order is leaf-first by itself. Linked by
//! index: acquire, release and eviction are O(1) at every size. Once any block has a retention priority
//! of its own, the list becomes a heap of leaves.

use std::collections::{HashMap, HashSet};

use crate::policy::{Access, Eviction, PriorityBuckets, RemovalCause, View};
use crate::pool::{BlockId, NIL, Pool, State};

/// The order: a list from the next to be evicted to the last used. A block is in it exactly while it is
/// cached, so its links need no mark of their own and mean nothing at other times.
#[derive(Debug)]
pub struct Lru {
    links: Vec<Links>,
    head: BlockId,
    tail: BlockId,
    len: u32,
    /// Blocks of the pool.
    pool: u32,
    /// In place of the list, once priorities differ.
    buckets: Option<Box<PriorityBuckets>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Links {
    /// Is evicted before it.
    before: BlockId,
    /// Is evicted after it.
    after: BlockId,
}

const ALONE: Links = Links { before: NIL, after: NIL };

impl Default for Lru {
    fn default() -> Self {
        Self { links: Vec::new(), head: NIL, tail: NIL, len: 0, pool: 0, buckets: None }
    }
}

impl Lru {
    /// Joins what lies around a run that leaves.
    #[inline]
    fn join(&mut self, before: BlockId, after: BlockId) {
        match before {
            NIL => self.head = after,
            b => self.links[b as usize].after = after,
        }
        match after {
            NIL => self.tail = before,
            b => self.links[b as usize].before = before,
        }
    }

    fn unlink(&mut self, block: BlockId) {
        let Links { before, after } = self.links[block as usize];
        self.join(before, after);
        self.len -= 1;
    }

    /// The next to be evicted. A prefix is released whole and tail first, so the head is a leaf; only where a
    /// superfluous copy has moved its twin up may others have to be passed.
    fn first(&self, pool: &Pool) -> Option<BlockId> {
        if self.head != NIL && pool.is_evictable(self.head) {
            return Some(self.head);
        }
        self.iter().find(|&b| pool.is_evictable(b))
    }

    /// The first `most` of the list, each block after all that follow it: one that had to be passed goes as soon
    /// as they are gone.
    fn leaves_first(&self, pool: &Pool, most: usize) -> Vec<BlockId> {
        if self.iter().take(most).all(|block| pool.children(block) == 0) {
            return self.iter().take(most).collect();
        }
        let mut order = Vec::with_capacity(most.min(self.len as usize));
        let mut passed = HashSet::new();
        let mut gone: HashMap<BlockId, u32> = HashMap::new();
        for block in self.iter() {
            if order.len() >= most {
                break;
            }
            passed.insert(block);
            let mut next = block;
            while passed.contains(&next)
                && gone.get(&next).copied().unwrap_or_default() == pool.children(next)
            {
                order.push(next);
                next = pool.parent(next);
                *gone.entry(next).or_default() += 1;
            }
        }
        order.truncate(most);
        order
    }

    /// The heap, once priorities differ.
    pub(crate) fn buckets(&self) -> Option<&PriorityBuckets> {
        self.buckets.as_deref()
    }

    /// The heap, made of the list where there was one.
    #[cold]
    fn banded(&mut self, pool: &Pool) -> &mut PriorityBuckets {
        if self.buckets.is_none() {
            let mut buckets = Box::<PriorityBuckets>::default();
            self.iter().for_each(|block| buckets.release(&[block], pool));
            *self = Self { buckets: Some(buckets), ..Self::default() };
        }
        self.buckets.get_or_insert_default()
    }

    /// Links for so many blocks; with room for as many again, and for no more than the pool has.
    #[inline]
    fn grow(&mut self, wanted: usize) {
        let len = self.links.len();
        if wanted <= len {
            return;
        }
        if wanted > self.links.capacity() {
            let most = (self.pool as usize).max(wanted);
            self.links.reserve_exact(wanted.max(2 * len).min(most) - len);
        }
        self.links.resize(wanted, ALONE);
    }

    /// The next to be evicted, while there is a list; [`NIL`] if it is empty.
    pub(crate) fn head(&self) -> BlockId {
        self.head
    }

    /// What comes after a block of the list, or [`NIL`].
    #[inline]
    pub(crate) fn after(&self, block: BlockId) -> BlockId {
        self.links[block as usize].after
    }

    /// The list, while there is one.
    fn iter(&self) -> impl Iterator<Item = BlockId> + '_ {
        let some = |block| Some(block).filter(|&block| block != NIL);
        std::iter::successors(some(self.head), move |&block| some(self.after(block)))
    }
}

impl Eviction for Lru {
    fn name(&self) -> &'static str {
        "lru"
    }

    fn size(&mut self, blocks: u32, _: u32) -> Result<(), String> {
        self.pool = blocks;
        Ok(())
    }

    fn insert(&mut self, _: &[BlockId], _: Access<'_>, _: View<'_>) {}

    fn hit(&mut self, _: &[BlockId], _: Access<'_>, _: View<'_>) {}

    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>) {
        debug_assert!(blocks.iter().all(|&b| view.pool.state(b) == State::Committed));
        if let Some(buckets) = &mut self.buckets {
            for &block in blocks {
                buckets.remove(block);
            }
            return;
        }
        self.len -= blocks.len() as u32;
        let mut rest = blocks;
        while let Some(&root) = rest.first() {
            // A prefix was released tail first: its blocks stand in a row, and leave as one.
            let links = &self.links[..];
            let in_row = |pair: &&[BlockId]| links[pair[0] as usize].before == pair[1];
            let row = 1 + rest.windows(2).take_while(in_row).count();
            let (leaf, after) = (rest[row - 1], links[root as usize].after);
            self.join(links[leaf as usize].before, after);
            rest = &rest[row..];
        }
    }

    fn release(&mut self, blocks: &[BlockId], view: View<'_>) {
        if view.pool.has_priorities() {
            return self.banded(view.pool).release(blocks, view.pool);
        }
        let Some((&root, below)) = blocks.split_first() else { return };
        self.grow(view.pool.created() as usize);
        let (links, mut after, mut leaf) = (&mut self.links[..], NIL, root);
        for &block in below {
            links[leaf as usize] = Links { before: block, after };
            (after, leaf) = (leaf, block);
        }
        links[leaf as usize] = Links { before: self.tail, after };
        match self.tail {
            NIL => self.head = leaf,
            tail => self.links[tail as usize].after = leaf,
        }
        self.tail = root;
        self.len += blocks.len() as u32;
    }

    fn on_evictable(&mut self, block: BlockId, view: View<'_>) {
        if let Some(buckets) = &mut self.buckets {
            buckets.on_evictable(block, view.pool);
        }
    }

    fn keeps_places(&self) -> bool {
        false
    }

    fn priority_changed(&mut self, block: BlockId, view: View<'_>) {
        self.banded(view.pool).priority_changed(block, view.pool);
    }

    fn remove(&mut self, block: BlockId, _: RemovalCause, view: View<'_>) {
        if let Some(buckets) = &mut self.buckets {
            buckets.remove(block);
            return;
        }
        // One that still has owners was not in the list.
        if view.pool.refs(block) == 0 {
            self.unlink(block);
        }
    }

    fn victim(&mut self, view: View<'_>) -> Option<BlockId> {
        if let Some(buckets) = &self.buckets {
            return buckets.first();
        }
        self.first(view.pool)
    }

    fn next(&self, view: View<'_>) -> Option<BlockId> {
        if let Some(buckets) = &self.buckets {
            return buckets.first();
        }
        self.first(view.pool)
    }

    fn upcoming(&self, n: usize, _: View<'_>, blocks: &mut Vec<BlockId>) {
        blocks.extend(self.iter().take(n));
    }

    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId> {
        match &self.buckets {
            None => self.leaves_first(view.pool, most),
            Some(buckets) => buckets.descent(view.pool).take(most).collect(),
        }
    }

    fn validate(&self, pool: &Pool) -> Result<(), String> {
        if let Some(buckets) = &self.buckets {
            let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
            return match buckets.validate(pool) {
                Ok(()) if buckets.len() == leaves => Ok(()),
                Ok(()) => {
                    Err(format!("lru: {} in the heap, {leaves} may be evicted", buckets.len()))
                }
                Err(fault) => Err(format!("lru: {fault}")),
            };
        }
        let mut seen = 0;
        let mut before = NIL;
        for block in self.iter() {
            if self.links[block as usize].before != before {
                return Err(format!("lru: block {block} does not point back to {before}"));
            }
            if pool.state(block) != State::Cached {
                return Err(format!("lru: block {block} is {}", pool.state(block).name()));
            }
            before = block;
            seen += 1;
        }
        if seen != self.len || seen != pool.cached() || self.tail != before {
            return Err(format!(
                "lru: {seen} blocks linked, {} counted, {} cached",
                self.len,
                pool.cached()
            ));
        }
        Ok(())
    }
}
