//! A manager, and the handles and tickets that it gave out.

use kvframe_core::events::{Event, Kind};
use kvframe_core::index::IndexKind;
use kvframe_core::locks::Receipt;
use kvframe_core::manager::{AllocStatus, Ids, PinRequest, PreemptionOrder, Step};
use kvframe_core::policy::{
    Candidates, Consult, External, NAMES, PolicyOptions, Subscriptions, by_name,
};
use kvframe_core::retention::Hint;
use kvframe_core::{
    Allocation, Error, Group, GroupKind, HashAlgo, Manager, Options, Result, SeqId,
};

use crate::alone;
use crate::common::picture;
use crate::request::{keep_of, request_of, tokens};
use crate::verbs::{self, Pick, Setup, Verb};

pub struct World {
    pub m: Manager,
    pub seqs: Vec<SeqId>,
    pub tickets: Vec<u64>,
    loans: Vec<u32>,
    pub pins: Vec<Receipt>,
}

pub fn rule_of(number: usize) -> PreemptionOrder {
    let rules = [
        PreemptionOrder::FewestComputed,
        PreemptionOrder::LastAdmitted,
        PreemptionOrder::LowestPriority,
        PreemptionOrder::LongestFirst,
        PreemptionOrder::LeastRecent,
        PreemptionOrder::LeastFrequent,
        PreemptionOrder::MostFreed,
    ];
    rules[number % rules.len()]
}

impl World {
    /// `None` where the options are refused.
    pub fn new(setup: &Setup) -> Option<Self> {
        let group = |&number: &u8| match (number % 24, number / 24) {
            (0..8, _) => GroupKind::Full,
            (window, 2) => GroupKind::Chunked { chunk: u32::from(window) - 7 },
            (window, 3) => GroupKind::SinkWindow { sink: 2, window: u32::from(window) - 7 },
            (_, 4) => GroupKind::State,
            (window, _) => GroupKind::SlidingWindow { window: u32::from(window) - 7 },
        };
        let groups: Vec<Group> = setup.groups.iter().take(3).map(|w| group(w).into()).collect();
        let hashes = [HashAlgo::Sha256, HashAlgo::Blake3, HashAlgo::Xxh3];
        let options = Options {
            blocks: u32::from(setup.blocks % 48),
            block_size: u32::from(setup.block_size % 6),
            groups: if groups.is_empty() { vec![GroupKind::Full.into()] } else { groups },
            hash: hashes[setup.hash as usize % hashes.len()],
            prefix_caching: setup.prefix_caching,
            null_block: setup.null_block,
            event_log: true,
            reserve: u32::from(setup.reserve % 4),
            index: if setup.radix { IndexKind::Radix } else { IndexKind::Hash },
            sessions: setup.sessions,
            pin_cap: f64::from(setup.pin_cap) / 255.0,
            remap_duplicates: setup.remap_duplicates,
            partial_hits: setup.partial_hits,
            ..Options::default()
        };
        let policy = match NAMES.get(setup.policy as usize % (NAMES.len() + 2)) {
            Some(name) => by_name(name, PolicyOptions::default()).expect("a shipped policy"),
            None => {
                Box::new(External::new(Subscriptions { events: true, ..Subscriptions::default() }))
            }
        };
        let m = Manager::new(options, policy).ok()?;
        let (seqs, tickets, loans, pins) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Some(Self { m, seqs, tickets, loans, pins })
    }

    pub fn seq(&self, pick: Pick) -> SeqId {
        // The latest, as nearly all others have ended.
        let recent = &self.seqs[self.seqs.len().saturating_sub(12)..];
        recent.get(pick.0 as usize % 13).copied().unwrap_or(u64::from(pick.0) << 30)
    }

    pub fn ticket(&self, pick: Pick) -> u64 {
        let recent = &self.tickets[self.tickets.len().saturating_sub(8)..];
        recent.get(pick.0 as usize % 9).copied().unwrap_or(u64::from(pick.0) * 977)
    }

    /// Runs `act`; where it is refused, nothing may have changed. Victims are the first offered.
    pub fn judged<T>(&mut self, act: impl Fn(&mut Manager) -> Result<T>) -> Option<T> {
        self.m.take_events();
        let before = picture(&self.m, &self.seqs);
        let mut outcome = act(&mut self.m);
        if let Err(Error::NeedVictims { n }) = outcome {
            let n = n as usize;
            let mut offer = Candidates::default();
            self.m.candidates(n, 0, &mut offer);
            assert!(offer.blocks.len() >= n, "room was promised, and is not offered");
            self.m.choose(&offer.blocks[..n], &offer.generations[..n]);
            outcome = act(&mut self.m);
            self.m.take_journal();
        }
        self.m.settle_choice();
        match outcome {
            Ok(value) => Some(value),
            Err(error @ (Error::Integrity(_) | Error::NeedVictims { .. })) => panic!("{error}"),
            Err(error) => {
                assert!(picture(&self.m, &self.seqs) == before, "refused, and changed: {error}");
                // That it was refused is all the log may say.
                let mut told = self.m.take_events();
                told.retain(|event| event.kind != Kind::Refuse);
                assert_eq!(told, Vec::<Event>::new(), "refused, and logged: {error}");
                None
            }
        }
    }

