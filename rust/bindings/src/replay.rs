//! `replay`: a trace through the manager, and its link to policies in Python.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kvframe_core::manager::Due;
use kvframe_core::policy::Consult;
use kvframe_core::{Manager as Core, Request, SeqId};
use kvframe_trace::Mode;
use kvframe_trace::replay::{Host, Outcome, PreparedTrace, RequestOutcome};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::args::Capacity;
use crate::policy::admission::{Admission, Question, UNSET, make_admission};
use crate::policy::eviction::{Policy, make_policy};
use crate::policy::host::Outside;
use crate::policy::native;
use crate::policy::prefix::answer_for;
use crate::trace::{Trace, mode_of};

/// A replay's link to Python: interrupts, and a policy's verdicts.
struct Link {
    outside: Outside,
    admission: Admission,
    question: Option<Question>,
    matcher: Option<Py<PyAny>>,
    error: Option<PyErr>,
    asked: Instant,
    served: Vec<RequestOutcome>,
}

fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

impl Host for Link {
    fn stop(&mut self) -> bool {
        if self.asked.elapsed() < Duration::from_millis(20) {
            return false;
        }
        self.asked = Instant::now();
        self.error = Python::attach(check_signals).err();
        self.error.is_some()
    }

    fn served(&mut self, outcome: RequestOutcome) {
        self.served.push(outcome);
    }

    fn judge(&mut self, manager: &mut Core, n: u32) -> bool {
        let policy = match &self.outside {
            Outside::Nothing => return false,
            Outside::Native(_) => return manager.decide(n),
            Outside::Python(policy) => policy,
        };
        let mut decision = policy.decision(n as usize);
        manager.consult(policy.window(), &mut decision);
        match Python::attach(|py| policy.ask(py, &decision)) {
            Ok(choice) => manager.decided(decision.n, choice.as_ref()),
            Err(error) => self.error = Some(error),
        }
        policy.done_with(decision);
        self.error.is_none()
    }

    fn find(&mut self, manager: &mut Core, request: &Request) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        match Python::attach(|py| answer_for(matcher.bind(py), manager, request)) {
            Ok(answer) => manager.answer(&request.keys, answer),
            Err(error) => self.error = Some(error),
        }
        self.error.is_none()
    }

    fn admit(&mut self, manager: &mut Core, seq: SeqId, upto: u32) -> bool {
        let Some(policy) = &self.admission.python else { return true };
        let due = Due { seq, upto: Some(upto), cut: None, fill: &[] };
        let Some(question) = Question::gather(manager, &[due]) else { return true };
        match Python::attach(|py| policy.ask(py, &question, UNSET)) {
            Ok(verdicts) => question.answer(manager, &verdicts),
            Err(error) => self.error = Some(error),
        }
        self.question = Some(question);
        self.error.is_none()
    }

    fn admitted(&mut self, manager: &mut Core) {
        if let Some(question) = self.question.take() {
            question.close(manager);
        }
    }
}

