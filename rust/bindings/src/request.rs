//! `Request`: the core's, converted and hashed once however often it is tried. Its options are one table.

use std::sync::Mutex;

use kvframe_core::hash::{Hasher, MmItem};
use kvframe_core::request::{Attempt, Request as CoreRequest};
use kvframe_core::sequence::Sequence;
use kvframe_core::{Key, SeqId};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::args::Session;
use crate::buffers::{length, tokens};
use crate::calls::repr;
use crate::errors::usage;
use crate::fields::{bytes, flag, int, items, keys, limit, next_uses, retention, session, text};
use crate::lookup::OriginTuple;
use crate::options::did_you_mean;

/// Prompts from here on are hashed detached from the interpreter: 100 µs and more.
pub const LONG_TOKENS: usize = 1 << 14;

/// A prompt and how to serve it, for `KVCacheManager.allocate` and `KVCacheManager.step`.
///
/// Its prompt is copied, and hashed the first time it is tried; a retry hashes nothing. It never
/// changes: `replace` makes another one.
///
/// Args:
///     prompt: Token ids, any integer dtype. None if only ``keys`` and ``num_tokens`` are known.
///     keys: uint64 (blocks, 2), as `BlockPool.hash_blocks` returns them; or an engine's own hashes,
///         a list of bytes, of each the first 16. They must cover all that the KV depends on.
///     num_tokens: Length of the prompt where the token ids are not known; with them, theirs.
///     tenant: Whose request it is: a name of ``[tenants]``, or any other. Prefixes are shared only
///         among requests of one tenant. The gateway sets it, never the client.
///     cache_salt: Prefixes are shared only among requests of the same salt.
///     lora_name: As ``cache_salt``, for LoRA and other adapters.
///     mm_items: Multimodal items among the tokens, as `MMItem`.
///     session: The conversation, a number or a name (`session_id` is the number that policies
///         see). For policies, as are the next three; 0 if unknown.
///     turn: Turn within the session.
///     request_class: The engine's own numbering of request types.
///     priority: Larger is more important.
///     read_cache: Look for cached blocks.
///     write_cache: Leave computed blocks findable.
///     resumed: It comes back after a preemption; statistics count it apart.
///     partial: Take as many slots as can be had instead of refusing for lack of room. With
///         ``max_seq_len``, what can never fit is refused all the same.
///     chunk: Slots for this many tokens after the cached ones, 0 for none of these;
///         `KVCacheManager.extend` gives more, in steps of as many. Where layer groups give blocks
///         up, it bounds what the prompt holds at once: a request that could not be computed in
///         such steps is refused at once.
///     until: Slots up to this length at most.
///     max_seq_len: Most tokens of prompt and answer together: what can never fit is refused at
///         once, and so are tokens past it. 0 if it is unknown; then a sequence may outgrow the
///         cache.
///     full_sequence_must_fit: Allocate only if all of ``max_seq_len`` could be had now. Later
///         allocations leave it the room that it still lacks.
///     num_external_tokens: Tokens after the cached ones whose KV comes from elsewhere (a lower
///         tier, another engine's prefill); whole blocks, of all groups. `Allocation.load` is their
///         ticket.
///     external_until: The same, given as a length: KV of the prompt's first tokens up to here can
///         be brought. Tokens that are cached are not brought; it is no error if none are left.
///     join: Share blocks that a running sequence is computing for the same prompt, instead of
///         computing them too: `Allocation.joined_tokens`. They are good once that sequence commits
///         them. If it is cut or ends before that, this sequence is cut to what is good, and
///         `StepResult.rewound` or `KVCacheManager.take_changes` says so. Blocks that are being
///         loaded for another sequence are shared, too: they are good once the load has ended, and
///         ``loaded`` or ``failed`` names this sequence among those that it cuts. Only where every
///         group is of full attention or a sliding window, in blocks of ``cache.block_size``.
///     encoder: Content id of the input that ``cross`` groups attend to; a prefix is shared only
///         among requests with the same input. Without an id, nothing of the sequence is shared.
///     encoder_tokens: Tokens of that input; their blocks are held from allocation to the end.
///     next_use: uint32 per block of ``cache.block_size`` tokens: when it is used next, as far as
///         the engine can tell, in any count of its own that grows with time, such as the index of
///         the request. 4294967295 (`kvframe.policies.NO_NEXT_USE`) is "not known", and so is an
///         entry that is missing. Each request that uses a block says it anew. The built-in policy
///         ``next-use`` goes by it.
///     retention: How important its blocks are, and for how long (`kvframe.retention.Retention`).
///
/// Raises:
///     UsageError: An option is unknown, a value is of the wrong type or out of range, or
///         ``max_seq_len`` is below the length of the prompt.
#[allow(clippy::doc_markdown)] // Python reads it
#[pyclass(frozen, subclass, weakref, module = "kvframe")]
pub struct Request {
    core: CoreRequest,
    /// The root that the keys were chained from, and the keys: a retry does not hash again.
    hashed: Mutex<Option<(Key, Vec<Key>)>>,
    /// Whether its prompt is as the cache stores it: a matcher has rewritten it.
    rewritten: bool,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident -> $shown:ty: $kind:ident = $($field:ident).+;)*) => {
        #[allow(clippy::elidable_lifetime_names, clippy::needless_lifetimes)] // some types need it
        #[pymethods]
        impl Request {
            $($(#[$doc])* #[getter] fn $name<'py>(&self, py: Python<'py>) -> PyResult<$shown> {
                $kind::show(py, &self.core.$($field).+)
            })*
        }

        /// Every option but `num_tokens`, which the prompt's length decides.
        const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Sets the option `name`; false if there is none.
        fn set(core: &mut CoreRequest, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
            match name {
                $(stringify!($name) => core.$($field).+ = $kind::read(value, name)?,)*
                _ => return Ok(false),
            }
            Ok(true)
        }

        /// Options that differ from the defaults, in the order of the table.
        fn given<'py>(py: Python<'py>, core: &CoreRequest) -> PyResult<Bound<'py, PyDict>> {
            let (default, options) = (CoreRequest::default(), PyDict::new(py));
            $(if core.$($field).+ != default.$($field).+ {
                options.set_item(stringify!($name), $kind::show(py, &core.$($field).+)?)?;
            })*
            Ok(options)
        }
    };
}

