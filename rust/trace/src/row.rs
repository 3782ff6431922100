//! One JSONL row, parsed into numbers without a tree of values: the fast path, which only says yes or no.
//!
//! `explain` finds out what is wrong with a row that this parser refuses.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::session::SessionName;
use crate::time::Stamp;

/// The keys a row must have.
pub(crate) const REQUIRED: [&str; 4] = ["timestamp", "input_length", "output_length", "hash_ids"];
/// The keys a row may have; every other key is ignored.
pub(crate) const OPTIONAL: [&str; 2] = ["block_size", "session_id"];

/// A row without its ids.
pub(crate) struct TraceRow {
    pub timestamp: Stamp,
    pub input_length: u32,
    pub output_length: u32,
    pub block_size: Option<u32>,
    pub session: SessionName,
    /// Whether it names `chat_id` and `parent_chat_id`, as Qwen-Bailian's traces do.
    pub bailian: bool,
}

impl TraceRow {
    /// Parses one line; the ids go to `ids`, a buffer that is reused. `None`: not a row.
    pub fn parse(line: &str, ids: &mut Vec<u64>) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(line);
        let row = RowSeed { ids }.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(row)
    }
}

struct RowSeed<'a> {
    ids: &'a mut Vec<u64>,
}

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Timestamp,
    InputLength,
    OutputLength,
    HashIds,
    BlockSize,
    SessionId,
    ChatId,
    ParentChatId,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = TraceRow;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TraceRow, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = TraceRow;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TraceRow, A::Error> {
        let (mut timestamp, mut input, mut output) = (None, None, None);
        let (mut block_size, mut session, mut has_ids) = (None, SessionName::None, false);
        let (mut chat, mut parent) = (false, false);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Timestamp => timestamp = Some(map.next_value::<Stamp>()?),
                Key::InputLength => input = Some(map.next_value()?),
                Key::OutputLength => output = Some(map.next_value()?),
                Key::HashIds => {
                    map.next_value_seed(IdsSeed { ids: &mut *self.ids })?;
                    has_ids = true;
                }
                Key::BlockSize => block_size = map.next_value()?,
                Key::SessionId => session = map.next_value()?,
                Key::ChatId | Key::ParentChatId => {
                    chat |= matches!(key, Key::ChatId);
                    parent |= matches!(key, Key::ParentChatId);
                    map.next_value::<IgnoredAny>()?;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !has_ids {
            return Err(Error::missing_field("hash_ids"));
        }
        Ok(TraceRow {
            timestamp: timestamp.ok_or_else(|| Error::missing_field("timestamp"))?,
            input_length: input.ok_or_else(|| Error::missing_field("input_length"))?,
            output_length: output.ok_or_else(|| Error::missing_field("output_length"))?,
            block_size,
            session,
            bailian: chat && parent,
        })
    }
}

struct IdsSeed<'a> {
    ids: &'a mut Vec<u64>,
}

impl<'de> DeserializeSeed<'de> for IdsSeed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for IdsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of ids")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.ids.clear();
        while let Some(id) = seq.next_element()? {
            self.ids.push(id);
        }
        Ok(())
    }
}
