//! What a request asks for its blocks, and the priority that this gives a block at a time.

use std::ops::Range;

use super::{DEFAULT_PRIORITY, MAX_PRIORITY};
use crate::error::{Error, Result};

/// How a priority ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decay {
    /// It stands for the whole duration, and falls at its end.
    #[default]
    Step,
    /// It falls evenly from the start of the duration to its end.
    Linear,
}

/// A priority, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// 0 to 100.
    pub priority: u8,
    /// From when its sequence gives a block up, by the clock that `expire_until` is called with; for ever
    /// if `None`. Uses by others do not prolong it.
    pub duration: Option<u64>,
    /// The priority once the duration is over.
    pub then: u8,
    /// How it gets there.
    pub decay: Decay,
}

impl Default for Keep {
    fn default() -> Self {
        let priority = DEFAULT_PRIORITY;
        Self { priority, duration: None, then: DEFAULT_PRIORITY, decay: Decay::Step }
    }
}

impl Keep {
    /// This priority, for ever.
    pub fn forever(priority: u8) -> Self {
        Self { priority, ..Self::default() }
    }

    /// Refuses priorities over 100.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn validate(&self) -> Result<()> {
        for (what, value) in [("priority", self.priority), ("then", self.then)] {
            if value > MAX_PRIORITY {
                let limit = format!("must be between 0 and {MAX_PRIORITY}");
                return Err(Error::Invalid { what, value: value.to_string(), limit });
            }
        }
        Ok(())
    }
}

/// Tokens of a prompt and what is asked for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRange {
    /// The first.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// What their blocks are to have.
    pub keep: Keep,
}

/// What a request asks for its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Retention {
    /// Of the prompt; where they overlap, the strongest counts.
    pub ranges: Vec<TokenRange>,
    /// Of what is decoded.
    pub decode: Option<Keep>,
}

impl Retention {
    /// Refuses empty ranges and priorities over 100.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn validate(&self) -> Result<()> {
        if let Some(empty) = self.ranges.iter().find(|range| range.start >= range.end) {
            return Err(Error::Invalid {
                what: "ranges",
                value: format!("[{}, {})", empty.start, empty.end),
                limit: "a range ends behind its start".into(),
            });
        }
        self.ranges.iter().map(|range| &range.keep).chain(&self.decode).try_for_each(Keep::validate)
    }

    /// What is asked for a block of these tokens of a sequence with such a prompt: the strongest of
    /// all that is asked for any of them.
    pub fn of(&self, tokens: Range<u32>, prompt: u32) -> Option<Keep> {
        let end = tokens.end.min(prompt);
        let ranges = self.ranges.iter().filter(|r| r.start < end && tokens.start < r.end);
        let decoded = self.decode.as_ref().filter(|_| tokens.end > prompt);
        let keeps = ranges.map(|range| &range.keep).chain(decoded);
        keeps.max_by_key(|keep| (keep.priority, keep.duration.unwrap_or(u64::MAX))).copied()
    }
}

/// What a block has of a [`Keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Term {
    /// The block's generation plus 1; 0 if there is no term.
    life: u64,
    peak: u8,
    then: u8,
    linear: bool,
    from: u64,
    /// `u64::MAX`: for ever.
    until: u64,
}

impl Term {
    pub fn new(keep: Keep, now: u64, generation: u32) -> Self {
        Self {
            life: u64::from(generation) + 1,
            peak: keep.priority,
            then: keep.then,
            linear: keep.decay == Decay::Linear && keep.then < keep.priority,
            from: now,
            until: keep.duration.map_or(u64::MAX, |duration| now.saturating_add(duration)),
        }
    }

    /// This term, made for the block's life of that generation.
    pub fn of(self, generation: u32) -> Self {
        Self { life: u64::from(generation) + 1, ..self }
    }

    /// Whether it is of this life of its block.
    pub fn is_of(&self, generation: u32) -> bool {
        self.life == u64::from(generation) + 1
    }

