//! Statistics: each allocation counted once, with the reason why it found no more.

use crate::events::{Event, Kind};
use crate::groups::GroupKind;
use crate::hash::Key;
use crate::index::KeyMatch;
use crate::manager::allocate::lookup::PrefixQuery;
use crate::manager::{Allocation, Manager};
use crate::request::Attempt;
use crate::sequence::SeqId;
use crate::stats::{Miss, MissReason, Reasons, Removal, Samples, Window};

impl Manager {
    /// Why allocations found no more, and what the last ones found; `None` with statistics off.
    pub fn prefix_statistics(&self) -> Option<(&Reasons, &Window)> {
        self.observer.prefixes()
    }

    /// How long sampled blocks lived and lay idle.
    pub fn block_lifetimes(&self) -> &Samples {
        self.store.samples()
    }

    /// Why `request` finds no more than `found` blocks, computed or joined. Before the allocation changes anything.
    pub(in crate::manager) fn why_missed(
        &mut self,
        request: &Attempt<'_>,
        wanted: PrefixQuery<'_>,
        known: u32,
        found: u32,
        collisions: u32,
    ) -> Miss {
        if !self.observer.is_on() {
            return Miss::default();
        }
        let limit = self.whole_units(wanted.limit as u32 * self.block_size()) / self.block_size();
        let miss = Miss { wanted: limit, ..Miss::default() };
        let reason = match () {
            () if !self.options.prefix_caching => MissReason::CachingOff,
            () if !request.read_cache => MissReason::ReadSkipped,
            () if found < limit => {
                return self.why_ended(wanted, miss, found as usize, collisions);
            }
            () if found * self.block_size() + self.layout.unit_tokens() == known => {
                MissReason::LastToken
            }
            () => MissReason::BelowUnit,
        };
        Miss { reason, ..miss }
    }

    /// Why the prefix ended at `found` blocks, though more were looked for.
    fn why_ended(
        &mut self,
        wanted: PrefixQuery<'_>,
        miss: Miss,
        found: usize,
        collisions: u32,
    ) -> Miss {
        if collisions > 0 {
            return Miss { reason: MissReason::Collision, ..miss };
        }
        if let Some(group) = self.group_to_blame(wanted, found) {
            return Miss { reason: MissReason::Group, group, ..miss };
        }
        let size = self.block_size() as usize;
        let moved = found == 0 && {
            let first = wanted.tokens.get(..size).unwrap_or(&[]);
            self.observer.moved(first, wanted.root)
        };
        let groups = 0..self.layout.groups().len();
        let mut lacking = groups.filter_map(|group| self.lacks(wanted, group, found));
        let gone = lacking.find_map(|key| self.store.recall(key));
        match gone {
            Some((gone, tick)) => {
                let reason = if gone == Removal::Evicted {
                    MissReason::Evicted
                } else {
                    MissReason::Cleared
                };
                Miss { reason, ago: Some(self.store.now() - tick), ..miss }
            }
            None if moved => Miss { reason: MissReason::OtherSpace, ..miss },
            None => Miss { reason: MissReason::NeverSeen, ..miss },
        }
    }

    /// The first group that cannot go on from `found` units although another one could.
    fn group_to_blame(&self, wanted: PrefixQuery<'_>, found: usize) -> Option<u8> {
        let groups = self.layout.groups();
        if groups.len() == 1 || !self.store.index().takes_keys() {
            return None;
        }
        let own = (0..groups.len()).filter(|&group| groups[group].kind != GroupKind::Cross);
        let mut lacking = own.clone().filter(|&group| self.lacks(wanted, group, found).is_some());
        let first = lacking.next()?;
        (1 + lacking.count() < own.count()).then_some(first as u8)
    }

    /// The key of a block that keeps `group` from a hit of one unit more than `found`.
    fn lacks(&self, wanted: PrefixQuery<'_>, group: usize, found: usize) -> Option<Key> {
        let reach = &self.layout.groups()[group];
        let until = found + self.layout.unit() as usize;
        if reach.kind == GroupKind::Cross || wanted.keys.len() < until {
            return None;
        }
        let units = reach.units as usize;
        let end = until / units;
        let gone = if reach.kind.keeps_all() {
            0..found / units
        } else {
            reach.gone(until as u32 * self.block_size())
        };
        let needed = (gone.end..end).chain(0..gone.start.min(end));
        let lacks = |&i: &usize| !matches!(self.find(wanted, group, i), KeyMatch::Block(_));
        needed.into_iter().find(lacks).map(|i| self.key_of(wanted.keys, group, i))
    }

