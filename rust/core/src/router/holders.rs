//! Who holds a block, and in which tiers.

use smallvec::SmallVec;

/// How far from compute a copy is: GPU 0, host 1, disk 2, elsewhere 3.
pub type TierId = u8;

/// Tiers that are told apart.
pub const TIERS: usize = 4;

/// A tier of a name that is not known: as far as any, and apart from those that are known.
pub const SOMEWHERE: TierId = 4;

/// A worker's slot and a bit for each tier with a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holder {
    pub worker: u32,
    pub tiers: u8,
}

impl Holder {
    #[inline]
    pub fn new(worker: u32, tier: TierId) -> Self {
        Self { worker, tiers: 1 << tier }
    }

    /// The tier of its nearest copy.
    #[inline]
    pub fn nearest(self) -> TierId {
        (self.tiers.trailing_zeros() as TierId).min(TIERS as TierId - 1)
    }
}

/// What is known of a block: who holds it, mostly one worker, and whether it counts in another.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHolders {
    /// The one holder's slot; of more than one, the place of their crowd.
    at: u32,
    /// The one holder's tiers; [`CROWD`]; 0 where there is none any more.
    tiers: u8,
    /// The block before it counts this one.
    pub linked: bool,
}

/// No set of tiers.
const CROWD: u8 = u8::MAX;

impl BlockHolders {
    /// By no worker.
    pub const NONE: Self = Self { at: 0, tiers: 0, linked: false };

    /// By one worker.
    #[inline]
    pub fn by(holder: Holder) -> Self {
        Self { at: holder.worker, tiers: holder.tiers, linked: false }
    }

    pub fn is_empty(self) -> bool {
        self.tiers == 0
    }

    /// One worker holds it.
    pub fn set(&mut self, holder: Holder) {
        (self.at, self.tiers) = (holder.worker, holder.tiers);
    }
}

/// The holders of a block, by worker.
pub(super) enum Holders<'a> {
    One(Holder),
    Many(&'a [Holder]),
}

impl Holders<'_> {
    #[inline]
    pub fn as_slice(&self) -> &[Holder] {
        match self {
            Self::One(holder) => std::slice::from_ref(holder),
            Self::Many(holders) => holders,
        }
    }
}

type Crowd = SmallVec<[Holder; 4]>;

/// The holders of blocks with more than one, in a slab.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    slots: Vec<Crowd>,
    vacant: Vec<u32>,
}

fn place(crowd: &Crowd, worker: u32) -> Result<usize, usize> {
    crowd.binary_search_by_key(&worker, |holder| holder.worker)
}

impl Crowds {
    #[inline]
    pub fn of(&self, held: BlockHolders) -> Holders<'_> {
        if held.tiers == CROWD {
            Holders::Many(&self.slots[held.at as usize])
        } else {
            Holders::One(Holder { worker: held.at, tiers: held.tiers })
        }
    }

    /// One more tier of a worker.
    #[inline]
    pub fn add(&mut self, held: &mut BlockHolders, holder: Holder) {
        if held.tiers != CROWD && held.at == holder.worker {
            held.tiers |= holder.tiers;
        } else {
            self.add_other(held, holder);
        }
    }

    fn add_other(&mut self, held: &mut BlockHolders, holder: Holder) {
        if held.tiers != CROWD {
            let at = self.vacant.pop().unwrap_or_else(|| {
                self.slots.push(Crowd::new());
                self.slots.len() as u32 - 1
            });
            self.slots[at as usize].push(Holder { worker: held.at, tiers: held.tiers });
            (held.at, held.tiers) = (at, CROWD);
        }
        let crowd = &mut self.slots[held.at as usize];
        match place(crowd, holder.worker) {
            Ok(at) => crowd[at].tiers |= holder.tiers,
            Err(at) => crowd.insert(at, holder),
        }
    }

    /// A tier less of a worker: whether it held the block there, and whether it did and now holds it
    /// nowhere any more.
    pub fn remove(&mut self, held: &mut BlockHolders, worker: u32, tier: TierId) -> (bool, bool) {
        let bit = 1 << tier;
        if held.tiers != CROWD {
            let was = held.at == worker && held.tiers & bit != 0;
            held.tiers &= if was { !bit } else { u8::MAX };
            return (was, was && held.tiers == 0);
        }
        let crowd = &mut self.slots[held.at as usize];
        let Ok(at) = place(crowd, worker) else { return (false, false) };
        let was = crowd[at].tiers & bit != 0;
        crowd[at].tiers &= !bit;
        let gone = crowd[at].tiers == 0;
        if gone {
            crowd.remove(at);
            self.thin_out(held);
        }
        (was, gone)
    }

    /// Whether the worker held it anywhere.
    pub fn remove_worker(&mut self, held: &mut BlockHolders, worker: u32) -> bool {
        if held.tiers != CROWD {
            let was = held.at == worker && held.tiers != 0;
            held.tiers = if was { 0 } else { held.tiers };
            return was;
        }
        let crowd = &mut self.slots[held.at as usize];
        let was = place(crowd, worker).map(|at| crowd.remove(at)).is_ok();
        self.thin_out(held);
        was
    }

    /// A crowd of one is none.
    fn thin_out(&mut self, held: &mut BlockHolders) {
        if let [last] = self.slots[held.at as usize][..] {
            self.release(*held);
            held.set(last);
        }
    }

    /// The block is forgotten.
    pub fn release(&mut self, held: BlockHolders) {
        if held.tiers == CROWD {
            self.slots[held.at as usize].clear();
            self.vacant.push(held.at);
        }
    }
}
