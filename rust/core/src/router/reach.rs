//! How far into a prompt each worker reaches: a walk along its keys, by runs of blocks of the same holders.

use super::Rank;
use super::holders::{Holder, Holders, TIERS, TierId};
use super::nodes::{NONE, Nodes};
use super::places::Row;

/// Leading blocks of a prompt that a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixReach {
    /// The worker, by its own number.
    pub worker: u64,
    /// Its data-parallel rank.
    pub rank: u32,
    /// Blocks held in this tier or a nearer one, by tier.
    pub blocks: [u32; TIERS],
}

#[derive(Debug, Clone, Copy)]
struct Active {
    worker: u32,
    /// The farthest tier that was needed so far.
    tier: TierId,
    blocks: [u32; TIERS],
}

impl From<&Holder> for Active {
    #[inline]
    fn from(holder: &Holder) -> Self {
        Self { worker: holder.worker, tier: holder.nearest(), blocks: [0; TIERS] }
    }
}

impl Active {
    /// Its blocks where it goes on to the end, which is `depth`.
    #[inline]
    fn to(mut self, depth: u32) -> Self {
        for (tier, blocks) in self.blocks.iter_mut().enumerate() {
            *blocks = if tier < usize::from(self.tier) { *blocks } else { depth };
        }
        self
    }
}

/// Workers that hold all blocks so far, and those that have stopped.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    nodes: &'a Nodes,
    now: u32,
    /// The first block's holders, as long as none of them has stopped or reached into a tier farther away.
    first: Holders<'a>,
    /// In place of these, once one has.
    active: Vec<Active>,
    stopped: Vec<Active>,
    /// Blocks so far, and the last of them.
    depth: u32,
    last: Row,
}

impl<'a> Walk<'a> {
    /// A prompt of which no block was looked at.
    pub fn begin(nodes: &'a Nodes) -> Self {
        let now = nodes.tick_of_match();
        let (first, active, stopped) = (Holders::Many(&[]), Vec::new(), Vec::new());
        Self { nodes, now, first, active, stopped, depth: 0, last: NONE }
    }

    /// The next blocks of the prompt. Whether any worker goes on.
    pub fn go_on(&mut self, keys: &[u64]) -> bool {
        let mut rest = keys;
        while let Some((&key, behind)) = rest.split_first() {
            let Some(row) = self.nodes.find_after(self.last, key) else { return false };
            if !self.step(row) {
                return false;
            }
            let run = self.nodes.run(row, behind);
            self.depth += run as u32;
            self.last = row + run as Row;
            rest = &behind[run..];
        }
        true
    }

    /// One more block. Whether any worker goes on.
    #[inline]
    fn step(&mut self, row: Row) -> bool {
        let held = self.nodes.holders(row);
        let holders = held.as_slice();
        if let [Holder { tiers: 0, .. }] = holders {
            return false;
        }
        // The same holders as of the block before keep all who went on there.
        let same = self.last != NONE && self.nodes.held_alike(row, self.last);
        // A use of this block is one of the block before, unless it stands elsewhere in its own prefix.
        if self.last != NONE && !self.nodes.is_linked(row, self.last) {
            self.nodes.touch(self.last, self.now);
        }
        self.last = row;
        let goes_on = if self.depth == 0 {
            self.first = held;
            true
        } else {
            same || self.keep(holders)
        };
        self.depth += u32::from(goes_on);
        goes_on
    }

    /// A worker that is not one of `holders` stops. Whether any goes on.
    #[inline]
    fn keep(&mut self, holders: &[Holder]) -> bool {
        // The common block: all who went on so far hold it, and no farther away.
        let first = self.first.as_slice();
        let as_near = |w: u32, tier: TierId, h: &Holder| w == h.worker && h.nearest() <= tier;
        let same = if self.active.is_empty() {
            first.len() == holders.len()
                && first.iter().zip(holders).all(|(f, h)| as_near(f.worker, f.nearest(), h))
        } else {
            self.active.len() == holders.len()
                && self.active.iter().zip(holders).all(|(a, h)| as_near(a.worker, a.tier, h))
        };
        same || self.part(holders)
    }

    #[inline(never)]
    fn part(&mut self, holders: &[Holder]) -> bool {
        if self.active.is_empty() {
            self.active.extend(self.first.as_slice().iter().map(Active::from));
            self.first = Holders::Many(&[]);
        }
        let (mut holders, depth) = (holders.iter().peekable(), self.depth);
        let stopped = &mut self.stopped;
        self.active.retain_mut(|active| {
            while holders.next_if(|holder| holder.worker < active.worker).is_some() {}
            let held = holders.next_if(|holder| holder.worker == active.worker);
            let until = held.map_or(TIERS as TierId, |holder| holder.nearest());
            for tier in active.tier..until.max(active.tier) {
                active.blocks[tier as usize] = depth;
            }
            active.tier = active.tier.max(until);
            if held.is_none() {
                stopped.push(*active);
            }
            held.is_some()
        });
        !self.active.is_empty()
    }

    /// All workers that reach anywhere, in their order.
    pub fn end(self, name: impl Fn(u32) -> Rank) -> Vec<PrefixReach> {
        if self.last != NONE {
            self.nodes.touch(self.last, self.now);
        }
        let first = self.first.as_slice().iter().map(Active::from);
        let going = first.chain(self.active).map(|active| active.to(self.depth));
        let mut found = Vec::with_capacity(going.size_hint().0 + self.stopped.len());
        found.extend(self.stopped.into_iter().chain(going).map(|active| {
            let Rank { worker, rank } = name(active.worker);
            PrefixReach { worker, rank, blocks: active.blocks }
        }));
        if !found.is_sorted_by_key(|reach| (reach.worker, reach.rank)) {
            found.sort_unstable_by_key(|reach| (reach.worker, reach.rank));
        }
        found
    }
}
