//! Allocation: a new sequence owns what is cached of its prompt, and gets blocks for the rest.
pub(super) mod answers;
pub(super) mod can_allocate;
mod candidates;
pub(super) mod lookup;
pub(super) mod needs;
mod own;
pub(super) mod promises;
mod rematch;

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::manager::Manager;
use crate::manager::allocate::lookup::{Found, PrefixQuery};
use crate::manager::allocate::needs::BlockNeeds;
use crate::manager::commit::tails::Tail;
use crate::policy::{Access, NEVER};
use crate::pool::{BlockId, NIL};
use crate::request::Attempt;
use crate::retention::Retention;
use crate::sequence::{Meta, SeqId, Sequence, Tables, Usage};

/// Tokens of an answer that have room in a sequence's buffers from the start: else the first of them
/// would move the prompt.
const ANSWER: u32 = 1_024;

/// What an allocation gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The sequence.
    pub seq: SeqId,
    /// Prompt tokens found; computing starts here, or behind what is joined or loaded.
    pub cached_tokens: u32,
    /// Prompt tokens that have slots.
    pub granted_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The ticket of what comes from elsewhere; nothing of it is findable before it is settled.
    pub load: Option<u64>,
    /// Whether the KV of the other input was found: the encoder need not run.
    pub encoder_cached: bool,
    /// Tokens after the cached and the joined ones that the load brings.
    pub external_tokens: u32,
    /// Tokens after the cached ones that a live sequence is computing, or that its load brings: good
    /// once it commits them, or the load has ended.
    pub joined_tokens: u32,
    /// What was attached to exactly this prompt.
    pub attached: Option<u64>,
}

/// What an allocation starts from.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// Units at the front that every group owns already.
    pub(super) rows: u32,
    /// Of those, units that are findable.
    pub(super) good: u32,
    /// Units that groups of full attention could serve.
    pub(super) attended: u32,
    /// Who computes the others.
    pub(super) filler: Option<SeqId>,
    /// Or else the load that brings them.
    pub(super) load: Option<u64>,
    /// A partial block after them.
    pub(super) tail: Option<Tail>,
}

