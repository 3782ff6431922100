//! Blocks of which both the pool and host memory have a copy, worked out by hand: which go first, and what a hit makes
//! recent. Blocks of 4 tokens, steps of 10 s and 1 s a token; a page takes 2 s up, and every transfer 1 s besides.
#![allow(clippy::float_cmp)] // sums of whole seconds

mod common;

use common::by_hand::{below, finished, serve};
use kvframe_server::tiers::options::{HitRefresh, TierSet};
use kvframe_server::{ServerOptions, ServerReport};

fn rows(prompts: &[(u32, &[u32])]) -> String {
    let row = |(i, (tokens, ids)): (usize, &(u32, &[u32]))| {
        let at = i * 100_000;
        format!(
            "{{\"timestamp\": {at}, \"input_length\": {tokens}, \"output_length\": 1, \"hash_ids\": {ids:?}}}\n"
        )
    };
    prompts.iter().enumerate().map(row).collect()
}

fn served(
    prompts: &[(u32, &[u32])],
    (blocks, pages): (u32, u32),
    set: impl FnOnce(&mut TierSet),
) -> ServerReport {
    let tiers = below(&[("write-through", pages, (5.0, 10.0))], set);
    serve(&rows(prompts), (blocks, Some(tiers)), &ServerOptions::default())
}

/// A pool of 6, host memory of 2. At 0, r0 computes `a`, `b`, and at 100 r1 `c`, `d`, whose pages take the place of
/// those of `a`, `b`. At 200, r2 needs three blocks more than are free: `b`, `a` and `d` by the policy alone, or else
/// `d` and `c`, which host memory has, and `b`. At 300, r3 begins with `a`, `b`: 10 tokens in 20 s, or 6 in 16 s.
#[test]
fn blocks_with_a_copy_below_go_first() {
    let prompts: [(u32, &[u32]); 4] =
        [(10, &[1, 2]), (10, &[3, 4]), (18, &[5, 6, 7, 8]), (10, &[1, 2])];
    for (backed_first, cached, end) in [(false, 0, 320.0), (true, 4, 316.0)] {
        let report = served(&prompts, (6, 2), |set| set.evict_backed_first = backed_first);
        let expected = finished([300.0, 300.0, end, end], cached, 0, 0);
        assert_eq!(report.requests[3], expected, "{backed_first}");
    }
}

/// A pool of 6, host memory of 8, which has all. At 100, r1 finds `a`, `b`, and needs three blocks more than are free,
/// of `d`, `c` and its own two: its own stay.
#[test]
fn what_a_request_has_found_does_not_make_room_for_it() {
    let prompts: [(u32, &[u32]); 3] = [(10, &[1, 2]), (10, &[3, 4]), (24, &[1, 2, 5, 6, 7, 8])];
    let report = served(&prompts, (6, 8), |set| set.evict_backed_first = true);
    assert_eq!(report.requests[2], finished([200.0, 200.0, 226.0, 226.0], 8, 0, 0));
}

/// A pool of 4, host memory of 4. After r0 and r1 host memory has `a`, `b`, `c`, `d`, and the pool lacks `b`. At 200, r2
/// finds `a` in the pool. At 300, r3 writes two pages, in place of `b` and the older of `a` and `d`, and `d`, `c` leave
/// the pool. At 400, r4 asks for `c`, `d`: one page until 403 and 6 tokens in 16 s, or two until 405 and 2 in 12 s.
#[test]
fn a_hit_in_the_pool_is_a_use_of_the_page_or_not() {
    let prompts: [(u32, &[u32]); 5] =
        [(10, &[1, 2]), (10, &[3, 4]), (6, &[1]), (10, &[5, 6]), (10, &[3, 4])];
    for (refresh, pages, end) in [(HitRefresh::FirstTier, 1, 419.0), (HitRefresh::None, 2, 417.0)] {
        let report = served(&prompts, (4, 4), |set| set.hit_refresh = refresh);
        assert_eq!(report.requests[4], finished([400.0, 400.0, end, end], 0, 0, 0), "{refresh:?}");
        assert_eq!(report.tiers.unwrap().loaded[0][4], pages * 4, "{refresh:?}");
    }
}
