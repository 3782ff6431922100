//! Who holds a block, and in which tiers.

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

/// Who holds a block, in one word: a worker and its tiers, or a crowd. Blocks of one prefix that the same
/// workers hold have the same word, so that a match compares words and looks at holders where they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHolders(u64);

const TIER_BITS: u32 = 32;
/// Beyond all tiers: the lower half names a crowd.
const CROWD: u64 = 1 << 40;
/// No block has these.
const NEVER: BlockHolders = BlockHolders(u64::MAX);

impl BlockHolders {
    /// By no worker.
    pub const NONE: Self = Self(0);

    /// By one worker.
    #[inline]
    pub fn by(holder: Holder) -> Self {
        Self(u64::from(holder.tiers) << TIER_BITS | u64::from(holder.worker))
    }

    #[inline]
    fn crowd(at: u32) -> Self {
        Self(CROWD | u64::from(at))
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 >> TIER_BITS == 0
    }

    /// A number that no other holders have.
    pub fn word(self) -> u64 {
        self.0
    }

    #[inline]
    fn as_crowd(self) -> Option<usize> {
        (self.0 & CROWD != 0).then_some(self.0 as u32 as usize)
    }

    #[inline]
    fn as_one(self) -> Holder {
        Holder { worker: self.0 as u32, tiers: (self.0 >> TIER_BITS) as u8 }
    }
}

/// The holders of a block, by worker.
#[derive(Debug)]
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

/// Several workers that hold the same blocks.
#[derive(Debug, Default)]
struct Crowd {
    /// In the order of their slots.
    holders: Vec<Holder>,
    /// Blocks that they hold.
    blocks: u32,
}

/// One of the things that may happen to holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Add(Holder),
    Remove(u32, TierId),
    RemoveWorker(u32),
}

/// The holders of blocks with more than one, each set of them once where an event makes it.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    all: Vec<Crowd>,
    vacant: Vec<u32>,
    /// What the last change made of which holders: blocks of one event mostly have the same before it, and
    /// have the same again behind it.
    last: Option<(BlockHolders, Change, BlockHolders)>,
}

fn place(holders: &[Holder], worker: u32) -> Result<usize, usize> {
    holders.binary_search_by_key(&worker, |holder| holder.worker)
}

