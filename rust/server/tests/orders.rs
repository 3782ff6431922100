//! Who comes in first, worked out by hand: one sequence runs at a time, and four requests wait behind the first.
//!
//! | request | prompt | answer | together |
//! | --- | --- | --- | --- |
//! | 1 | 12 | 2 | 14 |
//! | 2 | 4 | 9 | 13 |
//! | 3 | 8 | 1 | 9 |
//! | 4 | 10 | 6 | 16 |
//!
//! A step takes 10 s and 1 s a token; request 0 has 4 tokens and is answered at 14.

mod common;

use common::by_hand::{self, finished};
use common::rows;
use kvframe_core::manager::PreemptionOrder;
use kvframe_server::{Fate, QueueOrder, ServerOptions, ServerReport};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 4, "output_length": 1, "hash_ids": [1]}
{"timestamp": 1000, "input_length": 12, "output_length": 2, "hash_ids": [2, 3, 4]}
{"timestamp": 2000, "input_length": 4, "output_length": 9, "hash_ids": [5]}
{"timestamp": 3000, "input_length": 8, "output_length": 1, "hash_ids": [6, 7]}
{"timestamp": 4000, "input_length": 10, "output_length": 6, "hash_ids": [8, 9]}
"#;

fn serve(order: QueueOrder) -> ServerReport {
    let options = ServerOptions { max_num_seqs: 1, order, ..ServerOptions::default() };
    by_hand::serve(ROWS, (40, None), &options)
}

#[test]
fn each_order_lets_in_by_its_own_length() {
    let expected = [
        (QueueOrder::Fcfs, [1, 2, 3, 4]),
        (QueueOrder::Shortest, [2, 3, 4, 1]),
        (QueueOrder::Longest, [1, 4, 3, 2]),
        (QueueOrder::ShortestOutput, [3, 1, 4, 2]),
        (QueueOrder::LongestOutput, [2, 4, 1, 3]),
        (QueueOrder::ShortestTotal, [3, 2, 1, 4]),
        (QueueOrder::LongestTotal, [4, 1, 2, 3]),
    ];
    for (order, places) in expected {
        let served = serve(order).requests;
        let mut came_in = [1, 2, 3, 4];
        came_in.sort_by(|&a, &b| served[a].start.total_cmp(&served[b].start));
        assert_eq!(came_in, places, "{order:?}");
    }
}

#[test]
fn the_shortest_answer_first_event_by_event() {
    let served = serve(QueueOrder::ShortestOutput).requests;
    let expected = [
        [0.0, 0.0, 14.0, 14.0],
        [1.0, 32.0, 54.0, 65.0],
        [2.0, 140.0, 154.0, 242.0],
        [3.0, 14.0, 32.0, 32.0],
        [4.0, 65.0, 85.0, 140.0],
    ];
    for (i, times) in expected.into_iter().enumerate() {
        assert_eq!(served[i], finished(times, 0, 0, 0), "request {i}");
    }
}

#[test]
fn two_sequences_do_not_take_each_others_blocks_for_ever() {
    let turns = [
        (0, 0, 0, 0),
        (0, 2, 0, 6),
        (0, 0, 0, 6),
        (37, 3, 8, 2),
        (2, 0, 6, 0),
        (38, 3, 13, 8),
        (0, 2, 29, 0),
        (0, 1, 19, 3),
        (0, 2, 2, 9),
        (46, 2, 7, 8),
        (12, 3, 2, 5),
        (7, 2, 2, 8),
        (0, 0, 5, 2),
        (0, 0, 18, 0),
        (0, 0, 0, 0),
        (0, 0, 0, 0),
        (0, 0, 0, 0),
        (0, 1, 0, 9),
    ];
    let options = ServerOptions {
        max_num_seqs: 4,
        max_num_batched_tokens: 4,
        long_prefill_token_threshold: 1,
        order: QueueOrder::LongestOutput,
        preemption_order: PreemptionOrder::LongestFirst,
        load: 1.294,
        cache_generated: false,
        ..ServerOptions::default()
    };
    let served = by_hand::serve(&rows(&turns), (11, None), &options).requests;
    // One of them is longer than the pool.
    assert!(served.iter().all(|record| matches!(record.fate, Fate::Finished | Fate::Rejected)));
    assert!(served.iter().any(|record| record.preemptions > 0));
}
