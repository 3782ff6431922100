//! A core that a trace drives: its policies made from what Python said, and its link to those in Python.

use std::time::{Duration, Instant};

use kvframe_core::manager::Due;
use kvframe_core::policy::admission::{Admit, Ask, Offer, Verdict};
use kvframe_core::policy::{Consult, Eviction};
use kvframe_core::tier::TierPages;
use kvframe_core::{Error, Key, Manager as Core, Options, Request, SeqId};
use kvframe_trace::replay::{Host, RequestOutcome};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::policy::admission::{Admission, Question, UNSET, make_admission};
use crate::policy::eviction::{Policy, make_policies};
use crate::policy::host::Outside;
use crate::policy::native;
use crate::policy::prefix::answer_for;
use crate::served_tiers::OutsideTier;

/// What Python said of the policies: an eviction policy's name or driver and its options, the same of
/// an admission policy, and a driver of a matcher.
pub(crate) struct Asked<'a, 'py> {
    pub(crate) policy: &'a Bound<'py, PyAny>,
    pub(crate) options: Option<&'a Bound<'py, PyDict>>,
    pub(crate) admission: Option<&'a Bound<'py, PyAny>>,
    pub(crate) admission_options: Option<&'a Bound<'py, PyDict>>,
    pub(crate) matcher: Option<Bound<'py, PyAny>>,
    /// Tenants that are told apart.
    pub(crate) tenants: usize,
}

/// Policies, ready to drive one core.
pub(crate) struct Driver {
    eviction: Box<dyn Eviction>,
    gate: Option<Box<dyn Admit>>,
    /// Whether the matcher, if there is one, mirrors the index.
    mirrored: Option<bool>,
    link: Link,
    /// The policy is a bound without a capacity.
    pub(crate) is_infinite: bool,
}

/// What a drive left.
pub(crate) struct Driven<T> {
    pub(crate) got: T,
    pub(crate) manager: Core,
    pub(crate) policy_failures: u64,
    pub(crate) admission_failures: u64,
    /// What came of each request that a replay served.
    pub(crate) served: Vec<RequestOutcome>,
}

/// The link to Python: interrupts, and a policy's verdicts.
pub(crate) struct Link {
    outside: Outside,
    admission: Admission,
    question: Option<Question>,
    matcher: Option<Py<PyAny>>,
    error: Option<PyErr>,
    interrupts: Interrupts,
    served: Vec<RequestOutcome>,
    /// Of the tiers below the pool.
    tiers: Vec<OutsideTier>,
}

/// Checks at intervals whether Python was interrupted.
pub(crate) struct Interrupts {
    error: Option<PyErr>,
    asked: Instant,
}

impl Default for Interrupts {
    fn default() -> Self {
        Self { error: None, asked: Instant::now() }
    }
}

impl Interrupts {
    /// The interrupt that stopped the work, if one did.
    pub(crate) fn raised(&mut self) -> PyResult<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Host for Interrupts {
    fn stop(&mut self) -> bool {
        if self.asked.elapsed() < Duration::from_millis(20) {
            return false;
        }
        self.asked = Instant::now();
        self.error = Python::attach(check_signals).err();
        self.error.is_some()
    }
}

impl Driver {
    pub(crate) fn new(py: Python<'_>, asked: Asked<'_, '_>) -> PyResult<Self> {
        let (policy, options, n) = (asked.policy, asked.options, asked.tenants);
        let Policy { eviction, outside, name, .. } = make_policies(py, policy, options, n)?;
        let (gate, admission) = make_admission(py, asked.admission, asked.admission_options, n)?;
        let mirrored = match &asked.matcher {
            Some(matcher) => Some(matcher.getattr("is_index")?.extract::<bool>()?),
            None => None,
        };
        let link = Link {
            outside,
            admission,
            question: None,
            matcher: asked.matcher.map(Bound::unbind),
            error: None,
            interrupts: Interrupts::default(),
            served: Vec::new(),
            tiers: Vec::new(),
        };
        Ok(Self { eviction, gate, mirrored, link, is_infinite: name == "infinite" })
    }

    /// The same with policies of tiers below the pool.
    pub(crate) fn with_tiers(mut self, tiers: Vec<OutsideTier>) -> Self {
        self.link.tiers = tiers;
        self
    }

    /// A core with these options, and its link to the policies; the link alone where there can be none.
    fn start(self, options: Options) -> Result<(Core, Link), Box<(Error, Link)>> {
        let Self { eviction, gate, mirrored, link, .. } = self;
        match Core::new(options, eviction) {
            Ok(manager) => {
                let manager = manager.with_admission(gate);
                let matched = match mirrored {
                    Some(mirrored) => manager.with_matcher(mirrored),
                    None => manager,
                };
                Ok((matched, link))
            }
            Err(error) => Err(Box::new((error, link))),
        }
    }

    /// Does `work` on several cores with the same options, each with a driver of its own, without the
    /// interpreter. `work` answers None where a link stopped it: what Python raised is raised here.
    pub(crate) fn run_all<T: Send>(
        py: Python<'_>,
        drivers: Vec<Self>,
        options: Result<Options, Error>,
        work: impl Send + FnOnce(&mut [(Core, Link)]) -> Result<Option<T>, Error>,
    ) -> PyResult<T> {
        let options = options.map_err(|error| native::from_core(py, &error, None))?;
        let started = py.detach(|| {
            let started = drivers.into_iter().map(|driver| driver.start(options.clone()));
            started.collect::<Result<Vec<_>, _>>()
        });
        let mut cores = started
            .map_err(|failed| native::from_core(py, &failed.0, failed.1.outside.native()))?;
        let done = py.detach(|| work(&mut cores));
        let native = cores.iter().find_map(|(_, link)| link.outside.native());
        let got = done.map_err(|error| native::from_core(py, &error, native))?;
        cores.iter_mut().try_for_each(|(_, link)| link.settle(py))?;
        got.ok_or_else(|| stopped(py))
    }

