//! ARC: recency and frequency share the cache by what their ghosts would have hit (Megiddo and
//! Modha, FAST 2003).

use super::classed::{Classes, Heads};
use super::ghosts::Ghosts;
use super::ranked::pack;
use super::{Touch, View, Why, grow};
use crate::hash::Key;
use crate::pool::BlockId;

const ONCE: usize = 0;
const OFTEN: usize = 1;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    class: u8,
    last: u64,
}

/// T1 and T2 are the blocks' classes, B1 and B2 the ghosts; `target` is what T1 should hold.
#[derive(Debug, Clone, Default)]
pub struct Arc {
    columns: Vec<Column>,
    sizes: [usize; 2],
    /// Whether the target was moved for a key already, at its admission.
    ghosts: [Ghosts<bool>; 2],
    target: f64,
    /// The block to come was in B2.
    from_often: bool,
}

impl Arc {
    /// The target follows the ghost list that `key` is in, once.
    fn adapt(&mut self, key: Key, capacity: f64) -> Option<usize> {
        let sizes = [self.ghosts[ONCE].len() as f64, self.ghosts[OFTEN].len() as f64];
        for list in [ONCE, OFTEN] {
            let Some(done) = self.ghosts[list].get_mut(key) else { continue };
            if !std::mem::replace(done, true) {
                let step = (sizes[1 - list] / sizes[list]).max(1.0);
                let signed = if list == ONCE { step } else { -step };
                self.target = (self.target + signed).clamp(0.0, capacity);
            }
            return Some(list);
        }
        None
    }
}

impl Classes for Arc {
    fn name(&self) -> &'static str {
        "arc"
    }

    fn insert(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        let (key, capacity) = (view.pool.key(block), f64::from(view.pool.usable()));
        let ghost = self.adapt(key, capacity);
        if let Some(list) = ghost {
            self.ghosts[list].forget(key);
        }
        let class = if ghost.is_some() { OFTEN } else { ONCE };
        grow(&mut self.columns, block, Column::default());
        self.columns[block as usize] = Column { class: class as u8, last: view.now };
        self.sizes[class] += 1;
    }

    fn hit(&mut self, block: BlockId, _: Touch<'_>, view: View<'_>) {
        let column = &mut self.columns[block as usize];
        self.sizes[column.class as usize] -= 1;
        self.sizes[OFTEN] += 1;
        *column = Column { class: OFTEN as u8, last: view.now };
    }

    fn release(&mut self, block: BlockId, view: View<'_>) {
        self.columns[block as usize].last = view.now;
    }

    fn class(&self, block: BlockId) -> usize {
        self.columns[block as usize].class as usize
    }

    fn rank(&self, block: BlockId, view: View<'_>) -> u128 {
        pack(0, self.columns[block as usize].last, view.pool.depth(block))
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        let once = self.sizes[ONCE] as f64;
        let over = once > self.target || (self.from_often && once >= self.target);
        heads.first_of(if over { &[ONCE, OFTEN] } else { &[OFTEN, ONCE] })
    }

    fn removed(&mut self, block: BlockId, why: Why, view: View<'_>) {
        let class = self.columns[block as usize].class as usize;
        self.sizes[class] -= 1;
        if why != Why::Evicted {
            return;
        }
        self.ghosts[class].add(view.pool.key(block), false);
        let capacity = view.pool.usable() as usize;
        self.ghosts[ONCE].trim(capacity.saturating_sub(self.sizes[ONCE]));
        self.ghosts[OFTEN].trim(
            (2 * capacity)
                .saturating_sub(self.sizes[ONCE] + self.sizes[OFTEN] + self.ghosts[ONCE].len()),
        );
    }

    fn missed(&mut self, key: Key, view: View<'_>) {
        self.from_often = self.adapt(key, f64::from(view.pool.usable())) == Some(OFTEN);
    }

    fn wants_missed(&self) -> bool {
        true
    }
}
