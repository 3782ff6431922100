//! Times of rows: what unit they are in, and what they are in milliseconds.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The unit of a JSONL trace's `timestamp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeUnit {
    /// Of rows in Mooncake's form.
    #[default]
    Milliseconds,
    /// Of rows in the form of Qwen-Bailian's traces, which name `chat_id` and `parent_chat_id`.
    Seconds,
    /// Where the caller says so.
    Microseconds,
    /// Where the caller says so.
    Nanoseconds,
}

const UNITS: [TimeUnit; 4] =
    [TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Microseconds, TimeUnit::Nanoseconds];

impl TimeUnit {
    /// `"ms"`, `"s"`, `"us"` or `"ns"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    /// The unit of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        UNITS.into_iter().find(|unit| unit.name() == name)
    }

    /// A time in milliseconds as it reads in this unit.
    pub(crate) fn shown(self, millis: i64) -> String {
        match self {
            Self::Milliseconds => millis.to_string(),
            Self::Seconds => (millis as f64 / 1_000.0).to_string(),
            Self::Microseconds => (millis as f64 * 1e3).to_string(),
            Self::Nanoseconds => (millis as f64 * 1e6).to_string(),
        }
    }
}

/// A `timestamp` as a row has it: any number that is a time in milliseconds.
#[derive(Clone, Copy)]
pub(crate) enum Stamp {
    Whole(i64),
    Fraction(f64),
}

impl Stamp {
    /// `None` if the time in milliseconds does not fit into 64 bits.
    pub fn from_f64(value: f64) -> Option<Self> {
        rounded(value).map(|_| Self::Fraction(value))
    }

    /// In milliseconds, the fraction rounded; `None`: 64 bits do not hold it.
    pub fn millis(self, unit: TimeUnit) -> Option<i64> {
        match (self, unit) {
            (Self::Whole(value), TimeUnit::Milliseconds) => Some(value),
            (Self::Whole(value), TimeUnit::Seconds) => value.checked_mul(1_000),
            (Self::Fraction(value), TimeUnit::Milliseconds) => rounded(value),
            (Self::Fraction(value), TimeUnit::Seconds) => rounded(value * 1_000.0),
            (Self::Whole(value), TimeUnit::Microseconds) => Some(value.div_euclid(1_000)),
            (Self::Fraction(value), TimeUnit::Microseconds) => rounded(value / 1e3),
            (Self::Whole(value), TimeUnit::Nanoseconds) => Some(value.div_euclid(1_000_000)),
            (Self::Fraction(value), TimeUnit::Nanoseconds) => rounded(value / 1e6),
        }
    }

    /// Whether it is no whole number.
    pub fn has_fraction(self) -> bool {
        matches!(self, Self::Fraction(value) if value.fract() != 0.0)
    }
}

fn rounded(value: f64) -> Option<i64> {
    let rounded = value.round();
    // -2^63 is an f64 and 2^63 the first one past the end.
    let limit = -(i64::MIN as f64);
    (rounded >= -limit && rounded < limit).then_some(rounded as i64)
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StampVisitor;
        impl Visitor<'_> for StampVisitor {
            type Value = Stamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Stamp, E> {
                Ok(Stamp::Whole(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Stamp, E> {
                i64::try_from(value).map(Stamp::Whole).map_err(E::custom)
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Stamp, E> {
                Stamp::from_f64(value).ok_or_else(|| E::custom("out of range"))
            }
        }
        deserializer.deserialize_any(StampVisitor)
    }
}
