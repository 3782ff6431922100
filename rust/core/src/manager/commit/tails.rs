//! Partial blocks: the last, partial block of an ended sequence is found by its exact tokens. A
//! sequence that finds it writes on in a copy of its own.

use crate::error::Result;
use crate::events::Kind;
use crate::hash::Key;
use crate::index::radix::{Partial, Path};
use crate::index::{KeyMatch, Radix};
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::policy::{Access, NEVER};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::SeqId;
use crate::transfers::BlockCopy;

/// A partial block that continues a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::manager) struct Tail {
    /// Tokens of it, all of which are wanted.
    pub tokens: u32,
    /// The block of each group.
    pub blocks: Vec<BlockId>,
}

impl Manager {
    /// The longest partial block after `hits` that holds nothing but wanted tokens, up to `most` of
    /// the prompt. Of several copies of a hit, it may take another in its place.
    pub(in crate::manager) fn find_tail(
        &self,
        wanted: PrefixQuery<'_>,
        most: u32,
        hits: &mut [Vec<BlockId>],
    ) -> Option<Tail> {
        if let Some(radix) = self.store.index().radix() {
            return self.find_partial(radix, wanted, most, hits);
        }
        let size = self.block_size() as usize;
        let rows = hits.first().map_or(0, Vec::len);
        let last = hits.first().and_then(|found| found.last());
        let leaf = last.is_some_and(|&b| b != NIL && self.pool().children(b) == 0);
        if !self.options.prefix_caching || (leaf && self.layout.groups()[0].kind.is_ordered()) {
            return None;
        }
        let start = rows * size;
        let most = (most as usize).min(wanted.tokens.len()).min(start + size - 1);
        let previous = if rows == 0 { wanted.root } else { wanted.keys[rows - 1] };
        (start + 1..=most).rev().find_map(|end| {
            let key = self.hasher.tail(previous, rows, wanted.mm_items, &wanted.tokens[start..end]);
            let found = |(group, hits): (usize, &Vec<BlockId>)| {
                let ordered = self.layout.groups()[group].kind.is_ordered();
                let parent = if ordered { hits.last().copied().unwrap_or(NIL) } else { NIL };
                match self.store.find_key(key.for_group(group), None) {
                    KeyMatch::Block(b) if self.pool().parent(b) == parent => Some(b),
                    _ => None,
                }
            };
            let blocks: Option<Vec<BlockId>> = hits.iter().enumerate().map(found).collect();
            blocks.map(|blocks| Tail { tokens: (end - start) as u32, blocks })
        })
    }

    /// The same in the radix index: a whole block there that begins as the prompt goes on.
    fn find_partial(
        &self,
        radix: &Radix,
        wanted: PrefixQuery<'_>,
        most: u32,
        hits: &mut [Vec<BlockId>],
    ) -> Option<Tail> {
        let PrefixQuery { root, tokens, mm_items, .. } = wanted;
        let marks = &self.hasher.marks(mm_items, hits.first().map_or(0, Vec::len) + 1)[..];
        let part = |(group, hits): (usize, &Vec<BlockId>)| {
            let path = Path { root: root.for_group(group), tokens, marks };
            radix.find_partial(path, hits, most as usize)
        };
        let parts: Option<Vec<Partial>> = hits.iter().enumerate().map(part).collect();
        let parts = parts?;
        // The copying sequence owns its hits, so they must be the blocks that the source follows.
        if self.store.has_copies() {
            for (found, part) in hits.iter_mut().zip(&parts) {
                if let Some(last) = found.last_mut() {
                    *last = self.pool().parent(part.source);
                    self.follow_chain(found);
                }
            }
        }
        let tokens = parts.iter().map(|part| part.tokens).min()?;
        Some(Tail { tokens, blocks: parts.iter().map(|part| part.source).collect() })
    }

