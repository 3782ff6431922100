//! Faults of a policy: counted inside the core, reported outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared between the policy in the core and the code that reports its faults to users.
#[derive(Debug)]
pub struct Faults {
    strict: bool,
    count: AtomicU64,
    reported: AtomicU64,
    /// The first fault that is not reported yet; else the last reported one.
    last: Mutex<String>,
}

impl Faults {
    /// `strict`: a policy that failed decides nothing more.
    #[must_use]
    pub fn new(strict: bool) -> Self {
        Self {
            strict,
            count: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }

    fn last(&self) -> MutexGuard<'_, String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a fault.
    pub fn add(&self, what: String) {
        let mut last = self.last();
        if self.reported.load(Ordering::Acquire) == self.count() {
            *last = what;
        }
        self.count.fetch_add(1, Ordering::Release);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Whether faults end decisions.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Whether decisions are over.
    pub fn is_final(&self) -> bool {
        self.strict && self.count() > 0
    }

    /// The first fault since the last call, if there was one.
    pub fn news(&self) -> Option<String> {
        let count = self.count();
        if self.reported.load(Ordering::Acquire) == count {
            return None;
        }
        let what = self.last();
        (self.reported.swap(count, Ordering::AcqRel) < count).then(|| what.clone())
    }

    /// The first fault that is not reported yet; else the last reported one.
    pub fn what(&self) -> String {
        self.last().clone()
    }
}
