//! Blocks of an event are placed, each behind the one before, and make room for themselves.

use hashbrown::hash_table::Entry;

use super::holders::{BlockHolders, Holder};
use super::leaves::Leaf;
use super::nodes::{Node, Nodes, slot};

/// The block that the next one is placed behind.
#[derive(Debug, Clone, Copy)]
struct Tip {
    key: u64,
    /// Where it lay in the table when it was placed.
    bucket: usize,
    /// Whether it is queued where it is a leaf.
    queued: bool,
    /// Whether it counts the next block already.
    ahead: bool,
}

#[derive(Debug, Clone, Copy)]
enum Above {
    /// The next block begins a prompt, or its parent is not given.
    Root,
    Tip(Tip),
    /// The parent is not known, and there is no room for a block that no match can reach.
    Missing,
}

/// Where the blocks of an event have come to.
#[derive(Debug)]
pub(super) struct Chain {
    above: Above,
    /// A parent that no worker holds. It counts this chain as a child, so that it stays until the end.
    kept: Option<u64>,
}

impl Nodes {
    /// Blocks behind `parent` follow.
    pub fn begin(&mut self, parent: Option<u64>) -> Chain {
        let Some(key) = parent else { return Chain { above: Above::Root, kept: None } };
        let (now, room) = (self.now, self.table.len() + 2 <= self.capacity);
        let (bucket, kept) = match self.entry(key) {
            Entry::Occupied(mut known) => {
                let node = known.get_mut();
                node.used = now;
                let kept = node.held.is_empty().then_some(key);
                node.children += u32::from(kept.is_some());
                (known.bucket_index(), kept)
            }
            Entry::Vacant(free) if room => {
                let held = BlockHolders::NONE;
                let node = Node { key, parent: 0, held, used: now, children: 1 };
                (free.insert(node).bucket_index(), Some(key))
            }
            Entry::Vacant(_) => return Chain { above: Above::Missing, kept: None },
        };
        Chain { above: Above::Tip(Tip { key, bucket, queued: true, ahead: false }), kept }
    }

    /// A worker holds the next blocks. Returns how many of `keys` have a place: all of them, unless the
    /// only room left is that of their own chain.
    pub fn place_all(&mut self, chain: &mut Chain, keys: &[u64], holder: Holder) -> usize {
        let mut at = 0;
        loop {
            let (new, known) = self.place_new(chain, &keys[at..], holder);
            at += new;
            if let Some(bucket) = known {
                self.place_known(chain, keys[at], bucket, holder);
                at += 1;
            } else if at == keys.len() || !self.make_room(chain) {
                return at;
            }
        }
    }

    /// Blocks at the front of `keys` that are new and find room; where the next one is if it is known.
    #[inline]
    fn place_new(
        &mut self,
        chain: &mut Chain,
        keys: &[u64],
        holder: Holder,
    ) -> (usize, Option<usize>) {
        let (now, before) = (self.now, chain.tip());
        let mut held = BlockHolders::by(holder);
        held.linked = before.is_some();
        let (mut parent, mut last, mut known) = (before.unwrap_or(0), None, None);
        let mut room = match chain.above {
            Above::Missing => 0,
            Above::Root | Above::Tip(_) => self.capacity.saturating_sub(self.table.len()),
        };
        for (i, &key) in keys.iter().enumerate() {
            let children = u32::from(i + 1 < keys.len());
            match self.entry(key) {
                Entry::Vacant(_) if room == 0 => break,
                Entry::Vacant(free) => {
                    let node = Node { key, parent, held, used: now, children };
                    last = Some((i, free.insert(node).bucket_index()));
                }
                Entry::Occupied(there) => {
                    known = Some(there.bucket_index());
                    break;
                }
            }
            held.linked = true;
            parent = key;
            room -= 1;
        }
        let Some((i, bucket)) = last else { return (0, known) };
        self.live += i + 1;
        if let Above::Tip(tip) = chain.above
            && !tip.ahead
            && let Some(above) = self.at(tip)
        {
            above.children += 1;
        }
        let (key, ahead) = (keys[i], i + 1 < keys.len());
        chain.above = Above::Tip(Tip { key, bucket, queued: false, ahead });
        (i + 1, known)
    }

    /// A worker holds the next block; false if there is no room for it but its own chain's. `more`: one
    /// more follows, which is likely to be new, too.
    #[inline]
    pub fn place(&mut self, chain: &mut Chain, key: u64, holder: Holder, more: bool) -> bool {
        if self.table.len() >= self.capacity || matches!(chain.above, Above::Missing) {
            return self.place_in_full(chain, key, holder, more);
        }
        let node = chain.node(key, holder, self.now, more);
        match self.entry(key) {
            Entry::Occupied(known) => {
                let bucket = known.bucket_index();
                self.place_known(chain, key, bucket, holder);
            }
            Entry::Vacant(free) => {
                let bucket = free.insert(node).bucket_index();
                self.placed(chain, Tip { key, bucket, queued: false, ahead: more });
            }
        }
        true
    }

