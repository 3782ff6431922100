//! All groups of a manager together: the unit that hits come in, and which boundaries can be hit.

use super::{Group, GroupKind, GroupReach};
use crate::error::Result;

/// What the groups of one pool have in common.
#[derive(Debug, Clone)]
pub struct Layout {
    groups: Vec<GroupReach>,
    /// Tokens of a unit.
    block_size: u32,
    /// Units that the length of a hit is a multiple of.
    unit: u32,
    /// Tokens after which blocks and chunks begin at the same places again.
    period: u64,
    /// Tokens between boundaries that stay findable; 0: the end of the prompt alone.
    step: u32,
    /// Whether all boundaries stay findable because no group says which.
    every_boundary: bool,
    /// Bit `g`: every block of group `g` can serve some hit.
    dense: u32,
    /// Whether all blocks span one unit and all groups grow alike.
    uniform: bool,
    gives_up: bool,
    lagging: bool,
    mixed: bool,
    /// Bit `g`: group `g` attends to another input.
    cross: u32,
    /// Whether some group attends to all tokens.
    attends_to_all: bool,
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    x
}

pub(super) fn lcm(a: u64, b: u64) -> u64 {
    a / gcd(a, b) * b
}

/// More tokens than a sequence can have.
const NO_PERIOD: u64 = 1 << 32;

