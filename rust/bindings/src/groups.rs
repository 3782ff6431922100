//! Layer groups as tables, and what a sequence sees of one. An `impl` of `Manager`.

use kvframe_core::groups::GroupTable;
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

/// The keys of the group at `place`, in the types that they have.
pub fn group_table(
    py: Python<'_>,
    place: usize,
    table: &Bound<'_, PyDict>,
) -> PyResult<GroupTable> {
    let path = format!("groups[{place}]");
    let names = table.keys().iter().map(|key| key.to_string()).collect::<Vec<_>>();
    options::check(py, &path, "a group", &names, &KEYS)?;
    let number = |key: &str| -> PyResult<Option<u32>> {
        let value = table.get_item(key)?.filter(|value| !value.is_none());
        value.map(|value| options::number(&format!("{path}.{key}"), &value)).transpose()
    };
    Ok(GroupTable {
        kind: kind_of(py, &path, table)?,
        window: number("window")?,
        chunk: number("chunk")?,
        sink: number("sink")?,
        block_size: number("block_size")?,
        lag: number("lag")?.unwrap_or_default(),
        interval: number("interval")?,
    })
}

fn kind_of(py: Python<'_>, path: &str, table: &Bound<'_, PyDict>) -> PyResult<String> {
    let known = GroupKind::NAMES;
    let Some(given) = table.get_item("kind")? else { return Ok("full".into()) };
    let name = given.extract::<String>().unwrap_or_default();
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    let (shown, near) = match name.as_str() {
        "" => (shown(&given), String::new()),
        _ => (format!("{name:?}"), options::did_you_mean(py, &name, &known)?),
    };
    let message = format!("{path}.kind = {shown}: must be one of {}{near}", known.join(", "));
    Err(raise(py, "ConfigError", message))
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
    fn visible_range(&self, py: Python<'_>, seq: Seq, group: GroupNumber) -> PyResult<SightTuple> {
        let sight = self.with(py, |core| core.visible_range(seq.0, group.0))?;
        let pairs = |ranges: Vec<std::ops::Range<u32>>| {
            ranges.into_iter().map(|range| (range.start, range.end)).collect()
        };
        Ok((pairs(sight.visible), pairs(sight.masked), sight.blocks))
    }
}
