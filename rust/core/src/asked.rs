//! What each logged admission asked for: enough to make it again.

use crate::hash::{Key, MmItem};
use crate::manager::Admission;
use crate::retention::Retention;
use crate::sequence::Meta;

/// An [`Admission`] with its parts owned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // each is the admission's field of that name
pub struct Asked {
    pub tokens: Vec<u32>,
    pub keys: Vec<Key>,
    pub len: u32,
    pub salt: Vec<u8>,
    pub adapter: Vec<u8>,
    pub encoder: Vec<u8>,
    pub extras: Vec<MmItem>,
    pub meta: Meta,
    pub read: bool,
    pub insert: bool,
    pub resumed: bool,
    pub partial: bool,
    pub chunk: u32,
    pub until: u32,
    pub max_tokens: u32,
    pub external: u32,
    pub external_until: u32,
    pub join: bool,
    pub encoder_tokens: u32,
    pub whole_sequence: bool,
    pub outlook: Vec<u32>,
    pub retention: Option<Retention>,
}

impl From<&Admission<'_>> for Asked {
    fn from(asked: &Admission<'_>) -> Self {
        Self {
            tokens: asked.prompt.tokens.to_vec(),
            keys: asked.prompt.keys.to_vec(),
            len: asked.prompt.len,
            salt: asked.space.salt.to_vec(),
            adapter: asked.space.adapter.to_vec(),
            encoder: asked.space.encoder.to_vec(),
            extras: asked.extras.to_vec(),
            meta: asked.meta,
            read: asked.read,
            insert: asked.insert,
            resumed: asked.resumed,
            partial: asked.fit == crate::Fit::Partial,
            chunk: asked.chunk.min(asked.budget),
            until: asked.until,
            max_tokens: asked.max_tokens,
            external: asked.external,
            external_until: asked.external_until,
            join: asked.join,
            encoder_tokens: asked.encoder_tokens,
            whole_sequence: asked.whole_sequence,
            outlook: asked.outlook.to_vec(),
            retention: asked.retention.cloned(),
        }
    }
}
