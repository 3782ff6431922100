//! Mooncake JSONL: one object a line with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`; `block_size`
//! and `session_id` if there, every other key ignored.

use crate::build::{Builder, Head};
use crate::error::TraceError;
use crate::explain::explain;
use crate::lines::Lines;
use crate::row::Row;
use crate::session::Sessions;

/// Reads every row into `builder`.
pub(crate) fn read(lines: &mut Lines<'_>, builder: &mut Builder) -> Result<(), TraceError> {
    let path = lines.path;
    let mut ids = Vec::new();
    let mut sessions = Sessions::default();
    while let Some((number, line)) = lines.next()? {
        let at = |what| TraceError::at(path, number, what);
        let row = Row::parse(line, &mut ids).ok_or_else(|| at(explain(line)))?;
        builder.row_block_size(row.block_size).map_err(at)?;
        let head = Head {
            timestamp_ms: row.timestamp_ms,
            input_tokens: row.input_length,
            output_tokens: row.output_length,
            session: sessions.number(row.session),
        };
        builder.push_raw(&head, &ids).map_err(at)?;
    }
    builder.trace.sessions = sessions.ids;
    Ok(())
}

#[cfg(test)]
#[path = "jsonl_tests.rs"]
mod tests;
