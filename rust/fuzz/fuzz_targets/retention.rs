//! What is kept stays: pins, leases, loads and deadlines beside a plain count of who holds what, and
//! the order of eviction by priority, age and time to live as one full sort.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use kvframe_core::events::Kind;
use kvframe_core::hash::{Key, Space};
use kvframe_core::locks::Receipt;
use kvframe_core::manager::PinRequest;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::pool::State;
use kvframe_core::sequence::Meta;
use kvframe_core::{BlockId, Manager, Options, Request, SeqId};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    blocks: u8,
    size: u8,
    policy: Kept,
    ops: Vec<Op>,
}

#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Priority,
    Ttl,
    Lru,
}

#[derive(Arbitrary, Debug)]
enum Op {
    Run { tokens: Vec<bool>, priority: i8, session: bool, external: bool },
    Commit { pick: u8 },
    Release { pick: u8 },
    Pin { tokens: Vec<bool> },
    Unpin { pick: u8 },
    Lease { pick: u8, less: u8 },
    Deadline { pick: u8, after: u8 },
    Expire { later: u8 },
    Settle { pick: u8, good: u8 },
    Collect { free: u8 },
    Lend { count: u8 },
    GiveBack,
    Clear,
}

/// What a block has been through.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    key: Key,
    priority: i32,
    lives: u64,
    last: u64,
}

struct World {
    m: Manager,
    policy: Kept,
    live: Vec<SeqId>,
    /// What is said of sequences, those that stand in for an ended one's load included.
    metas: BTreeMap<SeqId, Meta>,
    pins: Vec<Receipt>,
    tickets: Vec<u64>,
    deadlines: BTreeMap<u64, u64>,
    lent: Vec<BlockId>,
    now: u64,
    pasts: BTreeMap<BlockId, Past>,
}

impl World {
    fn new(input: &Input) -> Option<Self> {
        let name = match input.policy {
            Kept::Priority => "priority",
            Kept::Ttl => "ttl",
            Kept::Lru => "lru",
        };
        let blocks = u32::from(input.blocks % 32);
        let block_size = u32::from(input.size % 4) + 1;
        let options = Options { blocks, block_size, event_log: true, ..Options::default() };
        let policy = by_name(name, PolicyOptions::default()).expect("a shipped policy");
        Some(Self {
            m: Manager::new(options, policy).ok()?,
            policy: input.policy,
            live: Vec::new(),
            metas: BTreeMap::new(),
            pins: Vec::new(),
            tickets: Vec::new(),
            deadlines: BTreeMap::new(),
            lent: Vec::new(),
            now: 0,
            pasts: BTreeMap::new(),
        })
    }

    fn act(&mut self, op: &Op) -> Option<()> {
        let at = |pick: u8, of: usize| (of > 0).then(|| pick as usize % of);
        match op {
            Op::Run { tokens, priority, session, external } => {
                self.run(tokens, i32::from(priority % 4), *session, *external);
            }
            Op::Commit { pick } => {
                let seq = self.live[at(*pick, self.live.len())?];
                let len = self.m.sequence(seq).expect("live").len;
                self.m.commit(seq, len).expect("computed");
            }
            Op::Release { pick } => {
                let seq = self.live[at(*pick, self.live.len())?];
                self.m.release(seq).expect("live");
                self.follow();
                self.live.retain(|&other| other != seq);
            }
            Op::Pin { tokens } => {
                let tokens: Vec<u32> = tokens.iter().map(|&t| t.into()).collect();
                let pinned = self
                    .m
                    .lock(&tokens, Space::default(), &[], PinRequest::default())
                    .expect("sound");
                self.pins.extend(pinned.map(|pinned| pinned.receipt));
            }
            Op::Unpin { pick } => {
                let receipt = self.pins.swap_remove(at(*pick, self.pins.len())?);
                self.m.unlock(receipt).expect("held");
                self.m.unlock(receipt).expect_err("handed back");
            }
            Op::Lease { pick, less } => {
                let seq = self.live[at(*pick, self.live.len())?];
                let committed = self.m.sequence(seq).expect("live").committed;
                let upto = committed.saturating_sub(u32::from(less % 8));
                self.tickets.extend(self.m.lease(seq, upto));
            }
            Op::Deadline { pick, after } => {
                let ticket = self.tickets[at(*pick, self.tickets.len())?];
                let when = self.now + u64::from(after % 8);
                self.m.set_deadline(ticket, when).expect("outstanding");
                self.deadlines.insert(ticket, when);
            }
            Op::Expire { later } => {
                self.now += u64::from(later % 8);
                let due = self.deadlines.iter().filter(|&(_, &when)| when <= self.now);
                let due: Vec<u64> = due.map(|(&ticket, _)| ticket).collect();
                assert_eq!(self.m.expire_until(self.now).expect("sound").tickets, due);
                self.deadlines.retain(|ticket, _| !due.contains(ticket));
                self.tickets.retain(|ticket| !due.contains(ticket));
            }
            Op::Settle { pick, good } => {
                let ticket = self.tickets.swap_remove(at(*pick, self.tickets.len())?);
                self.deadlines.remove(&ticket);
                match good % 3 {
                    0 => self.m.done(ticket).expect("outstanding"),
                    1 => drop(self.m.failed(ticket).expect("outstanding")),
                    _ if self.m.loaded(ticket, 0).is_ok() => {}
                    _ => self.m.done(ticket).expect("outstanding"),
                }
                self.m.done(ticket).expect_err("settled");
            }
            Op::Collect { free } => {
                self.m.evict_until((*free).into()).map(drop).expect("cached ones go");
            }
            Op::Lend { count } => {
                let mut out = vec![0; usize::from(count % 4)];
                self.m.take(&mut out).ok()?;
                self.lent.extend(out);
            }
            Op::GiveBack => {
                self.m.free(&self.lent).expect("on loan");
                self.lent.clear();
            }
            Op::Clear => drop(self.m.reset_prefix_cache()),
        }
        Some(())
    }