    /// The priority at `now`.
    pub fn value(&self, now: u64) -> u8 {
        match self.until {
            u64::MAX => self.peak,
            until if now >= until => self.then,
            until if self.linear => {
                let left = u128::from(until - now.max(self.from));
                let (fall, whole) = (u128::from(self.peak - self.then), until - self.from);
                self.then + (fall * left).div_ceil(u128::from(whole)) as u8
            }
            _ => self.peak,
        }
    }

    /// When the priority that it has at `now` changes.
    pub fn changes(&self, now: u64) -> Option<u64> {
        if self.until == u64::MAX || now >= self.until {
            return None;
        }
        if !self.linear {
            return Some(self.until);
        }
        let (fall, whole) = (u128::from(self.peak - self.then), self.until - self.from);
        let next = u128::from(self.value(now) - self.then - 1);
        Some(self.until - (next * u128::from(whole) / fall) as u64)
    }

    /// Joins two terms that were asked for one block. The term with the higher priority holds; of equal
    /// priorities, the longer one. When it ends, the priority does not fall below the other's last.
    pub fn or(self, other: Self, now: u64) -> Self {
        let strength = |term: &Self| (term.value(now), term.until);
        let (mut strong, weak) =
            if strength(&other) > strength(&self) { (other, self) } else { (self, other) };
        let end = if weak.until == u64::MAX { weak.peak } else { weak.then };
        strong.then = strong.then.max(end).min(strong.peak.max(strong.then));
        strong.linear &= strong.then < strong.peak;
        strong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(priority: u8, duration: u64) -> Keep {
        Keep { priority, duration: Some(duration), ..Keep::default() }
    }

    // scenario: V3, T22
    #[test]
    fn a_step_falls_at_its_end() {
        let term = Term::new(keep(80, 30), 10, 0);
        assert_eq!((term.value(10), term.value(39), term.value(40)), (80, 80, 35));
        assert_eq!((term.changes(10), term.changes(40)), (Some(40), None));
        assert_eq!(Term::new(Keep::forever(3), 10, 0).changes(10), None);
    }

    // scenario: ST28
    #[test]
    fn a_slope_changes_when_it_says_that_it_does() {
        let asked = Keep { then: 0, decay: Decay::Linear, ..keep(7, 100) };
        let term = Term::new(asked, 5, 0);
        let mut now = 5;
        for value in (0..7).rev() {
            let next = term.changes(now).unwrap();
            assert_eq!((term.value(next - 1), term.value(next)), (value + 1, value));
            now = next;
        }
        assert_eq!((now, term.changes(now)), (105, None));
    }

    // scenario: ST28
    #[test]
    fn of_two_the_stronger_stands_and_ends_no_lower_than_the_other() {
        let (high, long) = (Term::new(keep(80, 30), 0, 0), Term::new(keep(60, 90), 0, 0));
        assert_eq!((high.or(long, 0).value(29), high.or(long, 0).value(30)), (80, 35));
        let once = Term::new(Keep { then: 0, ..keep(80, 30) }, 0, 0);
        let plain = Term::new(Keep::default(), 0, 0);
        assert_eq!((once.or(plain, 0).value(29), plain.or(once, 0).value(30)), (80, 35));
        assert_eq!(once.or(high, 40).value(40), 35, "one that is over is weak");
    }

    // scenario: S22
    #[test]
    fn a_block_has_the_strongest_of_its_tokens() {
        let range = |start, end, priority| TokenRange { start, end, keep: Keep::forever(priority) };
        let ranges = vec![range(0, 4, 100), range(2, 12, 20)];
        let asked = Retention { ranges, decode: Some(Keep::forever(50)) };
        let of = |start, end| asked.of(start..end, 14).map(|keep| keep.priority);
        assert_eq!([of(0, 4), of(2, 6), of(4, 8)], [Some(100), Some(100), Some(20)]);
        assert_eq!([of(12, 14), of(12, 16), of(16, 20)], [None, Some(50), Some(50)]);
        let empty = Retention { ranges: vec![range(4, 4, 1)], decode: None };
        assert!(matches!(empty.validate(), Err(Error::Invalid { what: "ranges", .. })));
        assert!(Keep::forever(101).validate().is_err());
    }
}
