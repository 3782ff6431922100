//! What comes from below host memory, worked out by hand: what it fills on its way, and how long it is waited for;
//! links that are shared evenly; and what goes down of what is evicted.
//!
//! Blocks of 4 tokens, a pool of 6, steps of 10 s and 1 s a token. Host memory has 4 pages, each 1 s down and 2 s up;
//! stores below have more, 1 s a page either way; every transfer takes 1 s besides. All is written through. r0 computes
//! `a`, `b`; at 100, r1 computes `c` to `f`, evicts `b` from the pool, and both from host memory. At 200, r2 finds `a`
//! and lacks `b`:
//!
//! | `fill` | over | `b` is there | the first token |
//! | --- | --- | --- | --- |
//! | host | the disk's link with `a` until 203, host memory's until 206 | 206 | 218 |
//! | buffer | the disk's link alone until 202, host memory's until 205 | 205 | 217 |
//! | direct | the disk's link alone | 202 | 214 |
//!
//! With a third tier, and `a`, `b` there alone, `through` stops at 203 on the disk, at 206 in host memory, and `b`
//! is there at 209. Whoever does not wait computes 6 tokens in 16 s.
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{below, finished, host, serve, try_below};
use kvframe_server::tiers::options::{LinkOptions, PromoteFill, Sharing, StoragePrefetch, TierSet};
use kvframe_server::{Preemption, ServerOptions, ServerReport};

const ROWS: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 100000, "input_length": 18, "output_length": 1, "hash_ids": [3, 4, 5, 6]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
"#;

fn stacked(rows: &str, stores: usize, set: impl FnOnce(&mut TierSet)) -> ServerReport {
    let tiers = [
        ("write-through", 4, (5.0, 10.0)),
        ("write-through", if stores > 1 { 4 } else { 20 }, (10.0, 10.0)),
        ("write-through", 20, (10.0, 10.0)),
    ];
    let options = ServerOptions { max_num_seqs: 1, ..ServerOptions::default() };
    serve(rows, (6, Some(below(&tiers[..=stores], set))), &options)
}

#[test]
fn a_load_fills_what_it_is_told_to() {
    for (fill, stores, first, filled, direct) in [
        (PromoteFill::Host, 1, 218.0, vec![2, 0], 0),
        (PromoteFill::Through, 1, 218.0, vec![2, 0], 0),
        (PromoteFill::Buffer, 1, 217.0, vec![0, 0], 1),
        (PromoteFill::Direct, 1, 214.0, vec![0, 0], 1),
        (PromoteFill::Host, 2, 218.0, vec![2, 0, 0], 0),
        (PromoteFill::Through, 2, 221.0, vec![2, 2, 0], 0),
        (PromoteFill::Direct, 2, 214.0, vec![0, 0, 0], 1),
    ] {
        let report = stacked(ROWS, stores, |set| set.fill = fill);
        let told = report.tiers.unwrap();
        assert_eq!(report.requests[2], finished([200.0, 200.0, first, first], 4, 0, 0), "{fill:?}");
        let got: Vec<u64> = told.tiers.iter().map(|tier| tier.filled_pages).collect();
        assert_eq!((got, told.direct_pages), (filled, direct), "{fill:?}");
        // The tokens came from the lowest, whatever they passed.
        assert_eq!(told.loaded[stores][2], 4, "{fill:?}");
        // One page from host memory's own link, unless it was passed by.
        let last = if fill == PromoteFill::Direct { 0.0 } else { 10.0 };
        assert_eq!(told.tiers[0].read_bytes, last, "{fill:?}");
    }
}

/// A port of 4 bytes a second that all that comes to the pool crosses besides: 2.5 s for the page, and a latency more.
#[test]
fn what_comes_to_the_pool_crosses_its_port_too() {
    for (port, first) in [(None, 214.0), (Some(4.0), 216.5), (Some(40.0), 215.0)] {
        let report = stacked(ROWS, 1, |set| {
            set.fill = PromoteFill::Direct;
            let sharing = Sharing::Evenly { each: f64::INFINITY };
            set.links.iter_mut().for_each(|link| link.sharing = sharing);
            if let Some(rate) = port {
                set.links.push(LinkOptions { read: rate, write: rate, latency: 1.0, sharing });
                set.tiers.iter_mut().for_each(|tier| tier.options.path = vec![2]);
            }
        });
        assert_eq!(report.requests[2], finished([200.0, 200.0, first, first], 4, 0, 0), "{port:?}");
    }
}

