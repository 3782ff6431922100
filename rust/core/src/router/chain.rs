//! Places the blocks of an event, each behind the one before it, and makes room for them.

use super::holders::{BlockHolders, Holder};
use super::leaves::Leaf;
use super::nodes::{NONE, Node, Nodes};
use super::places::Row;

/// The block that the next one is placed behind.
#[derive(Debug, Clone, Copy)]
struct Tip {
    row: Row,
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
    kept: Option<Row>,
}

impl Nodes {
    /// Blocks behind `parent` follow.
    pub fn begin(&mut self, parent: Option<u64>) -> Chain {
        let Some(key) = parent else { return Chain { above: Above::Root, kept: None } };
        let now = self.now();
        let (row, kept) = if let Some(row) = self.find(key) {
            self.touch(row, now);
            let kept = self.held[row as usize].is_empty();
            *self.children(row) += u32::from(kept);
            (row, kept)
        } else if self.rows() + 2 <= self.capacity {
            let node = Node { key, held: BlockHolders::NONE, parent: NONE, children: 1 };
            (self.insert(node, now), true)
        } else {
            return Chain { above: Above::Missing, kept: None };
        };
        Chain {
            above: Above::Tip(Tip { row, queued: true, ahead: false }),
            kept: kept.then_some(row),
        }
    }

    /// A worker holds the next blocks. Returns how many of `keys` have a place: all of them, unless the
    /// only room left is that of their own chain.
    pub fn place_all(&mut self, chain: &mut Chain, keys: &[u64], holder: Holder) -> usize {
        let (mut at, mut warm) = (0, 0_usize);
        loop {
            // A prompt that another worker has mostly stands in one row after the other.
            while let Some((tip, &key)) = chain.tip().zip(keys.get(at))
                && let Some(row) = self.next_to(tip, key)
            {
                self.place_known(chain, row, holder);
                at += 1;
            }
            let ahead = warm.saturating_sub(at);
            let (new, known, read) = self.place_new(chain, &keys[at..], holder, ahead);
            warm = at + read;
            at += new;
            if let Some(row) = known {
                self.place_known(chain, row, holder);
                at += 1;
            } else if at == keys.len() || !self.make_room(chain) {
                return at;
            }
        }
    }

    /// Blocks at the front of `keys` that are new and find room; where the next one is if it is known; and
    /// of how many the lookups are begun, which they are of `warm` before.
    #[inline]
    fn place_new(
        &mut self,
        chain: &mut Chain,
        keys: &[u64],
        holder: Holder,
        mut warm: usize,
    ) -> (usize, Option<Row>, usize) {
        let (now, held) = (self.now(), BlockHolders::by(holder));
        let (mut parent, mut known, mut new) = (chain.tip().unwrap_or(NONE), None, 0);
        let room = match chain.above {
            Above::Missing => 0,
            Above::Root | Above::Tip(_) => self.capacity.saturating_sub(self.rows()),
        };
        let mut above = NONE;
        for &key in &keys[..keys.len().min(room.saturating_add(1))] {
            if new == warm {
                warm += self.warm(&keys[new..]);
            }
            known = self.find(key);
            if known.is_some() || new == room {
                break;
            }
            if let Some(row) = self.append(key) {
                above = if row as usize == self.filled() { parent } else { above };
                parent = row;
            } else {
                parent = self.insert(Node { key, held, parent, children: 1 }, now);
            }
            new += 1;
        }
        if new > 0 {
            self.fill(held, above, now);
            *self.children(parent) = u32::from(new < keys.len());
            self.live += new;
            self.count_in(chain);
            let ahead = new < keys.len();
            chain.above = Above::Tip(Tip { row: parent, queued: false, ahead });
        }
        (new, known, warm)
    }

