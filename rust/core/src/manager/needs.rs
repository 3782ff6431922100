//! What an admission needs, counted before anything moves.

use super::admit::Start;
use super::growth::{Count, Way};
use super::tails::Tail;
use super::{Admission, Fit, Manager};
use crate::error::{Error, Result};
use crate::pool::{BlockId, NIL};

/// What an admission was counted to.
pub(super) struct Counted {
    /// Tokens that get slots.
    pub(super) until: u32,
    /// Blocks that a partial grant leaves.
    pub(super) leave: u32,
    /// Tokens that somebody else brings.
    pub(super) external: u32,
}

impl Manager {
    /// Whether all of a prompt has room beside the partial block that it would copy: who fits without
    /// the copy must not be refused for it.
    pub(super) fn fits_beside(
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
        let needed = needed + held.sum::<usize>() as u64;
        let spare = u64::from(self.pool.available()).checked_sub(needed);
        let spare = spare.map(|blocks| blocks as u32);
        spare.is_some_and(|spare| self.kept_for_growth(hits, spare) <= spare)
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
        if request.fit == Fit::Partial {
            let kept = self.kept_for_growth(hits, room.saturating_sub(needed));
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
        let usable = u64::from(self.pool.usable());
        let total = self.layout.least(longest, encoder, usable).max(u64::from(needed) + held);
        if total > usable {
            return Err(Error::NeverFits { needed: total, total: usable });
        }
        let lacks = |count| {
            let good = start.good * self.block_size();
            let way = Way { tokens: longest, encoder, committed: good, cached: good, tables: hits };
            self.still_lacks(&way, count, |_, _, block| self.pool.refs(block) > 0)
        };
        let whole = request.whole_sequence;
        let mut at_least = if whole { needed.max(lacks(Count::Above)) } else { needed };
        let kept = self.kept_for_growth(hits, room.saturating_sub(at_least));
        if whole && at_least.saturating_add(kept) > room {
            at_least = needed.max(lacks(Count::Exact));
        }
        if needed <= room && at_least.saturating_add(kept) > room {
            return Err(Error::NoCapacity {
                needed: u64::from(at_least) + u64::from(kept),
                available: u64::from(room),
                total: usable,
            });
        }
        self.room_for(needed, claimed)?;
        Ok(Counted { until, leave: 0, external })
    }
}
