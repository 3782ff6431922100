//! Findable slots in the order of their tokens: a prompt's longest prefix stands beside its own place.

use std::cmp::Ordering;

use super::Slot;
use crate::hash::Key;
use crate::pool::NIL;

/// A findable slot's links: in a list in the order of tokens, and in a treap (a binary tree) over it.
#[derive(Debug, Clone, Copy)]
struct Place {
    before: u32,
    after: u32,
    /// Tokens in common with the slot before it.
    shared: u32,
    parent: u32,
    /// Subtrees of what comes before it, and after it.
    children: [u32; 2],
}

const NOWHERE: Place =
    Place { before: NIL, after: NIL, shared: 0, parent: NIL, children: [NIL, NIL] };

/// Slots by namespace, then by tokens; a prefix comes before what goes on from it.
#[derive(Debug)]
pub(super) struct Order {
    /// Of each slot; says nothing of one that is not findable.
    places: Vec<Place>,
    root: u32,
}

/// Where tokens belong, and how many they have in common with the slots on either side.
#[derive(Debug, Clone, Copy)]
struct Spot {
    before: u32,
    after: u32,
    shared_before: u32,
    shared_after: u32,
    /// The slot under which they would stand, and on which side.
    parent: u32,
    side: usize,
}

/// How many leading tokens agree.
fn common(a: &[u32], b: &[u32]) -> usize {
    // Whole strokes compare as bytes, many times as fast as token by token.
    const STROKE: usize = 64;
    let strokes = a.chunks_exact(STROKE).zip(b.chunks_exact(STROKE));
    let same = STROKE * strokes.take_while(|(a, b)| a == b).count();
    same + a[same..].iter().zip(&b[same..]).take_while(|(a, b)| a == b).count()
}

/// A slot's height in the tree: the highest is the root. Scattered, so that paths stay short.
fn height(slot: u32) -> u64 {
    Key(u128::from(slot)).mixed()
}

impl Order {
    pub fn new(slots: u32) -> Self {
        Self { places: vec![NOWHERE; slots as usize], root: NIL }
    }

    fn search(&self, slots: &[Slot], root: Key, tokens: &[u32]) -> Spot {
        let (mut before, mut after) = (NIL, NIL);
        let (mut shared_before, mut shared_after) = (0, 0);
        let (mut parent, mut side, mut next) = (NIL, 0, self.root);
        while next != NIL {
            let slot = &slots[next as usize];
            let (order, shared) = match slot.root.cmp(&root) {
                Ordering::Equal => {
                    // All entries between two neighbours share the prefix that both have.
                    let skip = shared_before.min(shared_after) as usize;
                    let theirs = slot.findable();
                    let shared = skip + common(&theirs[skip..], &tokens[skip..]);
                    let order = theirs.get(shared).cmp(&tokens.get(shared));
                    (order, shared as u32)
                }
                other => (other, 0),
            };
            parent = next;
            if order == Ordering::Greater {
                (after, shared_after, side) = (next, shared, 0);
            } else {
                (before, shared_before, side) = (next, shared, 1);
            }
            next = self.places[next as usize].children[side];
        }
        Spot { before, after, shared_before, shared_after, parent, side }
    }

    /// The most leading tokens of `tokens` that a slot holds.
    pub fn reach(&self, slots: &[Slot], root: Key, tokens: &[u32]) -> u32 {
        let Spot { shared_before, shared_after, .. } = self.search(slots, root, tokens);
        shared_before.max(shared_after)
    }

    /// As [`Order::reach`], and fills `out` with every slot that holds those tokens.
    pub fn longest(&self, slots: &[Slot], root: Key, tokens: &[u32], out: &mut Vec<u32>) -> u32 {
        out.clear();
        let spot = self.search(slots, root, tokens);
        let longest = spot.shared_before.max(spot.shared_after);
        if longest == 0 {
            return 0;
        }
        let (mut at, mut shared) = (spot.before, spot.shared_before);
        while at != NIL && shared >= longest {
            out.push(at);
            (at, shared) = (self.places[at as usize].before, self.places[at as usize].shared);
        }
        let (mut at, mut shared) = (spot.after, spot.shared_after);
        while at != NIL && shared >= longest {
            out.push(at);
            at = self.places[at as usize].after;
            shared = self.places.get(at as usize).map_or(0, |place| place.shared);
        }
        longest
    }

    /// Enters `slot`, whose findable tokens stand.
    pub fn insert(&mut self, slots: &[Slot], slot: u32) {
        let entered = &slots[slot as usize];
        let spot = self.search(slots, entered.root, entered.findable());
        let Spot { before, after, parent, .. } = spot;
        let shared = spot.shared_before;
        self.places[slot as usize] = Place { before, after, shared, parent, ..NOWHERE };
        if let Some(place) = self.places.get_mut(before as usize) {
            place.after = slot;
        }
        if let Some(place) = self.places.get_mut(after as usize) {
            (place.before, place.shared) = (slot, spot.shared_after);
        }
        match self.places.get_mut(parent as usize) {
            Some(place) => place.children[spot.side] = slot,
            None => self.root = slot,
        }
        while let Some(above) = self.above(slot)
            && height(above) < height(slot)
        {
            self.lift(slot);
        }
    }

