//! Whether a step may be carried out, before anything of it is.

use hashbrown::HashSet;

use super::super::Manager;
use super::super::grow::Ids;
use super::Step;
use crate::error::{Error, Result};
use crate::sequence::{Mark, SeqId, check_length, check_missing, check_no_gap};

/// What becomes of the tables of an appended sequence, in tokens.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Up to here they stay as they are.
    pub kept: u32,
    /// Up to here they go at the most.
    pub end: u64,
}

const ENDS: &str = "the step ends it, by release or by preempt";
const ENDS_TWICE: &str = "it is named twice: a step ends a sequence once, by release or by preempt";

/// The sequences that a step ends, each with the list that names it.
fn ends<'a>(step: &'a Step<'_>) -> impl Iterator<Item = (&'static str, SeqId)> + 'a {
    let named = |what| move |&seq| (what, seq);
    step.release.iter().map(named("release")).chain(step.preempt.iter().map(named("preempt")))
}

impl Manager {
    /// Refuses a step in which a handle, a ticket or a length is wrong. Fills `reach`, one an append.
    ///
    /// # Errors
    /// As [`Manager::step`].
    pub fn check_step(&mut self, step: &Step<'_>, reach: &mut Vec<Extent>) -> Result<()> {
        self.checked += 1;
        reach.clear();
        reach.reserve(step.append.len());
        match self.check_marking(step, reach) {
            // A wrong handle is reported before a wrong length, wherever each is.
            Err(error) if !matches!(error, Error::UnknownTicket(_) | Error::TicketTwice(_)) => {
                self.check_handles(step).and(Err(error))
            }
            checked => checked,
        }
    }

    #[cold]
    fn check_handles(&self, step: &Step<'_>) -> Result<()> {
        for (_, seq) in ends(step) {
            self.sequences.get(seq)?;
        }
        let mut ended = HashSet::new();
        for (what, seq) in ends(step) {
            if !ended.insert(seq) {
                return Err(Error::EndsAlready { what, seq, why: ENDS_TWICE });
            }
        }
        let lengths = step.truncate.iter().chain(step.commit).map(|&(seq, _)| seq);
        let fills = step.fill.iter().map(|&(seq, _)| seq);
        for seq in lengths.chain(fills).chain(step.fork.iter().copied()) {
            self.sequences.get(seq)?;
        }
        let grown = step.append.iter().map(|&(seq, _)| ("append", seq));
        for (what, seq) in grown.chain(step.extend.iter().map(|&(seq, _)| ("extend", seq))) {
            self.sequences.get(seq)?;
            if ended.contains(&seq) {
                return Err(Error::EndsAlready { what, seq, why: ENDS });
            }
        }
        Ok(())
    }

    fn check_marking(&mut self, step: &Step<'_>, reach: &mut Vec<Extent>) -> Result<()> {
        let number = self.checked;
        let uncertain = self.check_tickets(step)?;
        for (what, seq) in ends(step) {
            if std::mem::replace(&mut self.sequences.mark(seq, number)?.ends, true) {
                return Err(Error::EndsAlready { what, seq, why: ENDS_TWICE });
            }
        }
        let loaded = step.loaded.iter().map(|&(ticket, _)| ticket);
        let settled: HashSet<u64> = if step.truncate.is_empty() {
            HashSet::new()
        } else {
            step.done.iter().chain(step.failed).copied().chain(loaded).collect()
        };
        let settles = |ticket: u64| settled.contains(&ticket);
        for &(seq, len) in step.truncate {
            self.check_cut(seq, len, &settles)?;
            let mark = self.sequences.mark(seq, number)?;
            if std::mem::replace(&mut mark.cut, true) {
                return Err(twice("truncate", seq));
            }
            let cut = mark.known - mark.known.min(len);
            mark.len = mark.len.min(len);
            mark.missing = mark.missing.saturating_sub(cut);
            mark.known -= cut;
        }
        for &(seq, tokens) in step.fill {
            let mark = self.sequences.mark(seq, number)?;
            if std::mem::replace(&mut mark.fills, true) {
                return Err(twice("fill", seq));
            }
            check_missing(tokens.len(), mark.missing)?;
            mark.missing -= tokens.len() as u32;
            self.sequences.get(seq)?.check_tokens("tokens", tokens.len())?;
        }
        for &(seq, upto) in step.commit {
            let mark = self.sequences.mark(seq, number)?;
            if std::mem::replace(&mut mark.commits, true) {
                return Err(twice("commit", seq));
            }
            mark.check_commit(upto)?;
            mark.committed = upto;
        }
        for &seq in step.fork {
            // What a failed copy cuts is cut to computed tokens: it can be forked all the more.
            let mark = *self.sequences.mark(seq, number)?;
            self.check_fork(seq, mark.committed.min(mark.len), mark.len)?;
        }
        self.check_growth(step, uncertain, reach)
    }

