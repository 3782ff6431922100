//! Admission: a sequence comes in with what is cached, and gets blocks for the rest.

use super::Manager;
use super::lookup::Wanted;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::groups::GroupKind;
use crate::hash::{Extra, Key, Space};
use crate::policy::{NEVER, Use, View};
use crate::pool::{BlockId, NIL, State};
use crate::sequence::{Meta, SeqId, Sequence};

/// What a request asks to have computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prompt<'a> {
    /// Token ids; empty where only keys are known.
    pub tokens: &'a [u32],
    /// Keys of full blocks; hashed from `tokens` where empty.
    pub keys: &'a [Key],
    /// Length in tokens where `tokens` is empty.
    pub len: u32,
}

/// How much of a prompt must get blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fit {
    /// All of it, or the request is refused.
    #[default]
    Whole,
    /// As much as there is room for (and as the policy lets in), from the front.
    Partial,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// What to compute.
    pub prompt: Prompt<'a>,
    /// Salt and adapter.
    pub space: Space<'a>,
    /// Multimodal items.
    pub extras: &'a [Extra],
    /// For policies and statistics.
    pub meta: Meta,
    /// Look for cached blocks.
    pub read: bool,
    /// Leave blocks findable.
    pub insert: bool,
    /// It comes back after a preemption: counted apart.
    pub resumed: bool,
    /// All or as much as fits.
    pub fit: Fit,
    /// Slots for this many tokens now, the rest by `extend` (chunked prefill). Hits come on top.
    pub chunk: u32,
    /// Slots up to this length at the most, whatever was found.
    pub until: u32,
    /// Prompt and answer together, where that is known: what can never fit is refused at once.
    pub max_tokens: u32,
    /// Tokens after the cached ones that somebody else brings: whole blocks, filled by the time that
    /// the grant's `load` is settled.
    pub external: u32,
    /// Tokens of the other input that groups of the kind [`GroupKind::Cross`] attend to; its content is
    /// named in `space`, or it is shared with nobody.
    pub encoder_tokens: u32,
    /// Admit only if all of `max_tokens` could be had now; later admissions leave what it lacks.
    pub whole_sequence: bool,
    /// When each prompt block is used next (request index), if the future is known.
    pub outlook: &'a [u32],
}

impl Default for Admission<'_> {
    fn default() -> Self {
        Self {
            prompt: Prompt::default(),
            space: Space::default(),
            extras: &[],
            meta: Meta::default(),
            read: true,
            insert: true,
            resumed: false,
            fit: Fit::Whole,
            chunk: u32::MAX,
            until: u32::MAX,
            max_tokens: 0,
            external: 0,
            encoder_tokens: 0,
            whole_sequence: false,
            outlook: &[],
        }
    }
}

/// What an admission gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The sequence.
    pub seq: SeqId,
    /// Prompt tokens found; computing starts here.
    pub cached_tokens: u32,
    /// Prompt tokens that have slots.
    pub granted_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The ticket of what comes from elsewhere; nothing of it is findable before it is settled.
    pub load: Option<u64>,
    /// Whether the KV of the other input was found: the encoder need not run.
    pub encoder_cached: bool,
}

impl Manager {
    /// Admits a request: looks its prefix up, owns what was found, takes blocks for the rest.
    ///
    /// # Errors
    /// [`Error::NeverFits`], [`Error::NoCapacity`], [`Error::NeedVictims`]; [`Error::Invalid`] for
    /// more keys than the prompt has full blocks.
    pub fn admit(&mut self, request: &Admission<'_>) -> Result<Grant> {
        let Admission { prompt, extras, .. } = *request;
        let known = if prompt.tokens.is_empty() { prompt.len } else { prompt.tokens.len() as u32 };
        if prompt.keys.len() as u64 > u64::from(known / self.block_size()) {
            return Err(Error::Invalid {
                what: "keys",
                value: prompt.keys.len().to_string(),
                limit: format!("the prompt has {} full blocks", known / self.block_size()),
            });
        }
        self.check_encoder(request)?;
        // What no key names is nobody else's, and so is all that is computed over it.
        let nameless = request.encoder_tokens > 0 && request.space.encoder.is_empty();
        let request = &Admission {
            read: request.read && !nameless,
            insert: request.insert && !nameless,
            ..*request
        };
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
        if let Some(books) = self.policy.external() {
            books.unpick_all(hits.iter().flatten().copied().filter(|&b| b != NIL));
        }
        let plan = self.plan_admission(request, known, found, &hits);
        if let (Err(Error::NeedVictims { .. }), Some(books)) = (&plan, self.policy.external()) {
            books.spare(hits.iter().flatten().copied().filter(|&b| b != NIL));
        }
        let outcome = plan.map(|until| {
            self.stats.collisions += u64::from(collisions);
            self.carry_out(request, known, (found as u32, until), root, keys, &hits)
        });
        self.scratch.keys = hashed;
        self.scratch.hits = hits;
        outcome
    }

