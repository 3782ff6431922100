//! What an allocation needs, counted before anything moves.

use crate::error::{Error, Result};
use crate::groups::Pace;
use crate::manager::Manager;
use crate::manager::allocate::Start;
use crate::manager::commit::tails::Tail;
use crate::manager::grow::growth::{Count, GrowthPath};
use crate::pool::{BlockId, NIL};
use crate::request::{Attempt, Request};
use crate::sequence::Sequence;
use crate::tenants::Ledger;

/// What an allocation needs: the answer of `count_needs`.
pub(super) struct BlockNeeds {
    /// Tokens that get slots.
    pub(super) until: u32,
    /// Blocks that a partial allocation leaves.
    pub(super) leave: u32,
    /// Tokens whose KV comes from elsewhere.
    pub(super) external: u32,
}

impl Manager {
    /// Whether all of a prompt has room beside the partial block that it would copy. A request that fits
    /// without the copy must not be refused because of it.
    pub(super) fn fits_beside(
        &self,
        request: &Attempt<'_>,
        known: u32,
        tail: &Tail,
        hits: &[Vec<BlockId>],
    ) -> bool {
        let longest =
            if request.full_sequence_must_fit { known.max(request.max_seq_len) } else { known };
        let blocks = self.layout.blocks(longest, request.encoder_tokens);
        let needed = blocks - hits.iter().map(Vec::len).sum::<usize>() as u64;
        let held = hits.iter().chain([&tail.blocks]);
        let held = held.map(|blocks| self.count_cached(request.tenant, blocks));
        let needed = needed + held.sum::<usize>() as u64;
        let spare = u64::from(self.store.available(request.tenant)).checked_sub(needed);
        let spare = spare.map(|blocks| blocks as u32);
        spare.is_some_and(|spare| self.kept_for_growth(hits, spare, request.tenant) <= spare)
    }

    /// Tokens after the `cached` ones whose KV comes from elsewhere.
    fn external_of(&self, request: &Attempt<'_>, known: u32, cached: u32) -> Result<u32> {
        // Rule 5 also holds for KV that was computed elsewhere, with prefix caching or without.
        let most = self.whole_units(self.less_the_last(known));
        let left = most.saturating_sub(cached);
        let external = request.num_external_tokens;
        let unit = self.layout.unit_tokens();
        if !external.is_multiple_of(unit) || external > left {
            let whole = if unit == self.block_size() {
                "must be whole blocks,".to_owned()
            } else {
                format!("must be a multiple of {unit},")
            };
            return Err(Error::Invalid {
                what: "num_external_tokens",
                value: external.to_string(),
                limit: format!("{whole} {left} tokens at the most after {cached} cached ones"),
            });
        }
        let until = self.whole_units(request.external_until.min(most));
        if until > 0 && external > 0 {
            return Err(Error::Invalid {
                what: "num_external_tokens",
                value: external.to_string(),
                limit: "external_until says where it ends: give one of the two".into(),
            });
        }
        Ok(external.max(until.saturating_sub(cached)))
    }

