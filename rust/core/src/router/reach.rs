//! How far into a prompt each worker reaches, found block by block.

use super::Rank;
use super::holders::{Holder, TIERS, TierId};

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

/// Workers that hold all blocks so far, and those that have stopped.
#[derive(Debug, Default)]
pub(super) struct Walk {
    active: Vec<Active>,
    stopped: Vec<Active>,
}

impl Walk {
    /// The first block of the prompt.
    pub fn begin(&mut self, first: &[Holder]) {
        self.active.extend(first.iter().map(|holder| Active {
            worker: holder.worker,
            tier: holder.nearest(),
            blocks: [0; TIERS],
        }));
    }

    /// The block at `depth`, after the first: a worker that lacks it stops. Whether any goes on.
    #[inline]
    pub fn go_on(&mut self, depth: u32, block: &[Holder]) -> bool {
        // The common block: all who went on so far hold it, and no farther away.
        let as_near = |(a, h): (&Active, &Holder)| a.worker == h.worker && h.nearest() <= a.tier;
        let same = self.active.len() == block.len();
        if same && self.active.iter().zip(block.iter()).all(as_near) {
            return true;
        }
        self.go_on_apart(depth, block)
    }

    #[inline(never)]
    fn go_on_apart(&mut self, depth: u32, block: &[Holder]) -> bool {
        let mut holders = block.iter().peekable();
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

    /// All workers that reach anywhere, `depth` blocks having been looked at; in their order.
    pub fn end(mut self, depth: u32, name: impl Fn(u32) -> Rank) -> Vec<PrefixReach> {
        for mut active in self.active {
            active.blocks[active.tier as usize..].fill(depth);
            self.stopped.push(active);
        }
        let mut found: Vec<_> = self
            .stopped
            .iter()
            .map(|a| {
                let Rank { worker, rank } = name(a.worker);
                PrefixReach { worker, rank, blocks: a.blocks }
            })
            .collect();
        found.sort_unstable_by_key(|reach| (reach.worker, reach.rank));
        found
    }
}