fields! {
    /// Keys of full blocks that came with it, uint64 (blocks, 2); None where it came without.
    keys -> Option<Bound<'py, PyAny>>: keys = keys;
    /// Whose request it is.
    tenant -> String: text = tenant;
    /// Prefixes are shared only among requests of the same salt.
    cache_salt -> String: text = cache_salt;
    /// As ``cache_salt``, for adapters.
    lora_name -> String: text = lora_name;
    /// Multimodal items: (start, end, id).
    mm_items -> Vec<(u32, u32, Bound<'py, PyBytes>)>: items = mm_items;
    /// The number of its session; 0 if it has none.
    session -> u64: session = meta.session;
    /// Turn within the session.
    turn -> u32: int = meta.turn;
    /// The engine's own numbering of request types.
    request_class -> u32: int = meta.class;
    /// Larger is more important.
    priority -> i32: int = meta.priority;
    /// Whether it looks for cached blocks.
    read_cache -> bool: flag = read_cache;
    /// Whether it leaves computed blocks findable.
    write_cache -> bool: flag = write_cache;
    /// Whether it comes back after a preemption.
    resumed -> bool: flag = resumed;
    /// Whether it takes as many slots as can be had.
    partial -> bool: flag = partial;
    /// Tokens of a step of its prompt; None for all of it.
    chunk -> Option<u32>: limit = chunk;
    /// The length up to which it gets slots; None for all of it.
    until -> Option<u32>: limit = until;
    /// Most tokens of prompt and answer together; 0 if unknown.
    max_seq_len -> u32: int = max_seq_len;
    /// Whether all of ``max_seq_len`` must be there before it starts.
    full_sequence_must_fit -> bool: flag = full_sequence_must_fit;
    /// Tokens after the cached ones whose KV comes from elsewhere.
    num_external_tokens -> u32: int = num_external_tokens;
    /// The length up to which KV can be brought.
    external_until -> u32: int = external_until;
    /// Whether it shares blocks that are being computed.
    join -> bool: flag = join;
    /// Content id of the input that ``cross`` groups attend to.
    encoder -> Bound<'py, PyBytes>: bytes = encoder;
    /// Tokens of that input.
    encoder_tokens -> u32: int = encoder_tokens;
    /// When each block is used next, uint32; None where that is not known.
    next_use -> Option<Bound<'py, PyArray1<u32>>>: next_uses = next_use;
    /// How important its blocks are, and for how long.
    retention -> Option<Bound<'py, PyAny>>: retention = retention;
}

/// Keywords of old, and what each is called.
const RENAMED: &[(&str, &str)] = &[
    ("salt", "cache_salt"),
    ("adapter", "lora_name"),
    ("extras", "mm_items"),
    ("outlook", "next_use"),
    ("whole_sequence", "full_sequence_must_fit"),
    ("external", "num_external_tokens"),
    ("read", "read_cache"),
    ("insert", "write_cache"),
    ("max_tokens", "max_seq_len (prompt and answer together)"),
];

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (prompt, **options: "Any"))]
    fn new(
        py: Python<'_>,
        prompt: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let tokens = prompt.map(|prompt| tokens(prompt, "prompt")).transpose()?;
        let core = CoreRequest { tokens: tokens.unwrap_or_default(), ..CoreRequest::default() };
        Self::of(py, core, prompt.is_some(), options)
    }

    /// The names of its options, beside ``num_tokens``.
    #[classattr]
    #[pyo3(name = "OPTIONS")]
    fn names(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        PyTuple::new(py, NAMES)
    }

    /// Token ids of the prompt; None where only keys are known.
    #[getter]
    fn prompt<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        let known = !self.core.tokens.is_empty() || self.core.num_tokens == 0;
        known.then(|| PyArray1::from_slice(py, &self.core.tokens))
    }

    /// Tokens of the prompt.
    #[getter]
    fn num_tokens(&self) -> u32 {
        self.core.num_tokens
    }

    /// The options that differ from the defaults, by name: what makes it anew beside its prompt.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = given(py, &self.core)?;
        if self.core.tokens.is_empty() && self.core.num_tokens > 0 {
            options.set_item("num_tokens", self.core.num_tokens)?;
        }
        Ok(options)
    }

    /// The same request with other options; ``prompt`` replaces its tokens, too.
    #[pyo3(signature = (**changes: "Any"))]
    fn replace(&self, py: Python<'_>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Some(changes) = changes else { return Ok(self.twin(self.core.clone(), true)) };
        let changes = changes.copy()?;
        let mut core = self.core.clone();
        let mut known = !core.tokens.is_empty() || core.num_tokens == 0;
        let apart = ["prompt", "tenant", "cache_salt", "lora_name", "mm_items", "encoder", "keys"];
        for name in apart {
            // Which of its blocks are public was said of what it was.
            if core.public > 0 && changes.contains(name)? {
                core.mm_items.pop();
                core.public = 0;
            }
        }
        if let Some(prompt) = changes.get_item("prompt")? {
            changes.del_item("prompt")?;
            known = !prompt.is_none();
            core.tokens = if known { tokens(&prompt, "prompt")? } else { Vec::new() };
            (core.keys, core.num_tokens) = (Vec::new(), 0);
        }
        let made = Self::of(py, core, known, Some(&changes))?;
        let same = made.core.tokens == self.core.tokens;
        let hashed =
            same && made.core.mm_items == self.core.mm_items && made.core.keys == self.core.keys;
        Ok(Self { rewritten: self.rewritten && same, ..self.twin(made.core, hashed) })
    }

    /// The request as its prompt and salt are stored; None for what stays. With `public` blocks at its front.
    #[pyo3(signature = (tokens=None, cache_salt=None, public=0))]
    fn rewrite(
        &self,
        py: Python<'_>,
        tokens: Option<&Bound<'_, PyAny>>,
        cache_salt: Option<Vec<u8>>,
        public: u32,
    ) -> PyResult<Self> {
        let mut core = self.core.clone();
        // Keys are made of the tokens and the salt.
        let hashed = tokens.is_none() && cache_salt.is_none() && public == self.core.public;
        if !hashed {
            core.keys = Vec::new();
        }
        if let Some(ids) = tokens {
            core.tokens = self::tokens(ids, "prompt")?;
            core.num_tokens = length(py, "num_tokens", core.tokens.len() as u64)?;
        }
        core.cache_salt = cache_salt.unwrap_or(core.cache_salt);
        core.public = public;
        Ok(Self { rewritten: true, ..self.twin(core, hashed) })
    }

    /// Whether its prompt is as the cache stores it, so that no matcher rewrites it again.
    #[getter]
    fn rewritten(&self) -> bool {
        self.rewritten
    }

    /// Public blocks at its front.
    #[getter]
    fn public(&self) -> u32 {
        self.core.public
    }

    /// The same request, with the first `blocks` of `block_size` tokens public and the rest private to its tenant
    /// and salt.
    fn with_public(&self, blocks: u32, block_size: u32) -> Self {
        let mut core = self.core.clone();
        core.public = blocks;
        core.mm_items.push(MmItem::boundary(blocks, block_size, core.space()));
        Self { rewritten: true, ..self.twin(core, false) }
    }

    /// Its salt and adapter as they are stored, its session, its tenant and its public blocks.
    fn origin<'py>(&self, py: Python<'py>) -> OriginTuple<'py> {
        let name = |bytes: &[u8]| PyBytes::new(py, bytes);
        let CoreRequest { tenant, cache_salt, lora_name, meta, public, .. } = &self.core;
        (name(cache_salt), name(lora_name), meta.session, name(tenant), *public)
    }

    /// Tokens of the prompt.
    fn __len__(&self) -> usize {
        self.core.num_tokens as usize
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let ids: Vec<_> = self.core.tokens.iter().take(SHOWN).map(u32::to_string).collect();
        let more = if self.core.tokens.len() > SHOWN { ", ..." } else { "" };
        let prompt = if self.core.tokens.is_empty() && self.core.num_tokens > 0 {
            "None".to_owned()
        } else {
            format!("[{}{more}]", ids.join(", "))
        };
        let mut parts = vec![prompt, format!("num_tokens={}", self.core.num_tokens)];
        for (name, value) in given(py, &self.core)? {
            let value = repr(&value).unwrap_or_else(|| "?".into());
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let short = value
                .char_indices()
                .nth(60)
                .map_or(value.clone(), |(end, _)| format!("{}...", &value[..end]));
            parts.push(format!("{name}={short}"));
        }
        Ok(format!("Request({})", parts.join(", ")))
    }
}

