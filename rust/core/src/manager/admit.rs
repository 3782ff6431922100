//! Admission: a sequence comes in with what is cached, and gets blocks for the rest.

use super::lookup::Wanted;
use super::tails::Tail;
use super::{Admission, Fit, Grant, Manager};
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::hash::Key;
use crate::policy::{NEVER, Use, View};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{SeqId, Sequence, Usage};

/// What an admission starts from.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Units at the front that every group owns already.
    rows: u32,
    /// Of those, units that are findable.
    good: u32,
    /// Who computes the others.
    filler: Option<SeqId>,
    /// A partial block after them.
    tail: Option<Tail>,
}

/// What an admission was counted to.
pub(super) struct Counted {
    /// Tokens that get slots.
    until: u32,
    /// Blocks that a partial grant leaves.
    leave: u32,
    /// Tokens that somebody else brings.
    external: u32,
}

impl Manager {
    /// Admits a request: looks its prefix up, owns what was found, takes blocks for the rest.
    ///
    /// # Errors
    /// [`Error::NeverFits`], [`Error::NoCapacity`], [`Error::NeedVictims`]; [`Error::Invalid`] for
    /// more keys than the prompt has full blocks.
    pub fn admit(&mut self, request: &Admission<'_>) -> Result<Grant> {
        let (known, request) = &self.as_it_counts(request)?;
        let (known, Admission { prompt, extras, .. }) = (*known, *request);
        let findable = self.options.prefix_caching && (request.read || request.insert);
        let root = self.hasher.root(request.space);
        let mut hashed = std::mem::take(&mut self.scratch.keys);
        let mut hits = std::mem::take(&mut self.scratch.hits);
        let full = prompt.tokens.len() / self.options.block_size as usize;
        let keys = if findable && self.wants_keys() && prompt.keys.len() < full {
            hashed.clear();
            hashed.extend_from_slice(prompt.keys);
            self.hasher.extend(root, extras, prompt.tokens, &mut hashed);
            &hashed[..]
        } else {
            prompt.keys
        };
        let limit = if request.read { self.hit_limit(known) } else { 0 };
        let wanted = Wanted { keys, tokens: prompt.tokens, root, extras, limit };
        let (found, collisions) = self.find_prefix(wanted, &mut hits);
        if self.layout.has_cross() {
            self.find_cross(request, root, &mut hits);
        }
        let start = self.find_start(request, wanted, known, found as u32, &mut hits);
        let tail = start.tail.as_ref().map_or(&[][..], |tail| &tail.blocks);
        let wants = hits.iter().flatten().chain(tail).copied().filter(|&b| b != NIL);
        if let Some(books) = self.policy.external() {
            books.unpick_all(wants.clone());
        }
        let counted = self.count_needs(request, known, &start, &hits);
        if let (Err(Error::NeedVictims { .. }), Some(books)) = (&counted, self.policy.external()) {
            books.spare(wants);
        }
        let outcome = counted.inspect_err(|error| self.count_refusal(error)).map(|counted| {
            let miss = self.why_missed(request, wanted, known, start.rows, collisions);
            self.count_collisions(collisions);
            let attached = self.find_attached(wanted);
            let grant = self.carry_out(request, known, &counted, &start, (root, keys), &hits);
            self.count_admission(request, &grant, miss);
            Grant { attached, ..grant }
        });
        self.scratch.keys = hashed;
        self.scratch.hits = hits;
        outcome
    }

