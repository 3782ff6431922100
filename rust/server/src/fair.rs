//! What each class may still have of a step, where classes are tenants or have shares.

use crate::options::ServerOptions;

/// What is left for one class in a step.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// Prompt tokens.
    tokens: u32,
    /// Sequences that may come in.
    places: u32,
    /// One of its requests found no room, or gave its blocks up: no other of it comes in.
    closed: bool,
}

/// What is left for each class in a step. Where all are served alike, all are one class without a limit.
#[derive(Debug)]
pub(crate) struct Fair {
    most: Vec<(u32, u32)>,
    left: Vec<Left>,
}

impl Fair {
    /// Of a trace with so many classes, beside those of requests without one.
    pub fn new(options: &ServerOptions, classes: usize) -> Self {
        if !options.tells_apart() {
            return Self { most: vec![(u32::MAX, u32::MAX)], left: Vec::new() };
        }
        let of = |all: u32, share: f64| ((share * f64::from(all)).floor() as u32).max(1);
        let share = |class: usize| {
            let named = class.checked_sub(1).and_then(|at| options.shares.get(at));
            named.copied().unwrap_or(1.0)
        };
        let most = (0..=classes).map(|class| {
            let share = share(class);
            (of(options.max_num_batched_tokens, share), of(options.max_num_seqs, share))
        });
        Self { most: most.collect(), left: Vec::new() }
    }

    /// Whether all are served alike.
    pub fn is_off(&self) -> bool {
        self.most.len() == 1
    }

    /// How many classes are told apart.
    pub fn classes(&self) -> usize {
        self.most.len()
    }

    /// The class as it counts here.
    pub fn class(&self, class: usize) -> usize {
        if self.is_off() { 0 } else { class }
    }

    /// A step begins with these sequences, of their classes.
    pub fn begin(&mut self, running: impl Iterator<Item = usize>) {
        let left = |&(tokens, places): &(u32, u32)| Left { tokens, places, closed: false };
        self.left.clear();
        self.left.extend(self.most.iter().map(left));
        if !self.is_off() {
            running.for_each(|class| self.take_place(class));
        }
    }

    /// Prompt tokens that `class` may still compute.
    pub fn tokens(&self, class: usize) -> u32 {
        self.left[class].tokens
    }

    /// Prompt tokens that `class` may compute in a whole step.
    pub fn most_tokens(&self, class: usize) -> u32 {
        self.most[class].0
    }

    /// It computes so many.
    pub fn spend(&mut self, class: usize, tokens: u32) {
        self.left[class].tokens -= tokens.min(self.left[class].tokens);
    }

    /// It does not compute so many, after all.
    pub fn give_back(&mut self, class: usize, tokens: u32) {
        self.left[class].tokens = self.left[class].tokens.saturating_add(tokens);
    }

    /// A sequence of it has come in.
    pub fn take_place(&mut self, class: usize) {
        self.left[class].places = self.left[class].places.saturating_sub(1);
    }

    /// None of it comes in any more.
    pub fn close(&mut self, class: usize) {
        self.left[class].closed = true;
    }

    /// Whether a request of it may come in.
    pub fn is_open(&self, class: usize) -> bool {
        let Left { tokens, places, closed } = self.left[class];
        !closed && tokens > 0 && places > 0
    }
}
