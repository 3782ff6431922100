//! libCacheSim's oracleGeneral: records of 24 bytes, little-endian and packed: u32 time in seconds, u64 object, u32 size,
//! i64 number of the object's next access. The form has no requests and no prefixes: each access becomes a prompt of one block.

use crate::build::{Builder, Head};
use crate::bytes::Fields;
use crate::error::TraceError;
use crate::forest::NO_SESSION;
use crate::lines::Lines;
use crate::time::TimeUnit;

/// Bytes of a record.
pub(crate) const RECORD: usize = 24;
/// The block size in tokens if the caller gives none: an access then counts as one token.
const BLOCK_SIZE: u32 = 1;

/// Reads every record into `builder`.
pub(crate) fn read(lines: &mut Lines<'_>, builder: &mut Builder<'_>) -> Result<(), TraceError> {
    let path = lines.path;
    builder.trace.time_unit = TimeUnit::Seconds;
    if !builder.block_size_given {
        builder.trace.block_size = BLOCK_SIZE;
    }
    let mut record = [0; RECORD];
    while lines.record(&mut record)? {
        let mut fields = Fields(&record);
        let (time, object) = (fields.u32(), fields.u64());
        let head = Head {
            timestamp_ms: i64::from(time) * 1_000,
            input_tokens: builder.trace.block_size,
            output_tokens: 0,
            session: NO_SESSION,
            class: 0,
        };
        let pushed = builder.push_raw(&head, &[object]);
        pushed.map_err(|what| TraceError::at(path, lines.number, what))?;
    }
    if lines.number == 0 {
        return Err(lines.error("no requests: the file is empty"));
    }
    Ok(())
}