    fn place_in_full(&mut self, chain: &mut Chain, key: u64, holder: Holder, more: bool) -> bool {
        let hash = slot(key);
        if let Some(bucket) = self.table.find_bucket_index(hash, |node| node.key == key) {
            self.place_known(chain, key, bucket, holder);
            return true;
        }
        if !self.make_room(chain) {
            return false;
        }
        let node = chain.node(key, holder, self.now, more);
        let bucket = self.table.insert_unique(hash, node, |node| slot(node.key)).bucket_index();
        self.placed(chain, Tip { key, bucket, queued: false, ahead: more });
        true
    }

    /// A new block is there.
    #[inline]
    fn placed(&mut self, chain: &mut Chain, new: Tip) {
        self.live += 1;
        if let Above::Tip(tip) = chain.above
            && !tip.ahead
            && let Some(above) = self.at(tip)
        {
            above.children += 1;
        }
        chain.above = Above::Tip(new);
    }

    fn place_known(&mut self, chain: &mut Chain, key: u64, bucket: usize, holder: Holder) {
        let now = self.now;
        let Some(node) = self.table.get_bucket_mut(bucket) else { return };
        node.used = now;
        if node.held.is_empty() {
            node.held.set(holder);
            self.live += 1;
        } else {
            self.crowds.add(&mut node.held, holder);
        }
        // An event may name its own parent: a block with a holder needs no chain to keep it.
        let kept = chain.kept.take_if(|kept| *kept == key).is_some();
        node.children -= u32::from(kept);
        let loose = !node.held.linked;
        if let Above::Tip(tip) = chain.above {
            if loose && !self.is_above(key, tip.key) {
                if let Some(node) = self.table.get_bucket_mut(bucket) {
                    (node.parent, node.held.linked) = (tip.key, true);
                }
                if let Some(above) = self.at(tip) {
                    above.children += 1;
                }
            }
            if !tip.queued {
                self.settle(tip);
            }
        }
        chain.above = Above::Tip(Tip { key, bucket, queued: !kept, ahead: false });
    }

    /// No more blocks follow.
    pub fn end(&mut self, chain: &Chain) {
        if let Above::Tip(tip) = chain.above
            && !tip.queued
        {
            self.settle(tip);
        }
        if let Some(key) = chain.kept {
            self.let_go(key, 0);
        }
    }

    /// Whether a block is another, or comes before it.
    pub fn is_above(&self, key: u64, below: u64) -> bool {
        let mut at = Some(below);
        while let Some(one) = at {
            if one == key {
                return true;
            }
            let node = self.find(one);
            at = node.and_then(|node| node.held.linked.then_some(node.parent));
        }
        false
    }

    #[inline]
    fn at(&mut self, tip: Tip) -> Option<&mut Node> {
        // A table that grew since has it elsewhere.
        if self.table.get_bucket(tip.bucket).is_some_and(|node| node.key == tip.key) {
            return self.table.get_bucket_mut(tip.bucket);
        }
        self.table.find_mut(slot(tip.key), |node| node.key == tip.key)
    }

    /// A new block behind which no new one was placed: it is queued if that makes it a leaf.
    fn settle(&mut self, tip: Tip) {
        if let Some(node) = self.at(tip) {
            node.children -= u32::from(tip.ahead);
            if node.children == 0 {
                let leaf = Leaf { used: node.used, key: node.key, bucket: tip.bucket as u32 };
                self.leaves.push(leaf);
            }
        }
    }

    /// Room for one more block, at the cost of leaves other than the one that it goes behind.
    fn make_room(&mut self, chain: &Chain) -> bool {
        if matches!(chain.above, Above::Missing) {
            return false;
        }
        while self.table.len() >= self.capacity {
            if !self.drop_one(chain.tip()) {
                return false;
            }
        }
        true
    }

    /// The leaf that was used least lately is forgotten for all workers; false if there is none but
    /// `spared`.
    fn drop_one(&mut self, spared: Option<u64>) -> bool {
        let mut kept = None;
        let dropped = loop {
            let Some(leaf) = self.leaves.pop() else { break false };
            let Leaf { used, key, bucket } = leaf;
            let known = match self.table.get_bucket_entry(bucket as usize) {
                Ok(known) if known.get().key == key => Ok(known),
                _ => self.table.find_entry(slot(key), |node| node.key == key),
            };
            let Ok(known) = known else { continue };
            let node = known.get();
            if node.children > 0 {
                continue;
            }
            if node.used > used {
                self.leaves.push(Leaf { used: node.used, ..leaf });
            } else if spared == Some(key) {
                kept = Some(leaf);
            } else {
                let (node, _) = known.remove();
                self.crowds.release(node.held);
                self.live -= 1;
                self.dropped += 1;
                self.unlink(&node);
                break true;
            }
        };
        if let Some(leaf) = kept {
            self.leaves.push(leaf);
        }
        dropped
    }
}

impl Chain {
    /// A block that is new behind this chain.
    #[inline]
    fn node(&self, key: u64, holder: Holder, now: u32, more: bool) -> Node {
        let mut held = BlockHolders::by(holder);
        held.linked = matches!(self.above, Above::Tip(_));
        Node { key, parent: self.tip().unwrap_or(0), held, used: now, children: u32::from(more) }
    }

    pub fn tip(&self) -> Option<u64> {
        match self.above {
            Above::Tip(tip) => Some(tip.key),
            Above::Root | Above::Missing => None,
        }
    }
}
