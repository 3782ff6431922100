//! Sequences: block tables, lengths, and what is known of the request.

mod mark;
mod session;
mod slots;
mod table;

pub use mark::Mark;
pub use session::session_id;
pub use slots::Sequences;
pub use table::{BlockTable, Tables};

use crate::error::{Error, Result};
use crate::hash::{Key, MmItem, Space};
use crate::manager::Heat;
use crate::retention::Retention;
use crate::stats::Miss;

/// A sequence's handle: slot in the low half, generation in the high half.
pub type SeqId = u64;

/// What policies and statistics may know of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meta {
    /// Conversation or agent session.
    pub session: u64,
    /// Turn within the session.
    pub turn: u32,
    /// Class of the request (API, chat, …), the engine's own numbering.
    pub class: u32,
    /// Larger is more important.
    pub priority: i32,
    /// The number of its tenant: its place in the configuration, from 1; 0 for all that are not there. The
    /// manager sets it.
    pub tenant: u8,
}

/// A live sequence.
// What each decode step reads and writes comes first, so that it costs two cache lines; then what
// publishing a block takes.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub struct Sequence {
    /// Tokens that have slots.
    pub len: u32,
    /// Tokens computed and accepted.
    pub committed: u32,
    /// Tokens found at allocation.
    pub cached: u32,
    /// Blocks at the front of the tables whose publication is settled.
    pub published: u32,
    /// Of the tokens known, those at the end that have slots while their ids are still being computed.
    pub unknown: u32,
    /// Tokens known, where only keys came.
    pub known: u32,
    /// The tick of its last commit, touch or allocation.
    pub used: u64,
    /// Whether its blocks are published no more: after a collision, or with `write_cache = false`.
    pub private: bool,
    /// Whether the request looked for cached blocks.
    pub read_cache: bool,
    /// Whether the request lets its blocks be found.
    pub write_cache: bool,
    /// Whether it came in because all of `max_seq_len` could be had.
    pub full_sequence_must_fit: bool,
    /// Prompt and answer together, where that is known: it gets no slots past it. 0: it is not.
    pub max_seq_len: u32,
    /// Tokens known: the prompt and what was appended. Empty if the request came as keys.
    pub tokens: Vec<u32>,
    /// Block table of each group.
    pub tables: Tables,
    /// Keys of full blocks of known tokens, as far as they have been needed.
    pub keys: Vec<Key>,
    /// Multimodal items.
    pub mm_items: Vec<MmItem>,
    /// When each block is used next, where that is known.
    pub next_use: Vec<u32>,
    /// Blocks at the front of which an admission policy was notified.
    pub sighted: u32,
    /// Blocks at the front after which an admission policy dropped one: the rest is not asked for.
    pub closed: Option<u32>,
    /// Tokens of the prompt.
    pub prompt: u32,
    /// Tokens of it that groups of full attention could have served: there it parts from what came before.
    pub branch: u32,
    /// Link of block 0.
    pub root: Key,
    /// The request.
    pub meta: Meta,
    /// What it cost.
    pub usage: Usage,
    /// What `root` was chained from.
    pub tenant: Vec<u8>,
    /// As `tenant`.
    pub cache_salt: Vec<u8>,
    /// As `tenant`.
    pub lora_name: Vec<u8>,
    /// See [`Space::public`].
    pub public: u32,
    /// Content id of the other input that it attends to; if it is empty, that input's blocks are
    /// not shared.
    pub encoder: Vec<u8>,
    /// Tokens of that input.
    pub encoder_tokens: u32,
    /// Whether the publication of that input's blocks is settled.
    pub encoder_published: bool,
    /// Tokens that windows were told are computed, where they are committed ahead.
    pub passed: u32,
    /// Whether a reset of its adapter, salt or session has applied to it: what it has must be forgotten.
    pub disowned: bool,
    /// The end of what a load brings: computed elsewhere, over another copy of that input.
    pub brought: u32,
    /// The tick of its allocation.
    pub allocated: u64,
    /// The number of tokens in a step of its prompt; `u32::MAX` if the request has no chunk.
    pub chunk: u32,
    /// How often it was touched.
    pub heat: Heat,
    /// The ticket of the computation it joined, while that goes on; 0 otherwise.
    pub joined: u64,
    /// Why no more of its prompt was found.
    pub miss: Miss,
    /// How important its blocks are to be.
    pub retention: Option<Box<Retention>>,
}

