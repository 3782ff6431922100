//! How answers are drafted, from Python.

use kvframe_server::{Acceptance, DraftPolicy, Drafter, MeasuredSteps, Round, Speculation, Switch};
use pyo3::prelude::*;

use crate::errors::usage;
use crate::serve::named;

const POLICIES: [(&str, DraftPolicy); 4] = [
    ("fixed", DraftPolicy::Fixed),
    ("goodput-budget", DraftPolicy::GoodputBudget),
    ("gated-budget", DraftPolicy::GatedBudget),
    ("gated-aggregate", DraftPolicy::GatedAggregate),
];

/// Seconds of a token's operations, to read what each pass reads, and to read one expert; experts, those that a token
/// takes, and those that every token takes.
type PassesTuple = (f64, f64, f64, u32, u32, u32);

/// At most `drafts` of a sequence in a step. One of `accept`, the probability of each draft, `places`, that of each
/// place, and `rounds`, what was right in a round and how likely the drafter took each draft to be. Drafting takes
/// the share `cost` of the step for each draft, or is `passes` of a small model, or a `block`: seconds of one
/// sequence's operations, and to read the weights. `measured` has rows (sequences, drafts of each, seconds) of
/// steps at `context` tokens a sequence. `switch` says every how many steps the number is weighed anew, by how much it
/// changes, and the seconds of that.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SpeculationTable {
    drafts: u32,
    #[pyo3(default)]
    accept: Option<f64>,
    #[pyo3(default)]
    places: Option<Vec<f64>>,
    #[pyo3(default)]
    rounds: Option<Vec<(u32, Vec<f64>)>>,
    #[pyo3(default)]
    cost: f64,
    #[pyo3(default)]
    passes: Option<PassesTuple>,
    #[pyo3(default)]
    block: Option<(f64, f64)>,
    #[pyo3(default)]
    policy: Option<String>,
    #[pyo3(default)]
    switch: Option<(u32, Option<u32>, f64)>,
    #[pyo3(default)]
    measured: Option<Vec<(u32, u32, f64)>>,
    #[pyo3(default)]
    context: Option<u32>,
}

impl SpeculationTable {
    pub fn checked(self, py: Python<'_>) -> PyResult<Speculation> {
        let refuse = |what: String| Err(usage(py, format!("speculation: {what}")));
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let is_time = |seconds: &f64| *seconds >= 0.0 && seconds.is_finite();
        if self.drafts == 0 {
            return refuse("drafts = 0: must be 1 or more".into());
        }
        let acceptance = match (self.accept, self.places, self.rounds) {
            (Some(accept), None, None) => Acceptance::Each(accept),
            (None, Some(places), None) => Acceptance::Places(places),
            (None, None, Some(rounds)) if !rounds.is_empty() => {
                let round = |(right, told)| Round { right, told };
                Acceptance::Rounds(rounds.into_iter().map(round).collect())
            }
            _ => return refuse("must have one of accept, places and rounds".into()),
        };
        let shares: Vec<f64> = match &acceptance {
            Acceptance::Each(share) => vec![*share],
            Acceptance::Places(shares) => shares.clone(),
            Acceptance::Rounds(rounds) => {
                rounds.iter().flat_map(|round| &round.told).copied().collect()
            }
        };
        if let Some(share) = shares.iter().find(|share| !is_share(share)) {
            return refuse(format!("accept = {share}: must be 0 to 1"));
        }
        let drafter = match (self.passes, self.block) {
            (None, None) => Drafter::Share(self.cost),
            (Some((token, dense, expert, of, used, shared)), None) => {
                Drafter::Autoregressive { token, dense, expert, experts: (of, used, shared) }
            }
            (None, Some((sequence, weights))) => Drafter::Block { sequence, weights },
            _ => return refuse("must have one of passes and block".into()),
        };
        let times = match drafter {
            Drafter::Share(cost) => vec![cost],
            Drafter::Autoregressive { token, dense, expert, .. } => vec![token, dense, expert],
            Drafter::Block { sequence, weights } => vec![sequence, weights],
        };
        let (cooldown, max_step, cost) = self.switch.unwrap_or_default();
        if !times.iter().chain([&cost]).all(is_time) {
            return refuse(format!("{drafter:?}, switch {cost}: must be 0 or more"));
        }
        let measured = match self.measured {
            None => None,
            Some(rows)
                if rows.iter().all(|&(_, _, seconds)| seconds > 0.0 && seconds.is_finite()) =>
            {
                MeasuredSteps::new(&rows, self.context)
            }
            Some(_) => return refuse("measured: seconds must be above 0".into()),
        };
        let policy = self.policy.as_deref().unwrap_or("fixed");
        Ok(Speculation {
            drafts: self.drafts,
            acceptance,
            drafter,
            policy: named(py, "speculation: policy", policy, &POLICIES)?,
            switch: Switch { cooldown, max_step, cost },
            measured,
        })
    }
}