    /// Counts: up to how many tokens slots are to be given, and how many blocks a partial grant has
    /// to leave.
    fn plan_admission(
        &mut self,
        request: &Admission<'_>,
        known: u32,
        found: usize,
        hits: &[Vec<BlockId>],
    ) -> Result<(u32, u32)> {
        let encoder = request.encoder_tokens;
        let cached = found as u32 * self.block_size();
        // Rule 5 holds for what somebody else computed, with prefix caching or without.
        let most = self.whole_units(self.less_the_last(known));
        let external = request.external;
        let unit = self.layout.unit_tokens();
        if !external.is_multiple_of(unit) || external > most.saturating_sub(cached) {
            let most = most.saturating_sub(cached);
            let whole = if unit == self.block_size() {
                "must be whole blocks,".to_owned()
            } else {
                format!("must be a multiple of {unit},")
            };
            return Err(Error::Invalid {
                what: "external",
                value: external.to_string(),
                limit: format!("{whole} {most} tokens at the most after {cached} cached ones"),
            });
        }
        let cached = cached + external;
        let until = known.min(cached.saturating_add(request.chunk)).min(request.until.max(cached));
        let entries = hits.iter().map(Vec::len).sum::<usize>() as u64;
        let needed = self.layout.blocks(until, encoder) - entries;
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let claimed = hits.iter().map(|h| self.pool.count_cached(h)).sum::<usize>() as u32;
        let room = self.pool.available() - claimed;
        let kept = self.kept_for_growth();
        if request.fit == Fit::Partial {
            // The other input comes in whole.
            let least = self.cross_missing(hits, encoder);
            if least > room.saturating_sub(kept) {
                return self
                    .check_room(least.saturating_add(kept), claimed)
                    .map(|()| (until, kept));
            }
            self.check_room(needed.min(room.saturating_sub(kept)), claimed)?;
            return Ok((until, kept));
        }
        let longest = known.max(request.max_tokens);
        let held = hits.iter().flatten().filter(|&&b| b != NIL).count() as u64;
        let total = self.layout.least(longest, encoder).max(u64::from(needed) + held);
        if total > u64::from(self.pool.usable()) {
            self.stats.refused += 1;
            let total_pool = u64::from(self.pool.usable());
            return Err(Error::NeverFits { needed: total, total: total_pool });
        }
        let at_least = if request.whole_sequence {
            needed.max(self.still_lacks(longest, encoder, hits))
        } else {
            needed
        };
        if needed <= room && at_least.saturating_add(kept) > room {
            self.stats.refused += 1;
            return Err(Error::NoCapacity {
                needed: u64::from(at_least) + u64::from(kept),
                available: u64::from(room),
                total: u64::from(self.pool.usable()),
            });
        }
        self.check_room(needed, claimed)?;
        Ok((until, 0))
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
        (found, (until, leave)): (u32, (u32, u32)),
        root: Key,
        keys: &[Key],
        hits: &[Vec<BlockId>],
    ) -> Grant {
        self.tick += 1;
        let seq = self.sequences.create(hits.len());
        self.note(Kind::Admit, seq, u64::from(known));
        let using = Use { outlook: request.outlook, meta: request.meta, tokens: known };
        for found in hits {
            self.own(seq, found, using);
        }
        let mut tables = std::mem::take(&mut self.created(seq).tables);
        for (table, found) in tables.iter_mut().zip(hits) {
            table.extend_from_slice(found);
        }
        let encoder_cached = self.obtain_cross(seq, request.encoder_tokens, &mut tables);
        let may_refuse = request.fit == Fit::Partial && self.policy.may_refuse();
        let wants_missed = request.insert && self.policy.wants_missed();
        let mut rows = found;
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
        let cached = found * self.block_size();
        let slots = rows.saturating_mul(self.block_size());
        let insert = request.insert && self.options.prefix_caching;
        let admitted = self.tick;
        let cut = self.is_cut(hits);
        let sequence = self.created(seq);
        sequence.tables = tables;
        sequence.len = until.min(slots);
        sequence.committed = cached;
        sequence.cached = cached;
        sequence.published = found;
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
        (sequence.max_tokens, sequence.whole) = (request.max_tokens, request.whole_sequence);
        let granted_tokens = sequence.len;
        self.promised |= request.whole_sequence;
        self.count_admission(request.resumed, known, cached);
        let external = self.whole_units(request.external.min(granted_tokens - cached));
        let external = external / self.block_size();
        let load = (external > 0).then(|| self.open_load(seq, found, external));
        let prompt_tokens = known;
        Grant { seq, cached_tokens: cached, granted_tokens, prompt_tokens, load, encoder_cached }
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
        if self.log.is_on() {
            for &block in found {
                self.note_block(Kind::Hit, seq, block, 0);
            }
        }
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
                    self.pool.unshare(block);
                    self.pool.put_back(block);
                }
                return false;
            };
            tables[group].push(block);
        }
        true
    }

    fn count_admission(&mut self, resumed: bool, known: u32, cached: u32) {
        let stats = &mut self.stats;
        if resumed {
            stats.resumed += 1;
            stats.resumed_hit_tokens += u64::from(cached);
        } else {
            stats.admissions += 1;
            stats.prompt_tokens += u64::from(known);
            stats.hit_tokens += u64::from(cached);
            stats.admissions_with_hit += u64::from(cached > 0);
        }
    }
}
