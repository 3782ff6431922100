//! Layer groups: how their layers look back, and in blocks of how many tokens.
//!
//! The verbs ask kind-neutral questions: what does a token attend to ([`GroupKind::needs`]), which
//! blocks may go ([`GroupReach::gone`]), how many are there ([`GroupReach::blocks`], [`GroupReach::most`]), and
//! which boundaries can be hit ([`Layout`]). What follows from a kind is said here and nowhere else.

mod kind;
mod layout;
mod peak;
mod reach;

pub use kind::{GroupKind, Needs};
pub use layout::Layout;
pub use peak::Pace;
pub use reach::GroupReach;

use crate::error::{Error, Result};
use crate::options::MAX_BLOCK_SIZE;

/// A layer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// How its layers look back.
    pub kind: GroupKind,
    /// Units of `block_size` tokens that a block of it spans.
    pub units: u32,
    /// Its KV is computed only up to this many tokens behind what is committed (a draft model).
    pub lag: u32,
    /// Which boundaries stay findable: all that can be (`None`), every so many tokens and the end of
    /// the prompt, or (0) the end of the prompt alone.
    pub interval: Option<u32>,
}

impl From<GroupKind> for Group {
    fn from(kind: GroupKind) -> Self {
        Self { kind, units: 1, lag: 0, interval: None }
    }
}

fn invalid(what: &'static str, value: &dyn std::fmt::Display, limit: impl Into<String>) -> Error {
    Error::Invalid { what, value: value.to_string(), limit: limit.into() }
}

impl Group {
    /// Refuses what no sequence could live with; `block_size` is the unit.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the option, the value and the limit.
    pub fn validate(&self, block_size: u32) -> Result<()> {
        self.kind.validate()?;
        let span = u64::from(self.units) * u64::from(block_size);
        if span == 0 || span > u64::from(MAX_BLOCK_SIZE) {
            let limit =
                format!("a group's block spans 1 unit of {block_size} tokens to {MAX_BLOCK_SIZE}");
            return Err(invalid("units", &self.units, limit));
        }
        if self.interval.is_some() && self.kind.keeps_all() {
            let limit = "only a kind that gives blocks up has boundaries to choose";
            return Err(invalid("interval", &self.interval.unwrap_or(0), limit));
        }
        if self.lag > 0 && matches!(self.kind, GroupKind::Cross | GroupKind::State) {
            return Err(invalid("lag", &self.lag, "goes with attention to the sequence's tokens"));
        }
        Ok(())
    }
}
