//! SIEVE: a FIFO whose hand spares what was used since it last came by, without moving it (Zhang et
//! al., NSDI 2024).

use crate::policy::adapters::class_heads::{Classes, Heads};
use crate::policy::{BlockAccess, View, grow};
use crate::pool::BlockId;

#[derive(Debug, Clone, Copy, Default)]
struct Column {
    /// Its place in the queue.
    place: u128,
    /// Since the hand came by.
    used: bool,
    /// The retention priority that it stands at, which names the hand that goes over it.
    bucket: u8,
}

/// Where a hand is in the queue, and the class of the blocks that it has not reached yet.
#[derive(Debug, Clone, Copy, Default)]
struct Hand {
    place: u128,
    ahead: usize,
}

impl Hand {
    fn start_anew(&mut self) {
        *self = Self { place: 0, ahead: 1 - self.ahead };
    }
}

/// The hand moves from the oldest on. Blocks ahead of it are one class, those behind it the other;
/// when it starts anew, the two change their parts. It does so behind the newest block, even if others
/// come before the next one must be evicted.
///
/// Each retention priority has a hand of its own, which meets no blocks but those of that priority: what
/// is evicted at one moves no hand of another, and the two classes stay what they are to each hand. A block
/// whose priority changes keeps its place in the queue.
#[derive(Debug, Clone, Default)]
pub struct Sieve {
    columns: Vec<Column>,
    /// The hand of each retention priority. A missing entry stands for a hand at the start of the queue.
    hands: Vec<Hand>,
    newest: u128,
}

impl Sieve {
    fn hand(&self, bucket: u8) -> Hand {
        self.hands.get(bucket as usize).copied().unwrap_or_default()
    }

    fn hand_mut(&mut self, bucket: u8) -> &mut Hand {
        if self.hands.len() <= bucket as usize {
            self.hands.resize(bucket as usize + 1, Hand::default());
        }
        &mut self.hands[bucket as usize]
    }
}

impl Classes for Sieve {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn insert(&mut self, block: BlockId, _: BlockAccess<'_>, view: View<'_>) {
        grow(&mut self.columns, block, Column::default());
        // Each its own, in the order of `pack` and the heap: the hand must pass no two at once.
        let deeper = u32::MAX - view.pool.depth(block);
        let place = (u128::from(view.now) << 64) | (u128::from(deeper) << 32) | u128::from(block);
        self.columns[block as usize] = Column { place, ..Column::default() };
        self.newest = self.newest.max(place);
    }

    fn hit(&mut self, block: BlockId, _: BlockAccess<'_>, _: View<'_>) {
        self.columns[block as usize].used = true;
    }

    fn stands_at(&mut self, block: BlockId, bucket: u8) {
        self.columns[block as usize].bucket = bucket;
    }

    fn class(&self, block: BlockId) -> usize {
        let Column { place, bucket, .. } = self.columns[block as usize];
        let hand = self.hand(bucket);
        if place > hand.place { hand.ahead } else { 1 - hand.ahead }
    }

    fn rank(&self, block: BlockId, _: View<'_>) -> u128 {
        self.columns[block as usize].place
    }

    fn choose(&mut self, heads: Heads<'_>, _: View<'_>) -> usize {
        let hand = self.hand_mut(heads.bucket());
        if heads.is_empty(hand.ahead) {
            hand.start_anew();
        }
        hand.ahead
    }

    fn spare(&mut self, block: BlockId, _: View<'_>) -> bool {
        let Column { place, used, bucket } = self.columns[block as usize];
        if used {
            self.columns[block as usize].used = false;
            self.hand_mut(bucket).place = place;
        }
        used
    }

    fn evicted(&mut self, block: BlockId, heads: Heads<'_>) {
        let Column { place, bucket, .. } = self.columns[block as usize];
        let newest = self.newest;
        let hand = self.hand_mut(bucket);
        let is_lowest = heads.bucket() >= bucket || heads.lowest().is_none();
        let before = (heads.bucket() == bucket).then(|| heads.first(hand.ahead)).flatten();
        // The hand came to no other block but the first that is ahead of it.
        if is_lowest && place > hand.place && before.is_none_or(|(_, next)| next > place) {
            hand.place = place;
            if place == newest {
                hand.start_anew();
            }
        }
    }
}
