//! What is known of reuse gaps: per class of blocks, how likely an idle block is used again at each
//! age (survival analysis: blocks that are still idle count, too), and from that what keeping one is
//! worth.

use super::idle::{ALL, Idle};
use super::{CLASSES, FAMILY, Tuning};

/// Ages are told apart in quarters of a power of two.
const STEPS: u64 = 4;
/// Ages up to 2^40 block accesses; older ones count as that old.
pub(super) const BUCKETS: usize = 40 * STEPS as usize;

/// The bucket of an age in block accesses.
pub(super) fn bucket(age: u64) -> usize {
    let age = age.clamp(1, (1 << 40) - 1);
    let octave = u64::from(age.ilog2());
    let step = ((age * STEPS) >> octave) - STEPS;
    (octave * STEPS + step) as usize
}

/// Where a bucket begins.
fn start(bucket: usize) -> u64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    ((STEPS + step) << octave).div_ceil(STEPS)
}

/// Where a bucket ends, in block accesses.
const fn end(bucket: usize) -> f64 {
    let (octave, step) = (bucket as u64 / STEPS, bucket as u64 % STEPS);
    (1u64 << octave) as f64 * ((STEPS + step + 1) as f64 / STEPS as f64)
}

/// How long each bucket is, in block accesses.
const WIDTHS: Row = {
    let mut widths = [end(0); BUCKETS];
    let mut bucket = 1;
    while bucket < BUCKETS {
        widths[bucket] = end(bucket) - end(bucket - 1);
        bucket += 1;
    }
    widths
};

/// The chance of a use at an age, where it is a guess, at the most.
const MOST_LIKELY: f64 = 0.9;

type Row = [f64; BUCKETS];

/// Waits of a class that have ended, and what follows from them.
#[derive(Debug, Clone)]
struct Class {
    /// How many waits ended in each bucket of ages, one way or another.
    ended: Row,
    /// How many of them by a use.
    used: Row,
    /// The chance of a use at each age, and how many ages have one.
    chance: Row,
    ages: usize,
    /// What a block of that age is worth, for ages from `known` on.
    worth: Row,
    known: usize,
}

impl Class {
    /// Works out what blocks are worth, from the age that is asked for on. What comes first in a list is old: a
    /// bit younger is likely to be asked for next, and all ages only if that is not enough.
    fn fill(&mut self, asked: usize, stretches: &mut [Stretch; BUCKETS]) {
        let anew = self.known == self.ages;
        self.known = if anew { asked.saturating_sub(STEPS as usize) } else { 0 };
        let (chance, worth) = (&self.chance[..self.ages], &mut self.worth[..self.ages]);
        fill_worth(chance, worth, self.known, stretches);
    }
}

/// The state of all classes: 5 kB each, whatever the number of blocks.
#[derive(Debug, Clone)]
pub(super) struct Gaps {
    /// Each of them, and then all as if they were one.
    classes: Vec<Class>,
    /// How many blocks came to each age, and stretches of waiting, for [`Gaps::refresh`].
    reached: Vec<Row>,
    stretches: [Stretch; BUCKETS],
}

impl Default for Gaps {
    fn default() -> Self {
        let none = [0.0; BUCKETS];
        let class = Class { ended: none, used: none, chance: none, ages: 0, worth: none, known: 0 };
        let reached = vec![none; FAMILY + 1];
        Self { classes: vec![class; CLASSES + 1], reached, stretches: [NO_STRETCH; BUCKETS] }
    }
}

impl Gaps {
    /// `n` blocks of `class` waited for `age`, and were then used, or are watched no longer.
    pub fn ended(&mut self, class: u8, age: u64, used: bool, n: u32) {
        let (at, n) = (bucket(age), f64::from(n));
        for class in [class as usize, ALL] {
            let class = &mut self.classes[class];
            class.ended[at] += n;
            class.used[at] += if used { n } else { 0.0 };
        }
    }

    /// What keeping a block of that class and age is worth: uses by the time it takes up, in block
    /// accesses.
    #[inline]
    pub fn worth(&mut self, class: usize, age: u64) -> f64 {
        let (class, at) = (&mut self.classes[class], bucket(age));
        if at < class.known {
            class.fill(at, &mut self.stretches);
        }
        class.worth[at]
    }

