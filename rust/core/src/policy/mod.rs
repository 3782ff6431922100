//! Which block dies next.
//!
//! The core decides who *may* die (rule 7); a policy only says in which order. Events reach it in
//! the order things happened; per block it sees `take` and `insert` when it is taken and becomes
//! findable, then any number of `claim … release` pairs, then `remove`.
//!
//! A policy that only ranks implements [`Rank`] and gets its order from [`Ranked`], a heap over the
//! evictable leaves. One with lists of its own implements [`Eviction`].

mod arc;
mod candidates;
mod classed;
mod clock;
mod external;
mod fifo;
mod foresight;
mod ghosts;
mod heap;
mod lfu;
mod lfuda;
mod lru;
mod mq;
mod opt;
mod ranked;
mod s3fifo;
mod sieve;
mod slru;
mod twoq;

pub use arc::Arc;
pub use candidates::Candidates;
pub use classed::{Classed, Classes, Heads};
pub use clock::Clock;
pub use external::{EventKind, External, Journal, Row};
pub use fifo::Fifo;
pub use foresight::Foresight;
pub use lfu::Lfu;
pub use lfuda::Lfuda;
pub use lru::Lru;
pub use mq::Mq;
pub use opt::Opt;
pub use ranked::{Rank, Ranked};
pub use s3fifo::S3Fifo;
pub use sieve::Sieve;
pub use slru::Slru;
pub use twoq::TwoQ;

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::pool::{BlockId, Pool};
use crate::sequence::Meta;

/// Never used again, as far as the outlook tells.
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
pub struct Use<'a> {
    /// `outlook[i]` says when the i-th block is used next, where that is known; empty otherwise.
    pub outlook: &'a [u32],
    /// The request.
    pub meta: Meta,
    /// Its known length in tokens.
    pub tokens: u32,
}

impl Use<'_> {
    /// When the i-th block is used next.
    pub fn next(&self, i: usize) -> u32 {
        self.outlook.get(i).copied().unwrap_or(NEVER)
    }
}

/// One block's share of a [`Use`].
#[derive(Debug, Clone, Copy)]
pub struct Touch<'a> {
    /// The use of all blocks together.
    pub using: &'a Use<'a>,
    /// Which of them this is.
    pub i: usize,
}

impl Touch<'_> {
    /// When the block is used next.
    pub fn next(&self) -> u32 {
        self.using.next(self.i)
    }
}

/// Why a block left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was the victim.
    Evicted,
    /// It was forgotten: a reset, new weights, a superfluous copy.
    Invalidated,
}

/// An eviction policy of the core. Blocks given to a method are those of one sequence and group.
pub trait Eviction: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;

    /// `blocks` became findable; they have an owner.
    fn insert(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>);

    /// An admission found `blocks` (or computed copies of them).
    fn hit(&mut self, blocks: &[BlockId], using: Use<'_>, view: View<'_>);

    /// `block` was free and got its first owner; it is not findable yet.
    fn take(&mut self, _block: BlockId) {}

    /// `blocks` were cached and got an owner: they must leave the order.
    fn claim(&mut self, blocks: &[BlockId], view: View<'_>);

    /// The last owner of each of `blocks` left. They are in the order of their prefix: the last one
    /// dies first.
    fn release(&mut self, blocks: &[BlockId], view: View<'_>);

    /// `block` is cached and the last block after it is gone: it may die now.
    fn expose(&mut self, block: BlockId, view: View<'_>);

    /// `block` is no longer findable. Called after it left the pool's books.
    fn remove(&mut self, block: BlockId, why: Why, view: View<'_>);

    /// The block that should die next, which must be evictable. The core evicts it at once, or asks
    /// no more in this operation.
    fn victim(&mut self, view: View<'_>) -> Option<BlockId>;

    /// An admission is about to get a block for `key`, which was not found: ghosts may be there.
    fn missed(&mut self, _key: Key, _view: View<'_>) {}

    /// Whether [`Eviction::missed`] does anything.
    fn wants_missed(&self) -> bool {
        false
    }

    /// Whether [`Eviction::refuses`] ever says yes.
    fn may_refuse(&self) -> bool {
        false
    }

    /// Whether a block with this outlook should stay out rather than replace `victim`.
    fn refuses(&self, _outlook: u32, _victim: BlockId) -> bool {
        false
    }

    /// Whether `n` victims can be named without asking anyone outside.
    fn ready(&self, _n: usize) -> bool {
        true
    }

    /// Its options as they are in force.
    fn options(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The books of a policy outside the core, if this is one.
    fn external(&mut self) -> Option<&mut External> {
        None
    }

    /// Every cached block in the present order of death, as far as it is settled. For tests.
    fn order(&self, view: View<'_>) -> Vec<BlockId>;

    /// Checks the policy's own books against the pool's.
    ///
    /// # Errors
    /// One line that says what disagrees.
    fn validate(&self, pool: &Pool) -> std::result::Result<(), String>;
}

/// The names [`by_name`] knows.
pub const NAMES: &[&str] = &[
    "lru",
    "arc",
    "2q",
    "s3-fifo",
    "sieve",
    "clock",
    "mq",
    "fifo",
    "lfu",
    "lfuda",
    "slru",
    "opt",
    "opt-forced",
    "infinite",
];

/// Options of the built-in policies; each reads its own.
#[derive(Debug, Clone, Copy)]
pub struct PolicyOptions {
    /// slru: uses from which a block is protected.
    pub protected_uses: u32,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self { protected_uses: 2 }
    }
}

/// The built-in policy of that name. `infinite` is lru in a pool that never fills.
///
/// # Errors
/// [`Error::UnknownName`].
pub fn by_name(name: &str, options: PolicyOptions) -> Result<Box<dyn Eviction>> {
    Ok(match name {
        "lru" | "infinite" => Box::new(Lru::default()),
        "arc" => Box::new(Classed::new(Arc::default())),
        "2q" => Box::new(Classed::new(TwoQ::new(25, 50))),
        "s3-fifo" => Box::new(Classed::new(S3Fifo::new(10))),
        "sieve" => Box::new(Classed::new(Sieve::default())),
        "clock" => Box::new(Classed::new(Clock::default())),
        "mq" => Box::new(Classed::new(Mq::new(10_000))),
        "foresight" => Box::new(Classed::new(Foresight::default())),
        "fifo" => Box::new(Ranked::new(Fifo::default())),
        "lfu" => Box::new(Ranked::new(Lfu::default())),
        "lfuda" => Box::new(Ranked::new(Lfuda::default())),
        "slru" => Box::new(Ranked::new(Slru::new(options.protected_uses))),
        "opt" => Box::new(Ranked::new(Opt::new(true))),
        "opt-forced" => Box::new(Ranked::new(Opt::new(false))),
        _ => {
            return Err(Error::UnknownName {
                what: "eviction policy",
                name: name.into(),
                known: "lru, arc, fifo, lfu, lfuda, slru, opt, opt-forced, infinite",
            });
        }
    })
}

/// Grows a column to hold `block`.
pub(crate) fn grow<T: Clone>(column: &mut Vec<T>, block: BlockId, empty: T) {
    if column.len() <= block as usize {
        column.resize(block as usize + 1, empty);
    }
}
