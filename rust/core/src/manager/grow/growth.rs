//! Blocks that sequences allocated whole (`full_sequence_must_fit`) may still take on their way to full length.

use std::ops::{Deref, Range};

use smallvec::SmallVec;

use crate::groups::{GroupKind, GroupReach, Pace};
use crate::manager::Manager;
use crate::pool::{BlockId, NIL};

/// A sequence on its way.
pub(in crate::manager) struct GrowthPath<'a, T> {
    /// Where it ends.
    pub(in crate::manager) tokens: u32,
    /// Tokens of its other input.
    pub(in crate::manager) encoder: u32,
    pub(in crate::manager) committed: u32,
    pub(in crate::manager) cached: u32,
    /// The length that has slots: its prompt goes on from there.
    pub(in crate::manager) len: u32,
    pub(in crate::manager) pace: Pace,
    /// What it owns, or is about to.
    pub(in crate::manager) tables: &'a [T],
}

/// What it has of one group.
struct Stake {
    /// Blocks that it keeps to the end, or frees by giving them up.
    own: u32,
    /// Table entries before those. Giving up their blocks frees nothing: they have other owners.
    shared: Range<u32>,
}

impl Stake {
    /// Shared blocks that are still there where the blocks up to `gone` are given up.
    fn still_shared(&self, gone: u32) -> u32 {
        self.shared.end.saturating_sub(self.shared.start.max(gone))
    }
}

/// How blocks to come are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::manager) enum Count {
    /// From above, as if all groups peaked at the same length: cheap, and mostly enough.
    Above,
    /// At every length that may be the peak.
    Exact,
}

impl Manager {
    /// Blocks that a sequence may yet take on its way, growing at its pace. `is_shared` says which
    /// entries (group, place) of its tables others own too.
    pub(in crate::manager) fn still_lacks<T: Deref<Target = [BlockId]>>(
        &self,
        way: &GrowthPath<'_, T>,
        count: Count,
        is_shared: impl Fn(usize, usize, BlockId) -> bool,
    ) -> u32 {
        let groups = self.layout.groups();
        let crossing = self.layout.cross_groups().map(|group| {
            groups[group].blocks(way.encoder).saturating_sub(way.tables[group].len() as u32)
        });
        let crossing = crossing.sum::<u32>();
        let own = groups.iter().zip(way.tables).enumerate();
        let stakes = own.map(|(group, (reach, table))| {
            let shared = |&i: &u32| {
                let block = table[i as usize];
                block == NIL || is_shared(group, i as usize, block)
            };
            stake(reach, table.len() as u32, reach.computed(way.committed, way.cached), shared)
        });
        let goes_on = self.layout.gives_up() && way.len < way.pace.prompt;
        if count == Count::Above {
            let lacks = |(reach, stake): (&GroupReach, Stake)| {
                let most = reach.most(way.tokens);
                let most = if goes_on { most.max(reach.most_in_steps(way.pace)) } else { most };
                most.saturating_sub(stake.own)
            };
            return groups.iter().zip(stakes).map(lacks).fold(crossing, u32::saturating_add);
        }
        let stakes: SmallVec<[Stake; 8]> = stakes.collect();
        let lacks = |at: u32, to: u32| {
            let each = groups.iter().zip(&stakes).map(|(reach, stake)| {
                let gone = reach.gone(reach.computed(at, way.cached)).end as u32;
                let shared = stake.still_shared(gone);
                i64::from(reach.held(at, to, way.cached)) - i64::from(shared) - i64::from(stake.own)
            });
            each.sum::<i64>()
        };
        let one_by_one = self.layout.peak(way.committed..way.tokens, |at| lacks(at, at + 1));
        let in_steps = goes_on.then(|| self.layout.peak_in_steps(way.len, way.pace, lacks));
        let most = one_by_one.max(in_steps.flatten()).unwrap_or(0).max(0);
        crossing.saturating_add(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

/// What a sequence has of a group where its table has `len` entries and `computed` tokens are
/// computed. What is shared is a prefix of what was not given up.
fn stake(reach: &GroupReach, len: u32, computed: u32, is_shared: impl Fn(&u32) -> bool) -> Stake {
    if reach.kind.keeps_all() {
        return Stake { own: if reach.kind == GroupKind::Cross { 0 } else { len }, shared: 0..0 };
    }
    let gone = reach.gone(computed);
    let first = reach.head().max(gone.end as u32).min(len);
    let shared = (first..len).take_while(is_shared).count() as u32;
    let given_up = (gone.end as u32).min(len) - (gone.start as u32).min(len);
    Stake { own: len - given_up - shared, shared: first..first + shared }
}
