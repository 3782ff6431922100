//! `Request`: a prompt and all that goes with it, converted and hashed once however often it is
//! tried.

use std::sync::Mutex;

use kvframe_core::asked::Asked;
use kvframe_core::hash::{Hasher, MmItem, Space};
use kvframe_core::retention::Retention;
use kvframe_core::sequence::{Meta, Sequence};
use kvframe_core::{Admission, Fit, Key, Prompt};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::args::{
    Chunk, EncoderTokens, External, ExternalUntil, Insert, Join, MaxTokens, NumTokens, Partial,
    Priority, Read, RequestClass, Resumed, Session, Turn, Until, WholeSequence,
};
use crate::buffers::{key_words, keys, length, tokens};
use crate::errors::raise;
use crate::retention::{RetentionTuple, retention_of, retention_tuple};
use crate::views::matrix;

/// Prompts from here on are hashed detached from the interpreter: 100 µs and more.
pub const LONG_TOKENS: usize = 1 << 14;

/// An item of `extras`: (first token, one past the last, content id).
pub type ExtraTuple = (u32, u32, Vec<u8>);

/// A request for admission. See `kvframe.KVCacheManager.admit` for the arguments.
#[pyclass(frozen, module = "kvframe._core")]
pub struct Request {
    tokens: Vec<u32>,
    len: u32,
    given_keys: Vec<Key>,
    /// The root that `hashed` was chained from, and the keys: a retry does not hash again.
    hashed: Mutex<Option<(Key, Vec<Key>)>>,
    salt: Vec<u8>,
    adapter: Vec<u8>,
    extras: Vec<MmItem>,
    meta: Meta,
    read: bool,
    insert: bool,
    resumed: bool,
    partial: bool,
    chunk: u32,
    until: u32,
    max_tokens: u32,
    whole_sequence: bool,
    external: u32,
    external_until: u32,
    join: bool,
    encoder: Vec<u8>,
    encoder_tokens: u32,
    outlook: Vec<u32>,
    retention: Option<Retention>,
}

pub fn extras_of(extras: Vec<ExtraTuple>) -> Vec<MmItem> {
    extras.into_iter().map(|(start, end, id)| MmItem { start, end, id }).collect()
}

