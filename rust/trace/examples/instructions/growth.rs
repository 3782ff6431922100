//! Works that must not grow with what they do not name, each beside `size` things of its kind; those that
//! name all of them may take n log n. See `works` for the others.

use kvframe_core::manager::{PreemptionOrder, Step};
use kvframe_core::policy::{PolicyOptions, by_name};
use kvframe_core::{Attempt, Key, Manager, Options, Request, SeqId};

use crate::counted_part;
use crate::works::{Counted, SIZE, enter, keys, manager, request};

/// What a work may name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// As much at any size.
    Few,
    /// All there is.
    All,
}

type Work = (&'static str, Names, fn(u32) -> Counted);

/// Name, what it names, and what runs it beside so many.
pub const GROWTH: &[Work] = &[
    ("join_beside", Names::Few, join),
    ("commit_joined_beside", Names::Few, commit_joined),
    ("preempt_lru_all", Names::All, |n| preempt(n, PreemptionOrder::LeastRecent)),
    ("preempt_most_freed_all", Names::All, |n| preempt(n, PreemptionOrder::MostFreed)),
    ("foresight_first_eviction", Names::Few, foresight),
    ("keys_that_count_up_mq", Names::All, |n| counted_keys(n, "mq")),
    ("keys_that_count_up_s3", Names::All, |n| counted_keys(n, "s3-fifo")),
    ("loaded_beside", Names::Few, loaded),
    ("copy_done_beside", Names::Few, copy_done),
    ("lease_beside", Names::Few, lease),
    ("step_done_all", Names::All, step_done),
    ("admit_beside_whole", Names::Few, admit_beside_whole),
    ("commit_copy_beside", Names::Few, commit_copy),
    ("failed_fork_beside", Names::Few, failed_fork),
    ("pass_beside", Names::Few, pass),
];

fn live(m: &mut Manager, count: u32) -> kvframe_core::Result<Vec<SeqId>> {
    (0..count).map(|i| enter(m, &keys(i, 1))).collect()
}

/// Joins a computation of 16 blocks beside `size` others.
fn join(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    let apart: Vec<Vec<Key>> = (0..size).map(|i| keys(i, 1)).collect();
    for keys in &apart {
        m.allocate(&request(keys))?;
    }
    let joined = keys(size, 16);
    let asked = Request { join: true, ..request(&joined) };
    m.allocate(&asked)?;
    // Joins are asked for so often that what is computed is noted by now.
    (0..64).for_each(|_| m.expect_joins());
    counted_part(|| {
        for _ in 0..20 {
            assert_eq!(m.allocate(&asked)?.joined_tokens, 16 * SIZE);
        }
        Ok(20)
    })
}

/// Commits a computation that 4 others joined, beside `size` that others joined too.
fn commit_joined(size: u32) -> Counted {
    let mut m = manager(8 * size + 4_096, "lru")?;
    let mut last = (0, 0);
    for i in 0..=size / 4 {
        let joined = keys(i, 4);
        let asked = Request { join: true, ..request(&joined) };
        let allocation = m.allocate(&asked)?;
        for _ in 0..4 {
            m.allocate(&asked)?;
        }
        last = (allocation.seq, allocation.granted_tokens);
    }
    counted_part(|| {
        m.commit(last.0, last.1)?;
        Ok(1)
    })
}

/// Orders `size` sequences, as many as bring the use to nothing.
fn preempt(size: u32, rule: PreemptionOrder) -> Counted {
    let mut m = manager(4 * size, "lru")?;
    let seqs = live(&mut m, size)?;
    counted_part(|| {
        assert_eq!(m.preemption_to(&seqs, rule, 0.0)?.len(), seqs.len());
        Ok(1)
    })
}

/// The first block that foresight gives up, in a pool of `size`.
fn foresight(size: u32) -> Counted {
    let mut m = manager(16 * size, "foresight")?;
    for i in 0..8 * size {
        let seq = enter(&mut m, &keys(i, 1))?;
        m.release(seq)?;
    }
    let mut taken = vec![0; m.pool().free() as usize];
    m.take(&mut taken)?;
    let mut one = [0];
    counted_part(|| {
        m.take(&mut one)?;
        Ok(1)
    })
}

/// Serves `size` prompts under keys that count up in one word, twice, in a pool of a quarter of them.
fn counted_keys(size: u32, policy: &str) -> Counted {
    let options = Options { blocks: size / 4 + 64, block_size: SIZE, ..Options::default() };
    let mut m = Manager::new(options, by_name(policy, PolicyOptions::default())?)?;
    let asked = Request::of_keys(&[], SIZE + 1);
    let all: Vec<[Key; 1]> = (0..size).map(|i| [Key(1 << 64 | u128::from(i))]).collect();
    counted_part(|| {
        for keys in all.iter().chain(&all) {
            let allocation = m.allocate(Attempt::with_keys(&asked, keys))?;
            m.commit(allocation.seq, SIZE + 1)?;
            m.release(allocation.seq)?;
        }
        Ok(1)
    })
}

/// A load of one block comes in beside `size` others.
fn loaded(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    let mut load = None;
    for i in 0..=size {
        let keys = keys(i, 2);
        load = m.allocate(&Request { num_external_tokens: SIZE, ..request(&keys) })?.load;
    }
    let ticket = load.ok_or("a block is loaded")?;
    counted_part(|| {
        m.loaded(ticket, 1)?;
        Ok(1)
    })
}

/// A copy is settled beside `size` others.
fn copy_done(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    let mut last = 0;
    for i in 0..=size {
        let tokens = vec![i; SIZE as usize + 3];
        let request =
            Request { read_cache: false, write_cache: false, ..Request::of_tokens(&tokens) };
        let allocation = m.allocate(&request)?;
        m.commit(allocation.seq, allocation.granted_tokens)?;
        let child = m.fork(allocation.seq)?;
        m.append(child, &[9])?;
        last = m.take_plan().ok_or("a fork that grows copies its tail")?.ticket;
    }
    counted_part(|| {
        m.done(last)?;
        Ok(1)
    })
}

/// A lease is taken, and ends, beside `size` others.
fn lease(size: u32) -> Counted {
    let mut m = manager(4 * size, "lru")?;
    let seqs = live(&mut m, size)?;
    for &seq in &seqs {
        m.lease(seq, SIZE)?;
    }
    counted_part(|| {
        for _ in 0..20 {
            let ticket = m.lease(seqs[0], SIZE)?;
            m.done(ticket)?;
        }
        Ok(20)
    })
}

/// A step settles `size` leases.
fn step_done(size: u32) -> Counted {
    let mut m = manager(4 * size, "lru")?;
    let seqs = live(&mut m, size)?;
    let leases = seqs.iter().map(|&seq| m.lease(seq, SIZE));
    let leases: Vec<u64> = leases.collect::<kvframe_core::Result<_>>()?;
    counted_part(|| {
        m.step(&Step { done: &leases, ..Step::default() })?;
        Ok(1)
    })
}

fn whole(keys: &[Key]) -> Request {
    Request { full_sequence_must_fit: true, max_seq_len: 4 * SIZE, ..request(keys) }
}

/// Admits a request whole beside `size` that came in whole.
fn admit_beside_whole(size: u32) -> Counted {
    let mut m = manager(8 * size + 4_096, "lru")?;
    for i in 0..size {
        m.allocate(&whole(&keys(i, 1)))?;
    }
    // What an admission beside so many makes room for once is not counted.
    let (first, mine) = (keys(size, 2), keys(size + 1, 2));
    m.allocate(&whole(&first))?;
    counted_part(|| {
        m.allocate(&whole(&mine))?;
        Ok(1)
    })
}

/// Commits a block that is findable in `size` copies, and ends the sequence.
fn commit_copy(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    let same = keys(1, 1);
    let seqs = (0..=size).map(|_| Ok(m.allocate(&request(&same))?.seq));
    let seqs = seqs.collect::<kvframe_core::Result<Vec<SeqId>>>()?;
    let (&last, others) = seqs.split_last().ok_or("one at least")?;
    for &seq in others {
        m.commit(seq, SIZE)?;
    }
    // The policy hears of all of them at the first release, and makes room up to the highest id.
    m.release(*others.last().ok_or("two at least")?)?;
    counted_part(|| {
        m.commit(last, SIZE)?;
        m.release(last)?;
        Ok(1)
    })
}

/// A load fails whose page a fork shares, beside `size` sequences.
fn failed_fork(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    live(&mut m, size)?;
    let loading = keys(size, 2);
    let allocation = m.allocate(&Request { num_external_tokens: SIZE, ..request(&loading) })?;
    m.fork(allocation.seq)?;
    let ticket = allocation.load.ok_or("a block is loaded")?;
    counted_part(|| {
        assert_eq!(m.failed(ticket)?.len(), 2);
        Ok(1)
    })
}

/// A step has run that one sequence waits for, beside `size` that wait for a later one.
fn pass(size: u32) -> Counted {
    let mut m = manager(4 * size + 4_096, "lru")?;
    for (i, seq) in (0..).zip(live(&mut m, size)?) {
        let fence = if i + 1 == size { 0 } else { 2 - u64::from(i == size / 2) };
        m.release_behind(seq, fence)?;
    }
    // The policy hears of all of them at the first release, and makes room up to the highest id.
    m.pass(0);
    counted_part(|| {
        m.pass(1);
        Ok(1)
    })
}
