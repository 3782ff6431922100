//! Which blocks running sequences are computing, by what will be in them: a join finds its sequence
//! as a hit finds its blocks, however many run. Nothing is noted before joins are asked for more than a few times.

use std::collections::{BTreeSet, VecDeque};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::Manager;
use super::lookup::PrefixQuery;
use crate::hash::Key;
use crate::sequence::{SeqId, Sequence};

/// So few sequences are noted at the first join.
const FEW: usize = 16;
/// Searches through all sequences that cost about as much as noting all their blocks.
const SEARCHES: usize = 64;

/// Names of blocks that are being computed.
#[derive(Debug, Default)]
pub(super) struct Computations {
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
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Nothing that is computed may be joined any more.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.offered.clear();
    }

    /// The name of a block of `tokens` behind one named `before`.
    pub(super) fn name(&self, before: Key, tokens: &[u32]) -> Key {
        Key(u128::from(self.hash.hash_one((before.0, tokens))))
    }

    /// `seq` computes the blocks at the places `from` to `to`; `name` says how each is called, given the
    /// name before it, and may be asked from any place before `to` on.
    fn offer(
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

    /// That no block is found but of a sequence that runs and computes it.
    pub(super) fn validate(&self, runs: impl Fn(SeqId) -> bool) -> Result<(), String> {
        let of = |(&seq, offered): (&SeqId, &'_ BlockNames)| {
            offered.names.iter().map(move |&name| (name, seq)).collect::<Vec<_>>()
        };
        let computed: BTreeSet<(Key, SeqId)> = self.offered.iter().flat_map(of).collect();
        for (&name, who) in &self.rows {
            let stale =
                who.iter().find(|&&(_, seq)| !runs(seq) || !computed.contains(&(name, seq)));
            if let Some((_, seq)) = stale {
                return Err(format!(
                    "a block may be joined that sequence {seq:#x} does not compute"
                ));
            }
        }
        Ok(())
    }

    /// `seq` ends.
    fn forget(&mut self, seq: SeqId) {
        if let Some(mut offered) = self.offered.remove(&seq) {
            self.retract(seq, &mut offered);
        }
    }
}

impl Manager {
    /// Joins are asked for. What runs is noted once the searches without notes have cost as much: a
    /// single join beside many sequences looks at each one's first block, which is far cheaper.
    pub fn expect_joins(&mut self) {
        if self.computing.on {
            return;
        }
        let count = self.sequences.len();
        self.computing.searched += count;
        if count > FEW && self.computing.searched < SEARCHES * count {
            return;
        }
        self.computing.on = true;
        for seq in self.sequences.iter().map(|(seq, _)| seq).collect::<Vec<_>>() {
            self.offer_computing(seq);
        }
    }

    /// What `seq` computes may have changed.
    #[inline]
    pub(super) fn note_computing(&mut self, seq: SeqId) {
        if self.computing.on {
            self.offer_computing(seq);
        }
    }

    /// `seq` has grown within its last block, which is news if that is full now.
    #[inline]
    pub(super) fn note_grown(&mut self, seq: SeqId) {
        let size = self.options.block_size;
        let full = |s: &Sequence| s.len.is_multiple_of(size);
        if self.computing.on && self.sequences.get(seq).is_ok_and(full) {
            self.offer_computing(seq);
        }
    }

    /// `seq` computes nothing any more.
    pub(super) fn end_computing(&mut self, seq: SeqId) {
        if self.computing.on {
            self.computing.forget(seq);
        }
    }

    fn offer_computing(&mut self, seq: SeqId) {
        let Ok(sequence) = self.sequences.get(seq) else { return };
        let size = self.options.block_size as usize;
        let from = sequence.committed as usize / size;
        let by_key = self.store.index.takes_keys();
        let known = if by_key { sequence.keys.len() } else { sequence.filled() as usize / size };
        let to = known.min(sequence.len as usize / size).max(from);
        if sequence.private || self.is_brought(sequence, from) {
            return self.computing.forget(seq);
        }
        self.computing.offer(seq, from, to, |computing, at, before| {
            if by_key {
                return sequence.keys.get(at).copied().unwrap_or_default();
            }
            let before = if at == 0 { sequence.root } else { before };
            let tokens = sequence.tokens.get(at * size..(at + 1) * size);
            computing.name(before, tokens.unwrap_or_default())
        });
    }

    /// Whether a load or another sequence fills the block at place `at`: it is noted once it is
    /// filled.
    fn is_brought(&self, sequence: &Sequence, at: usize) -> bool {
        let mut pages = sequence.tables.iter().filter_map(|table| table.get(at));
        pages.any(|&page| self.tickets.is_loading(page, sequence.joined, &|_| false))
    }

    /// The sequence that computes most of what is wanted behind the first `found` blocks; how many
    /// blocks they have in common, and how many of those are findable. Of equals, the first.
    pub(super) fn find_offered(
        &self,
        wanted: PrefixQuery<'_>,
        found: usize,
    ) -> Option<(SeqId, usize, usize)> {
        if self.computing.rows.is_empty() {
            return None;
        }
        let named;
        let names = if self.store.index.takes_keys() {
            wanted.keys
        } else {
            named = self.names(wanted);
            &named
        };
        let mut tried: HashMap<SeqId, (usize, usize)> = HashMap::new();
        for at in (found..wanted.limit.min(names.len())).rev() {
            for &(_, seq) in self.computing.rows.get(&names[at]).into_iter().flatten() {
                let shared = || {
                    let sequence = self.sequences.get(seq).ok()?;
                    self.shared_rows(wanted, seq, sequence)
                };
                let (rows, good) = *tried.entry(seq).or_insert_with(|| shared().unwrap_or((0, 0)));
                if rows == at + 1 && good >= found {
                    return Some((seq, rows, good));
                }
            }
        }
        None
    }

    /// The names of the blocks that are wanted, where they have no keys.
    fn names(&self, wanted: PrefixQuery<'_>) -> Vec<Key> {
        let blocks = wanted.tokens.chunks_exact(self.options.block_size as usize);
        let mut before = wanted.root;
        let name = |tokens| {
            before = self.computing.name(before, tokens);
            before
        };
        blocks.take(wanted.limit).map(name).collect()
    }
}