    fn came_in(&mut self, allocation: Allocation) {
        self.seqs.push(allocation.seq);
        self.tickets.extend(allocation.load);
    }

    /// Does it, then checks the state.
    pub fn act(&mut self, verb: &Verb) {
        self.carry_out(verb);
        self.m.check_integrity().expect("sound");
        let pool = self.m.pool();
        assert_eq!(pool.free() + pool.cached() + pool.referenced(), pool.capacity());
    }

    fn carry_out(&mut self, verb: &Verb) {
        match *verb {
            Verb::Allocate(ref asked) => {
                let request = request_of(&self.m, asked);
                let said = self.m.can_allocate(&request);
                alone::check(self.m.options(), &request, said.as_ref().ok());
                let allocation = self.judged(|m| m.allocate(&request));
                assert_eq!(
                    allocation.is_some(),
                    said == Ok(AllocStatus::Ok),
                    "can_allocate and allocate differ"
                );
                if let Some(allocation) = allocation {
                    self.came_in(allocation);
                }
            }
            Verb::Lookup(ref asked) => {
                let (request, tokens) = (request_of(&self.m, asked), tokens(&asked.tokens));
                let hit = self.m.lookup(&tokens, request.space(), &request.mm_items);
                assert!(hit.tokens as usize <= tokens.len().saturating_sub(1));
            }
            Verb::Fork(pick) => {
                let seq = self.seq(pick);
                if let Some(child) = self.judged(|m| m.fork(seq)) {
                    self.seqs.push(child);
                }
            }
            Verb::Lease(pick, upto) => {
                let seq = self.seq(pick);
                if let Some(ticket) = self.judged(|m| m.lease(seq, upto.into())) {
                    self.tickets.push(ticket);
                }
            }
            Verb::TakePlan => self.tickets.extend(self.m.take_plan().map(|plan| plan.ticket)),
            Verb::Lend(count) => {
                let blocks = vec![0; usize::from(count % 24)];
                let lent = self.judged(|m| {
                    let mut out = blocks.clone();
                    m.take(&mut out).map(|()| out)
                });
                self.loans.extend(lent.into_iter().flatten());
            }
            Verb::GiveBack(ref picks) => {
                let loan = |&p: &u8| self.loans.get(usize::from(p)).copied().unwrap_or(p.into());
                let blocks: Vec<u32> = picks.iter().map(loan).collect();
                if self.judged(|m| m.free(&blocks)).is_some() {
                    self.loans.retain(|b| !blocks.contains(b));
                }
            }
            Verb::Step(ref asked) => self.step(asked),
            Verb::Held(ref held) => self.held(held),
            ref sequence => self.of_one(sequence),
        }
    }

    /// Verbs that give out nothing.
    fn of_one(&mut self, verb: &Verb) {
        match *verb {
            Verb::Append(pick, ref ids) => {
                let (seq, ids) = (self.seq(pick), tokens(ids));
                self.judged(|m| m.append(seq, &ids));
            }
            Verb::AppendUnknown(pick, count) => {
                let seq = self.seq(pick);
                self.judged(|m| m.append_placeholders(seq, count.into()));
            }
            Verb::Fill(pick, ref ids) => {
                let (seq, ids) = (self.seq(pick), tokens(ids));
                self.judged(|m| m.fill_placeholders(seq, &ids));
            }
            Verb::Extend(pick, until) => {
                let seq = self.seq(pick);
                self.judged(|m| m.extend(seq, until.into()));
            }
            Verb::Commit(pick, upto) => {
                let seq = self.seq(pick);
                self.judged(|m| m.commit(seq, upto.into()));
            }
            Verb::CommitAll(pick) => {
                let seq = self.seq(pick);
                let all = self.m.sequence(seq).map_or(0, |s| s.len.min(s.filled()));
                self.judged(|m| m.commit(seq, all));
            }
            Verb::Truncate(pick, len) => {
                let seq = self.seq(pick);
                self.judged(|m| m.truncate(seq, len.into()));
            }
            Verb::Release(pick) => {
                let seq = self.seq(pick);
                self.judged(|m| m.release(seq));
            }
            Verb::ReleaseBehind(pick, fence) => {
                let seq = self.seq(pick);
                self.judged(|m| m.release_behind(seq, fence.into()));
            }
            Verb::Done(pick) => {
                let ticket = self.ticket(pick);
                self.judged(|m| m.done(ticket));
            }
            Verb::Failed(pick) => {
                let ticket = self.ticket(pick);
                self.judged(|m| m.failed(ticket));
            }
            Verb::Loaded(pick, blocks) => {
                let ticket = self.ticket(pick);
                self.judged(|m| m.loaded(ticket, blocks.into()));
            }
            ref other => self.of_all(other),
        }
    }

