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
    waiters: BTreeSet<Waiter>,
    /// How often the first of those that are new was passed over.
    passed: u32,
    /// Grows with every change.
    pub version: u64,
}

impl Queue {
    pub fn new(order: QueueOrder) -> Self {
        Self { order, waiters: BTreeSet::new(), passed: 0, version: 0 }
    }

    /// `request` waits: the `number`-th to arrive, with a prompt of so many tokens.
    pub fn push(&mut self, request: usize, number: u32, (prompt, priority): (u32, i32)) {
        let rank = match self.order {
            QueueOrder::Priority => -i64::from(priority),
            QueueOrder::Shortest => i64::from(prompt),
            QueueOrder::Fcfs | QueueOrder::LongestPrefix | QueueOrder::FewestUncached => 0,
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

    /// The request that is admitted next, if one is. `outlook` says how a request stands now.
    pub fn first(&self, mut outlook: impl FnMut(usize) -> Outlook) -> Option<Waiter> {
        let first = *self.waiters.first()?;
        if !self.order.looks_up() || !first.is_new || self.passed >= QueueOrder::PATIENCE {
            return Some(first);
        }
        let near = self.waiters.iter().take(QueueOrder::LOOKED_AT);
        let ranked = near.filter_map(|waiter| {
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
        let first = self.waiters.iter().find(|waits| waits.is_new);
        if waiter.is_new {
            self.passed = if first == Some(waiter) { 0 } else { self.passed + 1 };
        }
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
