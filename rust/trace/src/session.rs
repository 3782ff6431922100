//! Session names: any integer or string, numbered in order of appearance.

use std::fmt;

use hashbrown::HashMap;
use kvframe_core::sequence::session_id;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::forest::NO_SESSION;

/// A session as a row names it. The integer 5 and the string "5" are two sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum SessionName {
    #[default]
    None,
    Integer(i128),
    Text(String),
}

impl<'de> Deserialize<'de> for SessionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = SessionName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer or a string")
            }
            fn visit_unit<E: Error>(self) -> Result<SessionName, E> {
                Ok(SessionName::None)
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<SessionName, E> {
                Ok(SessionName::Integer(value.into()))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<SessionName, E> {
                Ok(SessionName::Integer(value.into()))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<SessionName, E> {
                Ok(SessionName::Text(value.to_owned()))
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}

/// Numbers sessions from 0.
#[derive(Default)]
pub(crate) struct Sessions {
    numbers: HashMap<SessionName, u32>,
    /// As policies know each.
    pub ids: Vec<u64>,
    /// The session of each chat whose parent may be named later.
    chats: HashMap<SessionName, u32>,
}

impl SessionName {
    /// Whether it names a chat, as a parent; -1 does not.
    fn is_chat(&self) -> bool {
        match self {
            Self::None => false,
            Self::Integer(number) => *number >= 0,
            Self::Text(name) => !name.is_empty() && name != "-1",
        }
    }

    /// The number by which policies know the session: the same that an engine passes for that name.
    /// A number that no engine can pass (0 means no session there) is hashed as its text.
    fn id(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Text(name) if name.is_empty() => session_id("\0"),
            Self::Text(name) => session_id(name),
            Self::Integer(number) => match u64::try_from(*number) {
                Ok(id) if id > 0 => id,
                _ => session_id(&number.to_string()),
            },
        }
    }
}

impl Sessions {
    pub fn number(&mut self, name: SessionName) -> u32 {
        if name == SessionName::None {
            return NO_SESSION;
        }
        // One session a request at most, and the number of requests fits u32.
        let next = self.numbers.len() as u32;
        let id = name.id();
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        number
    }

    /// The session of a chat: that of its parent or of a chat that named it as its parent, else a new one.
    pub fn of_chat(&mut self, chat: SessionName, parent: &SessionName) -> u32 {
        let known = self.chats.get(parent).or_else(|| self.chats.get(&chat)).copied();
        let session = known.unwrap_or_else(|| self.number(chat.clone()));
        self.chats.insert(chat, session);
        if parent.is_chat() {
            self.chats.entry(parent.clone()).or_insert(session);
        }
        session
    }
}