impl Layout {
    /// The layout of `groups` over blocks of `block_size` tokens.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a group that cannot be, or groups that cannot go together.
    pub fn new(groups: &[Group], block_size: u32) -> Result<Self> {
        let size = u64::from(block_size);
        let mut faults = Vec::new();
        super::check(groups, block_size, &mut faults);
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault.into());
        }
        let (mut unit, mut chunks) = (1, 1);
        for group in groups {
            if group.kind != GroupKind::Cross {
                unit = lcm(unit, u64::from(group.units));
            }
            if let GroupKind::Chunked { chunk } = group.kind {
                // No sequence is that long, so larger periods need no exact value.
                chunks = lcm(chunks, u64::from(chunk)).min(NO_PERIOD);
            }
        }
        let mut step = unit * size;
        for interval in groups.iter().filter_map(|group| group.interval).filter(|&each| each > 0) {
            step = lcm(step, u64::from(interval));
        }
        // Some group promises only the end of the prompt, so no other boundary can be hit.
        if groups.iter().any(|g| g.interval == Some(0)) {
            step = 0;
        }
        let reaches: Vec<GroupReach> =
            groups.iter().map(|g| GroupReach::new(g, block_size)).collect();
        let own = |reach: &GroupReach| reach.kind != GroupKind::Cross;
        let first = reaches.iter().position(own).unwrap_or(0);
        let lagging = groups.iter().any(|g| g.lag > 0);
        let is_cross =
            |(at, group): (usize, &Group)| u32::from(group.kind == GroupKind::Cross) << at;
        let cross = groups.iter().enumerate().map(is_cross).fold(0, |mask, bit| mask | bit);
        let mut layout = Self {
            block_size,
            unit: unit as u32,
            period: lcm(unit * size, chunks),
            step: step as u32,
            every_boundary: groups.iter().all(|g| g.interval.is_none()),
            dense: 0,
            uniform: !lagging && cross == 0 && groups.iter().all(|g| g.units == 1),
            gives_up: groups.iter().any(|g| !g.kind.keeps_all()),
            lagging,
            mixed: reaches.iter().any(|r| own(r) && r.span != reaches[first].span),
            cross,
            attends_to_all: groups.iter().any(|g| g.kind == GroupKind::Full),
            groups: reaches,
        };
        for group in 0..groups.len() {
            layout.dense |= u32::from(layout.is_dense(group)) << group;
        }
        Ok(layout)
    }

    fn is_dense(&self, group: usize) -> bool {
        let reach = &self.groups[group];
        match reach.kind {
            GroupKind::Full | GroupKind::Cross => true,
            // Nothing before the next token.
            GroupKind::SlidingWindow { window: 1 } | GroupKind::Chunked { .. } => false,
            _ => reach.span == self.step,
        }
    }

    /// Every group.
    #[inline]
    pub fn groups(&self) -> &[GroupReach] {
        &self.groups
    }

    /// Tokens of a unit.
    pub(super) fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Tokens after which blocks and chunks of all groups begin at the same places again.
    pub(super) fn period(&self) -> u64 {
        self.period
    }

    /// Tokens that the length of a hit is a multiple of.
    pub fn unit_tokens(&self) -> u32 {
        self.unit * self.block_size
    }

    /// Units of `block_size` tokens that the length of a hit is a multiple of.
    #[inline]
    pub fn unit(&self) -> u32 {
        self.unit
    }

    /// Whether all blocks span one unit, and no group lags or is another input's.
    #[inline]
    pub fn is_uniform(&self) -> bool {
        self.uniform
    }

    /// Refuses, with the reason, groups other than full attention or sliding windows with blocks of one unit.
    /// Functions that work on whole rows of blocks support only those.
    ///
    /// # Errors
    /// The limit that an [`crate::Error::Invalid`] names.
    pub fn check_plain(&self) -> std::result::Result<(), String> {
        let rows =
            "needs groups of full attention or sliding windows, in blocks of block_size tokens";
        let plain = |kind| matches!(kind, GroupKind::Full | GroupKind::SlidingWindow { .. });
        if let Some(reach) = self.groups.iter().find(|reach| !plain(reach.kind)) {
            return Err(format!("{rows}: one is of kind {}", reach.kind.name()));
        }
        if let Some(reach) = self.groups.iter().find(|reach| reach.units > 1) {
            return Err(format!("{rows}: one has blocks of {} tokens", reach.span));
        }
        if let Some(reach) = self.groups.iter().find(|reach| reach.lag > 0) {
            return Err(format!("{rows}: one lags by {} tokens", reach.lag));
        }
        Ok(())
    }

    /// Whether some group gives blocks up before its sequence ends.
    #[inline]
    pub fn gives_up(&self) -> bool {
        self.gives_up
    }

    /// Whether some group attends to all tokens, so that it knows how much of a prompt was seen before.
    #[inline]
    pub fn attends_to_all(&self) -> bool {
        self.attends_to_all
    }

    /// Whether blocks of different groups span different numbers of tokens.
    #[inline]
    pub fn is_mixed(&self) -> bool {
        self.mixed
    }

    /// Whether some group attends to another input.
    #[inline]
    pub fn has_cross(&self) -> bool {
        self.cross != 0
    }

    /// Whether what may be found follows from the committed tokens alone: no group lags, none is
    /// another input's.
    #[inline]
    pub fn settles_at_once(&self) -> bool {
        !self.lagging && self.cross == 0
    }

    /// The groups that attend to another input.
    pub fn cross_groups(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, cross) = (self.groups.len(), self.cross);
        (0..count).filter(move |&group| cross >> group & 1 == 1)
    }

    /// Entries in the table of `group` for `len` tokens after `encoder` tokens of another input.
    #[inline]
    pub fn table_len(&self, group: usize, len: u32, encoder: u32) -> usize {
        let reach = &self.groups[group];
        let tokens = if reach.kind == GroupKind::Cross { encoder } else { len };
        reach.blocks(tokens) as usize
    }

    /// Blocks in all tables, as [`Layout::table_len`].
    pub fn blocks(&self, len: u32, encoder: u32) -> u64 {
        (0..self.groups.len()).map(|group| self.table_len(group, len, encoder) as u64).sum()
    }

    /// Blocks in the tables of groups that attend to another input of `encoder` tokens.
    pub fn cross_blocks(&self, encoder: u32) -> u64 {
        self.cross_groups().map(|group| u64::from(self.groups[group].blocks(encoder))).sum()
    }

    /// Whether a hit can need `block` of `group`, where the prompt had `prompt` tokens: only such
    /// blocks are worth being found.
    #[inline]
    pub fn is_reachable(&self, group: usize, block: usize, prompt: u32) -> bool {
        self.dense >> group & 1 == 1 || self.serves_some(group, block, prompt)
    }

    /// Whether `block` of `group` serves only hits that end within a prompt of `prompt` tokens, and not where it
    /// parts from others, after `branch` tokens. False if some group says by its `interval` which boundaries stay
    /// findable.
    pub fn is_inner(&self, group: usize, block: usize, prompt: u32, branch: u32) -> bool {
        self.every_boundary
            && !self.groups[group].kind.keeps_all()
            && !self.serves_end(group, block, prompt)
            && !self.serves(group, block, branch.into())
    }

    fn serves_some(&self, group: usize, block: usize, prompt: u32) -> bool {
        let end = (block as u64 + 1) * u64::from(self.groups[group].span);
        // A later boundary needs later blocks, so only the first boundary after the block matters.
        (self.step > 0 && self.serves(group, block, end.next_multiple_of(u64::from(self.step))))
            || self.serves_end(group, block, prompt)
    }

    /// The end of the prompt: for one that goes on, and for the same one again (rule 5).
    fn serves_end(&self, group: usize, block: usize, prompt: u32) -> bool {
        let unit = u64::from(self.unit_tokens());
        let whole = |tokens: u32| u64::from(tokens) / unit * unit;
        self.serves(group, block, whole(prompt))
            || self.serves(group, block, whole(prompt.saturating_sub(1)))
    }

    fn serves(&self, group: usize, block: usize, at: u64) -> bool {
        let reach = &self.groups[group];
        let end = (block as u64 + 1) * u64::from(reach.span);
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        u64::from(at) >= end && reach.keeps(block as u32, at)
    }
}
