//! A prefix matcher in Python: what it said of prompts, on its way into the core.

use kvframe_core::index::Changes;
use kvframe_core::manager::MatchAnswer;
use kvframe_core::pool::NIL;
use kvframe_core::{Key, Manager as Core, Request as CoreRequest};
use numpy::{PyArray1, PyArray2};
use pyo3::intern;
use pyo3::prelude::*;

use super::asker::{frozen, words};
use crate::buffers::u64s;
use crate::calls::{attribute, call_method};
use crate::errors::{from_core, usage};
use crate::manager::Manager;
use crate::request::Request;

/// (blocks of the prefix or None, tokens taken at the most or None)
pub type AnswerTuple<'py> = (Option<Bound<'py, PyAny>>, Option<u32>);

/// (removed; inserted, their keys, the blocks they follow or -1, their places)
type ChangesTuple<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Changes as Python takes them; None if there are none.
fn changes_tuple(py: Python<'_>, changes: Changes) -> PyResult<Option<ChangesTuple<'_>>> {
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

/// Block ids of an answer.
fn claimed(blocks: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let py = blocks.py();
    let ids = u64s(Some(blocks), "blocks")?;
    let id = |&id: &u64| {
        u32::try_from(id).map_err(|_| usage(py, format!("blocks: {id} is not a block id")))
    };
    ids.iter().map(id).collect()
}

/// An answer as the core takes it.
fn answer_of(answer: &AnswerTuple<'_>, block_size: u32) -> PyResult<MatchAnswer> {
    let blocks = answer.0.as_ref().map(claimed).transpose()?;
    Ok(MatchAnswer { blocks, most: answer.1.map(|tokens| tokens / block_size) })
}

/// What a matcher says of a request that a replay has as keys.
pub fn answer_for(
    matcher: &Bound<'_, PyAny>,
    manager: &mut Core,
    request: &CoreRequest,
) -> PyResult<MatchAnswer> {
    let py = matcher.py();
    let (keys, len) = (&request.keys[..], request.len());
    let size = manager.options().block_size;
    let mut answer = MatchAnswer::default();
    let mut found = None;
    if attribute(matcher, intern!(py, "is_index"))?.extract()? {
        let changes = changes_tuple(py, manager.take_changes())?;
        let args = (changes, words(py, keys)?);
        let named = call_method(matcher, intern!(py, "match_keys"), args)?;
        if !named.is_none() {
            let blocks = claimed(&named)?;
            let good = manager.check_answer(request, &blocks);
            if good < blocks.len() {
                call_method(matcher, intern!(py, "was_wrong"), (1,))?;
            }
            found = Some(good as u32 * size);
            answer.blocks = Some(blocks[..good].to_vec());
        }
    }
    if attribute(matcher, intern!(py, "takes"))?.extract()? {
        let found = match found {
            Some(found) => found,
            None => manager.lookup_request(request).map_err(|e| from_core(py, &e))?.tokens,
        };
        let facts = (len, request.meta.session, request.meta.turn);
        let most: Option<u32> =
            call_method(matcher, intern!(py, "taken_of"), (found, facts))?.extract()?;
        answer.most = most.map(|tokens| tokens / size);
    }
    Ok(answer)
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
        self.locked(py, |core| answers.iter().for_each(|(keys, _)| core.forget_answer(keys)))?;
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
