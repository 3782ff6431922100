//! A policy written in Rust against the interface, in the core: most recently released first.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;

use kvframe_core::hash::Space;
use kvframe_core::retention::{Keep, Retention, TokenRange};
use kvframe_core::{Error, Manager, Options, Request};
use kvframe_native::check::{self, LoadError};
use kvframe_native::faults::Faults;
use kvframe_native::policy::Policy;
use kvframe_native::v1::{Config, NONE, Table};

const SIZE: u32 = 4;

/// Blocks that may be evicted, the last released last.
struct Stack {
    blocks: Vec<u32>,
}

thread_local! {
    /// How many of these there are; a test has a thread to itself.
    static ALIVE: Cell<u32> = const { Cell::new(0) };
}

unsafe extern "C" fn create(config: *const Config) -> *mut c_void {
    // SAFETY: the core gives a config that outlives the call.
    let blocks = unsafe { (*config).blocks };
    ALIVE.set(ALIVE.get() + 1);
    let stack = Stack { blocks: Vec::with_capacity(blocks as usize) };
    Box::into_raw(Box::new(stack)).cast()
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: `create` made it, and this is called once.
    drop(unsafe { Box::from_raw(state.cast::<Stack>()) });
    ALIVE.set(ALIVE.get() - 1);
}

/// The state and the blocks of an event.
unsafe fn read<'a>(state: *mut c_void, n: u32, blocks: *const u32) -> (&'a mut Stack, &'a [u32]) {
    // SAFETY: the state is ours and nobody else is in it; the core gives n blocks.
    unsafe { (&mut *state.cast(), std::slice::from_raw_parts(blocks, n as usize)) }
}

unsafe extern "C" fn on_evictable(
    state: *mut c_void,
    _memory: *mut c_void,
    _now: u64,
    n: u32,
    blocks: *const u32,
) -> i32 {
    // SAFETY: as the contract says.
    let (stack, blocks) = unsafe { read(state, n, blocks) };
    stack.blocks.extend(blocks);
    0
}

unsafe extern "C" fn acquire(
    state: *mut c_void,
    _memory: *mut c_void,
    _now: u64,
    n: u32,
    blocks: *const u32,
) -> i32 {
    // SAFETY: as the contract says.
    let (stack, blocks) = unsafe { read(state, n, blocks) };
    stack.blocks.retain(|block| !blocks.contains(block));
    0
}

unsafe extern "C" fn remove(
    state: *mut c_void,
    memory: *mut c_void,
    now: u64,
    block: u32,
    _why: u32,
) -> i32 {
    // SAFETY: one block is one block.
    unsafe { acquire(state, memory, now, 1, &raw const block) }
}

unsafe extern "C" fn victim(state: *mut c_void, _memory: *mut c_void, _now: u64) -> i64 {
    // SAFETY: the state is ours.
    let stack = unsafe { &*state.cast::<Stack>() };
    i64::from(stack.blocks.last().copied().unwrap_or(NONE))
}

fn table() -> Table {
    Table {
        create: Some(create),
        destroy: Some(destroy),
        on_evictable: Some(on_evictable),
        acquire: Some(acquire),
        remove: Some(remove),
        victim: Some(victim),
        ..Table::empty()
    }
}

fn manager(table: Table, strict: bool) -> (Manager, Arc<Faults>) {
    check::sense(&table).unwrap();
    // SAFETY: it makes sense, and its functions do as the contract says.
    let policy = unsafe { Policy::new(table, Vec::new(), Box::new(())) };
    let faults = Arc::new(Faults::new(strict));
    let eviction = kvframe_native::eviction(policy, None, Arc::clone(&faults));
    let options = Options { blocks: 8, block_size: SIZE, ..Options::default() };
    (Manager::new(options, eviction).unwrap(), faults)
}

fn serve(m: &mut Manager, first: u32, blocks: u32) -> Result<u32, Error> {
    serve_kept(m, first, blocks, None)
}

fn serve_kept(
    m: &mut Manager,
    first: u32,
    blocks: u32,
    retention: Option<&Retention>,
) -> Result<u32, Error> {
    let tokens: Vec<u32> = (first..first + blocks * SIZE).collect();
    let asked = Request { tokens, retention: retention.cloned(), ..Request::default() };
    let allocation = m.allocate(&asked)?;
    m.commit(allocation.seq, blocks * SIZE)?;
    m.release(allocation.seq)?;
    m.check_integrity().unwrap();
    Ok(allocation.cached_tokens)
}

#[test]
fn it_decides_and_ends_once() {
    let (mut m, faults) = manager(table(), true);
    assert_eq!(ALIVE.get(), 1);
    for first in [0, 100, 200, 300, 400] {
        serve(&mut m, first, 2).unwrap();
    }
    // The latest made room for the one after it, so the first three are still there.
    assert_eq!(serve(&mut m, 0, 2), Ok(SIZE));
    assert_eq!(serve(&mut m, 200, 2), Ok(SIZE));
    assert_eq!(faults.count(), 0);
    assert_eq!(
        m.resize(9),
        Err(Error::PolicyRefused(
            "it was created for 8 blocks and has no resize: 9 are too many".into()
        ))
    );
    drop(m);
    assert_eq!(ALIVE.get(), 0);
}

