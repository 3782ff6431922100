//! The batched step: one call a scheduler step, buffers in and out. An `impl` of `Manager`.

use kvframe_core::manager::{Step, StepOutcome};
use kvframe_core::tickets::Plan;
use kvframe_core::{Admission, Error, Grant, Manager as Core, SeqId};
use numpy::{Ix1, Ix2, PyArray2};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

use crate::buffers::{length, tokens, u64s, writable};
use crate::errors::{from_core, usage};
use crate::ints::{Fence, Passed, TokenBudget};
use crate::manager::Manager;
use crate::request::Request;
use crate::tables::{null_entry, slot};
use crate::views::{entry, matrix};

/// (sequence, cached tokens, tokens with slots, prompt tokens, ticket of a load, whether the other
/// input was found)
pub type GrantTuple = (u64, u32, u32, u32, Option<u64>, bool);

/// (ticket, rows of src, dst, tokens, group)
pub type PlanTuple<'py> = (u64, Bound<'py, PyArray2<i32>>);

/// (a grant or None an admission; refusals as ("append" | "admit", place, error); rewound
/// sequences; the plan)
type Stepped<'py> = (
    Vec<Option<GrantTuple>>,
    Vec<(&'static str, usize, Py<PyAny>)>,
    Vec<u64>,
    Option<PlanTuple<'py>>,
);

/// A plan as Python takes it.
pub fn plan_tuple<'py>(py: Python<'py>, plan: &Plan) -> PyResult<PlanTuple<'py>> {
    let flat = plan
        .copies
        .iter()
        .flat_map(|c| [c.src as i32, c.dst as i32, c.tokens as i32, i32::from(c.group)]);
    Ok((plan.ticket, matrix(py, flat.collect(), 4)?))
}

/// A grant as Python takes it.
pub fn grant_tuple(grant: Grant) -> GrantTuple {
    let Grant { seq, cached_tokens, granted_tokens, prompt_tokens, load, encoder_cached } = grant;
    (seq, cached_tokens, granted_tokens, prompt_tokens, load, encoder_cached)
}

#[pymethods]
impl Manager {
    /// Settles tickets, cuts, commits, ends, grows and admits sequences in one call.
    ///
    /// `append[i]` grows by `counts[i]` ids of `ids`, in order. Everything wrong with a handle, a
    /// length or a ticket refuses the whole step; want of room refuses single growths and
    /// admissions. `tables[g]` row i gets the changed entries of `append[i]`'s table in group g,
    /// `slots[g]` the slots of the appended tokens, one sequence after the other.
    #[pyo3(signature = (*, done=None, failed=None, truncate=None, truncate_to=None, commit=None, commit_to=None, release=None, fence=None, passed=None, append=None, counts=None, ids=None, extend=None, extend_to=None, admit=vec![], token_budget=None, skip_refused=false, tables=vec![], slots=vec![]))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        done: Option<&Bound<'py, PyAny>>,
        failed: Option<&Bound<'py, PyAny>>,
        truncate: Option<&Bound<'py, PyAny>>,
        truncate_to: Option<&Bound<'py, PyAny>>,
        commit: Option<&Bound<'py, PyAny>>,
        commit_to: Option<&Bound<'py, PyAny>>,
        release: Option<&Bound<'py, PyAny>>,
        fence: Option<Fence>,
        passed: Option<Passed>,
        append: Option<&Bound<'py, PyAny>>,
        counts: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        extend: Option<&Bound<'py, PyAny>>,
        extend_to: Option<&Bound<'py, PyAny>>,
        admit: Vec<Bound<'py, Request>>,
        token_budget: Option<TokenBudget>,
        skip_refused: bool,
        tables: Vec<Bound<'py, PyAny>>,
        slots: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Stepped<'py>> {
        let (done, failed) = (u64s(done, "done")?, u64s(failed, "failed")?);
        let release = u64s(release, "release")?;
        let truncate = pairs(py, "truncate", truncate, truncate_to)?;
        let commit = pairs(py, "commit", commit, commit_to)?;
        let grown = u64s(append, "append")?;
        let ids = ids.map(|t| tokens(t, "ids")).transpose()?;
        let ids = ids.as_ref().map_or(&[][..], |t| t.as_slice());
        let counts = match counts {
            Some(counts) => u64s(Some(counts), "counts")?,
            None => vec![1; grown.len()],
        };
        let append = split(py, &grown, &counts, ids)?;
        let extend = pairs(py, "extend", extend, extend_to)?;
        let keys: Vec<_> = admit.iter().map(|r| self.keys_of(r.get())).collect();
        let requests: Vec<Admission<'_>> =
            admit.iter().zip(&keys).map(|(r, keys)| r.get().admission(keys)).collect();
        let step = Step {
            done: &done,
            failed: &failed,
            release: &release,
            fence: fence.map(|f| f.0),
            passed: passed.map(|p| p.0),
            truncate: &truncate,
            commit: &commit,
            append: &append,
            extend: &extend,
            admit: &requests,
            token_budget: token_budget.map(|b| b.0),
            skip_refused,
        };
        let mut tables = tables
            .iter()
            .map(|t| writable::<i32, Ix2>(t, "tables"))
            .collect::<PyResult<Vec<_>>>()?;
        let mut slots =
            slots.iter().map(|s| writable::<i64, Ix1>(s, "slots")).collect::<PyResult<Vec<_>>>()?;
        let mut outputs = Outputs {
            tables: tables.iter_mut().map(|t| t.as_array_mut()).collect(),
            slots: slots.iter_mut().map(|s| s.as_slice_mut()).collect::<Result<_, _>>()?,
        };
        self.locked(py, |core| outputs.check(core, &step, ids.len()))?
            .map_err(|message| usage(py, message))?;
        self.run_step(py, &step, &mut outputs)
    }
}

