//! What tiers a server has below its pool, and over which links their pages travel.

use kvframe_core::policy::Eviction;
use kvframe_core::policy::admission::{Admit, Tier};
use kvframe_core::tier::TierLimits;

/// How transfers that go the same way have a link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Sharing {
    /// One after the other.
    #[default]
    InTurn,
    /// All at once and alike.
    Evenly {
        /// Bytes a second of one, at most.
        each: f64,
    },
}

/// What a load of pages below host memory fills on its way to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromoteFill {
    /// Host memory, as `kvframe.tiers` does it.
    #[default]
    Host,
    /// Every tier above, one after the other.
    Through,
    /// None: pages pass through host memory, over its link too, and are not kept there.
    Buffer,
    /// None: pages come to the pool over their own tier's link alone.
    Direct,
}

/// How long a request that has come in waits for pages below host memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum StoragePrefetch {
    /// Until they have come.
    #[default]
    WaitComplete,
    /// Not at all: it loads what a prefetch has brought to host memory by then.
    BestEffort,
    /// So many seconds; then it loads what has come to host memory.
    Timeout(f64),
}

/// Which copies a hit in the pool makes recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HitRefresh {
    /// That of host memory.
    #[default]
    FirstTier,
    /// None.
    None,
}

/// A link: what tiers share it, share its bandwidth, each way by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkOptions {
    /// Bytes a second towards the pool.
    pub read: f64,
    /// Bytes a second away from it.
    pub write: f64,
    /// Seconds that a transfer takes besides; the link is free meanwhile.
    pub latency: f64,
    /// Who goes first.
    pub sharing: Sharing,
}

/// From how many tokens on a load is faster than computing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BreakEven {
    /// Whatever is found is loaded.
    #[default]
    Off,
    /// As the step times and the links have it.
    Auto,
    /// From so many tokens on.
    Tokens(u32),
}

/// A tier.
#[derive(Debug, Clone)]
pub struct TierOptions {
    /// Its name for policies.
    pub kind: Tier,
    /// Its pages, and how many of them are on their way at once.
    pub limits: TierLimits,
    /// The share in use past which room is made ahead of need, where there is a tier below.
    pub high: f64,
    /// The share in use down to which it is made.
    pub low: f64,
    /// A page that the tier below should have and lacks is not evicted.
    pub refuses: bool,
    /// Bytes of a page here.
    pub page_bytes: f64,
    /// The place of its link in [`TierSet::links`].
    pub link: usize,
    /// Further links that what comes to the pool or from it crosses at once with its own. All are then shared evenly.
    pub path: Vec<usize>,
    /// Below how many tokens nothing is loaded from it.
    pub break_even: BreakEven,
}

/// A tier's admission policy.
pub enum TierAdmission {
    /// Of the core; `None` keeps everything.
    Core(Option<Box<dyn Admit>>),
    /// Outside of it: the host is asked.
    Outside,
}

/// A tier and its policies.
pub struct TierParts {
    /// Its options.
    pub options: TierOptions,
    /// Which page is evicted next.
    pub eviction: Box<dyn Eviction>,
    /// Whether pages enter.
    pub admission: TierAdmission,
}

/// The tiers below a server's pool.
pub struct TierSet {
    /// Host memory first.
    pub tiers: Vec<TierParts>,
    /// Their links.
    pub links: Vec<LinkOptions>,
    /// How many requests at the front of the queue have their pages brought to host memory while they wait.
    pub prefetch: usize,
    /// What loads fill on their way.
    pub fill: PromoteFill,
    /// How long they are waited for.
    pub storage_prefetch: StoragePrefetch,
    /// The pool evicts blocks of which a tier has a copy first.
    pub evict_backed_first: bool,
    /// Whether a hit in the pool is a use of host memory's page.
    pub hit_refresh: HitRefresh,
    /// What is evicted from the pool goes down only if its last request has told a next use.
    pub live: bool,
}