    /// Verbs about the manager as a whole.
    fn of_all(&mut self, verb: &Verb) {
        match *verb {
            Verb::Pass(fence) => self.m.pass(fence.into()),
            Verb::ClearCache => {
                self.m.reset_prefix_cache();
            }
            Verb::SetFingerprint(name) => {
                self.m.set_weight_version(&[name % 3]);
            }
            Verb::Collect(free) => {
                self.judged(|m| m.evict_until(free.into()));
            }
            Verb::Resize(blocks) => {
                self.judged(|m| m.resize(u32::from(blocks % 64)));
            }
            Verb::Sleep => {
                self.judged(Manager::sleep);
            }
            Verb::Wake => self.m.wake(),
            Verb::PreemptionOrder(ref picks) => {
                let seqs: Vec<SeqId> = picks.iter().map(|&p| self.seq(p)).collect();
                self.judged(|m| m.preemption_order(&seqs, rule_of(seqs.len())));
            }
            Verb::PreemptionTo(ref picks, usage) => {
                let seqs: Vec<SeqId> = picks.iter().map(|&p| self.seq(p)).collect();
                let usage = f64::from(usage) / 255.0;
                self.judged(|m| m.preemption_to(&seqs, rule_of(seqs.len()), usage));
            }
            ref other => self.of_retention(other),
        }
    }

    /// Verbs about what stays.
    fn of_retention(&mut self, verb: &Verb) {
        let pinner =
            |lease: Option<u8>| PinRequest { lease: lease.map(u64::from), ..PinRequest::default() };
        match *verb {
            Verb::Touch(ref picks) => {
                let seqs: Vec<SeqId> = picks.iter().map(|&p| self.seq(p)).collect();
                self.judged(|m| m.touch(&seqs));
            }
            Verb::UnpinAll => {
                self.judged(|m| m.unpin_all(None));
            }
            Verb::Retain(session, ref keep) => {
                let hint = match keep.end % 2 {
                    0 => Hint::Retain(keep_of(keep)),
                    _ => Hint::Demote(keep.priority / 2),
                };
                self.judged(|m| m.hint((session % 4).into(), hint));
            }
            Verb::EndSession(session) => {
                self.judged(|m| m.hint((session % 4).into(), Hint::Release));
            }
            Verb::PinSession(session, lease) => {
                self.judged(|m| m.pin_session((session % 4).into(), pinner(lease)));
            }
            ref unknown => unreachable!("{unknown:?} is carried out above"),
        }
    }

    fn step(&mut self, asked: &verbs::Step) {
        let pairs = |of: &[(Pick, u8)]| -> Vec<(SeqId, u32)> {
            of.iter().map(|&(p, n)| (self.seq(p), n.into())).collect()
        };
        let tickets = |of: &[Pick]| of.iter().map(|&p| self.ticket(p)).collect::<Vec<_>>();
        let (done, failed) = (tickets(&asked.done), tickets(&asked.failed));
        let (truncate, commit) = (pairs(&asked.truncate), pairs(&asked.commit));
        let seqs = |of: &[Pick]| of.iter().map(|&p| self.seq(p)).collect::<Vec<_>>();
        let (release, fork) = (seqs(&asked.release), seqs(&asked.fork));
        let preempt = seqs(&asked.preempt);
        // Every other growth comes before its ids are known.
        let ids = |n: u8| match n % 2 {
            0 => Ids::Known(&[1; 8][..n as usize % 9]),
            _ => Ids::Unknown(u32::from(n % 9)),
        };
        let append: Vec<(SeqId, Ids<'_>)> =
            asked.append.iter().map(|&(p, n)| (self.seq(p), ids(n))).collect();
        let extend = pairs(&asked.extend);
        let allocate: Vec<_> = asked.allocate.iter().map(|r| request_of(&self.m, r)).collect();
        let step = Step {
            done: &done,
            failed: &failed,
            truncate: &truncate,
            commit: &commit,
            release: &release,
            fork: &fork,
            preempt: &preempt,
            fence: asked.fence.map(u64::from),
            passed: asked.passed.map(u64::from),
            append: &append,
            extend: &extend,
            allocate: &allocate,
            token_budget: asked.token_budget.map(u32::from),
            skip_refused: asked.skip_refused,
            ..Step::default()
        };
        let Some(outcome) = self.judged(|m| m.step(&step)) else { return };
        let sizes = (outcome.appended, outcome.extended.len(), outcome.allocated.len());
        assert_eq!(sizes, (append.len(), extend.len(), allocate.len()), "one answer a request");
        assert_eq!((outcome.forks.len(), outcome.preempted.len()), (fork.len(), preempt.len()));
        self.seqs.extend(&outcome.forks);
        outcome.allocated.into_iter().flatten().for_each(|allocation| self.came_in(allocation));
        self.tickets.extend(outcome.plan.map(|plan| plan.ticket));
    }
}
