//! One scheduler step in one call.

mod check;
mod run;

pub use check::Extent;

use super::grow::Ids;
use super::{Allocation, Manager, Remap};
use crate::error::{Error, Result};
use crate::policy::Consult;
use crate::request::Request;
use crate::sequence::{SeqId, Sequence};
use crate::transfers::CopyPlan;

/// Everything a scheduler step changes, in the order it is carried out: settled tickets give pages
/// back, sequences are cut, commits make blocks findable, ended sequences make room, then running
/// sequences grow and new ones come in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step<'a> {
    /// Tickets whose copies are ordered.
    pub done: &'a [u64],
    /// Tickets whose copies failed.
    pub failed: &'a [u64],
    /// Loads that ended, with their first blocks good.
    pub loaded: &'a [(u64, u32)],
    /// New lengths of sequences that are cut.
    pub truncate: &'a [(SeqId, u32)],
    /// Ids of tokens that were appended without.
    pub fill: &'a [(SeqId, &'a [u32])],
    /// Lengths computed and accepted.
    pub commit: &'a [(SeqId, u32)],
    /// Sequences to fork, as they are now.
    pub fork: &'a [SeqId],
    /// Sequences that end; they may be cut, committed and forked in the same step.
    pub release: &'a [SeqId],
    /// Sequences that end for now, as `release`.
    pub preempt: &'a [SeqId],
    /// Where steps are in flight: the last that may touch what is released or cut here, or lost with
    /// a copy that failed. Such blocks wait until it has passed.
    pub fence: Option<u64>,
    /// Steps up to this one have run; what waited for them is dropped first.
    pub passed: Option<u64>,
    /// Sequences that grow: tokens after what is known.
    pub append: &'a [(SeqId, Ids<'a>)],
    /// Sequences whose known tokens get slots up to a length (chunked prefill).
    pub extend: &'a [(SeqId, u32)],
    /// Requests that ask to come in.
    pub allocate: &'a [Request],
    /// Tokens that the allocations may leave to be computed, all together.
    pub token_budget: Option<u32>,
    /// Tokens that the step may give slots to be computed, all together: appended ones are all or
    /// nothing, an extension is cut to what is left, and so is an allocation's chunk.
    pub batch_tokens: Option<u32>,
    /// Try requests behind one that was refused; otherwise the first refusal of any growth keeps
    /// all allocations behind it out, first come first served.
    pub skip_refused: bool,
}

/// What says how many blocks a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// Tokens of the prompt.
    pub tokens: u64,
    /// See [`Request::chunk`].
    pub chunk: u32,
    /// Tokens whose KV comes from elsewhere.
    pub brought: u32,
    /// See [`Request::until`].
    pub until: u32,
    /// Tokens of its other input.
    pub encoder: u32,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { tokens: 0, chunk: u32::MAX, brought: 0, until: u32::MAX, encoder: 0 }
    }
}

impl Waiting {
    /// Of a request.
    pub fn of(request: &Request) -> Self {
        Self {
            tokens: u64::from(request.len()),
            chunk: request.chunk,
            brought: request.num_external_tokens.max(request.external_until),
            until: request.until,
            encoder: request.encoder_tokens,
        }
    }
}

/// A way for a sequence to get slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// [`Step::append`].
    Append,
    /// [`Step::extend`].
    Extend,
    /// [`Step::allocate`].
    Allocate,
}

/// A growth that was refused; its sequence, and every other, is as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which list of the step it is in.
    pub growth: Growth,
    /// Its place there.
    pub place: usize,
    /// Why.
    pub error: Error,
}

/// What a step did.
#[derive(Debug, Default)]
pub struct StepResult {
    /// Sequences cut because their copy failed, not all of their load came, or a computation that
    /// they joined was cut.
    pub rewound: Vec<SeqId>,
    /// Table entries that changed because the block was findable already.
    pub remapped: Vec<Remap>,
    /// The fork of each sequence that was to be forked.
    pub forks: Vec<SeqId>,
    /// What was preempted, without blocks.
    pub preempted: Vec<Sequence>,
    /// Appends tried; those not in `refused` were carried out.
    pub appended: usize,
    /// Per extension, the length that has slots now.
    pub extended: Vec<u32>,
    /// Per allocation.
    pub allocated: Vec<Option<Allocation>>,
    /// What was not granted, in the order tried.
    pub refused: Vec<Refusal>,
    /// Copies to run before this step's writes.
    pub plan: Option<CopyPlan>,
    /// Tokens that got slots to be computed.
    spent: u32,
    /// Of those, tokens of allocations.
    spent_on_allocations: u32,
}

impl StepResult {
    fn refuse(&mut self, growth: Growth, place: usize, error: Error) {
        self.refused.push(Refusal { growth, place, error });
    }

    /// The allocation in line is refused.
    pub fn refuse_allocation(&mut self, error: Error) {
        self.refuse(Growth::Allocate, self.allocated.len(), error);
        self.allocated.push(None);
    }

    /// Whether the allocation in line is tried: nothing before it was refused, or refusals are
    /// skipped, and tokens are left.
    pub fn allocates_more(&self, step: &Step<'_>) -> bool {
        let kept_out = !self.refused.is_empty() && !step.skip_refused;
        !kept_out && self.left_for_allocations(step) > 0
    }

    /// Tokens that the allocation in line may leave to be computed.
    fn left_for_allocations(&self, step: &Step<'_>) -> u32 {
        let spent = self.spent_on_allocations;
        let left = step.token_budget.map_or(u32::MAX, |budget| budget.saturating_sub(spent));
        left.min(self.left(step))
    }

    /// Tokens of [`Step::batch_tokens`] that are left.
    fn left(&self, step: &Step<'_>) -> u32 {
        step.batch_tokens.map_or(u32::MAX, |all| all.saturating_sub(self.spent))
    }
}

impl Manager {
    /// Carries a step out. What concerns sequences that exist is checked first: a bad handle, a
    /// bad length or a bad ticket refuses the whole step before anything moves. Want of room
    /// refuses only the growth or allocation concerned.
    ///
    /// # Errors
    /// The first thing wrong, as the single verbs say it.
    pub fn step(&mut self, step: &Step<'_>) -> Result<StepResult> {
        self.check_step(step, &mut Vec::new())?;
        let mut outcome = self.settle(step)?;
        while let Err(Error::NeedVictims { n }) = self.grow(step, &mut outcome, |_, _| {}) {
            if !self.decide(n) && !self.fall_back(n as usize) {
                self.refuse_next(step, &mut outcome, Error::PolicyFailed);
            }
        }
        self.settle_choice();
        outcome.plan = self.take_plan();
        self.watch();
        Ok(outcome)
    }
}
