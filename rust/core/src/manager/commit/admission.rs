//! Commits ask the admission policy which blocks become findable.

use std::ops::Range;

use crate::groups::GroupKind;
use crate::hash::Key;
use crate::manager::Manager;
use crate::policy::admission::{
    AdmissionCounts, Admit, Ask, Gate, Offer, OfferRow, Verdict, Verdicts,
};
use crate::pool::{NIL, State};
use crate::sequence::{SeqId, Sequence};

/// A sequence whose blocks an operation is about to make findable.
#[derive(Debug, Clone, Copy)]
pub struct Due<'a> {
    /// Its handle.
    pub seq: SeqId,
    /// The length that the operation commits; `None` if it commits nothing.
    pub upto: Option<u32>,
    /// The length that the sequence is truncated to before.
    pub cut: Option<u32>,
    /// Ids for its first tokens that have none yet; they are set before the commit.
    pub fill: &'a [u32],
}

impl Manager {
    /// The same manager, in which `policy` decides what becomes findable.
    #[must_use]
    pub fn with_admission(mut self, policy: Option<Box<dyn Admit>>) -> Self {
        *self.store.gate_mut() = policy.map(|policy| Box::new(Gate::new(policy)));
        self
    }

    /// What the admission policies did so far.
    pub fn admission_counts(&self) -> AdmissionCounts {
        self.store.admission_counts()
    }

    /// Whether keys are made for the admission policy.
    #[inline]
    pub(in crate::manager) fn admits_by_key(&self) -> bool {
        self.store.gate().is_some_and(|gate| gate.policy.wants_keys())
    }

    /// Whether the policy dropped this block of the publication under way.
    #[inline]
    pub(super) fn is_gap(&self, group: usize, i: usize) -> bool {
        self.store.gate().is_some_and(|gate| gate.gaps.contains(&(group, i)))
    }

    /// Tells the policy of the blocks that `sequence` has computed or found, each once.
    #[cold]
    pub(super) fn notify_seen(&mut self, sequence: &mut Sequence) {
        let size = self.options.block_size;
        let units = sequence.committed / size;
        let Some(gate) = self.store.gate_mut() else { return };
        if units <= sequence.sighted || !sequence.write_cache || !self.options.prefix_caching {
            return;
        }
        if !gate.policy.wants_keys() {
            sequence.sighted = units;
            return;
        }
        gate.policy.serve(sequence.meta.tenant);
        let tokens = sequence.tokens.get(..(units * size) as usize).unwrap_or(&sequence.tokens);
        self.hasher.extend(sequence.root, &sequence.mm_items, tokens, &mut sequence.keys);
        let known = units.min(sequence.keys.len() as u32).max(sequence.sighted);
        gate.policy.seen(&sequence.keys[sequence.sighted as usize..known as usize]);
        sequence.sighted = known;
    }

    /// How far the units of `range` may become findable. Notes the blocks that stay out although what
    /// follows them may be kept, and closes the sequence where nothing may.
    #[cold]
    pub(super) fn admitted(&mut self, sequence: &mut Sequence, range: Range<usize>) -> usize {
        let closed = sequence.closed.map_or(usize::MAX, |closed| closed as usize);
        let mut end = range.end.min(closed);
        let ask = self.ask();
        let Some(mut gate) = self.store.gate_mut().take() else { return end };
        gate.gaps.clear();
        gate.offer.clear();
        let mut places = Vec::new();
        self.due_rows(sequence, &sequence.keys, range.start..end, |place, row| {
            places.push(place);
            gate.offer.push(row);
        });
        if !places.is_empty() {
            gate.policy.serve(sequence.meta.tenant);
            gate.judge(ask);
        }
        for (&(group, i), _) in dropped(&places, &gate.verdicts) {
            let reach = &self.layout.groups()[group];
            if reach.kind.is_ordered() {
                end = end.min(i * reach.units as usize);
            } else {
                gate.gaps.push((group, i));
            }
        }
        if end < range.end.min(closed) {
            sequence.closed = Some(end as u32);
        }
        let kept = |&(group, i): &(usize, usize)| {
            let units = self.layout.groups()[group].units as usize;
            (i + 1) * units <= end && !gate.gaps.contains(&(group, i))
        };
        let kept = places.iter().filter(|place| kept(place)).count() as u64;
        let lowered = gate.verdicts.iter().take(places.len());
        let lowered = lowered.filter(|&&verdict| verdict == Verdict::Lower).count() as u64;
        gate.counts.kept += kept;
        gate.counts.dropped += places.len() as u64 - kept;
        gate.counts.lowered += lowered;
        *self.store.gate_mut() = Some(gate);
        end
    }

    /// What is asked about blocks of the first tier.
    fn ask(&self) -> Ask {
        let view = self.store.view();
        let rival = self.store.policy().next(view).map(|block| self.pool().key(block));
        let (free, total) = match self.pool().ledger() {
            None => (self.pool().free(), self.pool().usable()),
            Some(ledger) => (ledger.room(self.pool().free()), ledger.total()),
        };
        Ask { now: self.store.policy_now(), free, total, rival, ..Ask::default() }
    }