#[pymethods]
impl Request {
    #[new]
    #[pyo3(signature = (prompt, *, keys=None, num_tokens=NumTokens(0), salt=None, adapter=None, extras=vec![], session=Session(0), turn=Turn(0), request_class=RequestClass(0), priority=Priority(0), read=Read(true), insert=Insert(true), resumed=Resumed(false), partial=Partial(false), chunk=None, until=None, max_tokens=MaxTokens(0), whole_sequence=WholeSequence(false), external=External(0), external_until=ExternalUntil(0), join=Join(false), encoder=None, encoder_tokens=EncoderTokens(0), outlook=None, retention=None))]
    fn new(
        py: Python<'_>,
        prompt: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyAny>>,
        num_tokens: NumTokens,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        extras: Vec<ExtraTuple>,
        session: Session,
        turn: Turn,
        request_class: RequestClass,
        priority: Priority,
        read: Read,
        insert: Insert,
        resumed: Resumed,
        partial: Partial,
        chunk: Option<Chunk>,
        until: Option<Until>,
        max_tokens: MaxTokens,
        whole_sequence: WholeSequence,
        external: External,
        external_until: ExternalUntil,
        join: Join,
        encoder: Option<&[u8]>,
        encoder_tokens: EncoderTokens,
        outlook: Option<&Bound<'_, PyAny>>,
        retention: Option<RetentionTuple>,
    ) -> PyResult<Self> {
        let ids = prompt.map(|p| tokens(p, "prompt")).transpose()?;
        let ids = ids.unwrap_or_default();
        if prompt.is_none() && keys.is_none() && num_tokens.0 == 0 {
            let message = "prompt = None: give token ids, or keys and num_tokens";
            return Err(raise(py, "UsageError", message.into()));
        }
        let len = if prompt.is_some() { ids.len() as u64 } else { num_tokens.0 };
        if num_tokens.0 != 0 && num_tokens.0 != len {
            let message = format!("num_tokens = {}: the prompt has {len} tokens", num_tokens.0);
            return Err(raise(py, "UsageError", message));
        }
        if (1..len).contains(&u64::from(max_tokens.0)) {
            let message = format!(
                "max_tokens = {}: counts prompt and answer together, and the prompt has {len} tokens",
                max_tokens.0
            );
            return Err(raise(py, "UsageError", message));
        }
        let outlook = outlook.map(|o| tokens(o, "outlook")).transpose()?;
        Ok(Self {
            len: length(py, "num_tokens", len)?,
            tokens: ids,
            given_keys: keys.map(self::keys).transpose()?.unwrap_or_default(),
            hashed: Mutex::new(None),
            salt: salt.unwrap_or_default().to_vec(),
            adapter: adapter.unwrap_or_default().to_vec(),
            extras: extras_of(extras),
            meta: Meta {
                session: session.0,
                turn: turn.0,
                class: request_class.0,
                priority: priority.0,
            },
            read: read.0,
            insert: insert.0,
            resumed: resumed.0,
            partial: partial.0,
            chunk: chunk.map_or(u32::MAX, |c| c.0),
            until: until.map_or(u32::MAX, |u| u.0),
            max_tokens: max_tokens.0,
            whole_sequence: whole_sequence.0,
            external: external.0,
            external_until: external_until.0,
            join: join.0,
            encoder: encoder.unwrap_or_default().to_vec(),
            encoder_tokens: encoder_tokens.0,
            outlook: outlook.unwrap_or_default(),
            retention: retention.map(retention_of),
        })
    }