    /// Brings what blocks of a family are worth up to date, then forgets all but a part of what has ended.
    pub fn refresh(&mut self, family: usize, idle: &Idle, now: u64, tuning: Tuning) {
        let Tuning { trust, keep, prior, .. } = tuning;
        // No block is older than the clock: what lies beyond the bucket after it is never asked for.
        let limit = (bucket(now) + STEPS as usize).min(BUCKETS);
        let first = family * FAMILY;
        let (own, all) = self.classes.split_at_mut(CLASSES);
        let own = &mut own[first..first + FAMILY];
        for (reached, class) in self.reached.iter_mut().zip(own.iter().chain(&*all)) {
            reached[..limit].copy_from_slice(&class.ended[..limit]);
        }
        add_idle(&mut self.reached, idle, first, now);
        for row in &mut self.reached {
            // A block that reached an age passed through all earlier ones.
            let mut sum = 0.0;
            for n in row[..limit].iter_mut().rev() {
                sum += *n;
                *n = sum;
            }
        }
        // Ages grow by factors: with the same chance in each bucket, whatever is older is worth less,
        // as under lru. All classes together may tell otherwise, with more for those used more; then
        // those used as often, and then each of them.
        let (reached, every) = self.reached.split_at(FAMILY);
        let all = &mut all[0];
        let every = &every[0][..limit];
        let mean = all.used[..limit].iter().sum::<f64>() / (every.iter().sum::<f64>() + 1.0);
        let mut root = [mean; BUCKETS];
        learn(&mut root[..limit], &all.used, every, trust);
        let mut known = root;
        known[..limit].iter_mut().for_each(|n| *n = (*n * prior[family]).min(MOST_LIKELY));
        let pool = ClassPool::of(reached, own, limit);
        learn(&mut known[..limit], &pool.used, &pool.reached, trust);
        for (class, row) in own.iter_mut().zip(reached) {
            class.chance[..limit].copy_from_slice(&known[..limit]);
            (class.ages, class.known) = (limit, limit);
            // Otherwise no block of this class has been seen.
            if row[0] > 0.0 {
                learn(&mut class.chance[..limit], &class.used, row, trust);
                fade(&mut class.ended, &mut class.used, limit, keep);
            }
        }
        if family == 0 {
            fade(&mut all.ended, &mut all.used, limit, keep);
        }
    }
}

/// Adds the blocks that are idle now, of the classes from `first` on and of all.
fn add_idle(reached: &mut [Row], idle: &Idle, first: usize, now: u64) {
    let mut sums = [0u32; FAMILY + 1];
    let (mut at, mut youngest) = (0, u64::MAX);
    let mut add = |at: usize, sums: &mut [u32; FAMILY + 1]| {
        // They have been through the bucket before, and this one is not over.
        if let Some(last) = at.checked_sub(1) {
            let rows = reached.iter_mut().zip(&mut *sums);
            rows.for_each(|(reached, n)| reached[last] += f64::from(std::mem::take(n)));
        }
    };
    // From the oldest on: many epochs fall into one bucket.
    for (age, counts) in idle.ages(now) {
        if age < youngest {
            add(at, &mut sums);
            sums = [0; FAMILY + 1];
            at = bucket(age);
            youngest = start(at);
        }
        let own = counts[first..first + FAMILY].iter().chain(&counts[ALL..]);
        sums.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
    }
    add(at, &mut sums);
}

/// The chance of a use at each age, from what is known without these counts.
fn learn(chances: &mut [f64], used: &[f64], reached: &[f64], trust: f64) {
    for ((chance, used), reached) in chances.iter_mut().zip(used).zip(reached) {
        *chance = (used + trust * *chance) / (reached + trust);
    }
}

/// Forgets all but `keep` of what has ended.
fn fade(ended: &mut Row, used: &mut Row, limit: usize, keep: f64) {
    ended[..limit].iter_mut().chain(&mut used[..limit]).for_each(|n| *n *= keep);
}

/// Several classes as if they were one.
struct ClassPool {
    used: Row,
    reached: Row,
}

