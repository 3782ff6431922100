//! The batched step: one call a scheduler step, buffers in and out. An `impl` of `Manager`.

use kvframe_core::manager::{Extent, Growth, Ids, Step, StepResult};
use kvframe_core::policy::Consult;
use kvframe_core::transfers::CopyPlan;
use kvframe_core::{Allocation, Attempt, Error, Manager as Core, SeqId};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::args::{BatchTokens, Fence, Passed, TokenBudget};
use crate::buffers::{altered, arrays, u64s};
use crate::errors::{from_core, usage};
use crate::inputs::{Growths, flag, pairs};
use crate::manager::Manager;
use crate::outputs::{Outputs, Targets};
use crate::policy::asker::is_interrupt;
use crate::policy::prefix::AnswerTuple;
use crate::queue::RequestQueue;
use crate::request::Request;
use crate::sharing::{RemapTuple, remap_tuples};
use crate::views::matrix;

/// (sequence, cached tokens, tokens with slots, prompt tokens, ticket of a load, whether the other
/// input was found, tokens the load brings, tokens joined, what is attached)
pub type AllocationTuple = (u64, u32, u32, u32, Option<u64>, bool, u32, u32, Option<u64>);

/// (ticket, rows of src, dst, tokens, group)
pub type PlanTuple<'py> = (u64, Bound<'py, PyArray2<i32>>);

/// (an allocation or None an admission; refusals as (list, place, error); rewound sequences; the plan;
/// forks; preempted requests; the length of each extension; why each growth was refused, or 0;
/// table entries that changed)
type StepTuple<'py> = (
    Vec<Option<AllocationTuple>>,
    Vec<(&'static str, usize, Py<PyAny>)>,
    Vec<u64>,
    Option<PlanTuple<'py>>,
    Vec<u64>,
    Vec<Request>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<u8>>,
    Vec<RemapTuple>,
);

/// A plan as Python takes it.
pub fn plan_tuple<'py>(py: Python<'py>, plan: &CopyPlan) -> PyResult<PlanTuple<'py>> {
    let flat = plan
        .copies
        .iter()
        .flat_map(|c| [c.src as i32, c.dst as i32, c.tokens as i32, i32::from(c.group)]);
    Ok((plan.ticket, matrix(py, flat.collect(), 4)?))
}

/// An allocation as Python takes it.
pub fn allocation_tuple(allocation: Allocation) -> AllocationTuple {
    (
        allocation.seq,
        allocation.cached_tokens,
        allocation.granted_tokens,
        allocation.prompt_tokens,
        allocation.load,
        allocation.encoder_cached,
        allocation.external_tokens,
        allocation.joined_tokens,
        allocation.attached,
    )
}

