//! The order of eviction of every policy, against a plain twin: sort all leaves that may be evicted by the
//! policy's key and take the first, of those with the lowest retention priority. The twin sees the event
//! log alone.

mod common;

use std::collections::HashMap;

use kvframe_core::events::{Event, Kind};
use kvframe_core::policy::{NAMES, View};
use kvframe_core::retention::{DEFAULT_PRIORITY, Decay, Keep, Retention, TokenRange};
use kvframe_core::sequence::Meta;
use kvframe_core::{BlockId, Key, NIL, Options, Request, SeqId};

use common::{Dice, SIZE, build, request};

/// What the twin knows of a block.
#[derive(Debug, Clone, Default)]
struct Block {
    owners: u32,
    key: Option<Key>,
    parent: Option<BlockId>,
    children: u32,
    depth: u32,
    uses: u32,
    inserted: u64,
    last: u64,
    /// lfuda: age of the cache when it was touched.
    age: u32,
    next: u32,
    /// Ticks of all uses, and the greatest priority and time to live of them.
    times: Vec<u64>,
    priority: i32,
    ttl: u64,
    /// gdsf, cost: level of the cache when it was touched.
    level: u64,
    /// Retention priority.
    bucket: u8,
    /// When it joined the cached blocks, counted in blocks.
    joined: u64,
}

#[derive(Default)]
struct Twin {
    policy: &'static str,
    blocks: HashMap<BlockId, Block>,
    next_uses: HashMap<SeqId, Vec<u32>>,
    metas: HashMap<SeqId, Meta>,
    hits: HashMap<SeqId, usize>,
    age: u32,
    level: u64,
    joined: u64,
    evictions: usize,
    duplicates: usize,
}

impl Twin {
    /// Lower is evicted first.
    fn rank(&self, id: BlockId) -> (u64, u64, u32, BlockId) {
        let b = &self.blocks[&id];
        let deeper_first = u32::MAX - b.depth;
        let (main, last) = match self.policy {
            "lru" | "infinite" => return (b.joined, 0, 0, 0),
            "fifo" => (0, b.inserted),
            "lfu" => (u64::from(b.uses), b.last),
            "lfuda" => (u64::from(b.age + b.uses), b.last),
            "slru" => (u64::from(b.uses >= 2), b.last),
            "mru" => (u64::MAX - b.last, 0),
            "filo" => (u64::MAX - b.inserted, 0),
            "longest-first" => (u64::from(deeper_first), b.last),
            "priority" => ((i64::from(b.priority) + (1 << 31)) as u64, b.last),
            "ttl" => (b.last + b.ttl, 0),
            "hpt" => {
                let density = f64::from(b.uses - 1) / f64::from(b.depth + 1);
                (u64::from((density as f32).to_bits()), b.last)
            }
            "wlfu" => {
                let hits = f64::from(b.uses - 1);
                ((b.last as f64 + 1_000.0 * hits.ln_1p()).to_bits(), 0)
            }
            "lfu-aged" => {
                // What the counts are worth at the end of time; near ties are ties.
                let sum: f64 = b.times.iter().map(|&t| (t as f64 / 4_096.0).exp2()).sum();
                ((sum * 1e12) as u64, 0)
            }
            "gdsf" | "cost" => {
                let uses = if self.policy == "gdsf" { u64::from(b.uses) } else { 1 };
                (b.level + uses * (65_536 + 65_536 * u64::from(b.depth) / 2_048), b.last)
            }
            "next-use" => (u64::from(u32::MAX - b.next), b.last),
            "opt" | "opt-forced" => (u64::from(u32::MAX - b.next), 0),
            // Of these only the retention priority is compared.
            name if OTHERS.contains(&name) => (0, 0),
            name => panic!("{name}: give it a rank here, or name it in OTHERS"),
        };
        (main, last, deeper_first, id)
    }

    fn victim(&self) -> Option<BlockId> {
        let leaves =
            self.blocks.iter().filter(|(_, b)| b.owners == 0 && b.key.is_some() && b.children == 0);
        leaves.map(|(&id, _)| id).min_by_key(|&id| (self.blocks[&id].bucket, self.rank(id)))
    }

    fn block(&mut self, id: BlockId) -> &mut Block {
        self.blocks.get_mut(&id).expect("a known block")
    }

    fn copy_of(&self, id: BlockId) -> Option<BlockId> {
        let key = self.blocks[&id].key;
        self.blocks.iter().find(|(other, b)| **other != id && b.key == key).map(|(&other, _)| other)
    }

    fn forget(&mut self, id: BlockId) {
        let block = self.blocks.remove(&id).expect("a known block");
        if let Some(parent) = block.parent {
            self.block(parent).children -= 1;
        }
    }

    fn join(&mut self, id: BlockId, now: u64) {
        self.joined += 1;
        let joined = self.joined;
        let block = self.block(id);
        (block.last, block.joined) = (now, joined);
    }

