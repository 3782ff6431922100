//! Blocks offered to a policy outside the core, and how its answer becomes an order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::policy::{BlockRow, Choice, Facts};
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
    /// For each, how many of its findable children are offered (all of them: it is evicted after).
    pub children: Vec<u32>,
    /// What is known of each.
    pub facts: Facts,
    /// Retention priorities, if any block has its own: the lower is evicted first, whatever a policy says.
    pub buckets: Vec<u8>,
}

impl Candidates {
    /// What is known of the blocks that are offered, all at once.
    pub(crate) fn describe(&mut self, pool: &Pool, rows: &[BlockRow]) {
        let blocks = self.blocks.iter();
        self.generations.extend(blocks.clone().map(|&block| pool.generation(block)));
        if pool.has_priorities() {
            self.buckets.extend(blocks.map(|&block| pool.priority(block)));
        }
        self.facts.gather(&self.blocks, pool, rows);
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.generations.clear();
        self.parents.clear();
        self.children.clear();
        self.facts.clear();
        self.buckets.clear();
    }

    /// Whether each has a score.
    ///
    /// # Errors
    /// One line that names the first block that has none.
    pub fn check_scores(&self, scores: &[f64]) -> Result<(), String> {
        // All of them first: that is a few vector instructions, and there is hardly ever one.
        if !scores.iter().fold(false, |any, score| any | score.is_nan()) {
            return Ok(());
        }
        let unset = scores.iter().zip(&self.blocks).enumerate().find(|(_, (s, _))| s.is_nan());
        unset.map_or(Ok(()), |(i, (_, block))| {
            Err(format!("score {i} of {} (block {block}) is NaN or unset", scores.len()))
        })
    }

    /// The `n` lowest by `scores`, every child before its parent, ties in the order offered.
    /// Scores must not be NaN.
    pub fn lowest(&self, scores: &[f64], n: usize) -> Vec<u32> {
        if self.buckets.is_empty() {
            return self.lowest_by(n, |i| bits(scores[i]));
        }
        self.lowest_by(n, |i| (self.buckets[i], bits(scores[i])))
    }

    fn lowest_by<K: Ord>(&self, n: usize, key: impl Fn(usize) -> K) -> Vec<u32> {
        let mut waiting = self.children.clone();
        let leaves = waiting.iter().enumerate().filter(|&(_, &children)| children == 0);
        let mut heap: BinaryHeap<_> = leaves.map(|(i, _)| Reverse((key(i), i as u32))).collect();
        let mut chosen = Vec::with_capacity(n);
        let mut next = heap.pop();
        while chosen.len() < n
            && let Some(Reverse((_, place))) = next
        {
            chosen.push(place);
            next = self.freed(place, &mut waiting).map(|parent| {
                let parent = Reverse((key(parent as usize), parent));
                // A prefix mostly is evicted as a whole: nothing goes through the heap then.
                let waits = heap.peek().is_some_and(|first| *first > parent);
                match waits.then(|| heap.peek_mut()).flatten() {
                    Some(mut first) => std::mem::replace(&mut *first, parent),
                    None => parent,
                }
            });
            if next.is_none() {
                next = heap.pop();
            }
        }
        chosen
    }

    /// What the block at `place` follows, if that waits for nothing else.
    fn freed(&self, place: u32, waiting: &mut [u32]) -> Option<u32> {
        let parent = self.parents[place as usize];
        let waits = waiting.get_mut(parent as usize)?;
        *waits -= 1;
        (*waits == 0).then_some(parent)
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

    /// The blocks at these places, as the core takes them.
    pub fn choice(&self, places: &[u32]) -> Choice {
        let places = places.iter().map(|&place| place as usize);
        Choice {
            blocks: places.clone().map(|place| self.blocks[place]).collect(),
            generations: places.map(|place| self.generations[place]).collect(),
        }
    }

    /// As many as `chosen`, lower priorities first, and each priority's as they were chosen.
    fn by_band(&self, chosen: Vec<u32>) -> Vec<u32> {
        if self.buckets.windows(2).all(|pair| pair[0] == pair[1]) {
            return chosen;
        }
        let mut scores = vec![f64::INFINITY; self.blocks.len()];
        for (&place, turn) in chosen.iter().zip(0_u32..) {
            scores[place as usize] = f64::from(turn);
        }
        self.lowest(&scores, chosen.len())
    }
}

/// The integer in the order of `f64::total_cmp`, which would do this at each comparison.
fn bits(score: f64) -> i64 {
    let bits = score.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}