/// Token ids that a repr shows.
const SHOWN: usize = 4;

impl Request {
    fn of(
        py: Python<'_>,
        mut core: CoreRequest,
        tokens_known: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut len = if tokens_known { 0 } else { u64::from(core.num_tokens) };
        let mut has_keys = !core.keys.is_empty();
        for (name, value) in options.into_iter().flatten() {
            let name = name.extract::<String>()?;
            has_keys |= name == "keys" && !value.is_none();
            if name == "num_tokens" {
                len = int::read(&value, &name)?;
            } else if !set(&mut core, &name, &value)? {
                return Err(unknown(py, &name));
            }
        }
        if !tokens_known && !has_keys && len == 0 {
            let message = "prompt = None: give token ids, or keys and num_tokens";
            return Err(usage(py, message.into()));
        }
        let known = if tokens_known { core.tokens.len() as u64 } else { len };
        if len != 0 && len != known {
            return Err(usage(py, format!("num_tokens = {len}: the prompt has {known} tokens")));
        }
        if (1..known).contains(&u64::from(core.max_seq_len)) {
            let most = core.max_seq_len;
            let limit =
                format!("counts prompt and answer together, and the prompt has {known} tokens");
            return Err(usage(py, format!("max_seq_len = {most}: {limit}")));
        }
        core.num_tokens = length(py, "num_tokens", known)?;
        Ok(Self { core, hashed: Mutex::new(None), rewritten: false })
    }

