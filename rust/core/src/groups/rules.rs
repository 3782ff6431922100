//! Which groups can be, and go together.

use super::layout::lcm;
use super::{Group, GroupKind};
use crate::options::{Fault, MAX_BLOCK_SIZE};

/// The most tokens a hit may be a multiple of.
pub(super) const MAX_UNIT: u64 = 1 << 31;

/// Adds what is wrong with `groups` over blocks of `unit` tokens to `faults`.
pub fn check(groups: &[Group], unit: u32, faults: &mut Vec<Fault>) {
    let before = faults.len();
    if groups.iter().all(|group| group.kind == GroupKind::Cross) {
        faults.push(Fault::missing("groups", "at least one group must not be kind = \"cross\""));
    }
    for (at, group) in groups.iter().enumerate() {
        faults.extend(group.faults(unit).map(|fault| Fault { group: Some(at), ..fault }));
    }
    if faults.len() == before {
        check_together(groups, u64::from(unit), faults);
    }
}

/// Adds the faults that show only when all groups are looked at together.
fn check_together(groups: &[Group], unit: u64, faults: &mut Vec<Fault>) {
    let limit = || format!("sizes and intervals have a common multiple above {MAX_UNIT} tokens");
    let mut shared = unit;
    for (at, group) in groups.iter().enumerate() {
        if group.kind != GroupKind::Cross {
            shared = lcm(shared, unit * u64::from(group.units));
        }
        if shared > MAX_UNIT {
            let size = unit * u64::from(group.units);
            faults.push(Fault::of_group("block_size", at, &size, limit()));
            return;
        }
    }
    let mut step = shared;
    for (at, group) in groups.iter().enumerate() {
        let Some(interval) = group.interval else { continue };
        if !u64::from(interval).is_multiple_of(shared) {
            let limit = format!(
                "must be 0 or a multiple of {shared} tokens, the unit all groups can serve"
            );
            faults.push(Fault::of_group("interval", at, &interval, limit));
        } else if interval > 0 {
            step = lcm(step, u64::from(interval));
        }
        if step > MAX_UNIT {
            faults.push(Fault::of_group("interval", at, &interval, limit()));
            return;
        }
    }
}

impl Group {
    /// What no sequence could live with; `unit` is the tokens of a block of the pool.
    fn faults(&self, unit: u32) -> impl Iterator<Item = Fault> + use<> {
        let name = self.kind.name();
        let span = u64::from(self.units) * u64::from(unit);
        let size = (span == 0 || span > u64::from(MAX_BLOCK_SIZE)).then(|| {
            let limit = format!("must be between 1 and {MAX_BLOCK_SIZE}");
            Fault::new("block_size", &span, limit)
        });
        let interval = self.interval.filter(|_| self.kind.keeps_all()).map(|interval| {
            Fault::new("interval", &interval, format!("a {name} group gives up no blocks"))
        });
        let looks_back = !matches!(self.kind, GroupKind::Cross | GroupKind::State);
        let lag = (self.lag > 0 && !looks_back).then(|| {
            Fault::new("lag", &self.lag, format!("a {name} group does not attend to tokens"))
        });
        self.kind.fault().into_iter().chain(size).chain(interval).chain(lag)
    }
}

/// A group as a configuration says it: a key may be missing, or be of another kind of group.
#[derive(Debug, Clone, Default)]
pub struct GroupTable {
    /// How its layers look back, see [`GroupKind::NAMES`].
    pub kind: String,
    /// Tokens of its window.
    pub window: Option<u32>,
    /// Tokens of its chunk.
    pub chunk: Option<u32>,
    /// Tokens of its sink.
    pub sink: Option<u32>,
    /// Tokens of its blocks; those of the pool's if none.
    pub block_size: Option<u32>,
    /// See [`Group::lag`].
    pub lag: u32,
    /// See [`Group::interval`].
    pub interval: Option<u32>,
}

impl GroupTable {
    /// The group; what is wrong with its keys is added to `faults`. `at` is its number, and `unit` the
    /// tokens of a block of the pool.
    pub fn group(&self, at: usize, unit: u32, faults: &mut Vec<Fault>) -> Group {
        let kinds: [(&'static str, Option<u32>, &[&str]); 3] = [
            ("window", self.window, &["sliding_window", "sink_window"]),
            ("chunk", self.chunk, &["chunked"]),
            ("sink", self.sink, &["sink_window"]),
        ];
        let name = if self.kind.is_empty() { "full" } else { &self.kind };
        let before = faults.len();
        for (key, value, of) in kinds {
            match value {
                None if of.contains(&name) => {
                    let limit = format!("missing; a {name} group needs it, in tokens");
                    faults.push(Fault { group: Some(at), ..Fault::missing(key, limit) });
                }
                Some(value) if !of.contains(&name) => {
                    let of = of.iter().map(|kind| format!("kind = \"{kind}\""));
                    let limit = format!("only valid with {}", of.collect::<Vec<_>>().join(" or "));
                    faults.push(Fault::of_group(key, at, &value, limit));
                }
                _ => {}
            }
        }
        let size = self.block_size.unwrap_or(unit);
        if unit == 0 || !size.is_multiple_of(unit) {
            let limit = format!("must be a multiple of cache.block_size = {unit}");
            faults.push(Fault::of_group("block_size", at, &size, limit));
        }
        if faults.len() > before {
            return GroupKind::Full.into();
        }
        let of = Option::unwrap_or_default;
        let kind = match name {
            "sliding_window" => GroupKind::SlidingWindow { window: of(self.window) },
            "chunked" => GroupKind::Chunked { chunk: of(self.chunk) },
            "sink_window" => GroupKind::SinkWindow { sink: of(self.sink), window: of(self.window) },
            "state" => GroupKind::State,
            "cross" => GroupKind::Cross,
            _ => GroupKind::Full,
        };
        Group { kind, units: size / unit, lag: self.lag, interval: self.interval }
    }
}
