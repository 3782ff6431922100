//! A manager, the pages under it, and the sequences an engine believes in.

use kvframe_core::groups::GroupReach;
use kvframe_core::policy::{
    Candidates, Consult, Eviction, External, PolicyOptions, Subscriptions, by_name,
};
use kvframe_core::pool::State;
use kvframe_core::tenants::PerTenant;
use kvframe_core::{BlockId, Error, Group, GroupKind, Key, Manager, NIL, Options, Result, SeqId};

use super::dice::{Dice, mix};
use super::held::Held;
use super::pages::{POISON, Pages, STALE, value};
use super::promises::{Kept, Load, Promises};
use super::seen::Seen;
use super::tails::Tails;
use super::texts::{Text, space};

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
    /// Digest of the other input, and its tokens.
    pub encoder: (u64, u32),
    /// From this token on KV was computed behind a sink with tokens missing, and by whom.
    pub cut: Option<(u32, SeqId)>,
}

impl Live {
    pub fn new(seq: SeqId, text: &Text, encoder: u32, epoch: u64) -> Self {
        let chain = vec![mix(7, text.space as u64)];
        let input = space(text.space).encoder;
        let digest = if input.is_empty() { seq } else { mix(u64::from(input[0]), chain[0]) };
        let encoder = (mix(digest, u64::from(encoder)), encoder);
        let mut live = Self { seq, chain, unknown: Vec::new(), epoch, encoder, cut: None };
        if encoder.1 > 0 {
            live.chain[0] = mix(live.chain[0], encoder.0);
        }
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
        self.cut = self.cut.filter(|&(from, _)| from < len);
    }

    /// Tokens whose ids the manager knows.
    pub fn filled(&self) -> u32 {
        (self.chain.len() - 1 - self.unknown.len()) as u32
    }

    /// What the slot of token `at` must hold in `group`.
    pub fn content(&self, at: u32, group: usize) -> u64 {
        let plain = mix(self.chain[at as usize + 1], group as u64);
        let other = self.cut.filter(|&(from, _)| at >= from);
        value(other.map_or(plain, |(_, by)| mix(plain, by)), self.epoch)
    }

    /// What slot `at` of the other input must hold.
    pub fn encoded(&self, at: u32, group: usize) -> u64 {
        value(mix(mix(self.encoder.0, u64::from(at)), group as u64), self.epoch)
    }

    /// What block `at` of `group` must hold.
    pub fn page(&self, at: u32, group: usize, reach: &GroupReach) -> Vec<u64> {
        self.page_of(at, group, reach, u32::MAX)
    }

    /// The same as far as it comes before the token `upto`.
    pub fn page_of(&self, at: u32, group: usize, reach: &GroupReach, upto: u32) -> Vec<u64> {
        let (first, end) = (at * reach.span, (at + 1) * reach.span);
        let state = reach.kind == GroupKind::State;
        let slot = |t| if state && t + 1 < end { STALE } else { self.content(t, group) };
        (first..end.min(upto)).map(slot).collect()
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
    /// What is kept without a sequence.
    pub held: Held,
    /// What its partial blocks stand for.
    pub tails: Tails,
    pub seen: Seen,
    /// Resets so far.
    pub epoch: u64,
    /// As it was told last.
    pub time: u64,
}

impl World {
    pub fn new(options: Options, policy: &str) -> Self {
        let (blocks, size) = (options.blocks, options.block_size);
        let tails = Tails::new(&options);
        let made = |_| -> Box<dyn Eviction> {
            match policy {
                "external" => {
                    let heard = Subscriptions { events: true, ..Subscriptions::default() };
                    Box::new(External::new(heard))
                }
                name => by_name(name, PolicyOptions::default()).expect("a shipped policy"),
            }
        };
        let policy = match options.tenants.len() {
            0 => made(0),
            tenants => Box::new(PerTenant::new((0..=tenants).map(made).collect())),
        };
        let m = Manager::new(options, policy).expect("sound options");
        let span = m.layout().groups().iter().map(|reach| reach.span).max().expect("a group");
        Self {
            m,
            pages: Pages::new(blocks, span),
            live: Vec::new(),
            time: 0,
            loans: Vec::new(),
            ended: Vec::new(),
            size,
            promises: Promises::default(),
            held: Held::default(),
            tails,
            seen: Seen::default(),
            epoch: 0,
        }
    }

