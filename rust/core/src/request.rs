//! A request: what is to be computed, and how it is to be served.

use std::ops::Deref;

use crate::hash::{Key, MmItem, Space};
use crate::retention::Retention;
use crate::sequence::{Meta, Sequence};

/// A prompt and how to serve it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Token ids of the prompt; empty where only keys are known.
    pub tokens: Vec<u32>,
    /// Keys of full blocks of the prompt; those that are missing are hashed from `tokens`.
    pub keys: Vec<Key>,
    /// Length of the prompt where `tokens` is empty.
    pub num_tokens: u32,
    /// Whose request it is; prefixes are shared only among requests of one tenant.
    pub tenant: Vec<u8>,
    /// Prefixes are shared only among requests of the same salt.
    pub cache_salt: Vec<u8>,
    /// As `cache_salt`, for `LoRA` and other adapters.
    pub lora_name: Vec<u8>,
    /// See [`Space::public`].
    pub public: u32,
    /// Multimodal items among the tokens.
    pub mm_items: Vec<MmItem>,
    /// For policies and statistics.
    pub meta: Meta,
    /// Look for cached blocks.
    pub read_cache: bool,
    /// Leave computed blocks findable.
    pub write_cache: bool,
    /// It comes back after a preemption: counted apart.
    pub resumed: bool,
    /// Take as many slots as can be had, from the front, instead of refusing for want of room.
    pub partial: bool,
    /// Slots for this many tokens now, the rest by `extend` in steps of as many (chunked prefill).
    /// Hits come on top.
    pub chunk: u32,
    /// Slots up to this length at the most, whatever was found.
    pub until: u32,
    /// Prompt and answer together, where that is known (0: it is not): what can never fit is refused
    /// at once, and so are tokens past it.
    pub max_seq_len: u32,
    /// Allocate only if all of `max_seq_len` could be had now; later allocations leave what it lacks.
    pub full_sequence_must_fit: bool,
    /// Tokens after the cached ones whose KV comes from elsewhere: whole blocks, filled by the time that
    /// the allocation's `load` is settled.
    pub num_external_tokens: u32,
    /// External tokens told as a length: the KV of the prompt's tokens up to here can be loaded. The load
    /// brings whole blocks of it, behind the cached ones. Any length is accepted: one that reaches past
    /// the prompt is cut, and one that is cached already loads nothing. It cannot be given together
    /// with `num_external_tokens`.
    pub external_until: u32,
    /// Share blocks that a live sequence is computing for the same prompt.
    pub join: bool,
    /// Content id of the input that groups of the kind [`crate::GroupKind::Cross`] attend to; without
    /// one, nothing of the sequence is shared.
    pub encoder: Vec<u8>,
    /// Tokens of that input.
    pub encoder_tokens: u32,
    /// When each prompt block is used next (request index), if the future is known.
    pub next_use: Vec<u32>,
    /// How important its blocks are, and for how long.
    pub retention: Option<Retention>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            keys: Vec::new(),
            num_tokens: 0,
            tenant: Vec::new(),
            cache_salt: Vec::new(),
            lora_name: Vec::new(),
            public: 0,
            mm_items: Vec::new(),
            meta: Meta::default(),
            read_cache: true,
            write_cache: true,
            resumed: false,
            partial: false,
            chunk: u32::MAX,
            until: u32::MAX,
            max_seq_len: 0,
            full_sequence_must_fit: false,
            num_external_tokens: 0,
            external_until: 0,
            join: false,
            encoder: Vec::new(),
            encoder_tokens: 0,
            next_use: Vec::new(),
            retention: None,
        }
    }
}

impl Request {
    /// A request for `tokens` with nothing special.
    pub fn of_tokens(tokens: &[u32]) -> Self {
        Self { tokens: tokens.to_vec(), ..Self::default() }
    }

    /// A request for a prompt of which only the length and keys are known.
    pub fn of_keys(keys: &[Key], num_tokens: u32) -> Self {
        Self { keys: keys.to_vec(), num_tokens, ..Self::default() }
    }

    /// Tokens of the prompt.
    pub fn len(&self) -> u32 {
        if self.tokens.is_empty() { self.num_tokens } else { self.tokens.len() as u32 }
    }