impl ClassPool {
    fn of(reached: &[Row], classes: &[Class], limit: usize) -> Self {
        let mut all = Self { used: [0.0; BUCKETS], reached: [0.0; BUCKETS] };
        // The others have seen no block.
        for (row, class) in reached.iter().zip(classes).filter(|(row, _)| row[0] > 0.0) {
            let add = |sums: &mut Row, more: &Row| {
                sums[..limit].iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
            };
            add(&mut all.reached, row);
            add(&mut all.used, &class.used);
        }
        all
    }
}

/// A stretch of waiting, as it looks from its start: uses and time expected of it, and how likely a
/// block is still idle at its end.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    uses: f64,
    time: f64,
    left: f64,
}

const NO_STRETCH: Stretch = Stretch { uses: 0.0, time: 0.0, left: 0.0 };

/// Turns the chances of a use at each age into Gittins' index of it: the highest expected uses per
/// access over any stopping time, for ages after `from`. The loop runs from the last age back. An age absorbs the stretch after
/// it while that stretch has more uses per access; each stretch is absorbed once, so all of them take
/// O(ages).
fn fill_worth(chance: &[f64], worth: &mut [f64], from: usize, later: &mut [Stretch; BUCKETS]) {
    let mut n = 0;
    let ages = chance.iter().zip(worth).zip(&WIDTHS);
    for ((&h, worth), &width) in ages.skip(from).rev() {
        let mut own = Stretch { uses: h, time: (1.0 - h / 2.0) * width, left: 1.0 - h };
        while n > 0 && later[n - 1].uses * own.time > own.uses * later[n - 1].time {
            let next = later[n - 1];
            own.uses += own.left * next.uses;
            own.time += own.left * next.time;
            own.left *= next.left;
            n -= 1;
        }
        *worth = own.uses / own.time;
        later[n] = own;
        n += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_fall_into_buckets_in_order() {
        let mut last = 0;
        for age in (1..5_000).chain((13..40).map(|bits| 1 << bits)) {
            let b = bucket(age);
            assert!(b >= last && (age as f64) < end(b), "{age}");
            assert!(b == 0 || age as f64 >= end(b - 1), "{age}");
            assert!(start(b) <= age && (age < 2 || bucket(start(b) - 1) < b), "{age}");
            last = b;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn worth_is_the_best_over_all_times_to_give_up() {
        let hazards = [0.1, 0.0, 0.5, 0.3, 0.01, 0.9, 0.2, 0.0, 0.4, 0.05, 0.05, 0.6];
        let mut worth = [-1.0; 12];
        fill_worth(&hazards, &mut worth, 3, &mut [NO_STRETCH; BUCKETS]);
        assert!(worth[..3].iter().all(|&worth| worth < 0.0), "not asked for");
        let later = worth;
        fill_worth(&hazards, &mut worth, 0, &mut [NO_STRETCH; BUCKETS]);
        assert_eq!(worth[3..], later[3..]);
        for (from, &worth) in worth.iter().enumerate() {
            let (mut best, mut left, mut uses, mut time) = (0.0f64, 1.0, 0.0, 0.0);
            for (b, h) in hazards.iter().enumerate().skip(from) {
                let width = end(b) - if b == 0 { 0.0 } else { end(b - 1) };
                uses += left * h;
                time += left * (1.0 - h / 2.0) * width;
                left *= 1.0 - h;
                best = best.max(uses / time);
            }
            assert!((worth - best).abs() < 1e-12, "{from}: {worth} {best}");
        }
    }

    #[test]
    fn what_waits_in_vain_is_worth_less() {
        let (mut gaps, mut idle) = (Gaps::default(), Idle::default());
        for _ in 0..1_000 {
            gaps.ended(0, 10, true, 1);
            gaps.ended(1, 1_000, true, 1);
            idle.join(2, 1);
        }
        gaps.refresh(0, &idle, 100_000, Tuning { keep: 1.0, ..Tuning::default() });
        assert!(gaps.worth(0, 1) > 10.0 * gaps.worth(1, 1));
        assert!(gaps.worth(1, 100) > 10.0 * gaps.worth(2, 100));
        // A block of the first class that is not back by now has missed its time.
        assert!(gaps.worth(0, 600) < gaps.worth(1, 600));
    }
}
