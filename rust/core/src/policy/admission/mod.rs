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
pub use write::{WriteBack, WriteThrough};

use crate::error::{Error, Result};
use crate::hash::Key;

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

    /// One verdict a row; all are `Keep` before.
    fn admit(&mut self, offer: &Offer, ask: Ask, out: &mut [Verdict]);

    /// Its options as they are in force.
    fn options(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// The verdicts of a policy outside the core, if this is one.
    fn external(&mut self) -> Option<&mut Verdicts> {
        None
    }
}

/// Options of the built-in policies; each reads its own.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionOptions {
    /// second-use, write-through, selective: a block is kept from this use on. frequency: the same, as long
    /// as nothing has to be evicted.
    pub uses: Option<u32>,
    /// second-use, branch-point: keys remembered.
    pub remember: u32,
    /// frequency: keys that the sketch tells apart.
    pub capacity: u32,
    /// size: the shortest request, in tokens.
    pub min_tokens: u32,
    /// size: how far into a request, in tokens.
    pub max_tokens: u32,
    /// cost: the least that the request costs to compute, in tokens.
    pub min_cost: u32,
    /// cost: tokens before one for which attention takes as much as all the rest.
    pub attention_tokens: u32,
}

impl Default for AdmissionOptions {
    fn default() -> Self {
        Self {
            uses: None,
            remember: 1 << 16,
            capacity: 1 << 16,
            min_tokens: 1024,
            max_tokens: u32::MAX,
            min_cost: 1024,
            attention_tokens: 32_768,
        }
    }
}

impl AdmissionOptions {
    /// Sets the option of that name; false if there is none.
    pub fn set(&mut self, name: &str, value: u32) -> bool {
        match name {
            "uses" => self.uses = Some(value),
            "remember" => self.remember = value,
            "capacity" => self.capacity = value,
            "min_tokens" => self.min_tokens = value,
            "max_tokens" => self.max_tokens = value,
            "min_cost" => self.min_cost = value,
            "attention_tokens" => self.attention_tokens = value,
            _ => return false,
        }
        true
    }
}

/// The built-in policy of that name; `None` for the one that keeps everything.
///
/// # Errors
/// [`Error::UnknownName`].
pub fn by_name(name: &str, o: AdmissionOptions) -> Result<Option<Box<dyn Admit>>> {
    Ok(Some(match name {
        "always" => return Ok(None),
        "second-use" => Box::new(SecondUse::new(o.uses.unwrap_or(2), o.remember)),
        "frequency" => Box::new(Frequency::new(o.uses.unwrap_or(2), o.capacity)),
        "branch-point" => Box::new(BranchPoint::new(o.remember)),
        "size" => Box::new(Size::new(o.min_tokens, o.max_tokens)),
        "cost" => Box::new(Cost::new(o.min_cost, o.attention_tokens)),
        "write-back" => Box::new(WriteBack),
        "write-through" => Box::new(WriteThrough::new("write-through", o.uses.unwrap_or(1))),
        "selective" => Box::new(WriteThrough::new("selective", o.uses.unwrap_or(2))),
        _ => {
            return Err(Error::UnknownName {
                what: "admission policy",
                name: name.into(),
                known: "always, second-use, frequency, branch-point, size, cost, write-back, \
                        write-through, selective"
                    .into(),
            });
        }
    }))
}