/// Usage counts of a request, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Found in the cache at allocation.
    pub read: u32,
    /// Made findable by it, and not findable before (in whole blocks).
    pub created: u32,
    /// Computed by another sequence that it joined.
    pub joined: u32,
    /// Brought from elsewhere.
    pub loaded: u32,
    /// Whether it came back after a preemption: what it read then is its own.
    pub resumed: bool,
}

impl Sequence {
    /// The space of its keys.
    pub fn space(&self) -> Space<'_> {
        let Self { tenant, cache_salt, lora_name, encoder, public, .. } = self;
        Space { tenant, cache_salt, lora_name, encoder, public: *public }
    }

    /// Tokens known, with slots or without.
    #[inline]
    pub fn known(&self) -> u32 {
        self.known.max(self.tokens.len() as u32)
    }

    /// Whether so many tokens are computed.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond what is.
    pub fn check_computed(&self, upto: u32) -> Result<()> {
        if upto <= self.committed {
            return Ok(());
        }
        let limit = format!("must be at most {}, the tokens computed", self.committed);
        Err(Error::Invalid { what: "upto", value: upto.to_string(), limit })
    }

    /// Tokens at the front whose ids are known.
    #[inline]
    pub fn filled(&self) -> u32 {
        self.known() - self.unknown
    }

    /// Whether its full length, as far as that is known, lets a token have `place`.
    #[inline]
    pub fn has_place(&self, place: u32) -> bool {
        // 0: it is not known.
        place <= self.max_seq_len.wrapping_sub(1)
    }

    /// Whether its request brought keys instead of tokens.
    #[inline]
    pub fn came_as_keys(&self) -> bool {
        self.tokens.is_empty() && self.known > 0
    }

    /// Whether all that is known has slots, and is known as tokens: more may come.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.tokens.len() == self.len as usize && self.known <= self.len
    }

    /// Whether the blocks of the other input hold its KV: they were found, or a token has been computed
    /// over them here.
    #[inline]
    pub fn has_encoder(&self) -> bool {
        self.encoder_published || self.committed > self.cached.max(self.brought)
    }

    /// Whether tokens may come after what is known, room apart.
    ///
    /// # Errors
    /// [`Error::Invalid`] while prompt tokens have no slots, where the request came as keys, or past
    /// its full length.
    pub fn check_append(&self, count: usize) -> Result<()> {
        match self.known() - self.len {
            0 => {
                self.check_tokens("append", count)?;
                check_length("append", count as u64, (self.len, self.max_seq_len))
            }
            more => Err(Error::Invalid {
                what: "append",
                value: count.to_string(),
                limit: format!("{more} known tokens have no slots yet: extend the sequence first"),
            }),
        }
    }

    /// Whether all that is known is known as tokens, which others may follow.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the request came as keys.
    #[inline]
    pub fn check_tokens(&self, what: &'static str, count: usize) -> Result<()> {
        if count == 0 || self.tokens.len() == self.known() as usize {
            return Ok(());
        }
        Err(tokens_unknown(what, count))
    }

    /// Becomes what `other` is, in its own buffers.
    fn copy_from(&mut self, other: &Self) {
        let mut tables = std::mem::take(&mut self.tables);
        tables.resize_with(other.tables.len(), BlockTable::default);
        tables.iter_mut().zip(&other.tables).for_each(|(table, other)| table.copy_from(other));
        *self = Self {
            tokens: refilled(&mut self.tokens, &other.tokens),
            tables,
            keys: refilled(&mut self.keys, &other.keys),
            mm_items: refilled(&mut self.mm_items, &other.mm_items),
            next_use: refilled(&mut self.next_use, &other.next_use),
            tenant: refilled(&mut self.tenant, &other.tenant),
            cache_salt: refilled(&mut self.cache_salt, &other.cache_salt),
            lora_name: refilled(&mut self.lora_name, &other.lora_name),
            encoder: refilled(&mut self.encoder, &other.encoder),
            retention: other.retention.clone(),
            ..*other
        };
    }

    fn clear(&mut self) {
        let Self {
            tokens,
            keys,
            mm_items,
            next_use,
            tables,
            tenant,
            cache_salt,
            lora_name,
            encoder,
            ..
        } = self;
        tokens.clear();
        keys.clear();
        mm_items.clear();
        next_use.clear();
        tenant.clear();
        cache_salt.clear();
        lora_name.clear();
        encoder.clear();
        (self.encoder_tokens, self.encoder_published) = (0, false);
        (self.brought, self.prompt, self.branch, self.public) = (0, 0, 0, 0);
        tables.iter_mut().for_each(|table| table.truncate(0));
        (self.len, self.committed, self.cached, self.published) = (0, 0, 0, 0);
        self.passed = 0;
        (self.private, self.known, self.unknown) = (false, 0, 0);
        (self.max_seq_len, self.chunk) = (0, 0);
        (self.full_sequence_must_fit, self.disowned) = (false, false);
        (self.usage, self.joined) = (Usage::default(), 0);
        (self.meta, self.heat) = (Meta::default(), Heat::default());
        self.miss = Miss::default();
        (self.sighted, self.closed) = (0, None);
        self.retention = None;
    }
}

