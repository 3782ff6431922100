//! A manager, the pages under it, and the sequences an engine believes in.

use kvframe_core::policy::{Candidates, External, PolicyOptions, by_name};
use kvframe_core::pool::State;
use kvframe_core::{BlockId, Error, GroupKind, Key, Manager, NIL, Options, Result, SeqId};

use crate::dice::{Dice, mix};
use crate::pages::{POISON, Pages, STALE, value};
use crate::promises::{Kept, Load, Promises};
use crate::texts::{Text, space};

/// A sequence as its engine sees it.
#[derive(Debug, Clone)]
pub struct Live {
    pub seq: SeqId,
    /// Digest of the first `i` tokens.
    pub chain: Vec<u64>,
    /// Ids at the end that the manager does not know yet.
    pub unknown: Vec<u32>,
    /// Resets before it came.
    pub epoch: u64,
}

impl Live {
    pub fn new(seq: SeqId, text: &Text, epoch: u64) -> Self {
        let chain = vec![mix(7, text.space as u64)];
        let mut live = Self { seq, chain, unknown: Vec::new(), epoch };
        live.grow(&text.atoms);
        live
    }

    pub fn grow(&mut self, atoms: &[u64]) {
        for &atom in atoms {
            let last = *self.chain.last().expect("never empty");
            self.chain.push(mix(last, atom));
        }
    }

    /// Cut to `len` tokens.
    pub fn cut(&mut self, len: u32) {
        let gone = (self.chain.len() - 1).saturating_sub(len as usize);
        self.unknown.truncate(self.unknown.len().saturating_sub(gone));
        self.chain.truncate(len as usize + 1);
    }

    /// Tokens whose ids the manager knows.
    pub fn filled(&self) -> u32 {
        (self.chain.len() - 1 - self.unknown.len()) as u32
    }

    /// What the slot of token `at` must hold in `group`.
    pub fn content(&self, at: u32, group: usize) -> u64 {
        value(mix(self.chain[at as usize + 1], group as u64), self.epoch)
    }

    /// What block `at` of `group` must hold.
    pub fn page(&self, at: u32, group: usize, size: u32) -> Vec<u64> {
        (at * size..(at + 1) * size).map(|token| self.content(token, group)).collect()
    }
}

/// Everything a run drives.
pub struct World {
    pub m: Manager,
    pub pages: Pages,
    pub live: Vec<Live>,
    pub loans: Vec<BlockId>,
    pub ended: Vec<SeqId>,
    pub size: u32,
    /// What the manager promised to keep.
    pub promises: Promises,
    /// Resets so far.
    pub epoch: u64,
}

impl World {
    pub fn new(options: Options, policy: &str) -> Self {
        let (blocks, size) = (options.blocks, options.block_size);
        let policy = match policy {
            "external" => Box::new(External::new(true)),
            name => by_name(name, PolicyOptions::default()).expect("a shipped policy"),
        };
        Self {
            m: Manager::new(options, policy).expect("sound options"),
            pages: Pages::new(blocks, size),
            live: Vec::new(),
            loans: Vec::new(),
            ended: Vec::new(),
            size,
            promises: Promises::default(),
            epoch: 0,
        }
    }

    pub fn handles(&self) -> Vec<SeqId> {
        self.live.iter().map(|l| l.seq).collect()
    }

    /// Does what may need victims; a policy outside the core then picks some at random.
    pub fn judged<T>(
        &mut self,
        dice: &mut Dice,
        act: impl Fn(&mut Manager) -> Result<T>,
    ) -> Result<T> {
        let n = match act(&mut self.m) {
            Err(Error::NeedVictims { n }) => n as usize,
            outcome => {
                self.m.settle_choice();
                return outcome;
            }
        };
        let mut offer = Candidates::default();
        self.m.candidates(n, dice.below(3) * n, &mut offer);
        let scores: Vec<f64> = offer.blocks.iter().map(|_| dice.below(50) as f64).collect();
        let places = offer.lowest(&scores, n);
        assert_eq!(places.len(), n, "room was promised, and is not offered");
        let pick = |&p: &u32| (offer.blocks[p as usize], offer.generations[p as usize]);
        let (blocks, generations): (Vec<_>, Vec<_>) = places.iter().map(pick).unzip();
        self.m.choose(&blocks, &generations);
        let outcome = act(&mut self.m);
        assert!(!matches!(outcome, Err(Error::NeedVictims { .. })), "asked twice");
        self.m.settle_choice();
        self.m.take_journal();
        outcome
    }

    /// First token that the token at `next` looks back to in `group`.
    fn reach(&self, group: usize, next: u32) -> u32 {
        match self.m.options().groups[group] {
            GroupKind::Full => 0,
            GroupKind::SlidingWindow { window } => (next + 1).saturating_sub(window),
        }
    }

    /// Runs what is gathered, as the data plane does before it computes.
    pub fn run_plans(&mut self, dice: &mut Dice) {
        if let Some(plan) = self.m.take_plan() {
            self.pages.carry_out(&self.m, &plan, dice.one_in(5));
        }
        assert!(self.m.take_plan().is_none(), "one plan holds every copy");
    }

