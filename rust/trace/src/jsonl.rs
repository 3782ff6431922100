//! Mooncake JSONL: one object a line, with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`,
//! and optionally `block_size`, `session_id` and `type`. Every other key is ignored. Rows that name `chat_id`
//! and `parent_chat_id` are in Qwen-Bailian's form: it has the same keys, but times in seconds, and a chat
//! belongs to the session of its parent.

use crate::build::{Builder, Head};
use crate::error::TraceError;
use crate::explain::explain;
use crate::lines::Lines;
use crate::row::{Ids, TraceRow};
use crate::session::{SessionName, Sessions};
use crate::time::TimeUnit;

const MIXED: &str = "rows with chat_id and parent_chat_id have their times in seconds, others in milliseconds, and the \
                     rows above are of the other form: give the time unit";
const CLASH: &str = "hash_ids of this trace are negative in some rows and 2^63 or more in others: they must be signed \
                     or unsigned 64-bit integers throughout";
const TOO_LATE: &str = "timestamp: must be a number of seconds that 64 bits hold in milliseconds";

/// Reads every row into `builder`.
pub(crate) fn read(lines: &mut Lines<'_>, builder: &mut Builder<'_>) -> Result<(), TraceError> {
    let (path, given) = (lines.path, builder.time_unit);
    let mut form = None;
    let mut ids = Ids::default();
    let mut sessions = Sessions::default();
    while let Some((number, line)) = lines.next()? {
        let at = |what| TraceError::at(path, number, what);
        let row = TraceRow::parse(line, &mut ids).ok_or_else(|| at(explain(line)))?;
        builder.row_block_size(row.block_size).map_err(at)?;
        let own = if row.chat.is_some() { TimeUnit::Seconds } else { TimeUnit::Milliseconds };
        let unit = given.unwrap_or(own);
        if given.is_none() && *form.get_or_insert(own) != own {
            return Err(at(MIXED.to_owned()));
        }
        builder.time_of(unit, given.is_none(), row.timestamp);
        if ids.negative && ids.high {
            return Err(at(CLASH.to_owned()));
        }
        let session = match row.chat {
            Some((chat, parent)) if row.session == SessionName::None => {
                sessions.of_chat(chat, &parent)
            }
            _ => sessions.number(row.session),
        };
        let class = if row.class.0.is_empty() { 0 } else { builder.class(&row.class.0) };
        let head = Head {
            timestamp_ms: row.timestamp.millis(unit).ok_or_else(|| at(TOO_LATE.to_owned()))?,
            input_tokens: row.input_length,
            output_tokens: row.output_length,
            session,
            class,
        };
        builder.push_raw(&head, &ids.raw).map_err(at)?;
    }
    builder.trace.sessions = sessions.ids;
    Ok(())
}

#[cfg(test)]
#[path = "jsonl_tests.rs"]
mod tests;
