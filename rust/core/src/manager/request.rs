//! What an allocation is asked for, and what it gives.

use crate::hash::{Key, MmItem, Space};
use crate::retention::Retention;
use crate::sequence::{Meta, SeqId};

/// What a request asks to have computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prompt<'a> {
    /// Token ids; empty where only keys are known.
    pub tokens: &'a [u32],
    /// Keys of full blocks; hashed from `tokens` where empty.
    pub keys: &'a [Key],
    /// Length in tokens where `tokens` is empty.
    pub len: u32,
}

/// How much of a prompt must get blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fit {
    /// All of it, or the request is refused.
    #[default]
    Whole,
    /// As much as there is room for (and as the policy lets in), from the front.
    Partial,
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// What to compute.
    pub prompt: Prompt<'a>,
    /// Salt and adapter.
    pub space: Space<'a>,
    /// Multimodal items.
    pub mm_items: &'a [MmItem],
    /// For policies and statistics.
    pub meta: Meta,
    /// Look for cached blocks.
    pub read_cache: bool,
    /// Leave blocks findable.
    pub write_cache: bool,
    /// It comes back after a preemption: counted apart.
    pub resumed: bool,
    /// All or as much as fits.
    pub fit: Fit,
    /// Slots for this many tokens now, the rest by `extend` in steps of as many (chunked prefill).
    /// Hits come on top.
    pub chunk: u32,
    /// Of these, slots for this many now: what the budget of a step leaves.
    pub budget: u32,
    /// Slots up to this length at the most, whatever was found.
    pub until: u32,
    /// Prompt and answer together, where that is known (0: it is not): what can never fit is refused
    /// at once, and so are tokens past it.
    pub max_seq_len: u32,
    /// Tokens after the cached ones that somebody else brings: whole blocks, filled by the time that
    /// the allocation's `load` is settled.
    pub num_external_tokens: u32,
    /// The same as a length: the prompt's first tokens up to here can be brought; what is cached of
    /// them is not. Whole blocks of it, and nothing of it is an error.
    pub external_until: u32,
    /// Share blocks that a live sequence is computing for the same prompt.
    pub join: bool,
    /// Tokens of the other input that groups of the kind [`crate::GroupKind::Cross`] attend to; its content is
    /// named in `space`, or it is shared with nobody.
    pub encoder_tokens: u32,
    /// Allocate only if all of `max_seq_len` could be had now; later allocations leave what it lacks.
    pub full_sequence_must_fit: bool,
    /// When each prompt block is used next (request index), if the future is known.
    pub next_use: &'a [u32],
    /// How important its blocks are, and for how long.
    pub retention: Option<&'a Retention>,
}

impl Default for Admission<'_> {
    fn default() -> Self {
        Self {
            prompt: Prompt::default(),
            space: Space::default(),
            mm_items: &[],
            meta: Meta::default(),
            read_cache: true,
            write_cache: true,
            resumed: false,
            fit: Fit::Whole,
            chunk: u32::MAX,
            budget: u32::MAX,
            until: u32::MAX,
            max_seq_len: 0,
            num_external_tokens: 0,
            external_until: 0,
            join: false,
            encoder_tokens: 0,
            full_sequence_must_fit: false,
            next_use: &[],
            retention: None,
        }
    }
}

/// What an allocation gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The sequence.
    pub seq: SeqId,
    /// Prompt tokens found; computing starts here, or behind what is joined or loaded.
    pub cached_tokens: u32,
    /// Prompt tokens that have slots.
    pub granted_tokens: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// The ticket of what comes from elsewhere; nothing of it is findable before it is settled.
    pub load: Option<u64>,
    /// Whether the KV of the other input was found: the encoder need not run.
    pub encoder_cached: bool,
    /// Tokens after the cached and the joined ones that the load brings.
    pub external_tokens: u32,
    /// Tokens after the cached ones that a live sequence is computing, or that its load brings: good
    /// once it commits them, or the load has ended.
    pub joined_tokens: u32,
    /// What was attached to exactly this prompt.
    pub attached: Option<u64>,
}
