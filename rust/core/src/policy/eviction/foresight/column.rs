//! What is known of a block: where it stands, how often it was used and when last.

use super::ROOM;
use crate::pool::{BlockId, NIL};

/// Greatest time that is told apart; later ones count as this.
pub(super) const LATEST: u64 = (1 << 38) - 1;
/// Uses of a block are counted up to this.
pub(super) const MOST_USES: u8 = 15;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It has an owner, or is not known.
    Out,
    /// In its list.
    Listed,
    /// It came first in its list, while what follows it was still there.
    Parked,
}

/// What is known of a block, in 16 bytes. Its neighbours mean something while it is listed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub before: BlockId,
    pub after: BlockId,
    /// From the lowest bit: block accesses when it was used last (38 bits), class (6), uses (4), place (2),
    /// whether an allocation found it (1), whether its waits are counted (1), none (4), band (8).
    pub word: u64,
}

pub(super) const EMPTY: Column = Column { before: NIL, after: NIL, word: 0 };
const CLASS: u32 = 38;
const USES: u32 = 44;
const PLACE: u32 = 48;
pub(super) const FOUND: u64 = 1 << 50;
pub(super) const COUNTED: u64 = 1 << 51;
pub(super) const BAND: u32 = 56;
pub(super) const IN_CLASS: u64 = (ROOM as u64 - 1) << CLASS;
const IN_BAND: u64 = 0xff << BAND;
const IN_PLACE: u64 = 3 << PLACE;
pub(super) const LISTED: u64 = (Place::Listed as u64) << PLACE;
pub(super) const PARKED: u64 = (Place::Parked as u64) << PLACE;
/// Where a block stands, nothing while it is out: its place, and the band of its list.
pub(super) const STANDS: u64 = IN_BAND | IN_PLACE;

/// When blocks were used last, their class and how often they were used, as it stands in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct History(u64);

impl History {
    pub const ALL: u64 = (1 << PLACE) - 1;

    /// Of blocks of `class` that are used at `time`, for the `uses`-th time.
    #[inline]
    pub fn new(class: u8, uses: u8, time: u64) -> Self {
        Self(time | u64::from(class) << CLASS | u64::from(uses) << USES)
    }

    /// That in the lowest 48 bits of a word.
    pub fn of_word(word: u64) -> Self {
        Self(word & Self::ALL)
    }

    /// 48 bits.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    pub fn time(self) -> u64 {
        self.0 & LATEST
    }

    pub fn class(self) -> u8 {
        (self.0 >> CLASS) as u8 & (ROOM - 1) as u8
    }

    pub fn uses(self) -> u8 {
        (self.0 >> USES) as u8 & MOST_USES
    }
}

impl Column {
    #[inline]
    pub fn history(&self) -> History {
        History::of_word(self.word)
    }

    pub fn class(&self) -> u8 {
        self.history().class()
    }

    pub fn band(&self) -> u8 {
        (self.word >> BAND) as u8
    }

    /// Whether its waits are counted.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.word & COUNTED > 0
    }

    /// Whether an allocation found it since it became findable.
    pub fn is_found(&self) -> bool {
        self.word & FOUND > 0
    }

    #[inline]
    pub fn is_listed(&self) -> bool {
        self.word & IN_PLACE == LISTED
    }

    #[inline]
    pub fn place(&self) -> Place {
        match (self.word >> PLACE) & 3 {
            0 => Place::Out,
            1 => Place::Listed,
            _ => Place::Parked,
        }
    }

    /// It stands in a list of the band of this priority.
    #[inline]
    pub fn enlist(&mut self, before: BlockId, after: BlockId, priority: u8) {
        (self.before, self.after) = (before, after);
        self.word = (self.word & !STANDS) | u64::from(priority) << BAND | LISTED;
    }
}
