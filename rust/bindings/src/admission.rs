//! What becomes findable: asked of the admission policy before the operation that would make it so.

use std::collections::{HashMap, HashSet};

use kvframe_core::manager::{Due, Step};
use kvframe_core::policy::admission::{AdmissionOptions, Admit, Verdict, Verdicts, by_name};
use kvframe_core::{Error, Manager as Core};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::from_core;
use crate::gatekeeper::Gatekeeper;
use crate::manager::Manager;
use crate::options;
use crate::question::Question;

/// The core's admission policy; for a driver of a Python policy, who asks it.
#[allow(clippy::type_complexity)]
pub fn make_admission(
    py: Python<'_>,
    policy: &Bound<'_, PyAny>,
    given: Option<&Bound<'_, PyDict>>,
    strict: bool,
) -> PyResult<(Option<Box<dyn Admit>>, Option<Gatekeeper>, String)> {
    if let Ok(name) = policy.extract::<String>() {
        let mut built = AdmissionOptions::default();
        let set = |name: &str, value| {
            built.set(name, value);
        };
        let given = options::numbers("admission_options", given, set)?;
        let gate = by_name(&name, built).map_err(|e| from_core(py, &e))?;
        let known = gate.as_ref().map(|gate| gate.options()).unwrap_or_default();
        let known: Vec<&str> = known.into_iter().map(|(name, _)| name).collect();
        options::check(py, "admission_options", &name, &given, &known)?;
        return Ok((gate, None, name));
    }
    let keeper = Gatekeeper::new(policy, strict)?;
    let state = Verdicts::new(keeper.wants_seen());
    Ok((Some(Box::new(state)), Some(keeper), policy.getattr("name")?.extract()?))
}

/// Everything that a step would make findable.
fn due_of<'a>(core: &Core, step: &Step<'a>) -> Vec<Due<'a>> {
    let cuts: HashMap<u64, u32> = step.truncate.iter().copied().collect();
    let fills: HashMap<u64, &[u32]> = step.fill.iter().copied().collect();
    let cut = |seq| cuts.get(&seq).copied();
    let fill = |seq| fills.get(&seq).copied().unwrap_or_default();
    let committed = step.commit.iter().map(|&(seq, upto)| Due {
        seq,
        upto: Some(upto),
        cut: cut(seq),
        fill: fill(seq),
    });
    let loaded = step.loaded.iter().filter_map(|&(ticket, n)| core.due_of_load(ticket, n));
    let mut due: Vec<Due<'a>> = committed.chain(loaded).collect();
    let asked: HashSet<u64> = due.iter().map(|due| due.seq).collect();
    let ends = step.release.iter().chain(step.preempt).filter(|seq| !asked.contains(seq));
    due.extend(ends.map(|&seq| Due { seq, upto: None, cut: cut(seq), fill: fill(seq) }));
    due
}

impl Manager {
    /// Work that makes findable what is `due`.
    pub(crate) fn admitting<'a, T>(
        &self,
        py: Python<'_>,
        due: impl FnOnce(&Core) -> Option<Due<'a>>,
        work: impl FnOnce(&mut Core) -> Result<T, Error>,
    ) -> PyResult<T> {
        let Some(keeper) = &self.gatekeeper else { return self.with(py, work) };
        let question = self.locked(py, |core| {
            let due = due(core)?;
            Question::gather(core, &[due])
        })?;
        let Some(question) = question else { return self.with(py, work) };
        let verdicts = keeper.ask(py, &question)?;
        self.with(py, |core| {
            question.answer(core, &verdicts);
            let done = work(core);
            question.close(core);
            done
        })
    }

    /// The same for a step, which has to be sound: what it would make findable, judged.
    pub(crate) fn ask_step(
        &self,
        py: Python<'_>,
        step: &Step<'_>,
    ) -> PyResult<Option<(Question, Vec<Verdict>)>> {
        let Some(keeper) = &self.gatekeeper else { return Ok(None) };
        let question = self.locked(py, |core| {
            // What is wrong with the step is told by the step.
            core.check_step(step, &mut Vec::new()).ok()?;
            let due = due_of(core, step);
            Question::gather(core, &due)
        })?;
        let Some(question) = question else { return Ok(None) };
        let verdicts = keeper.ask(py, &question)?;
        Ok(Some((question, verdicts)))
    }

    /// How often the admission policy failed, and everything was kept.
    pub(crate) fn gate_failures(&self) -> u64 {
        self.gatekeeper.as_ref().map_or(0, Gatekeeper::failures)
    }
}