    /// Its token ids (empty where only keys are known), salt, adapter, name of another input, extras,
    /// session and turn.
    #[allow(clippy::type_complexity)]
    fn parts<'py>(
        &self,
        py: Python<'py>,
    ) -> (Bound<'py, PyArray1<u32>>, [Vec<u8>; 3], Vec<ExtraTuple>, u64, u32) {
        let extras = self.extras.iter().map(|e| (e.start, e.end, e.id.clone())).collect();
        let tokens = PyArray1::from_slice(py, &self.tokens);
        let space = [&self.salt, &self.adapter, &self.encoder].map(Clone::clone);
        (tokens, space, extras, self.meta.session, self.meta.turn)
    }

    /// When each block is used next.
    fn outlook(&self) -> Vec<u32> {
        self.outlook.clone()
    }

    /// Its salt, adapter and session.
    fn origin<'py>(&self, py: Python<'py>) -> (Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64) {
        let (salt, adapter) = (PyBytes::new(py, &self.salt), PyBytes::new(py, &self.adapter));
        (salt, adapter, self.meta.session)
    }

    /// (prompt tokens, session, turn, class, priority, whether it reads, tokens that somebody brings:
    /// after the cached ones, and as a length)
    #[allow(clippy::type_complexity)]
    fn facts(&self) -> (u32, u64, u32, u32, i32, bool, u32, u32) {
        let Meta { session, turn, class, priority } = self.meta;
        (self.len, session, turn, class, priority, self.read, self.external, self.external_until)
    }

    /// The arguments that make it anew: the prompt, and the keywords.
    #[allow(clippy::type_complexity)]
    fn arguments<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Option<Bound<'py, PyArray1<u32>>>, Bound<'py, PyDict>)> {
        let ids = !self.tokens.is_empty() || self.len == 0;
        let prompt = ids.then(|| PyArray1::from_slice(py, &self.tokens));
        let dict = PyDict::new(py);
        if !self.given_keys.is_empty() {
            let words = self.given_keys.iter().flat_map(|&key| key_words(key)).collect();
            dict.set_item("keys", matrix(py, words, 2)?)?;
        }
        let name = |bytes: &[u8]| PyBytes::new(py, bytes);
        let extras = self.extras.iter().map(|e| (e.start, e.end, name(&e.id)));
        let most = |length: u32| (length != u32::MAX).then_some(length);
        let Meta { session, turn, class, priority } = self.meta;
        dict.set_item("num_tokens", self.len)?;
        dict.set_item("salt", name(&self.salt))?;
        dict.set_item("adapter", name(&self.adapter))?;
        dict.set_item("encoder", name(&self.encoder))?;
        dict.set_item("extras", extras.collect::<Vec<_>>())?;
        dict.set_item("session", session)?;
        dict.set_item("turn", turn)?;
        dict.set_item("request_class", class)?;
        dict.set_item("priority", priority)?;
        dict.set_item("read", self.read)?;
        dict.set_item("insert", self.insert)?;
        dict.set_item("resumed", self.resumed)?;
        dict.set_item("partial", self.partial)?;
        dict.set_item("chunk", most(self.chunk))?;
        dict.set_item("until", most(self.until))?;
        dict.set_item("max_tokens", self.max_tokens)?;
        dict.set_item("whole_sequence", self.whole_sequence)?;
        dict.set_item("external", self.external)?;
        dict.set_item("external_until", self.external_until)?;
        dict.set_item("join", self.join)?;
        dict.set_item("encoder_tokens", self.encoder_tokens)?;
        if !self.outlook.is_empty() {
            dict.set_item("outlook", PyArray1::from_slice(py, &self.outlook))?;
        }
        dict.set_item("retention", self.retention.as_ref().map(retention_tuple))?;
        Ok((prompt, dict))
    }

    /// The same request with other tokens, another salt, or with less that is brought.
    #[pyo3(signature = (tokens=None, salt=None, external=None, external_until=None))]
    fn changed(
        &self,
        py: Python<'_>,
        tokens: Option<&Bound<'_, PyAny>>,
        salt: Option<Vec<u8>>,
        external: Option<External>,
        external_until: Option<ExternalUntil>,
    ) -> PyResult<Self> {
        let ids = tokens.map(|t| self::tokens(t, "prompt")).transpose()?;
        let ids = ids.unwrap_or_else(|| self.tokens.clone());
        let same = tokens.is_none();
        // Keys are made of the tokens and the salt.
        let keyed = same && salt.is_none();
        let hashed =
            if keyed { self.hashed.lock().map_or(None, |hashed| hashed.clone()) } else { None };
        Ok(Self {
            len: if same { self.len } else { length(py, "num_tokens", ids.len() as u64)? },
            tokens: ids,
            given_keys: if keyed { self.given_keys.clone() } else { Vec::new() },
            hashed: Mutex::new(hashed),
            salt: salt.unwrap_or_else(|| self.salt.clone()),
            adapter: self.adapter.clone(),
            extras: self.extras.clone(),
            external: external.map_or(self.external, |e| e.0),
            external_until: external_until.map_or(self.external_until, |e| e.0),
            encoder: self.encoder.clone(),
            outlook: self.outlook.clone(),
            retention: self.retention.clone(),
            ..*self
        })
    }

    /// Tokens of the prompt.
    fn __len__(&self) -> usize {
        self.len as usize
    }
}

