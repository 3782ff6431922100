//! Which running sequences are preempted, and how much that frees where blocks are shared.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::error::{Error, Result};
use crate::events::Kind;
use crate::manager::Manager;
use crate::manager::end::ended::Endings;
use crate::pool::{BlockId, NIL};
use crate::sequence::{SeqId, Sequence};

/// Which running sequence is preempted first. Among equals it is the one allocated last; where
/// recency counts, the one allocated first. Sequences of a tenant that owns no more than its floor come after
/// all others, but in the order of what is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreemptionOrder {
    /// The one with the fewest tokens to compute again.
    FewestComputed,
    /// The one that came in last.
    LastAdmitted,
    /// The one with the lowest priority, then the last allocated.
    LowestPriority,
    /// The one with the most tokens.
    LongestFirst,
    /// The one whose last commit or touch is the longest ago.
    LeastRecent,
    /// The one with the fewest touches, each worth half after [`HALF_LIFE`] ticks; then as
    /// [`PreemptionOrder::LeastRecent`].
    LeastFrequent,
    /// The one whose end frees the most, given those that went before.
    MostFreed,
}

/// Ticks of the logical clock after which a touch counts half.
pub const HALF_LIFE: u64 = 4_096;

/// A touch in fixed point, so that halves of it count.
const TOUCH: u64 = 1 << 16;

/// A sequence that could be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreemptionCandidate {
    /// The sequence.
    pub seq: SeqId,
    /// Blocks without another owner; owners that only wait for a fence do not count. Its preemption
    /// makes them available once fences have passed. In an order of [`PreemptionOrder::MostFreed`],
    /// and among candidates that bring use down, the count assumes that the candidates before it
    /// have ended.
    pub frees: u32,
    /// Tokens that would have to be computed again if nothing of it stayed cached.
    pub computed: u32,
}

/// How often a sequence was touched, worth less as time goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Heat {
    value: u64,
    at: u64,
}

impl Heat {
    fn now(self, tick: u64) -> u64 {
        let halvings = (tick - self.at) / HALF_LIFE;
        if halvings < 64 { self.value >> halvings } else { 0 }
    }
}

impl Manager {
    /// `seqs` were read or scheduled, in this order: what [`PreemptionOrder::LeastRecent`] and
    /// [`PreemptionOrder::LeastFrequent`] go by, besides commits.
    ///
    /// # Errors
    /// Unknown handles; nothing was touched then.
    pub fn touch(&mut self, seqs: &[SeqId]) -> Result<()> {
        seqs.iter().try_for_each(|&seq| self.sequences.get(seq).map(drop))?;
        for &seq in seqs {
            self.store.tick();
            let tick = self.store.now();
            let sequence = self.sequences.get_mut(seq)?;
            sequence.used = tick;
            sequence.heat = Heat { value: sequence.heat.now(tick) + TOUCH, at: tick };
            self.store.note(Kind::Touch, seq, 0);
        }
        Ok(())
    }

    /// `seqs` in the order to preempt them; those whose end would free nothing are left out.
    ///
    /// # Errors
    /// Unknown handles; [`Error::Invalid`] for one named twice.
    pub fn preemption_order(
        &self,
        seqs: &[SeqId],
        rule: PreemptionOrder,
    ) -> Result<Vec<PreemptionCandidate>> {
        let mut order = self.ranked(seqs, rule)?;
        if rule == PreemptionOrder::MostFreed {
            return self.most_freed(order, u32::MAX);
        }
        for candidate in &mut order {
            candidate.frees = self.frees(candidate.seq)?;
        }
        order.retain(|candidate| candidate.frees > 0);
        Ok(order)
    }