/// Requests of one block each by first token and priority, in a pool of eight that they fill.
fn filled(m: &mut Manager, asked: [(u32, u8); 8]) {
    for (first, priority) in asked {
        let keep = Keep { priority, ..Keep::default() };
        let ranges = vec![TokenRange { start: 0, end: SIZE, keep }];
        serve_kept(m, first, 1, Some(&Retention { ranges, decode: None })).unwrap();
    }
}

/// The order in which the blocks of these first tokens are evicted, one after the other.
fn deaths(m: &mut Manager, firsts: [u32; 8]) -> Vec<u32> {
    let mut left = firsts.to_vec();
    let mut dead = Vec::new();
    for free in 1..=8 {
        m.evict_until(free).unwrap();
        m.check_integrity().unwrap();
        let gone = |first: &u32| {
            let tokens: Vec<u32> = (*first..=*first + SIZE).collect();
            m.lookup(&tokens, Space::default(), &[]).tokens == 0
        };
        dead.extend(left.extract_if(.., |first| gone(first)));
    }
    dead
}

// scenario: V5, S22
#[test]
fn it_ranks_within_the_lowest_priority() {
    let (mut m, faults) = manager(table(), true);
    let asked =
        [(0, 35), (100, 80), (200, 20), (300, 35), (400, 80), (500, 20), (600, 90), (700, 35)];
    filled(&mut m, asked);
    // 700 is what it names first, though the priority of others is lower: of those the built-in order
    // takes the older one. In each priority of its own choice the latest goes first.
    let order = deaths(&mut m, asked.map(|(first, _)| first));
    assert_eq!(order, [200, 500, 700, 300, 0, 400, 100, 600]);
    assert_eq!((faults.count(), m.fallbacks()), (0, 0));
}

// scenario: V5
#[test]
fn what_it_names_counts_in_the_lowest_priority() {
    let (mut m, faults) = manager(table(), true);
    let asked =
        [(0, 35), (100, 35), (200, 80), (300, 80), (400, 35), (500, 20), (600, 20), (700, 20)];
    filled(&mut m, asked);
    let order = deaths(&mut m, asked.map(|(first, _)| first));
    assert_eq!(order, [700, 600, 500, 400, 100, 0, 300, 200]);
    assert_eq!((faults.count(), m.fallbacks()), (0, 0));
}

// scenario: V5
#[test]
fn lower_ones_that_come_later_still_die_first() {
    let (mut m, faults) = manager(table(), true);
    let kept = [0, 100, 200, 300, 400, 500, 600, 700].map(|first| (first, 80));
    filled(&mut m, kept);
    // It names one of those kept, for there are no others; from then on it knows of them.
    serve(&mut m, 800, 1).unwrap();
    serve(&mut m, 900, 2).unwrap();
    serve(&mut m, 1000, 1).unwrap();
    let left = [0, 100, 200, 300, 400, 500, 900, 1000];
    let order = deaths(&mut m, left);
    assert_eq!(order[2..], [500, 400, 300, 200, 100, 0]);
    assert_eq!((faults.count(), m.fallbacks()), (0, 0));
}

unsafe extern "C" fn nobody(_: *mut c_void, _: *mut c_void, _: u64) -> i64 {
    i64::from(NONE)
}

#[test]
fn a_fault_is_counted_and_the_built_in_order_stands_in() {
    let table = Table { victim: Some(nobody), ..Table::empty() };
    let (mut m, faults) = manager(table, false);
    for first in [0, 100, 200, 300, 400] {
        serve(&mut m, first, 2).unwrap();
    }
    assert_eq!((faults.count(), m.fallbacks()), (2, 2));
    assert_eq!(faults.news().unwrap(), "victim named none of 8 cached blocks");
    assert_eq!(faults.news(), None);
    let (mut m, faults) = manager(table, true);
    for first in [0, 100, 200, 300, 400] {
        serve(&mut m, first, 2).unwrap();
    }
    assert_eq!(serve(&mut m, 500, 2), Err(Error::NeedVictims { n: 2 }));
    assert!(faults.is_final());
}

#[test]
fn another_version_is_not_read() {
    let mut other = table();
    other.head.major = 2;
    // SAFETY: a table.
    let refused = unsafe { check::read(&raw const other) }.unwrap_err();
    let size = size_of::<Table>();
    assert_eq!(
        refused,
        LoadError::Version {
            found: format!("ABI 2.0 ({size} bytes)"),
            needed: format!("ABI 1.0 ({size} bytes)"),
        }
    );
    // SAFETY: null is refused.
    assert!(unsafe { check::read(std::ptr::null()) }.is_err());
}