impl Manager {
    fn run_step<'py>(
        &self,
        py: Python<'py>,
        step: &Step<'_>,
        outputs: &mut Outputs<'_>,
    ) -> PyResult<Stepped<'py>> {
        let before = self.locked(py, |core| kept_lengths(core, step))?;
        let settled = self.locked(py, |core| core.settle(step))?;
        let mut outcome = settled.map_err(|e| from_core(py, &e))?;
        let mut failures = Vec::new();
        let mut asked = Ok(());
        if self.has_judge() {
            // One question for the whole step, instead of one a sequence.
            let short = self.locked(py, |core| core.step_shortage(step))?;
            if short > 0 {
                asked = self.find_victims(py, short);
            }
        }
        while let Err(Error::NeedVictims { n }) =
            self.locked(py, |core| core.grow(step, &mut outcome))?
        {
            let found = std::mem::replace(&mut asked, Ok(()));
            let Err(error) = found.and_then(|()| self.find_victims(py, n)) else { continue };
            self.locked(py, Core::settle_choice)?;
            if !error.is_instance_of::<PyException>(py) {
                return Err(error);
            }
            // What the step has done already must be told, so a failure here refuses one growth.
            outcome.refuse_next(step, Error::PolicyFailed);
            failures.push(error);
        }
        let plan = self.locked(py, |core| {
            core.settle_choice();
            outputs.write(core, step.append, &before, &outcome.appended);
            core.take_plan()
        })?;
        self.deliver_events(py)?;
        let told = Told { py, failures: failures.into_iter() };
        told.tell(outcome, plan)
    }
}

/// Turns an outcome into what Python gets.
struct Told<'py, I> {
    py: Python<'py>,
    /// The policy's own errors, in the order of the growths they refused.
    failures: I,
}

impl<'py, I: Iterator<Item = PyErr>> Told<'py, I> {
    fn error(&mut self, error: &Error) -> Py<PyAny> {
        let own = if *error == Error::PolicyFailed { self.failures.next() } else { None };
        own.unwrap_or_else(|| from_core(self.py, error)).into_value(self.py).into_any()
    }

    fn tell(mut self, outcome: StepOutcome, plan: Option<Plan>) -> PyResult<Stepped<'py>> {
        let StepOutcome { rewound, appended, extended, admitted, .. } = outcome;
        let mut refused = Vec::new();
        for (name, results) in [("append", appended), ("extend", extended)] {
            for (i, result) in results.into_iter().enumerate() {
                if let Err(error) = result {
                    refused.push((name, i, self.error(&error)));
                }
            }
        }
        let mut grants = Vec::with_capacity(admitted.len());
        for (i, result) in admitted.into_iter().enumerate() {
            grants.push(result.as_ref().ok().map(|&grant| grant_tuple(grant)));
            match result {
                // Not tried is not refused: the request stays where it is in the queue.
                Ok(_) | Err(Error::NotTried) => {}
                Err(error) => refused.push(("admit", i, self.error(&error))),
            }
        }
        let plan = plan.map(|plan| plan_tuple(self.py, &plan)).transpose()?;
        Ok((grants, refused, rewound, plan))
    }
}

/// The caller's buffers, one of each a layer group; either list may be empty.
struct Outputs<'a> {
    tables: Vec<numpy::ndarray::ArrayViewMut2<'a, i32>>,
    slots: Vec<&'a mut [i64]>,
}

/// The length up to which each appended sequence's table is as it was before the step.
fn kept_lengths(core: &Core, step: &Step<'_>) -> Vec<u32> {
    let len = |seq| core.sequence(seq).map_or(0, |s| s.len);
    step.append
        .iter()
        .map(|&(seq, _)| len(seq).min(cut_of(step, seq).unwrap_or(u32::MAX)))
        .collect()
}