/// What `from` has, in the buffer of `to`.
fn refilled<T: Clone>(to: &mut Vec<T>, from: &Vec<T>) -> Vec<T> {
    // Most of these are empty in most sequences.
    if from.is_empty() {
        to.clear();
    } else {
        to.clone_from(from);
    }
    std::mem::take(to)
}

#[cold]
fn tokens_unknown(what: &'static str, count: usize) -> Error {
    let limit = "the request came as keys; its tokens are not known".into();
    Error::Invalid { what, value: count.to_string(), limit }
}

/// Refuses a commit past the first `filled` tokens, whose ids are known.
///
/// # Errors
/// [`Error::Invalid`].
#[inline]
pub fn check_filled(upto: u32, filled: u32) -> Result<()> {
    if upto <= filled {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "commit",
        value: upto.to_string(),
        limit: format!("only the ids of {filled} tokens are known: fill the others first"),
    })
}

/// Refuses `count` tokens after the `len` there are, if they go past the full length `most`.
///
/// # Errors
/// [`Error::Invalid`].
#[inline]
pub fn check_length(what: &'static str, count: u64, (len, most): (u32, u32)) -> Result<()> {
    if most == 0 || u64::from(len) + count <= u64::from(most) {
        return Ok(());
    }
    let limit = format!("the sequence has {len} tokens, and its request said max_seq_len = {most}");
    Err(Error::Invalid { what, value: count.to_string(), limit })
}

/// Refuses more ids than are `missing`.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_missing(ids: usize, missing: u32) -> Result<()> {
    if ids <= missing as usize {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "fill",
        value: ids.to_string(),
        limit: format!("the ids of {missing} tokens are missing"),
    })
}

/// Refuses ids after tokens whose own are `missing`.
///
/// # Errors
/// [`Error::Invalid`].
#[inline]
pub fn check_no_gap(ids: usize, missing: u32) -> Result<()> {
    if missing == 0 || ids == 0 {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "append",
        value: ids.to_string(),
        limit: format!("the ids of {missing} tokens before are not known yet: fill them"),
    })
}
