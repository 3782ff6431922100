//! What came into a running manager of late: prompts that are matched again, namespaces and sessions
//! that are forgotten, and sequences that are preempted, behind a fence too, to make room.

use kvframe_core::manager::PreemptionOrder;
use kvframe_core::origins::Scope;
use kvframe_core::{BlockId, NIL, SeqId};

use super::ops::Run;
use super::promises::Kept;
use super::texts::{SPACES, Text, space};
use crate::common::picture;

/// Prompts that are remembered.
const TEXTS: usize = 8;

const RULES: [PreemptionOrder; 7] = [
    PreemptionOrder::FewestComputed,
    PreemptionOrder::LastAdmitted,
    PreemptionOrder::LowestPriority,
    PreemptionOrder::LongestFirst,
    PreemptionOrder::LeastRecent,
    PreemptionOrder::LeastFrequent,
    PreemptionOrder::MostFreed,
];

impl Run {
    /// One of them.
    pub fn newest_verb(&mut self) {
        match self.dice.below(8) {
            0..5 => self.rematch(),
            5 => self.clear_scope(),
            _ => self.make_room(),
        }
    }

    /// A prompt that may be asked for again.
    pub fn remember(&mut self, text: &Text) {
        self.texts.truncate(TEXTS - 1);
        self.texts.insert(0, text.clone());
    }

    fn rematch(&mut self) {
        // Mostly one that has computed nothing.
        let idle = |live: &&super::world::Live| {
            let s = self.w.m.sequence(live.seq).expect("live");
            s.committed == s.cached
        };
        let idle: Vec<SeqId> = self.w.live.iter().filter(idle).map(|live| live.seq).collect();
        let at = self.dice.below(idle.len());
        let Some(seq) = idle.get(at).copied().or_else(|| self.pick().map(|(_, seq)| seq)) else {
            return;
        };
        self.w.run_plans(&mut self.dice);
        let fence = self.dice.one_in(3).then(|| self.step_ahead());
        let s = self.w.m.sequence(seq).expect("live").clone();
        let before = picture(&self.w.m, &self.w.handles());
        let hits = |run: &Self| run.w.m.stats().hit_tokens + run.w.m.stats().resumed_hit_tokens;
        let counted = hits(self);
        let there = {
            let text = &s.tokens[..s.tokens.len().min(s.filled() as usize)];
            self.w.m.lookup(text, s.space(), &s.mm_items).tokens / self.w.size * self.w.size
        };
        let outcome = match fence {
            Some(fence) => self.w.m.rematch_behind(seq, fence),
            None => self.w.m.rematch(seq),
        };
        self.tell(format!("rematch {seq:x} behind {fence:?} -> {outcome:?}"));
        let Ok(cached) = outcome else {
            assert!(s.committed > s.cached, "nothing of it is computed");
            return self.unchanged(&before);
        };
        assert_eq!(hits(self) - counted, u64::from(cached - s.cached), "hits are counted once");
        if cached == s.cached {
            return self.unchanged(&before);
        }
        self.w.seen.rematched += 1;
        assert_eq!((cached, s.cached), (there, s.committed), "what a lookup finds, and no less");
        let now = self.w.m.sequence(seq).expect("live");
        assert_eq!((now.cached, now.committed, now.known()), (cached, cached, s.known()));
        assert_eq!(now.len, s.len.max(cached));
        if let Some(fence) = fence {
            // A step in flight may read what was found before, and write the rest.
            let mut kept = Kept::default();
            let tables = s.tables.iter().zip(&now.tables).zip(self.w.m.layout().groups());
            for ((then, now), reach) in tables {
                let left = |&block: &BlockId| if now.contains(&block) { NIL } else { block };
                let left: Vec<BlockId> = then.iter().map(left).collect();
                kept.add(&self.w.pages, reach, &left, 0, reach.computed(s.committed, s.cached));
            }
            self.w.promises.fence(fence, kept);
        }
    }