    fn run(&mut self, tokens: &[bool], priority: i32, session: bool, external: bool) {
        if self.live.len() > 6 {
            return;
        }
        let tokens: Vec<u32> = tokens.iter().map(|&t| t.into()).collect();
        let meta = Meta { session: session.into(), priority, ..Meta::default() };
        let request = Request {
            tokens: tokens.to_vec(),
            external_until: if external { tokens.len() as u32 } else { 0 },
            meta,
            ..Request::default()
        };
        if let Ok(allocation) = self.m.allocate(&request) {
            self.tickets.extend(allocation.load);
            self.live.push(allocation.seq);
            self.metas.insert(allocation.seq, meta);
        }
    }

    /// What the log says has happened to blocks. Whoever was evicted had to be the first of those that might.
    fn follow(&mut self) {
        for event in self.m.take_events() {
            let meta = self.metas.get(&event.seq).copied();
            match event.kind {
                Kind::Store => {
                    let copy = self.copy_under(event.key);
                    self.pasts.insert(event.block, Past { key: event.key, ..Past::default() });
                    self.touch(event.block, event.tick, meta, true);
                    // What is computed a second time is a use of the copy that is found.
                    if let Some(copy) = copy {
                        self.touch(copy, event.tick, meta, false);
                    }
                }
                Kind::Hit => self.touch(event.block, event.tick, meta, false),
                Kind::Release => {
                    if let Some(past) = self.pasts.get_mut(&event.block) {
                        past.last = event.tick;
                    }
                }
                Kind::StandIn => drop(self.metas.insert(event.seq, self.metas[&event.value])),
                Kind::Evict => drop(self.pasts.remove(&event.block)),
                Kind::Forget => self.forget(event.block, event.tick),
                _ => {}
            }
        }
    }

    /// A copy of what is forgotten takes its place in the order.
    fn forget(&mut self, block: BlockId, tick: u64) {
        let past = self.pasts.remove(&block).expect("stored");
        if let Some(copy) = self.copy_under(past.key) {
            self.pasts.get_mut(&copy).expect("stored").last = tick;
        }
    }

    /// The findable block under `key`, the lowest id of several.
    fn copy_under(&self, key: Key) -> Option<BlockId> {
        self.pasts.iter().find(|(_, past)| past.key == key).map(|(&block, _)| block)
    }

    fn touch(&mut self, block: BlockId, tick: u64, meta: Option<Meta>, new: bool) {
        let (Some(past), Some(meta)) = (self.pasts.get_mut(&block), meta) else { return };
        let options = PolicyOptions::default();
        let lives = if meta.session > 0 { options.session_ticks } else { options.one_shot_ticks };
        past.last = tick;
        past.priority = if new { meta.priority } else { past.priority.max(meta.priority) };
        past.lives = past.lives.max(lives.into());
    }

    /// What somebody keeps can be had by nobody, and the rest is in the order of the policy.
    fn check(&self) {
        self.m.check_integrity().expect("sound");
        let pool = self.m.pool();
        assert_eq!(pool.free() + pool.cached() + pool.referenced(), pool.capacity());
        assert!(self.lent.iter().all(|&block| pool.state(block) == State::Lent));
        for &ticket in &self.tickets {
            let known = self.m.tickets().iter().any(|&(other, ..)| other == ticket);
            assert!(known, "ticket {ticket} is gone");
        }
        if self.policy == Kept::Lru {
            return;
        }
        let mut leaves: Vec<BlockId> =
            (0..pool.created()).filter(|&b| pool.is_evictable(b)).collect();
        leaves.sort_by_key(|&block| {
            let past = self.pasts[&block];
            let main = match self.policy {
                Kept::Priority => (i64::from(past.priority), past.last),
                _ => (0, past.last + past.lives),
            };
            (main, u32::MAX - pool.depth(block), block)
        });
        assert_eq!(self.m.eviction_order(), leaves);
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
