//! Memory a cached block, by the bytes that are allocated. One test: the count is of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kvframe_core::index::IndexKind;
use kvframe_core::options::Observe;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::{Key, Manager, Options, Request};

/// The system's allocator, and how many bytes it has given out.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: it is the system's allocator; what is counted changes nothing of what that answers.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps to the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const SIZE: u32 = 16;
const CHAIN: u32 = 1_024;

/// Serves prompts of [`CHAIN`] blocks until `blocks` have been computed, from the prompt `first` on.
fn fill(m: &mut Manager, blocks: u32, first: u32, keyed: bool) {
    for prompt in first..first + blocks / CHAIN {
        // Keys as a hash makes them: each block's another one.
        let at = |i: u32| u128::from(prompt) << 64 | u128::from(i + 1);
        let keys: Vec<Key> = (0..CHAIN)
            .map(|i| Key(at(i).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)))
            .collect();
        let tokens: Vec<u32> = (0..CHAIN * SIZE).map(|i| prompt * 7 + i).collect();
        let request =
            if keyed { Request::of_keys(&keys, CHAIN * SIZE) } else { Request::of_tokens(&tokens) };
        let seq = m.allocate(&request).unwrap().seq;
        m.commit(seq, CHAIN * SIZE).unwrap();
        m.release(seq).unwrap();
    }
}

/// A manager, and the bytes that it has allocated once `blocks` blocks are cached in it, after `again` as
/// many have been evicted.
fn full(blocks: u32, index: IndexKind, observe: Observe, again: f64) -> (Manager, f64) {
    let before = ALLOCATED.load(Relaxed);
    let options = Options { blocks, block_size: SIZE, index, observe, ..Options::default() };
    let policy = by_name("lru", PolicyOptions::default()).unwrap();
    let mut m = Manager::new(options, policy).unwrap();
    let keyed = index == IndexKind::Hash;
    fill(&mut m, blocks, 0, keyed);
    fill(&mut m, (f64::from(blocks) * again) as u32, blocks, keyed);
    assert!(m.pool().cached() > blocks - 2 * CHAIN, "{} are cached", m.pool().cached());
    (m, (ALLOCATED.load(Relaxed) - before) as f64)
}

// scenario: V35, SA-B14, F29
#[test]
fn a_cached_block_costs_few_bytes() {
    let plain = Observe { statistics: false, ghosts: 0, sample: 0 };
    let each = |blocks: u32, index, again| full(blocks, index, plain, again).1 / f64::from(blocks);
    // Pool 44, lru 8, table 5.7 to 11.4; what a sequence keeps for its next is small beside that.
    for blocks in [250_000, (1 << 20) + 50_000] {
        let bytes = each(blocks, IndexKind::Hash, 0.1);
        assert!(bytes <= 64.0, "{bytes:.1} bytes a block of {blocks}");
    }
    // A table that is nearly full doubles once blocks have come and gone.
    let bytes = each(200_000, IndexKind::Hash, 3.0);
    assert!(bytes <= 70.0, "{bytes:.1} bytes a block after many were evicted");
    // Statistics are of one size: what is remembered of blocks that left.
    let (_, without) = full(1 << 16, IndexKind::Hash, plain, 0.0);
    let (_, with) = full(
        1 << 16,
        IndexKind::Hash,
        Observe { ghosts: 1 << 15, statistics: true, sample: 0 },
        0.0,
    );
    assert!(with - without <= f64::from(1_200_000), "{} bytes of statistics", with - without);
    // A tree of tokens: its node a block, or a token, would cost far more.
    let (m, bytes) = full(1 << 16, IndexKind::Radix, plain, 0.0);
    let tokens = f64::from(m.pool().cached() * SIZE);
    let pool = each(1 << 16, IndexKind::Hash, 0.0) * f64::from(1 << 16);
    assert!(
        (bytes - pool) / tokens <= 8.0,
        "{:.1} bytes a token in the tree",
        (bytes - pool) / tokens
    );
}