    /// Whether the prompt has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same request, with the keys of another namespace.
    #[must_use]
    pub fn within(mut self, space: Space<'_>) -> Self {
        self.tenant = space.tenant.to_vec();
        self.cache_salt = space.cache_salt.to_vec();
        self.lora_name = space.lora_name.to_vec();
        self.encoder = space.encoder.to_vec();
        self.public = space.public;
        self
    }

    /// The namespace of its keys.
    pub fn space(&self) -> Space<'_> {
        Space {
            tenant: &self.tenant,
            cache_salt: &self.cache_salt,
            lora_name: &self.lora_name,
            encoder: &self.encoder,
            public: self.public,
        }
    }
}

/// The request that brings a preempted sequence back: its tokens, or its keys where it came as keys, and
/// what its first request said of it. What belonged to that attempt alone is not kept: `join`, `partial`,
/// `until`, `num_external_tokens`, `external_until`.
impl From<Sequence> for Request {
    fn from(mut sequence: Sequence) -> Self {
        let known = sequence.filled();
        let keys = if sequence.tokens.is_empty() { sequence.keys } else { Vec::new() };
        sequence.tokens.truncate(known as usize);
        Self {
            tokens: sequence.tokens,
            keys,
            num_tokens: known,
            tenant: sequence.tenant,
            cache_salt: sequence.cache_salt,
            lora_name: sequence.lora_name,
            public: sequence.public,
            mm_items: sequence.mm_items,
            meta: Meta { tenant: 0, ..sequence.meta },
            read_cache: sequence.read_cache,
            write_cache: sequence.write_cache,
            resumed: true,
            chunk: sequence.chunk,
            max_seq_len: sequence.max_seq_len,
            full_sequence_must_fit: sequence.full_sequence_must_fit,
            encoder: sequence.encoder,
            encoder_tokens: sequence.encoder_tokens,
            next_use: sequence.next_use,
            retention: sequence.retention.map(|asked| *asked),
            ..Self::default()
        }
    }
}

/// One try of a request: what may differ from try to try stands here and hides the request's own. It
/// is borrowed, so that neither the keys, which the caller may have hashed without the lock, nor the
/// prompt are copied for a try that waits.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// What is tried.
    pub request: &'a Request,
    /// Keys of the prompt, as far as they are known.
    pub keys: &'a [Key],
    /// See [`Request::read_cache`].
    pub read_cache: bool,
    /// See [`Request::write_cache`].
    pub write_cache: bool,
    /// See [`Request::resumed`].
    pub resumed: bool,
    /// See [`Request::partial`].
    pub partial: bool,
    /// See [`Request::chunk`].
    pub chunk: u32,
    /// Of these, slots for this many now: what the budget of a step leaves.
    pub budget: u32,
    /// See [`Request::until`].
    pub until: u32,
    /// The number of its tenant, which the manager finds.
    pub tenant: u8,
}

impl<'a> From<&'a Request> for Attempt<'a> {
    #[inline]
    fn from(request: &'a Request) -> Self {
        Self {
            request,
            keys: &request.keys,
            read_cache: request.read_cache,
            write_cache: request.write_cache,
            resumed: request.resumed,
            partial: request.partial,
            chunk: request.chunk,
            budget: u32::MAX,
            until: request.until,
            tenant: 0,
        }
    }
}

impl<'a> From<&Attempt<'a>> for Attempt<'a> {
    #[inline]
    fn from(attempt: &Attempt<'a>) -> Self {
        *attempt
    }
}

impl Deref for Attempt<'_> {
    type Target = Request;

    #[inline]
    fn deref(&self) -> &Request {
        self.request
    }
}

impl<'a> Attempt<'a> {
    /// A try with keys that the caller has.
    pub fn with_keys(request: &'a Request, keys: &'a [Key]) -> Self {
        Self { keys, ..request.into() }
    }

    /// The request as it was tried.
    pub fn to_request(&self) -> Request {
        Request {
            keys: self.keys.to_vec(),
            read_cache: self.read_cache,
            write_cache: self.write_cache,
            resumed: self.resumed,
            partial: self.partial,
            chunk: self.chunk.min(self.budget),
            until: self.until,
            ..self.request.clone()
        }
    }
}