    /// Counts what an allocation needs before anything moves.
    pub(super) fn count_needs(
        &self,
        request: &Attempt<'_>,
        known: u32,
        start: &Start,
        hits: &[Vec<BlockId>],
    ) -> Result<BlockNeeds> {
        let encoder = request.encoder_tokens;
        let tail = start.tail.as_ref().map_or(&[][..], |tail| &tail.blocks);
        let cached = start.rows * self.block_size() + start.tail.as_ref().map_or(0, |t| t.tokens);
        let external = self.external_of(request, known, cached)?;
        let cached = cached + external;
        let step = request.chunk.min(request.budget);
        let until = known.min(cached.saturating_add(step)).min(request.until.max(cached));
        let entries = hits.iter().map(Vec::len).sum::<usize>() as u64;
        let needed = self.layout.blocks(until, encoder) - entries;
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let acquired = if !request.full_sequence_must_fit
            && let Some(all) =
                self.all_cached_fit(entries + tail.len() as u64, needed, request.tenant)
        {
            all
        } else {
            let count = |blocks: &[BlockId]| self.count_cached(request.tenant, blocks);
            let found = hits.iter().map(|found| count(found)).sum::<usize>();
            (found + count(tail)) as u32
        };
        let tenant = request.tenant;
        let room = self.store.available(tenant).saturating_sub(acquired);
        let usable = u64::from(self.store.usable(tenant));
        let good = start.good * self.block_size();
        let way = GrowthPath {
            tokens: known.max(request.max_seq_len),
            encoder,
            committed: good,
            cached: good,
            len: until,
            pace: self.pace_of(known, request.chunk),
            tables: hits,
        };
        if request.partial {
            let kept = self.kept_for_growth(hits, room.saturating_sub(needed), tenant);
            // The other input comes in whole. A full length that a request gives is a promise to this
            // request, too.
            let all = match request.max_seq_len {
                0 => self.layout.cross_blocks(encoder),
                _ => self.needs_for_rest(request, known),
            };
            self.check_fits(all, usable, || self.needs_beside_public(&way, 0), tenant)?;
            let least = self.cross_missing(hits, encoder);
            if least > room.saturating_sub(kept) {
                let room = self.room_for(least.saturating_add(kept), acquired, tenant);
                return room.map(|()| BlockNeeds { until, leave: kept, external });
            }
            self.room_for(needed.min(room.saturating_sub(kept)), acquired, tenant)?;
            return Ok(BlockNeeds { until, leave: kept, external });
        }
        let total = self.needs_alone(request, known);
        self.check_fits(total, usable, || self.needs_beside_public(&way, needed), tenant)?;
        let lacks =
            |count| self.still_lacks(&way, count, |_, _, block| self.pool().refs(block) > 0);
        let whole = request.full_sequence_must_fit;
        let mut at_least = if whole { needed.max(lacks(Count::Above)) } else { needed };
        let kept = self.kept_for_growth(hits, room.saturating_sub(at_least), tenant);
        if whole && at_least.saturating_add(kept) > room {
            at_least = needed.max(lacks(Count::Exact));
        }
        if needed <= room && at_least.saturating_add(kept) > room {
            let (total, limit) = self.store.limit(tenant);
            return Err(Error::NoCapacity {
                needed: u64::from(at_least) + u64::from(kept),
                available: u64::from(room),
                total,
                limit,
                coming: u64::from(self.pool().coming()),
            });
        }
        self.room_for(needed, acquired, tenant)?;
        Ok(BlockNeeds { until, leave: 0, external })
    }

    /// Refuses a request that needs `all` blocks, or `own` ones beside what is public, if neither are ever to be had.
    fn check_fits(
        &self,
        all: u64,
        usable: u64,
        own: impl FnOnce() -> u64,
        tenant: u8,
    ) -> Result<()> {
        if all <= usable {
            return Ok(());
        }
        let needed = all.min(own());
        if needed <= usable { Ok(()) } else { Err(self.never_fits(needed, tenant)) }
    }

    /// Blocks that a request holds of its tenant's at some time on its way, beside the public ones that it found: these
    /// are not its tenant's. Its first step takes `first` blocks. `u64::MAX` if it found none.
    #[cold]
    fn needs_beside_public(&self, way: &GrowthPath<'_, Vec<BlockId>>, first: u32) -> u64 {
        let public = |block: BlockId| self.is_public(block);
        let found = || way.tables.iter().flatten().copied().filter(|&block| block != NIL);
        if !found().any(public) {
            return u64::MAX;
        }
        let own = found().filter(|&block| !public(block)).count() as u64;
        let lacks = self.still_lacks(way, Count::Exact, |_, _, block| public(block));
        own + u64::from(lacks.max(first))
    }

    /// Whether a block counts for the public tenant, and for no other.
    pub(in crate::manager) fn is_public(&self, block: BlockId) -> bool {
        let public = self.pool().ledger().and_then(Ledger::public);
        public.is_some_and(|tenant| self.pool().tenant(block) == tenant)
    }

    /// Of `blocks`, those that are cached and that `tenant` takes of what it may have: public ones it does not.
    fn count_cached(&self, tenant: u8, blocks: &[BlockId]) -> usize {
        match self.pool().ledger().and_then(Ledger::public) {
            None => self.pool().count_cached(blocks),
            Some(_) => self.store.count_cached_of(tenant, blocks),
        }
    }

    /// Returns `found` if there is room for `needed` blocks even if every found block is cached, and so none
    /// of them is available any more. Then it makes no difference how many of them are.
    fn all_cached_fit(&self, found: u64, needed: u32, tenant: u8) -> Option<u32> {
        let spoken_for = found + u64::from(needed) + self.most_kept_for_growth(tenant);
        (spoken_for <= u64::from(self.store.available(tenant))).then_some(found as u32)
    }

