//! How many blocks of each class have been idle since when, resident ones and departed ones alike.

use super::CLASSES;

/// Blocks last used in one stretch of time, by class.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: u64,
    counts: [u32; CLASSES],
}

/// Two neighbouring epochs become one when they span less than this share of their age: ages are
/// told apart no better than by [`super::gaps::bucket`].
const GRAIN: u64 = 8;

/// Last uses as a histogram whose stretches grow with age, at most a few hundred of them.
#[derive(Debug, Clone)]
pub(super) struct Idle {
    /// From the oldest on; never empty.
    epochs: Vec<Epoch>,
}

impl Default for Idle {
    fn default() -> Self {
        Self { epochs: vec![Epoch { start: 0, counts: [0; CLASSES] }] }
    }
}

impl Idle {
    fn count(&mut self, class: u8, time: u64) -> &mut u32 {
        let at = self.epochs.partition_point(|epoch| epoch.start <= time) - 1;
        &mut self.epochs[at].counts[class as usize]
    }

    /// A block of `class` is used at `time`, which no time before was later than.
    pub fn join(&mut self, class: u8, _time: u64) {
        let last = self.epochs.last_mut().expect("never empty");
        last.counts[class as usize] += 1;
    }

    /// A block of `class` last used at `time` is idle no more, or no longer watched.
    pub fn leave(&mut self, class: u8, time: u64) {
        *self.count(class, time) -= 1;
    }

    /// Begins a new epoch after `now` and joins old ones.
    pub fn turn(&mut self, now: u64) {
        let mut kept = 0;
        for i in 1..self.epochs.len() {
            let end = self.epochs.get(i + 1).map_or(now + 1, |next| next.start);
            let next = self.epochs[i];
            let last = &mut self.epochs[kept];
            if (end - last.start) * GRAIN <= (now + 1) - end {
                last.counts.iter_mut().zip(next.counts).for_each(|(sum, n)| *sum += n);
            } else {
                kept += 1;
                self.epochs[kept] = next;
            }
        }
        self.epochs.truncate(kept + 1);
        self.epochs.push(Epoch { start: now + 1, counts: [0; CLASSES] });
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