    /// The first of `seqs`, in the order to preempt them, that bring use down to `usage`: each with
    /// what it frees once those before it have ended, and none that frees nothing. All that would,
    /// if they are not enough.
    ///
    /// # Errors
    /// As [`Manager::preemption_order`].
    pub fn preemption_to(
        &self,
        seqs: &[SeqId],
        rule: PreemptionOrder,
        usage: f64,
    ) -> Result<Vec<PreemptionCandidate>> {
        let usable = self.pool().usable();
        let most = (usage * f64::from(usable)).floor() as u32;
        let over = self.in_use().saturating_sub(most);
        let ranked = self.ranked(seqs, rule)?;
        if rule == PreemptionOrder::MostFreed {
            return self.most_freed(ranked, over);
        }
        let (mut over, mut ended, mut taken) = (over, Endings::default(), Vec::new());
        for mut candidate in ranked {
            if over == 0 {
                break;
            }
            candidate.frees = self.end_of(candidate.seq, &mut ended)?;
            if candidate.frees == 0 {
                ended.undo();
                continue;
            }
            ended.keep();
            over = over.saturating_sub(candidate.frees);
            taken.push(candidate);
        }
        Ok(taken)
    }

    /// Picks the candidate that frees the most blocks, again and again. A block that it shared with
    /// one remaining candidate then counts for that candidate. Each pick scans the blocks of its
    /// own sequence alone.
    fn most_freed(
        &self,
        mut left: Vec<PreemptionCandidate>,
        mut over: u32,
    ) -> Result<Vec<PreemptionCandidate>> {
        if self.transfers.tickets().has_loads() {
            return self.most_freed_by_trial(left, over);
        }
        // For each block, how many candidates in `left` hold it, and the XOR of their places: with
        // one holder left, that is its place.
        let mut sharers: HashMap<BlockId, (u32, usize)> = HashMap::new();
        for (at, candidate) in left.iter_mut().enumerate() {
            candidate.frees = self.frees(candidate.seq)?;
            for block in blocks_of(self.sequences.get(candidate.seq)?) {
                let (count, places) = sharers.entry(block).or_default();
                (*count, *places) = (*count + 1, *places ^ at);
            }
        }
        let (mut lost, mut taken) = (HashMap::<BlockId, u32>::new(), Vec::new());
        let mut queue = CandidateQueue::new(&left);
        while over > 0 {
            let Some((at, candidate)) = queue.next(&left) else { break };
            left[at].frees = 0;
            over = over.saturating_sub(candidate.frees);
            taken.push(candidate);
            for block in blocks_of(self.sequences.get(candidate.seq)?) {
                let lost = lost.entry(block).or_default();
                *lost += 1;
                let (count, places) = sharers.entry(block).or_default();
                (*count, *places) = (*count - 1, *places ^ at);
                if *count == 1 && self.pool().stays(block) == *lost + 1 {
                    left[*places].frees += 1;
                    queue.changed(*places, &left);
                }
            }
        }
        Ok(taken)
    }

    /// The same while loads are under way, whose pages and joiners go with their sequences. After
    /// each pick, those are counted again that may free what it has left to few others.
    fn most_freed_by_trial(
        &self,
        mut left: Vec<PreemptionCandidate>,
        mut over: u32,
    ) -> Result<Vec<PreemptionCandidate>> {
        let (mut ended, mut taken) = (Endings::default(), Vec::new());
        // Whose end takes how many owners of a block, the most first.
        let mut takers: HashMap<BlockId, Vec<(u32, usize)>> = HashMap::new();
        for (at, candidate) in left.iter_mut().enumerate() {
            candidate.frees = self.end_of(candidate.seq, &mut ended)?;
            let slack = u32::from(self.sequences.get(candidate.seq)?.joined > 0);
            for block in ended.touched().collect::<HashSet<_>>() {
                takers.entry(block).or_default().push((ended.lost(block) + slack, at));
            }
            ended.undo();
        }
        for takers in takers.values_mut() {
            takers.sort_unstable_by_key(|&taker| Reverse(taker));
        }
        let mut gone = vec![false; left.len()];
        let mut queue = CandidateQueue::new(&left);
        while over > 0 {
            let Some((at, candidate)) = queue.next(&left) else { break };
            gone[at] = true;
            left[at].frees = 0;
            self.end_of(candidate.seq, &mut ended)?;
            over = over.saturating_sub(candidate.frees);
            taken.push(candidate);
            let mut affected = HashSet::new();
            for block in ended.touched().collect::<HashSet<_>>() {
                let owners = self.pool().stays(block) - ended.lost(block);
                let takers = takers.get(&block).into_iter().flatten();
                affected.extend(takers.take_while(|taker| taker.0 >= owners).map(|taker| taker.1));
            }
            ended.keep();
            for at in affected.into_iter().filter(|&at| !gone[at]) {
                left[at].frees = self.end_of(left[at].seq, &mut ended)?;
                ended.undo();
                queue.changed(at, &left);
            }
        }
        Ok(taken)
    }

