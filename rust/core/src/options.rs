//! What a manager is built from, checked once.

use crate::error::{Error, Result};
use crate::groups::Layout;
use crate::hash::HashAlgo;
use crate::index::IndexKind;

pub use crate::groups::{Group, GroupKind};

/// The most layer groups one pool serves.
pub const MAX_GROUPS: usize = 16;
/// The most tokens a block holds.
pub const MAX_BLOCK_SIZE: u32 = 65_536;

/// Shares of the usable blocks that are referenced, `0 < low < high < critical <= 1`. A level is
/// entered at its mark and left below the mark before it, so that it does not flicker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Watermarks {
    /// Below this, pressure that was high is over.
    pub low: f64,
    /// From here on pressure is high.
    pub high: f64,
    /// From here on pressure is critical; below `high` it is not any more.
    pub critical: f64,
}

impl Default for Watermarks {
    fn default() -> Self {
        Self { low: 0.7, high: 0.85, critical: 0.95 }
    }
}

/// What a manager keeps to explain itself with, beyond its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observe {
    /// Say why each prefix ended where it did, and keep the window of the last requests.
    pub statistics: bool,
    /// About so many evicted keys are remembered, 32 bytes each; no more than the pool has blocks,
    /// and 64.
    pub ghosts: u32,
    /// Time the life of 1 block in so many; 0: of none.
    pub sample: u32,
}

impl Default for Observe {
    fn default() -> Self {
        Self { statistics: true, ghosts: 1 << 15, sample: 0 }
    }
}

/// A manager's options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Blocks of the pool, 1 to 2^32-1.
    pub blocks: u32,
    /// Tokens a block holds.
    pub block_size: u32,
    /// Layer groups; all share the pool, each has a block table of its own.
    pub groups: Vec<Group>,
    /// The hash that chains block keys, see [`Options::chain_hash`].
    pub hash: HashAlgo,
    /// How prompts are matched with blocks.
    pub index: IndexKind,
    /// Look prefixes up and keep them findable.
    pub prefix_caching: bool,
    /// Reserve block 0, for engines that pad tables with it.
    pub null_block: bool,
    /// Weights fingerprint, part of every key.
    pub fingerprint: Vec<u8>,
    /// Keep the ordered event log.
    pub event_log: bool,
    /// Statistics, ghosts, samples.
    pub observe: Observe,
    /// Shares of the pool in use at which the pressure level changes.
    pub watermarks: Watermarks,
    /// The share of the usable blocks that pins may hold, 0 to 1.
    pub pin_cap: f64,
    /// Keep track of sessions, so that hints on them are taken.
    pub sessions: bool,
    /// Blocks that an allocation leaves available for running sequences to grow into.
    pub reserve: u32,
    /// Leave the last token of a prompt to be computed (rule 5). Off only in trace replay.
    pub compute_last_token: bool,
    /// A block that turns out to be findable already when it is committed gives way to that one.
    pub remap_duplicates: bool,
    /// Find the partial last block of an ended sequence too, by a copy.
    pub partial_hits: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            blocks: 4096,
            block_size: 16,
            groups: vec![GroupKind::Full.into()],
            hash: HashAlgo::Sha256,
            index: IndexKind::Hash,
            prefix_caching: true,
            null_block: false,
            fingerprint: Vec::new(),
            event_log: false,
            observe: Observe::default(),
            watermarks: Watermarks::default(),
            pin_cap: 1.0,
            sessions: false,
            reserve: 0,
            compute_last_token: true,
            remap_duplicates: false,
            partial_hits: false,
        }
    }
}

impl Options {
    /// The hash that keys are chained by. Where a group gives blocks up, the tokens of a prefix are not
    /// all there to be compared, so only a cryptographic one will do.
    pub fn chain_hash(&self) -> HashAlgo {
        let compares_all = self.groups.iter().all(|group| group.kind.keeps_all());
        if compares_all || self.hash.is_cryptographic() { self.hash } else { HashAlgo::Sha256 }
    }

    /// Refuses values that no manager could work with.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the option, the value and the limit.
    pub fn validate(&self) -> Result<()> {
        let reserved = u32::from(self.null_block);
        if self.blocks <= reserved {
            return Err(Error::Invalid {
                what: "blocks",
                value: self.blocks.to_string(),
                limit: format!("must be between {} and {}", reserved + 1, u32::MAX),
            });
        }
        if self.block_size == 0 || self.block_size > MAX_BLOCK_SIZE {
            return Err(Error::Invalid {
                what: "block_size",
                value: self.block_size.to_string(),
                limit: format!("must be between 1 and {MAX_BLOCK_SIZE}"),
            });
        }
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            return Err(Error::Invalid {
                what: "groups",
                value: self.groups.len().to_string(),
                limit: format!("must be between 1 and {MAX_GROUPS} layer groups"),
            });
        }
        let Watermarks { low, high, critical } = self.watermarks;
        let rising = 0.0 < low && low < high && high < critical && critical <= 1.0;
        if !rising {
            return Err(Error::Invalid {
                what: "watermarks",
                value: format!("{low}, {high}, {critical}"),
                limit: "must rise: 0 < low < high < critical <= 1".into(),
            });
        }
        if !(0.0..=1.0).contains(&self.pin_cap) {
            return Err(Error::Invalid {
                what: "pin_cap",
                value: self.pin_cap.to_string(),
                limit: "must be a share of the pool, 0 to 1".into(),
            });
        }
        if self.reserve >= self.blocks - reserved {
            return Err(Error::Invalid {
                what: "reserve",
                value: self.reserve.to_string(),
                limit: format!("must be below the {} usable blocks", self.blocks - reserved),
            });
        }
        self.validate_index()
    }

    /// Whether the index serves the groups, and what else is asked of it.
    fn validate_index(&self) -> Result<()> {
        let other = |group: &&Group| **group != GroupKind::Full.into();
        if let (IndexKind::Radix, Some(group)) = (self.index, self.groups.iter().find(other)) {
            return Err(Error::Invalid {
                what: "index",
                value: self.index.name().into(),
                limit: format!(
                    "serves full attention in blocks of one size, and a group of kind {} is none: \
                     take \"hash\"",
                    group.kind.name()
                ),
            });
        }
        let layout = Layout::new(&self.groups, self.block_size)?;
        for (what, on) in
            [("remap_duplicates", self.remap_duplicates), ("partial_hits", self.partial_hits)]
        {
            if !on {
                continue;
            }
            let limit = match self.index {
                IndexKind::Radix if what == "partial_hits" => continue,
                IndexKind::Radix => "needs index = \"hash\": the radix index has no keys".into(),
                IndexKind::Hash => match layout.check_plain() {
                    Ok(()) => continue,
                    Err(why) => why,
                },
            };
            return Err(Error::Invalid { what, value: "true".into(), limit });
        }
        Ok(())
    }
}
