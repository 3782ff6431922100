//! Blocks offered to a policy outside the core, and how its answer becomes an order.

use std::collections::{BinaryHeap, HashMap};

use super::Row;
use crate::pool::{BlockId, NIL, Pool};

/// Blocks offered to a policy, in the built-in (least recently used) order, children first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Ids.
    pub blocks: Vec<BlockId>,
    /// Generations, so that a late answer cannot name a block's next life.
    pub generations: Vec<u32>,
    /// For each, the place in `blocks` of its parent, or [`NIL`] if that is not offered.
    pub parents: Vec<u32>,
    /// For each, how many of its findable children are offered (all of them: it dies after).
    pub children: Vec<u32>,
    /// What is kept of each.
    pub rows: Vec<Row>,
    /// Place in the prefix.
    pub depths: Vec<u32>,
    /// Retention priorities: the lower dies first, whatever a policy says.
    pub bands: Vec<u8>,
}

impl Candidates {
    /// `parent` is a block's id until all are there, then its place.
    pub(super) fn push(
        &mut self,
        pool: &Pool,
        block: BlockId,
        parent: BlockId,
        children: u32,
        row: Row,
    ) {
        self.blocks.push(block);
        self.generations.push(pool.generation(block));
        self.parents.push(parent);
        self.children.push(children);
        self.rows.push(row);
        self.depths.push(pool.depth(block));
        self.bands.push(pool.priority(block));
    }

    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.generations.clear();
        self.parents.clear();
        self.children.clear();
        self.rows.clear();
        self.depths.clear();
        self.bands.clear();
    }

    /// The `n` lowest by `scores`, every child before its parent, ties in the order offered.
    /// Scores must not be NaN.
    pub fn lowest(&self, scores: &[f64], n: usize) -> Vec<u32> {
        let mut waiting = self.children.clone();
        let mut heap: BinaryHeap<Pick> = (0..self.blocks.len())
            .filter(|&i| waiting[i] == 0)
            .map(|i| Pick { band: self.bands[i], score: scores[i], place: i as u32 })
            .collect();
        let mut chosen = Vec::with_capacity(n);
        while chosen.len() < n
            && let Some(Pick { place, .. }) = heap.pop()
        {
            chosen.push(place);
            let parent = self.parents[place as usize];
            if parent != NIL {
                waiting[parent as usize] -= 1;
                if waiting[parent as usize] == 0 {
                    let (band, score) = (self.bands[parent as usize], scores[parent as usize]);
                    heap.push(Pick { band, score, place: parent });
                }
            }
        }
        chosen
    }

    /// The places of `blocks`, if each is offered, named once and after its children; where retention
    /// priorities differ, as many in the order that these want, which then goes before the one named.
    ///
    /// # Errors
    /// One line that names the block and what is wrong with it.
    pub fn check(&self, blocks: &[BlockId]) -> Result<Vec<u32>, String> {
        let places: HashMap<BlockId, u32> =
            self.blocks.iter().enumerate().map(|(i, &b)| (b, i as u32)).collect();
        let mut waiting = self.children.clone();
        let mut taken = vec![false; self.blocks.len()];
        let mut chosen = Vec::with_capacity(blocks.len());
        for &block in blocks {
            let Some(&place) = places.get(&block) else {
                return Err(format!("block {block} was not offered"));
            };
            if std::mem::replace(&mut taken[place as usize], true) {
                return Err(format!("block {block} is named twice"));
            }
            if waiting[place as usize] > 0 {
                return Err(format!("block {block} is named before a block that follows it"));
            }
            let parent = self.parents[place as usize];
            if parent != NIL {
                waiting[parent as usize] -= 1;
            }
            chosen.push(place);
        }
        Ok(self.by_band(chosen))
    }

    /// As many as `chosen`, lower priorities first, and each priority's as they were chosen.
    fn by_band(&self, chosen: Vec<u32>) -> Vec<u32> {
        if self.bands.windows(2).all(|pair| pair[0] == pair[1]) {
            return chosen;
        }
        let mut scores = vec![f64::INFINITY; self.blocks.len()];
        for (&place, turn) in chosen.iter().zip(0_u32..) {
            scores[place as usize] = f64::from(turn);
        }
        self.lowest(&scores, chosen.len())
    }
}

#[derive(Debug, PartialEq)]
struct Pick {
    band: u8,
    score: f64,
    place: u32,
}

impl Eq for Pick {}

impl PartialOrd for Pick {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pick {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Reversed: the heap's greatest is the lowest score, and of equals the first offered.
        let band = other.band.cmp(&self.band);
        band.then(other.score.total_cmp(&self.score)).then(other.place.cmp(&self.place))
    }
}
