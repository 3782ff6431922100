//! What lru would have hit with as many blocks.

use super::Tuning;
use super::idle::Idle;

/// Lru holds the blocks used since some time, as many as there are blocks: when a block was used last
/// tells whether lru would have hit it. Two numbers say it for all blocks together.
#[derive(Debug, Clone, Default)]
pub(super) struct Rival {
    /// Lru would still have what was used since then.
    since: u64,
    /// How many blocks that is.
    held: u64,
    /// Hits ahead of lru, and accesses they were won in; both fade.
    lead: f64,
    accesses: f64,
    doubt: f64,
}

impl Rival {
    /// A block was used: `last` is when it was before, if that is known, `hit` whether it was still
    /// there.
    pub fn access(
        &mut self,
        last: Option<u64>,
        hit: bool,
        capacity: u32,
        idle: &Idle,
        tuning: Tuning,
    ) {
        let lru = last.is_some_and(|time| time >= self.since);
        self.lead += f64::from(i8::from(hit) - i8::from(lru));
        self.accesses += 1.0;
        if !lru {
            self.held += 1;
            while self.held > u64::from(capacity) {
                let Some((next, gone)) = idle.after(self.since) else { break };
                self.since = next;
                self.held = self.held.saturating_sub(gone);
            }
        }
        let budget = tuning.budget * (self.accesses + tuning.grace * f64::from(capacity));
        self.doubt = (1.0 + self.lead / budget).clamp(0.0, 1.0);
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
    /// lru is not ahead, 0 once it is ahead by the budget, when only its own victim dies.
    pub fn doubt(&self) -> f64 {
        self.doubt
    }

    /// Forgets all but `keep` of the past.
    pub fn fade(&mut self, keep: f64) {
        self.lead *= keep;
        self.accesses *= keep;
    }
}
