//! What a table of options is made of: values, the types that they become, and the rows of
//! [`super::KEYS`].

use crate::error::{Error, Result};
use crate::hash::HashAlgo;
use crate::index::IndexKind;

/// The value of an option, as one of the types of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// On or off.
    Bool(bool),
    /// A whole number.
    Int(u64),
    /// Any number.
    Float(f64),
    /// A text.
    Text(String),
}

/// A Rust type that the field of an option may have.
pub(super) trait Setting: Sized {
    /// Takes a value.
    ///
    /// # Errors
    /// A [`Wrong`] that says what the value must be.
    fn of(value: &Value) -> std::result::Result<Self, Wrong>;

    /// As a value.
    fn shown(&self) -> Value;
}

/// Why a value is refused: what it must be, or an error of its own.
pub(super) enum Wrong {
    Limit(&'static str),
    Error(Error),
}

impl Setting for bool {
    fn of(value: &Value) -> std::result::Result<Self, Wrong> {
        if let Value::Bool(on) = value {
            Ok(*on)
        } else {
            Err(Wrong::Limit("must be true or false"))
        }
    }

    fn shown(&self) -> Value {
        Value::Bool(*self)
    }
}

impl Setting for u32 {
    fn of(value: &Value) -> std::result::Result<Self, Wrong> {
        let number =
            if let Value::Int(number) = value { Self::try_from(*number).ok() } else { None };
        number.ok_or(Wrong::Limit("must be a whole number between 0 and 4294967295"))
    }

    fn shown(&self) -> Value {
        Value::Int(u64::from(*self))
    }
}

impl Setting for f64 {
    fn of(value: &Value) -> std::result::Result<Self, Wrong> {
        match value {
            Value::Float(number) => Ok(*number),
            Value::Int(number) => Ok(*number as Self),
            _ => Err(Wrong::Limit("must be a number")),
        }
    }

    fn shown(&self) -> Value {
        Value::Float(*self)
    }
}

/// A field of bytes. The configuration has it as a text (UTF-8).
impl Setting for Vec<u8> {
    fn of(value: &Value) -> std::result::Result<Self, Wrong> {
        if let Value::Text(text) = value {
            Ok(text.clone().into_bytes())
        } else {
            Err(Wrong::Limit("must be a text"))
        }
    }

    fn shown(&self) -> Value {
        Value::Text(String::from_utf8_lossy(self).into_owned())
    }
}

/// Implements [`Setting`] for enumerations that a configuration names by a text.
macro_rules! named {
    ($($kind:ty),*) => {$(
        impl Setting for $kind {
            fn of(value: &Value) -> std::result::Result<Self, Wrong> {
                let Value::Text(name) = value else { return Err(Wrong::Limit("must be a text")) };
                <$kind>::from_name(name).map_err(Wrong::Error)
            }

            fn shown(&self) -> Value {
                Value::Text(self.name().into())
            }
        }
    )*};
}

named!(HashAlgo, IndexKind);

/// Ties keys to options: `KEY => NAME, FIELD;`.
macro_rules! keys {
    ($($key:literal => $name:literal, $($field:ident).+;)*) => {
        /// Every key, and the name that its option has in an error.
        pub const KEYS: &[(&str, &str)] = &[$(($key, $name)),*];

        impl Options {
            /// Sets the option of a key; false if there is no such key.
            ///
            /// # Errors
            /// [`Error::Invalid`] or [`Error::UnknownName`]: the option does not accept the value.
            pub fn set(&mut self, key: &str, value: &table::Value) -> Result<bool> {
                match key {
                    $($key => self.$($field).+ = table::taken($name, value)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            /// The name and the value of every option but the groups.
            pub fn values(&self) -> Vec<(&'static str, table::Value)> {
                vec![$(($name, table::Setting::shown(&self.$($field).+))),*]
            }
        }
    };
}

pub(super) use keys;

pub(super) fn taken<T: Setting>(what: &'static str, value: &Value) -> Result<T> {
    T::of(value).map_err(|wrong| match wrong {
        Wrong::Error(error) => error,
        Wrong::Limit(limit) => {
            let value = match value {
                Value::Bool(on) => on.to_string(),
                Value::Int(number) => number.to_string(),
                Value::Float(number) => number.to_string(),
                Value::Text(text) => format!("{text:?}"),
            };
            Error::Invalid { what, value, limit: limit.into() }
        }
    })
}
