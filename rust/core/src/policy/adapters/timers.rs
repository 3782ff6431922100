//! Blocks by the time at which something is due for them.

use super::heap::{Entry, Heap};
use crate::policy::grow;
use crate::pool::{BlockId, NIL};

/// At most one time a block.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Heap,
    places: Vec<u32>,
}

impl Timers {
    /// `block` is due `at`, or not at all; whatever was set before is forgotten.
    pub fn set(&mut self, block: BlockId, at: Option<u64>) {
        grow(&mut self.places, block, NIL);
        let place = self.places[block as usize];
        if place != NIL {
            self.heap.take_out(&mut self.places, place as usize);
        }
        if let Some(at) = at {
            self.heap.push(&mut self.places, Entry::new(0, u128::from(at), block));
        }
    }

    /// Takes out the first that is due by `now`; of equals, the lowest id.
    pub fn pop_until(&mut self, now: u64) -> Option<BlockId> {
        let first = self.heap.first().filter(|entry| entry.rank() <= u128::from(now))?;
        self.heap.take_out(&mut self.places, 0);
        Some(first.block())
    }

    /// When `block` is due.
    pub fn due(&self, block: BlockId) -> Option<u64> {
        let at = self.places.get(block as usize).filter(|&&at| at != NIL)?;
        Some(self.heap.entries()[*at as usize].rank() as u64)
    }

    /// How many are due some time.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is out of order, if anything.
    ///
    /// # Errors
    /// One line.
    pub fn validate(&self) -> Result<(), String> {
        self.heap.validate(&self.places).map_err(|fault| format!("timers: {fault}"))
    }
}
