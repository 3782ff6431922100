//! Which blocks a policy outside the core is offered: in the built-in order, each after its children.

use super::Candidates;
use crate::pool::{BlockId, NIL, Pool};

/// What an offer knows of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mark {
    /// The offer that it was written for; else it says nothing. None is the 0th.
    offer: u32,
    /// Its place there, or [`NIL`].
    place: u32,
    /// How many of its children are offered.
    children: u32,
    /// Whether its turn in the order has come.
    passed: bool,
}

impl Mark {
    /// Of a block that the offer of this number has not met.
    pub fn new(offer: u32) -> Self {
        Self { offer, place: NIL, children: 0, passed: false }
    }

    /// Of one that is kept out, and so are those that it follows: no block has so many children.
    pub fn spared(offer: u32) -> Self {
        Self { children: NIL, ..Self::new(offer) }
    }
}

/// An offer in the making.
pub(super) struct Offering<'a> {
    pub pool: &'a Pool,
    /// How many there may be.
    pub limit: usize,
    /// By block.
    pub marks: &'a mut [Mark],
    pub unseen: Mark,
    /// Whether the marks keep blocks out: by a count of children that no block has.
    pub spares: bool,
    pub out: &'a mut Candidates,
    /// What the last one taken alone follows, or [`NIL`]. A prefix is released as a whole, so it is
    /// nearly always next in the order; until it is known not to be, its mark is left alone.
    pub awaited: BlockId,
}

impl Offering<'_> {
    /// Takes blocks in this order, each once all that follow it are taken, up to the limit.
    pub fn all(mut self, order: impl Iterator<Item = BlockId>) {
        for block in order {
            while self.awaited != NIL && self.awaited != block && self.has_room() {
                self.await_no_more();
            }
            if !self.has_room() {
                break;
            }
            if self.awaited == block {
                self.awaited = NIL;
                self.marks[block as usize] = Mark { place: self.place(), ..self.unseen };
                let parent = self.take(block, 1);
                self.climb(parent);
            } else {
                self.mark(block).passed = true;
                self.climb(block);
            }
        }
        while self.awaited != NIL && self.has_room() {
            self.await_no_more();
        }
        for parent in self.out.parents.iter_mut().filter(|parent| **parent != NIL) {
            let mark = self.marks[*parent as usize];
            *parent = if mark.offer == self.unseen.offer { mark.place } else { NIL };
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.out.blocks.len() < self.limit
    }

    /// Of the next one.
    #[inline]
    fn place(&self) -> u32 {
        self.out.blocks.len() as u32
    }

    #[inline]
    fn mark(&mut self, block: BlockId) -> &mut Mark {
        let mark = &mut self.marks[block as usize];
        if mark.offer != self.unseen.offer {
            *mark = self.unseen;
        }
        mark
    }

    /// Takes a block if its turn has come and all its children are taken, and so on with what it
    /// follows.
    fn climb(&mut self, block: BlockId) {
        let mut next = block;
        while next != NIL && self.has_room() {
            let place = self.place();
            let mark = &mut self.marks[next as usize];
            if !mark.passed || mark.place != NIL || mark.children != self.pool.children(next) {
                break;
            }
            mark.place = place;
            let children = mark.children;
            next = self.take(next, children);
        }
    }

    /// The block that this one follows, which has one child more now; [`NIL`] if that is left open.
    #[inline]
    fn take(&mut self, block: BlockId, children: u32) -> BlockId {
        let parent = self.pool.parent(block);
        self.out.blocks.push(block);
        self.out.children.push(children);
        self.out.parents.push(parent);
        if parent == NIL {
            return NIL;
        }
        if !self.spares && self.pool.children(parent) == 1 {
            self.awaited = parent;
            return NIL;
        }
        let mark = self.mark(parent);
        mark.children = mark.children.saturating_add(1);
        parent
    }

    fn await_no_more(&mut self) {
        let parent = std::mem::replace(&mut self.awaited, NIL);
        let mark = self.mark(parent);
        mark.children = mark.children.saturating_add(1);
        self.climb(parent);
    }
}