    /// The part of `check_marking` about those that grow, whose lengths may be `uncertain`.
    // Not inlined: in the middle of a step its variables spill.
    #[inline(never)]
    fn check_growth(
        &mut self,
        step: &Step<'_>,
        uncertain: bool,
        reach: &mut Vec<Extent>,
    ) -> Result<()> {
        let number = self.checked;
        for &(seq, ids) in step.append {
            let mark = self.sequences.mark(seq, number)?;
            if mark.ends {
                return Err(Error::EndsAlready { what: "append", seq, why: ENDS });
            }
            if std::mem::replace(&mut mark.grows, true) {
                return Err(twice("append", seq));
            }
            reach.push(Extent { kept: mark.len, end: u64::from(mark.len) + ids.len() as u64 });
            let plain = mark.open && mark.missing == 0 && ids.len() == 1;
            // After a failed copy the engine cannot know the lengths, so there growth is refused
            // one by one.
            if !plain && !uncertain {
                let mark = *mark;
                self.check_append(seq, ids, mark)?;
            }
        }
        for &(seq, until) in step.extend {
            let mark = self.sequences.mark(seq, number)?;
            let grows = std::mem::replace(&mut mark.grows, true);
            match mark.len {
                _ if mark.ends => {
                    return Err(Error::EndsAlready { what: "extend", seq, why: ENDS });
                }
                _ if grows => return Err(twice("extend", seq)),
                _ if uncertain => {}
                len if mark.cut => {
                    return Err(Error::Invalid {
                        what: "extend",
                        value: until.to_string(),
                        limit: format!("the step cuts the sequence to {len} tokens"),
                    });
                }
                _ => self.check_extend(seq, until)?,
            }
        }
        Ok(())
    }

    /// Whether sequences may be cut by what their tickets say.
    fn check_tickets(&self, step: &Step<'_>) -> Result<bool> {
        let loads = step.loaded.iter().map(|&(ticket, _)| ticket);
        let tickets = || step.done.iter().chain(step.failed).copied().chain(loads.clone());
        let mut named = HashSet::new();
        for ticket in tickets() {
            if !self.transfers.tickets().is_outstanding(ticket) {
                return Err(Error::UnknownTicket(ticket));
            }
            if !named.insert(ticket) {
                return Err(Error::TicketTwice(ticket));
            }
        }
        let mut cut = !step.failed.is_empty();
        for &(ticket, blocks) in step.loaded {
            cut |= blocks < self.check_loaded(ticket, blocks)?;
        }
        Ok(cut)
    }

    /// Growth that no room could make right.
    fn check_append(&self, seq: SeqId, ids: Ids<'_>, mark: Mark) -> Result<()> {
        let sequence = self.sequences.get(seq)?;
        if !mark.open && !mark.cut {
            sequence.check_append(ids.len())?;
        }
        if let Ids::Known(tokens) = ids {
            check_no_gap(tokens.len(), mark.missing)?;
        }
        check_length("append", ids.len() as u64, (mark.len, sequence.max_seq_len))
    }
}

#[cold]
fn twice(what: &'static str, seq: SeqId) -> Error {
    let limit = match what {
        "append" | "extend" => "a step grows a sequence once, by append or by extend",
        _ => "a step names a sequence once",
    };
    let limit = limit.into();
    Error::Invalid { what, value: seq.to_string(), limit }
}
