//! Questions about prompts: what is there of them, their keys, whether they fit. An `impl` of
//! `Manager`.

use kvframe_core::Key;
use kvframe_core::hash::{MmItem, Space};
use kvframe_core::manager::{AllocStatus, Hit, Manager as Core};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::args::{BlockNumber, Seq, Upto};
use crate::buffers::{PromptIds, changed, key_words, tokens};
use crate::errors::from_core;
use crate::fields::{ItemTuple, items_of};
use crate::manager::Manager;
use crate::policy::asker::words;
use crate::policy::prefix::AnswerTuple;
use crate::request::{LONG_TOKENS, Request};

pub(crate) fn space_of<'a>(
    tenant: Option<&'a [u8]>,
    salt: Option<&'a [u8]>,
    adapter: Option<&'a [u8]>,
    encoder: Option<&'a [u8]>,
    public: u32,
) -> Space<'a> {
    let names = [tenant, salt, adapter, encoder].map(Option::unwrap_or_default);
    let [tenant, cache_salt, lora_name, encoder] = names;
    Space { tenant, cache_salt, lora_name, encoder, public }
}

/// (salt, adapter, session, tenant, public blocks)
pub(crate) type OriginTuple<'py> =
    (Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64, Bound<'py, PyBytes>, u32);

/// (blocks, their keys)
type PrefixTuple<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyAny>);

/// (tokens, a block list a group, what is attached)
type HitTuple<'py> = (u32, Vec<Bound<'py, PyArray1<i32>>>, Option<u64>);

fn block_lists<'py>(py: Python<'py>, hit: &Hit) -> Vec<Bound<'py, PyArray1<i32>>> {
    let lists = hit.blocks.iter();
    lists.map(|blocks| PyArray1::from_iter(py, blocks.iter().map(|&b| b as i32))).collect()
}

impl Manager {
    /// The keys of the full blocks of `ids`.
    fn hash(&self, py: Python<'_>, ids: &[u32], space: Space<'_>, extras: &[MmItem]) -> Vec<Key> {
        let hasher = self.hasher();
        let hash = |ids: &[u32]| {
            let mut keys = Vec::new();
            hasher.extend(hasher.root(space), extras, ids, &mut keys);
            keys
        };
        if ids.len() < LONG_TOKENS {
            return hash(ids);
        }
        py.detach(|| hash(ids))
    }
}

