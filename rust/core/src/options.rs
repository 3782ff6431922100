//! What a manager is built from, checked once.

use crate::error::{Error, Result};
use crate::groups::{self, Layout};
use crate::hash::HashAlgo;
use crate::index::IndexKind;
use crate::tenants::{self, Ledger, Tenant};

pub mod table;

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
    /// The number of evicted keys that are remembered, 32 bytes each. It is approximate, and at most the
    /// larger of the pool's blocks and 64.
    pub ghosts: u32,
    /// Time the life of one block in this many; 0 times none.
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
    /// Blocks of the same content stay side by side, each evicted by itself, whatever follows it.
    pub keep_duplicates: bool,
    /// Find the partial last block of an ended sequence too, by a copy.
    pub partial_hits: bool,
    /// Who has a floor or a quota; all others are one.
    pub tenants: Vec<Tenant>,
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
            keep_duplicates: false,
            partial_hits: false,
            tenants: Vec::new(),
        }
    }
}

// The keys of a configuration, and the options that they are.
table::keys! {
    "cache.capacity" => "blocks", blocks;
    "cache.block_size" => "block_size", block_size;
    "cache.hash" => "hash", hash;
    "cache.index" => "index", index;
    "cache.prefix_caching" => "prefix_caching", prefix_caching;
    "cache.null_block" => "null_block", null_block;
    "cache.weight_version" => "weight_version", fingerprint;
    "cache.event_log" => "event_log", event_log;
    "cache.remap_duplicates" => "remap_duplicates", remap_duplicates;
    "cache.keep_duplicates" => "keep_duplicates", keep_duplicates;
    "cache.partial_hits" => "partial_hits", partial_hits;
    "pressure.low" => "low", watermarks.low;
    "pressure.high" => "high", watermarks.high;
    "pressure.critical" => "critical", watermarks.critical;
    "pressure.reserve" => "reserve", reserve;
    "retention.pin_cap" => "pin_cap", pin_cap;
    "retention.sessions" => "sessions", sessions;
    "observe.statistics" => "statistics", observe.statistics;
    "observe.ghosts" => "ghosts", observe.ghosts;
    "observe.sample" => "sample", observe.sample;
}