    fn touch(&mut self, id: BlockId, seq: SeqId, next: u32, now: u64) {
        let (age, level, meta) = (self.age, self.level, self.metas[&seq]);
        let block = self.block(id);
        block.priority =
            if block.uses == 0 { meta.priority } else { block.priority.max(meta.priority) };
        block.ttl = block.ttl.max(if meta.session == 0 { 1_000 } else { 100_000 });
        block.uses += 1;
        block.times.push(now);
        (block.last, block.age, block.level, block.next) = (now, age, level, next);
    }

    fn see(&mut self, e: &Event) {
        match e.kind {
            Kind::Hit => {
                let at = self.hits.entry(e.seq).or_insert(0);
                let next = self.next_uses[&e.seq].get(*at).copied().unwrap_or(u32::MAX);
                *at += 1;
                self.touch(e.block, e.seq, next, e.tick);
                self.block(e.block).owners += 1;
            }
            Kind::Obtain => {
                let bucket = DEFAULT_PRIORITY;
                let fresh = Block { owners: 1, age: self.age, bucket, ..Block::default() };
                let old = self.blocks.insert(e.block, fresh);
                assert!(old.is_none(), "block {} was still in use", e.block);
            }
            Kind::Store => self.store(e),
            Kind::Release => self.release(e),
            Kind::Evict => {
                let named = self.victim().expect("a leaf");
                if OTHERS.contains(&self.policy) {
                    let buckets = [named, e.block].map(|id| self.blocks[&id].bucket);
                    assert_eq!(
                        buckets[0], buckets[1],
                        "{}: the wrong priority is evicted",
                        self.policy
                    );
                } else {
                    assert_eq!(named, e.block, "{}: the wrong block is evicted", self.policy);
                }
                if self.policy == "lfuda" {
                    self.age = self.rank(e.block).0 as u32;
                }
                self.level = self.rank(e.block).0;
                self.forget(e.block);
                self.evictions += 1;
            }
            Kind::Retain => self.block(e.block).bucket = e.value as u8,
            _ => {}
        }
    }

    fn store(&mut self, e: &Event) {
        let parent = (e.value != u64::from(NIL)).then_some(e.value as BlockId);
        let depth = parent.map_or(0, |p| self.blocks[&p].depth + 1);
        let next = self.next_uses[&e.seq].get(depth as usize).copied().unwrap_or(u32::MAX);
        if let Some(parent) = parent {
            self.block(parent).children += 1;
        }
        let block = self.block(e.block);
        (block.key, block.parent, block.depth) = (Some(e.key), parent, depth);
        (block.inserted, block.uses) = (e.tick, 0);
        let age = block.age;
        self.touch(e.block, e.seq, next, e.tick);
        self.block(e.block).age = age;
        if let Some(copy) = self.copy_of(e.block) {
            // Computed once more: a use of the block that was there.
            self.duplicates += 1;
            self.touch(copy, e.seq, next, e.tick);
        }
    }

    fn release(&mut self, e: &Event) {
        let block = self.block(e.block);
        block.owners -= 1;
        let (owners, found, children) = (block.owners, block.key.is_some(), block.children);
        if owners > 0 {
            return;
        }
        if !found {
            self.blocks.remove(&e.block);
        } else if let Some(copy) = self.copy_of(e.block).filter(|_| children == 0) {
            self.forget(e.block);
            if self.blocks[&copy].owners == 0 {
                self.block(copy).age = self.age;
                self.join(copy, e.tick);
            }
        } else {
            self.join(e.block, e.tick);
        }
    }
}

/// What a request asks for its blocks, if anything.
fn retention(dice: &mut Dice) -> Option<Retention> {
    let mut keep = || Keep {
        priority: [0, 20, 35, 80, 100][dice.below(5) as usize],
        duration: (dice.below(2) == 0).then(|| dice.below(30)),
        then: [0, 35, 50][dice.below(3) as usize],
        decay: [Decay::Step, Decay::Linear][dice.below(2) as usize],
    };
    let ranges = vec![
        TokenRange { start: 0, end: 5, keep: keep() },
        TokenRange { start: 8, end: 99, keep: keep() },
    ];
    let decode = Some(keep());
    (dice.below(3) > 0).then_some(Retention { ranges, decode })
}

