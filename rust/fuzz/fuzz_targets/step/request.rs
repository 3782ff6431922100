//! A request with what it borrows.

use kvframe_core::hash::{MmItem, Space};
use kvframe_core::retention::{self, Decay, Retention, TokenRange};
use kvframe_core::sequence::Meta;
use kvframe_core::{Admission, Fit, Key, Manager, Prompt};

use crate::verbs::{Keep, Request};

pub struct Owned<'a> {
    asked: &'a Request,
    size: u32,
    tokens: Vec<u32>,
    mm_items: Vec<MmItem>,
    keys: Vec<Key>,
    next_use: Vec<u32>,
    retention: Option<Retention>,
}

/// Priorities over 100 are refused.
pub fn keep_of(asked: &Keep) -> retention::Keep {
    retention::Keep {
        priority: asked.priority / 2,
        duration: asked.duration.map(u64::from),
        then: asked.then / 2,
        decay: if asked.linear { Decay::Linear } else { Decay::Step },
    }
}

fn retention_of(asked: &Keep) -> Retention {
    let keep = keep_of(asked);
    let ranges = vec![TokenRange { start: 0, end: asked.end.into(), keep }];
    Retention { ranges, decode: asked.linear.then_some(keep) }
}

/// Tokens of a vocabulary of three.
pub fn tokens(bytes: &[u8]) -> Vec<u32> {
    bytes.iter().map(|&b| u32::from(b % 3)).collect()
}

impl<'a> Owned<'a> {
    pub fn new(m: &Manager, asked: &'a Request) -> Self {
        let item = asked.item.map(|(start, len)| MmItem {
            start: start.into(),
            end: u32::from(start) + u32::from(len) + 1,
            id: vec![start % 2],
        });
        let mut owned = Self {
            asked,
            size: m.options().block_size,
            tokens: tokens(&asked.tokens),
            mm_items: item.into_iter().collect(),
            keys: Vec::new(),
            next_use: asked.next_use.iter().map(|&o| o.into()).collect(),
            retention: asked.keep.as_ref().map(retention_of),
        };
        if asked.only_keys {
            owned.keys = m.keys(&owned.tokens, owned.space(), &owned.mm_items);
        }
        owned
    }

    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    pub fn mm_items(&self) -> &[MmItem] {
        &self.mm_items
    }

    pub fn space(&self) -> Space<'static> {
        Space {
            cache_salt: if self.asked.cache_salt { b"salt" } else { b"" },
            lora_name: if self.asked.lora_name { b"lora" } else { b"" },
            ..Space::default()
        }
    }

    pub fn admission(&self) -> Admission<'_> {
        let asked = self.asked;
        let len = self.tokens.len() as u32;
        let prompt = if asked.only_keys {
            Prompt { keys: &self.keys, len, tokens: &[] }
        } else {
            Prompt { tokens: &self.tokens, keys: &[], len: 0 }
        };
        // Mostly whole blocks: nothing else is taken.
        let num_external_tokens = u32::from(asked.num_external_tokens % 4) * self.size
            + u32::from(asked.num_external_tokens / 250);
        Admission {
            prompt,
            space: self.space(),
            mm_items: &self.mm_items,
            read_cache: !asked.unread,
            write_cache: !asked.uninserted,
            resumed: asked.resumed,
            fit: if asked.partial { Fit::Partial } else { Fit::Whole },
            chunk: asked.chunk.map_or(u32::MAX, u32::from),
            until: asked.until.map_or(u32::MAX, u32::from),
            max_seq_len: asked.max_seq_len.into(),
            num_external_tokens,
            full_sequence_must_fit: asked.full_sequence_must_fit,
            join: asked.join,
            next_use: &self.next_use,
            meta: Meta { session: (asked.session % 4).into(), ..Meta::default() },
            retention: self.retention.as_ref(),
            ..Admission::default()
        }
    }
}