#[test]
fn transfers_that_queue_take_one_link() {
    let made = try_below(&[("always", 4, (5.0, 10.0)), ("always", 4, (5.0, 10.0))], |set| {
        set.tiers[0].options.path = vec![1];
    });
    let refused = made.err().unwrap().to_string();
    assert!(refused.starts_with("link = 0: is of a path of several links"), "{refused}");
}

#[test]
fn a_request_waits_as_long_as_it_is_told_to() {
    for (waits, first, loaded, given_up, filled) in [
        (StoragePrefetch::WaitComplete, 218.0, 4, 0, 2),
        (StoragePrefetch::BestEffort, 216.0, 0, 0, 0),
        // The pages come all the same, at 203.
        (StoragePrefetch::Timeout(1.0), 217.0, 0, 1, 2),
        (StoragePrefetch::Timeout(3.0), 218.0, 4, 0, 2),
    ] {
        let report = stacked(ROWS, 1, |set| set.storage_prefetch = waits);
        let told = report.tiers.unwrap();
        assert_eq!(
            report.requests[2],
            finished([200.0, 200.0, first, first], 4, 0, 0),
            "{waits:?}"
        );
        let got = (told.loaded[1][2], told.given_up, told.tiers[0].filled_pages);
        assert_eq!(got, (loaded, given_up, filled), "{waits:?}");
    }
}