    /// Places the next block, which a worker holds. Returns false if the only room for it is that of its own
    /// chain. `more` says that another block follows, which is probably new as well.
    #[inline]
    pub fn place(&mut self, chain: &mut Chain, key: u64, holder: Holder, more: bool) -> bool {
        if let Some(row) = self.find(key) {
            self.place_known(chain, row, holder);
            return true;
        }
        if !self.make_room(chain) {
            return false;
        }
        let (held, parent) = (BlockHolders::by(holder), chain.tip().unwrap_or(NONE));
        let row = self.insert(Node { key, held, parent, children: u32::from(more) }, self.now());
        self.live += 1;
        self.count_in(chain);
        chain.above = Above::Tip(Tip { row, queued: false, ahead: more });
        true
    }

    /// A new block stands behind the last one of the chain.
    #[inline]
    fn count_in(&mut self, chain: &Chain) {
        if let Above::Tip(tip) = chain.above
            && !tip.ahead
        {
            *self.children(tip.row) += 1;
        }
    }

    fn place_known(&mut self, chain: &mut Chain, row: Row, holder: Holder) {
        self.touch(row, self.now());
        let held = &mut self.held[row as usize];
        self.live += usize::from(held.is_empty());
        self.crowds.add(held, holder);
        // An event may name its own parent: a block with a holder needs no chain to keep it.
        let kept = chain.kept.take_if(|kept| *kept == row).is_some();
        *self.children(row) -= u32::from(kept);
        if let Above::Tip(tip) = chain.above {
            if self.parents[row as usize] == NONE && !self.is_above(row, tip.row) {
                self.parents[row as usize] = tip.row;
                *self.children(tip.row) += 1;
            }
            if !tip.queued {
                self.settle(tip);
            }
        }
        chain.above = Above::Tip(Tip { row, queued: !kept, ahead: false });
    }

    /// No more blocks follow.
    pub fn end(&mut self, chain: &Chain) {
        if let Above::Tip(tip) = chain.above
            && !tip.queued
        {
            self.settle(tip);
        }
        if let Some(row) = chain.kept {
            self.let_go(row);
        }
    }

    /// Whether a block is another, or comes before it.
    pub fn is_above(&self, row: Row, below: Row) -> bool {
        let mut at = below;
        while at != NONE {
            if at == row {
                return true;
            }
            at = self.parents[at as usize];
        }
        false
    }

    /// A new block behind which no new one was placed: it is queued if that makes it a leaf.
    fn settle(&mut self, tip: Tip) {
        let children = self.children(tip.row);
        *children -= u32::from(tip.ahead);
        if *children == 0 {
            let (used, key) = (self.used(tip.row), self.keys[tip.row as usize]);
            self.leaves.push(Leaf { used, key, row: tip.row });
        }
    }

    /// Room for one more block, at the cost of leaves other than the one that it goes behind.
    fn make_room(&mut self, chain: &Chain) -> bool {
        if matches!(chain.above, Above::Missing) {
            return false;
        }
        while self.rows() >= self.capacity {
            if !self.drop_one(chain.tip()) {
                return false;
            }
        }
        true
    }

    /// Forgets the least recently used leaf for all workers. Returns false if there is no leaf except
    /// `spared`.
    fn drop_one(&mut self, spared: Option<Row>) -> bool {
        let mut kept = None;
        let dropped = loop {
            let Some(leaf) = self.leaves.pop() else { break false };
            let Leaf { used, key, row } = leaf;
            // Its row may be another block's by now, or no block's.
            let here = (row as usize) < self.keys.len() && self.keys[row as usize] == key;
            if !here || *self.children(row) > 0 {
                continue;
            }
            if self.used(row) > used {
                self.leaves.push(Leaf { used: self.used(row), ..leaf });
            } else if spared == Some(row) {
                kept = Some(leaf);
            } else {
                self.take_out(row);
                self.live -= 1;
                self.dropped += 1;
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
    /// The block that the next one goes behind.
    pub fn tip(&self) -> Option<Row> {
        match self.above {
            Above::Tip(tip) => Some(tip.row),
            Above::Root | Above::Missing => None,
        }
    }
}
