//! How many blocks of each class have been idle since when, resident ones and departed ones alike.

use super::CLASSES;

/// Blocks last used in one stretch of time, by class.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: u64,
    counts: [u32; CLASSES],
}

/// Two neighbouring epochs become one when they span less than this share of their age. Coarser
/// ones blur the ages at which bursts come back: an eighth cost 2 points of hits on one trace.
const GRAIN: u64 = 32;
/// Epochs that are always worth keeping apart.
const FEW: usize = 128;

/// Last uses as a histogram whose stretches grow with age: about 64 ln(oldest / youngest) of
/// them, 128 bytes each.
#[derive(Debug, Clone)]
pub(super) struct Idle {
    /// From the oldest on; never empty.
    epochs: Vec<Epoch>,
    /// How many there may be before old ones are joined.
    most: usize,
}

impl Default for Idle {
    fn default() -> Self {
        Self { epochs: vec![Epoch { start: 0, counts: [0; CLASSES] }], most: 2 * FEW }
    }
}

impl Idle {
    fn count(&mut self, class: u8, time: u64) -> &mut u32 {
        let at = self.epochs.partition_point(|epoch| epoch.start <= time) - 1;
        &mut self.epochs[at].counts[class as usize]
    }

    /// A block of `class` is used now.
    pub fn join(&mut self, class: u8) {
        let last = self.epochs.last_mut().expect("never empty");
        last.counts[class as usize] += 1;
    }

    /// A block of `class` last used at `time` is idle no more, or no longer watched.
    pub fn leave(&mut self, class: u8, time: u64) {
        *self.count(class, time) -= 1;
    }

    /// Begins a new epoch after `now`.
    pub fn turn(&mut self, now: u64) {
        if self.epochs.len() >= self.most {
            self.thin(now);
            self.most = 2 * self.epochs.len().max(FEW);
        }
        self.epochs.push(Epoch { start: now + 1, counts: [0; CLASSES] });
    }

    /// Joins epochs that are no longer worth telling apart.
    fn thin(&mut self, now: u64) {
        let mut kept = 0;
        for i in 1..self.epochs.len() {
            let end = self.epochs.get(i + 1).map_or(now + 1, |next| next.start);
            let next = self.epochs[i];
            let last = &mut self.epochs[kept];
            if (end - last.start) * GRAIN <= (now + 1).saturating_sub(end) {
                last.counts.iter_mut().zip(next.counts).for_each(|(sum, n)| *sum += n);
            } else {
                kept += 1;
                self.epochs[kept] = next;
            }
        }
        self.epochs.truncate(kept + 1);
    }

    /// Ages at `now` and how many blocks of each class have them.
    pub fn ages(&self, now: u64) -> impl Iterator<Item = (u64, &[u32; CLASSES])> {
        let ends = self.epochs.iter().skip(1).map(|next| next.start - 1).chain([now]);
        self.epochs.iter().zip(ends).map(move |(epoch, end)| {
            let middle = epoch.start.min(end).midpoint(end);
            (now - middle.min(now), &epoch.counts)
        })
    }

    /// All that are counted.
    #[cfg(test)]
    pub fn len(&self) -> u64 {
        self.epochs.iter().flat_map(|epoch| epoch.counts).map(u64::from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one class, joined at `times`, with an epoch for each `grain`.
    fn joined(times: impl Iterator<Item = u64>, grain: u64) -> Idle {
        let mut idle = Idle::default();
        for time in times {
            idle.join(3);
            if time % grain == 0 {
                idle.turn(time);
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
            assert_eq!((counts[3], counts.iter().sum::<u32>()), (expected, expected));
        }
    }

    #[test]
    fn who_leaves_is_found_by_the_time_of_its_last_use() {
        let mut idle = joined(1..=100, 10);
        for time in (1..=100).filter(|time| time % 3 != 0) {
            idle.leave(3, time);
        }
        assert_eq!(idle.len(), 33);
        idle.join(5);
        idle.leave(5, 101);
        assert_eq!(idle.len(), 33);
        for time in (1..=100).filter(|time| time % 3 == 0) {
            idle.leave(3, time);
        }
        assert!(idle.ages(200).all(|(_, counts)| counts.iter().all(|&n| n == 0)));
    }

    #[test]
    fn old_epochs_are_joined_and_nobody_is_lost() {
        const LAST: u64 = 1 << 20;
        let mut idle = joined(1..=LAST, 16);
        let logarithm = 64.0 * ((LAST / 16) as f64).ln();
        assert!(idle.epochs.len() < 2 * (logarithm as usize).max(FEW), "{}", idle.epochs.len());
        assert_eq!(idle.len(), LAST);
        for pair in idle.epochs.windows(2) {
            // As coarse as they may be at their age, or as fine as they were made.
            let (span, age) = (pair[1].start - pair[0].start, LAST + 1 - pair[1].start);
            assert!(span <= 16.max(age / GRAIN + 16), "{span} at {age}");
        }
        (1..=LAST).for_each(|time| idle.leave(3, time));
        assert_eq!(idle.len(), 0);
    }
}
