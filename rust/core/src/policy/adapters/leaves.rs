//! The blocks that may be evicted, as lists from which one can be drawn.

use std::collections::BTreeMap;

use crate::policy::{View, grow};
use crate::pool::{BlockId, NIL, Pool};

/// A list for each retention priority. What leaves a list has the last of it put in its place, so each change
/// is O(1).
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaves {
    lists: BTreeMap<u8, Vec<BlockId>>,
    /// Where a block stands, and in the list of which priority.
    places: Vec<(u32, u8)>,
}

impl Leaves {
    pub fn put(&mut self, block: BlockId, view: View<'_>) {
        grow(&mut self.places, block, (NIL, 0));
        let priority = view.pool.priority(block);
        let list = self.lists.entry(priority).or_default();
        self.places[block as usize] = (list.len() as u32, priority);
        list.push(block);
    }

    /// False if it is in no list.
    pub fn take(&mut self, block: BlockId) -> bool {
        let Some(&(at, priority)) = self.places.get(block as usize).filter(|&&(at, _)| at != NIL)
        else {
            return false;
        };
        self.places[block as usize].0 = NIL;
        let list = self.lists.get_mut(&priority).expect("the list that it was put into");
        list.swap_remove(at as usize);
        match list.get(at as usize) {
            Some(&moved) => self.places[moved as usize].0 = at,
            None if list.is_empty() => drop(self.lists.remove(&priority)),
            None => {}
        }
        true
    }

    /// Those of the lowest retention priority.
    pub fn lowest(&self) -> &[BlockId] {
        self.lists.first_key_value().map_or(&[], |(_, list)| list)
    }

    /// Whether a block is among [`Leaves::lowest`].
    pub fn is_lowest(&self, block: BlockId) -> bool {
        let lowest = self.lists.first_key_value().map(|(&priority, _)| priority);
        let place = self.places.get(block as usize).filter(|&&(at, _)| at != NIL);
        place.is_some_and(|&(_, priority)| Some(priority) == lowest)
    }

    pub fn validate(&self, pool: &Pool) -> Result<(), String> {
        let mut held = 0;
        for (&priority, list) in &self.lists {
            held += list.len();
            for (at, &block) in list.iter().enumerate() {
                if self.places[block as usize] != (at as u32, priority) {
                    return Err(format!("block {block} is misplaced"));
                }
                if !pool.is_evictable(block) || pool.priority(block) != priority {
                    return Err(format!("block {block} may not be evicted at {priority}"));
                }
            }
        }
        let leaves = (0..pool.created()).filter(|&b| pool.is_evictable(b)).count();
        if leaves == held { Ok(()) } else { Err(format!("{held} held, {leaves} may be evicted")) }
    }
}
