//! Random stores, locks, evictions and lookups against the model, with everything checked.

use kvframe_core::index::radix::Path;
use kvframe_core::locks::Receipt;
use kvframe_core::{BlockId, Error, Key, NIL};

use crate::dice::Dice;
use crate::harness::{HERE, Harness, THERE};
use crate::model::Model;

/// Random calls, and the model beside them.
pub struct Walk {
    h: Harness,
    model: Model,
    dice: Dice,
    held: Vec<(Receipt, Vec<BlockId>)>,
    spent: Vec<Receipt>,
    tokens: Vec<u32>,
    marks: Vec<(u32, Key)>,
    seen: Seen,
}

/// What matters in a walk; it is counted, so that one that tests nothing is noticed.
#[derive(Clone, Copy)]
enum What {
    Store,
    Split,
    Copy,
    Lock,
    Evict,
    Hit,
    Partial,
}

/// How often each of [`What`] happened.
#[derive(Debug, Default, Clone, Copy)]
pub struct Seen([u32; 7]);

impl Seen {
    fn note(&mut self, what: What, yes: bool) {
        self.0[what as usize] += u32::from(yes);
    }

    fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, more)| *all += more);
    }
}

impl Walk {
    /// A small tree, of a size that the dice choose.
    pub fn new(mut dice: Dice) -> Self {
        let (blocks, size) = (dice.between(8, 80), dice.between(1, 4));
        Self {
            h: Harness::new(blocks, size),
            model: Model::default(),
            dice,
            held: Vec::new(),
            spent: Vec::new(),
            tokens: Vec::new(),
            marks: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Draws a path: few tokens and seldom a mark, so that paths meet and part everywhere.
    fn draw(&mut self) -> Key {
        let dice = &mut self.dice;
        let (len, rare) = (dice.below(9 * self.h.size), dice.below(6) + 1);
        self.tokens.clear();
        self.tokens.extend((0..len).map(|_| u32::from(dice.one_in(rare))));
        self.marks.clear();
        for block in 0..len.div_ceil(self.h.size) as u32 {
            if dice.one_in(12) {
                self.marks.push((block, Key(7 + u128::from(dice.one_in(2)))));
            }
        }
        if dice.one_in(5) { THERE } else { HERE }
    }

    /// One call.
    pub fn step(&mut self) {
        match self.dice.below(10) {
            0..=2 => self.store(),
            3..=4 => self.lock(),
            5..=6 => self.unlock(),
            7 => self.evict(),
            8 => self.replay(),
            _ => self.look(),
        }
        assert_eq!(self.h.sizes(), self.model.sizes());
        assert_eq!(self.h.locks.len(), self.held.len());
    }

    fn store(&mut self) {
        let root = self.draw();
        let path = Path { root, tokens: &self.tokens, marks: &self.marks };
        let found = self.model.find(path, self.h.size).len();
        let reuse = !self.dice.one_in(4);
        let new = path.tokens.len() / self.h.size - if reuse { found } else { 0 };
        if new > self.h.pool.free() as usize {
            return self.evict();
        }
        let nodes = self.h.tree.nodes();
        let (blocks, known) = self.h.store(path, reuse);
        self.seen.note(What::Store, new > 0);
        self.seen.note(What::Split, self.h.tree.nodes() > nodes + 2);
        self.seen.note(What::Copy, !reuse && known > 0);
        assert_eq!(known, found, "what was there is told");
        self.model.store(path, self.h.size, &blocks);
    }

    fn lock(&mut self) {
        let block = self.dice.below(self.h.pool.capacity() as usize) as BlockId;
        match self.h.lock(block) {
            Ok(receipt) => {
                let above = |&b: &BlockId| Some(self.h.pool.parent(b)).filter(|&b| b != NIL);
                let path: Vec<_> = std::iter::successors(Some(block), above).collect();
                self.model.own(&path);
                self.held.push((receipt, path));
                self.seen.note(What::Lock, true);
            }
            Err(Error::NotFindable { .. }) => assert!(!self.model.holds(block)),
            Err(other) => panic!("{other}"),
        }
    }

    fn unlock(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (receipt, path) = self.held.swap_remove(self.dice.below(self.held.len()));
        self.h.unlock(receipt).expect("held");
        self.model.disown(&path);
        self.spent.push(receipt);
    }

    /// Receipts that were handed back, name another block, or never were.
    fn replay(&mut self) {
        let bad = match (self.dice.below(3), self.held.last()) {
            (0, Some(&(held, _))) => Receipt { block: held.block + 1, ..held },
            (1, Some(&(held, _))) => Receipt { id: held.id + (1 << 32), ..held },
            _ => match self.spent.len() {
                0 => return,
                spent => self.spent[self.dice.below(spent)],
            },
        };
        let refused = self.h.unlock(bad).expect_err("no lock of that receipt is held");
        assert!(matches!(refused, Error::UnknownReceipt { .. }), "{refused}");
    }

    fn evict(&mut self) {
        let leaves = self.h.leaves();
        if !leaves.is_empty() {
            let victim = leaves[self.dice.below(leaves.len())];
            self.h.evict(victim);
            self.model.remove(victim);
            self.seen.note(What::Evict, true);
        }
    }

    fn look(&mut self) {
        let root = self.draw();
        let path = Path { root, tokens: &self.tokens, marks: &self.marks };
        let nodes = self.h.tree.nodes();
        let (found, wanted) = (self.h.find(path), self.model.find(path, self.h.size));
        assert_eq!(found.len(), wanted.len(), "{path:?}");
        assert!(found.iter().zip(&wanted).all(|(block, copies)| copies.contains(block)));
        let until = self.dice.below(path.tokens.len() + 1);
        let partial = self.h.tree.find_partial(path, &found, until);
        let most = self.model.partial(path, self.h.size, found.len(), until);
        assert_eq!(partial.map_or(0, |p| p.tokens as usize), most, "{path:?} before {until}");
        assert_eq!(self.h.tree.nodes(), nodes, "a match splits nothing");
        self.seen.note(What::Hit, !found.is_empty());
        self.seen.note(What::Partial, most > 0);
    }

    /// Everything that must hold of the tree.
    pub fn check(&self) {
        self.h.check();
    }

    /// Lets go of everything: nothing must be left.
    pub fn end(mut self) -> Seen {
        for (receipt, _) in std::mem::take(&mut self.held) {
            self.h.unlock(receipt).expect("held");
        }
        self.h.evict_all();
        assert_eq!(self.h.pool.free(), self.h.pool.capacity());
        assert_eq!((self.h.tree.len(), self.h.tree.nodes(), self.h.tree.namespaces()), (0, 0, 0));
        self.seen
    }
}

// scenario: ST41, S1, S2, S10, S12
#[test]
fn stores_locks_and_evictions_agree_with_the_model() {
    let (mut total, seeds) = (Seen::default(), 10 * crate::dice::runs(40));
    for seed in 0..seeds {
        let mut walk = Walk::new(Dice::new(seed));
        for step in 0..500 {
            walk.step();
            if step % 16 == 0 {
                walk.check();
            }
        }
        walk.check();
        total.add(walk.end());
    }
    assert!(total.0.iter().all(|&count| u64::from(count) > seeds), "{total:?}");
}