    fn clear_scope(&mut self) {
        let (tenant, salt, adapter, _) = SPACES[self.dice.below(SPACES.len())];
        let session = self.dice.one_in(3).then(|| self.dice.below(3) as u64 + 1);
        let scope = Scope {
            tenant: self.dice.one_in(3).then_some(tenant),
            cache_salt: self.dice.one_in(2).then_some(salt),
            lora_name: self.dice.one_in(2).then_some(adapter),
            session,
        };
        let texts = std::mem::take(&mut self.texts);
        // Of what starts again at a length, nothing need be there to be found.
        let found = |run: &Self, text: &Text| {
            let hit = run.w.m.lookup(&text.tokens, space(text.space), &text.mm_items);
            hit.blocks.iter().flatten().filter(|&&block| block != NIL).count()
        };
        let before: Vec<usize> = texts.iter().map(|text| found(self, text)).collect();
        let cached = self.w.m.pool().cached();
        let freed = self.w.m.clear_scope(scope);
        self.tell(format!("clear {scope:?} -> {freed}"));
        self.w.seen.cleared += 1;
        assert_eq!(self.w.m.pool().cached() + freed, cached);
        for (text, before) in texts.iter().zip(before) {
            let now = found(self, text);
            if !scope.covers(space(text.space)) {
                assert_eq!(now, before, "{text:?} is none of its business");
            } else if session.is_none() {
                assert_eq!(now, 0, "{text:?} is found");
            }
        }
        self.texts = texts;
        for live in &self.w.live {
            let s = self.w.m.sequence(live.seq).expect("live");
            if scope.runs(s.space(), s.meta.session) {
                assert!(s.private, "{:x} leaves something findable", live.seq);
                assert_eq!(self.w.m.is_current(live.seq), Ok(false));
            }
        }
        // What is not in its scope may hold the same bytes under the same keys.
    }

    /// Sequences end behind a fence until use is low enough, and no more of them than that takes.
    fn make_room(&mut self) {
        let usage = self.dice.below(11) as f64 / 10.0;
        let (rule, seqs) = (self.dice.pick(&RULES), self.w.handles());
        let taken = self.w.m.preemption_to(&seqs, rule, usage).expect("live");
        let usable = f64::from(self.w.m.pool().usable());
        let in_use = |run: &Self| (run.w.m.usage() * usable).round() as i64;
        let most = (usage * usable).floor() as i64;
        let before = in_use(self);
        self.tell(format!("make room to {usage} by {rule:?}: {taken:x?}"));
        let fence = self.dice.one_in(2).then(|| self.step_ahead());
        let mut freed = 0;
        for candidate in &taken {
            assert!(in_use(self) > most, "one more than it takes");
            let frees = self.frees(candidate.seq);
            assert_eq!(frees, candidate.frees, "given those that went before");
            let had = self.w.room_to_come();
            if let Some(fence) = fence {
                self.fence_at(candidate.seq, fence);
            }
            self.end_behind(candidate.seq, fence);
            freed += i64::from(candidate.frees);
            assert_eq!(self.w.room_to_come() - had, candidate.frees, "it freed other than told");
            assert_eq!(before - in_use(self), freed, "blocks on their way are in use");
        }
    }

    /// `seq` is preempted, behind `fence` if there is one.
    pub fn end_behind(&mut self, seq: SeqId, fence: Option<u64>) {
        let at = self.w.live.iter().position(|live| live.seq == seq).expect("live");
        let known = self.w.m.sequence(seq).expect("live").known();
        self.w.name_tails(seq);
        let back = match fence {
            Some(fence) => self.w.m.preempt_behind(seq, fence).expect("live"),
            None => self.w.m.preempt(seq).expect("live"),
        };
        self.tell(format!("preempt {seq:x} behind {fence:?}"));
        assert_eq!(back.known(), known, "what is known comes back");
        assert!(back.tables.iter().all(|table| table.is_empty()));
        self.w.live.swap_remove(at);
        self.w.ended.push(seq);
    }
}
