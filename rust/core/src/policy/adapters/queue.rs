//! All members of a bounded list in their order, those that may not be evicted now, too.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::policy::{View, grow};
use crate::pool::BlockId;

/// Blocks in the order in which they came, of those that came at one time the deepest first.
///
/// Nothing is searched for: the entry of a block that has moved or left stays where it is until it comes to
/// the front, or until such entries are more than the members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    /// Those that came before the newest time, in their order.
    settled: VecDeque<Entry>,
    /// Those that came at `newest`, by depth and block.
    fresh: BinaryHeap<Reverse<(u64, u32)>>,
    newest: u64,
    /// Of each block, how often it came or left: odd while it is a member.
    turns: Vec<u32>,
    members: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    since: u64,
    block: BlockId,
    /// It is outdated if the block's has another value.
    turn: u32,
}

/// Outdated entries that may stay however few members there are.
const OUTDATED: usize = 64;

impl Queue {
    pub fn len(&self) -> usize {
        self.members
    }

    /// The member that leaves first, and when it came.
    pub fn first(&mut self) -> Option<(BlockId, u64)> {
        let turns = &self.turns[..];
        while let Some(&Entry { since, block, turn }) = self.settled.front() {
            if turns[block as usize] == turn {
                return Some((block, since));
            }
            self.settled.pop_front();
        }
        while let Some(&Reverse((place, turn))) = self.fresh.peek() {
            if turns[place as u32 as usize] == turn {
                return Some((place as u32, self.newest));
            }
            self.fresh.pop();
        }
        None
    }

    /// Puts `block`, which is that deep in its prefix, behind all that came before the time `since`, wherever
    /// it was before. Times only grow.
    pub fn put(&mut self, block: BlockId, since: u64, depth: u32) {
        debug_assert!(since >= self.newest);
        self.take(block);
        if since != self.newest {
            self.settle();
            self.newest = since;
        }
        grow(&mut self.turns, block, 0);
        let turn = &mut self.turns[block as usize];
        *turn = turn.wrapping_add(1);
        let place = (u64::from(u32::MAX - depth) << 32) | u64::from(block);
        self.fresh.push(Reverse((place, *turn)));
        self.members += 1;
    }

    /// No more come at the newest time.
    fn settle(&mut self) {
        let mut fresh = std::mem::take(&mut self.fresh).into_vec();
        fresh.sort_unstable_by_key(|&Reverse(entry)| entry);
        for Reverse((place, turn)) in fresh.drain(..) {
            let block = place as u32;
            if self.turns[block as usize] == turn {
                self.settled.push_back(Entry { since: self.newest, block, turn });
            }
        }
        self.fresh = fresh.into();
    }

    /// Takes `block` out; false if it is no member.
    pub fn take(&mut self, block: BlockId) -> bool {
        let Some(turn) = self.turns.get_mut(block as usize).filter(|turn| **turn % 2 == 1) else {
            return false;
        };
        *turn = turn.wrapping_add(1);
        self.members -= 1;
        if self.entries() > 2 * self.members + OUTDATED {
            self.forget_outdated();
        }
        true
    }

    fn entries(&self) -> usize {
        self.settled.len() + self.fresh.len()
    }

    #[cold]
    fn forget_outdated(&mut self) {
        let turns = &self.turns[..];
        self.settled.retain(|entry| turns[entry.block as usize] == entry.turn);
        self.fresh.retain(|&Reverse((place, turn))| turns[place as u32 as usize] == turn);
    }

    /// Takes out the member that leaves first, if there are more than `most`.
    pub fn over(&mut self, most: usize) -> Option<BlockId> {
        if self.members <= most {
            return None;
        }
        let (block, _) = self.first()?;
        self.take(block);
        Some(block)
    }
}

/// That share of all blocks, rounded down.
pub(crate) fn share(view: View<'_>, percent: u32) -> usize {
    (u64::from(view.pool.usable()) * u64::from(percent) / 100) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::policy::adapters::rank_order::pack;

    /// What the queue is: its members by their ranks.
    #[derive(Default)]
    struct Ranked(BTreeSet<(u128, BlockId)>);

    impl Ranked {
        fn put(&mut self, block: BlockId, since: u64, depth: u32) {
            self.take(block);
            self.0.insert((pack(0, since, depth), block));
        }

        fn take(&mut self, block: BlockId) -> bool {
            let before = self.0.len();
            self.0.retain(|&(_, member)| member != block);
            self.0.len() < before
        }

        fn over(&mut self, most: usize) -> Option<BlockId> {
            let first = if self.0.len() > most { self.0.pop_first() } else { None };
            first.map(|(_, block)| block)
        }

        fn first(&self) -> Option<(BlockId, u64)> {
            self.0.first().map(|&(rank, block)| (block, (rank >> 32) as u64))
        }
    }

    fn dice(seed: &mut u64) -> u32 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*seed >> 33) as u32
    }

    /// Operations of `most` blocks at the most, of 300 that are up to seven deep.
    fn compare(most: u32) {
        let (mut queue, mut ranked) = (Queue::default(), Ranked::default());
        let (mut seed, mut since, mut left) = (u64::from(most), 1, most);
        for step in 0..20_000 {
            if left == 0 {
                (since, left) = (since + 1, 1 + dice(&mut seed) % most);
            }
            left -= 1;
            let (block, depth) = (dice(&mut seed) % 300, dice(&mut seed) % 7);
            match dice(&mut seed) % 8 {
                0..4 => {
                    queue.put(block, since, depth);
                    ranked.put(block, since, depth);
                }
                4 | 5 => assert_eq!(queue.take(block), ranked.take(block)),
                6 => assert_eq!(queue.over(100), ranked.over(100)),
                _ if step % 64 == 0 => {
                    let emptied: Vec<_> = std::iter::from_fn(|| queue.over(0)).collect();
                    let expected: Vec<_> = std::iter::from_fn(|| ranked.over(0)).collect();
                    assert_eq!(emptied, expected);
                }
                _ => assert_eq!(queue.first(), ranked.first()),
            }
            assert_eq!(queue.len(), ranked.0.len());
            assert!(queue.entries() <= 3 * 300, "{} entries", queue.entries());
        }
    }

    #[test]
    fn the_order_is_that_of_the_ranks() {
        for most in [1, 2, 40, 1_000, 20_000] {
            compare(most);
        }
    }
}
