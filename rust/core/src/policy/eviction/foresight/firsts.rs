//! The first of each list, side by side: which of them is evicted next.

use super::ROOM;
use crate::pool::{BlockId, NIL};

/// The firsts of the lists of one retention priority, as they were when they came first; what one is
/// worth is looked up again in every epoch.
#[derive(Debug, Clone)]
pub(super) struct Firsts {
    /// The priority, while they are known.
    priority: Option<u8>,
    blocks: [BlockId; ROOM],
    times: [u64; ROOM],
    worth: [f64; ROOM],
    /// The class that the last victim was of.
    class: usize,
    /// All others are worth as much at the least, and were used as late at the earliest.
    others: (f64, u64),
    /// Of each two classes, of each two of these and so on, the one of least worth, and the one idle
    /// longest; `changed` has a bit for each class that they do not know yet.
    least: Tree,
    oldest: Tree,
    changed: u64,
}

/// Winners of a tournament: node 1 is the root, nodes 2n and 2n + 1 play for node n, and class c is
/// node `ROOM` + c.
type Tree = [u8; ROOM];

/// More of them than this are played anew from the leaves up.
const FEW: u32 = 8;

impl Default for Firsts {
    fn default() -> Self {
        Self {
            priority: None,
            blocks: [NIL; ROOM],
            times: [u64::MAX; ROOM],
            worth: [f64::INFINITY; ROOM],
            class: 0,
            others: (0.0, 0),
            least: [0; ROOM],
            oldest: [0; ROOM],
            changed: u64::MAX,
        }
    }
}

/// Who holds a node.
#[inline]
fn holder(tree: &Tree, node: usize) -> usize {
    if node < ROOM { tree[node] as usize % ROOM } else { node % ROOM }
}

impl Firsts {
    /// All are to be looked up again.
    pub fn forget(&mut self) {
        self.priority = None;
    }

    /// Whether those of this priority are to be looked up again, all of them.
    #[inline]
    pub fn turn_to(&mut self, priority: u8) -> bool {
        let known = self.priority == Some(priority);
        if !known {
            (self.priority, self.others) = (Some(priority), (0.0, 0));
            (self.times, self.worth) = ([u64::MAX; ROOM], [f64::INFINITY; ROOM]);
            self.changed = u64::MAX;
        }
        !known
    }

    /// The first of a class: the block, when it was used last, what it is worth.
    #[inline]
    pub fn set(&mut self, class: usize, first: Option<(BlockId, u64, f64)>) {
        let class = class % ROOM;
        let (block, time, worth) = first.unwrap_or((NIL, u64::MAX, f64::INFINITY));
        (self.blocks[class], self.times[class]) = (block, time);
        self.worth[class] = worth;
        self.changed |= 1 << class;
        if class != self.class {
            self.others = (self.others.0.min(worth), self.others.1.min(time));
        }
    }

    /// The one of least worth, if it is worth less than `doubt` times the one idle longest; else that.
    /// `filled` has a bit for each class that has one.
    #[inline]
    pub fn choose(&mut self, doubt: f64, filled: u64) -> Option<BlockId> {
        if filled == 0 {
            return None;
        }
        let (worth, time) = (self.worth[self.class % ROOM], self.times[self.class % ROOM]);
        let (least, earliest) = self.others;
        // Mostly the class that gave the last victim gives the next, and the others need not be asked.
        let leads = worth < doubt * least || (time < earliest && least >= doubt * worth);
        if !leads || filled >> self.class & 1 == 0 {
            self.compare(doubt);
        }
        Some(self.blocks[self.class % ROOM])
    }

    fn compare(&mut self, doubt: f64) {
        self.play();
        let (least, oldest) = (holder(&self.least, 1), holder(&self.oldest, 1));
        let surer = self.worth[least] < doubt * self.worth[oldest];
        self.class = if surer { least } else { oldest };
        self.others = (f64::INFINITY, u64::MAX);
        // Those that it met on its way to the root are the best of all others.
        let mut node = ROOM + self.class;
        while node > 1 {
            let (worth, time) = self.others;
            let least = self.worth[holder(&self.least, node ^ 1)];
            let earliest = self.times[holder(&self.oldest, node ^ 1)];
            self.others = (worth.min(least), time.min(earliest));
            node /= 2;
        }
    }

    /// Brings both trees up to date.
    fn play(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        if changed.count_ones() > FEW {
            (1..ROOM).rev().for_each(|node| self.meet(node));
            return;
        }
        while changed > 0 {
            let mut node = (ROOM + changed.trailing_zeros() as usize) / 2;
            changed &= changed - 1;
            while node > 0 {
                self.meet(node);
                node /= 2;
            }
        }
    }

    /// Settles who holds a node: of equals the earlier used, and then the lower class.
    #[inline]
    fn meet(&mut self, node: usize) {
        let key = |class: usize| (self.worth[class], self.times[class]);
        let (left, right) = (holder(&self.least, 2 * node), holder(&self.least, 2 * node + 1));
        let least = if key(right) < key(left) { right } else { left };
        let (left, right) = (holder(&self.oldest, 2 * node), holder(&self.oldest, 2 * node + 1));
        let oldest = if self.times[right] < self.times[left] { right } else { left };
        (self.least[node % ROOM], self.oldest[node % ROOM]) = (least as u8, oldest as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all classes would be compared for, one by one.
    fn by_hand(all: &[Option<(BlockId, u64, f64)>], doubt: f64) -> Option<BlockId> {
        let of = |class: usize| all[class].map(|(block, time, worth)| (worth, time, class, block));
        let mut known: Vec<_> = (0..all.len()).filter_map(of).collect();
        known.sort_by(|a, b| a.partial_cmp(b).expect("no worth is NaN"));
        let least = *known.first()?;
        let oldest = *known.iter().min_by_key(|first| (first.1, first.2))?;
        Some(if least.0 < doubt * oldest.0 { least.3 } else { oldest.3 })
    }

    #[test]
    fn the_tree_names_what_a_comparison_of_all_does() {
        let (mut firsts, mut all) = (Firsts::default(), vec![None; super::super::CLASSES]);
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        assert!(firsts.turn_to(5) && !firsts.turn_to(5));
        for round in 0..20_000u32 {
            if draw(200) == 0 {
                firsts.forget();
            }
            let again = firsts.turn_to(5);
            for class in 0..all.len() {
                let first = (round * 64 + class as u32, draw(40), draw(6) as f64 / 4.0);
                if draw(60) == 0 {
                    all[class] = (draw(4) > 0).then_some(first);
                    firsts.set(class, all[class]);
                } else if again {
                    firsts.set(class, all[class]);
                }
            }
            let doubt = [0.0, 0.5, 1.0][draw(3) as usize];
            let bit = |class: usize| u64::from(all[class].is_some()) << class;
            let named = firsts.choose(doubt, (0..all.len()).map(bit).sum());
            assert_eq!(named, by_hand(&all, doubt), "round {round}");
        }
    }
}
