//! The radix index through the manager, beside a plain map from whole prefixes to blocks.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use arbitrary::Arbitrary;
use kvframe_core::events::Kind;
use kvframe_core::hash::Space;
use kvframe_core::index::IndexKind;
use kvframe_core::locks::Receipt;
use kvframe_core::manager::PinRequest;
use kvframe_core::policy::{NAMES, PolicyOptions, by_name};
use kvframe_core::{BlockId, Manager, NIL, Options, Request, SeqId};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    blocks: u8,
    size: u8,
    policy: u8,
    partial: bool,
    ops: Vec<Op>,
}

/// Tokens of a vocabulary of two, so that prefixes meet and part everywhere.
#[derive(Arbitrary, Debug)]
struct Text {
    tokens: Vec<bool>,
    salted: bool,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Allocate { text: Text, join: bool },
    Append { pick: u8, tokens: Vec<bool> },
    Commit { pick: u8, left: u8 },
    Truncate { pick: u8, less: u8 },
    Fork { pick: u8 },
    Release { pick: u8 },
    Lock { text: Text },
    Unlock { pick: u8, wrong: bool },
    Evict { free: u8 },
    Settle { good: bool },
    Clear,
    Look { text: Text },
}

/// A namespace and whole blocks of tokens.
type Prefix = (bool, Vec<u32>);

struct World {
    m: Manager,
    size: usize,
    /// What each live sequence knows.
    live: Vec<(SeqId, Prefix)>,
    held: Vec<Receipt>,
    /// What can be found.
    there: BTreeMap<Prefix, BTreeSet<BlockId>>,
}

fn ids(tokens: &[bool]) -> Vec<u32> {
    tokens.iter().map(|&t| t.into()).collect()
}

fn space(salted: bool) -> Space<'static> {
    Space { cache_salt: if salted { b"salt" } else { b"" }, ..Space::default() }
}

impl World {
    fn new(input: &Input) -> Option<Self> {
        let size = u32::from(input.size % 4) + 1;
        let options = Options {
            blocks: u32::from(input.blocks % 40),
            block_size: size,
            index: IndexKind::Radix,
            partial_hits: input.partial,
            event_log: true,
            ..Options::default()
        };
        let name = NAMES[input.policy as usize % NAMES.len()];
        let policy = by_name(name, PolicyOptions::default()).expect("a shipped policy");
        let m = Manager::new(options, policy).ok()?;
        let (live, held, there) = (Vec::new(), Vec::new(), BTreeMap::new());
        Some(Self { m, size: size as usize, live, held, there })
    }

    fn pick(&self, pick: u8) -> Option<usize> {
        (!self.live.is_empty()).then(|| pick as usize % self.live.len())
    }

