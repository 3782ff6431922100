//! The works. Keys are given wherever prompts come in: callgrind's processor has no SHA instructions,
//! so what hashing costs there says nothing.

use std::error::Error;
use std::path::Path;

use kvframe_core::hash::Space;
use kvframe_core::manager::{Ids, Step};
use kvframe_core::policy::{
    Consult, Decision, External, Fact, PolicyOptions, Subscriptions, by_name,
};
use kvframe_core::{Attempt, HashAlgo, Key, Manager, Options, Request, SeqId};
use kvframe_trace::replay::{PreparedTrace, SilentHost, node_key};
use kvframe_trace::{Mode, Trace};

use crate::counted_part;

pub type Counted = Result<u64, Box<dyn Error>>;
type Work = (&'static str, fn() -> Counted);

/// Name, and what runs it and answers how many operations it was.
pub const WORKS: &[Work] = &[
    ("get_free_64", get_free),
    ("evict_64_lru", || evict("lru")),
    ("evict_64_lfu", || evict("lfu")),
    ("evict_64_outside", evict_outside),
    ("admit_commit_release", admit_commit_release),
    ("admit_hit_256", admit_hit),
    ("publish_256", publish),
    ("decode_step_256", decode),
    ("fork_copy", fork_copy),
    ("lookup_256_xxh3", lookup),
    ("replay_lru_conversation", || replay("lru", "conversation", 4_000)),
    ("replay_lru_synthetic", || replay("lru", "synthetic", 2_000)),
    ("replay_lru_agent", || replay("lru", "agent", 4_000)),
    ("replay_foresight_conversation", || replay("foresight", "conversation", 4_000)),
    ("replay_foresight_synthetic", || replay("foresight", "synthetic", 2_000)),
    ("replay_foresight_agent", || replay("foresight", "agent", 4_000)),
];

pub const SIZE: u32 = 16;
const TAKEN: usize = 64;

pub fn manager(blocks: u32, policy: &str) -> Result<Manager, Box<dyn Error>> {
    let options = Options { blocks, block_size: SIZE, ..Options::default() };
    Ok(Manager::new(options, by_name(policy, PolicyOptions::default())?)?)
}

/// `count` keys of a prefix of its own.
pub fn keys(prefix: u32, count: u32) -> Vec<Key> {
    (0..count).map(|i| node_key(prefix * 10_000 + i)).collect()
}

/// A request for the full blocks of `keys` and one token more.
pub fn request(keys: &[Key]) -> Request {
    Request::of_keys(keys, keys.len() as u32 * SIZE + 1)
}

/// Admits and computes; the sequence stays.
pub fn enter(m: &mut Manager, keys: &[Key]) -> kvframe_core::Result<SeqId> {
    let asked = Request::of_keys(&[], keys.len() as u32 * SIZE + 1);
    let allocation = m.allocate(Attempt::with_keys(&asked, keys))?;
    m.commit(allocation.seq, allocation.granted_tokens)?;
    Ok(allocation.seq)
}

/// Takes 64 blocks of an empty pool and gives them back.
fn get_free() -> Counted {
    let mut m = manager(20_000, "lru")?;
    let mut blocks = [0; TAKEN];
    m.take(&mut blocks)?;
    m.free(&blocks)?;
    counted_part(|| {
        for _ in 0..100 {
            m.take(&mut blocks)?;
            m.free(&blocks)?;
        }
        Ok(100)
    })
}

/// Takes 64 blocks, each of which has to be evicted.
fn evict(policy: &str) -> Counted {
    let blocks = 1 << 12;
    let mut m = manager(blocks, policy)?;
    for prefix in 0..blocks {
        let allocation = m.allocate(&Request::of_keys(&keys(prefix, 1), SIZE))?;
        m.commit(allocation.seq, SIZE)?;
        m.release(allocation.seq)?;
    }
    let mut taken = [0; TAKEN];
    let operations = u64::from(blocks) / TAKEN as u64;
    counted_part(|| {
        for _ in 0..operations {
            m.take(&mut taken)?;
        }
        assert_eq!(m.stats().evictions, u64::from(blocks));
        Ok(operations)
    })
}

/// The same of prefixes of 64, with a policy outside the core that scores two columns of a window of 256.
fn evict_outside() -> Counted {
    let (prefixes, window) = (1 << 6, 256);
    let options =
        Options { blocks: prefixes * TAKEN as u32, block_size: SIZE, ..Options::default() };
    let mut m = Manager::new(options, Box::new(External::new(Subscriptions::default())))?;
    for prefix in 0..prefixes {
        let of = Request::of_keys(&keys(prefix, TAKEN as u32), TAKEN as u32 * SIZE);
        let allocation = m.allocate(&of)?;
        m.commit(allocation.seq, allocation.granted_tokens)?;
        m.release(allocation.seq)?;
    }
    let mut taken = [0; TAKEN];
    let mut decision = Decision { n: TAKEN, ..Decision::default() };
    decision.offer.facts.want([Fact::LastUse, Fact::Uses]);
    let mut scores = vec![0.0; window];
    let operations = u64::from(prefixes) - 4;
    counted_part(|| {
        for _ in 0..operations {
            m.consult(window, &mut decision);
            let facts = &decision.offer.facts;
            for ((score, &tick), &uses) in scores.iter_mut().zip(&facts.last_use).zip(&facts.uses) {
                *score = tick as f64 + 16.0 * f64::from(uses);
            }
            decision.offer.check_scores(&scores)?;
            let choice = decision.offer.choice(&decision.offer.lowest(&scores, TAKEN));
            m.decided(TAKEN, Some(&choice));
            m.take(&mut taken)?;
            m.settle_choice();
        }
        assert_eq!(m.stats().evictions, operations * TAKEN as u64);
        Ok(operations)
    })
}

/// A request of 320 blocks, 224 of them a prefix that others share; 32 run at a time, in a full pool.
fn admit_commit_release() -> Counted {
    let mut m = manager(20_000, "lru")?;
    let prompts: Vec<Vec<Key>> =
        (0..200).map(|i| [keys(i * 7 % 20, 224), keys(100 + i, 96)].concat()).collect();
    let mut live: Vec<SeqId> = Vec::with_capacity(64);
    let mut serve = |m: &mut Manager, prompts: &[Vec<Key>]| -> kvframe_core::Result<()> {
        for keys in prompts {
            if live.len() == 32 {
                m.release(live.remove(0))?;
            }
            live.push(enter(m, keys)?);
        }
        Ok(())
    };
    serve(&mut m, &prompts[..100])?;
    counted_part(|| serve(&mut m, &prompts[100..]))?;
    Ok(100)
}

/// A request of 256 blocks that are all cached comes and goes.
fn admit_hit() -> Counted {
    let mut m = manager(1_000, "lru")?;
    let keys = keys(1, 256);
    let seq = enter(&mut m, &keys)?;
    m.release(seq)?;
    let asked = request(&keys);
    counted_part(|| {
        for _ in 0..50 {
            let allocation = m.allocate(&asked)?;
            assert_eq!(allocation.cached_tokens, 256 * SIZE);
            m.release(allocation.seq)?;
        }
        Ok(50)
    })
}

/// 256 blocks become findable.
fn publish() -> Counted {
    let mut m = manager(20_000, "lru")?;
    let mut granted = Vec::new();
    for prefix in 0..50 {
        granted.push(m.allocate(&request(&keys(prefix, 256)))?);
    }
    counted_part(|| {
        for allocation in &granted {
            m.commit(allocation.seq, allocation.granted_tokens)?;
        }
        assert_eq!(m.stats().stored, 50 * 256);
        Ok(50)
    })
}

/// 256 sequences at different places in a block commit a token and grow by one. They leave nothing
/// findable, as that would be hashed.
fn decode() -> Counted {
    let (running, steps) = (256, 32);
    let mut m = manager(running * 16, "lru")?;
    let mut lengths = Vec::new();
    for i in 0..running {
        let tokens = vec![i; (96 + i % SIZE) as usize];
        let request =
            Request { read_cache: false, write_cache: false, ..Request::of_tokens(&tokens) };
        lengths.push((m.allocate(&request)?.seq, tokens.len() as u32));
    }
    let seqs: Vec<SeqId> = lengths.iter().map(|&(seq, _)| seq).collect();
    let append: Vec<_> = seqs.iter().map(|&seq| (seq, Ids::Known(&[7]))).collect();
    counted_part(|| {
        for _ in 0..steps {
            let step = Step { commit: &lengths, append: &append, ..Step::default() };
            let outcome = m.step(&step)?;
            assert_eq!((outcome.appended, outcome.refused.len()), (seqs.len(), 0));
            for (_, length) in &mut lengths {
                *length += 1;
            }
        }
        Ok(steps)
    })
}

/// A fork of a sequence with a partial block grows by one token (the copy), and ends.
fn fork_copy() -> Counted {
    let mut m = manager(1_000, "lru")?;
    let tokens = vec![3; 16 * SIZE as usize + 5];
    let keys = keys(1, 16);
    let allocation = m.allocate(&Request { keys, ..Request::of_tokens(&tokens) })?;
    m.commit(allocation.seq, allocation.granted_tokens)?;
    let mut copies = 0;
    counted_part(|| {
        for _ in 0..100 {
            let child = m.fork(allocation.seq)?;
            m.append(child, &[9])?;
            let plan = m.take_plan().ok_or("a fork that grows copies its tail")?;
            copies += plan.copies.len();
            m.done(plan.ticket)?;
            m.release(child)?;
        }
        assert_eq!(copies, 100);
        Ok(100)
    })
}

/// A lookup that finds 256 blocks, the hash and the comparison of tokens included. That hash uses no
/// instruction that callgrind lacks.
fn lookup() -> Counted {
    let options = Options { blocks: 1_000, hash: HashAlgo::Xxh3, ..Options::default() };
    let mut m = Manager::new(options, by_name("lru", PolicyOptions::default())?)?;
    let tokens: Vec<u32> = (0..=256 * SIZE).collect();
    let allocation = m.allocate(&Request::of_tokens(&tokens))?;
    m.commit(allocation.seq, allocation.granted_tokens)?;
    counted_part(|| {
        for _ in 0..50 {
            assert_eq!(m.lookup(&tokens, Space::default(), &[]).tokens, 256 * SIZE);
        }
        Ok(50)
    })
}

/// A block of a shipped trace, replayed in a pool of so many blocks. Foresight's count over lru's is what it costs.
fn replay(policy: &str, trace: &str, blocks: u32) -> Counted {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/kvframe/traces");
    let trace = Trace::load(Path::new(folder).join(format!("{trace}.kvt.gz")), None)?;
    let plan = trace.plan(Mode::Engine);
    let prepared = PreparedTrace::new(&trace, Mode::Engine, &plan);
    let made = by_name(policy, PolicyOptions::default())?;
    let mut manager = Manager::new(prepared.options(Some(blocks))?, made)?;
    let outcome = counted_part(|| prepared.drive(&mut manager, &mut SilentHost))?;
    let outcome = outcome.ok_or("nobody stops it")?;
    assert!(outcome.evictions > 0);
    Ok(outcome.block_accesses)
}
