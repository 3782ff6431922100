//! Reading the compact form.

use std::str::{FromStr, Split};

use crate::build::{Builder, Head};
use crate::compact::{Header, MAGIC, VERSION};
use crate::error::TraceError;
use crate::forest::NO_SESSION;
use crate::lines::Lines;

const COLUMNS: usize = 7;

/// Reads header and rows into `builder`.
pub(crate) fn read(lines: &mut Lines<'_>, builder: &mut Builder<'_>) -> Result<(), TraceError> {
    let path = lines.path;
    let mut expected = 0;
    if let Some((number, line)) = lines.next()? {
        let at = |what| TraceError::at(path, number, what);
        let header = parse_header(line).map_err(at)?;
        builder.row_block_size(Some(header.block_size)).map_err(at)?;
        expected = header.requests;
        builder.trace.name = header.name;
        builder.trace.source = header.source;
        builder.trace.licence = header.licence;
    }
    let mut sessions = 0;
    while let Some((number, line)) = lines.next()? {
        push(builder, line, &mut sessions).map_err(|what| TraceError::at(path, number, what))?;
    }
    // The form does not keep session names, so each session is known by its order of appearance.
    builder.trace.sessions = (1..=u64::from(sessions)).collect();
    let found = builder.trace.requests.len() as u64;
    if found != expected {
        return Err(lines.error(format!(
            "the file ends with {found} requests, but its header says {expected}"
        )));
    }
    if found == 0 {
        return Err(lines.error("no requests: only a header"));
    }
    Ok(())
}

fn parse_header(line: &str) -> Result<Header, String> {
    let rest = line.strip_prefix(MAGIC).unwrap_or(line);
    let (version, json) = rest.split_once(' ').unwrap_or((rest, ""));
    if version != VERSION.to_string() {
        let version: String = version.chars().take(20).collect();
        return Err(format!(
            "compact trace of version {version:?}: this kvframe reads version {VERSION}"
        ));
    }
    serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        format!("damaged header: {}", text.split(" at line ").next().unwrap_or(&text))
    })
}

fn push(builder: &mut Builder<'_>, line: &str, sessions: &mut u32) -> Result<(), String> {
    let found = line.split(',').count();
    if found != COLUMNS {
        return Err(format!("{found} columns: a row has {COLUMNS}"));
    }
    let mut columns = line.split(',');
    let session = optional(&mut columns, "session")?.unwrap_or(NO_SESSION);
    let delta: i128 = number(&mut columns, "timestamp_ms")?;
    let input_tokens = number(&mut columns, "input")?;
    let output_tokens = number(&mut columns, "output")?;
    let parent: Option<usize> = optional(&mut columns, "parent_row")?;
    let shared: usize = number(&mut columns, "shared_blocks")?;
    let new: usize = number(&mut columns, "new_blocks")?;

    if session != NO_SESSION && session > *sessions {
        return Err(format!("session = {session}: the next new session is {sessions}"));
    }
    *sessions += u32::from(session == *sessions);

    let requests = &builder.trace.requests;
    let above = requests.last().map_or(0, |request| i128::from(request.timestamp_ms));
    let timestamp_ms = above
        .checked_add(delta)
        .and_then(|sum| i64::try_from(sum).ok())
        .ok_or_else(|| format!("timestamp_ms = {delta}: {above} + {delta} does not fit 64 bits"))?;
    let available = match parent {
        None => 0,
        Some(row) => {
            let of = requests.get(row);
            of.ok_or_else(|| format!("parent_row = {row}: only {} rows are above", requests.len()))?
                .blocks as usize
        }
    };
    if shared > available {
        return Err(format!("shared_blocks = {shared}: the parent row has {available}"));
    }
    let head = Head { timestamp_ms, input_tokens, output_tokens, session, class: 0 };
    builder.push_shared(&head, parent.unwrap_or(0), shared, new)
}

fn optional<T: FromStr>(columns: &mut Split<'_, char>, name: &str) -> Result<Option<T>, String> {
    match columns.next() {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| refused(text, name)),
    }
}

fn number<T: FromStr>(columns: &mut Split<'_, char>, name: &str) -> Result<T, String> {
    optional(columns, name)?.ok_or_else(|| refused("", name))
}

fn refused(text: &str, name: &str) -> String {
    let text: String = text.chars().take(40).collect();
    format!("{name} = {text:?}: must be an integer that its column holds")
}
