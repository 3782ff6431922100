//! Places at the end of a list, as numbers that only grow.

/// Blocks of one operation share a number, so that the deeper one is evicted first; what is put behind them
/// has one of its own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    tick: u64,
    count: u64,
}

impl Turns {
    /// For a block that is used at `tick`.
    pub fn at(&mut self, tick: u64) -> u64 {
        if tick != self.tick {
            (self.tick, self.count) = (tick, self.count + 1);
        }
        self.count
    }

    /// Behind all that came so far.
    pub fn next(&mut self) -> u64 {
        self.at(u64::MAX);
        self.tick = 0;
        self.count
    }
}
