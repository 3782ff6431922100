//! Eviction policies: which block is evicted next.
//!
//! The core decides what *may* be evicted (rule 7); a policy only says in which order. Events reach it in
//! the order things happened; per block it sees `take` and `insert` when it is taken and becomes
//! findable, then any number of `acquire … release` pairs, then `remove`.
//!
//! A policy that is one formula implements [`Formula`]. One that ranks blocks with state of its own
//! implements [`Rank`]: [`RankOrder`], a heap over the evictable leaves, gives the order. One with lists
//! of its own implements [`Classes`], and [`ClassHeads`] gives the order. One that weighs what it draws at random
//! implements [`Weighed`] for [`Sampled`]. Only `lru`, `foresight`, `lecar`, `asymcache`, policies outside the
//! core and [`PerTenant`], which is one over those of all tenants, implement [`Eviction`] themselves. Each [`Eviction`] also implements [`Consulted`],
//! which is empty (`impl Consulted for X {}`) for a policy of the core.
//!
//! | | |
//! | --- | --- |
//! | `eviction/` | the policies, a file each |
//! | `zoo/` | cousins of theirs, kept to compare with |
//! | `adapters/` | what they are built from: heaps, lists, ghosts, counts |
//! | `outside/` | what asks a policy outside the core |
//! | `admission/` | whether a block enters a tier |

mod adapters;
pub mod admission;
mod eviction;
mod options;
mod outside;
mod zoo;

pub use adapters::*;
pub use eviction::*;
pub use options::{Builtin, Configured, PolicyOption, PolicyOptions};
pub use outside::*;
pub use zoo::*;

use crate::error::Result;
use crate::hash::Key;
use crate::pool::{BlockId, Pool};
use crate::sequence::Meta;
use crate::tenants::PerTenant;

/// Never used again, as far as is known.
pub const NEVER: u32 = u32::MAX;

/// What a policy may look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The blocks.
    pub pool: &'a Pool,
    /// The logical clock: one tick an operation, never the wall's.
    pub now: u64,
}

/// Who uses blocks, and when again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    /// `next_use[i]` says when the i-th block is used next, where that is known; empty otherwise.
    pub next_use: &'a [u32],
    /// The request.
    pub meta: Meta,
    /// Its known length in tokens.
    pub tokens: u32,
}

impl Access<'_> {
    /// When the i-th block is used next.
    pub fn next(&self, i: usize) -> u32 {
        self.next_use.get(i).copied().unwrap_or(NEVER)
    }
}

/// One block's share of an [`Access`].
#[derive(Debug, Clone, Copy)]
pub struct BlockAccess<'a> {
    /// The use of all blocks together.
    pub access: &'a Access<'a>,
    /// Which of them this is.
    pub i: usize,
}

impl BlockAccess<'_> {
    /// When the block is used next.
    pub fn next(&self) -> u32 {
        self.access.next(self.i)
    }
}

/// Why a block left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalCause {
    /// It was the victim.
    Evicted,
    /// It was forgotten: a reset, new weights, a superfluous copy.
    Invalidated,
}

/// An eviction policy: in which order blocks are evicted that may be.
///
/// The caller keeps the pool: it says who owns a block, what follows it, and whether it may be evicted
/// ([`Pool::is_evictable`]). It calls in the order in which things happen, names only blocks that are in
/// the pool, and names those of one sequence and group together. The policy keeps what it wants to know of
/// them, and must not hold on to a block after [`Eviction::remove`].
///
/// What only policies outside the core do is in [`Consulted`].
pub trait Eviction: Consulted + Send {
    // --- a block's life, in this order ----------------------------------------------------------

    /// `blocks` were free and got their first owner. They are not findable yet: the policy only forgets
    /// what it knew of them before.
    fn take(&mut self, _blocks: &[BlockId]) {}

    /// `blocks` became findable. The caller: each has an owner, has not been inserted since it was taken,
    /// and comes after the one that it follows. The policy: must not name them yet.
    fn insert(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>);

    /// An allocation found `blocks`, or computed copies of them. The caller: they are findable; those that had
    /// no owner were acquired before, unless a copy was found. The policy: counts one use of each.
    fn hit(&mut self, blocks: &[BlockId], access: Access<'_>, view: View<'_>);