    /// Does `work` on a core with these options, without the interpreter. `work` answers None where
    /// the link stopped it: what Python raised is raised here.
    pub(crate) fn run<T: Send>(
        self,
        py: Python<'_>,
        options: Result<Options, Error>,
        work: impl Send + FnOnce(&mut Core, &mut Link) -> Result<Option<T>, Error>,
    ) -> PyResult<Driven<T>> {
        let options = options.map_err(|error| native::from_core(py, &error, None))?;
        let started = py.detach(|| self.start(options));
        let (mut manager, mut link) = started
            .map_err(|failed| native::from_core(py, &failed.0, failed.1.outside.native()))?;
        let done = py.detach(|| work(&mut manager, &mut link));
        let got = done.map_err(|e| native::from_core(py, &e, link.outside.native()))?;
        link.settle(py)?;
        Ok(Driven {
            got: got.ok_or_else(|| stopped(py))?,
            manager,
            policy_failures: link.outside.failures(),
            admission_failures: link.admission.failures(),
            served: link.served,
        })
    }
}

fn stopped(py: Python<'_>) -> PyErr {
    crate::errors::raise(py, "PolicyError", "the replay was stopped".into())
}

impl Link {
    /// Raises what Python raised, and says where a compiled policy failed.
    fn settle(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let outside = self.tiers.iter().map(|tier| &tier.eviction).chain([&self.outside]);
        for native in outside.flat_map(Outside::natives).filter(|native| native.failures() > 0) {
            if native.is_strict() {
                return Err(native.refusal(py));
            }
            native.report(py);
        }
        Ok(())
    }
}

fn check_signals(py: Python<'_>) -> PyResult<()> {
    py.check_signals()
}

impl Host for Link {
    fn stop(&mut self) -> bool {
        let stops = self.interrupts.stop();
        self.error = self.error.take().or_else(|| self.interrupts.raised().err());
        stops
    }

    fn served(&mut self, outcome: RequestOutcome) {
        self.served.push(outcome);
    }

    fn judge(&mut self, manager: &mut Core, n: u32) -> bool {
        let judged = judged(&self.outside, manager, n);
        self.kept(judged)
    }

    fn judge_tier(&mut self, place: usize, pages: &mut TierPages, n: u32) -> bool {
        let judged = judged(&self.tiers[place].eviction, pages, n);
        self.kept(judged)
    }

    fn admit_tier(
        &mut self,
        place: usize,
        (offer, ask): (&Offer, Ask),
        seen: &[Key],
    ) -> Option<Vec<Verdict>> {
        let policy = self.tiers[place].admission.as_ref()?;
        if offer.is_empty() && !policy.wants_seen() {
            return Some(Vec::new());
        }
        let question = Question { offer: offer.clone(), ask, seen: seen.to_vec() };
        match Python::attach(|py| policy.ask(py, &question, Verdict::Keep as u8)) {
            Ok(verdicts) => Some(verdicts),
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
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
        self.admit_due(manager, Due { seq, upto: Some(upto), cut: None, fill: &[] })
    }

    fn admit_load(&mut self, manager: &mut Core, ticket: u64, blocks: u32) -> bool {
        let due = manager.due_of_load(ticket, blocks);
        due.is_none_or(|due| self.admit_due(manager, due))
    }

    fn admitted(&mut self, manager: &mut Core) {
        if let Some(question) = self.question.take() {
            question.close(manager);
        }
    }
}

/// Has a policy outside the core name `n` victims. False where nothing lies outside.
fn judged(outside: &Outside, core: &mut impl Consult, n: u32) -> PyResult<bool> {
    let policy = match outside.of(core.instance()) {
        Outside::Nothing | Outside::PerTenant(_) => return Ok(false),
        Outside::Native(_) => return Ok(core.decide(n)),
        Outside::Python(policy) => policy,
    };
    let mut decision = policy.decision(n as usize);
    core.consult(policy.window(), &mut decision);
    let choice = Python::attach(|py| policy.ask(py, &decision));
    if let Ok(choice) = &choice {
        core.decided(decision.n, choice.as_ref());
    }
    policy.done_with(decision);
    choice.map(|_| true)
}

impl Link {
    /// What a policy decided; an exception is kept for the end.
    fn kept(&mut self, judged: PyResult<bool>) -> bool {
        judged.unwrap_or_else(|error| {
            self.error = Some(error);
            false
        })
    }

    /// Asks an admission policy in Python what of that may become findable.
    fn admit_due(&mut self, manager: &mut Core, due: Due<'_>) -> bool {
        let Some(policy) = &self.admission.python else { return true };
        let Some(question) = Question::gather(manager, &[due]) else { return true };
        match Python::attach(|py| policy.ask(py, &question, UNSET)) {
            Ok(verdicts) => question.answer(manager, &verdicts),
            Err(error) => self.error = Some(error),
        }
        self.question = Some(question);
        self.error.is_none()
    }
}
