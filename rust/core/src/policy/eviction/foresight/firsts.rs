//! The first of each list, side by side: which of them is evicted next.

use super::ROOM;

/// The firsts of the lists of one retention priority, as they were when they came first; what one is
/// worth is looked up again in every epoch.
#[derive(Debug, Clone)]
pub(super) struct Firsts {
    /// The priority, while they are known.
    priority: Option<u8>,
    /// The class that the last victim was of.
    class: usize,
    /// All others are worth as much at the least, and are as old at the most.
    others: (f64, Age),
    /// Of each two classes, of each two of these and so on, the one of least worth, and the one idle
    /// longest. `changed` has a bit for each class that they do not know yet.
    least: [Worth; NODES],
    oldest: [Age; NODES],
    changed: u64,
    /// The operation, and a bit for each class that was looked up in it.
    tick: u64,
    fresh: u64,
}

/// Places in a tournament: 1 is its winner's, those that play for place n have 2n and 2n + 1, and class c has
/// `ROOM` + c.
const NODES: usize = 2 * ROOM;
/// Where the first class below each place stands, from the pairs up to the winner.
const LEVELS: [u64; ROOM.ilog2() as usize] =
    [u64::MAX / 3, u64::MAX / 15, u64::MAX / 255, u64::MAX / 65_535, u64::MAX / 0xffff_ffff, 1];

/// When the first of a class was used last, and below that the class: the least is the one idle longest.
type Age = u64;
/// What it is worth, which is never negative, and below that its age.
type Worth = u128;

/// Where a class has none.
const NO_AGE: Age = Age::MAX;
const NO_WORTH: Worth = worth_of(f64::INFINITY, NO_AGE);

const fn worth_of(worth: f64, age: Age) -> Worth {
    (worth.to_bits() as Worth) << 64 | age as Worth
}

fn worth(of: Worth) -> f64 {
    f64::from_bits((of >> 64) as u64)
}

fn class(age: Age) -> usize {
    age as usize % ROOM
}

impl Default for Firsts {
    fn default() -> Self {
        Self {
            priority: None,
            class: 0,
            others: (0.0, 0),
            least: [NO_WORTH; NODES],
            oldest: [NO_AGE; NODES],
            changed: u64::MAX,
            tick: 0,
            fresh: 0,
        }
    }
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
            self.least.fill(NO_WORTH);
            self.oldest.fill(NO_AGE);
            self.changed = 0;
        }
        !known
    }

    /// Of the classes whose first is another one used at the same time, those that were not looked up in
    /// this operation: it has grown older since.
    #[inline]
    pub fn older(&mut self, alike: u64, tick: u64) -> u64 {
        if tick != self.tick {
            (self.tick, self.fresh) = (tick, 0);
        }
        alike & !self.fresh
    }

    /// The class that the last victim was of.
    pub fn last(&self) -> usize {
        self.class
    }

    /// Whether a class was looked up in this operation.
    #[inline]
    pub fn is_fresh(&self, class: usize) -> bool {
        self.fresh >> class & 1 > 0
    }

    /// The first of a class: when it was used last, what it is worth.
    #[inline]
    pub fn set(&mut self, class: usize, first: Option<(u64, f64)>) {
        let class = class % ROOM;
        let (age, worth) = match first {
            Some((time, worth)) => ((time * ROOM as u64) | class as u64, worth),
            None => (NO_AGE, f64::INFINITY),
        };
        self.oldest[ROOM + class] = age;
        self.least[ROOM + class] = worth_of(worth, age);
        self.changed |= 1 << class;
        self.fresh |= 1 << class;
        if class != self.class {
            self.others = (self.others.0.min(worth), self.others.1.min(age));
        }
    }

    /// The class whose first is of least worth, if that is less than `doubt` times what the one idle longest
    /// is worth; else the class of that. `filled` has a bit for each class that has one.
    #[inline]
    pub fn choose(&mut self, doubt: f64, filled: u64) -> Option<usize> {
        if filled == 0 {
            return None;
        }
        let own = ROOM + self.class % ROOM;
        let (worth, age) = (worth(self.least[own]), self.oldest[own]);
        let (least, oldest) = self.others;
        // Mostly the class that gave the last victim gives the next, and the others need not be asked.
        let leads = worth < doubt * least || (age < oldest && least >= doubt * worth);
        if !leads || filled >> self.class & 1 == 0 {
            self.compare(doubt);
        }
        Some(self.class)
    }

    fn compare(&mut self, doubt: f64) {
        self.play();
        let (least, oldest) = (self.least[1], class(self.oldest[1]));
        let surer = worth(least) < doubt * worth(self.least[ROOM + oldest]);
        self.class = if surer { class(least as Age) } else { oldest };
        let (mut other, mut older) = (NO_WORTH, NO_AGE);
        // Those that it met on its way up are the best of all others.
        let mut node = ROOM + self.class % ROOM;
        while node > 1 {
            other = other.min(self.least[node ^ 1]);
            older = older.min(self.oldest[node ^ 1]);
            node /= 2;
        }
        self.others = (worth(other), older);
    }

    /// Brings the tournament up to date.
    fn play(&mut self) {
        // A bit for each place to settle, where the first class below it has its own.
        let mut changed = std::mem::take(&mut self.changed);
        for (level, own) in (1..).zip(LEVELS) {
            changed = (changed | changed >> (1 << (level - 1))) & own;
            let mut rest = changed;
            while rest > 0 {
                let node = (ROOM + rest.trailing_zeros() as usize) >> level;
                rest &= rest - 1;
                self.meet(node);
            }
        }
    }

    /// Settles who has a place.
    #[inline]
    fn meet(&mut self, node: usize) {
        let node = node % ROOM;
        self.least[node] = self.least[2 * node].min(self.least[2 * node + 1]);
        self.oldest[node] = self.oldest[2 * node].min(self.oldest[2 * node + 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all classes would be compared for, one by one.
    fn by_hand(all: &[Option<(u64, f64)>], doubt: f64) -> Option<usize> {
        let of = |class: usize| all[class].map(|(time, worth)| (worth, time, class));
        let mut known: Vec<_> = (0..all.len()).filter_map(of).collect();
        known.sort_by(|a, b| a.partial_cmp(b).expect("no worth is NaN"));
        let least = *known.first()?;
        let oldest = *known.iter().min_by_key(|first| (first.1, first.2))?;
        Some(if least.0 < doubt * oldest.0 { least.2 } else { oldest.2 })
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
            for (class, of) in all.iter_mut().enumerate() {
                let first = (draw(40), draw(6) as f64 / 4.0);
                let other = draw(60) == 0;
                if other {
                    *of = (draw(4) > 0).then_some(first);
                }
                if other || again {
                    firsts.set(class, *of);
                }
            }
            let doubt = [0.0, 0.5, 1.0][draw(3) as usize];
            let bit = |class: usize| u64::from(all[class].is_some()) << class;
            let named = firsts.choose(doubt, (0..all.len()).map(bit).sum());
            assert_eq!(named, by_hand(&all, doubt), "round {round}");
        }
    }
}
