//! What a step changes, in order; it has been checked.

use super::super::{Allocation, Manager};
use super::{Growth, Step, StepResult, Waiting};
use crate::error::{Error, Result};
use crate::request::Attempt;
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// The first half of a step that `check_step` has just passed: all but growth and allocations.
    ///
    /// # Errors
    /// As [`Manager::step`], half-way through, if it was not checked.
    pub fn settle(&mut self, step: &Step<'_>) -> Result<StepResult> {
        if let Some(fence) = step.passed {
            self.pass(fence);
        }
        self.fence_up(step.fence);
        let mut outcome = StepResult::default();
        let settled = self.settle_into(step, &mut outcome);
        self.fence_down();
        settled.map(|()| outcome)
    }

    fn settle_into(&mut self, step: &Step<'_>, outcome: &mut StepResult) -> Result<()> {
        for &ticket in step.done {
            self.done(ticket)?;
        }
        for &ticket in step.failed {
            outcome.rewound.extend(self.failed(ticket)?);
        }
        for &(ticket, blocks) in step.loaded {
            outcome.rewound.extend(self.loaded(ticket, blocks)?);
        }
        for &(seq, len) in step.truncate {
            self.cut(seq, len)?;
        }
        for &(seq, tokens) in step.fill {
            self.fill_placeholders(seq, tokens)?;
        }
        let settles = !(step.done.is_empty() && step.failed.is_empty() && step.loaded.is_empty())
            || self.transfers.tickets().has_joined();
        for &(seq, upto) in step.commit {
            let upto = if settles || self.transfers.has_rewound() {
                self.still_possible(seq, upto)?
            } else {
                upto
            };
            self.commit(seq, upto)?;
        }
        for &seq in step.fork {
            outcome.forks.push(self.fork(seq)?);
        }
        for &seq in step.release {
            self.release(seq)?;
        }
        for &seq in step.preempt {
            outcome.preempted.push(self.preempt(seq)?);
        }
        outcome.rewound.append(&mut self.transfers.take_rewound());
        outcome.remapped.append(&mut self.remapped);
        Ok(())
    }

    /// A failed copy may have cut the sequence below what its engine thinks is computed, and a load
    /// or a computation that it joined may have brought more.
    fn still_possible(&self, seq: SeqId, upto: u32) -> Result<u32> {
        let sequence = self.sequences.get(seq)?;
        Ok(upto.min(sequence.len).max(sequence.committed))
    }

    /// The second half: goes on where `outcome` ends. What it refuses is in there. Each append is
    /// `told`: its place; unless it was refused, its sequence and whether tables may have changed.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again.
    pub fn grow(
        &mut self,
        step: &Step<'_>,
        outcome: &mut StepResult,
        mut told: impl FnMut(usize, Option<(&Sequence, bool)>),
    ) -> Result<()> {
        while let Some(&(seq, ids)) = step.append.get(outcome.appended) {
            let (place, tokens) = (outcome.appended, ids.len() as u32);
            let fits = tokens <= outcome.left(step);
            if let Some(sequence) = fits.then(|| self.append_in_place(seq, ids)).flatten() {
                outcome.spent += tokens;
                outcome.appended += 1;
                told(place, Some((sequence, false)));
                self.note_grown(seq);
                continue;
            }
            let tried = if fits { self.append_anywhere(seq, ids) } else { Err(Error::NotTried) };
            if let Err(error) = wanted(tried)? {
                outcome.refuse(Growth::Append, place, error);
                told(place, None);
            } else {
                outcome.spent += tokens;
                told(place, self.sequences.get(seq).ok().map(|s| (s, true)));
            }
            outcome.appended += 1;
        }
        while let Some(&(seq, until)) = step.extend.get(outcome.extended.len()) {
            let has = self.sequences.get(seq).map_or(0, |s| s.len);
            let mut until = until.min(has.saturating_add(outcome.left(step)));
            if step.batch_tokens.is_some() && until > has {
                // A budget may have cut it where its own step is too long for the pool.
                until = self.longest_alone(seq, until)?;
            }
            let grown = wanted(self.extend(seq, until))?;
            if let Err(error) = grown {
                outcome.refuse(Growth::Extend, outcome.extended.len(), error);
                outcome.extended.push(has);
            } else {
                outcome.spent += until - has;
                outcome.extended.push(until);
            }
        }
        while let Some(request) = step.allocate.get(outcome.allocated.len()) {
            if outcome.allocates_more(step) {
                self.allocate_next(step, outcome, &request.into())?;
            } else {
                outcome.refuse_allocation(Error::NotTried);
            }
        }
        Ok(())
    }

    /// Tries the next allocation of a step, one that does not stand in [`Step::allocate`] too; not where
    /// [`StepResult::allocates_more`] is false.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again.
    pub fn allocate_next(
        &mut self,
        step: &Step<'_>,
        outcome: &mut StepResult,
        request: &Attempt<'_>,
    ) -> Result<()> {
        let budget = request.budget.min(outcome.left_for_allocations(step));
        match wanted(self.allocate(Attempt { budget, ..*request }))? {
            Ok(allocation) => {
                let tokens = left_of(&allocation);
                outcome.spent = outcome.spent.saturating_add(tokens);
                outcome.spent_on_allocations = outcome.spent_on_allocations.saturating_add(tokens);
                outcome.allocated.push(Some(allocation));
            }
            Err(error) => outcome.refuse_allocation(error),
        }
        Ok(())
    }

    /// Enters `error` for the next growth in line: what it needed cannot be had.
    pub fn refuse_next(&self, step: &Step<'_>, outcome: &mut StepResult, error: Error) {
        if outcome.appended < step.append.len() {
            outcome.refuse(Growth::Append, outcome.appended, error);
            outcome.appended += 1;
        } else if let Some(&(seq, _)) = step.extend.get(outcome.extended.len()) {
            outcome.refuse(Growth::Extend, outcome.extended.len(), error);
            outcome.extended.push(self.sequences.get(seq).map_or(0, |s| s.len));
        } else if outcome.allocated.len() < step.allocate.len() {
            outcome.refuse_allocation(error);
        }
    }

    /// How many victims the growth of a step may need, from above: what it takes at the most, less
    /// what is free. Of the requests of `queue`, those are looked at that there may be room for.
    pub fn step_shortage(&self, step: &Step<'_>, queue: impl Iterator<Item = Waiting>) -> u32 {
        let more = |seq: SeqId, until: &dyn Fn(u64) -> u64| {
            self.sequences.get(seq).map_or(0, |sequence| {
                let until = u32::try_from(until(u64::from(sequence.len))).unwrap_or(u32::MAX);
                let blocks = |len| self.layout.blocks(len, 0);
                // One more for a copy of what is shared is found when it is needed.
                blocks(until).saturating_sub(blocks(sequence.len))
            })
        };
        let appended = step.append.iter().map(|&(s, t)| more(s, &|len| len + t.len() as u64));
        let extended = step.extend.iter().map(|&(s, until)| more(s, &|_| u64::from(until)));
        if !self.store.accounts().is_empty() {
            // Whose blocks go depends on whose turn it is: each is asked for when it is needed.
            return 0;
        }
        let available = u64::from(self.pool().available());
        let mut blocks = appended.chain(extended).sum::<u64>();
        // However a budget is shared out, each allocation rounds it up once.
        let (mut admitted, mut rounding, mut budget) = (0, 0, step.token_budget);
        for request in queue {
            let most = budget.map_or(u64::MAX, |budget| self.layout.blocks(budget, 0) + rounding);
            if blocks >= available || blocks + admitted.min(most) >= available || admitted > most {
                break;
            }
            let Waiting { tokens, chunk, brought, until, encoder } = request;
            let until = tokens.min(u64::from(chunk) + u64::from(brought)).min(u64::from(until));
            admitted += self.layout.blocks(u32::try_from(until).unwrap_or(u32::MAX), 0);
            blocks += self.layout.blocks(0, encoder);
            budget = budget.map(|budget| budget.saturating_add(brought));
            rounding += self.layout.groups().len() as u64;
        }
        let most = budget.map_or(u64::MAX, |budget| self.layout.blocks(budget, 0) + rounding);
        let blocks = (blocks + admitted.min(most)).min(available) as u32;
        blocks.saturating_sub(self.pool().free())
    }
}

/// Passes on the want of victims, which is no refusal yet.
fn wanted<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(Error::NeedVictims { n }) => Err(Error::NeedVictims { n }),
        settled => Ok(settled),
    }
}

/// Tokens with slots that an allocation leaves to be computed.
fn left_of(allocation: &Allocation) -> u32 {
    let spared = allocation.cached_tokens + allocation.joined_tokens + allocation.external_tokens;
    allocation.granted_tokens.saturating_sub(spared)
}
