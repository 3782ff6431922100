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
    waiters: BTreeSet<Waiter>,
    /// Grows with every change.
    pub version: u64,
}

impl Queue {
    pub fn new(order: QueueOrder) -> Self {
        Self { order, waiters: BTreeSet::new(), version: 0 }
    }

    /// `request` waits: the `number`-th to arrive, with a prompt of so many tokens.
    pub fn push(&mut self, request: usize, number: u32, (prompt, priority): (u32, i32)) {
        let rank = match self.order {
            QueueOrder::Priority => -i64::from(priority),
            QueueOrder::Shortest => i64::from(prompt),
            QueueOrder::Fcfs | QueueOrder::LongestPrefix => 0,
        };
        self.insert(Waiter { is_new: true, rank, number, request });
    }

    /// `request`, the `number`-th to arrive, waits again.
    pub fn push_preempted(&mut self, request: usize, number: u32) {
        self.insert(Waiter { is_new: false, rank: 0, number, request });
    }

    fn insert(&mut self, waiter: Waiter) {
        self.version += 1;
        self.waiters.insert(waiter);
    }

    /// The request that is admitted next. `cached` returns how many tokens of a request's prompt are cached
    /// now.
    pub fn first(&self, mut cached: impl FnMut(usize) -> u32) -> Option<Waiter> {
        let first = *self.waiters.first()?;
        let by_prefix = self.order == QueueOrder::LongestPrefix
            && first.is_new
            && self.waiters.len() <= QueueOrder::LOOKED_AT;
        if !by_prefix {
            return Some(first);
        }
        // Of equals, the first in the order of arrival.
        let longest = self.waiters.iter().rev().max_by_key(|waiter| cached(waiter.request));
        longest.copied()
    }

    pub fn remove(&mut self, waiter: &Waiter) {
        self.version += 1;
        self.waiters.remove(waiter);
    }

    /// Who waits, in the order in which they come in; by prefix, in that of their arrival.
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiters.iter().map(|waiter| waiter.request)
    }

    pub fn len(&self) -> usize {
        self.waiters.len()
    }
}