impl Crowds {
    #[inline]
    pub fn of(&self, held: BlockHolders) -> Holders<'_> {
        match held.as_crowd() {
            Some(at) => Holders::Many(&self.all[at].holders),
            None => Holders::One(held.as_one()),
        }
    }

    /// One more tier of a worker, which may be the first of any.
    #[inline]
    pub fn add(&mut self, held: &mut BlockHolders, holder: Holder) {
        let one = held.as_one();
        if held.is_empty() {
            *held = BlockHolders::by(holder);
        } else if held.as_crowd().is_none() && one.worker == holder.worker {
            *held = BlockHolders::by(Holder { tiers: one.tiers | holder.tiers, ..one });
        } else {
            self.change(held, Change::Add(holder));
        }
    }

    /// A worker no longer holds the block in `tier`. Returns whether it did hold it there, and whether it
    /// now holds it in no tier.
    pub fn remove(&mut self, held: &mut BlockHolders, worker: u32, tier: TierId) -> (bool, bool) {
        let Some(before) = self.tiers_of(*held, worker).filter(|tiers| tiers & 1 << tier != 0)
        else {
            return (false, false);
        };
        self.change(held, Change::Remove(worker, tier));
        (true, before == 1 << tier)
    }

    /// Whether the worker held it anywhere.
    pub fn remove_worker(&mut self, held: &mut BlockHolders, worker: u32) -> bool {
        let was = self.tiers_of(*held, worker).is_some();
        if was {
            self.change(held, Change::RemoveWorker(worker));
        }
        was
    }

    /// The tiers in which `worker` holds a block, if it does.
    fn tiers_of(&self, held: BlockHolders, worker: u32) -> Option<u8> {
        let holders = self.of(held);
        let holders = holders.as_slice();
        place(holders, worker).ok().map(|at| holders[at].tiers).filter(|&tiers| tiers != 0)
    }

    /// The block is forgotten.
    pub fn release(&mut self, held: BlockHolders) {
        let Some(at) = held.as_crowd() else { return };
        let crowd = &mut self.all[at];
        crowd.blocks -= 1;
        if crowd.blocks == 0 {
            crowd.holders = Vec::new();
            self.vacant.push(at as u32);
            // Its place may be another's soon.
            match &mut self.last {
                Some((.., to)) if *to == held => self.last = None,
                Some((from, ..)) if *from == held => *from = NEVER,
                _ => {}
            }
        }
    }

    fn change(&mut self, held: &mut BlockHolders, change: Change) {
        let before = *held;
        *held = match self.last {
            Some((from, done, to)) if from == before && done == change => to,
            _ => self.changed(before, change),
        };
        if let Some(at) = held.as_crowd() {
            self.all[at].blocks += 1;
        }
        self.last = Some((before, change, *held));
        self.release(before);
    }

    /// What `change` makes of holders: those of the change before, if they are the same.
    fn changed(&mut self, before: BlockHolders, change: Change) -> BlockHolders {
        let there = self.of(before);
        let mut holders: Vec<Holder> = Vec::with_capacity(there.as_slice().len() + 1);
        holders.extend_from_slice(there.as_slice());
        match change {
            Change::Add(holder) => match place(&holders, holder.worker) {
                Ok(at) => holders[at].tiers |= holder.tiers,
                Err(at) => holders.insert(at, holder),
            },
            Change::Remove(worker, tier) => {
                if let Ok(at) = place(&holders, worker) {
                    holders[at].tiers &= !(1 << tier);
                    if holders[at].tiers == 0 {
                        holders.remove(at);
                    }
                }
            }
            Change::RemoveWorker(worker) => {
                if let Ok(at) = place(&holders, worker) {
                    holders.remove(at);
                }
            }
        }
        if holders == self.of(before).as_slice() {
            return before;
        }
        match holders[..] {
            [] => return BlockHolders::NONE,
            [one] => return BlockHolders::by(one),
            _ => {}
        }
        if let Some((_, _, made)) = self.last
            && let Some(at) = made.as_crowd()
            && self.all[at].holders == holders
        {
            return made;
        }
        let crowd = Crowd { holders, blocks: 0 };
        let at = if let Some(at) = self.vacant.pop() {
            self.all[at as usize] = crowd;
            at
        } else {
            self.all.push(crowd);
            self.all.len() as u32 - 1
        };
        BlockHolders::crowd(at)
    }

    /// Blocks that each crowd says it holds; for tests.
    pub fn counted(&self) -> impl Iterator<Item = (BlockHolders, u32)> + '_ {
        let taken = self.all.iter().enumerate().filter(|(_, crowd)| !crowd.holders.is_empty());
        taken.map(|(at, crowd)| (BlockHolders::crowd(at as u32), crowd.blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_many_workers_hold_has_one_crowd() {
        let (mut crowds, mut chain) = (Crowds::default(), [BlockHolders::NONE; 50]);
        for worker in 0..1000 {
            for held in &mut chain {
                crowds.add(held, Holder::new(worker, 0));
            }
        }
        assert!(chain.iter().all(|held| *held == chain[0]));
        assert_eq!(crowds.counted().collect::<Vec<_>>(), [(chain[0], 50)]);
        assert_eq!(crowds.of(chain[0]).as_slice().len(), 1000);
        // One that forgets it in another order than it came in parts it, and its return joins it again.
        for held in chain.iter_mut().rev().take(20) {
            assert_eq!(crowds.remove(held, 7, 0), (true, true));
        }
        assert_eq!(crowds.counted().count(), 2);
        for held in &mut chain {
            crowds.add(held, Holder::new(7, 0));
        }
        assert_eq!(crowds.counted().collect::<Vec<_>>(), [(chain[0], 50)]);
    }
}
