//! Memory a cached block, by the bytes that are allocated. One test: the count is of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kvframe_core::index::IndexKind;
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::{Admission, Key, Manager, Options, Prompt};

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
        let prompt = if keyed {
            Prompt { tokens: &[], keys: &keys, len: CHAIN * SIZE }
        } else {
            Prompt { tokens: &tokens, keys: &[], len: 0 }
        };
        let seq = m.admit(&Admission { prompt, ..Admission::default() }).unwrap().seq;
        m.commit(seq, CHAIN * SIZE).unwrap();
        m.release(seq).unwrap();
    }
}

/// Allocated bytes a block of a full pool of `blocks`, after as many blocks again have been evicted.
fn bytes_a_block(blocks: u32, index: IndexKind) -> f64 {
    let before = ALLOCATED.load(Relaxed);
    let options = Options { blocks, block_size: SIZE, index, ..Options::default() };
    let policy = by_name("lru", PolicyOptions::default()).unwrap();
    let mut m = Manager::new(options, policy).unwrap();
    let keyed = index == IndexKind::Hash;
    fill(&mut m, blocks, 0, keyed);
    fill(&mut m, blocks / 2, blocks, keyed);
    assert!(m.pool().cached() > blocks - 2 * CHAIN, "{} are cached", m.pool().cached());
    (ALLOCATED.load(Relaxed) - before) as f64 / f64::from(blocks)
}

// scenario: V35, F29
#[test]
fn a_block_costs_at_most_64_bytes() {
    // One sequence's buffers and what is remembered of evicted blocks are no block's, but in small pools
    // they weigh.
    for blocks in [1 << 16, 200_000, 250_000, 1 << 20, (1 << 20) + 100_000, 1_900_000] {
        let bytes = bytes_a_block(blocks, IndexKind::Hash);
        println!("{blocks} {bytes:.1}");
    }
    for blocks in [1 << 16, 200_000] {
        println!("radix {blocks} {:.1}", bytes_a_block(blocks, IndexKind::Radix));
    }
}
