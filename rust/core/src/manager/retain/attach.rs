//! Handles attached to exact prefixes: valid only for a prompt of exactly those tokens.

use crate::error::{Error, Result};
use crate::groups::GroupKind;
use crate::hash::Key;
use crate::index::KeyMatch;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::sequence::SeqId;

impl Manager {
    /// Attaches `handle` to the first `upto` tokens of `seq`. The handle is dropped when the last
    /// full block of that prefix stops being findable. If the prefix fills no block, the handle is
    /// dropped when the whole cache is reset, or when as many such handles as there are blocks have
    /// been attached after it. Returns the handle that it replaces.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] beyond what is computed, where no findable block carries it, or in an index without keys.
    pub fn attach(&mut self, seq: SeqId, upto: u32, handle: u64) -> Result<Option<u64>> {
        self.store.index().check_keys()?;
        let sequence = self.sequences.get(seq)?;
        sequence.check_computed(upto)?;
        let tokens = sequence.tokens.get(..upto as usize).unwrap_or(&[]);
        let wanted = PrefixQuery { tokens, ..PrefixQuery::of(sequence) };
        let Some((key, link, tail)) = self.exact(wanted).filter(|_| !sequence.private) else {
            return Err(Error::Invalid {
                what: "attach",
                value: upto.to_string(),
                limit: "needs tokens that others may find: their full blocks must be findable"
                    .into(),
            });
        };
        let (tail, below) = (tail.to_vec(), tail.len() == upto as usize);
        let before = self.store.attached_mut().put(key, link, &tail, handle);
        if below && before.is_none() {
            let most = self.pool().usable() as usize;
            self.store.attached_mut().note_below(key, link, tail, most);
        }
        Ok(before)
    }

    /// What is attached to exactly the tokens wanted.
    pub(in crate::manager) fn find_attached(&self, wanted: PrefixQuery<'_>) -> Option<u64> {
        if self.store.attached().is_empty() {
            return None;
        }
        let (key, link, tail) = self.exact(wanted)?;
        self.store.attached().get(key, link, tail)
    }

    /// The key of the last full block of what is wanted, if it is findable, and what comes after; the
    /// root and all of it, where it fills no block.
    fn exact<'a>(&self, wanted: PrefixQuery<'a>) -> Option<(Key, Key, &'a [u32])> {
        let (group, reach) = self.layout.groups().iter().enumerate().find(|(_, reach)| {
            // What another input holds is not named by tokens.
            reach.kind != GroupKind::Cross
        })?;
        let (span, units) = (reach.span, reach.units);
        let blocks = wanted.tokens.len() / span as usize;
        let rows = blocks * units as usize;
        if wanted.keys.len() < rows || wanted.tokens.is_empty() || !self.options.prefix_caching {
            return None;
        }
        let key = if blocks == 0 {
            wanted.root
        } else {
            // Where tokens are compared, those of the last block say nothing of the ones before.
            let first = if self.store.index().wants_proof() { 0 } else { blocks - 1 };
            let is_there = |at| matches!(self.find(wanted, group, at), KeyMatch::Block(_));
            if !(first..blocks).all(is_there) {
                return None;
            }
            wanted.keys[rows - 1]
        };
        let tail = &wanted.tokens[blocks * span as usize..];
        // Items anywhere in the tail tell prefixes apart.
        let (size, length) = (self.options.block_size as usize, wanted.tokens.len());
        let link = |link, unit: usize| {
            let until = ((unit + 1) * size).min(length);
            self.hasher.link_until(link, unit, wanted.mm_items, until)
        };
        Some((key.for_group(group), (rows..length.div_ceil(size)).fold(key, link), tail))
    }

    /// Handles whose prefix is gone, since the last call.
    pub fn take_detached(&mut self) -> Vec<u64> {
        self.store.attached_mut().take_detached()
    }
}
