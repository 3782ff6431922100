//! What every test of the core needs: managers, prompts, dice, and a picture of all that can be seen.
#![allow(dead_code)]

pub mod tenants;

use kvframe_core::events::{Event, Kind};
use kvframe_core::hash::{MmItem, Space};
use kvframe_core::index::IndexKind;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::pool::State;
use kvframe_core::sequence::{Meta, Tables};
use kvframe_core::stats::Stats;
use kvframe_core::{
    Allocation, BlockId, GroupKind, Key, Manager, NIL, Options, Request, Result, SeqId,
};

/// Tokens a block in hand-written tests.
pub const SIZE: u32 = 4;

/// The index under test: crates named `…_radix` run over the radix index what it serves.
pub fn index(options: &Options) -> IndexKind {
    let full = options.groups.iter().all(|group| *group == GroupKind::Full.into());
    let radix = full && env!("CARGO_CRATE_NAME").ends_with("_radix");
    if radix { IndexKind::Radix } else { options.index }
}

/// A manager with the event log on.
pub fn build(options: Options, policy: &str) -> Manager {
    let options = Options { index: index(&options), ..options };
    let policy = by_name(policy, PolicyOptions::default()).expect("a shipped policy");
    Manager::new(Options { event_log: true, ..options }, policy).expect("sound options")
}

/// One full group, `blocks` blocks of [`SIZE`] tokens, lru.
pub fn small(blocks: u32) -> Manager {
    build(Options { blocks, block_size: SIZE, ..Options::default() }, "lru")
}

/// A prompt of whole blocks, each named by a number.
pub fn prompt(blocks: &[u32]) -> Vec<u32> {
    blocks.iter().flat_map(|&b| (0..SIZE).map(move |i| b * 100 + i)).collect()
}

/// Those blocks and one token more, so that all of them may be found.
pub fn open(blocks: &[u32]) -> Vec<u32> {
    let mut tokens = prompt(blocks);
    tokens.push(9999);
    tokens
}

/// A request for `tokens` with nothing special.
pub fn request(tokens: &[u32]) -> Request {
    Request { tokens: tokens.to_vec(), ..Request::default() }
}

/// Admits `tokens`.
pub fn allocate(m: &mut Manager, tokens: &[u32]) -> Result<Allocation> {
    m.allocate(&request(tokens))
}

/// Admits and computes `tokens`; the sequence stays.
pub fn run(m: &mut Manager, tokens: &[u32]) -> SeqId {
    let allocation = allocate(m, tokens).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    allocation.seq
}

/// Admits, computes and releases `tokens`; returns how many were found.
pub fn serve(m: &mut Manager, tokens: &[u32]) -> u32 {
    let allocation = allocate(m, tokens).expect("room");
    m.commit(allocation.seq, allocation.granted_tokens).expect("granted");
    m.release(allocation.seq).expect("live");
    allocation.cached_tokens
}

/// Tokens that could be found now.
pub fn found(m: &Manager, tokens: &[u32]) -> u32 {
    m.lookup(tokens, Space::default(), &[]).tokens
}

/// The block table of a sequence's first group.
pub fn table(m: &Manager, seq: SeqId) -> Vec<BlockId> {
    m.sequence(seq).expect("live").tables[0].to_vec()
}

/// Numbers of a seed that are the same everywhere (xorshift).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

type Columns = (State, u32, u32, Key, BlockId, u32, u32, u8, bool);
type Held =
    ((u32, u32, u32, u32, bool, u32, Key, Meta), Vec<u32>, Vec<Key>, Vec<MmItem>, Vec<u32>, Tables);

/// Everything of a manager that can be seen from outside, less the count of refusals.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    blocks: Vec<Columns>,
    free: Vec<BlockId>,
    counts: (u32, u32, u32),
    order: Vec<BlockId>,
    stats: Stats,
    live: usize,
    sequences: Vec<Option<Held>>,
}

/// The picture of `m`, its sequences `seqs` included.
pub fn picture(m: &Manager, seqs: &[SeqId]) -> Picture {
    let p = m.pool();
    let column = |b: BlockId| -> Columns {
        let findable = matches!(p.state(b), State::Committed | State::Cached);
        let (key, parent) = if findable { (p.key(b), p.parent(b)) } else { (Key(0), NIL) };
        (
            p.state(b),
            p.generation(b),
            p.refs(b),
            key,
            parent,
            p.children(b),
            p.depth(b),
            p.group(b),
            p.is_duplicated(b),
        )
    };
    let held = |&seq: &SeqId| -> Option<Held> {
        let s = m.sequence(seq).ok()?;
        let numbers =
            (s.len, s.committed, s.cached, s.published, s.private, s.known, s.root, s.meta);
        let (tokens, keys) = (s.tokens.clone(), s.keys.clone());
        Some((numbers, tokens, keys, s.mm_items.clone(), s.next_use.clone(), s.tables.clone()))
    };
    Picture {
        blocks: (0..p.created()).map(column).collect(),
        free: p.free_list().to_vec(),
        counts: (p.free(), p.cached(), p.referenced()),
        order: m.eviction_order(u32::MAX),
        stats: Stats { refused: 0, ..m.stats() },
        live: m.num_running(),
        sequences: seqs.iter().map(held).collect(),
    }
}

/// Runs `act`, which must fail, and demands that nothing else happened. Returns the error.
pub fn refused<T: std::fmt::Debug>(
    m: &mut Manager,
    seqs: &[SeqId],
    act: impl FnOnce(&mut Manager) -> Result<T>,
) -> kvframe_core::Error {
    m.take_events();
    let before = picture(m, seqs);
    let error = act(m).expect_err("this must be refused");
    assert_eq!(picture(m, seqs), before, "a refused operation changed something: {error}");
    let logged: Vec<Event> =
        m.take_events().into_iter().filter(|e| e.kind != Kind::Refuse).collect();
    assert_eq!(logged, [], "a refused operation was logged: {error}");
    m.check_integrity().expect("sound");
    error
}
