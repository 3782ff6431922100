//! What lru would have hit with as many blocks.

use super::Tuning;
use super::idle::Idle;

/// Lru holds the blocks used since some time, as many as there are blocks: when a block was used last
/// tells whether lru would have hit it. Two numbers say it for all blocks together.
#[derive(Debug, Clone, Default)]
pub(super) struct Rival {
    /// Lru would still have what was used since then.
    since: u64,
    /// How many blocks that is, of those that are counted.
    held: u64,
    /// Hits that lru is ahead since it was behind last, and accesses so far; both fade. What was won
    /// over lru before is no credit: traffic that turns is seen at once.
    deficit: f64,
    accesses: f64,
}

impl Rival {
    /// `n` blocks were used: `last` is when they were before, if that is known, `hit` whether they were
    /// still there. `counted` of them are.
    pub fn access(&mut self, last: Option<u64>, hit: bool, n: u32, counted: u32) {
        let lru = last.is_some_and(|time| time >= self.since);
        let n = f64::from(n);
        self.deficit = (self.deficit + n * f64::from(i8::from(lru) - i8::from(hit))).max(0.0);
        self.accesses += n;
        self.held += if lru { 0 } else { u64::from(counted) };
    }

    /// Lets go of what lru holds no longer.
    pub fn advance(&mut self, capacity: u32, idle: &Idle) {
        while self.held > u64::from(capacity) {
            let Some((next, gone)) = idle.after(self.since) else { break };
            self.since = next;
            self.held = self.held.saturating_sub(gone);
        }
    }

    /// A block last used at `time` is watched no longer.
    pub fn lost(&mut self, time: u64) {
        self.held -= u64::from(time >= self.since && self.held > 0);
    }

    /// Epochs were joined.
    pub fn recount(&mut self, capacity: u32, idle: &Idle) {
        (self.since, self.held) = idle.youngest(u64::from(capacity));
    }

    /// What the worth of lru's victim is multiplied with before others are compared with it: 1 while
    /// lru is not ahead, 0 once it is ahead by the budget, when only its own victim is evicted.
    pub fn doubt(&self, capacity: u32, tuning: Tuning) -> f64 {
        let budget = tuning.budget * (self.accesses + tuning.grace * f64::from(capacity));
        (1.0 - self.deficit / budget).max(0.0)
    }

    /// Forgets all but `keep` of the past.
    pub fn fade(&mut self, keep: f64) {
        self.deficit *= keep;
        self.accesses *= keep;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `uses` of blocks to the rival and to a list of the blocks used last; how often they
    /// disagree, and the hits of the list.
    fn disagree(uses: impl Iterator<Item = usize>, blocks: usize, capacity: u32) -> (u64, u64) {
        let (mut idle, mut rival) = (Idle::default(), Rival { deficit: 1.0, ..Rival::default() });
        let mut times = vec![None; blocks];
        let mut list: Vec<usize> = Vec::new();
        let (mut wrong, mut hits) = (0, 0);
        for (now, block) in uses.enumerate() {
            let now = now as u64 + 1;
            let place = list.iter().rposition(|&b| b == block);
            let hit = place.is_some_and(|at| list.len() - at <= capacity as usize);
            place.map(|at| list.remove(at));
            list.push(block);
            if let Some(time) = times[block] {
                idle.leave(0, time, 1);
            }
            rival.access(times[block], hit, 1, 1);
            rival.advance(capacity, &idle);
            // Behind by one, it knows of both mistakes: of a hit too many and of one too few.
            wrong += u64::from((rival.deficit - 1.0).abs() > 0.5);
            rival.deficit = 1.0;
            hits += u64::from(hit);
            idle.join(0, 1);
            times[block] = Some(now);
            if now.is_multiple_of(16) && idle.turn(now + 1) {
                rival.recount(capacity, &idle);
            }
        }
        (wrong, hits)
    }

    #[test]
    fn it_hits_what_lru_hits() {
        let mut state = 1u64;
        let uses = (0..60_000).map(move |i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = (state >> 40) as usize % 3_000;
            // Popular ones, and a window that moves on.
            if draw.is_multiple_of(2) { draw * draw / 3_000 } else { (i / 20 + draw / 8) % 3_000 }
        });
        let (wrong, hits) = disagree(uses, 3_000, 1_000);
        assert!(hits > 20_000, "{hits}");
        // Epochs are 16 accesses long, so that its edge is not sharp.
        assert!(wrong < 600, "{wrong} of 60,000");
    }

    #[test]
    fn doubt_grows_with_what_lru_is_ahead() {
        let tuning = Tuning { grace: 1.0, ..Tuning::default() };
        let mut rival = Rival::default();
        let doubt = |rival: &Rival| rival.doubt(1_000, tuning);
        rival.access(None, false, 1, 1);
        assert!(doubt(&rival) > 1.0 - 1e-12);
        let mut last = 1.0;
        for _ in 0..4 {
            rival.access(Some(0), false, 1, 1);
            assert!(doubt(&rival) < last);
            last = doubt(&rival);
        }
        rival.access(Some(0), false, 1, 1);
        assert!(doubt(&rival) < 1e-12);
        rival.access(None, true, 5, 2);
        assert!(doubt(&rival) > 1.0 - 1e-12);
        // However far it got ahead, the next losses count from there.
        rival.access(None, true, 1_000, 250);
        rival.access(Some(0), false, 1, 0);
        assert!(doubt(&rival) < 1.0 - 0.1);
    }
}
