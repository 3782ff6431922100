//! What a matcher in Python said of prompts, on its way into the core. An `impl` of `Manager`.

use kvframe_core::index::Changes;
use kvframe_core::manager::MatchAnswer;
use kvframe_core::pool::NIL;
use kvframe_core::{Key, Manager as Core};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::u64s;
use crate::driver::frozen;
use crate::errors::{from_core, usage};
use crate::gatekeeper::words;
use crate::ints::{BlockNumber, Seq, Upto};
use crate::manager::Manager;
use crate::request::Request;

/// (blocks of the prefix or None, tokens taken at the most or None)
pub type AnswerTuple<'py> = (Option<Bound<'py, PyAny>>, Option<u32>);

/// (blocks, their keys)
type PrefixTuple<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyAny>);

/// (removed; inserted, their keys, the blocks they follow or -1, their places)
pub type ChangesTuple<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Changes as Python takes them; None if there are none.
pub fn changes_tuple(py: Python<'_>, changes: Changes) -> PyResult<Option<ChangesTuple<'_>>> {
    let Changes { removed, inserted, keys, parents, depths } = changes;
    if removed.is_empty() && inserted.is_empty() {
        return Ok(None);
    }
    let parents = parents.iter().map(|&p| if p == NIL { -1 } else { i64::from(p) }).collect();
    Ok(Some((
        frozen(py, removed)?,
        frozen(py, inserted)?,
        words(py, &keys)?,
        frozen::<i64>(py, parents)?,
        frozen(py, depths)?,
    )))
}

/// Block ids of an answer; what is none ends them.
pub fn claimed(blocks: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let py = blocks.py();
    let ids = u64s(Some(blocks), "blocks")?;
    let id = |&id: &u64| {
        u32::try_from(id).map_err(|_| usage(py, format!("blocks: {id} is not a block id")))
    };
    ids.iter().map(id).collect()
}

/// An answer as the core takes it.
pub fn answer_of(answer: &AnswerTuple<'_>, block_size: u32) -> PyResult<MatchAnswer> {
    let blocks = answer.0.as_ref().map(claimed).transpose()?;
    Ok(MatchAnswer { blocks, most: answer.1.map(|tokens| tokens / block_size) })
}

impl Manager {
    /// Work for which answers are at hand.
    pub(crate) fn answered<T>(
        &self,
        py: Python<'_>,
        answers: &[(&[Key], AnswerTuple<'_>)],
        work: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        if answers.is_empty() {
            return work();
        }
        let size = self.locked(py, |core| core.options().block_size)?;
        let made = answers.iter().map(|(_, answer)| answer_of(answer, size));
        let made = made.collect::<PyResult<Vec<_>>>()?;
        self.locked(py, |core| {
            for ((keys, _), answer) in answers.iter().zip(made) {
                core.answer(keys, answer);
            }
        })?;
        let done = work();
        self.locked(py, |core| {
            for (keys, _) in answers {
                core.forget_answer(keys);
            }
        })?;
        done
    }
}

#[pymethods]
impl Manager {
    /// What became findable and what is no more since the last call: (removed; inserted, their keys,
    /// the blocks they follow or -1, their places), or None.
    fn take_index_changes<'py>(&self, py: Python<'py>) -> PyResult<Option<ChangesTuple<'py>>> {
        let changes = self.locked(py, Core::take_changes)?;
        changes_tuple(py, changes)
    }

    /// The keys of a request's full blocks: uint64 (blocks, 2).
    fn keys_of_request<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, Request>,
    ) -> PyResult<Bound<'py, PyArray2<u64>>> {
        let keys = self.keys_of(py, request.get());
        Ok(words(py, &keys)?.cast_into::<PyArray2<u64>>()?)
    }

    /// The keys under which lower tiers keep a request's full blocks, whatever the index here.
    fn tier_keys_of_request<'py>(
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

    /// The keys under which lower tiers keep the full blocks of a sequence's first tokens.
    fn tier_keys<'py>(&self, py: Python<'py>, seq: Seq, upto: Upto) -> PyResult<Bound<'py, PyAny>> {
        let keys = self.locked(py, |core| core.tier_keys(seq.0, upto.0))?;
        words(py, &keys.map_err(|e| from_core(py, &e))?)
    }

    /// The blocks of the prefix that ends with `block`, and the keys under which lower tiers keep them;
    /// none of either where that is not known.
    fn tier_prefix<'py>(&self, py: Python<'py>, block: BlockNumber) -> PyResult<PrefixTuple<'py>> {
        let chain = self.locked(py, |core| core.prefix_of(block.0))?;
        let (blocks, keys): (Vec<u32>, Vec<Key>) = chain.into_iter().unzip();
        Ok((PyArray1::from_vec(py, blocks), words(py, &keys)?))
    }

    /// A sequence's salt, adapter and session.
    fn origin<'py>(
        &self,
        py: Python<'py>,
        seq: Seq,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64)> {
        self.with(py, |core| {
            let sequence = core.sequence(seq.0)?;
            let (salt, adapter) = (&sequence.cache_salt, &sequence.lora_name);
            Ok((PyBytes::new(py, salt), PyBytes::new(py, adapter), sequence.meta.session))
        })
    }

    /// The weights' fingerprint; None for a sequence that was admitted under others.
    #[pyo3(signature = (seq=None))]
    fn fingerprint<'py>(
        &self,
        py: Python<'py>,
        seq: Option<Seq>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.locked(py, |core| {
            let current = seq.map_or(Ok(true), |seq| core.is_current(seq.0));
            current.map(|current| current.then(|| core.options().fingerprint.clone()))
        })?;
        Ok(found.map_err(|e| from_core(py, &e))?.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// How many of `blocks`, from the first on, hold the prefix of each request: int64.
    fn check_answers<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<Bound<'py, Request>>,
        blocks: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let keys: Vec<_> = requests.iter().map(|r| self.keys_of(py, r.get())).collect();
        let claims = blocks.iter().map(claimed).collect::<PyResult<Vec<_>>>()?;
        let good = self.locked(py, |core| {
            let rows = requests.iter().zip(&keys).zip(&claims);
            rows.map(|((request, keys), blocks)| {
                core.check_answer(request.get().attempt(keys), blocks) as i64
            })
            .collect::<Vec<_>>()
        })?;
        Ok(PyArray1::from_vec(py, good))
    }
}
