//! Why a JSONL row was refused, in one line: the slow path, run once a file at most.

use serde_json::{Map, Value};

use crate::row::{OPTIONAL, REQUIRED};
use crate::time::Stamp;

/// What is wrong with a line that [`Row::parse`](crate::row::TraceRow::parse) refused.
pub(crate) fn explain(line: &str) -> String {
    match serde_json::from_str(line) {
        Err(error) => {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or(&text);
            let kind = if error.is_eof() { "truncated JSON" } else { "not JSON" };
            let hint = if line.trim_start().starts_with('{') {
                ""
            } else {
                "; a trace has one JSON object a line"
            };
            format!("{kind}: {text} (column {}){hint}", error.column())
        }
        Ok(Value::Object(row)) => missing(&row)
            .or_else(|| wrong(&row))
            .unwrap_or_else(|| "cannot be read as a request".to_owned()),
        Ok(other) => format!("needs a JSON object a line, got {}", kind(&other)),
    }
}

fn missing(row: &Map<String, Value>) -> Option<String> {
    let key = REQUIRED.into_iter().find(|key| !row.contains_key(*key))?;
    let similar = row
        .keys()
        .filter(|have| !REQUIRED.contains(&have.as_str()) && !OPTIONAL.contains(&have.as_str()))
        .map(|have| (distance(&plain(have), &plain(key)), have))
        .filter(|(distance, _)| *distance <= key.len() / 3)
        .min();
    Some(match similar {
        Some((_, have)) => format!("no {key}; is {} it?", shown(&Value::from(have.as_str()))),
        None => format!("no {key}: a row needs {}", REQUIRED.join(", ")),
    })
}

fn wrong(row: &Map<String, Value>) -> Option<String> {
    row.iter().find_map(|(key, value)| {
        let needs = match key.as_str() {
            "timestamp" if !is_time(value) => {
                "must be a number of milliseconds that 64 bits hold".to_owned()
            }
            "input_length" | "output_length" if !is_u32(value) => {
                format!("must be an integer between 0 and {}", u32::MAX)
            }
            "block_size" if !value.is_null() && !is_u32(value) => {
                format!("must be an integer between 1 and {}", crate::MAX_BLOCK_SIZE)
            }
            "session_id" | "chat_id" | "parent_chat_id" if !is_session(value) => {
                "must be an integer or a string".to_owned()
            }
            "hash_ids" => return wrong_ids(value),
            _ => return None,
        };
        Some(format!("{key} = {}: {needs}", shown(value)))
    })
}

fn wrong_ids(value: &Value) -> Option<String> {
    let Value::Array(ids) = value else {
        return Some(format!("hash_ids = {}: must be a list of integers", shown(value)));
    };
    let (index, id) = ids.iter().enumerate().find(|(_, id)| !id.is_u64() && !id.is_i64())?;
    Some(format!(
        "hash_ids[{index}] = {}: must be an integer between {} and {}",
        shown(id),
        i64::MIN,
        u64::MAX
    ))
}

fn is_time(value: &Value) -> bool {
    value.is_i64() || (value.is_f64() && value.as_f64().and_then(Stamp::from_f64).is_some())
}

fn is_u32(value: &Value) -> bool {
    value.as_u64().is_some_and(|value| u32::try_from(value).is_ok())
}

fn is_session(value: &Value) -> bool {
    value.is_null() || value.is_string() || value.is_i64() || value.is_u64()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value as JSON, cut to what fits a message.
fn shown(value: &Value) -> String {
    const LIMIT: usize = 40;
    let text = value.to_string();
    if text.chars().count() <= LIMIT {
        return text;
    }
    text.chars().take(LIMIT).chain("...".chars()).collect()
}

/// Lower case without separators, so `inputLength` and `input-length` are at distance 0.
fn plain(key: &str) -> String {
    key.chars().filter(|c| c.is_alphanumeric()).take(64).flat_map(char::to_lowercase).collect()
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