/// Replays a trace through the manager: admit, commit, release, one request at a time, or (`mode`
/// "timed") by the clock, beside those that still run.
///
/// `policy` and `admission` are a built-in's name or a driver of a Python policy; `capacity` counts blocks, None
/// holds everything. Returns what was counted, a dict. With `per_request` it has arrays as well, an entry a request:
/// `request_hit_tokens` and `request_after_gap_tokens` (uint32), and in timed mode `request_ttft_seconds` (float64,
/// NaN for a request larger than the cache).
#[pyfunction]
#[pyo3(signature = (trace, policy, capacity, mode, options=None, *, log=false, per_request=false, admission=None, admission_options=None, matcher=None))]
pub fn replay<'py>(
    py: Python<'py>,
    trace: &Trace,
    policy: &Bound<'py, PyAny>,
    capacity: Option<Capacity>,
    mode: &str,
    options: Option<&Bound<'py, PyDict>>,
    log: bool,
    per_request: bool,
    admission: Option<&Bound<'py, PyAny>>,
    admission_options: Option<&Bound<'py, PyDict>>,
    matcher: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let mode = mode_of(py, mode)?;
    let Policy { eviction, outside, name } = make_policy(py, policy, options)?;
    let (gate, admission) = make_admission(py, admission, admission_options)?;
    let mirrored = match &matcher {
        Some(matcher) => Some(matcher.getattr("is_index")?.extract::<bool>()?),
        None => None,
    };
    let mut link = Link {
        outside,
        admission,
        question: None,
        matcher: matcher.map(Bound::unbind),
        error: None,
        asked: Instant::now(),
        served: Vec::with_capacity(trace.inner.requests.len()),
    };
    let capacity = if name == "infinite" { None } else { capacity.map(|c| c.0) };
    let (plan, prepare_seconds) = trace.with_plan(py, mode, |plan, s| (Arc::clone(plan), s))?;
    let replayed = py.detach(|| {
        let prepared = PreparedTrace::new(&trace.inner, mode, &plan);
        let mut options = prepared.options(capacity)?;
        options.event_log = log;
        let mut manager = Core::new(options, eviction)?.with_admission(gate);
        if let Some(mirrored) = mirrored {
            manager = manager.with_matcher(mirrored);
        }
        let outcome = prepared.drive(&mut manager, &mut link)?;
        Ok((outcome, manager))
    });
    let (outcome, mut manager) =
        replayed.map_err(|e| native::from_core(py, &e, link.outside.native()))?;
    if let Some(error) = link.error {
        return Err(error);
    }
    if let Some(native) = link.outside.native().filter(|native| native.failures() > 0) {
        if native.is_strict() {
            return Err(native.refusal(py));
        }
        native.report(py);
    }
    let Some(outcome) = outcome else {
        return Err(crate::errors::raise(py, "PolicyError", "the replay was stopped".into()));
    };
    let dict = outcome_dict(py, &outcome)?;
    dict.set_item("prepare_seconds", prepare_seconds)?;
    let gate = manager.admission_counts();
    dict.set_item("admission_kept", gate.kept)?;
    dict.set_item("admission_dropped", gate.dropped)?;
    dict.set_item("admission_failures", link.admission.failures())?;
    dict.set_item("policy_failures", link.outside.failures())?;
    if per_request {
        add_requests(&dict, mode, &link.served)?;
    }
    if log {
        dict.set_item("events", crate::views::events_dict(py, &manager.take_events())?)?;
    }
    Ok(dict)
}

/// The arrays of `replay`'s `per_request`.
fn add_requests(dict: &Bound<'_, PyDict>, mode: Mode, served: &[RequestOutcome]) -> PyResult<()> {
    let py = dict.py();
    let hits = served.iter().map(|r| r.hit_tokens);
    dict.set_item("request_hit_tokens", PyArray1::from_iter(py, hits))?;
    let after = served.iter().map(|r| r.after_gap_tokens);
    dict.set_item("request_after_gap_tokens", PyArray1::from_iter(py, after))?;
    if mode == Mode::Timed {
        let waits = served.iter().map(|r| r.wait);
        dict.set_item("request_ttft_seconds", PyArray1::from_iter(py, waits))?;
    }
    Ok(())
}

fn outcome_dict<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("requests", outcome.requests)?;
    dict.set_item("input_tokens", outcome.input_tokens)?;
    dict.set_item("hit_tokens", outcome.hit_tokens)?;
    dict.set_item("input_tokens_last_half", outcome.input_tokens_last_half)?;
    dict.set_item("hit_tokens_last_half", outcome.hit_tokens_last_half)?;
    dict.set_item("after_gap_hit_tokens", outcome.after_gap_hit_tokens)?;
    dict.set_item("evictions", outcome.evictions)?;
    dict.set_item("block_accesses", outcome.block_accesses)?;
    dict.set_item("block_hits", outcome.block_hits)?;
    let rate = outcome.request_hit_rates / (outcome.requests.max(1) as f64);
    dict.set_item("mean_request_hit_rate", rate)?;
    dict.set_item("rejected", outcome.rejected)?;
    dict.set_item("mean_ttft_seconds", outcome.mean_wait)?;
    dict.set_item("p95_ttft_seconds", outcome.late_wait)?;
    dict.set_item("seconds", outcome.seconds)?;
    Ok(dict)
}