    /// A request with what is known of this one's prompt, if its keys are the same.
    fn twin(&self, core: CoreRequest, same_keys: bool) -> Self {
        let hashed = if same_keys { self.hashed.lock().map_or(None, |h| h.clone()) } else { None };
        Self { core, hashed: Mutex::new(hashed), rewritten: self.rewritten }
    }

    /// A prompt without options.
    pub fn of_prompt(prompt: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::new(prompt.py(), Some(prompt), None)
    }

    /// The request that brings a preempted sequence back, as the core's conversion makes it.
    pub fn of_sequence(mut sequence: Sequence) -> Self {
        // The chain may be shorter than the tokens: what is missing is hashed when it is tried.
        let hashed = (!sequence.tokens.is_empty())
            .then(|| (sequence.root, std::mem::take(&mut sequence.keys)));
        Self { core: sequence.into(), hashed: Mutex::new(hashed), rewritten: true }
    }

    /// The request of a logged allocation.
    pub fn of_logged((seq, mut core): (SeqId, CoreRequest)) -> (SeqId, Self) {
        core.num_tokens = core.len();
        (seq, Self { core, hashed: Mutex::new(None), rewritten: true })
    }

    /// The core's.
    pub fn core(&self) -> &CoreRequest {
        &self.core
    }