    /// The pace of a prompt of `known` tokens that grows in steps of `chunk` tokens. If the request has no
    /// chunk (`u32::MAX`), the caller or each step's budget decides how many tokens come at a time. Only
    /// steps of one token are then certain.
    pub(super) fn pace_of(&self, known: u32, chunk: u32) -> Pace {
        let chunk = if chunk == u32::MAX { 1 } else { chunk };
        Pace::new(known, chunk, self.unit_of_hits())
    }

    /// What the length of a hit is a multiple of: a partial one may end anywhere.
    fn unit_of_hits(&self) -> u32 {
        if self.options.partial_hits { 1 } else { self.layout.unit_tokens() }
    }

    /// Blocks that a request needs on its way to its full length if its first step takes what there is.
    fn needs_for_rest(&self, request: &Attempt<'_>, known: u32) -> u64 {
        let (encoder, longest) = (request.encoder_tokens, known.max(request.max_seq_len));
        if !self.layout.gives_up() {
            return self.layout.blocks(longest, encoder);
        }
        let pace = Pace { grain: 1, ..self.pace_of(known, request.chunk) };
        self.layout.least(longest, encoder, pace, u64::from(self.store.usable(request.tenant)))
    }

    /// Blocks that a request holds at some time on its way to its full length, growing at its pace,
    /// where nothing else is in the pool, and whatever is found of its prompt.
    fn needs_alone(&self, request: &Attempt<'_>, known: u32) -> u64 {
        let (encoder, longest) = (request.encoder_tokens, known.max(request.max_seq_len));
        if !self.layout.gives_up() {
            return self.layout.blocks(longest, encoder);
        }
        let usable = u64::from(self.store.usable(request.tenant));
        let least = |pace| self.layout.least(longest, encoder, pace, usable);
        let until = known.min(request.until);
        let mut pace = self.pace_of(known, request.chunk);
        if until < known {
            pace.grain = 1;
        }
        // The first step brings what comes from elsewhere, too, and ends at `until`.
        let step = request.chunk.min(request.budget);
        let first = |prompt: u32, step: u32| {
            let (chunk, grain) = (step.max(1), self.unit_of_hits());
            least(Pace { prompt: prompt.min(known), chunk, grain })
        };
        let first = match (
            request.num_external_tokens,
            self.whole_units(request.external_until.min(known)),
        ) {
            (0, 0) => first(until, step),
            (0, end) => first(end.saturating_add(step).min(until.max(end)), u32::MAX),
            (tokens, _) => {
                let end = until.max(tokens);
                first(end, tokens.saturating_add(step)).max(first(known, tokens))
            }
        };
        least(pace).max(first)
    }

    /// The largest step of at most `chunk` tokens by which a sequence that was preempted can come
    /// back, if it was let in: what it had decoded token by token is part of its prompt then.
    pub(in crate::manager) fn chunk_to_return(&self, sequence: &Sequence) -> u32 {
        let request = Request {
            max_seq_len: sequence.max_seq_len,
            encoder_tokens: sequence.encoder_tokens,
            ..Request::default()
        };
        let tenant = sequence.meta.tenant;
        let tried = |chunk| Attempt { chunk, tenant, ..Attempt::from(&request) };
        let (known, usable) = (sequence.filled(), u64::from(self.store.usable(tenant)));
        let fits = |chunk: u32| self.needs_alone(&tried(chunk), known) <= usable;
        if !self.layout.gives_up() || fits(sequence.chunk) {
            return sequence.chunk;
        }
        // A larger step of whole units needs more blocks. So does a larger step within one unit, wherever it
        // starts.
        let unit = self.layout.unit_tokens();
        let most = sequence.chunk.min(known);
        let whole = largest(most / unit, |units| fits(units * unit)) * unit;
        let (longest, encoder) = (known.max(sequence.max_seq_len), sequence.encoder_tokens);
        let anywhere = |chunk| {
            let pace = Pace::new(known, chunk, 1);
            self.layout.least(longest, encoder, pace, usable) <= usable
        };
        match whole {
            0 => match largest(most.min(unit), anywhere) {
                // The pool has become smaller.
                0 => sequence.chunk,
                chunk => chunk,
            },
            chunk => chunk,
        }
    }
}

/// The largest number up to `most` that `fits`, if all below one that does do; 0 if none does.
fn largest(most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}
