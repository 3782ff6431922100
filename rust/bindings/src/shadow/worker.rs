//! The thread that runs the shadows. The engine's thread leaves its steps in a queue and goes on: it never
//! waits for this one, and never wakes it, which would cost it a system call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kvframe_core::Error;
use kvframe_core::shadow::{Counts, Progress, Shadow, ShadowSet, Step};

/// How often the thread looks for steps.
const PAUSE: Duration = Duration::from_millis(5);

enum Message {
    Step(Step),
    Reset,
}

#[derive(Default)]
struct Inbox {
    messages: Vec<Message>,
    /// Requests of which a step was left out: the shadows let them go with the next that fits.
    lost: Vec<Progress>,
    dropped: u64,
    /// The thread has taken messages, and is not done.
    busy: bool,
    closed: bool,
    failure: Option<String>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    /// There is something to do that does not wait for the next look.
    hurry: Condvar,
    caught_up: Condvar,
    counts: Mutex<Vec<Counts>>,
    set: Mutex<ShadowSet>,
}

/// A set of shadows, its thread and its queue.
pub struct Worker {
    shared: Arc<Shared>,
    backlog: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A lock whose data stays of use after a panic: it is written whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    pub fn start(set: ShadowSet, backlog: usize) -> Self {
        let counts = set.shadows().iter().map(Shadow::counts).collect();
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            hurry: Condvar::new(),
            caught_up: Condvar::new(),
            counts: Mutex::new(counts),
            set: Mutex::new(set),
        });
        let theirs = Arc::clone(&shared);
        let named = std::thread::Builder::new().name("kvframe-shadow".into());
        let thread = named.spawn(move || theirs.run()).inspect_err(|error| {
            lock(&shared.inbox).failure = Some(format!("no thread could be started: {error}"));
        });
        Self { shared, backlog, thread: Mutex::new(thread.ok()) }
    }

    /// Leaves a step for the thread. A step that does not fit is left out, with the requests that it names.
    pub fn post(&self, mut step: Step) {
        let mut inbox = lock(&self.shared.inbox);
        if inbox.closed || inbox.failure.is_some() {
            return;
        }
        if inbox.messages.len() >= self.backlog {
            inbox.dropped += step.begun.len() as u64;
            let named = step.ended.iter().chain(&step.grown).map(|progress| progress.id);
            let named = named.chain(step.preempted).chain(step.begun.iter().map(|begun| begun.id));
            inbox.lost.extend(named.map(|id| Progress { id, ..Progress::default() }));
            return;
        }
        if !inbox.lost.is_empty() {
            step.ended.splice(0..0, std::mem::take(&mut inbox.lost));
        }
        inbox.messages.push(Message::Step(step));
    }

    pub fn post_reset(&self) {
        // It is rare, and must not be left out.
        lock(&self.shared.inbox).messages.push(Message::Reset);
    }

    /// Waits until the queue is empty. False if the time was too short.
    pub fn flush(&self, limit: Duration) -> bool {
        let (end, shared) = (Instant::now() + limit, &self.shared);
        let mut inbox = lock(&shared.inbox);
        shared.hurry.notify_all();
        while (inbox.busy || !inbox.messages.is_empty()) && inbox.failure.is_none() && !inbox.closed
        {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            inbox = shared
                .caught_up
                .wait_timeout(inbox, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    pub fn counts(&self) -> Vec<Counts> {
        lock(&self.shared.counts).clone()
    }

    pub fn dropped(&self) -> u64 {
        lock(&self.shared.inbox).dropped
    }

    pub fn failure(&self) -> Option<String> {
        lock(&self.shared.inbox).failure.clone()
    }

    /// Work on the set itself, between the steps that are posted.
    pub fn with_set<T>(&self, work: impl FnOnce(&mut ShadowSet) -> T) -> T {
        let mut set = lock(&self.shared.set);
        let done = work(&mut set);
        self.shared.publish(&set);
        done
    }

    pub fn check_integrity(&self) -> Result<(), Error> {
        lock(&self.shared.set).check_integrity()
    }

    /// Ends the thread.
    pub fn close(&self) {
        lock(&self.shared.inbox).closed = true;
        self.shared.hurry.notify_all();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The thread holds no Python object: it ends by itself, and is not waited for.
        lock(&self.shared.inbox).closed = true;
        self.shared.hurry.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        while let Some(messages) = self.next() {
            let worked = catch_unwind(AssertUnwindSafe(|| self.work(messages)));
            let failure = match worked {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("a policy or the set has panicked".into()),
            };
            let mut inbox = lock(&self.inbox);
            inbox.busy = false;
            inbox.failure = failure;
            self.caught_up.notify_all();
            if inbox.failure.is_some() {
                return;
            }
        }
    }

    /// What has been posted; waits for something. `None` once the set is closed.
    fn next(&self) -> Option<Vec<Message>> {
        let mut inbox = lock(&self.inbox);
        while inbox.messages.is_empty() && !inbox.closed {
            inbox = self.hurry.wait_timeout(inbox, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
        if inbox.closed {
            self.caught_up.notify_all();
            return None;
        }
        inbox.busy = true;
        Some(std::mem::take(&mut inbox.messages))
    }

    fn work(&self, messages: Vec<Message>) -> Result<(), Error> {
        let mut set = lock(&self.set);
        let worked = messages.iter().try_for_each(|message| match message {
            Message::Step(step) => set.step(step),
            Message::Reset => set.reset(),
        });
        self.publish(&set);
        worked
    }

    fn publish(&self, set: &ShadowSet) {
        *lock(&self.counts) = set.shadows().iter().map(Shadow::counts).collect();
    }
}
