//! One JSONL row, parsed into numbers without a tree of values: the fast path, which only says yes or no.
//!
//! `explain` finds out what is wrong with a row that this parser refuses.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::session::SessionName;
use crate::time::Stamp;

/// The keys a row must have.
pub(crate) const REQUIRED: [&str; 4] = ["timestamp", "input_length", "output_length", "hash_ids"];
/// The keys a row may have; every other key is ignored.
pub(crate) const OPTIONAL: [&str; 3] = ["block_size", "session_id", "type"];

/// A row without its ids.
pub(crate) struct TraceRow {
    pub timestamp: Stamp,
    pub input_length: u32,
    pub output_length: u32,
    pub block_size: Option<u32>,
    pub session: SessionName,
    /// `chat_id` and `parent_chat_id`, which Qwen-Bailian's traces have.
    pub chat: Option<(SessionName, SessionName)>,
    /// `type`, where it is a text; empty for none.
    pub class: ClassName,
}

impl TraceRow {
    /// Parses one line; the ids go to `ids`, a buffer that is reused. `None`: not a row.
    pub fn parse(line: &str, ids: &mut Ids) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(line);
        let row = RowSeed { ids }.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(row)
    }
}

/// The ids of a row, in a buffer that is reused. Negative ones are kept as two's complement.
#[derive(Default)]
pub(crate) struct Ids {
    pub raw: Vec<u64>,
    /// Whether an id of any row was negative.
    pub negative: bool,
    /// Whether an id of any row was 2^63 or more: a negative id would have the same bits.
    pub high: bool,
}

/// The class that a row's `type` names.
#[derive(Default)]
pub(crate) struct ClassName(pub String);

impl<'de> Deserialize<'de> for ClassName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Another tool's `type` may be anything; only a text is a class.
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(value.as_str().unwrap_or_default().to_owned()))
    }
}

struct RowSeed<'a> {
    ids: &'a mut Ids,
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
    Type,
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
        let (mut chat, mut parent, mut class) = (None, None, ClassName::default());
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
                Key::ChatId => chat = Some(map.next_value()?),
                Key::ParentChatId => parent = Some(map.next_value()?),
                Key::Type => class = map.next_value()?,
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
            chat: chat.zip(parent),
            class,
        })
    }
}

struct IdsSeed<'a> {
    ids: &'a mut Ids,
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
        self.ids.raw.clear();
        while let Some(Id(id, is_negative)) = seq.next_element()? {
            self.ids.negative |= is_negative;
            self.ids.high |= !is_negative && id > i64::MAX as u64;
            self.ids.raw.push(id);
        }
        Ok(())
    }
}

/// An id, and whether it was negative.
struct Id(u64, bool);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer of 64 bits")
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Id, E> {
                Ok(Id(value, false))
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Id, E> {
                Ok(Id(value as u64, value < 0))
            }
        }
        deserializer.deserialize_u64(IdVisitor)
    }
}
