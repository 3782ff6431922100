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

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    order: QueueOrder,
    /// By class, as far as these are told apart.
    waiters: Vec<BTreeSet<Waiter>>,
    /// Grows with every change.
    pub version: u64,
}

impl Queue {
    pub fn new(order: QueueOrder, classes: usize) -> Self {
        Self { order, waiters: vec![BTreeSet::new(); classes], version: 0 }
    }

    /// `request` of `class` waits: the `number`-th to arrive, with a prompt of so many tokens.
    pub fn push(
        &mut self,
        class: usize,
        request: usize,
        number: u32,
        (prompt, priority): (u32, i32),
    ) {
        let rank = match self.order {
            QueueOrder::Priority => -i64::from(priority),
            QueueOrder::Shortest => i64::from(prompt),
            QueueOrder::Fcfs | QueueOrder::LongestPrefix => 0,
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

    /// The request that is admitted next, of the classes that are `open`. `cached` returns how many tokens of a
    /// request's prompt are cached now.
    pub fn first(
        &self,
        open: impl Fn(usize) -> bool,
        mut cached: impl FnMut(usize) -> u32,
    ) -> Option<Waiter> {
        let open = || (0..).zip(&self.waiters).filter(|&(class, _)| open(class));
        let first = *open().filter_map(|(_, waiters)| waiters.first()).min()?;
        let by_prefix = self.order == QueueOrder::LongestPrefix
            && first.is_new
            && self.len() <= QueueOrder::LOOKED_AT;
        if !by_prefix {
            return Some(first);
        }
        // Of equals, the first in the order of arrival.
        let mut all: Vec<Waiter> = open().flat_map(|(_, waiters)| waiters).copied().collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().max_by_key(|waiter| cached(waiter.request))
    }

    pub fn remove(&mut self, waiter: &Waiter) {
        self.version += 1;
        let mut waiters = self.waiters.iter_mut();
        waiters.any(|waiters| waiters.remove(waiter));
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
