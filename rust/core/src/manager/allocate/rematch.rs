//! A sequence that has computed nothing yet is looked up again: it trades blocks that it was to fill for
//! ones that others have made findable since.

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::manager::Manager;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::policy::Access;
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// Looks the prompt of `seq` up again in whole blocks, and takes what is found beyond what it has.
    /// Returns the tokens that need not be computed from then on. The sequence stays as it is in these cases:
    /// no more is found; it waits for a load or for a computation that it joined; another sequence joined its
    /// computation or shares slots behind the found blocks; nothing of it may be shared.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] once it has computed tokens.
    pub fn rematch(&mut self, seq: SeqId) -> Result<u32> {
        let sequence = self.sequences.get(seq)?;
        let cached = sequence.cached;
        let waits = self.waits_for_others(seq)?;
        if sequence.committed > cached && !waits && cached >= sequence.brought {
            let computed = sequence.committed - cached;
            return Err(Error::Invalid {
                what: "rematch",
                value: seq.to_string(),
                limit: format!("it has computed {computed} tokens: only one that has none"),
            });
        }
        if waits || sequence.committed != cached || !sequence.read_cache || sequence.private {
            return Ok(cached);
        }
        let mut hits = std::mem::take(&mut self.scratch.hits);
        let found = self.find_again(seq, &mut hits);
        let traded = match found {
            Ok(units) if units * self.block_size() > cached && self.may_trade(seq, &hits) => {
                self.trade(seq, units, &hits)
            }
            other => other.map(|_| cached),
        };
        self.scratch.hits = hits;
        traded
    }

    /// The same, and what it gives up waits until `fence` has passed: a step in flight may write it,
    /// or read it where it was found before.
    ///
    /// # Errors
    /// As [`Manager::rematch`].
    pub fn rematch_behind(&mut self, seq: SeqId, fence: u64) -> Result<u32> {
        self.sequences.get(seq)?;
        self.transfers.fence_up(Some(fence));
        let outcome = self.rematch(seq);
        self.transfers.fence_down();
        outcome
    }

    /// Whether something that `seq` has is filled by others, or others wait for what it fills.
    fn waits_for_others(&self, seq: SeqId) -> Result<bool> {
        let sequence = self.sequences.get(seq)?;
        if !self.transfers.tickets().has_loads() {
            return Ok(false);
        }
        let joined = self.transfers.tickets().load(sequence.joined).is_some_and(|(load, pages)| {
            let first = sequence.tables[0].get(load.start as usize);
            pages.first().is_some_and(|page| first == Some(&page.dst))
        });
        let brought = |&page: &BlockId| self.transfers.tickets().loading(page).is_some();
        let loads = || sequence.tables.iter().flatten().any(brought);
        Ok(joined || !self.transfers.tickets().joined_with(seq).is_empty() || loads())
    }

    /// Fills `hits` with what is found of a sequence's prompt now; units of it.
    fn find_again(&mut self, seq: SeqId, hits: &mut [Vec<BlockId>]) -> Result<u32> {
        let mut keys = std::mem::take(&mut self.scratch.keys);
        keys.clear();
        let sequence = self.sequences.get(seq)?;
        let filled = sequence.filled();
        let tokens = &sequence.tokens[..sequence.tokens.len().min(filled as usize)];
        if self.store.index().takes_keys() {
            keys.extend_from_slice(&sequence.keys);
            self.hasher.extend(sequence.root, &sequence.mm_items, tokens, &mut keys);
        }
        let wanted = PrefixQuery {
            keys: &keys,
            tokens,
            root: sequence.root,
            mm_items: &sequence.mm_items,
            limit: self.hit_limit(filled),
        };
        let found = self.find_prefix(wanted, hits).units as u32;
        self.scratch.keys = keys;
        Ok(found)
    }

    /// Whether `seq` may own `hits` instead of what it has: where that is more blocks, running
    /// sequences must keep what they were promised.
    fn may_trade(&self, seq: SeqId, hits: &[Vec<BlockId>]) -> bool {
        let Ok(sequence) = self.sequences.get(seq) else { return false };
        let (mut acquired, mut freed) = (0, 0);
        for ((found, table), reach) in hits.iter().zip(&sequence.tables).zip(self.layout.groups()) {
            let mut kept = table.iter().skip(found.len()).filter(|&&block| block != NIL);
            let changes = found.iter().zip(table).any(|(new, had)| new != had);
            // The block would follow a parent that its other owner does not have, or that this sequence gives
            // up.
            let follows = |block| changes && self.pool().parent(block) != NIL;
            let stays = |&block: &BlockId| self.is_shared_fresh(block) || follows(block);
            if reach.kind != GroupKind::Cross && kept.any(stays) {
                return false;
            }
            for (i, &block) in found.iter().enumerate() {
                let before = table.get(i).copied().unwrap_or(NIL);
                if before == block {
                    continue;
                }
                acquired += u32::from(block != NIL && self.pool().refs(block) == 0);
                freed += u32::from(before != NIL && self.pool().refs(before) == 1);
            }
        }
        if self.transfers.fences().is_up() {
            freed = 0;
        }
        let more = acquired.saturating_sub(freed);
        let tenant = sequence.meta.tenant;
        let room = self.store.available(tenant).checked_sub(more);
        more == 0 || room.is_some_and(|room| self.kept_for_growth(hits, room, tenant) <= room)
    }

    fn trade(&mut self, seq: SeqId, units: u32, hits: &[Vec<BlockId>]) -> Result<u32> {
        self.store.tick();
        self.transfers.fences().note_up(&mut self.store);
        let cut = self.is_cut(hits);
        let size = self.options.block_size;
        for (group, found) in hits.iter().enumerate() {
            if self.layout.groups()[group].kind != GroupKind::Cross {
                self.trade_group(seq, group, found)?;
            }
        }
        let sequence = self.sequences.get_mut(seq)?;
        let (before, slots) = (sequence.cached, sequence.len);
        let cached = units * size;
        if self.store.index().takes_keys() {
            let Sequence { root, mm_items, tokens, keys, .. } = sequence;
            let found = tokens.get(..cached as usize).unwrap_or(tokens);
            self.hasher.extend(*root, mm_items, found, keys);
        }
        (sequence.cached, sequence.committed, sequence.published) = (cached, cached, units);
        sequence.usage.read = cached;
        sequence.private |= cut;
        sequence.len = slots.max(cached);
        let (prompt, resumed) = (sequence.prompt.max(1), sequence.usage.resumed);
        let tenant = sequence.meta.tenant;
        self.count_more((prompt, tenant), before, cached, resumed);
        let facts = [prompt, u32::from(resumed), u32::from(self.counts_blocks())];
        self.store.note_ids(Kind::Rematch, seq, (u64::from(cached), u64::from(before)), &facts);
        if slots < cached {
            self.store.note(Kind::Extend, seq, u64::from(cached));
        }
        self.transfers.fences().note_down(&mut self.store);
        self.note_computing(seq);
        self.note_promised(seq);
        Ok(cached)
    }

    /// Puts the blocks found in one group in the places of those that `seq` has there.
    fn trade_group(&mut self, seq: SeqId, group: usize, found: &[BlockId]) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        let had = &sequence.tables[group];
        let new =
            |(i, &block): (usize, &BlockId)| if had.get(i) == Some(&block) { NIL } else { block };
        let fresh: Vec<BlockId> = found.iter().enumerate().map(new).collect();
        let gives_up = |i: usize| had[i] != NIL && found[i] != had[i];
        let places: Vec<usize> = (0..had.len().min(found.len())).filter(|&i| gives_up(i)).collect();
        let before: Vec<BlockId> = had.iter().copied().collect();
        let next_use = sequence.next_use.clone();
        let access = Access { next_use: &next_use, meta: sequence.meta, tokens: sequence.known() };
        self.own(seq, group, &fresh, access);
        let table = &mut self.sequences.get_mut(seq)?.tables[group];
        let within = table.len().min(found.len());
        for (i, &block) in found[..within].iter().enumerate() {
            table.replace(i, block);
        }
        table.extend_from_slice(&found[within..]);
        self.transfers.drop_places(&mut self.store, seq, &before, &places);
        Ok(())
    }

    fn is_shared_fresh(&self, block: BlockId) -> bool {
        !self.pool().is_findable(block) && self.pool().refs(block) > 1
    }
}