    /// Owns a found partial block for the copy to come.
    pub(in crate::manager) fn hold_tail(&mut self, seq: SeqId, tail: &Tail, access: Access<'_>) {
        for &src in &tail.blocks {
            self.store.note_block(Kind::Hit, seq, src, 0);
            self.store.acquire(src);
            self.store.hit(&[src], access);
            self.store.used(&[src], access.meta.session);
        }
    }

    /// Plans the copies of a partial block that is held into the block of `seq` after its hits, or
    /// gives it up where `seq` got no such block. Returns its tokens that need not be computed.
    pub(in crate::manager) fn copy_found_tail(&mut self, seq: SeqId, tail: &Tail) -> u32 {
        let rows = (self.created(seq).cached / self.options.block_size) as usize;
        if self.created(seq).tables.iter().any(|table| table.len() <= rows) {
            self.store.drop_owners(seq, &tail.blocks);
            return 0;
        }
        for (group, &src) in tail.blocks.iter().enumerate() {
            let table = self.created(seq).tables[group].clone();
            let dst = table[rows];
            self.store.hold(0, &[dst]);
            let copy = BlockCopy { src, dst, tokens: tail.tokens, seq, group: group as u8 };
            if self.pool().parent(src) != NIL {
                // A findable block keeps those it follows owned, also where only its copy needs it.
                self.transfers.hold(&mut self.store, &table[..rows]);
            }
            self.transfers.copy(&mut self.store, copy);
        }
        self.store.note(Kind::Partial, seq, u64::from(tail.tokens));
        let sequence = self.created(seq);
        sequence.cached += tail.tokens;
        sequence.committed = sequence.cached;
        tail.tokens
    }

    /// Makes the partial last block of `seq`, which ends, findable as far as it is committed.
    pub(in crate::manager) fn publish_tail(&mut self, seq: SeqId) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let size = self.options.block_size;
        let (at, rest) = ((sequence.committed / size) as usize, sequence.committed % size);
        let known = sequence.tokens.len() >= sequence.committed as usize;
        // The radix index finds what of a whole block is wanted, and keeps whole blocks only.
        let keeps = self.options.partial_hits && self.store.index().takes_keys();
        if !keeps || rest == 0 || sequence.private || !known {
            return Ok(());
        }
        // A part of a public block would be its tenant's, and found by others.
        let public = at < sequence.public as usize;
        if public || sequence.published as usize != at || sequence.keys.len() < at {
            return Ok(());
        }
        let previous = if at == 0 { sequence.root } else { sequence.keys[at - 1] };
        let tokens = &sequence.tokens[at * size as usize..sequence.committed as usize];
        let key = self.hasher.tail(previous, at, &sequence.mm_items, tokens);
        let (meta, length) = (sequence.meta, sequence.known());
        let next_use = [sequence.next_use.get(at).copied().unwrap_or(NEVER)];
        let ids = if self.store.is_logging() { tokens.to_vec() } else { Vec::new() };
        for group in 0..self.options.groups.len() {
            let table = &self.sequences.get(seq)?.tables[group];
            let ordered = self.layout.groups()[group].kind.is_ordered() && at > 0;
            let (block, parent) = (table[at], if ordered { table[at - 1] } else { NIL });
            let alone = block != NIL
                && self.pool().state(block) == State::Pending
                && self.pool().refs(block) == 1;
            let key = key.for_group(group);
            if !alone || self.store.find_key(key, None) != KeyMatch::Nothing {
                continue;
            }
            if parent != NIL && self.pool().state(parent) != State::Committed {
                continue;
            }
            self.store.publish(block, (key, None), (parent, at as u32));
            let sequence = self.sequences.get(seq)?;
            let space = sequence.space().of_private();
            let root = self.hasher.root(space);
            self.store.insert(
                &[block],
                (root, space),
                Access { next_use: &next_use, meta, tokens: length },
            );
            let before = if at == 0 { Key(0) } else { previous.for_group(group) };
            self.store.note_stored(seq, block, before, &ids);
        }
        Ok(())
    }
}
