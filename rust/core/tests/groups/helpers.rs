//! Groups of each kind, and managers of them.

use std::cmp::Reverse;

use super::common::{SIZE, build, found, open, run};
use kvframe_core::policy::{Consult, External, Subscriptions};
use kvframe_core::pool::State;
use kvframe_core::{BlockId, Group, GroupKind, Manager, NIL, Options, SeqId};

pub const FULL: GroupKind = GroupKind::Full;
pub const STATE: GroupKind = GroupKind::State;

pub fn window(window: u32) -> GroupKind {
    GroupKind::SlidingWindow { window }
}

pub fn chunked(chunk: u32) -> GroupKind {
    GroupKind::Chunked { chunk }
}

pub fn sink(sink: u32, window: u32) -> GroupKind {
    GroupKind::SinkWindow { sink, window }
}

pub fn group(kind: GroupKind) -> Group {
    kind.into()
}

pub fn grouped(blocks: u32, groups: &[Group]) -> Manager {
    let groups = groups.to_vec();
    build(Options { blocks, block_size: SIZE, groups, ..Options::default() }, "lru")
}

/// Places of the entries of a table that are still there.
pub fn kept(m: &Manager, seq: SeqId, group: usize) -> Vec<usize> {
    let table = &m.sequence(seq).unwrap().tables[group];
    (0..table.len()).filter(|&i| table[i] != NIL).collect()
}

/// Tokens that are found where only the blocks named by `there` are left, of one group of `kind`.
pub fn hit_of(kind: GroupKind, there: &[bool]) -> u32 {
    let mut m = asked(&[kind.into()]);
    let blocks: Vec<u32> = (1..=there.len() as u32).collect();
    let seq = run(&mut m, &open(&blocks));
    m.release(seq).unwrap();
    kill(&mut m, |m, b| !there[m.pool().depth(b) as usize]);
    found(&m, &open(&blocks))
}

/// A manager that is told who is evicted.
pub fn asked(groups: &[Group]) -> Manager {
    let groups = groups.to_vec();
    let options = Options { blocks: 64, block_size: SIZE, groups, ..Options::default() };
    Manager::new(options, Box::new(External::new(Subscriptions::default()))).unwrap()
}

/// Evicts the cached blocks that are `doomed`, the last of a prefix first.
pub fn kill(m: &mut Manager, doomed: impl Fn(&Manager, BlockId) -> bool) {
    let cached = (0..m.pool().created()).filter(|&b| m.pool().state(b) == State::Cached);
    let mut doomed: Vec<BlockId> = cached.filter(|&b| doomed(m, b)).collect();
    doomed.sort_by_key(|&b| Reverse(m.pool().depth(b)));
    let generations: Vec<u32> = doomed.iter().map(|&b| m.pool().generation(b)).collect();
    m.choose(&doomed, &generations);
    m.evict_until(m.pool().free() + doomed.len() as u32).unwrap();
    m.check_integrity().unwrap();
}
