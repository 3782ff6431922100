//! One tier: its pages, its admission, and what was sent down ahead of an eviction.

use std::collections::HashMap;

use kvframe_core::policy::admission::{Ask, Occasion, Tier, Verdict};
use kvframe_core::tier::{
    EvictedPages, OrderedKeys, PageUses, StoreResult, TierPages, let_in, occasion_of, offer_pages,
};
use kvframe_core::{Error, Key};
use kvframe_trace::replay::Host;

use super::options::{TierAdmission, TierOptions, TierParts};
use super::request::Known;
use crate::cache::Stopped;

/// A tier.
pub(crate) struct Level {
    pub place: usize,
    pub options: TierOptions,
    pub pages: TierPages,
    admission: TierAdmission,
    block_size: u32,
    /// Questions put to the admission policy.
    asked: u64,
    /// Pages demoted ahead of their eviction, and whether the tier below has dropped them since.
    pub cleaned: OrderedKeys<bool>,
    told_unbacked: u64,
    is_last: bool,
    /// Where several servers share it: who has put each page here.
    pub owners: HashMap<Key, u32>,
    /// Grows with whatever another server may wait for.
    pub changes: u64,
    /// Others have tiers above it, and are to hear which pages have left.
    pub tells_gone: bool,
    pub gone: Vec<Key>,
}

impl Level {
    pub fn new(
        (place, is_last): (usize, bool),
        parts: TierParts,
        block_size: u32,
    ) -> Result<Self, Error> {
        let TierParts { options, eviction, admission } = parts;
        let pages = TierPages::new(options.limits, block_size, eviction)?;
        Ok(Self {
            place,
            options,
            pages,
            admission,
            block_size,
            asked: 0,
            cleaned: OrderedKeys::default(),
            told_unbacked: 0,
            is_last,
            owners: HashMap::new(),
            changes: 0,
            tells_gone: false,
            gone: Vec::new(),
        })
    }

    /// The links that its pages cross, to or from the pool or another tier.
    pub fn path(&self, to_pool: bool) -> Vec<usize> {
        let more = if to_pool { &self.options.path[..] } else { &[] };
        std::iter::once(self.options.link).chain(more.iter().copied()).collect()
    }

    /// Whether its admission policy judges by uses.
    pub fn wants_uses(&self) -> bool {
        match &self.admission {
            TierAdmission::Core(policy) => policy.as_ref().is_some_and(|p| p.wants_uses()),
            TierAdmission::Outside => true,
        }
    }

    /// Whether pages enter host memory as they are about to be evicted from the pool, and not before.
    pub fn writes_back(&self) -> bool {
        matches!(&self.admission, TierAdmission::Core(Some(p)) if p.name() == "write-back")
    }

    /// Does `work` once the host has named the victims that it needs.
    pub fn with_victims<T>(
        &mut self,
        host: &mut dyn Host,
        mut work: impl FnMut(&mut TierPages) -> Result<T, Error>,
    ) -> Result<T, Stopped> {
        loop {
            match work(&mut self.pages) {
                Err(Error::NeedVictims { n })
                    if host.judge_tier(self.place, &mut self.pages, n) => {}
                Err(Error::NeedVictims { .. }) => return Err(Stopped::ByHost),
                settled => return Ok(settled?),
            }
        }
    }

    /// Room for as much of a prefix as there is room for, and how many of its pages that makes. `None` if there
    /// is none now.
    pub fn reserve(
        &mut self,
        host: &mut dyn Host,
        keys: &[Key],
        known: &Known,
    ) -> Result<Option<(StoreResult, u32)>, Stopped> {
        self.with_victims(host, |pages| pages.store_some(keys, 1, known.info()))
    }

    /// The first `most` pages that may be evicted, the next one first.
    pub fn order(&mut self, host: &mut dyn Host, most: u32) -> Result<Vec<u32>, Stopped> {
        self.with_victims(host, |pages| pages.tier().ranking(most))
    }

    /// Pages at its high mark or its low one: the last tier keeps all that fits.
    pub fn marked(&self, share: f64) -> u32 {
        let limits = self.options.limits;
        if self.is_last { limits.pages } else { limits.mark(share) }
    }

    /// Pages that are not free.
    pub fn in_use(&self) -> u32 {
        self.options.limits.pages - self.pages.counts().0
    }

    /// Whether room is to be made ahead of need.
    pub fn is_too_full(&self) -> bool {
        self.in_use() > self.marked(self.options.high)
    }

    /// The part of a prefix that it would not evict again at once.
    pub fn lasting<'k>(&self, keys: &'k [Key]) -> &'k [Key] {
        let most = self.pages.present(keys).max(self.marked(self.options.high)) as usize;
        &keys[..keys.len().min(most)]
    }

    /// What of a prefix it has or lets in; by default, as pages are computed or used.
    pub fn wanted<'k>(
        &mut self,
        host: &mut dyn Host,
        keys: &'k [Key],
        (uses, occasion): (&PageUses, Option<Occasion>),
        known: &Known,
    ) -> Result<&'k [Key], Stopped> {
        let start = self.pages.present(keys) as usize;
        let rest = &keys[start..];
        if rest.is_empty() {
            return Ok(keys);
        }
        self.asked += 1;
        let counts = uses.of(rest);
        let offer = offer_pages(rest, (start as u32, self.block_size), &counts, known.info());
        let ask = Ask {
            tier: self.options.kind,
            occasion: occasion.unwrap_or_else(|| occasion_of(&counts)),
            now: self.asked,
            free: self.pages.counts().0,
            total: self.options.limits.pages,
            rival: None,
        };
        let mut verdicts = vec![Verdict::Keep; rest.len()];
        match &mut self.admission {
            TierAdmission::Core(None) => {}
            TierAdmission::Core(Some(policy)) => policy.admit(&offer, ask, &mut verdicts),
            TierAdmission::Outside => {
                let told = host.admit_tier(self.place, (&offer, ask), &[]);
                verdicts = told.ok_or(Stopped::ByHost)?;
            }
        }
        Ok(&keys[..start + let_in(&verdicts) as usize])
    }

    /// A request has found or computed these pages.
    pub fn seen(&mut self, host: &mut dyn Host, keys: &[Key]) -> Result<(), Stopped> {
        if keys.is_empty() || !self.wants_uses() {
            return Ok(());
        }
        match &mut self.admission {
            TierAdmission::Core(policy) => {
                if let Some(policy) = policy {
                    policy.seen(keys);
                }
            }
            TierAdmission::Outside => {
                let about = Ask { now: self.asked, tier: Tier::Gpu, ..Ask::default() };
                let offer = offer_pages(&[], (0, self.block_size), &[], Known::default().info());
                host.admit_tier(self.place, (&offer, about), keys).ok_or(Stopped::ByHost)?;
            }
        }
        Ok(())
    }

    /// Pages evicted since the last call that the tier below had not.
    pub fn take_unbacked(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.told_unbacked, self.pages.stats().unbacked);
        self.told_unbacked - before
    }
}

/// The keys of pages that left.
pub(crate) fn keys_of(gone: &EvictedPages) -> Vec<Key> {
    gone.iter().map(|&(key, _)| key).collect()
}