    fn act(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Allocate { text, join } => self.allocate(text, *join),
            Op::Append { pick, tokens } => {
                let at = self.pick(*pick)?;
                let (seq, tokens) = (self.live[at].0, ids(tokens));
                self.m.append(seq, &tokens).ok()?;
                self.live[at].1.1.extend(tokens);
            }
            Op::Commit { pick, left } => {
                let seq = self.live[self.pick(*pick)?].0;
                let s = self.m.sequence(seq).expect("live");
                let upto = s.len.saturating_sub(u32::from(left % 8)).max(s.committed);
                self.m.commit(seq, upto).expect("computed");
            }
            Op::Truncate { pick, less } => {
                let at = self.pick(*pick)?;
                let seq = self.live[at].0;
                let len = self.m.sequence(seq).expect("live").len;
                let to = len.saturating_sub(u32::from(less % 16));
                self.m.truncate(seq, to).ok()?;
                self.live[at].1.1.truncate(to as usize);
            }
            Op::Fork { pick } => {
                let at = self.pick(*pick)?;
                let child = self.m.fork(self.live[at].0).expect("full attention");
                let known = self.live[at].1.clone();
                self.live.push((child, known));
            }
            Op::Release { pick } => {
                let at = self.pick(*pick)?;
                // What it made findable is told while what it knew is.
                self.m.release(self.live[at].0).expect("live");
                self.follow();
                self.live.swap_remove(at);
            }
            Op::Lock { text } => {
                let locked = self
                    .m
                    .lock(&ids(&text.tokens), space(text.salted), &[], PinRequest::default())
                    .ok()?;
                let found = self.longest(&ids(&text.tokens), text.salted, 0);
                assert_eq!(locked.map_or(0, |l| l.tokens as usize), found * self.size);
                self.held.extend(locked.map(|locked| locked.receipt));
            }
            Op::Unlock { pick, wrong } => {
                let at = (!self.held.is_empty()).then(|| *pick as usize % self.held.len())?;
                let receipt = self.held[at];
                if *wrong {
                    let bad = Receipt { block: receipt.block + 1, ..receipt };
                    self.m.unlock(bad).expect_err("another block");
                } else {
                    self.m.unlock(receipt).expect("held");
                    self.m.unlock(receipt).expect_err("handed back");
                    self.held.swap_remove(at);
                }
            }
            Op::Evict { free } => drop(self.m.evict_until((*free).into())),
            Op::Settle { good } => {
                let ticket = self.m.take_plan()?.ticket;
                if *good {
                    self.m.done(ticket).expect("outstanding");
                } else {
                    self.m.failed(ticket).expect("outstanding");
                }
            }
            Op::Clear => {
                self.m.reset_prefix_cache();
            }
            Op::Look { text } => self.look(&ids(&text.tokens), text.salted),
        }
        Some(())
    }

    fn allocate(&mut self, text: &Text, join: bool) {
        let tokens = ids(&text.tokens);
        let request = Request { tokens: tokens.to_vec(), join, ..Request::default() }
            .within(space(text.salted));
        let found = self.longest(&tokens, text.salted, 1) * self.size;
        if self.live.len() > 8 {
            return;
        }
        if let Ok(allocation) = self.m.allocate(&request) {
            let cached = allocation.cached_tokens as usize;
            assert!((found..found + self.size).contains(&cached), "{cached}, there are {found}");
            self.live.push((allocation.seq, (text.salted, tokens)));
        }
    }

    /// Whole blocks of a prompt that are there, all but its last `less` tokens.
    fn longest(&self, tokens: &[u32], salted: bool, less: usize) -> usize {
        let most = tokens.len().saturating_sub(less) / self.size;
        let there =
            |&n: &usize| self.there.contains_key(&(salted, tokens[..n * self.size].to_vec()));
        (1..=most).take_while(there).count()
    }

    fn look(&self, tokens: &[u32], salted: bool) {
        let hit = self.m.lookup(tokens, space(salted), &[]);
        let rows = self.longest(tokens, salted, 1);
        for (row, block) in hit.blocks[0][..rows].iter().enumerate() {
            let prefix = (salted, tokens[..(row + 1) * self.size].to_vec());
            assert!(self.there[&prefix].contains(block), "block {block} is another prefix's");
        }
        let partial = self.m.options().partial_hits;
        let more = if partial { self.common(tokens, salted, rows) } else { 0 };
        assert_eq!(hit.tokens as usize, rows * self.size + more);
    }

    /// Tokens of the block after `rows` ones that some block there begins with.
    fn common(&self, tokens: &[u32], salted: bool, rows: usize) -> usize {
        let start = rows * self.size;
        let end = tokens.len().saturating_sub(1).min(start + self.size - 1);
        if start >= end {
            return 0;
        }
        let next = self.there.keys().filter(|(salt, text)| {
            *salt == salted && text.len() == start + self.size && text[..start] == tokens[..start]
        });
        let same = next.map(|(_, text)| {
            text[start..].iter().zip(&tokens[start..end]).take_while(|(a, b)| a == b).count()
        });
        same.max().unwrap_or(0)
    }

    /// Keeps the map by what the log tells.
    fn follow(&mut self) {
        for event in self.m.take_events() {
            match event.kind {
                Kind::Store => {
                    let known = self.live.iter().find(|(seq, _)| *seq == event.seq);
                    let (salted, tokens) = known.map(|(_, known)| known).expect("live");
                    let end = (event.other as usize + 1) * self.size;
                    let copies = self.there.entry((*salted, tokens[..end].to_vec())).or_default();
                    assert!(copies.insert(event.block), "stored twice");
                }
                Kind::Evict | Kind::Forget => {
                    self.there.retain(|_, copies| {
                        copies.remove(&event.block);
                        !copies.is_empty()
                    });
                }
                _ => {}
            }
        }
    }

    /// Every block that can be found is where the map has it, and nothing else is.
    fn check(&self) {
        self.m.check_integrity().expect("sound");
        let pool = self.m.pool();
        let found: BTreeSet<BlockId> =
            (0..pool.created()).filter(|&b| pool.is_findable(b)).collect();
        let told: BTreeSet<BlockId> = self.there.values().flatten().copied().collect();
        assert_eq!(found, told);
        for ((salted, tokens), copies) in &self.there {
            let above = (*salted, tokens[..tokens.len() - self.size].to_vec());
            for &block in copies {
                let parent = pool.parent(block);
                let follows = self.there.get(&above).is_some_and(|blocks| blocks.contains(&parent));
                assert!(
                    if parent == NIL { above.1.is_empty() } else { follows },
                    "another's child"
                );
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let Some(mut world) = World::new(&input) else { return };
    for op in &input.ops {
        world.act(op);
        world.follow();
        world.check();
    }
});