#[pymethods]
impl Manager {
    /// Settles tickets, cuts, fills, commits, forks, ends, grows and admits sequences in one call.
    ///
    /// `append[i]` grows by `counts[i]` ids of `ids`, in order. Everything wrong with a handle, a
    /// length or a ticket refuses the whole step; want of room refuses single growths and
    /// admissions. `tables[g]` row `rows[i]`, or i, gets the changed entries of `append[i]`'s table
    /// in group g, `slots[g]` the slots of the appended tokens, one sequence after the other.
    #[pyo3(signature = (done=None, failed=None, loaded=None, truncate=None, fill=None, commit=None, fork=None, release=None, preempt=None, fence=None, passed=None, append=None, counts=None, ids=None, extend=None, admit=None, token_budget=None, batch_tokens=None, skip_refused=None, tables=None, slots=None, rows=None, answers=vec![]))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        done: Option<&Bound<'py, PyAny>>,
        failed: Option<&Bound<'py, PyAny>>,
        loaded: Option<&Bound<'py, PyAny>>,
        truncate: Option<&Bound<'py, PyAny>>,
        fill: Option<&Bound<'py, PyAny>>,
        commit: Option<&Bound<'py, PyAny>>,
        fork: Option<&Bound<'py, PyAny>>,
        release: Option<&Bound<'py, PyAny>>,
        preempt: Option<&Bound<'py, PyAny>>,
        fence: Option<Fence>,
        passed: Option<Passed>,
        append: Option<&Bound<'py, PyAny>>,
        counts: Option<&Bound<'py, PyAny>>,
        ids: Option<&Bound<'py, PyAny>>,
        extend: Option<&Bound<'py, PyAny>>,
        admit: Option<&Bound<'py, PyAny>>,
        token_budget: Option<TokenBudget>,
        batch_tokens: Option<BatchTokens>,
        skip_refused: Option<&Bound<'py, PyAny>>,
        tables: Option<&Bound<'py, PyAny>>,
        slots: Option<&Bound<'py, PyAny>>,
        rows: Option<&Bound<'py, PyAny>>,
        answers: Vec<AnswerTuple<'py>>,
    ) -> PyResult<StepTuple<'py>> {
        let (done, failed) = (u64s(done, "done")?, u64s(failed, "failed")?);
        let (release, preempt) = (u64s(release, "release")?, u64s(preempt, "preempt")?);
        let fork = u64s(fork, "fork")?;
        let loaded = pairs("loaded", ["tickets", "blocks"], loaded)?;
        let truncate = pairs("truncate", ["sequences", "lengths"], truncate)?;
        let commit = pairs("commit", ["sequences", "lengths"], commit)?;
        let extend = pairs("extend", ["sequences", "lengths"], extend)?;
        let fill = Growths::of_tuple("fill", fill)?;
        let fill = fill.split(py)?;
        let fill: Vec<(SeqId, &[u32])> = fill
            .into_iter()
            .map(|(seq, ids)| (seq, if let Ids::Known(ids) = ids { ids } else { &[] }))
            .collect();
        let append = Growths::new("append", append, counts, ids)?;
        let append = append.split(py)?;
        let queue = RequestQueue::new(py, admit)?;
        let step = Step {
            done: &done,
            failed: &failed,
            loaded: &loaded,
            truncate: &truncate,
            fill: &fill,
            commit: &commit,
            fork: &fork,
            release: &release,
            preempt: &preempt,
            fence: fence.map(|f| f.0),
            passed: passed.map(|p| p.0),
            append: &append,
            extend: &extend,
            allocate: &[],
            token_budget: token_budget.map(|b| b.0),
            batch_tokens: batch_tokens.map(|b| b.0),
            skip_refused: skip_refused.map_or(Ok(false), |value| flag("skip_refused", value))?,
        };
        let (tables, slots) = (arrays(tables, "tables")?, arrays(slots, "slots")?);
        let rows = rows.map(|rows| u64s(Some(rows), "rows")).transpose()?;
        let targets = Targets::of(&tables, &slots)?;
        if !targets.are_apart() {
            return Err(usage(py, "tables and slots: two of the arrays share memory".into()));
        }
        let outputs = Outputs {
            targets: &targets,
            // SAFETY: they lie apart; what may have run Python code asks `Outputs::keep` first.
            tables: targets.tables.iter().map(|table| unsafe { table.view() }).collect(),
            slots: targets.slots.iter().map(|slots| unsafe { slots.slice() }).collect(),
            rows,
            null: -1,
            spans: Vec::new(),
            mixed: false,
            written: 0,
            lost: false,
        };
        let reach = Vec::with_capacity(append.len());
        let mut keys = Vec::with_capacity(answers.len());
        for place in 0..answers.len().min(queue.len()) {
            keys.push(self.keys_of(py, queue.get(place)?.get()));
        }
        let answers: Vec<_> = keys.iter().map(|keys| &keys[..]).zip(answers).collect();
        let failures = Vec::new();
        let mut run = Run {
            manager: self,
            step: &step,
            queue,
            reach,
            outputs,
            failures,
            level_changed: false,
        };
        self.answered(py, &answers, || run.run(py))
    }
}

/// A step under way.
struct Run<'a, 'py> {
    manager: &'a Manager,
    /// All but its admissions.
    step: &'a Step<'a>,
    queue: RequestQueue<'py>,
    reach: Vec<Extent>,
    outputs: Outputs<'a>,
    /// Errors of a policy or a prompt, in the order of the growths they refused.
    failures: Vec<PyErr>,
    level_changed: bool,
}