impl Manager {
    /// Allocates a request: looks its prefix up, owns what was found, takes blocks for the rest.
    ///
    /// # Errors
    /// [`Error::NeverFits`], [`Error::NoCapacity`], [`Error::NeedVictims`]; [`Error::Invalid`] for
    /// more keys than the prompt has full blocks.
    pub fn allocate<'a>(&mut self, request: impl Into<Attempt<'a>>) -> Result<Allocation> {
        self.try_to_allocate(&request.into())
    }

    fn try_to_allocate(&mut self, request: &Attempt<'_>) -> Result<Allocation> {
        let (known, request) = &self.as_it_counts(request)?;
        let (known, mm_items) = (*known, &request.mm_items[..]);
        self.store.serve(request.tenant);
        if request.join {
            self.expect_joins();
        }
        let findable = self.options.prefix_caching && (request.read_cache || request.write_cache);
        let root = self.hasher.root(request.space());
        let mut hashed = std::mem::take(&mut self.scratch.keys);
        let mut hits = std::mem::take(&mut self.scratch.hits);
        let full = request.tokens.len() / self.options.block_size as usize;
        let keys = if findable && self.wants_keys() && request.keys.len() < full {
            hashed.clear();
            hashed.extend_from_slice(request.keys);
            self.hasher.extend(root, mm_items, &request.tokens, &mut hashed);
            &hashed[..]
        } else {
            request.keys
        };
        let limit = if request.read_cache { self.hit_limit(known) } else { 0 };
        let wanted = PrefixQuery { keys, tokens: &request.tokens, root, mm_items, limit };
        let Found { units, attended, collisions } = self.find_prefix(wanted, &mut hits);
        if self.layout.has_cross() {
            self.find_cross(request, root, &mut hits);
        }
        let mut start = self.find_start(request, wanted, known, units as u32, &mut hits);
        start.attended = attended as u32;
        let tail = start.tail.as_ref().map_or(&[][..], |tail| &tail.blocks);
        let wants = hits.iter().flatten().chain(tail).copied().filter(|&b| b != NIL);
        self.store.unpick(wants.clone());
        let counted = self.count_needs(request, known, &start, &hits);
        if let &Err(Error::NeedVictims { n }) = &counted
            && self.store.spare(wants)
            && request.write_cache
        {
            self.announce_all(keys, start.rows, n);
        }
        let refused = |error: &Error| self.count_refusal(error, request.tenant);
        let outcome = counted.inspect_err(refused).map(|counted| {
            let miss = self.why_missed(request, wanted, known, start.rows, collisions);
            self.count_collisions(collisions);
            let attached = if request.read_cache { self.find_attached(wanted) } else { None };
            let allocation = self.carry_out(request, known, &counted, &start, (root, keys), &hits);
            if let Some(outside) = self.store.external_served() {
                outside.end_announced();
            }
            self.count_allocation(request, &allocation, miss);
            Allocation { attached, ..allocation }
        });
        self.scratch.keys = hashed;
        self.scratch.hits = hits;
        outcome
    }

    /// Tokens of the prompt, and the request with what it may read and insert.
    pub(super) fn as_it_counts<'a>(&self, request: &Attempt<'a>) -> Result<(u32, Attempt<'a>)> {
        let known = self.check_keys(request)?;
        check_full_length(request.max_seq_len, known)?;
        self.check_encoder(request)?;
        self.check_join(request.join)?;
        request.retention.as_ref().map_or(Ok(()), Retention::validate)?;
        // An encoder input without a content id is not shared, and neither is anything computed
        // over it.
        let nameless = request.encoder_tokens > 0 && request.encoder.is_empty();
        let read_cache = request.read_cache && !nameless;
        let write_cache = request.write_cache && !nameless;
        let tenant = self.tenant_number(&request.request.tenant);
        Ok((known, Attempt { read_cache, write_cache, tenant, ..*request }))
    }

    /// Tokens of the prompt, unless its keys cannot be right.
    fn check_keys(&self, request: &Attempt<'_>) -> Result<u32> {
        let known = request.len();
        if request.keys.len() as u64 > u64::from(known / self.block_size()) {
            return Err(Error::Invalid {
                what: "keys",
                value: request.keys.len().to_string(),
                limit: format!("the prompt has {} full blocks", known / self.block_size()),
            });
        }
        let findable = self.options.prefix_caching && (request.read_cache || request.write_cache);
        if findable
            && request.tokens.is_empty()
            && !request.keys.is_empty()
            && !self.store.index().takes_keys()
        {
            return Err(Error::Invalid {
                what: "keys",
                value: request.keys.len().to_string(),
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
        request: &Attempt<'_>,
        wanted: PrefixQuery<'_>,
        known: u32,
        found: u32,
        hits: &mut [Vec<BlockId>],
    ) -> Start {
        let mut start = Start { rows: found, good: found, ..Start::default() };
        if !request.read_cache || request.num_external_tokens > 0 {
            return start;
        }
        if request.join
            && let Some(ticket) = self.find_loading(wanted, hits)
        {
            start.rows = hits.first().map_or(0, Vec::len) as u32;
            start.load = Some(ticket);
            return start;
        }
        if request.external_until > 0 {
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

    fn carry_out(
        &mut self,
        request: &Attempt<'_>,
        known: u32,
        counted: &BlockNeeds,
        start: &Start,
        (root, keys): (Key, &[Key]),
        hits: &[Vec<BlockId>],
    ) -> Allocation {
        self.store.tick();
        if request.retention.is_some() {
            self.store.count_uses();
        }
        self.store.begin_session(request.meta.session);
        if self.layout.gives_up() && request.read_cache {
            let (size, slots) = (self.block_size(), self.pool().usable());
            let slots = u64::from(slots) * u64::from(size);
            let inner = &mut self.inner[request.tenant as usize];
            inner.note(start.attended * size, start.good * size, known, slots);
        }
        let seq = self.sequences.create(hits.len());
        self.note_allocation(seq, request, known, start.good);
        let &BlockNeeds { until, external, .. } = counted;
        let meta = Meta { tenant: request.tenant, ..request.meta };
        let access = Access { next_use: &request.next_use, meta, tokens: known };
        self.own_start(seq, start, hits, access);
        let mut tables = std::mem::take(&mut self.created(seq).tables);
        let spare = if request.tokens.is_empty() { 0 } else { ANSWER };
        let spare_blocks = self.blocks_for(spare) as usize;
        let blocks = self.blocks_for(until).min(self.pool().usable()) as usize;
        for (table, found) in tables.iter_mut().zip(hits) {
            table.reserve(blocks + spare_blocks);
            table.extend_from_slice(found);
        }
        let encoder_cached = self.obtain_cross(seq, request.encoder_tokens, &mut tables);
        let rows = self.take_rows(seq, request, counted, start.rows, keys, &mut tables);
        let cached = start.good * self.block_size();
        let slots = rows.saturating_mul(self.block_size());
        let insert = request.write_cache && self.options.prefix_caching;
        let admitted = self.store.now();
        let (cut, size) = (self.is_cut(hits), self.block_size());
        let sequence = self.created(seq);
        remember(sequence, request, known, (root, keys), (spare as usize, spare_blocks));
        sequence.tables = tables;
        sequence.len = until.min(slots);
        sequence.committed = cached;
        sequence.cached = cached;
        sequence.published = start.good;
        sequence.branch = start.attended * size;
        sequence.private = !insert || cut;
        sequence.encoder_published = encoder_cached;
        (sequence.allocated, sequence.used) = (admitted, admitted);
        // Block admission saw the prompt of a resumed request when it was first allocated.
        sequence.sighted = if request.resumed { known / size } else { 0 };
        let granted_tokens = sequence.len;
        let tail = start.tail.as_ref();
        let cached = cached + tail.map_or(0, |tail| self.copy_found_tail(seq, tail));
        let taken = cached.max(start.rows * size);
        let external = self.whole_units(external.min(granted_tokens.saturating_sub(taken)));
        let blocks = external / self.block_size();
        let load = (blocks > 0).then(|| self.open_load(seq, start.rows, blocks));
        let joined_tokens = match (start.filler, start.load) {
            (Some(filler), _) => self.join(seq, filler, start.good, start.rows),
            (None, Some(ticket)) => self.join_load(seq, ticket, start.good, start.rows),
            (None, None) => 0,
        };
        self.note_computing(seq);
        if request.full_sequence_must_fit {
            self.note_promised(seq);
        }
        self.created(seq).usage = Usage {
            read: cached,
            joined: joined_tokens,
            resumed: request.resumed,
            ..Usage::default()
        };
        Allocation {
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

    /// Takes blocks behind the first `rows` rows, as many rows as the request wants and can have.
    fn take_rows(
        &mut self,
        seq: SeqId,
        request: &Attempt<'_>,
        counted: &BlockNeeds,
        mut rows: u32,
        keys: &[Key],
        tables: &mut Tables,
    ) -> u32 {
        let wants_missed = request.write_cache && self.store.policy().wants_misses();
        let end = self.blocks_for(counted.until);
        self.store.approach(end.saturating_sub(rows).saturating_mul(tables.len() as u32));
        while rows < end {
            let row = self.row_blocks(tables, rows);
            if self.store.available(request.tenant) < row.saturating_add(counted.leave) {
                break;
            }
            let next_use = request.next_use.get(rows as usize).copied().unwrap_or(NEVER);
            if wants_missed {
                self.announce(keys, rows);
            }
            if !self.obtain_row(seq, tables, rows, request.partial.then_some(next_use)) {
                break;
            }
            rows += 1;
        }
        rows
    }

    pub(super) fn created(&mut self, seq: SeqId) -> &mut Sequence {
        self.sequences.get_mut(seq).expect("the sequence was created just now")
    }
}

/// What a sequence knows of its request, with room for `spare` tokens and keys more.
fn remember(
    sequence: &mut Sequence,
    request: &Attempt<'_>,
    known: u32,
    (root, keys): (Key, &[Key]),
    spare: (usize, usize),
) {
    sequence.tokens.reserve(request.tokens.len() + spare.0);
    sequence.tokens.extend_from_slice(&request.tokens);
    (sequence.known, sequence.prompt) = (known, known);
    sequence.keys.reserve(keys.len() + spare.1);
    sequence.keys.extend_from_slice(keys);
    sequence.root = root;
    sequence.tenant.extend_from_slice(&request.request.tenant);
    sequence.cache_salt.extend_from_slice(&request.cache_salt);
    sequence.lora_name.extend_from_slice(&request.lora_name);
    sequence.public = request.public;
    sequence.encoder.extend_from_slice(&request.encoder);
    sequence.encoder_tokens = request.encoder_tokens;
    (sequence.read_cache, sequence.write_cache) = (request.read_cache, request.write_cache);
    sequence.mm_items.extend_from_slice(&request.mm_items);
    sequence.next_use.extend_from_slice(&request.next_use);
    sequence.meta = Meta { tenant: request.tenant, ..request.meta };
    sequence.retention = request.retention.clone().map(Box::new);
    (sequence.max_seq_len, sequence.full_sequence_must_fit) =
        (request.max_seq_len, request.full_sequence_must_fit);
    sequence.chunk = request.chunk;
}

/// Refuses a full length that the prompt alone exceeds.
///
/// # Errors
/// [`Error::Invalid`].
fn check_full_length(most: u32, known: u32) -> Result<()> {
    if most == 0 || known <= most {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "max_seq_len",
        value: most.to_string(),
        limit: format!("counts prompt and answer together, and the prompt has {known} tokens"),
    })
}