    /// Blocks that can be had once every fence has passed.
    pub fn room_to_come(&self) -> u32 {
        self.m.pool().available() + self.m.pool().coming()
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
        // Each tenant's policy is asked by itself.
        let mut asks = self.m.options().tenants.len() + 1;
        let n = loop {
            match act(&mut self.m) {
                Err(Error::NeedVictims { n }) if asks == 1 => break n as usize,
                Err(Error::NeedVictims { n }) => self.choose_some(dice, n as usize),
                outcome => {
                    self.m.settle_choice();
                    return outcome;
                }
            }
            asks -= 1;
        };
        self.choose_some(dice, n);
        let outcome = act(&mut self.m);
        assert!(!matches!(outcome, Err(Error::NeedVictims { .. })), "asked twice");
        self.m.settle_choice();
        self.m.take_journal();
        outcome
    }

    fn choose_some(&mut self, dice: &mut Dice, n: usize) {
        let mut offer = Candidates::default();
        self.m.candidates(n, dice.below(3) * n, &mut offer);
        let scores: Vec<f64> = offer.blocks.iter().map(|_| dice.below(50) as f64).collect();
        let places = offer.lowest(&scores, n);
        assert_eq!(places.len(), n, "room was promised, and is not offered");
        let pick = |&p: &u32| (offer.blocks[p as usize], offer.generations[p as usize]);
        let (blocks, generations): (Vec<_>, Vec<_>) = places.iter().map(pick).unzip();
        self.m.choose(&blocks, &generations);
    }

    /// Tokens that the token at `next` of `group` reads, the slow way.
    fn reads(&self, group: usize, next: u32) -> Vec<u32> {
        let (len, at) = (i64::from(next), |t: u32| i64::from(t));
        let seen = |t: &u32| match self.m.options().groups[group].kind {
            GroupKind::Full => true,
            GroupKind::Cross => false,
            GroupKind::SlidingWindow { window } => at(*t) > len - i64::from(window),
            GroupKind::Chunked { chunk } => *t / chunk == next / chunk,
            GroupKind::SinkWindow { sink, window } => {
                *t < sink || at(*t) >= len - i64::from(window)
            }
            GroupKind::State => t + 1 == next,
        };
        (0..next).filter(seen).collect()
    }

    /// Tokens that prompts are made of whole multiples of, more or less.
    pub fn grain(&self) -> u32 {
        self.m.layout().unit_tokens().min(8)
    }

    /// Tokens of the other input of prompts in that namespace.
    pub fn encoder(&self, space: usize) -> u32 {
        if self.m.layout().has_cross() { space as u32 % 4 * 2 } else { 0 }
    }

    /// The encoder runs, unless its KV was found.
    pub fn encode(&mut self, live: &Live, found: bool) {
        let layout = self.m.layout().clone();
        for group in layout.cross_groups() {
            let span = layout.groups()[group].span;
            let table = self.m.sequence(live.seq).expect("live").tables[group].clone();
            assert_eq!(table.len() as u32, live.encoder.1.div_ceil(span));
            for (i, &block) in (0..).zip(&table) {
                let slot = |t| live.encoded(t, group);
                let page: Vec<u64> = (i * span..(i + 1) * span).map(slot).collect();
                if found {
                    assert_eq!(self.pages.page(block)[..span as usize], page);
                } else {
                    self.pages.land(&self.m, block, &page);
                }
            }
        }
    }

    /// Whether recurrent layers, if there are any, have a state after `upto` tokens that stays.
    pub fn at_rest(&self, seq: SeqId, upto: u32) -> bool {
        let s = self.m.sequence(seq).expect("live");
        let states = self.m.layout().groups().iter().zip(&s.tables);
        upto == 0
            || (upto == s.committed && upto == s.len)
            || states.filter(|(r, _)| r.kind == GroupKind::State).all(|(r, table)| {
                upto.is_multiple_of(r.span) && table[(upto / r.span) as usize - 1] != NIL
            })
    }

    /// Whether a sink's sequence has lost tokens.
    fn is_cut(&self, seq: SeqId) -> bool {
        let s = self.m.sequence(seq).expect("live");
        let sink =
            |g: usize| matches!(self.m.options().groups[g].kind, GroupKind::SinkWindow { .. });
        (0..s.tables.len()).any(|g| sink(g) && s.tables[g].contains(&NIL))
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
        let seq = self.live[at].seq;
        if let Some((filler, end)) = self.joined(seq) {
            // The same batch computes what it joined, before it.
            self.compute(filler, end);
        }
        if self.is_cut(seq) && self.live[at].cut.is_none() {
            let s = self.m.sequence(seq).expect("live");
            let unit = self.m.layout().unit();
            // What a load brings was computed by somebody who had it all.
            let end = |load: &Load| match load.held_by(&s.tables) {
                0 => 0,
                _ => (load.start + load.rows.len() as u32 * unit) * self.size,
            };
            let loaded = self.promises.loads.iter().map(end).max().unwrap_or(0);
            self.live[at].cut = Some((s.committed.max(loaded), seq));
        }
        let live = &self.live[at];
        let s = self.m.sequence(live.seq).expect("live");
        let groups = s.tables.len();
        let mut sound = (0..groups).all(|g| self.readable(live, g));
        // Token by token, a group that lags some tokens later.
        for p in s.committed..upto {
            for (group, reach) in self.m.layout().groups().iter().enumerate() {
                if reach.kind == GroupKind::Cross {
                    continue;
                }
                for p in reach.computed(p, s.cached)..reach.computed(p + 1, s.cached) {
                    let (block, slot) =
                        (s.tables[group][(p / reach.span) as usize], p % reach.span);
                    assert_ne!(block, NIL, "token {p} of group {group} has no slot");
                    if self.promises.is_loading(block) {
                        // Somebody else fills it; computing goes on behind what has come so far.
                        sound &= self.pages.read(block, slot) != POISON;
                        continue;
                    }
                    let value = if sound { live.content(p, group) } else { POISON };
                    if reach.kind == GroupKind::State {
                        self.pages.write_state(&self.m, block, slot, value);
                    } else {
                        self.pages.write(&self.m, block, slot, value);
                    }
                }
            }
        }
    }

