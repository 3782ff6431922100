//! The engines' events on their way to the router's index.
//!
//! What became findable or was evicted at one time is a message of its engine. It arrives after a delay, or
//! never: the index then believes what is no longer so, until something else corrects it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use kvframe_core::events::Kind;
use kvframe_core::router::{Rank, Router, Text};
use kvframe_core::{Key, Manager};

use super::copies::Copies;
use super::directory::Directory;
use crate::prompts::Prompts;

/// How events get to the router.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FeedOptions {
    /// Seconds from what happened to the router's knowing it.
    pub delay: f64,
    /// The share of messages that are lost.
    pub loss: f64,
    /// Which of them: other numbers lose others.
    pub seed: u64,
}

/// One change of what an engine can find.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// Under this key, behind a parent.
    Stored(Key, Key),
    Removed(Key),
}

#[derive(Debug)]
struct Message {
    due: f64,
    changes: Vec<Change>,
}

#[derive(Debug)]
pub(super) struct Feed {
    options: FeedOptions,
    index: Router,
    /// On their way, by engine.
    coming: Vec<VecDeque<Message>>,
    /// Blocks of each engine under one key, where there are any.
    held: Vec<HashMap<Key, u32>>,
    /// It knows at once, and loses nothing.
    directory: Option<Rc<RefCell<Directory>>>,
    random: u64,
    sent: u64,
    lost: u64,
}

/// The index's key: it takes 64 bits.
fn short(key: Key) -> u64 {
    (key.0 >> 64) as u64 ^ (key.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Feed {
    /// For engines that hold so many blocks together.
    pub fn new(options: FeedOptions, engines: usize, blocks: usize) -> Self {
        // Twice as many: what was removed may not have been told yet.
        let mut index = Router::new(0, blocks.saturating_mul(2).min(u32::MAX as usize / 2));
        for at in 0..engines as u64 {
            index.add_worker(at);
        }
        Self {
            options,
            index,
            coming: (0..engines).map(|_| VecDeque::new()).collect(),
            held: vec![HashMap::new(); engines],
            directory: None,
            random: options.seed,
            sent: 0,
            lost: 0,
        }
    }

    /// The same, which tells a directory, too.
    pub fn telling(self, directory: Option<Rc<RefCell<Directory>>>) -> Self {
        Self { directory, ..self }
    }

    /// What has happened in an engine since the last call is sent at `now`.
    pub fn take(&mut self, at: usize, manager: &mut Manager, now: f64) {
        let held = &mut self.held[at];
        let mut changes = Vec::new();
        for event in manager.take_events() {
            match event.kind {
                Kind::Store => {
                    let blocks = held.entry(event.key).or_default();
                    *blocks += 1;
                    if *blocks == 1 {
                        changes.push(Change::Stored(event.key, event.parent));
                    }
                }
                Kind::Evict | Kind::Forget => {
                    let Some(blocks) = held.get_mut(&event.key) else { continue };
                    *blocks -= 1;
                    if *blocks == 0 {
                        held.remove(&event.key);
                        changes.push(Change::Removed(event.key));
                    }
                }
                _ => {}
            }
        }
        if changes.is_empty() {
            return;
        }
        if let Some(directory) = &self.directory {
            let mut directory = directory.borrow_mut();
            for &change in &changes {
                directory.note(at, change);
            }
        }
        self.sent += 1;
        if self.is_lost() {
            self.lost += 1;
        } else {
            self.coming[at].push_back(Message { due: now + self.options.delay, changes });
        }
    }

    fn is_lost(&mut self) -> bool {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.random;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((x ^ (x >> 31)) >> 11) as f64) / ((1u64 << 53) as f64) < self.options.loss
    }

    /// Messages that have arrived by `now` enter the index.
    pub fn deliver(&mut self, now: f64, mut copies: Option<&mut Copies>) {
        for at in 0..self.coming.len() {
            while self.coming[at].front().is_some_and(|first| first.due <= now)
                && let Some(message) = self.coming[at].pop_front()
            {
                if let Some(copies) = copies.as_deref_mut() {
                    message.changes.iter().for_each(|&change| copies.note(at, change));
                }
                self.apply(at, &message.changes);
            }
        }
    }

    fn apply(&mut self, at: usize, changes: &[Change]) {
        let rank = Rank::from(at as u64);
        let mut chain: Vec<u64> = Vec::new();
        let mut rest = changes.iter().peekable();
        while let Some(change) = rest.next() {
            match *change {
                Change::Removed(key) => _ = self.index.removed(rank, &[short(key)], 0),
                Change::Stored(key, parent) => {
                    chain.clear();
                    chain.push(short(key));
                    let mut last = key;
                    while let Some(&&Change::Stored(key, parent)) = rest.peek()
                        && parent == last
                    {
                        chain.push(short(key));
                        last = key;
                        rest.next();
                    }
                    let parent = (parent != Key(0)).then(|| short(parent));
                    self.index.stored(rank, &chain, parent, Text::default(), 0);
                }
            }
        }
    }

    /// Tokens of a request's prompt that each engine is believed to have, but for the last one, which is
    /// always computed.
    pub fn matched(&self, prompts: &Prompts<'_>, request: usize, engines: usize) -> Vec<u32> {
        let (keys, most) = prompts.findable(request);
        let keys: Vec<u64> = keys.map(short).collect();
        let mut matched = vec![0; engines];
        for reach in self.index.match_keys(&keys) {
            matched[reach.worker as usize] = (reach.blocks[0] * prompts.block_size()).min(most);
        }
        matched
    }

    /// Messages sent, and lost of them.
    pub fn messages(&self) -> (u64, u64) {
        (self.sent, self.lost)
    }
}
