//! Admission: a sequence comes in with what is cached, and gets blocks for the rest.

use super::Manager;
use super::lookup::Wanted;
use crate::error::{Error, Result};
use crate::events::Kind;
use crate::hash::{Extra, Key, Space};
use crate::options::GroupKind;
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
        let root = self.hasher.root(request.space);
        let mut hashed = std::mem::take(&mut self.scratch.keys);
        let mut hits = std::mem::take(&mut self.scratch.hits);
        let hashes = self.options.prefix_caching && (request.read || request.insert);
        let full = prompt.tokens.len() / self.options.block_size as usize;
        let keys = if hashes && prompt.keys.len() < full {
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
        if let Some(books) = self.policy.external() {
            books.unpick_all(hits.iter().flatten().copied().filter(|&b| b != NIL));
        }
        let plan = self.plan_admission(request, known, found, &hits);
        if let (Err(Error::NeedVictims { .. }), Some(books)) = (&plan, self.policy.external()) {
            books.spare(hits.iter().flatten().copied().filter(|&b| b != NIL));
        }
        let outcome = plan.map(|until| {
            self.stats.collisions += u64::from(collisions);
            self.carry_out(request, known, until, root, keys, &hits)
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
        let groups = self.options.groups.len() as u32;
        let cached = found as u32 * self.block_size();
        // Rule 5 holds for what somebody else computed, with prefix caching or without.
        let most = self.whole_blocks(self.less_the_last(known));
        let external = request.external;
        if !external.is_multiple_of(self.block_size()) || external > most.saturating_sub(cached) {
            return Err(Error::Invalid {
                what: "external",
                value: external.to_string(),
                limit: format!(
                    "must be whole blocks, {} tokens at the most after {cached} cached ones",
                    most.saturating_sub(cached)
                ),
            });
        }
        let cached = cached + external;
        let until = known.min(cached.saturating_add(request.chunk)).min(request.until.max(cached));
        let needed = u64::from(self.blocks_for(until) - found as u32) * u64::from(groups);
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let claimed = hits.iter().map(|h| self.pool.count_cached(h)).sum::<usize>() as u32;
        let room = self.pool.available() - claimed;
        let kept = self.kept_for_growth();
        if request.fit == Fit::Partial {
            self.check_room(needed.min(room.saturating_sub(kept)), claimed)?;
            return Ok((until, kept));
        }
        let longest = self.blocks_for(known.max(request.max_tokens));
        let total = u64::from(longest) * u64::from(self.full_groups());
        let at_once =
            u64::from(needed) + hits.iter().flatten().filter(|&&b| b != NIL).count() as u64;
        let total = total.max(at_once);
        if total > u64::from(self.pool.usable()) {
            self.stats.refused += 1;
            let total_pool = u64::from(self.pool.usable());
            return Err(Error::NeverFits { needed: total, total: total_pool });
        }
        let whole = u64::from(longest - found as u32) * u64::from(self.full_groups());
        let at_least = if request.whole_sequence { needed.max(whole as u32) } else { needed };
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
                let rows = s.tables.first().map_or(0, Vec::len) as u32;
                self.blocks_for(s.max_tokens.max(s.known())).saturating_sub(rows)
            };
            let whole = self.sequences.iter().filter(|(_, s)| s.whole);
            let rows: u32 = whole.map(|(_, s)| lacks(s)).fold(0, u32::saturating_add);
            kept = kept.saturating_add(rows.saturating_mul(self.full_groups()));
        }
        kept
    }

    /// Groups that keep every block; the others give blocks back as their window moves on.
    pub(super) fn full_groups(&self) -> u32 {
        self.options.groups.iter().filter(|g| **g == GroupKind::Full).count() as u32
    }

    fn carry_out(
        &mut self,
        request: &Admission<'_>,
        known: u32,
        (until, leave): (u32, u32),
        root: Key,
        keys: &[Key],
        hits: &[Vec<BlockId>],
    ) -> Grant {
        self.tick += 1;
        let seq = self.sequences.create(hits.len());
        self.note(Kind::Admit, seq, u64::from(known));
        for found in hits {
            self.own(
                seq,
                found,
                Use { outlook: request.outlook, meta: request.meta, tokens: known },
            );
        }
        let found = hits.first().map_or(0, Vec::len) as u32;
        let mut tables = std::mem::take(&mut self.created(seq).tables);
        for (table, found) in tables.iter_mut().zip(hits) {
            table.extend_from_slice(found);
        }
        let may_refuse = request.fit == Fit::Partial && self.policy.may_refuse();
        let wants_missed = request.insert && self.policy.wants_missed();
        for i in found..self.blocks_for(until) {
            if self.pool.available() < (hits.len() as u32).saturating_add(leave) {
                break;
            }
            let outlook = request.outlook.get(i as usize).copied().unwrap_or(NEVER);
            if wants_missed && let Some(&key) = keys.get(i as usize) {
                self.announce(key);
            }
            if !self.obtain_row(seq, &mut tables, may_refuse.then_some(outlook)) {
                break;
            }
        }
        let cached = found * self.block_size();
        let slots = tables.first().map_or(0, Vec::len) as u32 * self.block_size();
        let insert = request.insert && self.options.prefix_caching;
        let admitted = self.tick;
        let sequence = self.created(seq);
        sequence.tables = tables;
        sequence.len = until.min(slots);
        sequence.committed = cached;
        sequence.cached = cached;
        sequence.published = found;
        sequence.private = !insert;
        sequence.tokens.extend_from_slice(request.prompt.tokens);
        sequence.known = known;
        sequence.keys.extend_from_slice(keys);
        sequence.root = root;
        sequence.salt.extend_from_slice(request.space.salt);
        sequence.adapter.extend_from_slice(request.space.adapter);
        sequence.insert = request.insert;
        sequence.extras.extend_from_slice(request.extras);
        sequence.outlook.extend_from_slice(request.outlook);
        sequence.meta = request.meta;
        sequence.admitted = admitted;
        (sequence.max_tokens, sequence.whole) = (request.max_tokens, request.whole_sequence);
        let granted_tokens = sequence.len;
        self.promised |= request.whole_sequence;
        self.count_admission(request.resumed, known, cached);
        let external = request.external.min(granted_tokens - cached) / self.block_size();
        let load = (external > 0).then(|| self.open_load(seq, found, external));
        Grant { seq, cached_tokens: cached, granted_tokens, prompt_tokens: known, load }
    }

    /// Tells a policy with ghosts which key the blocks to come are for.
    fn announce(&mut self, key: Key) {
        for group in 0..self.options.groups.len() {
            let view = View { pool: &self.pool, now: self.tick };
            self.policy.missed(key.for_group(group), view);
        }
    }

    pub(super) fn created(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(seq).expect("the sequence was created just now")
    }

    /// `seq` becomes an owner of the blocks found in one group.
    fn own(&mut self, seq: SeqId, found: &[BlockId], using: Use<'_>) {
        // A window's blocks come after those it gave up; elsewhere there are no gaps.
        let skipped = found.iter().take_while(|&&b| b == NIL).count();
        let using = Use { outlook: using.outlook.get(skipped..).unwrap_or(&[]), ..using };
        let found = &found[skipped..];
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

    /// One more block in every group's table, or in none.
    pub(super) fn obtain_row(
        &mut self,
        seq: SeqId,
        tables: &mut [Vec<BlockId>],
        outlook: Option<u32>,
    ) -> bool {
        for group in 0..tables.len() {
            let Some(block) = self.obtain(seq, group, outlook) else {
                for table in &mut tables[..group] {
                    let block = table.pop().expect("the group got its block just now");
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