    /// Whether what the next token attends to is there; panics on anything but a lost copy.
    fn readable(&self, live: &Live, group: usize) -> bool {
        let s = self.m.sequence(live.seq).expect("live");
        let reach = self.m.layout().groups()[group];
        let mut sound = true;
        for p in self.reads(group, reach.computed(s.committed, s.cached)) {
            let block = s.tables[group][(p / reach.span) as usize];
            assert_ne!(block, NIL, "{:#x}: token {p} of group {group} has no page", live.seq);
            if reach.kind == GroupKind::State && self.promises.is_loading(block) {
                continue;
            }
            let value = self.pages.read(block, p % reach.span);
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
                self.readable(live, group);
                let reach = self.m.layout().groups()[group];
                let next = reach.computed(s.committed, s.cached) / reach.span;
                let slots = &table[(next as usize).min(table.len())..];
                assert!(slots.iter().all(|&b| b != NIL), "{:#x}: a slot is missing", live.seq);
                let owned =
                    |&b: &BlockId| matches!(pool.state(b), State::Pending | State::Committed);
                let ours = table.iter().filter(|&&b| b != NIL).all(owned);
                assert!(ours, "{:#x}: a block of its table is not owned", live.seq);
            }
        }
        assert!(self.loans.iter().all(|&b| pool.state(b) == State::Lent), "a loan is gone");
        self.promises.check(&self.m, &self.pages);
        self.pages.check_findable(&self.m, &self.tails, self.epoch);
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
        let cut = cut.iter().copied();
        cut.chain(ended.iter().map(|&seq| (seq, 0)))
            .map(|(seq, keep)| {
                let s = self.m.sequence(seq).expect("live");
                let mut kept = Kept::default();
                for (reach, table) in self.m.layout().groups().iter().zip(&s.tables) {
                    if reach.kind == GroupKind::Full {
                        let (keep, there) =
                            (reach.blocks(keep) as usize, reach.computed(s.committed, s.cached));
                        kept.add(&self.pages, reach, table, keep, there);
                    }
                }
                kept
            })
            .collect()
    }

    /// The longest prefix every group can serve, found the slow way.
    pub fn longest_hit(&self, text: &Text) -> u32 {
        let options = self.m.options();
        let keys = self.m.keys(&text.tokens, space(text.space), &text.mm_items);
        let pool = self.m.pool();
        // Where no keys are kept, a block is known by what its page holds.
        let wanted = Live::new(0, text, 0, self.epoch);
        let present = |group: usize, i: u32| {
            let reach = self.m.layout().groups()[group];
            let key: Key = keys[((i + 1) * reach.units - 1) as usize].for_group(group);
            let page = wanted.page(i, group, &reach);
            (0..pool.created()).filter(|&b| pool.is_findable(b)).any(|b| {
                if self.m.wants_keys() { pool.key(b) == key } else { self.pages.page(b) == page }
            })
        };
        let limit = (text.tokens.len() as u32).saturating_sub(1) / self.size;
        let limit = if options.prefix_caching { limit } else { 0 };
        let serves = |group: usize, count: u32| {
            let Group { units, kind, .. } = options.groups[group];
            let mut blocks: Vec<u32> = self
                .reads(group, count * self.size)
                .iter()
                .map(|token| token / (units * self.size))
                .collect();
            blocks.dedup();
            kind == GroupKind::Cross
                || (count.is_multiple_of(units) && blocks.iter().all(|&b| present(group, b)))
        };
        let all = |&count: &u32| (0..options.groups.len()).all(|g| serves(g, count));
        (0..=limit).rev().find(all).unwrap_or(0) * self.size
    }
}