    fn ranked(&self, seqs: &[SeqId], rule: PreemptionOrder) -> Result<Vec<PreemptionCandidate>> {
        let mut order = Vec::with_capacity(seqs.len());
        let mut named = HashSet::with_capacity(seqs.len());
        for &seq in seqs {
            let sequence = self.sequences.get(seq)?;
            if !named.insert(seq) {
                return Err(Error::Invalid {
                    what: "seqs",
                    value: seq.to_string(),
                    limit: "is named twice".into(),
                });
            }
            let candidate = PreemptionCandidate { seq, frees: 0, computed: sequence.committed };
            // Whose tenant has no more than its floor comes last: others have room without it.
            order.push((candidate, (self.is_within_floor(sequence), self.rank(sequence, rule))));
        }
        order.sort_by_key(|&(_, rank)| rank);
        Ok(order.into_iter().map(|(candidate, ..)| candidate).collect())
    }

    /// Whether the tenant of `sequence` owns no more than its floor.
    fn is_within_floor(&self, sequence: &Sequence) -> bool {
        let account = self.store.accounts().get(usize::from(sequence.meta.tenant));
        account.is_some_and(|account| account.owned() <= account.floor)
    }

    /// The rank of a sequence; the lowest is preempted first.
    fn rank(&self, sequence: &Sequence, rule: PreemptionOrder) -> (i64, u64, u64) {
        let last = u64::MAX - sequence.allocated;
        match rule {
            PreemptionOrder::FewestComputed => (0, u64::from(sequence.committed), last),
            PreemptionOrder::LastAdmitted | PreemptionOrder::MostFreed => (0, last, 0),
            PreemptionOrder::LowestPriority => (sequence.meta.priority.into(), last, 0),
            PreemptionOrder::LongestFirst => (-i64::from(sequence.len), last, 0),
            PreemptionOrder::LeastRecent => (0, sequence.used, sequence.allocated),
            PreemptionOrder::LeastFrequent => {
                (0, sequence.heat.now(self.store.now()), sequence.used)
            }
        }
    }
}

/// Candidates by what they free; of equals, the first comes first.
struct CandidateQueue(BinaryHeap<(u32, Reverse<usize>)>);

impl CandidateQueue {
    fn new(left: &[PreemptionCandidate]) -> Self {
        let all = left.iter().zip(0..).map(|(candidate, at)| (candidate.frees, Reverse(at)));
        Self(all.collect())
    }

    /// The candidate at `at` frees another number now.
    fn changed(&mut self, at: usize, left: &[PreemptionCandidate]) {
        self.0.push((left[at].frees, Reverse(at)));
    }

    /// Takes out the candidate that frees the most, and its place; `None` if no candidate frees a
    /// block.
    fn next(&mut self, left: &[PreemptionCandidate]) -> Option<(usize, PreemptionCandidate)> {
        while let Some((frees, Reverse(at))) = self.0.pop() {
            if frees > 0 && frees == left[at].frees {
                return Some((at, left[at]));
            }
        }
        None
    }
}

fn blocks_of(sequence: &Sequence) -> impl Iterator<Item = BlockId> + '_ {
    sequence.tables.iter().flatten().copied().filter(|&block| block != NIL)
}
