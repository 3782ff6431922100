//! Which blocks running sequences are computing, by what will be in them: a join finds its sequence
//! as a hit finds its blocks, however many run. Nothing is noted before joins are asked for more than a few times.

use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::hash::Key;
use crate::sequence::SeqId;

/// Up to this many running sequences, the first join notes the blocks of all of them.
const FEW: usize = 16;
/// Searches through all sequences that cost about as much as noting all their blocks.
const SEARCHES: usize = 64;

/// Names of blocks that are being computed.
#[derive(Debug, Default)]
pub(crate) struct Computations {
    on: bool,
    /// What joins have cost so far that looked through all sequences, in sequences.
    searched: usize,
    /// Who computes a block of that name, by slot and handle.
    rows: HashMap<Key, BTreeSet<(u32, SeqId)>>,
    offered: HashMap<SeqId, BlockNames>,
    /// Makes names where blocks have no keys.
    hash: DefaultHashBuilder,
}

/// The blocks that one sequence is computing.
#[derive(Debug, Default)]
struct BlockNames {
    /// Place of the first of them.
    from: usize,
    names: VecDeque<Key>,
    /// The name of the last block before `from + names.len()`.
    last: Key,
}

impl Computations {
    /// Whether joins are asked for.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// A join is asked for while `count` sequences run. Returns true if the blocks of all of them are to be
    /// noted from now on. That is once the searches without notes have cost as much as noting: for a single
    /// join, comparing the first block of each sequence is far cheaper.
    pub(super) fn expect(&mut self, count: usize) -> bool {
        if self.on {
            return false;
        }
        self.searched += count;
        self.on = count <= FEW || self.searched >= SEARCHES * count;
        self.on
    }

    /// Whether nothing may be joined.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The sequences that compute a block of that name, in the order of their slots.
    pub(crate) fn who(&self, name: Key) -> impl Iterator<Item = SeqId> + '_ {
        self.rows.get(&name).into_iter().flatten().map(|&(_, seq)| seq)
    }

    /// Nothing that is computed may be joined any more.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.offered.clear();
    }

    /// The name of a block of `tokens` behind one named `before`.
    pub(crate) fn name(&self, before: Key, tokens: &[u32]) -> Key {
        Key(u128::from(self.hash.hash_one((before.0, tokens))))
    }

    /// Notes that `seq` computes the blocks at the places `from` to `to`. `name` returns a block's name,
    /// given the name before it. It may be called for any place before `to`.
    pub(super) fn offer(
        &mut self,
        seq: SeqId,
        from: usize,
        to: usize,
        name: impl Fn(&Self, usize, Key) -> Key,
    ) {
        let mut offered = self.offered.remove(&seq).unwrap_or_default();
        if to < offered.from + offered.names.len() {
            self.retract(seq, &mut offered);
            offered = BlockNames::default();
        }
        while offered.from < from
            && let Some(name) = offered.names.pop_front()
        {
            self.take_off(seq, name);
            offered.from += 1;
        }
        for at in offered.from + offered.names.len()..to {
            offered.last = name(self, at, offered.last);
            if at < from {
                offered.from = at + 1;
                continue;
            }
            offered.names.push_back(offered.last);
            self.rows.entry(offered.last).or_default().insert((seq as u32, seq));
        }
        self.offered.insert(seq, offered);
    }

    fn retract(&mut self, seq: SeqId, offered: &mut BlockNames) {
        for name in offered.names.drain(..) {
            self.take_off(seq, name);
        }
    }

    fn take_off(&mut self, seq: SeqId, name: Key) {
        if let Some(who) = self.rows.get_mut(&name) {
            who.remove(&(seq as u32, seq));
            if who.is_empty() {
                self.rows.remove(&name);
            }
        }
    }

    /// Checks that every noted block is one that a running sequence computes.
    pub(crate) fn validate(&self, runs: impl Fn(SeqId) -> bool) -> Result<(), String> {
        let of = |(&seq, offered): (&SeqId, &'_ BlockNames)| {
            offered.names.iter().map(move |&name| (name, seq)).collect::<Vec<_>>()
        };
        let computed: BTreeSet<(Key, SeqId)> = self.offered.iter().flat_map(of).collect();
        for (&name, who) in &self.rows {
            let stale =
                who.iter().find(|&&(_, seq)| !runs(seq) || !computed.contains(&(name, seq)));
            if let Some((_, seq)) = stale {
                return Err(format!("a block may be joined that sequence {seq} does not compute"));
            }
        }
        Ok(())
    }

    /// `seq` ends.
    pub(super) fn forget(&mut self, seq: SeqId) {
        if let Some(mut offered) = self.offered.remove(&seq) {
            self.retract(seq, &mut offered);
        }
    }
}
