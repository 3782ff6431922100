//! A lock that the thread that has it may take again.

use std::ptr::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::calls::lock;

thread_local! {
    static ME: u8 = const { 0 };
}

/// Lets one thread at a time deliver events to a policy and ask it, so that events arrive in the
/// order of the core's journal. The policy may call back meanwhile.
#[derive(Default)]
pub struct Turns {
    lock: Mutex<()>,
    /// Address of a thread-local variable of the thread that has the turn; 0 if no thread has it.
    whose: AtomicUsize,
}

/// A turn, until it is dropped.
pub struct Turn<'a> {
    whose: &'a AtomicUsize,
    _lock: MutexGuard<'a, ()>,
}

impl Turns {
    /// Waits for its turn; `None` if it is this thread's already.
    pub fn take(&self, py: Python<'_>) -> PyResult<Option<Turn<'_>>> {
        let me = ME.with(|me| from_ref(me).addr());
        if self.whose.load(Ordering::Relaxed) == me {
            return Ok(None);
        }
        let lock = lock(py, &self.lock)?.unwrap_or_else(PoisonError::into_inner);
        self.whose.store(me, Ordering::Relaxed);
        Ok(Some(Turn { whose: &self.whose, _lock: lock }))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.whose.store(0, Ordering::Relaxed);
    }
}
