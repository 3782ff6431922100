//! Who waits, in the order in which they come in.

use std::collections::BTreeSet;

use crate::options::QueueOrder;

/// A request that waits. The least comes in first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter {
    /// It has not run yet; false for one that was preempted.
    is_new: bool,
    rank: i64,
    /// Its place in the order of arrival.
    number: u32,
    pub request: usize,
}

/// What a waiting request is ranked by, where nothing else is looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Tokens of its prompt.
    pub prompt: u32,
    /// Tokens of its answer.
    pub answer: u32,
    pub priority: i32,
}

/// What a waiting request is ranked by, where that depends on what is cached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlook {
    /// Tokens of its prompt that are cached.
    pub cached: u32,
    /// Tokens to compute before its next one.
    pub uncached: u32,
    /// What it lacks first is being computed: it is better let in after that.
    pub is_near: bool,
}

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    order: QueueOrder,
    /// By class, as far as these are told apart.
    waiters: Vec<BTreeSet<Waiter>>,
    /// By class, how often the first of those that are new was passed over.
    passed: Vec<u32>,
    /// Grows with every change.
    pub version: u64,
}

impl Queue {
    pub fn new(order: QueueOrder, classes: usize) -> Self {
        let waiters = vec![BTreeSet::new(); classes];
        Self { order, waiters, passed: vec![0; classes], version: 0 }
    }

    /// `request` of `class` waits: the `number`-th to arrive.
    pub fn push(&mut self, class: usize, request: usize, number: u32, facts: Facts) {
        let (prompt, answer) = (i64::from(facts.prompt), i64::from(facts.answer));
        let rank = match self.order {
            QueueOrder::Priority => -i64::from(facts.priority),
            QueueOrder::Shortest => prompt,
            QueueOrder::Longest => -prompt,
            QueueOrder::ShortestOutput => answer,
            QueueOrder::LongestOutput => -answer,
            QueueOrder::ShortestTotal => prompt + answer,
            QueueOrder::LongestTotal => -(prompt + answer),
            QueueOrder::Fcfs | QueueOrder::LongestPrefix | QueueOrder::FewestUncached => 0,
        };
        self.insert(class, Waiter { is_new: true, rank, number, request });
    }

    /// `request`, the `number`-th to arrive, waits again.
    pub fn push_preempted(&mut self, class: usize, request: usize, number: u32) {
        self.insert(class, Waiter { is_new: false, rank: 0, number, request });
    }

    fn insert(&mut self, class: usize, waiter: Waiter) {
        self.version += 1;
        self.waiters[class].insert(waiter);
    }

    /// The request that is admitted next, if one is, of the classes that are `open`. `outlook` says how a
    /// request stands now.
    pub fn first(
        &self,
        open: impl Fn(usize) -> bool,
        mut outlook: impl FnMut(usize) -> Outlook,
    ) -> Option<Waiter> {
        let open = || (0..).zip(&self.waiters).filter(|&(class, _)| open(class));
        let first = *open().filter_map(|(_, waiters)| waiters.first()).min()?;
        let is_due = |(class, _): (usize, _)| self.passed[class] >= QueueOrder::PATIENCE;
        if !self.order.looks_up() || !first.is_new || open().any(is_due) {
            return Some(first);
        }
        let near = open().flat_map(|(_, waiters)| waiters.iter().take(QueueOrder::LOOKED_AT));
        let mut near: Vec<&Waiter> = near.collect();
        near.sort_unstable();
        let ranked = near.into_iter().take(QueueOrder::LOOKED_AT).filter_map(|waiter| {
            let of = outlook(waiter.request);
            let rank = match self.order {
                QueueOrder::LongestPrefix => -i64::from(of.cached),
                _ => i64::from(of.uncached),
            };
            (!of.is_near).then_some((rank, waiter))
        });
        // Of equals, the first in the order of arrival.
        ranked.min_by_key(|&(rank, _)| rank).map(|(_, waiter)| *waiter)
    }

    pub fn remove(&mut self, waiter: &Waiter) {
        if waiter.is_new {
            self.note_passed(waiter);
        }
        self.version += 1;
        let mut waiters = self.waiters.iter_mut();
        waiters.any(|waiters| waiters.remove(waiter));
    }

    /// `waiter` comes in: the first of each class that came before it is passed over.
    fn note_passed(&mut self, waiter: &Waiter) {
        for (waiters, passed) in self.waiters.iter().zip(&mut self.passed) {
            match waiters.iter().find(|waits| waits.is_new) {
                Some(first) if first == waiter => *passed = 0,
                Some(first) if first < waiter => *passed += 1,
                _ => {}
            }
        }
    }

    /// Who waits, in the order in which they come in; by prefix, in that of their arrival.
    pub fn waiting(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        if let [waiters] = &self.waiters[..] {
            return Box::new(waiters.iter().map(|waiter| waiter.request));
        }
        let mut all: Vec<&Waiter> = self.waiters.iter().flatten().collect();
        all.sort_unstable();
        Box::new(all.into_iter().map(|waiter| waiter.request))
    }

    pub fn len(&self) -> usize {
        self.waiters.iter().map(BTreeSet::len).sum()
    }
}
