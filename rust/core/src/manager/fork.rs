//! A second sequence over the same blocks.

use super::Manager;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::pool::NIL;
use crate::sequence::{SeqId, Usage, check_no_gap};

/// Most forks that one call makes: sharing takes no block, so that the pool does not bound them.
pub const MAX_FORKS: u32 = 1 << 16;

impl Manager {
    /// A sequence that shares every block of `seq`; whichever writes first copies the tail.
    /// Costs no block.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] with slots that are not computed in a group where each of the
    /// two would compute something else into them: recurrent layers, tokens behind a sink.
    pub fn fork(&mut self, seq: SeqId) -> Result<SeqId> {
        let source = self.sequences.get(seq)?;
        self.check_fork(seq, source.committed, source.len)?;
        self.fork_all(seq)
    }

    /// Whether `seq` may be forked with so many tokens computed, of so many with slots.
    #[inline]
    pub(super) fn check_fork(&self, seq: SeqId, committed: u32, len: u32) -> Result<()> {
        if committed < len && self.steps_matter() {
            return Err(not_computed(seq, committed, len));
        }
        Ok(())
    }

    fn fork_all(&mut self, seq: SeqId) -> Result<SeqId> {
        let child = self.share_all(seq)?;
        self.store.stats_mut().forks += 1;
        self.store.note(Kind::Fork, child, seq);
        Ok(child)
    }

    /// As many forks of `seq` as `n`; with `tokens`, one a fork, each grows by its own. All of them or
    /// none.
    ///
    /// # Errors
    /// As [`Manager::fork`] and [`Manager::append`]; [`Error::Invalid`] for another number of tokens,
    /// or more than [`MAX_FORKS`].
    pub fn fork_many(&mut self, seq: SeqId, n: u32, tokens: Option<&[u32]>) -> Result<Vec<SeqId>> {
        let source = self.sequences.get(seq)?;
        self.check_fork(seq, source.committed, source.len)?;
        if n > MAX_FORKS {
            let limit = format!("must be at most {MAX_FORKS}");
            return Err(Error::Invalid { what: "n", value: n.to_string(), limit });
        }
        if let Some(tokens) = tokens {
            self.check_forked_tokens(seq, n, tokens)?;
        }
        let forks = (0..n).map(|_| self.fork_all(seq)).collect::<Result<Vec<SeqId>>>()?;
        for (&fork, token) in forks.iter().zip(tokens.unwrap_or_default()) {
            self.append(fork, std::slice::from_ref(token))?;
        }
        Ok(forks)
    }

    /// Whether each of `n` forks of `seq` may grow by one of `tokens`, and there is room for all.
    fn check_forked_tokens(&mut self, seq: SeqId, n: u32, tokens: &[u32]) -> Result<()> {
        if tokens.len() != n as usize {
            let limit = format!("must be one token for each of the {n} forks");
            let value = tokens.len().to_string();
            return Err(Error::Invalid { what: "tokens", value, limit });
        }
        if n == 0 {
            return Ok(());
        }
        let sequence = self.sequences.get(seq)?;
        sequence.check_append(1)?;
        check_no_gap(1, sequence.unknown)?;
        let (len, encoder) = (sequence.len, sequence.encoder_tokens);
        let until = self.checked_len(u64::from(len) + 1)?;
        let rows = self.layout.blocks(until, encoder) - self.layout.blocks(len, encoder);
        // The source keeps the blocks that it shares: every fork copies what it writes into.
        let copies = self.written_ahead(seq, |_| true)?.len() as u64;
        let needed = u32::try_from((rows + copies) * u64::from(n)).unwrap_or(u32::MAX);
        let tenant = self.sequences.get(seq)?.meta.tenant;
        if needed == 0 { Ok(()) } else { self.check_room(needed, 0, tenant) }
    }

    /// A sequence with every block of `seq`, whatever is computed.
    pub(super) fn share_all(&mut self, seq: SeqId) -> Result<SeqId> {
        let child = self.sequences.copy(seq)?;
        let sequence = self.sequences.get_mut(child)?;
        let (session, joined) = (sequence.meta.session, sequence.joined);
        let tables = std::mem::take(&mut sequence.tables);
        self.store.tick();
        self.store.begin_session(session);
        let is_copied = !self.transfers.tickets().is_idle();
        for table in &tables {
            self.store.hold(child, table);
            for &block in table.iter().filter(|&&b| is_copied && b != NIL) {
                self.transfers.share(block, child);
            }
        }
        let sequence = self.sequences.get_mut(child)?;
        sequence.tables = tables;
        // The child has room to share; room for it to grow was not checked.
        (sequence.full_sequence_must_fit, sequence.usage) = (false, Usage::default());
        if joined > 0 {
            self.transfers.add_joiner(joined, child);
        }
        self.note_computing(child);
        Ok(child)
    }

    /// A sequence that shares the first `upto` computed tokens of `seq` and knows no more. With
    /// `copy`, a partial last block is copied at once, not when it is written on.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] beyond what is computed, and where a window has moved on; with `copy`, [`Error::NoCapacity`] and [`Error::NeedVictims`].
    pub fn fork_prefix(&mut self, seq: SeqId, upto: u32, copy: bool) -> Result<SeqId> {
        let source = self.sequences.get(seq)?;
        let (committed, len) = (source.committed, source.len);
        source.check_computed(upto)?;
        self.check_cut(seq, upto, &|_| false)?;
        let tails = if copy { self.partial_blocks(seq, upto)? } else { Vec::new() };
        if !tails.is_empty() {
            let tenant = self.sequences.get(seq)?.meta.tenant;
            self.check_room(tails.len() as u32, 0, tenant)?;
        }
        self.check_fork(seq, committed, len)?;
        self.store.note_two(Kind::ForkPrefix, seq, u64::from(upto), u64::from(copy));
        let child = self.fork_all(seq)?;
        self.cut(child, upto)?;
        for (group, at) in tails {
            self.copy_block(child, group, at)?;
        }
        Ok(child)
    }

    /// Blocks (group, place) of `seq` that the token at `len` is written into behind others.
    fn partial_blocks(&self, seq: SeqId, len: u32) -> Result<Vec<(usize, usize)>> {
        let tables = &self.sequences.get(seq)?.tables;
        let groups = self.layout.groups().iter().zip(tables).enumerate();
        let partial = groups.filter(|(_, (reach, table))| {
            reach.kind != GroupKind::Cross
                && !len.is_multiple_of(reach.span)
                && table[(len / reach.span) as usize] != NIL
        });
        Ok(partial.map(|(group, (reach, _))| (group, (len / reach.span) as usize)).collect())
    }
}

#[cold]
fn not_computed(seq: SeqId, committed: u32, len: u32) -> Error {
    let limit =
        format!("{len} tokens have slots and {committed} are computed: cut it to those first");
    Error::Invalid { what: "fork", value: seq.to_string(), limit }
}
