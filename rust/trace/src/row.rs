//! One JSONL row, parsed into numbers without a tree of values: the fast path, which only says yes or no.
//!
//! What is wrong with a row it refuses, `explain` finds out.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::session::SessionName;

/// The keys a row must have.
pub(crate) const REQUIRED: [&str; 4] = ["timestamp", "input_length", "output_length", "hash_ids"];
/// The keys a row may have; every other key is ignored.
pub(crate) const OPTIONAL: [&str; 2] = ["block_size", "session_id"];

/// A row without its ids.
pub(crate) struct Row {
    pub timestamp_ms: i64,
    pub input_length: u32,
    pub output_length: u32,
    pub block_size: Option<u32>,
    pub session: SessionName,
}

impl Row {
    /// Parses one line; the ids go to `ids`, a buffer that is reused. `None`: not a row.
    pub fn parse(line: &str, ids: &mut Vec<u64>) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_str(line);
        let row = RowSeed { ids }.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(row)
    }
}

/// A time in milliseconds, the fraction rounded.
#[derive(Clone, Copy)]
pub(crate) struct Millis(pub i64);

impl Millis {
    /// `None`: not a time that 64 bits hold.
    pub fn from_f64(value: f64) -> Option<Self> {
        let rounded = value.round();
        // -2^63 is an f64 and 2^63 the first one past the end.
        let limit = -(i64::MIN as f64);
        (rounded >= -limit && rounded < limit).then_some(Self(rounded as i64))
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MillisVisitor;
        impl Visitor<'_> for MillisVisitor {
            type Value = Millis;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of milliseconds")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Millis, E> {
                Ok(Millis(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Millis, E> {
                i64::try_from(value).map(Millis).map_err(E::custom)
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Millis, E> {
                Millis::from_f64(value).ok_or_else(|| E::custom("out of range"))
            }
        }
        deserializer.deserialize_any(MillisVisitor)
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
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Row;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Row, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Row;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let (mut timestamp, mut input, mut output) = (None, None, None);
        let (mut block_size, mut session, mut has_ids) = (None, SessionName::None, false);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Timestamp => timestamp = Some(map.next_value::<Millis>()?.0),
                Key::InputLength => input = Some(map.next_value()?),
                Key::OutputLength => output = Some(map.next_value()?),
                Key::HashIds => {
                    map.next_value_seed(IdsSeed { ids: &mut *self.ids })?;
                    has_ids = true;
                }
                Key::BlockSize => block_size = map.next_value()?,
                Key::SessionId => session = map.next_value()?,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !has_ids {
            return Err(Error::missing_field("hash_ids"));
        }
        Ok(Row {
            timestamp_ms: timestamp.ok_or_else(|| Error::missing_field("timestamp"))?,
            input_length: input.ok_or_else(|| Error::missing_field("input_length"))?,
            output_length: output.ok_or_else(|| Error::missing_field("output_length"))?,
            block_size,
            session,
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