    /// One try of it with these keys.
    pub fn attempt<'a>(&'a self, keys: &'a [Key]) -> Attempt<'a> {
        Attempt::with_keys(&self.core, keys)
    }

    /// Whether hashing it takes long enough to let other threads run meanwhile.
    pub fn is_long(&self) -> bool {
        self.core.keys.is_empty() && self.core.tokens.len() >= LONG_TOKENS
    }

    /// The keys to try it with, hashed with this hasher unless they were before.
    pub fn keys_by(&self, hasher: &Hasher) -> Vec<Key> {
        let core = &self.core;
        if !core.keys.is_empty() || core.tokens.is_empty() || !(core.read_cache || core.write_cache)
        {
            return core.keys.clone();
        }
        let root = hasher.root(core.space());
        let Ok(mut hashed) = self.hashed.lock() else { return Vec::new() };
        match &mut *hashed {
            Some((from, keys)) if *from == root => {
                hasher.extend(root, &core.mm_items, &core.tokens, keys);
                keys.clone()
            }
            _ => {
                let mut keys = Vec::new();
                hasher.extend(root, &core.mm_items, &core.tokens, &mut keys);
                *hashed = Some((root, keys.clone()));
                keys
            }
        }
    }
}

/// Why there is no option of that name.
fn unknown(py: Python<'_>, name: &str) -> PyErr {
    if let Some((_, now)) = RENAMED.iter().find(|(old, _)| *old == name) {
        return usage(py, format!("{name}: this option of a Request is called {now}"));
    }
    let known: Vec<&str> = NAMES.iter().copied().chain(["num_tokens"]).collect();
    match did_you_mean(py, name, &known) {
        Ok(near) => usage(py, format!("{name}: a Request has no such option{near}")),
        Err(error) => error,
    }
}

/// The number by which policies see a session.
#[pyfunction]
pub fn session_id(session: Session) -> u64 {
    session.0
}
