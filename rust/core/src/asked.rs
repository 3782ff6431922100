//! What each logged allocation asked for: enough to make it again.

use crate::hash::{Key, MmItem};
use crate::manager::Admission;
use crate::retention::Retention;
use crate::sequence::Meta;

/// An [`Admission`] with its parts owned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // each is the allocation's field of that name
pub struct Asked {
    pub tokens: Vec<u32>,
    pub keys: Vec<Key>,
    pub len: u32,
    pub cache_salt: Vec<u8>,
    pub lora_name: Vec<u8>,
    pub encoder: Vec<u8>,
    pub mm_items: Vec<MmItem>,
    pub meta: Meta,
    pub read_cache: bool,
    pub write_cache: bool,
    pub resumed: bool,
    pub partial: bool,
    pub chunk: u32,
    pub until: u32,
    pub max_seq_len: u32,
    pub num_external_tokens: u32,
    pub external_until: u32,
    pub join: bool,
    pub encoder_tokens: u32,
    pub full_sequence_must_fit: bool,
    pub next_use: Vec<u32>,
    pub retention: Option<Retention>,
}

impl From<&Admission<'_>> for Asked {
    fn from(asked: &Admission<'_>) -> Self {
        Self {
            tokens: asked.prompt.tokens.to_vec(),
            keys: asked.prompt.keys.to_vec(),
            len: asked.prompt.len,
            cache_salt: asked.space.cache_salt.to_vec(),
            lora_name: asked.space.lora_name.to_vec(),
            encoder: asked.space.encoder.to_vec(),
            mm_items: asked.mm_items.to_vec(),
            meta: asked.meta,
            read_cache: asked.read_cache,
            write_cache: asked.write_cache,
            resumed: asked.resumed,
            partial: asked.fit == crate::Fit::Partial,
            chunk: asked.chunk.min(asked.budget),
            until: asked.until,
            max_seq_len: asked.max_seq_len,
            num_external_tokens: asked.num_external_tokens,
            external_until: asked.external_until,
            join: asked.join,
            encoder_tokens: asked.encoder_tokens,
            full_sequence_must_fit: asked.full_sequence_must_fit,
            next_use: asked.next_use.to_vec(),
            retention: asked.retention.cloned(),
        }
    }
}