impl<'py> Run<'_, 'py> {
    fn run(&mut self, py: Python<'py>) -> PyResult<StepTuple<'py>> {
        let manager = self.manager;
        let asked = manager.ask_step(py, self.step)?;
        let begun = manager.locked(py, |core| match &asked {
            None => self.begin(core),
            Some((question, verdicts)) => {
                question.answered(core, verdicts, |core| self.begin(core))
            }
        })?;
        let mut outcome = begun.map_err(|refused| refused.into_error(py))?;
        let mut interrupt = None;
        if manager.host.consults() {
            interrupt = self.grow_consulting(py, &mut outcome).err();
            if interrupt.is_some() {
                manager.locked(py, |core| self.grow_undecided(core, &mut outcome))?;
            }
        }
        if self.queue.len() > 0 {
            interrupt = self.allocate_all(py, &mut outcome, interrupt).err();
        }
        if manager.host.consults() || self.queue.len() > 0 {
            manager.locked(py, |core| self.finish(core, &mut outcome))?;
        }
        if manager.host.consults() {
            interrupt = interrupt.or(manager.host.deliver_events(py).err());
        }
        if self.outputs.lost {
            interrupt = interrupt.or_else(|| Some(altered(py, OUTPUTS)));
        }
        if self.level_changed {
            manager.listeners.notify(py);
        }
        let failures = std::mem::take(&mut self.failures).into_iter();
        let result = StepReport { py, step: self.step, queue: self.queue.len(), failures }
            .into_tuple(outcome)?;
        match interrupt {
            None => Ok(result),
            Some(error) => {
                // What is done cannot be undone, and must not be lost.
                error.value(py).setattr("stepped", result)?;
                Err(error)
            }
        }
    }

    /// All that needs no policy outside the core, under one lock.
    fn begin(&mut self, core: &mut Core) -> Result<StepResult, Wrong> {
        core.check_step(self.step, &mut self.reach).map_err(Wrong::Step)?;
        if !self.outputs.keep() {
            return Err(Wrong::Altered);
        }
        self.outputs.check(core, self.step, &self.reach).map_err(Wrong::Buffer)?;
        let mut outcome = core.settle(self.step).map_err(Wrong::Step)?;
        for entry in &outcome.remapped {
            let row = self.step.append.iter().position(|&(seq, _)| seq == entry.seq);
            if let Some(i) = row {
                self.outputs.patch(i, entry);
            }
        }
        if !self.manager.host.consults() {
            self.grow(core, &mut outcome).map_err(Wrong::Step)?;
            if self.queue.len() == 0 {
                self.finish(core, &mut outcome);
            }
        }
        Ok(outcome)
    }

    /// The admissions, one after the other: what stands behind the last one tried is not looked at.
    /// After an `interrupt` no policy is asked any more, and those that would need victims are refused.
    fn allocate_all(
        &mut self,
        py: Python<'py>,
        outcome: &mut StepResult,
        mut interrupt: Option<PyErr>,
    ) -> PyResult<()> {
        for place in 0..self.queue.len() {
            if !outcome.allocates_more(self.step) {
                break;
            }
            let request = match self.queue.get(place) {
                Ok(request) => request,
                Err(error) if !is_interrupt(py, &error) => {
                    self.failures.push(error);
                    outcome.refuse_allocation(Error::Unreadable);
                    continue;
                }
                Err(error) => {
                    outcome.refuse_allocation(Error::Unreadable);
                    self.failures.push(error.clone_ref(py));
                    interrupt.get_or_insert(error);
                    continue;
                }
            };
            let keys = self.manager.keys_of(py, request.get());
            let asked = request.get().attempt(&keys);
            if let Err(error) = self.allocate_one(py, outcome, &asked, interrupt.is_none()) {
                interrupt.get_or_insert(error);
            }
        }
        interrupt.map_or(Ok(()), Err)
    }

    fn allocate_one(
        &mut self,
        py: Python<'py>,
        outcome: &mut StepResult,
        asked: &Attempt<'_>,
        decides: bool,
    ) -> PyResult<()> {
        let (manager, step) = (self.manager, self.step);
        loop {
            let n = match manager.locked(py, |core| core.allocate_next(step, outcome, asked))? {
                Err(Error::NeedVictims { n }) => n,
                other => return other.map_err(|error| from_core(py, &error)),
            };
            let found = if decides { manager.host.find_victims(py, n) } else { Ok(()) };
            if decides && found.is_ok() {
                continue;
            }
            manager.locked(py, Core::settle_choice)?;
            outcome.refuse_allocation(Error::PolicyFailed);
            match found {
                Err(error) if is_interrupt(py, &error) => return Err(error),
                Err(error) => self.failures.push(error),
                Ok(()) => {}
            }
            return Ok(());
        }
    }

    fn grow(&mut self, core: &mut Core, outcome: &mut StepResult) -> Result<(), Error> {
        let (step, reach, outputs) = (self.step, &self.reach, &mut self.outputs);
        outputs.keep();
        core.grow(step, outcome, |i, granted| {
            outputs.write(i, step.append[i].1.len(), reach[i].kept, granted);
        })
    }

    /// What the step has done already must be returned, so a failure of the policy refuses one
    /// growth.
    fn refuse_next(&mut self, core: &mut Core, outcome: &mut StepResult) {
        let place = outcome.appended;
        self.outputs.keep();
        core.refuse_next(self.step, outcome, Error::PolicyFailed);
        if let Some((_, ids)) = self.step.append.get(place) {
            self.outputs.write(place, ids.len(), 0, None);
        }
    }

    fn grow_consulting(&mut self, py: Python<'_>, outcome: &mut StepResult) -> PyResult<()> {
        let (manager, step) = (self.manager, self.step);
        // One question for the whole step, instead of one a sequence, if it is one about candidates.
        let short = match manager.host.outside().window() {
            Some(_) => manager.locked(py, |core| core.step_shortage(step, self.queue.sizes()))?,
            None => 0,
        };
        let mut asked = if short > 0 { manager.host.find_victims(py, short) } else { Ok(()) };
        while let Err(Error::NeedVictims { n }) =
            manager.locked(py, |core| self.grow(core, outcome))?
        {
            let found = std::mem::replace(&mut asked, Ok(()));
            let Err(error) = found.and_then(|()| manager.host.find_victims(py, n)) else {
                continue;
            };
            manager.locked(py, Core::settle_choice)?;
            if is_interrupt(py, &error) {
                return Err(error);
            }
            manager.locked(py, |core| self.refuse_next(core, outcome))?;
            self.failures.push(error);
        }
        // The one question may have been about more than was needed in the end.
        match asked {
            Err(error) if is_interrupt(py, &error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The rest of the growth after an interrupt, when no policy is asked any more.
    fn grow_undecided(&mut self, core: &mut Core, outcome: &mut StepResult) {
        while let Err(Error::NeedVictims { .. }) = self.grow(core, outcome) {
            core.settle_choice();
            self.refuse_next(core, outcome);
        }
    }

    fn finish(&mut self, core: &mut Core, outcome: &mut StepResult) {
        core.settle_choice();
        outcome.plan = core.take_plan();
        self.level_changed = self.manager.watch(core);
    }
}

const OUTPUTS: &str = "tables or slots";

/// Why a step was refused whole.
enum Wrong {
    Step(Error),
    Buffer(String),
    /// The arrays were changed before the step began.
    Altered,
}

impl Wrong {
    fn into_error(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Step(error) => from_core(py, &error),
            Self::Buffer(message) => usage(py, message),
            Self::Altered => altered(py, OUTPUTS),
        }
    }
}

/// Turns an outcome into what Python gets.
struct StepReport<'a, 'py, I> {
    py: Python<'py>,
    step: &'a Step<'a>,
    /// How many requests came in it.
    queue: usize,
    /// The errors of policies and prompts, in the order of the growths they refused.
    failures: I,
}

impl<'py, I: Iterator<Item = PyErr>> StepReport<'_, 'py, I> {
    fn error(&mut self, error: &Error) -> Py<PyAny> {
        let own = if matches!(error, Error::PolicyFailed | Error::Unreadable) {
            self.failures.next()
        } else {
            None
        };
        own.unwrap_or_else(|| from_core(self.py, error)).into_value(self.py).into_any()
    }

    fn into_tuple(mut self, outcome: StepResult) -> PyResult<StepTuple<'py>> {
        let (py, step) = (self.py, self.step);
        let (appends, extensions) = (step.append.len(), step.extend.len());
        let mut reasons = vec![0_u8; appends + extensions + outcome.allocated.len()];
        reasons.resize(appends + extensions + self.queue, reason(&Error::NotTried));
        let mut refused = Vec::new();
        for refusal in &outcome.refused {
            let (name, from) = match refusal.growth {
                Growth::Append => ("append", 0),
                Growth::Extend => ("extend", appends),
                Growth::Allocate => ("allocate", appends + extensions),
            };
            reasons[from + refusal.place] = reason(&refusal.error);
            // Not tried is not refused: the request stays where it is in the queue.
            if refusal.growth != Growth::Allocate || refusal.error != Error::NotTried {
                refused.push((name, refusal.place, self.error(&refusal.error)));
            }
        }
        Ok((
            outcome
                .allocated
                .into_iter()
                .map(|allocation| allocation.map(allocation_tuple))
                .collect(),
            refused,
            outcome.rewound,
            outcome.plan.map(|plan| plan_tuple(py, &plan)).transpose()?,
            outcome.forks,
            outcome.preempted.into_iter().map(Request::of_sequence).collect(),
            PyArray1::from_iter(py, outcome.extended.into_iter().map(i64::from)),
            PyArray1::from_vec(py, reasons),
            remap_tuples(&outcome.remapped),
        ))
    }
}

/// The number of `kvframe.Reason`.
fn reason(error: &Error) -> u8 {
    match error {
        Error::NoCapacity { .. } => 1,
        Error::NeverFits { .. } => 2,
        Error::NotTried => 3,
        Error::PolicyFailed | Error::NeedVictims { .. } => 4,
        Error::Asleep => 5,
        _ => 6,
    }
}
