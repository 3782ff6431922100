//! How many blocks of each class have been idle since when, resident ones and departed ones alike.

use super::CLASSES;

/// Blocks last used in one stretch of time, by class, and all of them.
type Counts = [u32; CLASSES + 1];
/// Where all of them stand.
pub(super) const ALL: usize = CLASSES;

/// Two neighbouring epochs become one when they span less than this share of their age. Coarser
/// ones blur the ages at which bursts come back: an eighth cost 2 points of hits on one trace.
const GRAIN: u64 = 32;
/// Epochs that are always worth keeping apart.
const FEW: usize = 128;

/// Last uses as a histogram whose stretches grow with age: about 64 ln(oldest / youngest) of
/// them, 244 bytes each.
#[derive(Debug, Clone)]
pub(super) struct Idle {
    /// When each epoch began, from the oldest on; never empty.
    starts: Vec<u64>,
    counts: Vec<Counts>,
    /// How many there may be before old ones are joined.
    most: usize,
    /// The epoch that was left last. Blocks of one prompt were used together.
    near: usize,
}

impl Default for Idle {
    fn default() -> Self {
        Self { starts: vec![0], counts: vec![[0; CLASSES + 1]], most: 2 * FEW, near: 0 }
    }
}

impl Idle {
    fn epoch(&self, time: u64) -> usize {
        self.starts.partition_point(|&start| start <= time) - 1
    }

    /// `n` blocks of `class` are used now.
    #[inline]
    pub fn join(&mut self, class: u8, n: u32) {
        let last = self.counts.last_mut().expect("never empty");
        last[class as usize] += n;
        last[ALL] += n;
    }

    /// `n` blocks of `class` last used at `time` are idle no more, or no longer watched.
    pub fn leave(&mut self, class: u8, time: u64, n: u32) {
        let after = self.starts.get(self.near + 1).copied().unwrap_or(u64::MAX);
        if !(self.starts[self.near]..after).contains(&time) {
            self.near = self.epoch(time);
        }
        let counts = &mut self.counts[self.near];
        counts[class as usize] -= n;
        counts[ALL] -= n;
    }

    /// When the youngest epoch began.
    pub fn start(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Begins a new epoch `now`. Whether old ones were joined.
    pub fn turn(&mut self, now: u64) -> bool {
        let full = self.starts.len() >= self.most;
        if full {
            self.thin(now);
            self.most = 2 * self.starts.len().max(FEW);
        }
        self.starts.push(now);
        self.counts.push([0; CLASSES + 1]);
        full
    }

    /// Joins epochs that are no longer worth telling apart.
    fn thin(&mut self, now: u64) {
        let mut kept = 0;
        for i in 1..self.starts.len() {
            let end = self.starts.get(i + 1).map_or(now, |&next| next);
            let next = self.counts[i];
            if (end - self.starts[kept]) * GRAIN <= now.saturating_sub(end) {
                self.counts[kept].iter_mut().zip(next).for_each(|(sum, n)| *sum += n);
            } else {
                kept += 1;
                self.starts[kept] = self.starts[i];
                self.counts[kept] = next;
            }
        }
        self.near = 0;
        self.starts.truncate(kept + 1);
        self.counts.truncate(kept + 1);
    }

    /// When the epoch after that of `time` began, and how many blocks were used last in that of
    /// `time`. None in the youngest.
    pub fn after(&self, time: u64) -> Option<(u64, u64)> {
        let epoch = self.epoch(time);
        let next = *self.starts.get(epoch + 1)?;
        Some((next, self.counts[epoch][ALL].into()))
    }

    /// The oldest epoch after which at most `most` blocks were used last: its start and their number.
    pub fn youngest(&self, most: u64) -> (u64, u64) {
        let (mut from, mut sum) = (u64::MAX, 0);
        for (&start, counts) in self.starts.iter().zip(&self.counts).rev() {
            let more = sum + u64::from(counts[ALL]);
            if more > most {
                break;
            }
            (from, sum) = (start, more);
        }
        (from, sum)
    }

    /// Ages at `now` and how many blocks of each class have them.
    pub fn ages(&self, now: u64) -> impl Iterator<Item = (u64, &Counts)> {
        let ends = self.starts.iter().skip(1).map(|next| next - 1).chain([now]);
        self.starts.iter().zip(&self.counts).zip(ends).map(move |((&start, counts), end)| {
            let middle = start.min(end).midpoint(end);
            (now - middle.min(now), counts)
        })
    }

    /// All that are counted.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        self.counts.iter().map(|counts| u64::from(counts[ALL])).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one class, joined at `times`, with an epoch for each `grain`.
    fn joined(times: impl Iterator<Item = u64>, grain: u64) -> Idle {
        let mut idle = Idle::default();
        for time in times {
            idle.join(3, 1);
            if time % grain == 0 {
                idle.turn(time + 1);
            }
        }
        idle
    }

    #[test]
    fn ages_are_those_of_the_last_uses() {
        let idle = joined(1..=100, 10);
        assert_eq!(idle.len(), 100);
        let mut last = u64::MAX;
        for (age, counts) in idle.ages(100) {
            assert!(age < last && age <= 100, "{age} after {last}");
            last = age;
            let expected = if counts[3] == 0 { 0 } else { 10 };
            assert_eq!((counts[3], counts.iter().sum::<u32>()), (expected, 2 * expected));
        }
    }

    #[test]
    fn who_leaves_is_found_by_the_time_of_its_last_use() {
        let mut idle = joined(1..=100, 10);
        for time in (1..=100).filter(|time| time % 3 != 0) {
            idle.leave(3, time, 1);
        }
        assert_eq!(idle.len(), 33);
        idle.join(5, 1);
        idle.leave(5, 101, 1);
        assert_eq!(idle.len(), 33);
        for time in (1..=100).filter(|time| time % 3 == 0) {
            idle.leave(3, time, 1);
        }
        assert!(idle.ages(200).all(|(_, counts)| counts.iter().all(|&n| n == 0)));
    }

    #[test]
    fn old_epochs_are_joined_and_nobody_is_lost() {
        const LAST: u64 = 1 << 20;
        let mut idle = joined(1..=LAST, 16);
        let logarithm = 64.0 * ((LAST / 16) as f64).ln();
        assert!(idle.starts.len() < 2 * (logarithm as usize).max(FEW), "{}", idle.starts.len());
        assert_eq!(idle.len(), LAST);
        for pair in idle.starts.windows(2) {
            // As coarse as they may be at their age, or as fine as they were made.
            let (span, age) = (pair[1] - pair[0], LAST + 1 - pair[1]);
            assert!(span <= 16.max(age / GRAIN + 16), "{span} at {age}");
        }
        (1..=LAST).for_each(|time| idle.leave(3, time, 1));
        assert_eq!(idle.len(), 0);
    }
}
