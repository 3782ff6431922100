//! Findable slots in the order of their tokens: a prompt's longest prefix stands beside its own place.

use std::cmp::Ordering;

use super::Slot;
use crate::hash::Key;

/// A slot, and how many tokens it has in common with the one before it.
#[derive(Debug, Clone, Copy)]
struct Place {
    slot: u32,
    shared: u32,
}

/// Slots by namespace, then by tokens; a prefix comes before what goes on from it.
#[derive(Debug, Default)]
pub(super) struct Order {
    places: Vec<Place>,
    /// Each slot's place; says nothing of one that is not findable.
    ranks: Vec<u32>,
}

/// Where tokens belong, and how many they have in common with the slots on either side.
#[derive(Debug, Clone, Copy)]
struct Spot {
    at: usize,
    before: u32,
    after: u32,
}

/// How many leading tokens agree.
fn common(a: &[u32], b: &[u32]) -> usize {
    // Whole strokes compare as bytes, many times as fast as token by token.
    const STROKE: usize = 64;
    let strokes = a.chunks_exact(STROKE).zip(b.chunks_exact(STROKE));
    let same = STROKE * strokes.take_while(|(a, b)| a == b).count();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

impl Order {
    pub fn new(slots: u32) -> Self {
        Self { places: Vec::with_capacity(slots as usize), ranks: vec![0; slots as usize] }
    }

    fn search(&self, slots: &[Slot], root: Key, tokens: &[u32]) -> Spot {
        let (mut low, mut high) = (0, self.places.len());
        let (mut before, mut after) = (0, 0);
        while low < high {
            let middle = usize::midpoint(low, high);
            let slot = &slots[self.places[middle].slot as usize];
            let (order, shared) = match slot.root.cmp(&root) {
                Ordering::Equal => {
                    // All between two neighbours begins as both do.
                    let skip = before.min(after) as usize;
                    let theirs = slot.findable();
                    let shared = skip + common(&theirs[skip..], &tokens[skip..]);
                    let order = theirs.get(shared).cmp(&tokens.get(shared));
                    (order, shared as u32)
                }
                other => (other, 0),
            };
            if order == Ordering::Greater {
                (high, after) = (middle, shared);
            } else {
                (low, before) = (middle + 1, shared);
            }
        }
        Spot { at: low, before, after }
    }

    /// The most leading tokens of `tokens` that a slot holds.
    pub fn reach(&self, slots: &[Slot], root: Key, tokens: &[u32]) -> u32 {
        let Spot { before, after, .. } = self.search(slots, root, tokens);
        before.max(after)
    }

    /// The same, and in `out` every slot that holds them.
    pub fn longest(&self, slots: &[Slot], root: Key, tokens: &[u32], out: &mut Vec<u32>) -> u32 {
        out.clear();
        let Spot { at, before, after } = self.search(slots, root, tokens);
        let longest = before.max(after);
        if longest == 0 {
            return 0;
        }
        if before == longest {
            let left = self.places[..at].iter().rev();
            let mut shared = longest;
            out.extend(
                left.take_while(|p| std::mem::replace(&mut shared, p.shared) >= longest)
                    .map(|p| p.slot),
            );
        }
        if after == longest {
            let mut first = true;
            let right = self.places[at..].iter();
            let same = |p: &&Place| std::mem::take(&mut first) || p.shared >= longest;
            out.extend(right.take_while(same).map(|p| p.slot));
        }
        longest
    }

    /// Enters `slot`, whose findable tokens stand.
    pub fn insert(&mut self, slots: &[Slot], slot: u32) {
        let entered = &slots[slot as usize];
        let Spot { at, before, after } = self.search(slots, entered.root, entered.findable());
        if let Some(next) = self.places.get_mut(at) {
            next.shared = after;
        }
        self.places.insert(at, Place { slot, shared: before });
        self.count_from(at);
    }

    /// Takes `slot` out, whatever its tokens are by now.
    pub fn remove(&mut self, slot: u32) {
        let at = self.ranks[slot as usize] as usize;
        let gone = self.places.remove(at);
        if let Some(next) = self.places.get_mut(at) {
            next.shared = next.shared.min(gone.shared);
        }
        self.count_from(at);
    }

    /// `slot` has more findable tokens than the `old` first. It moves where it has passed another.
    pub fn extend(&mut self, slots: &[Slot], slot: u32, old: u32) {
        let after = self.ranks[slot as usize] as usize + 1;
        let Some(next) = self.places.get_mut(after).filter(|next| next.shared == old) else {
            return;
        };
        let (ours, theirs) =
            (slots[slot as usize].findable(), slots[next.slot as usize].findable());
        let shared = old as usize + common(&ours[old as usize..], &theirs[old as usize..]);
        if ours.get(shared) <= theirs.get(shared) {
            next.shared = shared as u32;
        } else {
            self.remove(slot);
            self.insert(slots, slot);
        }
    }

    fn count_from(&mut self, at: usize) {
        for (place, rank) in self.places[at..].iter().zip(at as u32..) {
            self.ranks[place.slot as usize] = rank;
        }
    }

    /// Every findable slot, in order.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().map(|place| place.slot)
    }

    /// Checks order, shared lengths and places from scratch.
    pub fn validate(&self, slots: &[Slot]) -> Result<(), String> {
        for (at, &Place { slot, shared }) in self.places.iter().enumerate() {
            if self.ranks[slot as usize] as usize != at {
                return Err(format!(
                    "slot {slot} stands at {at}, not at {}",
                    self.ranks[slot as usize]
                ));
            }
            let Some(before) = at.checked_sub(1).map(|i| &slots[self.places[i].slot as usize])
            else {
                continue;
            };
            let here = &slots[slot as usize];
            if (before.root, before.findable()) > (here.root, here.findable()) {
                return Err(format!("slot {slot} stands behind a later one"));
            }
            let same = if before.root == here.root {
                common(before.findable(), here.findable())
            } else {
                0
            };
            if same != shared as usize {
                return Err(format!(
                    "slot {slot} shares {same} tokens with the one before it, not {shared}"
                ));
            }
        }
        Ok(())
    }
}