    /// `blocks` were cached and have an owner now. The policy: takes them out of its order.
    fn acquire(&mut self, blocks: &[BlockId], view: View<'_>);

    /// An allocation found `blocks` and has become an owner of each; those in `first` had none. The same as
    /// [`Eviction::acquire`] of these and [`Eviction::hit`] of all.
    fn own(&mut self, blocks: &[BlockId], first: &[BlockId], access: Access<'_>, view: View<'_>) {
        self.acquire(first, view);
        self.hit(blocks, access, view);
    }

    /// The last owner of each of `blocks` left, and they are cached. The caller: gives them in the order of their
    /// prefix. The policy: may name the last of them from now on; the ones before it once
    /// [`Eviction::on_evictable`] says so.
    fn release(&mut self, blocks: &[BlockId], view: View<'_>);

    /// `block` is cached, and the last block that followed it is gone. The policy: may name it from now on.
    fn on_evictable(&mut self, block: BlockId, view: View<'_>);

    /// Whether a block that was acquired comes back to its old place with [`Eviction::on_evictable`], and only
    /// [`Eviction::release`] makes it recent. Otherwise it comes back with a release alone.
    fn keeps_places(&self) -> bool {
        true
    }

    /// `block`, which is cached, has another retention priority now ([`Pool::priority`]). The policy: names
    /// blocks of a lower priority first, whatever else it knows of them.
    fn priority_changed(&mut self, block: BlockId, view: View<'_>);

    /// `block` is no longer findable. The caller: has taken it out of the index and the tree, and not yet
    /// freed it. The policy: forgets it, in its order or not; it may keep the key.
    fn remove(&mut self, block: BlockId, cause: RemovalCause, view: View<'_>);

    // --- who is next ----------------------------------------------------------------------------

    /// The block that should be evicted next. The caller: evicts it at once, or asks no more in this
    /// operation. The policy: names one for which [`Pool::is_evictable`] holds; instead of another one, a
    /// manager evicts the lowest id that may be.
    fn victim(&mut self, view: View<'_>) -> Option<BlockId>;

    /// The block that is likely to be evicted next, as far as that can be said without a decision.
    fn next(&self, _view: View<'_>) -> Option<BlockId> {
        None
    }

    /// Adds up to `n` blocks that are likely to be evicted next to `blocks`, and reads what it will ask of itself
    /// then: in a large pool, that has to come from memory. It decides nothing.
    fn upcoming(&self, _n: usize, _view: View<'_>, _blocks: &mut Vec<BlockId>) {}

    /// The first `most` cached blocks in the present order of eviction, as far as it is settled: for callers who
    /// copy what is about to be evicted, for tests, and for those who look.
    fn order(&self, view: View<'_>, most: usize) -> Vec<BlockId>;

    /// Whether a block with this next use should stay out rather than replace `victim`. The caller: asks for
    /// requests alone that may be allocated in part.
    fn refuses(&self, _next_use: u32, _victim: BlockId) -> bool {
        false
    }

    // --- keys that are not there ----------------------------------------------------------------

    /// An allocation is about to get a block for `key`, which was not found: ghosts may be there.
    fn on_miss(&mut self, _key: Key, _view: View<'_>) {}

    /// Whether [`Eviction::on_miss`] does anything; otherwise it is not called.
    fn wants_misses(&self) -> bool {
        false
    }

    /// Whether it goes by keys, for example of blocks that are gone: they are then made even where the
    /// index needs none.
    fn wants_keys(&self) -> bool {
        self.wants_misses()
    }

    // --- the policy itself ----------------------------------------------------------------------

    /// Its name in configuration.
    fn name(&self) -> &'static str;

    /// Whether it ranks by what only a replay knows.
    fn needs_future(&self) -> bool {
        false
    }

    /// The caller may make blocks findable without saying which one they follow: then the policy may infer it.
    fn infer_parents(&mut self) {}

    /// How many blocks there will be, and of how many tokens. The caller: says so before the first event, and
    /// before the pool changes its size.
    ///
    /// # Errors
    /// One line that says why it cannot serve such a pool; it serves the one it had.
    fn size(&mut self, _blocks: u32, _block_size: u32) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Checks the policy's own state against the pool's.
    ///
    /// # Errors
    /// One line that says what disagrees.
    fn validate(&self, pool: &Pool) -> std::result::Result<(), String>;
}

/// What a policy outside the core does beside [`Eviction`]: it decides before the operation that needs it,
/// and names blocks that the core may then have to put back. A policy of the core is always ready.
pub trait Consulted {
    /// Whether `n` victims can be named without consulting the policy.
    fn ready(&self, _n: usize) -> bool {
        true
    }

    /// Names `n` victims. The caller: has just refused an operation because the policy was not ready, and
    /// will try it again. False if the policy cannot: the operation is then refused for good.
    fn decide(&mut self, _n: usize, _view: View<'_>) -> bool {
        false
    }

    /// The state that the core keeps for it, if there is one.
    fn external(&mut self) -> Option<&mut External> {
        None
    }

    /// The policies of tenants, if it is one for each.
    fn tenants(&self) -> Option<&PerTenant> {
        None
    }

    /// The same, to change them.
    fn tenants_mut(&mut self) -> Option<&mut PerTenant> {
        None
    }

    /// How many victims the built-in order named in its stead.
    fn fallbacks(&self) -> u64 {
        0
    }

    /// Whether [`Eviction::order`] is what it would name.
    fn shows_order(&self) -> bool {
        true
    }

    /// These are cached but may not be evicted in this operation: each that is named is acquired at once, and
    /// put back at the end. Empty: it has ended.
    fn set_aside(&mut self, _blocks: &[BlockId]) {}

    /// Whether a block that was named, acquired in its place and may be evicted again gets its old place
    /// from the policy. Otherwise the caller says [`Eviction::on_evictable`].
    fn restore(&mut self, _block: BlockId, _view: View<'_>) -> bool {
        false
    }
}

impl Consulted for Lru {}
impl Consulted for Lecar {}
impl<R: Rank> Consulted for RankOrder<R> {}
impl<P: Classes> Consulted for ClassHeads<P> {}

type Policy = Builtin<Box<dyn Eviction>>;

const fn alone<P: Eviction + Configured + 'static>(name: &'static str) -> Policy {
    Builtin { name, options: P::OPTIONS, make: |options| Box::new(P::with(options)) }
}

const fn ranked<R: Rank + Configured + 'static>(name: &'static str) -> Policy {
    let make = |options: PolicyOptions<'_>| -> Box<dyn Eviction> {
        Box::new(RankOrder::new(R::with(options)))
    };
    Builtin { name, options: R::OPTIONS, make }
}

const fn scored<F: Formula + Configured + 'static>(name: &'static str) -> Policy {
    let make = |options: PolicyOptions<'_>| -> Box<dyn Eviction> {
        Box::new(RankOrder::new(Scored::new(F::with(options))))
    };
    Builtin { name, options: F::OPTIONS, make }
}

const fn classed<P: Classes + Configured>(name: &'static str) -> Policy {
    let make = |options: PolicyOptions<'_>| -> Box<dyn Eviction> {
        Box::new(ClassHeads::new(P::with(options)))
    };
    Builtin { name, options: P::OPTIONS, make }
}

/// Every policy; `infinite` is lru in a pool that never fills.
pub const POLICIES: &[Builtin<Box<dyn Eviction>>] = &[
    alone::<Lru>("lru"),
    alone::<Foresight>("foresight"),
    scored::<Mru>("mru"),
    ranked::<Fifo>("fifo"),
    scored::<Filo>("filo"),
    ranked::<Lfu>("lfu"),
    ranked::<Lfuda>("lfuda"),
    scored::<LfuAged>("lfu-aged"),
    scored::<Wlfu>("wlfu"),
    scored::<Hpt>("hpt"),
    ranked::<Slru>("slru"),
    scored::<Gdsf>("gdsf"),
    scored::<Cost>("cost"),
    scored::<Priority>("priority"),
    scored::<LongestFirst>("longest-first"),
    scored::<Ttl>("ttl"),
    classed::<Clock>("clock"),
    classed::<Sieve>("sieve"),
    classed::<TwoQ>("2q"),
    classed::<Arc>("arc"),
    classed::<Mq>("mq"),
    classed::<S3Fifo>("s3-fifo"),
    classed::<SlruLists>("slru-lists"),
    classed::<SlruDecay>("slru-decay"),
    classed::<Lirs>("lirs"),
    classed::<WTinyLfu>("w-tinylfu"),
    alone::<Lecar>("lecar"),
    alone::<RandomCompute>("random-compute"),
    alone::<RandomQuickDemotion>("random-quick-demotion"),
    alone::<PartialNodeRandomCompute>("partial-node-random-compute"),
    alone::<AsymCache>("asymcache"),
    classed::<RrEvict>("rr-evict"),
    classed::<Marconi>("marconi"),
    classed::<Workload>("workload"),
    classed::<Session>("session"),
    ranked::<NextUse>("next-use"),
    ranked::<Opt>("opt"),
    ranked::<OptForced>("opt-forced"),
    classed::<BeladyCompute>("belady-compute"),
    alone::<Lru>("infinite"),
];

/// The names [`by_name`] knows.
pub const NAMES: &[&str] = &NAMES_OF_POLICIES;

const NAMES_OF_POLICIES: [&str; POLICIES.len()] = {
    let mut names = [""; POLICIES.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = POLICIES[i].name;
        i += 1;
    }
    names
};

/// The built-in policy of that name, not yet made.
///
/// # Errors
/// [`Error::UnknownName`](crate::Error::UnknownName).
pub fn find(name: &str) -> Result<&'static Builtin<Box<dyn Eviction>>> {
    options::find(POLICIES, "eviction policy", name)
}

/// The built-in policy of that name with these options.
///
/// # Errors
/// [`Error::UnknownName`](crate::Error::UnknownName) for a name or an option that is not there,
/// [`Error::Invalid`](crate::Error::Invalid) for an option outside its limits.
pub fn by_name(name: &str, options: PolicyOptions<'_>) -> Result<Box<dyn Eviction>> {
    find(name)?.make(options)
}

/// Grows a column to hold `block`.
pub(crate) fn grow<T: Clone>(column: &mut Vec<T>, block: BlockId, empty: T) {
    if column.len() <= block as usize {
        column.resize(block as usize + 1, empty);
    }
}
