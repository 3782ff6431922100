//! Whether a block enters a tier.
//!
//! Asked in batches, at commit: the blocks that a sequence is about to make findable, in the order of
//! its prefix. What is dropped stays its sequence's own and is free once that ends. In groups whose
//! blocks follow one another nothing after a dropped block could be found, so nothing after it is
//! kept either, nor asked for again. Lower tiers ask the same policy with their own [`Tier`].

mod branch_point;
mod external;
mod frequency;
mod gate;
mod offer;
mod second_use;
mod size;
mod write;

pub use branch_point::BranchPoint;
pub use external::Verdicts;
pub use frequency::Frequency;
pub use gate::{AdmissionCounts, Gate};
pub use offer::{Offer, OfferRow};
pub use second_use::SecondUse;
pub use size::{Cost, Size};
pub use write::{Selective, WriteBack, WriteThrough};

use crate::error::{Error, Result};
use crate::hash::Key;
use crate::policy::options::{self, Builtin, Configured, PolicyOptions};

/// A place for pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Tier {
    /// The pool that engines compute in.
    #[default]
    Gpu = 0,
    /// Memory of the host.
    Host = 1,
    /// A local disk.
    Disk = 2,
    /// Another machine.
    Remote = 3,
}

impl Tier {
    /// The name used in configuration and by policies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
            Self::Disk => "disk",
            Self::Remote => "remote",
        }
    }

    /// The tier of that name.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    pub fn from_name(name: &str) -> Result<Self> {
        let known = [Self::Gpu, Self::Host, Self::Disk, Self::Remote];
        known.into_iter().find(|tier| tier.name() == name).ok_or_else(|| Error::UnknownName {
            what: "tier",
            name: name.into(),
            known: "gpu, host, disk, remote".into(),
        })
    }
}

/// Why a block might enter a tier now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Occasion {
    /// It was computed.
    #[default]
    Computed = 0,
    /// It was found in the tier above.
    Used = 1,
    /// It leaves the tier above.
    Evicted = 2,
}

/// What becomes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Verdict {
    /// It does not enter.
    Drop = 0,
    /// It enters.
    #[default]
    Keep = 1,
    /// It does not enter this tier, but the one below is asked.
    Lower = 2,
}

impl Verdict {
    /// The verdict of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Drop),
            1 => Some(Self::Keep),
            2 => Some(Self::Lower),
            _ => None,
        }
    }
}

/// What is asked, beside the rows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask {
    /// Where the blocks would enter.
    pub tier: Tier,
    /// Why now.
    pub occasion: Occasion,
    /// The logical clock.
    pub now: u64,
    /// Blocks of the tier that are free.
    pub free: u32,
    /// All its blocks.
    pub total: u32,
    /// The key of the block that is likely to be evicted next, if one is cached.
    pub rival: Option<Key>,
}

/// An admission policy of the core.
pub trait Admit: Send {
    /// Its name in configuration.
    fn name(&self) -> &'static str;

    /// Whether it judges by keys; otherwise none are made for it.
    fn wants_keys(&self) -> bool {
        false
    }

    /// Whether it judges by how often blocks were used in the tier above; otherwise uses need no count.
    fn wants_uses(&self) -> bool {
        true
    }

    /// Tells the policy that a sequence has found or computed these blocks, before `admit` is asked about
    /// them. Each block is named once per request. A request that comes back after a preemption names none.
    fn seen(&mut self, _keys: &[Key]) {}

    /// What follows is of `tenant`.
    fn serve(&mut self, _tenant: u8) {}

    /// One verdict a row; all are `Keep` before.
    fn admit(&mut self, offer: &Offer, ask: Ask, out: &mut [Verdict]);

    /// The verdicts of a policy outside the core, if this is one.
    fn external(&mut self) -> Option<&mut Verdicts> {
        None
    }
}

type Policy = Builtin<Option<Box<dyn Admit>>>;

const fn asked<P: Admit + Configured + 'static>(name: &'static str) -> Policy {
    let make =
        |options: PolicyOptions<'_>| -> Option<Box<dyn Admit>> { Some(Box::new(P::with(options))) };
    Builtin { name, options: P::OPTIONS, make }
}

/// Every policy; `always` keeps everything, so none is made of it.
pub const POLICIES: &[Builtin<Option<Box<dyn Admit>>>] = &[
    Builtin { name: "always", options: &[], make: |_| None },
    asked::<SecondUse>("second-use"),
    asked::<Frequency>("frequency"),
    asked::<BranchPoint>("branch-point"),
    asked::<Size>("size"),
    asked::<Cost>("cost"),
    asked::<WriteBack>("write-back"),
    asked::<WriteThrough>("write-through"),
    asked::<Selective>("selective"),
];

/// The built-in policy of that name, not yet made.
///
/// # Errors
/// [`Error::UnknownName`](crate::Error::UnknownName).
pub fn find(name: &str) -> Result<&'static Builtin<Option<Box<dyn Admit>>>> {
    options::find(POLICIES, "admission policy", name)
}

/// The built-in policy of that name with these options; `None` for the one that keeps everything.
///
/// # Errors
/// As [`crate::policy::by_name`].
pub fn by_name(name: &str, options: PolicyOptions<'_>) -> Result<Option<Box<dyn Admit>>> {
    find(name)?.make(options)
}