/// Another request runs from 190 to 202, and decodes until 224. With a prefetch, `a` and `b` are in host memory at 205;
/// r2 comes in at 224, loads `b` until 227, and computes for 12 s. Without one it computes 6 tokens.
#[test]
fn what_was_prefetched_in_time_is_taken() {
    let runs = r#"{"timestamp": 190000, "input_length": 2, "output_length": 3, "hash_ids": []}"#;
    let (before, after) = ROWS.split_at(ROWS.rfind(r#"{"timestamp": 200000"#).unwrap());
    let rows = format!("{before}{runs}\n{after}");
    for (prefetch, first, loaded) in [(0, 240.0, 0), (1, 239.0, 4)] {
        let report = stacked(&rows, 1, |set| {
            (set.prefetch, set.storage_prefetch) = (prefetch, StoragePrefetch::BestEffort);
        });
        assert_eq!(report.requests[3], finished([200.0, 224.0, first, first], 4, 0, 0));
        assert_eq!(report.tiers.unwrap().loaded[0][3], loaded);
    }
}

/// Two requests load two pages each from 200 on, 20 bytes at 5 bytes a second. In turn they are there at 205 and 209,
/// and the second is in the next step; evenly both are there at 209. One that takes 2 bytes a second at most has its
/// pages at 211.
#[test]
fn transfers_queue_or_share_their_link() {
    const TWO: &str = r#"{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 50000, "input_length": 10, "output_length": 1, "hash_ids": [3, 4]}
{"timestamp": 100000, "input_length": 18, "output_length": 1, "hash_ids": [5, 6, 7, 8]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [1, 2]}
{"timestamp": 200000, "input_length": 10, "output_length": 1, "hash_ids": [3, 4]}
"#;
    for (sharing, first, second) in [
        (Sharing::InTurn, 217.0, 229.0),
        (Sharing::Evenly { each: f64::INFINITY }, 223.0, 223.0),
        (Sharing::Evenly { each: 2.0 }, 225.0, 225.0),
    ] {
        let tiers = below(&[("write-through", 20, (5.0, 10.0))], |set| {
            set.links[0].sharing = sharing;
        });
        let report = serve(TWO, (6, Some(tiers)), &ServerOptions::default());
        assert_eq!(report.requests[3], finished([200.0, 200.0, first, first], 0, 0, 0));
        assert_eq!(report.requests[4], finished([200.0, 200.0, second, second], 0, 0, 0));
        let host = report.tiers.unwrap().tiers[0];
        assert_eq!((host.read_bytes, host.written_bytes), (40.0, 80.0), "{sharing:?}");
    }
}

/// Under write-back. `a` and `b` are used again: as r1 evicts `b`, both go down until 103. r2 evicts `a` for its
/// room, and has both back at 205. `c` to `e` are not used again: r3 evicts them, which go down until 304, or with
/// `live` not at all.
#[test]
fn what_is_not_used_again_does_not_go_down() {
    let last = r#"{"timestamp": 300000, "input_length": 18, "output_length": 1, "hash_ids": [7, 8, 9, 10]}"#;
    let rows = format!("{ROWS}{last}\n");
    let options = ServerOptions { tell_next_use: true, ..ServerOptions::default() };
    for (live, end, written) in [(false, 332.0, 5), (true, 328.0, 2)] {
        let tiers = below(&[("write-back", 20, (5.0, 10.0))], |set| set.live = live);
        let report = serve(&rows, (6, Some(tiers)), &options);
        assert_eq!(report.requests[1], finished([100.0, 100.0, 131.0, 131.0], 0, 0, 0));
        assert_eq!(report.requests[2], finished([200.0, 200.0, 217.0, 217.0], 0, 0, 0));
        assert_eq!(report.requests[3], finished([300.0, 300.0, end, end], 0, 0, 0));
        let host = report.tiers.unwrap().tiers[0];
        assert_eq!((host.written_pages, host.read_pages), (written, 2), "{live}");
    }
    // Who tells nothing has nothing written.
    let tiers = below(&[("write-back", 20, (5.0, 10.0))], |set| set.live = true);
    let report = serve(ROWS, (6, Some(tiers)), &ServerOptions::default());
    assert_eq!(report.tiers.unwrap().tiers[0].written_pages, 0);
}

/// r0 needs 5 blocks up to its end and r1 needs 4: beside each other only until r0 has its fourth.
const LONG: &str = r#"{"timestamp": 0, "input_length": 7, "output_length": 12, "hash_ids": [1]}
{"timestamp": 0, "input_length": 7, "output_length": 9, "hash_ids": [2]}
"#;

#[test]
fn a_request_comes_in_once_it_fits_to_its_end() {
    let served = |preemption| {
        let options = ServerOptions { preemption, ..ServerOptions::default() };
        serve(LONG, (6, None), &options).requests
    };
    assert!(served(Preemption::Recompute)[1].preemptions > 0);
    // 7 tokens in 17 s, then 11 and 8 steps of 11 s.
    let never = served(Preemption::Never);
    assert_eq!(never[0], finished([0.0, 0.0, 17.0, 138.0], 0, 0, 0));
    assert_eq!(never[1], finished([0.0, 138.0, 155.0, 243.0], 0, 0, 0));
}

/// A prompt of 7 tokens in chunks of 3 takes 13, 13 and 11 s, in which the other's are computed, too.
#[test]
fn a_long_prompt_leaves_room_for_others_in_each_step() {
    let options = ServerOptions { long_prefill_token_threshold: 3, ..ServerOptions::default() };
    let rows: String = LONG.replace("\"output_length\": 12", "\"output_length\": 1");
    let report =
        serve(&rows.replace("\"output_length\": 9", "\"output_length\": 1"), (6, None), &options);
    let both = finished([0.0, 0.0, 16.0 + 16.0 + 12.0, 44.0], 0, 0, 0);
    assert_eq!((report.requests, report.steps), (vec![both, both], 3));
}

/// r0's only whole block of its prompt, and those of its answer, are on their way to host memory, 40 s a page, when r1
/// would take their room: it waits for them.
#[test]
fn what_is_being_copied_is_waited_for() {
    let options = ServerOptions { preemption: Preemption::Never, ..ServerOptions::default() };
    let report = serve(LONG, (6, Some(host("write-through", 20, (5.0, 0.25)))), &options);
    assert!(report.requests.iter().all(|record| record.preemptions == 0));
    let told = report.tiers.unwrap();
    assert_eq!(told.tiers[0].written_bytes, told.tiers[0].written_pages as f64 * 10.0);
    assert!(report.requests[1].start >= 138.0 && report.requests[1].end > 243.0);
}