fn drive(policy: &'static str, seed: u64, retains: bool) -> Twin {
    let mut dice = Dice(seed);
    let blocks = 8 + dice.below(24) as u32;
    let mut m = build(Options { blocks, block_size: SIZE, ..Options::default() }, policy);
    let mut twin = Twin { policy, ..Twin::default() };
    let mut live: Vec<SeqId> = Vec::new();
    let mut tokens = Vec::new();
    for step in 0..800 {
        // Two at a time at the most, and no prompt ends at a block's end: at most two copies of a
        // block, so that it is plain which one a use falls to.
        let mut next_use = Vec::new();
        let meta =
            Meta { priority: dice.below(3) as i32 - 1, session: dice.below(2), ..Meta::default() };
        let mut admitted = None;
        match dice.below(4) {
            0 | 1 if live.len() < 2 => {
                if dice.below(3) > 0 {
                    tokens.clear();
                }
                for _ in 0..if tokens.is_empty() { 1 + dice.below(5) } else { 0 } {
                    let unit = if dice.below(3) == 0 { dice.below(4) as u32 } else { 0 };
                    tokens.extend([unit; SIZE as usize]);
                }
                if tokens.last() != Some(&77) {
                    tokens.push(77);
                }
                next_use = tokens.chunks(4).map(|_| dice.below(30) as u32).collect();
                let retention = if retains { retention(&mut dice) } else { None };
                let asked =
                    Request { next_use: next_use.clone(), meta, retention, ..request(&tokens) };
                if let Ok(allocation) = m.allocate(&asked) {
                    admitted = Some(allocation.seq);
                }
            }
            2 if !live.is_empty() => {
                let seq = live[dice.below(live.len() as u64) as usize];
                let _ = m.append(seq, &[dice.below(2) as u32]);
                let len = m.sequence(seq).unwrap().len;
                m.commit(seq, len).unwrap();
            }
            _ if !live.is_empty() => {
                let seq = live.swap_remove(dice.below(live.len() as u64) as usize);
                m.release(seq).unwrap();
            }
            _ if retains => drop(m.expire_until(step / 2).unwrap()),
            _ => {}
        }
        if let Some(seq) = admitted {
            twin.next_uses.insert(seq, next_use);
            twin.metas.insert(seq, meta);
            live.push(seq);
        }
        m.take_events().iter().for_each(|e| twin.see(e));
        m.check_integrity().unwrap();
        let likely = m.policy().next(View { pool: m.pool(), now: 0 });
        let buckets = [likely, twin.victim()].map(|block| block.map(|id| twin.blocks[&id].bucket));
        assert_eq!(
            buckets[0], buckets[1],
            "{policy}: one of another priority is likely to be evicted"
        );
    }
    twin
}

/// Policies whose order is no key of a block's own: they have twins in Python, which sees all
/// policies.
const OTHERS: &[&str] = &[
    "foresight",
    "clock",
    "sieve",
    "2q",
    "arc",
    "mq",
    "s3-fifo",
    "slru-lists",
    "slru-decay",
    "lirs",
    "w-tinylfu",
    "lecar",
    "random-compute",
    "random-quick-demotion",
    "partial-node-random-compute",
    "asymcache",
    "rr-evict",
    "marconi",
    "workload",
    "session",
    "belady-compute",
];

#[test]
fn every_policy_kills_in_the_order_of_its_key() {
    let seeds: u64 = std::env::var("KVFRAME_RUNS").map_or(20, |n| n.parse().expect("a number"));
    for policy in NAMES.iter().filter(|name| !OTHERS.contains(name)) {
        let (mut evictions, mut duplicates) = (0, 0);
        for seed in 1..=seeds {
            let twin = drive(policy, seed * 0x9E37_79B9, seed % 2 == 0);
            evictions += twin.evictions;
            duplicates += twin.duplicates;
        }
        let enough = evictions as u64 > 50 * seeds && duplicates as u64 > seeds / 2;
        assert!(enough, "{policy}: {evictions} {duplicates}");
    }
}

// scenario: F26
#[test]
fn whatever_the_policy_the_lowest_priority_dies() {
    for policy in OTHERS {
        let twins = (1..=8).map(|seed| drive(policy, seed * 0x9E37_79B9, true));
        let evictions: usize = twins.map(|twin| twin.evictions).sum();
        assert!(evictions > 500, "{policy}: {evictions}");
    }
}

/// Pools from 32,768 blocks on read what is evicted next ahead of it.
#[test]
fn a_large_pool_evicts_the_oldest_prefix_first_and_each_from_its_end() {
    const ROWS: u32 = 150;
    for policy in ["lru", "foresight"] {
        let blocks = (1 << 15) + ROWS / 2;
        let mut m = build(Options { blocks, block_size: SIZE, ..Options::default() }, policy);
        let mut prompts = (0..).map(|prompt: u32| -> Vec<u32> {
            (0..ROWS * SIZE).map(|token| prompt << 10 | token).collect()
        });
        let mut expected = Vec::new();
        while m.pool().free() >= ROWS {
            let seq = common::run(&mut m, &prompts.next().expect("endless"));
            expected.extend(common::table(&m, seq).iter().rev());
            m.release(seq).expect("live");
        }
        m.take_events();
        for prompt in prompts.take(4) {
            common::serve(&mut m, &prompt);
        }
        let events = m.take_events();
        let evicted: Vec<BlockId> = events
            .iter()
            .filter(|event| event.kind == Kind::Evict)
            .map(|event| event.block)
            .collect();
        assert!(evicted.len() > 3 * ROWS as usize, "{} {policy}", evicted.len());
        assert_eq!(evicted, expected[..evicted.len()], "{policy}");
        m.check_integrity().expect("whole");
    }
}
