//! Who holds a block, and in which tiers.

use smallvec::{SmallVec, smallvec};

/// How far from compute a copy is: GPU 0, host 1, disk 2, elsewhere 3.
pub type Tier = u8;

/// Tiers that are told apart.
pub const TIERS: usize = 4;

/// A worker's slot and a bit for each tier with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub worker: u32,
    pub tiers: u8,
}

impl Holder {
    /// The tier of its nearest copy.
    #[inline]
    pub fn nearest(self) -> Tier {
        self.tiers.trailing_zeros() as Tier
    }
}

/// Holders of one block, by worker.
#[derive(Debug, Clone, Default)]
pub(super) struct Holders(SmallVec<[Holder; 2]>);

impl Holders {
    /// One worker, in one tier.
    #[inline]
    pub fn one(worker: u32, tier: Tier) -> Self {
        Self(smallvec![Holder { worker, tiers: 1 << tier }])
    }

    fn place(&self, worker: u32) -> Result<usize, usize> {
        // Most blocks have one holder; the last is the one asked for when a worker joins in order.
        self.0.binary_search_by_key(&worker, |holder| holder.worker)
    }

    /// Whether the worker holds it in no tier before.
    pub fn add(&mut self, worker: u32, tier: Tier) -> bool {
        match self.place(worker) {
            Ok(at) => {
                self.0[at].tiers |= 1 << tier;
                false
            }
            Err(at) => {
                self.0.insert(at, Holder { worker, tiers: 1 << tier });
                true
            }
        }
    }

    /// Whether the worker held it there, and holds it nowhere any more.
    pub fn remove(&mut self, worker: u32, tier: Tier) -> (bool, bool) {
        let Ok(at) = self.place(worker) else { return (false, false) };
        let bit = 1 << tier;
        let held = self.0[at].tiers & bit != 0;
        self.0[at].tiers &= !bit;
        let gone = self.0[at].tiers == 0;
        if gone {
            self.0.remove(at);
        }
        (held, gone)
    }

    /// Whether the worker held it anywhere.
    pub fn remove_worker(&mut self, worker: u32) -> bool {
        self.place(worker).map(|at| self.0.remove(at)).is_ok()
    }

    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Holder> + '_ {
        self.0.iter().copied()
    }
}