    /// Counts an allocation.
    pub(in crate::manager) fn count_allocation(
        &mut self,
        request: &Attempt<'_>,
        allocation: &Allocation,
        miss: Miss,
    ) {
        let (known, cached) = (allocation.prompt_tokens, allocation.cached_tokens);
        if allocation.granted_tokens < known {
            self.store.note(Kind::Extend, allocation.seq, u64::from(allocation.granted_tokens));
        }
        let stats = self.store.stats_mut();
        if request.resumed {
            stats.resumed += 1;
            stats.resumed_tokens += u64::from(known);
            stats.resumed_hit_tokens += u64::from(cached);
        } else {
            stats.requests += 1;
            stats.prompt_tokens += u64::from(known);
            stats.hit_tokens += u64::from(cached);
            stats.requests_with_hit += u64::from(cached > 0);
            stats.hit_share_ppm += u64::from(cached) * 1_000_000 / u64::from(known.max(1));
            if let Some(counts) = self.store.tenant_counts_mut(request.tenant) {
                counts.requests += 1;
                counts.prompt_tokens += u64::from(known);
                counts.hit_tokens += u64::from(cached);
            }
        }
        if self.observer.is_on() {
            self.count_prefix(request, allocation, miss);
        }
    }

    /// Whether blocks looked for and found are counted.
    pub(in crate::manager) fn counts_blocks(&self) -> bool {
        self.observer.is_on()
    }

    /// What a sequence of `tenant` found again counts with its allocation: `cached` tokens instead of `before`.
    pub(in crate::manager) fn count_more(
        &mut self,
        (prompt, tenant): (u32, u8),
        before: u32,
        cached: u32,
        resumed: bool,
    ) {
        let stats = self.store.stats_mut();
        let more = u64::from(cached - before);
        if resumed {
            stats.resumed_hit_tokens += more;
            return;
        }
        let share = |tokens: u32| u64::from(tokens) * 1_000_000 / u64::from(prompt);
        if let Some(counts) = self.store.tenant_counts_mut(tenant) {
            counts.hit_tokens += more;
        }
        let stats = self.store.stats_mut();
        stats.hit_tokens += more;
        stats.requests_with_hit += u64::from(before == 0);
        stats.hit_share_ppm += share(cached) - share(before);
        if self.observer.is_on() {
            let size = self.options.block_size;
            stats.hit_blocks += u64::from(cached / size - before / size);
        }
    }

    fn count_prefix(&mut self, request: &Attempt<'_>, allocation: &Allocation, miss: Miss) {
        let (known, cached) = (allocation.prompt_tokens, allocation.cached_tokens);
        let unread = miss.reason == MissReason::ReadSkipped;
        if !request.resumed {
            self.store.stats_mut().lookup_blocks += u64::from(miss.wanted);
            self.store.stats_mut().hit_blocks += u64::from(cached / self.options.block_size);
            self.observer.count(miss, known, cached);
            if unread {
                self.store.stats_mut().unread += 1;
                self.store.stats_mut().unread_tokens += u64::from(known);
            }
        } else if unread {
            self.store.stats_mut().resumed_unread_tokens += u64::from(known);
        }
        self.created(allocation.seq).miss = miss;
        if self.store.is_logging() {
            let event = Event {
                group: miss.group,
                seq: allocation.seq,
                value: miss.reason as u64,
                other: u64::from(miss.wanted),
                ..Event::new(self.store.now(), Kind::Miss)
            };
            self.store.push_with(event, &[]);
        }
    }

    pub(in crate::manager) fn count_collisions(&mut self, keys: u32) {
        if keys > 0 {
            self.store.stats_mut().collisions += u64::from(keys);
            self.store.note(Kind::Collide, 0, u64::from(keys));
        }
    }

    /// Why the allocation of a live sequence found no more.
    ///
    /// # Errors
    /// Unknown handles.
    pub fn miss_reason(&self, seq: SeqId) -> crate::Result<Option<Miss>> {
        let miss = self.sequences.get(seq)?.miss;
        Ok(self.observer.is_on().then_some(miss))
    }
}