fn cut_of(step: &Step<'_>, seq: SeqId) -> Option<u32> {
    step.truncate.iter().filter(|&&(s, _)| s == seq).map(|&(_, len)| len).min()
}

impl Outputs<'_> {
    /// Whether everything a step may write fits; says what does not.
    fn check(&self, core: &Core, step: &Step<'_>, tokens: usize) -> Result<(), String> {
        let groups = core.options().groups.len();
        for (name, given) in [("tables", self.tables.len()), ("slots", self.slots.len())] {
            if given != 0 && given != groups {
                return Err(format!("{given} {name}, but the manager has {groups} layer groups"));
            }
        }
        if let Some(slots) = self.slots.iter().find(|s| s.len() < tokens) {
            return Err(format!("{tokens} tokens are appended, but slots holds {}", slots.len()));
        }
        for (group, table) in self.tables.iter().enumerate() {
            let (rows, width) = table.dim();
            if rows < step.append.len() {
                let grown = step.append.len();
                return Err(format!("{grown} sequences grow, but tables has {rows} rows"));
            }
            let layout = core.layout();
            for &(seq, tokens) in step.append {
                let len = core.sequence(seq).map_or(0, |s| s.len);
                let len = cut_of(step, seq).unwrap_or(len) as usize + tokens.len();
                let encoder = core.sequence(seq).map_or(0, |s| s.encoder_tokens);
                let until = u32::try_from(len).unwrap_or(u32::MAX);
                if layout.table_len(group, until, encoder) > width {
                    return Err(format!(
                        "sequence {seq:#x} grows to {len} tokens, but tables has {width} columns"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The entries from the block that was written last on, and the slots of what was appended.
    fn write(
        &mut self,
        core: &Core,
        append: &[(SeqId, &[u32])],
        before: &[u32],
        appended: &[Result<(), Error>],
    ) {
        let (layout, null) = (core.layout(), null_entry(core));
        let mut at = 0;
        for (i, &(seq, tokens)) in append.iter().enumerate() {
            let sequence = core.sequence(seq).ok().filter(|_| appended[i].is_ok());
            for (group, table) in self.tables.iter_mut().enumerate() {
                let Some(sequence) = sequence else { continue };
                let reach = layout.groups()[group];
                // A copy may have put another block behind what lags.
                let kept = before[i].min(sequence.len).saturating_sub(reach.lag);
                let from = (kept / reach.span) as usize;
                let from = from.min(sequence.tables[group].len());
                // Not zip().skip(): that walks the whole table to its last entry.
                let entries = &sequence.tables[group][from..];
                let mut row = table.row_mut(i);
                let row = row.slice_mut(numpy::ndarray::s![from..from + entries.len()]);
                for (slot, &block) in row.into_iter().zip(entries) {
                    *slot = entry(block, null);
                }
            }
            for (group, slots) in self.slots.iter_mut().enumerate() {
                for (k, out) in slots[at..at + tokens.len()].iter_mut().enumerate() {
                    *out = sequence.map_or(-1, |s| {
                        let token = u64::from(s.len) - tokens.len() as u64 + k as u64;
                        slot(s, layout, group, token)
                    });
                }
            }
            at += tokens.len();
        }
    }
}

fn pairs(
    py: Python<'_>,
    name: &str,
    seqs: Option<&Bound<'_, PyAny>>,
    lengths: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<(u64, u32)>> {
    let (seqs, lengths) = (u64s(seqs, name)?, u64s(lengths, name)?);
    if seqs.len() != lengths.len() {
        let message = format!("{name}: {} sequences, {} lengths", seqs.len(), lengths.len());
        return Err(usage(py, message));
    }
    seqs.into_iter().zip(lengths).map(|(s, l)| Ok((s, length(py, name, l)?))).collect()
}

fn split<'a>(
    py: Python<'_>,
    seqs: &[u64],
    counts: &[u64],
    ids: &'a [u32],
) -> PyResult<Vec<(u64, &'a [u32])>> {
    let total = counts.iter().try_fold(0_u64, |sum, &count| sum.checked_add(count));
    if seqs.len() != counts.len() || total != Some(ids.len() as u64) {
        let total = total.map_or("too many".into(), |t| t.to_string());
        let message = format!(
            "append: {} sequences, {} counts of {total} ids, {} ids",
            seqs.len(),
            counts.len(),
            ids.len()
        );
        return Err(usage(py, message));
    }
    let mut rest = ids;
    let mut append = Vec::with_capacity(seqs.len());
    for (&seq, &count) in seqs.iter().zip(counts) {
        let (head, tail) = rest.split_at(count as usize);
        append.push((seq, head));
        rest = tail;
    }
    Ok(append)
}
