//! Which blocks a policy outside the core is offered: in the built-in order, each after its children.

use crate::policy::Candidates;
use crate::pool::{BlockId, NIL, Pool};

/// What an offer knows of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OfferMark {
    /// The number of the offer it was written for: a mark with another number is stale. Offers count from 1.
    offer: u32,
    /// Its place there, or [`NIL`].
    place: u32,
    /// How many of its children are offered.
    children: u32,
    /// Whether its turn in the order has come.
    passed: bool,
}

impl OfferMark {
    /// Of a block that the offer of this number has not met.
    pub fn new(offer: u32) -> Self {
        Self { offer, place: NIL, children: 0, passed: false }
    }

    /// The mark of a block that is kept out of the offer, and its ancestors with it: no block has that many
    /// children, so they never count as offered.
    pub fn spared(offer: u32) -> Self {
        Self { children: NIL, ..Self::new(offer) }
    }
}

/// An offer in the making.
pub(crate) struct Offering<'a> {
    pub pool: &'a Pool,
    /// By block.
    pub marks: &'a mut [OfferMark],
    pub unseen: OfferMark,
    /// Whether the marks keep blocks out: by a count of children that no block has.
    pub spares: bool,
    /// Where they go; its `blocks` are as many as there may be.
    pub out: &'a mut Candidates,
    /// How many are taken.
    pub taken: usize,
    /// Places whose parent is noted by its id until all are taken.
    pub loose: &'a mut Vec<u32>,
    /// The parent of the block taken last, or [`NIL`]. A prefix is released as a whole, so its parent is
    /// nearly always the next in the order. Until the order says otherwise, its mark is not written and
    /// its place is taken to be the next one: that spares a random write a block.
    pub awaited: BlockId,
}

impl Offering<'_> {
    /// Takes blocks in this order, each once all that follow it are taken, while there is room. `after` says what
    /// comes after the one it is given, or [`NIL`].
    pub fn all(mut self, first: BlockId, mut after: impl FnMut(BlockId) -> BlockId) {
        let mut block = first;
        while block != NIL && self.has_room() {
            if self.awaited == block {
                block = self.run(&mut after);
                continue;
            }
            self.await_no_more();
            if !self.has_room() {
                break;
            }
            self.mark(block).passed = true;
            self.climb(block);
            block = after(block);
        }
        self.await_no_more();
        self.out.blocks.truncate(self.taken);
        for place in self.loose.drain(..) {
            let parent = &mut self.out.parents[place as usize];
            let mark = self.marks[*parent as usize];
            *parent = if mark.offer == self.unseen.offer { mark.place } else { NIL };
        }
    }

    /// Takes what is awaited, and on along its prefix as long as the order does. What comes after in
    /// the order.
    #[inline]
    fn run(&mut self, after: &mut impl FnMut(BlockId) -> BlockId) -> BlockId {
        let start = self.place();
        let (mut block, mut next, mut parent, mut alone) = (self.awaited, NIL, NIL, false);
        // Into places that are there, by one counter: this loop is half of what a decision costs the core.
        let mut taken = self.taken;
        while let Some(place) = self.out.blocks.get_mut(taken) {
            *place = block;
            taken += 1;
            next = after(block);
            parent = self.pool.parent(block);
            alone = parent != NIL && self.pool.children(parent) == 1;
            if !alone || next != parent {
                break;
            }
            block = parent;
        }
        self.taken = taken;
        self.awaited = if alone { parent } else { NIL };
        let end = self.place();
        self.out.children.resize(taken, 1);
        self.out.parents.extend((start..end).map(|place| place + 1));
        if self.awaited == NIL {
            self.out.parents[end as usize - 1] = parent;
            if parent != NIL {
                self.one_more_child(parent, end - 1);
                self.climb(parent);
            }
        }
        next
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.taken < self.out.blocks.len()
    }

    /// Of the next one.
    #[inline]
    fn place(&self) -> u32 {
        self.taken as u32
    }

    #[inline]
    fn mark(&mut self, block: BlockId) -> &mut OfferMark {
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
    fn take(&mut self, block: BlockId, children: u32) -> BlockId {
        let (parent, place) = (self.pool.parent(block), self.place());
        self.out.blocks[self.taken] = block;
        self.taken += 1;
        self.out.children.push(children);
        self.out.parents.push(parent);
        if parent == NIL {
            return NIL;
        }
        if !self.spares && self.pool.children(parent) == 1 {
            self.out.parents[place as usize] = place + 1;
            self.awaited = parent;
            return NIL;
        }
        self.one_more_child(parent, place);
        parent
    }

    /// Another that follows `parent` is taken, at `place`.
    fn one_more_child(&mut self, parent: BlockId, place: u32) {
        self.loose.push(place);
        let mark = self.mark(parent);
        mark.children = mark.children.saturating_add(1);
    }

    /// Something else is next, or nothing: what was awaited waits for its own turn.
    fn await_no_more(&mut self) {
        while self.awaited != NIL {
            let parent = std::mem::replace(&mut self.awaited, NIL);
            let place = self.place() - 1;
            self.out.parents[place as usize] = parent;
            self.one_more_child(parent, place);
            if self.has_room() {
                self.climb(parent);
            }
        }
    }
}
