//! A whole scheduler step of random parts.

use kvframe_core::SeqId;
use kvframe_core::manager::{Growth, Ids, Step, StepResult};

use super::ops::Run;
use super::texts::request;
use super::world::Live;
use crate::common::picture;

impl Run {
    pub fn step(&mut self) {
        self.w.run_plans(&mut self.dice);
        let text = self.text();
        let mut request = request(&mut self.dice, &text, &[]);
        request.encoder_tokens = self.w.encoder(text.space);
        let named = request.encoder_tokens == 0 || !request.encoder.is_empty();
        let found = if request.read_cache && named { self.w.longest_hit(&text) } else { 0 };
        request.num_external_tokens = self.external(&text, found);
        request.join = self.joins();
        let mut step = Step { allocate: std::slice::from_ref(&request), ..Step::default() };
        let (done, failed) = self.some_tickets();
        let fence = self.dice.one_in(3).then(|| self.step_ahead());
        let passed = self.dice.one_in(3).then(|| self.step_behind());
        (step.fence, step.passed) = (fence, passed);
        let (mut release, mut truncate, mut commit) = (Vec::new(), Vec::new(), Vec::new());
        let (mut extend, mut fork, mut preempt) = (Vec::new(), Vec::new(), Vec::new());
        let (mut append, mut computed): (Vec<(SeqId, Ids<'_>)>, _) = (Vec::new(), Vec::new());
        for (at, live) in self.w.live.iter().enumerate() {
            let s = self.w.m.sequence(live.seq).expect("live");
            let mut len = s.len;
            let ends = self.dice.one_in(8);
            if ends {
                let list = if self.dice.one_in(3) { &mut preempt } else { &mut release };
                list.push(live.seq);
            }
            if self.dice.one_in(5) {
                len = self.dice.between(s.committed.max(len.saturating_sub(3)), len);
                truncate.push((live.seq, len));
            }
            if self.dice.one_in(2) && len >= s.committed {
                // Now and then an engine asks for less than is committed already: all is refused.
                let low = s.committed.saturating_sub(u32::from(self.dice.one_in(40)));
                let high = if self.dice.one_in(30) { len } else { len.min(live.filled()) };
                let upto = self.dice.between(low.min(high), high);
                commit.push((live.seq, upto));
                computed.push((at, upto));
            }
            if self.dice.one_in(12) && self.w.live.len() + fork.len() < 12 {
                // As often as wanted: parallel samples.
                fork.extend(vec![live.seq; 1 + self.dice.below(2)]);
            }
            if ends {
                continue;
            }
            if len < s.known() && self.dice.one_in(2) {
                extend.push((live.seq, self.dice.between(len, s.known())));
            } else if self.dice.one_in(3) {
                let ids = &[0, 1, 0, 0, 0][..self.dice.below(5)];
                append.push((live.seq, Ids::Known(ids)));
            }
        }
        let unwritten = self.w.pages.clone();
        for &(at, upto) in &computed {
            self.w.compute(at, upto);
        }
        (step.done, step.failed, step.release) = (&done, &failed, &release);
        (step.fork, step.preempt) = (&fork, &preempt);
        (step.truncate, step.commit, step.append) = (&truncate, &commit, &append);
        (step.extend, step.skip_refused) = (&extend, self.dice.one_in(2));
        step.token_budget = self.dice.one_in(2).then(|| self.dice.between(0, 9));
        let before = picture(&self.w.m, &self.w.handles());
        let ended: Vec<SeqId> = release.iter().chain(&preempt).copied().collect();
        let given_up = self.w.given_up(&truncate, &ended);
        for &seq in &ended {
            self.w.name_tails(seq);
        }
        let outcome = self.w.m.step(&step);
        self.trail.push(format!("{step:x?} -> {outcome:x?}"));
        let Ok(outcome) = outcome else {
            // It never ran: a state that was moved on would be of no use.
            self.w.pages = unwritten;
            return self.unchanged(&before);
        };
        self.w.promises.expect_level(&self.w.m);
        let settled = |t: &u64| done.contains(t) || failed.contains(t);
        self.w.pages.tickets.retain(|(t, _)| !settled(t));
        self.w.promises.loads.retain(|load| !settled(&load.ticket));
        self.w.note_loads();
        self.w.promises.pass(passed.unwrap_or(0));
        if let Some(fence) = fence {
            for kept in given_up {
                self.w.promises.fence(fence, kept);
            }
        }
        for &(seq, len) in &truncate {
            self.w.live.iter_mut().filter(|live| live.seq == seq).for_each(|live| live.cut(len));
        }
        self.came_and_went(&outcome, &fork, &preempt);
        self.w.live.retain(|l| !ended.contains(&l.seq));
        self.w.ended.extend(&ended);
        self.grew(&outcome, &append);
        if let Some(allocation) = outcome.allocated[0] {
            self.came_in(&text, &request, allocation);
        }
        if let Some(plan) = outcome.plan {
            self.w.pages.carry_out(&self.w.m, &plan, self.dice.one_in(5));
        }
    }

    /// Tickets that a step settles: done, and failed.
    fn some_tickets(&mut self) -> (Vec<u64>, Vec<u64>) {
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for &(ticket, lost) in &self.w.pages.tickets {
            if self.dice.one_in(2) {
                if lost { failed.push(ticket) } else { done.push(ticket) }
            }
        }
        for load in &self.w.promises.loads {
            if self.dice.one_in(2) && (load.good == 0 || !load.lost()) {
                if load.lost() { failed.push(load.ticket) } else { done.push(load.ticket) }
            }
        }
        (done, failed)
    }

    fn grew(&mut self, outcome: &StepResult, append: &[(SeqId, Ids<'_>)]) {
        for live in &mut self.w.live {
            let grown = append.iter().position(|(seq, _)| *seq == live.seq);
            let refused =
                |i| outcome.refused.iter().any(|r| r.growth == Growth::Append && r.place == i);
            if let Some((_, Ids::Known(ids))) = grown.filter(|&i| !refused(i)).map(|i| append[i]) {
                live.grow(&ids.iter().map(|&t| u64::from(t)).collect::<Vec<_>>());
            }
        }
    }

    /// The forks of a step are of sequences as it leaves them, also of those that end with it; what is
    /// preempted comes back with all that is known of it.
    fn came_and_went(&mut self, outcome: &StepResult, fork: &[SeqId], preempt: &[SeqId]) {
        assert_eq!((outcome.forks.len(), outcome.preempted.len()), (fork.len(), preempt.len()));
        let of = |live: &[Live], seq| live.iter().find(|l| l.seq == seq).expect("live").clone();
        for (&seq, back) in preempt.iter().zip(&outcome.preempted) {
            let known = of(&self.w.live, seq).chain.len() - 1;
            assert_eq!(back.known() as usize, known, "what is known comes back");
            assert!(back.tables.iter().all(|table| table.is_empty()));
        }
        for (&seq, &child) in fork.iter().zip(&outcome.forks) {
            let twin = Live { seq: child, ..of(&self.w.live, seq) };
            self.w.live.push(twin);
        }
        self.w.seen.forks += fork.len() as u64;
        self.w.seen.preempted += preempt.len() as u64;
    }
}