    /// The model runs over `committed..upto` of a sequence: reads what is before, writes the rest.
    pub fn compute(&mut self, at: usize, upto: u32) {
        let live = &self.live[at];
        let s = self.m.sequence(live.seq).expect("live");
        let groups = s.tables.len();
        let mut sound = (0..groups).all(|g| self.readable(live, g, s.committed));
        for p in s.committed..upto {
            for group in 0..groups {
                let block = s.tables[group][(p / self.size) as usize];
                assert_ne!(block, NIL, "token {p} of group {group} has no slot");
                if self.promises.is_loading(block) {
                    // Somebody else fills it; computing goes on behind what has come so far.
                    sound &= self.pages.read(block, p % self.size) != POISON;
                    continue;
                }
                let value = if sound { live.content(p, group) } else { POISON };
                self.pages.write(&self.m, block, p % self.size, value);
            }
        }
    }

    /// Whether what the next token attends to is there; panics on anything but a lost copy.
    fn readable(&self, live: &Live, group: usize, next: u32) -> bool {
        let s = self.m.sequence(live.seq).expect("live");
        let mut sound = true;
        for p in self.reach(group, next)..next {
            let block = s.tables[group][(p / self.size) as usize];
            assert_ne!(block, NIL, "{:#x}: token {p} of group {group} has no page", live.seq);
            let value = self.pages.read(block, p % self.size);
            let unplanned = self.m.stats().copies > self.pages.copied;
            if (value == POISON && self.pages.failing()) || (value == STALE && unplanned) {
                sound = false;
                continue;
            }
            assert_eq!(
                value,
                live.content(p, group),
                "{:#x}: token {p} of group {group} reads block {block}, which holds something else",
                live.seq
            );
        }
        sound
    }

    /// After every operation.
    pub fn check(&mut self) {
        self.pages.spoil_freed(&self.m);
        self.m.check_integrity().expect("sound");
        let pool = self.m.pool();
        assert_eq!(pool.free() + pool.cached() + pool.referenced(), pool.capacity());
        for live in &self.live {
            let s = self.m.sequence(live.seq).expect("live");
            assert_eq!(s.known() as usize + 1, live.chain.len(), "{:#x}: length", live.seq);
            for (group, table) in s.tables.iter().enumerate() {
                self.readable(live, group, s.committed);
                let slots = &table[(s.committed / self.size).min(table.len() as u32) as usize..];
                assert!(slots.iter().all(|&b| b != NIL), "{:#x}: a slot is missing", live.seq);
                let owned =
                    |&b: &BlockId| matches!(pool.state(b), State::Pending | State::Committed);
                let ours = table.iter().filter(|&&b| b != NIL).all(owned);
                assert!(ours, "{:#x}: a block of its table is not owned", live.seq);
            }
        }
        assert!(self.loans.iter().all(|&b| pool.state(b) == State::Lent), "a loan is gone");
        self.promises.check(&self.m, &self.pages);
        self.pages.check_findable(&self.m, self.epoch);
    }

    /// Nothing is found any more.
    pub fn forgotten(&mut self) {
        self.epoch += 1;
        self.pages.forget_keys();
        assert_eq!(self.m.pool().cached(), 0);
    }

    /// A load came or went.
    pub fn note_loads(&mut self) {
        self.pages.lost_load = self.promises.loads.iter().any(Load::lost);
    }

    /// What a step behind a fence takes from sequences: the ends that are cut, and whole tables.
    /// Not what leaves a window: no step in flight looks back that far.
    pub fn given_up(&self, cut: &[(SeqId, u32)], ended: &[SeqId]) -> Vec<Kept> {
        let cut = cut.iter().map(|&(seq, len)| (seq, len.div_ceil(self.size) as usize));
        cut.chain(ended.iter().map(|&seq| (seq, 0)))
            .map(|(seq, keep)| {
                let s = self.m.sequence(seq).expect("live");
                let mut kept = Kept::default();
                for (group, table) in s.tables.iter().enumerate() {
                    if self.m.options().groups[group] == GroupKind::Full {
                        kept.add(&self.pages, table, keep, s.committed);
                    }
                }
                kept
            })
            .collect()
    }

    /// The longest prefix every group can serve, found the slow way.
    pub fn longest_hit(&self, text: &Text) -> u32 {
        let options = self.m.options();
        let keys = self.m.keys(&text.tokens, space(text.space), &text.extras);
        let pool = self.m.pool();
        // Where no keys are kept, a block is known by what its page holds.
        let wanted = Live::new(0, text, self.epoch);
        let present = |group: usize, i: usize| {
            let key: Key = keys[i].for_group(group);
            let page = wanted.page(i as u32, group, self.size);
            (0..pool.created()).filter(|&b| pool.is_findable(b)).any(|b| {
                if self.m.wants_keys() { pool.key(b) == key } else { self.pages.page(b) == page }
            })
        };
        let limit = (text.tokens.len() as u32).saturating_sub(1) / self.size;
        let limit = if options.prefix_caching { limit as usize } else { 0 };
        let serves = |group: usize, count: usize| {
            let next = count as u32 * self.size;
            let first = (self.reach(group, next) / self.size) as usize;
            (first..count).all(|i| present(group, i))
        };
        let all = |&count: &usize| (0..options.groups.len()).all(|g| serves(g, count));
        (0..=limit).rev().find(all).unwrap_or(0) as u32 * self.size
    }
}