    /// The blocks of `sequence` that are to become findable, of the units in `range`; `keys` are those
    /// of its units.
    fn due_rows(
        &self,
        sequence: &Sequence,
        keys: &[Key],
        range: Range<usize>,
        mut each: impl FnMut((usize, usize), OfferRow),
    ) {
        let range = range.start.min(range.end)..range.end;
        for (group, table) in sequence.tables.iter().enumerate() {
            let reach = &self.layout.groups()[group];
            if reach.kind == GroupKind::Cross {
                continue;
            }
            let units = reach.units as usize;
            for i in self.due_blocks(sequence, group, range.clone()) {
                let block = table[i];
                let pending = block != NIL && self.pool().state(block) == State::Pending;
                if !pending || !self.layout.is_reachable(group, i, sequence.prompt) {
                    continue;
                }
                let key = |unit: usize| keys.get(unit).copied().unwrap_or_default();
                let row = OfferRow {
                    key: key((i + 1) * units - 1),
                    next: key((i + 2) * units - 1),
                    depth: i as u32,
                    span: reach.span,
                    group: group as u8,
                    state: reach.kind == GroupKind::State,
                    reach: sequence.known(),
                    prompt: sequence.prompt,
                    uses: 0,
                    meta: sequence.meta,
                };
                each((group, i), row);
            }
        }
    }

    // --- a policy outside the core --------------------------------------------------------------

    /// Its verdicts, if the policy lives outside.
    pub fn verdicts(&mut self) -> Option<&mut Verdicts> {
        self.store.gate_mut().as_mut()?.policy.external()
    }

    /// Fills `offer` with what an operation is about to make findable, for a policy outside the core;
    /// tells what was seen.
    pub fn admission_due(&mut self, due: &[Due<'_>], offer: &mut Offer) -> Ask {
        offer.clear();
        for due in due {
            let mut sequences = std::mem::take(&mut self.sequences);
            if let Ok(sequence) = sequences.get_mut(due.seq) {
                self.gather_due(sequence, due, offer);
            }
            self.sequences = sequences;
        }
        self.ask()
    }

    /// What a load that has ended well up to `blocks` blocks makes findable.
    pub fn due_of_load(&self, ticket: u64, blocks: u32) -> Option<Due<'static>> {
        // The operation itself refuses more blocks than the load has.
        let (load, pages) =
            self.transfers.tickets().load(ticket).filter(|(load, _)| blocks <= load.blocks)?;
        let upto = (load.start + blocks) * self.block_size();
        let seq = pages.first()?.seq;
        Some(Due { seq, upto: Some(upto), cut: None, fill: &[] })
    }

    fn gather_due(&mut self, sequence: &mut Sequence, due: &Due<'_>, offer: &mut Offer) {
        if !sequence.write_cache || !self.options.prefix_caching {
            return;
        }
        let size = self.options.block_size;
        let known = sequence.known();
        let cut = due.cut.map_or(known, |cut| cut.min(known));
        let missing = sequence.unknown.saturating_sub(known - cut);
        let filled = cut - missing.saturating_sub(due.fill.len() as u32);
        let upto = due.upto.unwrap_or(sequence.committed).max(sequence.committed);
        let upto = upto.min(sequence.len).min(filled);
        // The operation cuts and fills later, so the sequence does not have those tokens yet.
        let changes = cut < known || !due.fill.is_empty();
        let mut keys = std::mem::take(&mut sequence.keys);
        let own = changes.then(|| keys.clone());
        let changed = changes.then(|| tokens_after(sequence, cut as usize, due.fill));
        if changes {
            keys.truncate((cut / size) as usize);
        }
        let tokens = changed.as_ref().unwrap_or(&sequence.tokens);
        let full = (upto - upto % size) as usize;
        let full = tokens.get(..full).unwrap_or(tokens);
        self.hasher.extend(sequence.root, &sequence.mm_items, full, &mut keys);
        let units = ((upto / size) as usize).min(keys.len());
        let sighted = sequence.sighted.min(cut / size) as usize;
        if let Some(gate) = self.store.gate_mut()
            && sighted < units
        {
            gate.policy.serve(sequence.meta.tenant);
            gate.policy.seen(&keys[sighted..units]);
            sequence.sighted = units as u32;
        }
        let closed = sequence.closed.filter(|&closed| closed < cut / size);
        let end = units.min(closed.map_or(usize::MAX, |closed| closed as usize));
        if !sequence.private {
            let published = sequence.published as usize;
            self.due_rows(sequence, &keys, published..end, |_, row| offer.push(row));
        }
        sequence.keys = own.unwrap_or(keys);
    }
}

/// The tokens of `sequence` once it is cut to `cut` of them and has got the ids of `fill`.
fn tokens_after(sequence: &Sequence, cut: usize, fill: &[u32]) -> Vec<u32> {
    let mut tokens = sequence.tokens[..cut.min(sequence.tokens.len())].to_vec();
    let gone = sequence.known() as usize - cut;
    let missing = (sequence.unknown as usize).saturating_sub(gone).min(tokens.len());
    let at = tokens.len() - missing;
    for (token, &id) in tokens[at..].iter_mut().zip(fill) {
        *token = id;
    }
    tokens
}

/// The rows that are not kept.
fn dropped<'a, T>(
    rows: &'a [T],
    verdicts: &'a [Verdict],
) -> impl Iterator<Item = (&'a T, Verdict)> {
    let told = rows.iter().zip(verdicts.iter().copied());
    told.filter(|&(_, verdict)| verdict != Verdict::Keep)
}
