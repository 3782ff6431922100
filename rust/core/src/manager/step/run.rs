//! What a step changes, in order; it has been checked.

use super::super::{Admission, Grant, Manager};
use super::{Growth, Step, StepOutcome};
use crate::error::{Error, Result};
use crate::sequence::{SeqId, Sequence};

impl Manager {
    /// The first half of a step that `check_step` has just passed: all but growth and admissions.
    ///
    /// # Errors
    /// As [`Manager::step`], half-way through, if it was not checked.
    pub fn settle(&mut self, step: &Step<'_>) -> Result<StepOutcome> {
        if let Some(fence) = step.passed {
            self.pass(fence);
        }
        self.fence_up(step.fence);
        let mut outcome = StepOutcome::default();
        let settled = self.settle_into(step, &mut outcome);
        self.fence_down();
        settled.map(|()| outcome)
    }

    fn settle_into(&mut self, step: &Step<'_>, outcome: &mut StepOutcome) -> Result<()> {
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
            self.fill(seq, tokens)?;
        }
        let settles = !(step.done.is_empty() && step.failed.is_empty() && step.loaded.is_empty())
            || self.tickets.has_joined();
        for &(seq, upto) in step.commit {
            let upto = if settles || !self.rewound.is_empty() {
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
        outcome.rewound.append(&mut self.rewound);
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
        outcome: &mut StepOutcome,
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
        while let Some(request) = step.admit.get(outcome.admitted.len()) {
            let spent = outcome.spent_on_admissions;
            let left = step.token_budget.map_or(u32::MAX, |budget| budget.saturating_sub(spent));
            let left = left.min(outcome.left(step));
            let kept_out = !outcome.refused.is_empty() && !step.skip_refused;
            let tried = if left == 0 || kept_out {
                Err(Error::NotTried)
            } else {
                self.admit(&Admission { budget: request.budget.min(left), ..*request })
            };
            match wanted(tried)? {
                Ok(grant) => {
                    let tokens = left_of(&grant);
                    outcome.spent = outcome.spent.saturating_add(tokens);
                    outcome.spent_on_admissions = spent.saturating_add(tokens);
                    outcome.admitted.push(Some(grant));
                }
                Err(error) => {
                    outcome.refuse(Growth::Admit, outcome.admitted.len(), error);
                    outcome.admitted.push(None);
                }
            }
        }
        Ok(())
    }

    /// Enters `error` for the next growth in line: what it needed cannot be had.
    pub fn refuse_next(&self, step: &Step<'_>, outcome: &mut StepOutcome, error: Error) {
        if outcome.appended < step.append.len() {
            outcome.refuse(Growth::Append, outcome.appended, error);
            outcome.appended += 1;
        } else if let Some(&(seq, _)) = step.extend.get(outcome.extended.len()) {
            outcome.refuse(Growth::Extend, outcome.extended.len(), error);
            outcome.extended.push(self.sequences.get(seq).map_or(0, |s| s.len));
        } else if outcome.admitted.len() < step.admit.len() {
            outcome.refuse(Growth::Admit, outcome.admitted.len(), error);
            outcome.admitted.push(None);
        }
    }

    /// How many victims the growth of a step may need, from above: what it takes at the most, less
    /// what is free.
    pub fn step_shortage(&self, step: &Step<'_>) -> u32 {
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
        let brought = |r: &Admission<'_>| r.external.max(r.external_until);
        // However it is shared out, each admission rounds it up once.
        let budget = step.token_budget.map_or(u64::MAX, |budget| {
            let brought = step.admit.iter().map(brought).fold(budget, u32::saturating_add);
            let groups = self.layout.groups().len() as u64;
            self.layout.blocks(brought, 0) + groups * step.admit.len() as u64
        });
        let admitted = step.admit.iter().map(|request| {
            let known = request.prompt.tokens.len().max(request.prompt.len as usize) as u64;
            let chunk = u64::from(request.chunk) + u64::from(brought(request));
            let until = known.min(chunk).min(u64::from(request.until));
            self.layout.blocks(u32::try_from(until).unwrap_or(u32::MAX), 0)
        });
        let encoders: u64 =
            step.admit.iter().map(|r| self.layout.blocks(0, r.encoder_tokens)).sum();
        let blocks = appended.chain(extended).sum::<u64>() + admitted.sum::<u64>().min(budget);
        let blocks = (blocks + encoders).min(u64::from(self.pool.available())) as u32;
        blocks.saturating_sub(self.pool.free())
    }
}

/// Passes on the want of victims, which is no refusal yet.
fn wanted<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(Error::NeedVictims { n }) => Err(Error::NeedVictims { n }),
        settled => Ok(settled),
    }
}

/// Tokens with slots that a grant leaves to be computed.
fn left_of(grant: &Grant) -> u32 {
    let spared = grant.cached_tokens + grant.joined_tokens + grant.external_tokens;
    grant.granted_tokens.saturating_sub(spared)
}
