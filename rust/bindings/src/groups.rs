//! Layer groups as tables, and what a sequence sees of one. An `impl` of `Manager`.

use kvframe_core::{Group, GroupKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::{Group as GroupNumber, Seq};
use crate::errors::{raise, shown};
use crate::manager::Manager;
use crate::options;

/// (ranges of tokens seen, ranges kept and not seen, blocks kept)
type SightTuple = (Vec<(u32, u32)>, Vec<(u32, u32)>, u32);

/// What a group's table may say.
const KEYS: [&str; 7] = ["kind", "block_size", "window", "chunk", "sink", "lag", "interval"];

const KINDS: [&str; 6] = ["full", "sliding_window", "chunked", "sink_window", "state", "cross"];

/// The group that a table describes, the one at `place`; `block_size` is the unit.
pub fn group_of(
    py: Python<'_>,
    place: usize,
    table: &Bound<'_, PyDict>,
    block_size: u32,
) -> PyResult<Group> {
    let path = format!("groups[{place}]");
    let wrong = |message: String| raise(py, "ConfigError", format!("{path}.{message}"));
    let names = table.keys().iter().map(|key| key.to_string()).collect::<Vec<_>>();
    options::check(py, &path, "a group", &names, &KEYS)?;
    let number = |key: &str| -> PyResult<Option<u32>> {
        let value = table.get_item(key)?.filter(|value| !value.is_none());
        value.map(|value| options::number(&format!("{path}.{key}"), &value)).transpose()
    };
    let name: Option<String> = match table.get_item("kind")? {
        Some(kind) => Some(kind.extract().map_err(|_| {
            wrong(format!("kind = {}: must be one of {}", shown(&kind), KINDS.join(", ")))
        })?),
        None => None,
    };
    let of = |key| number(key).map(Option::unwrap_or_default);
    let kind = match name.as_deref().unwrap_or("full") {
        "full" => GroupKind::Full,
        "sliding_window" => GroupKind::SlidingWindow { window: of("window")? },
        "chunked" => GroupKind::Chunked { chunk: of("chunk")? },
        "sink_window" => GroupKind::SinkWindow { sink: of("sink")?, window: of("window")? },
        "state" => GroupKind::State,
        "cross" => GroupKind::Cross,
        kind => {
            let near = options::did_you_mean(py, kind, &KINDS)?;
            let known = KINDS.join(", ");
            return Err(wrong(format!("kind = {kind:?}: must be one of {known}{near}")));
        }
    };
    let span = number("block_size")?.unwrap_or(block_size);
    if block_size == 0 || span == 0 || !span.is_multiple_of(block_size) {
        let message = format!("block_size = {span}: must be a multiple of {block_size}");
        return Err(wrong(message));
    }
    let (lag, interval) = (of("lag")?, number("interval")?);
    Ok(Group { kind, units: span / block_size, lag, interval })
}

/// The table that describes a group.
pub fn group_dict<'py>(
    py: Python<'py>,
    group: &Group,
    block_size: u32,
) -> PyResult<Bound<'py, PyDict>> {
    let table = PyDict::new(py);
    table.set_item("kind", group.kind.name())?;
    table.set_item("block_size", group.units * block_size)?;
    match group.kind {
        GroupKind::Full | GroupKind::State | GroupKind::Cross => {}
        GroupKind::SlidingWindow { window } => table.set_item("window", window)?,
        GroupKind::Chunked { chunk } => table.set_item("chunk", chunk)?,
        GroupKind::SinkWindow { sink, window } => {
            table.set_item("sink", sink)?;
            table.set_item("window", window)?;
        }
    }
    if group.lag > 0 {
        table.set_item("lag", group.lag)?;
    }
    if let Some(interval) = group.interval {
        table.set_item("interval", interval)?;
    }
    Ok(table)
}

#[pymethods]
impl Manager {
    /// What the next token of a sequence sees of a group.
    #[pyo3(signature = (seq, group=GroupNumber(0)))]
    fn sight(&self, py: Python<'_>, seq: Seq, group: GroupNumber) -> PyResult<SightTuple> {
        let sight = self.with(py, |core| core.visible_range(seq.0, group.0))?;
        let pairs = |ranges: Vec<std::ops::Range<u32>>| {
            ranges.into_iter().map(|range| (range.start, range.end)).collect()
        };
        Ok((pairs(sight.visible), pairs(sight.masked), sight.blocks))
    }
}