impl Request {
    fn space(&self) -> Space<'_> {
        Space { cache_salt: &self.salt, lora_name: &self.adapter, encoder: &self.encoder }
    }

    /// The request that brings a preempted sequence back: its tokens, keys and all it was admitted
    /// with.
    pub fn of_sequence(mut sequence: Sequence) -> Self {
        let known = sequence.filled() as usize;
        let from_keys = sequence.tokens.is_empty();
        sequence.tokens.truncate(known);
        let (given_keys, hashed) = if from_keys {
            (sequence.keys, None)
        } else {
            // The chain may be shorter than the tokens: what is missing is hashed on admission.
            (Vec::new(), Some((sequence.root, sequence.keys)))
        };
        Self {
            tokens: sequence.tokens,
            len: known as u32,
            given_keys,
            hashed: Mutex::new(hashed),
            salt: sequence.cache_salt,
            adapter: sequence.lora_name,
            extras: sequence.mm_items,
            meta: sequence.meta,
            read: sequence.read_cache,
            insert: sequence.write_cache,
            resumed: true,
            partial: false,
            chunk: sequence.chunk,
            until: u32::MAX,
            max_tokens: sequence.max_seq_len,
            whole_sequence: sequence.full_sequence_must_fit,
            external: 0,
            external_until: 0,
            join: false,
            encoder: sequence.encoder,
            encoder_tokens: sequence.encoder_tokens,
            outlook: sequence.next_use,
            retention: sequence.retention.map(|asked| *asked),
        }
    }

    /// The request that an admission in the log came of.
    pub fn of_asked(asked: Asked) -> Self {
        Self {
            len: asked.tokens.len().max(asked.len as usize) as u32,
            tokens: asked.tokens,
            given_keys: asked.keys,
            hashed: Mutex::new(None),
            salt: asked.cache_salt,
            adapter: asked.lora_name,
            extras: asked.mm_items,
            meta: asked.meta,
            read: asked.read_cache,
            insert: asked.write_cache,
            resumed: asked.resumed,
            partial: asked.partial,
            chunk: asked.chunk,
            until: asked.until,
            max_tokens: asked.max_seq_len,
            whole_sequence: asked.full_sequence_must_fit,
            external: asked.num_external_tokens,
            external_until: asked.external_until,
            join: asked.join,
            encoder: asked.encoder,
            encoder_tokens: asked.encoder_tokens,
            outlook: asked.next_use,
            retention: asked.retention,
        }
    }

    /// Whether hashing it takes long enough to let other threads run meanwhile.
    pub fn is_long(&self) -> bool {
        self.given_keys.is_empty() && self.tokens.len() >= LONG_TOKENS
    }

    /// The keys that it came as.
    pub fn given_keys(&self) -> &[Key] {
        &self.given_keys
    }

    /// The keys to admit it with, hashed with this hasher unless they were before.
    pub fn keys(&self, hasher: &Hasher) -> Vec<Key> {
        if !self.given_keys.is_empty() || self.tokens.is_empty() || !(self.read || self.insert) {
            return self.given_keys.clone();
        }
        let root = hasher.root(self.space());
        let Ok(mut hashed) = self.hashed.lock() else { return Vec::new() };
        match &mut *hashed {
            Some((from, keys)) if *from == root => {
                hasher.extend(root, &self.extras, &self.tokens, keys);
                keys.clone()
            }
            _ => {
                let mut keys = Vec::new();
                hasher.extend(root, &self.extras, &self.tokens, &mut keys);
                *hashed = Some((root, keys.clone()));
                keys
            }
        }
    }

    /// What the core is asked.
    pub fn admission<'a>(&'a self, keys: &'a [Key]) -> Admission<'a> {
        Admission {
            prompt: Prompt { tokens: &self.tokens, keys, len: self.len },
            space: self.space(),
            mm_items: &self.extras,
            meta: self.meta,
            read_cache: self.read,
            write_cache: self.insert,
            resumed: self.resumed,
            fit: if self.partial { Fit::Partial } else { Fit::Whole },
            chunk: self.chunk,
            budget: u32::MAX,
            until: self.until,
            max_seq_len: self.max_tokens,
            full_sequence_must_fit: self.whole_sequence,
            num_external_tokens: self.external,
            external_until: self.external_until,
            join: self.join,
            encoder_tokens: self.encoder_tokens,
            next_use: &self.outlook,
            retention: self.retention.as_ref(),
        }
    }
}

/// The number by which policies see a session.
#[pyfunction]
pub fn session_id(session: Session) -> u64 {
    session.0
}
