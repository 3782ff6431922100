//! The router's index beside Dynamo's RadixTree and its concurrent compressed tree, in turn, in process.
//!
//! Prints a row a work and a side: work, side, value. Usage: kvframe-perf-indexers ROUNDS

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, RadixTree};
use kvframe_core::router::{Router, Text};

const BLOCKS: usize = 64;
/// Matches that are timed together.
const ASKED: usize = 10_000;

/// A stream of events: each stores a chain of blocks from the start of a prompt.
struct Stream {
    workers: u64,
    events: Vec<(u64, Vec<u64>)>,
}

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 1
}

fn chain(state: &mut u64, blocks: usize) -> Vec<u64> {
    (0..blocks).map(|_| next(state)).collect()
}

impl Stream {
    fn of(workers: u64, events: u64, blocks: usize) -> Self {
        let mut state = 88_172_645_463_325_252;
        let events = (0..events).map(|at| (at % workers, chain(&mut state, blocks))).collect();
        Self { workers, events }
    }

    /// Every worker has the same chain.
    fn shared(workers: u64, blocks: usize) -> Self {
        let chain = chain(&mut 88_172_645_463_325_252, blocks);
        Self { workers, events: (0..workers).map(|worker| (worker, chain.clone())).collect() }
    }

    fn blocks(&self) -> usize {
        self.events.iter().map(|(_, keys)| keys.len()).sum()
    }

    fn theirs(&self) -> Vec<RouterEvent> {
        let block = |&key: &u64| KvCacheStoredBlockData {
            block_hash: ExternalSequenceBlockHash(key),
            tokens_hash: LocalBlockHash(key),
            mm_extra_info: None,
        };
        let event = |(id, (worker, keys)): (usize, &(u64, Vec<u64>))| {
            let blocks = keys.iter().map(block).collect();
            let data = KvCacheStoreData { parent_hash: None, start_position: Some(0), blocks };
            let data = KvCacheEventData::Stored(data);
            RouterEvent::new(*worker, KvCacheEvent { event_id: id as u64, data, dp_rank: 0 })
        };
        self.events.iter().enumerate().map(event).collect()
    }

    fn queries(&self) -> Vec<Vec<LocalBlockHash>> {
        let prompt = |at: usize| &self.events[at * 7_919 % self.events.len()].1;
        (0..ASKED).map(|at| prompt(at).iter().map(|&key| LocalBlockHash(key)).collect()).collect()
    }
}

/// Resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn said(work: &str, side: &str, value: f64) {
    println!("{work}\t{side}\t{value}");
}

fn microseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e6 / ASKED as f64
}

fn ours(name: &str, stream: &Stream) {
    let mut router = Router::new(0, stream.blocks());
    (0..stream.workers).for_each(|worker| assert!(router.add_worker(worker)));
    let (before, begun) = (resident(), Instant::now());
    for (worker, keys) in &stream.events {
        router.stored((*worker).into(), keys, None, Text::default(), 0);
    }
    let took = begun.elapsed().as_secs_f64();
    said(&format!("{name}: ingest"), "kvframe", stream.blocks() as f64 / took / 1e6);
    let bytes = resident().saturating_sub(before) as f64 / router.len() as f64;
    said(&format!("{name}: bytes a block"), "kvframe", bytes);
    let prompts: Vec<&[u64]> =
        (0..ASKED).map(|at| &stream.events[at * 7_919 % stream.events.len()].1[..]).collect();
    let begun = Instant::now();
    let found: usize = prompts.iter().map(|keys| router.match_keys(keys).len()).sum();
    said(&format!("{name}: match"), "kvframe", microseconds(begun));
    black_box(found);
    let begun = Instant::now();
    let found: usize = (0..ASKED).map(|_| router.match_keys(black_box(prompts[1])).len()).sum();
    said(&format!("{name}: match one again"), "kvframe", microseconds(begun));
    assert!(found >= ASKED);
}

fn radix_tree(name: &str, stream: &Stream) {
    let (events, queries) = (stream.theirs(), stream.queries());
    let again: Vec<_> = (0..ASKED).map(|_| queries[1].clone()).collect();
    let mut tree = RadixTree::new();
    let (before, begun) = (resident(), Instant::now());
    for event in events {
        tree.apply_event(event).expect("an event in order");
    }
    let took = begun.elapsed().as_secs_f64();
    said(&format!("{name}: ingest"), "RadixTree", stream.blocks() as f64 / took / 1e6);
    // Their events are freed meanwhile, so that this says too little.
    let bytes = resident().saturating_sub(before) as f64 / stream.blocks() as f64;
    said(&format!("{name}: bytes a block"), "RadixTree", bytes);
    let begun = Instant::now();
    let found: usize = queries.into_iter().map(|q| tree.find_matches(q, false).scores.len()).sum();
    said(&format!("{name}: match"), "RadixTree", microseconds(begun));
    black_box(found);
    let begun = Instant::now();
    let found: usize = again.into_iter().map(|q| tree.find_matches(q, false).scores.len()).sum();
    said(&format!("{name}: match one again"), "RadixTree", microseconds(begun));
    assert!(found >= ASKED);
}

fn compressed(name: &str, stream: &Stream) {
    let (events, queries) = (stream.theirs(), stream.queries());
    let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
    let (sender, receiver) = flume::unbounded();
    let worker = {
        let tree = tree.clone();
        std::thread::spawn(move || tree.worker(receiver, None))
    };
    let last = queries_of_last(stream);
    let begun = Instant::now();
    for event in events {
        sender.send(WorkerTask::Event(event)).expect("its worker runs");
    }
    while SyncIndexer::find_matches(&*tree, &last, false).scores.len() < last_holders(stream) {
        std::hint::spin_loop();
    }
    let took = begun.elapsed().as_secs_f64();
    said(&format!("{name}: ingest"), "compressed", stream.blocks() as f64 / took / 1e6);
    let begun = Instant::now();
    let ask =
        |query: &Vec<LocalBlockHash>| SyncIndexer::find_matches(&*tree, query, false).scores.len();
    let found: usize = queries.iter().map(ask).sum();
    said(&format!("{name}: match"), "compressed", microseconds(begun));
    black_box(found);
    let begun = Instant::now();
    let found: usize = (0..ASKED).map(|_| ask(black_box(&queries[1]))).sum();
    said(&format!("{name}: match one again"), "compressed", microseconds(begun));
    assert!(found >= ASKED);
    drop(sender);
    worker.join().expect("its worker ends").expect("without an error");
}

fn queries_of_last(stream: &Stream) -> Vec<LocalBlockHash> {
    let last = stream.events.last().map(|(_, keys)| &keys[..]).unwrap_or_default();
    last.iter().map(|&key| LocalBlockHash(key)).collect()
}

/// Workers that hold the last chain once all events are in.
fn last_holders(stream: &Stream) -> usize {
    let last = stream.events.last().map(|(_, keys)| keys);
    stream.events.iter().filter(|(_, keys)| Some(keys) == last).count()
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(3);
    let streams = [
        ("8 workers, 256,000 blocks", Stream::of(8, 4_000, BLOCKS)),
        ("100 workers x 100,000 blocks", Stream::of(100, 156_250, BLOCKS)),
        ("prompts of 2,000 blocks", Stream::of(8, 128, 2_000)),
        ("1,000 workers share 64 blocks", Stream::shared(1_000, BLOCKS)),
    ];
    for _ in 0..rounds {
        for (name, stream) in &streams {
            ours(name, stream);
            radix_tree(name, stream);
            compressed(name, stream);
        }
    }
}
