//! The first of each list, side by side: which of them is evicted next.

use super::CLASSES;
use crate::pool::{BlockId, NIL};

/// The firsts of the lists of one retention priority, as they were when they came first; what one is
/// worth is looked up again in every epoch.
#[derive(Debug, Clone)]
pub(super) struct Firsts {
    /// The priority, while they are known.
    priority: Option<u8>,
    blocks: [BlockId; CLASSES],
    times: [u64; CLASSES],
    worth: [f64; CLASSES],
    /// The class that the last victim was of.
    class: usize,
    /// All others are worth as much at the least, and were used as late at the earliest.
    others: (f64, u64),
}

impl Default for Firsts {
    fn default() -> Self {
        Self {
            priority: None,
            blocks: [NIL; CLASSES],
            times: [u64::MAX; CLASSES],
            worth: [f64::INFINITY; CLASSES],
            class: 0,
            others: (0.0, 0),
        }
    }
}

impl Firsts {
    /// All are to be looked up again.
    pub fn forget(&mut self) {
        self.priority = None;
    }

    /// Whether those of this priority are to be looked up again, all of them.
    pub fn turn_to(&mut self, priority: u8) -> bool {
        let known = self.priority == Some(priority);
        if !known {
            (self.priority, self.others) = (Some(priority), (0.0, 0));
        }
        !known
    }

    /// The first of a class: the block, when it was used last, what it is worth.
    pub fn set(&mut self, class: usize, first: Option<(BlockId, u64, f64)>) {
        let (block, time, worth) = first.unwrap_or((NIL, u64::MAX, f64::INFINITY));
        (self.blocks[class], self.times[class]) = (block, time);
        self.worth[class] = worth;
        if class != self.class {
            self.others = (self.others.0.min(worth), self.others.1.min(time));
        }
    }

    /// The one of least worth, if it is worth less than `doubt` times the one idle longest; else that.
    /// `filled` has a bit for each class that has one.
    pub fn choose(&mut self, doubt: f64, filled: u64) -> Option<BlockId> {
        if filled == 0 {
            return None;
        }
        let (worth, time) = (self.worth[self.class], self.times[self.class]);
        let (least, earliest) = self.others;
        // Mostly the class that gave the last victim gives the next, and the others need not be asked.
        let leads = worth < doubt * least || (time < earliest && least >= doubt * worth);
        if !leads || filled >> self.class & 1 == 0 {
            self.compare(doubt, filled);
        }
        Some(self.blocks[self.class])
    }

    fn compare(&mut self, doubt: f64, filled: u64) {
        let key = |class: usize| (self.worth[class], self.times[class]);
        let classes = |mut left: u64| {
            std::iter::from_fn(move || {
                let class = left.trailing_zeros() as usize;
                (left > 0).then(|| {
                    left &= left - 1;
                    class
                })
            })
        };
        let first = filled.trailing_zeros() as usize;
        let (mut least, mut oldest) = (first, first);
        for class in classes(filled) {
            if key(class) < key(least) {
                least = class;
            }
            if self.times[class] < self.times[oldest] {
                oldest = class;
            }
        }
        let surer = self.worth[least] < doubt * self.worth[oldest];
        self.class = if surer { least } else { oldest };
        self.others = (f64::INFINITY, u64::MAX);
        for class in classes(filled & !(1 << self.class)) {
            let (worth, time) = self.others;
            self.others = (worth.min(self.worth[class]), time.min(self.times[class]));
        }
    }
}
