//! How likely what lies idle is to come back, by class: a share of each class does, after a time that
//! is exponentially distributed ("`KVCache` in the Wild", USENIX ATC 2025, finds that for requests of
//! one type and turn).

use super::class_heads::Heads;
use crate::pool::BlockId;

/// Waits after which a class's counts are halved.
const MEMORY: f64 = 16_384.0;
/// How much of the expected life one victim moves.
const CALM: f64 = 64.0;

/// Waits of a class.
#[derive(Debug, Clone, Copy, Default)]
struct Class {
    begun: f64,
    /// Those that ended with a return, and how long they were together.
    returned: f64,
    time: f64,
}

/// Waits of all classes, and how long a block lives in the cache after its last use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Returns {
    classes: Vec<Class>,
    life: f64,
}

impl Returns {
    fn class(&mut self, class: usize) -> &mut Class {
        if self.classes.len() <= class {
            self.classes.resize(class + 1, Class::default());
        }
        &mut self.classes[class]
    }

    /// A wait of `class` begins.
    pub fn begin(&mut self, class: usize) {
        let class = self.class(class);
        class.begun += 1.0;
        if class.begun > MEMORY {
            let Class { begun, returned, time } = *class;
            *class = Class { begun: begun / 2.0, returned: returned / 2.0, time: time / 2.0 };
        }
    }

    /// A wait of `class` ended with a return after `idle` ticks.
    pub fn returned(&mut self, class: usize, idle: u64) {
        let class = self.class(class);
        class.returned += 1.0;
        class.time += idle as f64;
    }

    /// A block was evicted `idle` ticks after its last use.
    pub fn evicted(&mut self, idle: u64) {
        let idle = idle as f64;
        self.life += if self.life > 0.0 { (idle - self.life) / CALM } else { idle };
    }

    /// The chance that a block which has been idle for `idle` ticks is used again within a block's expected
    /// life.
    fn chance(&self, class: usize, idle: u64) -> f64 {
        let Class { begun, returned, time } = self.classes.get(class).copied().unwrap_or_default();
        let life = self.life.max(1.0);
        // The counts are smoothed as if one more wait of two had ended, after that life.
        let share = (returned + 1.0) / (begun.max(returned) + 2.0);
        let gap = (time + life) / (returned + 1.0);
        let still_due = share * (-(idle as f64) / gap).exp();
        let never = 1.0 - share;
        still_due * (1.0 - (-life / gap).exp()) / (still_due + never)
    }

    /// The class whose least recently used leaf, of `last(block)`, is least likely to come back.
    pub fn least(&self, heads: Heads<'_>, now: u64, last: impl Fn(BlockId) -> u64) -> usize {
        let mut least = (f64::INFINITY, u128::MAX, 0);
        for class in 0..heads.classes() {
            if let Some((block, rank)) = heads.first(class) {
                let chance = self.chance(class, now - last(block));
                if (chance, rank) < (least.0, least.1) {
                    least = (chance, rank, class);
                }
            }
        }
        least.2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_fades_while_one_waits_and_grows_with_what_came_back() {
        let mut returns = Returns::default();
        for i in 0..1_000 {
            for class in 0..3 {
                returns.begin(class);
            }
            returns.returned(0, 100);
            if i % 2 == 0 {
                returns.returned(1, 100);
                returns.returned(2, 10_000);
            }
        }
        returns.evicted(500);
        let chance = |class, idle| returns.chance(class, idle);
        assert!(chance(0, 0) > 0.99 && (chance(1, 0) - 0.5).abs() < 0.02);
        assert!(chance(2, 0) < 0.05, "most come back too late");
        for class in 0..3 {
            assert!((0..50).all(|t| chance(class, 100 * t) > chance(class, 100 * t + 100)));
        }
        // By then what comes back soon has come back.
        assert!(chance(1, 2_000) < chance(2, 2_000));
        let unknown = chance(3, 0);
        assert!(0.0 < unknown && unknown < 0.5);
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let mut returns = Returns::default();
        for _ in 0..100_000 {
            returns.begin(0);
            returns.returned(0, 10);
        }
        returns.evicted(100);
        assert!(returns.classes[0].begun <= MEMORY);
        let before = returns.chance(0, 0);
        (0..20_000).for_each(|_| returns.begin(0));
        assert!(returns.chance(0, 0) < before / 2.0);
    }
}
