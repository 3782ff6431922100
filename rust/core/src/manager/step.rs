//! One scheduler step in one call.

use super::{Admission, Grant, Manager};
use crate::error::{Error, Result};
use crate::sequence::SeqId;
use crate::tickets::Plan;

/// Everything a scheduler step changes, in the order it is carried out: settled tickets give pages
/// back, sequences are cut, commits make blocks findable, ended sequences make room, then running
/// sequences grow and new ones come in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step<'a> {
    /// Tickets whose copies are ordered.
    pub done: &'a [u64],
    /// Tickets whose copies failed.
    pub failed: &'a [u64],
    /// New lengths of sequences that are cut.
    pub truncate: &'a [(SeqId, u32)],
    /// Lengths computed and accepted.
    pub commit: &'a [(SeqId, u32)],
    /// Sequences that end or are preempted; they may be cut and committed in the same step.
    pub release: &'a [SeqId],
    /// Where steps are in flight: the last that may touch what is released or cut here, or lost with
    /// a copy that failed. Such blocks wait until it has passed.
    pub fence: Option<u64>,
    /// Steps up to this one have run; what waited for them is dropped first.
    pub passed: Option<u64>,
    /// Sequences that grow: tokens after what is known.
    pub append: &'a [(SeqId, &'a [u32])],
    /// Sequences whose known tokens get slots up to a length (chunked prefill).
    pub extend: &'a [(SeqId, u32)],
    /// Requests that ask to come in.
    pub admit: &'a [Admission<'a>],
    /// Tokens that the admissions may leave to be computed, all together.
    pub token_budget: Option<u32>,
    /// Try requests behind one that was refused; otherwise the first refusal of any growth keeps
    /// all admissions behind it out, first come first served.
    pub skip_refused: bool,
}

/// What a step did. One entry a request, in the order asked; a refusal leaves that sequence (and
/// every other) as it was.
#[derive(Debug, Default)]
pub struct StepOutcome {
    /// Sequences cut because their copy failed.
    pub rewound: Vec<SeqId>,
    /// Per append.
    pub appended: Vec<Result<()>>,
    /// Per extension.
    pub extended: Vec<Result<()>>,
    /// Per admission.
    pub admitted: Vec<Result<Grant>>,
    /// Copies to run before this step's writes.
    pub plan: Option<Plan>,
}

impl StepOutcome {
    fn refused(&self) -> bool {
        self.appended.iter().chain(&self.extended).any(Result::is_err)
            || self.admitted.iter().any(Result::is_err)
    }

    /// Enters `error` for the next growth in line: what it needed cannot be had.
    pub fn refuse_next(&mut self, step: &Step<'_>, error: Error) {
        if self.appended.len() < step.append.len() {
            self.appended.push(Err(error));
        } else if self.extended.len() < step.extend.len() {
            self.extended.push(Err(error));
        } else if self.admitted.len() < step.admit.len() {
            self.admitted.push(Err(error));
        }
    }
}

impl Manager {
    /// Carries a step out. What concerns sequences that exist is checked first: a bad handle, a
    /// bad length or a bad ticket refuses the whole step before anything moves. Want of room
    /// refuses only the growth or admission concerned.
    ///
    /// # Errors
    /// The first thing wrong, as the single verbs say it.
    pub fn step(&mut self, step: &Step<'_>) -> Result<StepOutcome> {
        let mut outcome = self.settle(step)?;
        while let Err(Error::NeedVictims { n }) = self.grow(step, &mut outcome) {
            self.fall_back(n as usize);
        }
        self.settle_choice();
        outcome.plan = self.take_plan();
        Ok(outcome)
    }

    /// The first half of a step: all but growth and admissions.
    ///
    /// # Errors
    /// As [`Manager::step`].
    pub fn settle(&mut self, step: &Step<'_>) -> Result<StepOutcome> {
        self.check_step(step)?;
        if let Some(fence) = step.passed {
            self.pass(fence);
        }
        self.fences.put_up(step.fence);
        let outcome = self.settle_checked(step);
        self.fences.take_down();
        outcome
    }

    fn settle_checked(&mut self, step: &Step<'_>) -> Result<StepOutcome> {
        let mut outcome = StepOutcome::default();
        for &ticket in step.done {
            self.done(ticket)?;
        }
        for &ticket in step.failed {
            outcome.rewound.extend(self.failed(ticket)?);
        }
        for &(seq, len) in step.truncate {
            self.cut(seq, len)?;
        }
        for &(seq, upto) in step.commit {
            // A failed copy may have cut the sequence below what its engine thinks is computed, and
            // a load may have brought more.
            let sequence = self.sequences.get(seq)?;
            let upto = if step.failed.is_empty() { upto } else { upto.min(sequence.len) };
            self.commit(
                seq,
                if step.done.is_empty() { upto } else { upto.max(sequence.committed) },
            )?;
        }
        for &seq in step.release {
            self.release(seq)?;
        }
        Ok(outcome)
    }

    /// The second half: goes on where `outcome` ends. What it refuses is in there.
    ///
    /// # Errors
    /// [`Error::NeedVictims`], for a policy outside the core: find them and call again.
    pub fn grow(&mut self, step: &Step<'_>, outcome: &mut StepOutcome) -> Result<()> {
        while let Some(&(seq, tokens)) = step.append.get(outcome.appended.len()) {
            outcome.appended.push(wanted(self.append(seq, tokens))?);
        }
        while let Some(&(seq, until)) = step.extend.get(outcome.extended.len()) {
            outcome.extended.push(wanted(self.extend(seq, until))?);
        }
        while let Some(request) = step.admit.get(outcome.admitted.len()) {
            let spent: u32 = outcome
                .admitted
                .iter()
                .zip(step.admit)
                .map(|(granted, request)| granted.as_ref().map_or(0, |g| self.left_of(g, request)))
                .fold(0, u32::saturating_add);
            let left = step.token_budget.map_or(u32::MAX, |budget| budget.saturating_sub(spent));
            if left == 0 || (outcome.refused() && !step.skip_refused) {
                outcome.admitted.push(Err(Error::NotTried));
                continue;
            }
            let request = Admission { chunk: request.chunk.min(left), ..*request };
            outcome.admitted.push(wanted(self.admit(&request))?);
        }
        Ok(())
    }