    /// Takes `slot` out, whatever its tokens are by now.
    pub fn remove(&mut self, slot: u32) {
        while let Some(child) = self.higher_child(slot) {
            self.lift(child);
        }
        let gone = self.places[slot as usize];
        self.hang(NIL, gone.parent, slot);
        if let Some(place) = self.places.get_mut(gone.before as usize) {
            place.after = gone.after;
        }
        if let Some(place) = self.places.get_mut(gone.after as usize) {
            place.before = gone.before;
            place.shared = place.shared.min(gone.shared);
        }
    }

    fn above(&self, slot: u32) -> Option<u32> {
        Some(self.places[slot as usize].parent).filter(|&parent| parent != NIL)
    }

    fn higher_child(&self, slot: u32) -> Option<u32> {
        let children = self.places[slot as usize].children.into_iter();
        children.filter(|&child| child != NIL).max_by_key(|&child| height(child))
    }

    /// Puts `slot` in the place of its parent, which becomes its child; the order stays.
    fn lift(&mut self, slot: u32) {
        let below = self.places[slot as usize].parent;
        let Place { parent, children, .. } = self.places[below as usize];
        let side = usize::from(children[1] == slot);
        let inner = std::mem::replace(&mut self.places[slot as usize].children[1 - side], below);
        self.places[below as usize].children[side] = inner;
        if let Some(place) = self.places.get_mut(inner as usize) {
            place.parent = below;
        }
        self.places[below as usize].parent = slot;
        self.places[slot as usize].parent = parent;
        self.hang(slot, parent, below);
    }

    /// Makes `slot` the child of `parent` in the place of `instead`.
    fn hang(&mut self, slot: u32, parent: u32, instead: u32) {
        match self.places.get_mut(parent as usize) {
            Some(place) => place.children[usize::from(place.children[1] == instead)] = slot,
            None => self.root = slot,
        }
    }

    /// `slot` has more findable tokens than the `old` first. It moves where it has passed another.
    pub fn extend(&mut self, slots: &[Slot], slot: u32, old: u32) {
        let after = self.places[slot as usize].after;
        let Some(next) = self.places.get_mut(after as usize).filter(|next| next.shared == old)
        else {
            return;
        };
        let (ours, theirs) = (slots[slot as usize].findable(), slots[after as usize].findable());
        let shared = old as usize + common(&ours[old as usize..], &theirs[old as usize..]);
        if ours.get(shared) <= theirs.get(shared) {
            next.shared = shared as u32;
        } else {
            self.remove(slot);
            self.insert(slots, slot);
        }
    }

    /// Every findable slot, in order.
    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NIL).then_some(slot);
        let first = std::iter::successors(some(self.root), move |&slot| {
            some(self.places[slot as usize].children[0])
        });
        std::iter::successors(first.last(), move |&slot| some(self.places[slot as usize].after))
    }

    /// Checks order, shared lengths and the tree from scratch.
    pub fn validate(&self, slots: &[Slot]) -> Result<(), String> {
        if !self.tree().eq(self.slots()) {
            return Err("the tree has other slots than the chain".into());
        }
        let mut before = NIL;
        for slot in self.slots() {
            let place = &self.places[slot as usize];
            if place.before != before {
                return Err(format!("slot {slot} follows {}, not {before}", place.before));
            }
            self.validate_tree(slot)?;
            let here = &slots[slot as usize];
            let mut same = 0;
            if let Some(before) = slots.get(before as usize) {
                if (before.root, before.findable()) > (here.root, here.findable()) {
                    return Err(format!("slot {slot} stands behind a later one"));
                }
                if before.root == here.root {
                    same = common(before.findable(), here.findable());
                }
            }
            if same != place.shared as usize {
                let shared = place.shared;
                return Err(format!(
                    "slot {slot} shares {same} tokens with the one before it, not {shared}"
                ));
            }
            before = slot;
        }
        Ok(())
    }

    /// Whether the parent and the children of `slot` have links back to it.
    fn validate_tree(&self, slot: u32) -> Result<(), String> {
        let Place { parent, children, .. } = self.places[slot as usize];
        let stands = match self.places.get(parent as usize) {
            Some(above) => above.children.contains(&slot) && height(parent) > height(slot),
            None => self.root == slot,
        };
        let child_of = |&child: &u32| child == NIL || self.places[child as usize].parent == slot;
        if stands && children.iter().all(child_of) {
            return Ok(());
        }
        Err(format!("slot {slot} stands wrongly in the tree"))
    }

    /// Every slot of the tree, from its first to its last.
    fn tree(&self) -> impl Iterator<Item = u32> + '_ {
        let (mut above, mut next) = (Vec::new(), self.root);
        std::iter::from_fn(move || {
            while next != NIL {
                above.push(next);
                next = self.places[next as usize].children[0];
            }
            let slot = above.pop()?;
            next = self.places[slot as usize].children[1];
            Some(slot)
        })
    }
}
