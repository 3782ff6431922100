//! The thread that runs the shadows. The engine's thread leaves its steps in a queue and goes on: it never
//! waits for this one, and never wakes it, which would cost it a system call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kvframe_core::Error;
use kvframe_core::shadow::{Counts, Generated, Progress, Progressed, ShadowSet, Step};

/// The longest that is waited for a thread: 136 years, as far as an [`Instant`] reaches for sure.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// How often the thread looks for steps.
const PAUSE: Duration = Duration::from_millis(5);

enum Message {
    Step(Step),
    Progressed(Progressed),
    Reset(u64),
}

impl Message {
    /// Requests that begin or come with it, and all requests that it names.
    fn named(&self) -> (usize, Vec<u64>) {
        match self {
            Self::Step(step) => {
                let progressed = step.ended.iter().chain(&step.grown).map(|one| one.id);
                let began = step.begun.iter().map(|one| one.id);
                let preempted = step.preempted.iter().copied();
                (step.begun.len(), progressed.chain(preempted).chain(began).collect())
            }
            Self::Progressed(told) => {
                let generated = told.ended.iter().chain(&told.running).map(|one| one.id);
                let came = told.arrived.iter().map(|one| one.id);
                let found = told.found.iter().map(|one| one.0);
                (told.arrived.len(), generated.chain(found).chain(came).collect())
            }
            Self::Reset(_) => (0, Vec::new()),
        }
    }

    /// These requests end with it.
    fn let_go(&mut self, lost: Vec<u64>) {
        match self {
            Self::Step(step) => {
                let gone = lost.into_iter().map(|id| Progress { id, ..Progress::default() });
                step.ended.splice(0..0, gone);
            }
            Self::Progressed(told) => {
                let gone = lost.into_iter().map(|id| Generated { id, ..Generated::default() });
                told.ended.extend(gone);
            }
            Self::Reset(_) => (),
        }
    }
}

#[derive(Default)]
struct Inbox {
    messages: Vec<Message>,
    /// Requests of which a step was left out: the shadows let them go with the next that fits.
    lost: Vec<u64>,
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
    sets: Mutex<Vec<ShadowSet>>,
}

/// Sets of shadows that are told the same, their thread and its queue.
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
    /// The counts of the sets follow each other.
    pub fn start(sets: Vec<ShadowSet>, backlog: usize) -> Self {
        let counts = counts_of(&sets);
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            hurry: Condvar::new(),
            caught_up: Condvar::new(),
            counts: Mutex::new(counts),
            sets: Mutex::new(sets),
        });
        let theirs = Arc::clone(&shared);
        let named = std::thread::Builder::new().name("kvframe-shadow".into());
        let thread = named.spawn(move || theirs.run()).inspect_err(|error| {
            lock(&shared.inbox).failure = Some(format!("no thread could be started: {error}"));
        });
        Self { shared, backlog, thread: Mutex::new(thread.ok()) }
    }

    /// Leaves a step for the thread. One that does not fit is left out, with the requests that it names.
    pub fn post_step(&self, step: Step) {
        self.post(Message::Step(step));
    }

    /// The same of several steps.
    pub fn post_progressed(&self, told: Progressed) {
        self.post(Message::Progressed(told));
    }

    /// A reset is rare, and never left out.
    pub fn post_reset(&self, step: u64) {
        lock(&self.shared.inbox).messages.push(Message::Reset(step));
    }

    fn post(&self, mut message: Message) {
        let mut inbox = lock(&self.shared.inbox);
        if inbox.closed || inbox.failure.is_some() {
            return;
        }
        if inbox.messages.len() >= self.backlog {
            let (came, named) = message.named();
            inbox.dropped += came as u64;
            inbox.lost.extend(named);
            return;
        }
        if !inbox.lost.is_empty() {
            message.let_go(std::mem::take(&mut inbox.lost));
        }
        inbox.messages.push(message);
    }

    /// Waits until the queue is empty. False if the time was too short.
    pub fn flush(&self, limit: Duration) -> bool {
        let (end, shared) = (Instant::now() + limit.min(LONGEST), &self.shared);
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

    /// Work on the sets themselves, between the steps that are posted.
    pub fn with_sets<T>(&self, work: impl FnOnce(&mut [ShadowSet]) -> T) -> T {
        let mut sets = lock(&self.shared.sets);
        let done = work(&mut sets);
        self.shared.publish(&sets);
        done
    }

    pub fn check_integrity(&self) -> Result<(), Error> {
        lock(&self.shared.sets).iter().try_for_each(ShadowSet::check_integrity)
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
        let mut sets = lock(&self.sets);
        let worked = messages.iter().try_for_each(|message| {
            sets.iter_mut().try_for_each(|set| match message {
                Message::Step(step) => set.step(step),
                Message::Progressed(told) => set.advance(told),
                Message::Reset(step) => set.reset(*step),
            })
        });
        self.publish(&sets);
        worked
    }

    fn publish(&self, sets: &[ShadowSet]) {
        *lock(&self.counts) = counts_of(sets);
    }
}

fn counts_of(sets: &[ShadowSet]) -> Vec<Counts> {
    sets.iter().flat_map(ShadowSet::counts).collect()
}