    /// Tokens with slots that a grant leaves to be computed.
    fn left_of(&self, grant: &Grant, request: &Admission<'_>) -> u32 {
        let left = grant.granted_tokens - grant.cached_tokens;
        left - self.whole_units(request.external.min(left))
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
        // However it is shared out, each admission rounds it up once.
        let budget = step.token_budget.map_or(u64::MAX, |budget| {
            let external = step.admit.iter().map(|r| r.external).fold(budget, u32::saturating_add);
            let groups = self.layout.groups().len() as u64;
            self.layout.blocks(external, 0) + groups * step.admit.len() as u64
        });
        let admitted = step.admit.iter().map(|request| {
            let known = request.prompt.tokens.len().max(request.prompt.len as usize) as u64;
            let chunk = u64::from(request.chunk) + u64::from(request.external);
            let until = known.min(chunk).min(u64::from(request.until));
            self.layout.blocks(u32::try_from(until).unwrap_or(u32::MAX), 0)
        });
        let encoders: u64 =
            step.admit.iter().map(|r| self.layout.blocks(0, r.encoder_tokens)).sum();
        let blocks = appended.chain(extended).sum::<u64>() + admitted.sum::<u64>().min(budget);
        let blocks = (blocks + encoders).min(u64::from(self.pool.available())) as u32;
        blocks.saturating_sub(self.pool.free())
    }

    fn check_step(&self, step: &Step<'_>) -> Result<()> {
        for (i, ticket) in step.done.iter().chain(step.failed).enumerate() {
            let again = step.done.iter().chain(step.failed).take(i).any(|t| t == ticket);
            if again || !self.tickets.is_outstanding(*ticket) {
                return Err(Error::UnknownTicket(*ticket));
            }
        }
        let mut ended = step.release.to_vec();
        ended.sort_unstable();
        if let Some(pair) = ended.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::StaleSequence(pair[0]));
        }
        for &seq in step.release {
            self.sequences.get(seq)?;
        }
        for &(seq, _) in step.truncate.iter().chain(step.commit) {
            self.sequences.get(seq)?;
        }
        let grown = step.append.iter().map(|&(seq, _)| seq);
        for seq in grown.chain(step.extend.iter().map(|&(seq, _)| seq)) {
            self.sequences.get(seq)?;
            if ended.binary_search(&seq).is_ok() {
                return Err(Error::StaleSequence(seq));
            }
        }
        self.check_lengths(step)?;
        self.check_growth(step)
    }

    /// Growth that no room could make right. After a failed copy the engine cannot know the lengths,
    /// so there it is refused one by one.
    fn check_growth(&self, step: &Step<'_>) -> Result<()> {
        if !step.failed.is_empty() {
            return Ok(());
        }
        let cut = |seq| step.truncate.iter().find(|&&(s, _)| s == seq).map(|&(_, len)| len);
        for &(seq, tokens) in step.append {
            self.check_ids(seq, tokens.len(), cut(seq).unwrap_or(u32::MAX))?;
            if cut(seq).is_none() {
                self.check_append(seq, tokens.len())?;
            }
        }
        for &(seq, until) in step.extend {
            match cut(seq) {
                None => self.check_extend(seq, until)?,
                Some(len) => {
                    return Err(Error::Invalid {
                        what: "extend",
                        value: until.to_string(),
                        limit: format!("the step cuts the sequence to {len} tokens"),
                    });
                }
            }
        }
        Ok(())
    }

    fn check_lengths(&self, step: &Step<'_>) -> Result<()> {
        let cuts = once("truncate", step.truncate)?;
        once("commit", step.commit)?;
        for &(seq, len) in step.truncate {
            self.check_cut(seq, len, &|t| step.done.contains(&t) || step.failed.contains(&t))?;
        }
        for &(seq, upto) in step.commit {
            let sequence = self.sequences.get(seq)?;
            let cut = cuts.binary_search_by_key(&seq, |&(seq, _)| seq).map(|at| cuts[at].1);
            let limit = cut.unwrap_or(sequence.len);
            if upto > limit {
                let limit = u64::from(limit);
                return Err(Error::CommitPastEnd { asked: u64::from(upto), limit });
            }
            let floor = sequence.committed.min(limit);
            if upto < floor {
                let (asked, limit) = (u64::from(upto), u64::from(floor));
                return Err(Error::Backwards { what: "commit", asked, limit });
            }
            sequence.check_filled(upto)?;
        }
        Ok(())
    }
}

/// Passes on the want of victims, which is no refusal yet.
fn wanted<T>(result: Result<T>) -> Result<Result<T>> {
    match result {
        Err(Error::NeedVictims { n }) => Err(Error::NeedVictims { n }),
        settled => Ok(settled),
    }
}

/// The pairs by sequence, each named once.
fn once(what: &'static str, pairs: &[(SeqId, u32)]) -> Result<Vec<(SeqId, u32)>> {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(sorted),
        Some(pair) => Err(Error::Invalid {
            what,
            value: format!("{:#x}", pair[0].0),
            limit: "a step names a sequence once".into(),
        }),
    }
}