    /// Tokens of the prompt, and the request with what it may read and insert.
    pub(super) fn as_it_counts<'a>(&self, request: &Admission<'a>) -> Result<(u32, Admission<'a>)> {
        let known = self.check_keys(request)?;
        self.check_encoder(request)?;
        self.check_join(request.join)?;
        // What no key names is nobody else's, and so is all that is computed over it.
        let nameless = request.encoder_tokens > 0 && request.space.encoder.is_empty();
        let (read, insert) = (request.read && !nameless, request.insert && !nameless);
        Ok((known, Admission { read, insert, ..*request }))
    }

    /// Tokens of the prompt, unless its keys cannot be right.
    fn check_keys(&self, request: &Admission<'_>) -> Result<u32> {
        let prompt = request.prompt;
        let known = if prompt.tokens.is_empty() { prompt.len } else { prompt.tokens.len() as u32 };
        if prompt.keys.len() as u64 > u64::from(known / self.block_size()) {
            return Err(Error::Invalid {
                what: "keys",
                value: prompt.keys.len().to_string(),
                limit: format!("the prompt has {} full blocks", known / self.block_size()),
            });
        }
        let findable = self.options.prefix_caching && (request.read || request.insert);
        if findable
            && prompt.tokens.is_empty()
            && !prompt.keys.is_empty()
            && !self.index.takes_keys()
        {
            return Err(Error::Invalid {
                what: "keys",
                value: prompt.keys.len().to_string(),
                limit: "the radix index matches tokens: give them, or neither read nor insert"
                    .into(),
            });
        }
        Ok(known)
    }

    /// What of a prompt need not be computed, besides what `find_prefix` found: a computation to
    /// join, or else a partial block.
    pub(super) fn find_start(
        &self,
        request: &Admission<'_>,
        wanted: Wanted<'_>,
        known: u32,
        found: u32,
        hits: &mut [Vec<BlockId>],
    ) -> Start {
        let mut start = Start { rows: found, good: found, ..Start::default() };
        if !request.read || request.external > 0 || request.external_until > 0 {
            return start;
        }
        if request.join
            && let Some((filler, good)) = self.find_computing(wanted, hits)
        {
            start.rows = hits.first().map_or(0, Vec::len) as u32;
            (start.good, start.filler) = (good, Some(filler));
        } else if self.options.partial_hits {
            let tail = self.find_tail(wanted, self.less_the_last(known), hits);
            start.tail = tail.filter(|tail| self.fits_beside(request, known, tail, hits));
        }
        start
    }

    /// Whether all of a prompt has room beside the partial block that it would copy: who fits without
    /// the copy must not be refused for it.
    fn fits_beside(
        &self,
        request: &Admission<'_>,
        known: u32,
        tail: &Tail,
        hits: &[Vec<BlockId>],
    ) -> bool {
        let longest = if request.whole_sequence { known.max(request.max_tokens) } else { known };
        let blocks = self.layout.blocks(longest, request.encoder_tokens);
        let needed = blocks - hits.iter().map(Vec::len).sum::<usize>() as u64;
        let held = hits.iter().chain([&tail.blocks]).map(|blocks| self.pool.count_cached(blocks));
        let room = u64::from(self.pool.available().saturating_sub(self.kept_for_growth()));
        needed + held.sum::<usize>() as u64 <= room
    }

    /// Tokens that somebody else brings after `cached` ones.
    fn external_of(&self, request: &Admission<'_>, known: u32, cached: u32) -> Result<u32> {
        // Rule 5 holds for what somebody else computed, with prefix caching or without.
        let most = self.whole_units(self.less_the_last(known));
        let left = most.saturating_sub(cached);
        let external = request.external;
        let unit = self.layout.unit_tokens();
        if !external.is_multiple_of(unit) || external > left {
            let whole = if unit == self.block_size() {
                "must be whole blocks,".to_owned()
            } else {
                format!("must be a multiple of {unit},")
            };
            return Err(Error::Invalid {
                what: "external",
                value: external.to_string(),
                limit: format!("{whole} {left} tokens at the most after {cached} cached ones"),
            });
        }
        let until = self.whole_units(request.external_until.min(most));
        if until > 0 && external > 0 {
            return Err(Error::Invalid {
                what: "external",
                value: external.to_string(),
                limit: "external_until says where it ends: give one of the two".into(),
            });
        }
        Ok(external.max(until.saturating_sub(cached)))
    }

    /// Counts what an admission needs before anything moves.
    pub(super) fn count_needs(
        &self,
        request: &Admission<'_>,
        known: u32,
        start: &Start,
        hits: &[Vec<BlockId>],
    ) -> Result<Counted> {
        let encoder = request.encoder_tokens;
        let tail = start.tail.as_ref().map_or(&[][..], |tail| &tail.blocks);
        let cached = start.rows * self.block_size() + start.tail.as_ref().map_or(0, |t| t.tokens);
        let external = self.external_of(request, known, cached)?;
        let cached = cached + external;
        let until = known.min(cached.saturating_add(request.chunk)).min(request.until.max(cached));
        let entries = hits.iter().map(Vec::len).sum::<usize>() as u64;
        let needed = self.layout.blocks(until, encoder) - entries;
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let claimed = hits.iter().map(|h| self.pool.count_cached(h)).sum::<usize>();
        let claimed = (claimed + self.pool.count_cached(tail)) as u32;
        let room = self.pool.available() - claimed;
        let kept = self.kept_for_growth();
        if request.fit == Fit::Partial {
            // The other input comes in whole.
            let least = self.cross_missing(hits, encoder);
            if least > room.saturating_sub(kept) {
                return self.room_for(least.saturating_add(kept), claimed).map(|()| Counted {
                    until,
                    leave: kept,
                    external,
                });
            }
            self.room_for(needed.min(room.saturating_sub(kept)), claimed)?;
            return Ok(Counted { until, leave: kept, external });
        }
        let longest = known.max(request.max_tokens);
        let held = hits.iter().flatten().chain(tail).filter(|&&b| b != NIL).count() as u64;
        let total = self.layout.least(longest, encoder).max(u64::from(needed) + held);
        if total > u64::from(self.pool.usable()) {
            return Err(Error::NeverFits { needed: total, total: u64::from(self.pool.usable()) });
        }
        let at_least = if request.whole_sequence {
            needed.max(self.still_lacks(longest, encoder, hits))
        } else {
            needed
        };
        if needed <= room && at_least.saturating_add(kept) > room {
            return Err(Error::NoCapacity {
                needed: u64::from(at_least) + u64::from(kept),
                available: u64::from(room),
                total: u64::from(self.pool.usable()),
            });
        }
        self.room_for(needed, claimed)?;
        Ok(Counted { until, leave: 0, external })
    }

    /// Blocks that a sequence with these tables may yet take on its way to `tokens` tokens.
    fn still_lacks(&self, tokens: u32, encoder: u32, tables: &[Vec<BlockId>]) -> u32 {
        let lacks = |(reach, table): (&crate::groups::Reach, &Vec<BlockId>)| match reach.kind {
            GroupKind::Full => reach.blocks(tokens).saturating_sub(table.len() as u32),
            GroupKind::Cross => reach.blocks(encoder).saturating_sub(table.len() as u32),
            _ => {
                // What it holds is the end of its table, and what a sink keeps.
                let end = table.iter().rev().take_while(|&&b| b != NIL).count();
                let head = table[..table.len() - end].iter().take_while(|&&b| b != NIL).count();
                reach.most(tokens).saturating_sub((head + end) as u32)
            }
        };
        self.layout.groups().iter().zip(tables).map(lacks).fold(0, u32::saturating_add)
    }

    /// Blocks that an admission must leave for running sequences: the reserve, and what those that
    /// came in with their whole length still lack.
    fn kept_for_growth(&self) -> u32 {
        // Nobody runs: nothing will grow, and waiting would not help.
        if self.sequences.is_empty() {
            return 0;
        }
        let mut kept = self.options.reserve;
        if self.promised {
            let lacks = |s: &Sequence| {
                self.still_lacks(s.max_tokens.max(s.known()), s.encoder_tokens, &s.tables)
            };
            let whole = self.sequences.iter().filter(|(_, s)| s.whole);
            kept = whole.map(|(_, s)| lacks(s)).fold(kept, u32::saturating_add);
        }
        kept
    }

    fn carry_out(
        &mut self,
        request: &Admission<'_>,
        known: u32,
        counted: &Counted,
        start: &Start,
        (root, keys): (Key, &[Key]),
        hits: &[Vec<BlockId>],
    ) -> Grant {
        self.tick += 1;
        let seq = self.sequences.create(hits.len());
        self.note_admission(seq, request, known, start.good);
        let &Counted { until, leave, external } = counted;
        let using = Use { outlook: request.outlook, meta: request.meta, tokens: known };
        self.own_start(seq, start, hits, using);
        let mut tables = std::mem::take(&mut self.created(seq).tables);
        for (table, found) in tables.iter_mut().zip(hits) {
            table.extend_from_slice(found);
        }
        let encoder_cached = self.obtain_cross(seq, request.encoder_tokens, &mut tables);
        let may_refuse = request.fit == Fit::Partial && self.policy.may_refuse();
        let wants_missed = request.insert && self.policy.wants_missed();
        let mut rows = start.rows;
        while rows < self.blocks_for(until) {
            let row = self.row_blocks(&tables, rows);
            if self.pool.available() < row.saturating_add(leave) {
                break;
            }
            let outlook = request.outlook.get(rows as usize).copied().unwrap_or(NEVER);
            if wants_missed {
                self.announce(keys, rows);
            }
            if !self.obtain_row(seq, &mut tables, rows, may_refuse.then_some(outlook)) {
                break;
            }
            rows += 1;
        }
        let cached = start.good * self.block_size();
        let slots = rows.saturating_mul(self.block_size());
        let insert = request.insert && self.options.prefix_caching;
        let admitted = self.tick;
        let (cut, size) = (self.is_cut(hits), self.block_size());
        let sequence = self.created(seq);
        sequence.tables = tables;
        sequence.len = until.min(slots);
        sequence.committed = cached;
        sequence.cached = cached;
        sequence.published = start.good;
        sequence.private = !insert || cut;
        sequence.tokens.extend_from_slice(request.prompt.tokens);
        sequence.known = known;
        sequence.keys.extend_from_slice(keys);
        sequence.root = root;
        sequence.salt.extend_from_slice(request.space.salt);
        sequence.adapter.extend_from_slice(request.space.adapter);
        sequence.encoder.extend_from_slice(request.space.encoder);
        sequence.encoder_tokens = request.encoder_tokens;
        sequence.encoder_published = encoder_cached;
        sequence.prompt = known;
        sequence.insert = request.insert;
        sequence.extras.extend_from_slice(request.extras);
        sequence.outlook.extend_from_slice(request.outlook);
        sequence.meta = request.meta;
        sequence.admitted = admitted;
        // What came back was told of when it came first.
        sequence.sighted = if request.resumed { known / size } else { 0 };
        (sequence.max_tokens, sequence.whole) = (request.max_tokens, request.whole_sequence);
        let granted_tokens = sequence.len;
        let tail = start.tail.as_ref();
        let cached = cached + tail.map_or(0, |tail| self.copy_found_tail(seq, tail));
        self.promised |= request.whole_sequence;
        let external = self.whole_units(external.min(granted_tokens - cached));
        let blocks = external / self.block_size();
        let load = (blocks > 0).then(|| self.open_load(seq, start.rows, blocks));
        let joined_tokens =
            start.filler.map_or(0, |filler| self.join(seq, filler, start.good, start.rows));
        self.created(seq).usage = Usage {
            read: cached,
            joined: joined_tokens,
            resumed: request.resumed,
            ..Usage::default()
        };
        Grant {
            seq,
            cached_tokens: cached,
            granted_tokens,
            prompt_tokens: known,
            load,
            encoder_cached,
            external_tokens: external,
            joined_tokens,
            attached: None,
        }
    }

    /// Tells a policy with ghosts which keys the blocks that start at unit `row` are for.
    fn announce(&mut self, keys: &[Key], row: u32) {
        for (group, reach) in self.layout.groups().iter().enumerate() {
            let starts = reach.kind != GroupKind::Cross && row.is_multiple_of(reach.units);
            let Some(key) = keys.get((row + reach.units) as usize - 1).filter(|_| starts) else {
                continue;
            };
            let view = View { pool: &self.pool, now: self.tick };
            self.policy.missed(key.for_group(group), view);
        }
    }

    pub(super) fn created(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(seq).expect("the sequence was created just now")
    }

    /// `seq` becomes an owner of all that it starts from.
    fn own_start(&mut self, seq: SeqId, start: &Start, hits: &[Vec<BlockId>], using: Use<'_>) {
        for found in hits {
            let mut found = &found[..];
            if start.filler.is_some() {
                let (good, computing) = found.split_at(start.good as usize);
                for &block in computing {
                    self.pool.share(block);
                }
                self.note_blocks(Kind::Hold, seq, computing.iter(), 0);
                found = good;
            }
            self.own(seq, found, using);
        }
        if let Some(tail) = &start.tail {
            self.hold_tail(seq, tail, Use { outlook: &[], ..using });
        }
    }

    /// `seq` becomes an owner of the blocks found in one group.
    fn own(&mut self, seq: SeqId, found: &[BlockId], using: Use<'_>) {
        let mut start = 0;
        // What is not needed lies before a window's blocks, or between a sink and them.
        for run in found.split(|&b| b == NIL) {
            let outlook = using.outlook.get(start..).unwrap_or(&[]);
            self.own_run(seq, run, Use { outlook, ..using });
            start += run.len() + 1;
        }
    }

    fn own_run(&mut self, seq: SeqId, found: &[BlockId], using: Use<'_>) {
        if found.is_empty() {
            return;
        }
        self.note_blocks(Kind::Hit, seq, found.iter(), 0);
        let mut cached = std::mem::take(&mut self.scratch.blocks);
        let some_owned = self.pool.count_cached(found) < found.len();
        if some_owned {
            cached.clear();
            cached.extend(found.iter().filter(|&&b| self.pool.state(b) == State::Cached));
        }
        self.pool.share_chain(found);
        let view = View { pool: &self.pool, now: self.tick };
        self.policy.claim(if some_owned { &cached } else { found }, view);
        self.policy.hit(found, using, view);
        if self.observer.samples.is_on() {
            self.observer.samples.used(found, self.tick);
        }
        self.scratch.blocks = cached;
    }

    /// Groups whose table has no slots for the unit `row` yet, as bits.
    #[inline]
    fn short_groups(&self, tables: &[Vec<BlockId>], row: u32) -> u32 {
        if self.layout.is_uniform() {
            return (1 << tables.len()) - 1;
        }
        let end = (u64::from(row) + 1) * u64::from(self.block_size());
        let mut short = 0;
        for (group, (reach, table)) in self.layout.groups().iter().zip(tables).enumerate() {
            let has = table.len() as u64 * u64::from(reach.span);
            short |= u32::from(reach.kind != GroupKind::Cross && has < end) << group;
        }
        short
    }

    /// Blocks that slots for the unit `row` take.
    fn row_blocks(&self, tables: &[Vec<BlockId>], row: u32) -> u32 {
        self.short_groups(tables, row).count_ones()
    }

    /// Slots for the unit `row` in every group's table, or in none.
    pub(super) fn obtain_row(
        &mut self,
        seq: SeqId,
        tables: &mut [Vec<BlockId>],
        row: u32,
        outlook: Option<u32>,
    ) -> bool {
        let short = self.short_groups(tables, row);
        let is_short = |group: &usize| short >> group & 1 == 1;
        for group in (0..tables.len()).filter(is_short) {
            let Some(block) = self.obtain(seq, group, outlook) else {
                for group in (0..group).filter(is_short) {
                    let block = tables[group].pop().expect("the group got its block just now");
                    self.note_block(Kind::Release, seq, block, 0);
                    self.pool.unshare(block);
                    self.pool.put_back(block);
                }
                return false;
            };
            tables[group].push(block);
        }
        true
    }
}