/// The key of the option that an error calls `name`; the name itself if it has none.
fn key_of(name: &'static str) -> &'static str {
    KEYS.iter().find(|(_, known)| *known == name).map_or(name, |(key, _)| key)
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
        self.faults().into_iter().next().map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Everything that no manager could work with.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.check_pool(&mut faults);
        self.check_shares(&mut faults);
        if faults.is_empty() {
            tenants::check(&self.tenants, self.usable(), &mut faults);
        }
        if self.groups.is_empty() || self.groups.len() > MAX_GROUPS {
            let limit = format!("{} groups; must be between 1 and {MAX_GROUPS}", self.groups.len());
            faults.push(Fault::missing("groups", limit));
        } else if (1..=MAX_BLOCK_SIZE).contains(&self.block_size) {
            let before = faults.len();
            groups::check(&self.groups, self.block_size, &mut faults);
            if faults.len() == before {
                self.check_copies(&mut faults);
                self.check_index(&mut faults);
            }
        }
        faults
    }

    /// Blocks that requests can have.
    fn usable(&self) -> u32 {
        self.blocks - u32::from(self.null_block)
    }

    /// What counts each tenant's blocks, where there are any.
    pub(crate) fn ledger(&self) -> Option<Ledger> {
        (!self.tenants.is_empty()).then(|| Ledger::new(&self.tenants, self.usable()))
    }

    /// The blocks, and what is kept back of them.
    fn check_pool(&self, faults: &mut Vec<Fault>) {
        let reserved = u32::from(self.null_block);
        if self.blocks <= reserved {
            let limit = format!("must be between {} and {}", reserved + 1, u32::MAX);
            faults.push(Fault::new("blocks", &self.blocks, limit));
        } else if self.reserve >= self.blocks - reserved {
            let limit = format!("must be below the {} blocks of the pool", self.blocks - reserved);
            faults.push(Fault::new("reserve", &self.reserve, limit));
        }
        if self.block_size == 0 || self.block_size > MAX_BLOCK_SIZE {
            let limit = format!("must be between 1 and {MAX_BLOCK_SIZE}");
            faults.push(Fault::new("block_size", &self.block_size, limit));
        }
    }

    /// Checks the shares of the pool. A comparison with NaN is false, so NaN is refused.
    fn check_shares(&self, faults: &mut Vec<Fault>) {
        let Watermarks { low, high, critical } = self.watermarks;
        let rules = [
            ("low", low, low > 0.0, "must be above 0".into()),
            ("high", high, high > low, format!("must be above low = {low}")),
            ("critical", critical, critical > high, format!("must be above high = {high}")),
            ("critical", critical, critical <= 1.0, "must be at most 1".into()),
            ("pin_cap", self.pin_cap, (0.0..=1.0).contains(&self.pin_cap), "must be 0 to 1".into()),
        ];
        for (what, value, holds, limit) in rules {
            if !holds {
                faults.push(Fault::new(what, &value, limit));
            }
        }
    }

    /// Whether copies may stay, and what would do away with them.
    fn check_copies(&self, faults: &mut Vec<Fault>) {
        let against = [
            (self.index == IndexKind::Radix, "needs index = \"hash\""),
            (self.remap_duplicates, "not with remap_duplicates, which keeps one of two"),
            (self.partial_hits, "not with partial_hits, which follow a chain of blocks"),
        ];
        for (_, limit) in against.into_iter().filter(|&(is, _)| self.keep_duplicates && is) {
            faults.push(Fault::new("keep_duplicates", &true, limit.into()));
        }
    }

    /// Whether the index serves the groups, and what else is asked of it.
    fn check_index(&self, faults: &mut Vec<Fault>) {
        let other = |group: &Group| *group != GroupKind::Full.into();
        if let (IndexKind::Radix, Some(at)) = (self.index, self.groups.iter().position(other)) {
            let limit = format!(
                "serves full attention in blocks of cache.block_size, and groups[{at}] is none: \
                 take \"hash\""
            );
            faults.push(Fault::new("index", &self.index.name(), limit));
        }
        if self.index == IndexKind::Radix && !self.tenants.is_empty() {
            // Of several copies its lowest id is found, and ids depend on other tenants.
            let limit = "has no tenants: take \"hash\"".into();
            faults.push(Fault::new("index", &self.index.name(), limit));
        }
        let Ok(layout) = Layout::new(&self.groups, self.block_size) else { return };
        for (what, on) in
            [("remap_duplicates", self.remap_duplicates), ("partial_hits", self.partial_hits)]
        {
            let limit = match self.index {
                _ if !on => continue,
                IndexKind::Radix if what == "partial_hits" => continue,
                IndexKind::Radix => "needs index = \"hash\": the radix index has no keys".into(),
                IndexKind::Hash => match layout.check_plain() {
                    Ok(()) => continue,
                    Err(why) => why,
                },
            };
            faults.push(Fault::new(what, &true, limit));
        }
    }
}

/// What is wrong with one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The option's name.
    pub what: &'static str,
    /// Which group it is of, from 0; none for an option of the whole.
    pub group: Option<usize>,
    /// Which tenant it is of, from 0.
    pub tenant: Option<usize>,
    /// What was given; none where something is missing.
    pub value: Option<String>,
    /// What is allowed.
    pub limit: String,
}

impl Fault {
    /// A value outside its limits.
    pub fn new(what: &'static str, value: &dyn std::fmt::Display, limit: String) -> Self {
        Self { what, group: None, tenant: None, value: Some(value.to_string()), limit }
    }

    /// A fault of a key of the group `at`.
    pub fn of_group(
        what: &'static str,
        at: usize,
        value: &dyn std::fmt::Display,
        limit: String,
    ) -> Self {
        Self { group: Some(at), ..Self::new(what, value, limit) }
    }

    /// A fault of a key of a tenant.
    pub fn of_tenant(
        what: &'static str,
        at: usize,
        value: &dyn std::fmt::Display,
        limit: String,
    ) -> Self {
        Self { tenant: Some(at), ..Self::new(what, value, limit) }
    }

    /// A value that is not there.
    pub fn missing(what: &'static str, limit: impl Into<String>) -> Self {
        Self { what, group: None, tenant: None, value: None, limit: limit.into() }
    }

    /// Where a configuration has it: `pressure.reserve`, `groups[1].window`.
    pub fn key(&self) -> String {
        match (self.tenant, self.group) {
            (Some(at), _) => format!("tenants[{at}].{}", self.what),
            (None, Some(at)) => format!("groups[{at}].{}", self.what),
            (None, None) => key_of(self.what).into(),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let value = fault.value.unwrap_or_else(|| "none".into());
        Self::Invalid { what: fault.what, value, limit: fault.limit }
    }
}