#[pymethods]
impl Manager {
    /// How much of a prompt is there, and what is attached to exactly this prompt. Changes nothing.
    #[pyo3(signature = (prompt, *, tenant=None, salt=None, adapter=None, encoder=None, extras=vec![], public=0))]
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        tenant: Option<&[u8]>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ItemTuple>,
        public: u32,
    ) -> PyResult<HitTuple<'py>> {
        let unread = PromptIds::of(prompt, "prompt")?;
        let space = space_of(tenant, salt, adapter, encoder, public);
        let extras = items_of(extras);
        let hit = if self.is_keyed() && unread.len() >= LONG_TOKENS {
            let ids = unread.read(<[u32]>::to_vec).ok_or_else(|| changed(py))?;
            let keys = self.hash(py, &ids, space, &extras);
            self.locked(py, |core| core.lookup_hashed(&keys, &ids, space, &extras))?
        } else {
            let look = |core: &mut Core| unread.read(|ids| core.lookup(ids, space, &extras));
            self.locked(py, look)?.ok_or_else(|| changed(py))?
        };
        Ok((hit.tokens, block_lists(py, &hit), hit.attached))
    }

    /// The same for a request, by what it reads.
    #[pyo3(signature = (request, answer=None))]
    fn lookup_request<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
        answer: Option<AnswerTuple<'py>>,
    ) -> PyResult<HitTuple<'py>> {
        let keys = self.keys_of(py, request.get());
        let asked = request.get().attempt(&keys);
        let answers: Vec<_> = answer.into_iter().map(|answer| (&keys[..], answer)).collect();
        let look = || self.locked(py, |core| core.lookup_request(asked));
        let hit = self.answered(py, &answers, look)?;
        let hit = hit.map_err(|e| from_core(py, &e))?;
        Ok((hit.tokens, block_lists(py, &hit), hit.attached))
    }

    /// Whether a request could be admitted: 0 never, 1 later, 2 now.
    fn can_allocate(&self, py: Python<'_>, request: &Bound<'_, Request>) -> PyResult<u8> {
        let keys = self.keys_of(py, request.get());
        let asked = request.get().attempt(&keys);
        let fits = self.locked(py, |core| {
            if asked.join {
                core.expect_joins();
            }
            core.can_allocate(asked)
        })?;
        Ok(match fits.map_err(|e| from_core(py, &e))? {
            AllocStatus::Never => 0,
            AllocStatus::Later => 1,
            AllocStatus::Ok => 2,
        })
    }

    /// Keys of a prompt's full blocks: uint64 (blocks, 2), low word first.
    #[pyo3(signature = (prompt, *, tenant=None, salt=None, adapter=None, encoder=None, extras=vec![], public=0))]
    fn hash_blocks<'py>(
        &self,
        py: Python<'py>,
        prompt: &Bound<'py, PyAny>,
        tenant: Option<&[u8]>,
        salt: Option<&[u8]>,
        adapter: Option<&[u8]>,
        encoder: Option<&[u8]>,
        extras: Vec<ItemTuple>,
        public: u32,
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let ids = tokens(prompt, "prompt")?;
        let space = space_of(tenant, salt, adapter, encoder, public);
        let extras = items_of(extras);
        let keys = self.hash(py, &ids, space, &extras);
        let words: Vec<u64> = keys.iter().flat_map(|&key| key_words(key)).collect();
        crate::views::matrix(py, words, 2)
    }

    /// Keys of a request's full blocks, as `hash_blocks` has them, whatever the index here.
    fn hash_request<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (hasher, request) = (self.hasher(), request.get());
        let long = request.is_long();
        let keys =
            if long { py.detach(|| request.keys_by(&hasher)) } else { request.keys_by(&hasher) };
        words(py, &keys)
    }

    /// Keys of the full blocks of a sequence's first tokens, whatever the index here.
    fn sequence_keys<'py>(
        &self,
        py: Python<'py>,
        seq: Seq,
        upto: Upto,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.locked(py, |core| core.tier_keys(seq.0, upto.0))?;
        words(py, &keys.map_err(|e| from_core(py, &e))?)
    }

    /// The blocks of the prefix that ends with `block`, and their keys; none of either where that is
    /// not known.
    fn prefix_of<'py>(&self, py: Python<'py>, block: BlockNumber) -> PyResult<PrefixTuple<'py>> {
        let chain = self.locked(py, |core| core.prefix_of(block.0))?;
        let (blocks, keys): (Vec<i32>, Vec<Key>) =
            chain.into_iter().map(|(block, key)| (block as i32, key)).unzip();
        Ok((PyArray1::from_vec(py, blocks), words(py, &keys)?))
    }

    /// A sequence's salt, adapter, session, tenant and public blocks.
    fn origin<'py>(&self, py: Python<'py>, seq: Seq) -> PyResult<OriginTuple<'py>> {
        self.with(py, |core| {
            let sequence = core.sequence(seq.0)?;
            let name = |bytes: &[u8]| PyBytes::new(py, bytes);
            let (salt, adapter) = (name(&sequence.cache_salt), name(&sequence.lora_name));
            let tenant = name(&sequence.tenant);
            Ok((salt, adapter, sequence.meta.session, tenant, sequence.public))
        })
    }

    /// The version of the weights.
    fn weight_version<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let version = self.locked(py, |core| core.options().fingerprint.clone())?;
        Ok(PyBytes::new(py, &version))
    }

    /// Whether a sequence was computed under the present weights, and is not to be forgotten.
    fn is_current(&self, py: Python<'_>, seq: Seq) -> PyResult<bool> {
        self.with(py, |core| core.is_current(seq.0))
    }
}
