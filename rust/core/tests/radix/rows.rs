//! The tree by hand.

use std::time::{Duration, Instant};

use kvframe_core::Key;
use kvframe_core::hash::{HashAlgo, Hasher, Space};
use kvframe_core::index::radix::{Partial, Path, Radix};

use crate::harness::{HERE, Harness, THERE, path};

// scenario: ST1, ST6
#[test]
fn a_lookup_gives_the_blocks_in_order_as_far_as_they_are_there() {
    let mut h = Harness::new(16, 2);
    let (blocks, _) = h.store(path(&[1, 2, 3, 4, 5, 6]), true);
    assert_eq!(h.find(path(&[1, 2, 3, 4, 5, 6, 7])), blocks);
    assert_eq!(h.find(path(&[1, 2, 3, 4])), blocks[..2]);
    assert_eq!(h.find(path(&[1, 2, 3, 9, 5, 6])), blocks[..1], "the second block differs");
    assert_eq!(h.hit(&[9, 2, 3, 4]), 0);
    assert_eq!(h.hit(&[]), 0);
}

// scenario: ST4, ST5
#[test]
fn hits_are_whole_blocks() {
    for (size, want) in [(1, 5), (2, 4), (4, 4), (8, 0)] {
        let mut h = Harness::new(16, size);
        h.store(path(&[1, 2, 3, 4, 5]), true);
        assert_eq!(h.hit(&[1, 2, 3, 4, 5]), want, "blocks of {size}");
        assert_eq!(h.hit(&[1, 2, 3, 4, 5, 6, 7, 8]), want, "blocks of {size}");
    }
}

// scenario: ST2, ST14
#[test]
fn what_is_shared_counts_once() {
    let mut h = Harness::new(16, 1);
    assert_eq!(h.store(path(&[1, 2, 3, 4, 5, 6, 7, 8]), true).1, 0);
    assert_eq!(h.store(path(&[1, 2, 3, 4, 5, 6, 9, 9]), true).1, 6);
    assert_eq!(h.sizes(), (10, 0, 10));
    h.store(path(&[1, 2, 3, 4, 5, 6, 9, 9, 1, 1]), true);
    assert_eq!(h.sizes(), (12, 0, 12));
    h.check();
}

// scenario: S4, ST23, ST25
#[test]
fn a_node_splits_between_blocks_and_only_for_what_is_stored() {
    let mut h = Harness::new(16, 3);
    let (blocks, _) = h.store(path(&[1, 2, 3, 4, 5, 6]), true);
    assert_eq!(h.tree.nodes(), 2, "a top and one node");
    assert_eq!(h.hit(&[1, 2, 3, 4, 9, 9]), 3, "they part in the second block");
    assert_eq!(h.tree.nodes(), 2, "a match splits nothing");
    let (other, _) = h.store(path(&[1, 2, 3, 4, 9, 9]), true);
    assert_eq!((h.tree.nodes(), other[0]), (4, blocks[0]));
    assert_eq!(h.leaves(), [blocks[1], other[1]], "what both follow is no leaf");
    h.evict(blocks[1]);
    h.evict(other[1]);
    assert_eq!((h.leaves(), h.hit(&[1, 2, 3, 4, 5, 6])), (vec![blocks[0]], 3));
    h.check();
}

#[test]
fn a_leaf_grows_and_is_trimmed_in_place() {
    let mut h = Harness::new(64, 1);
    let tokens: Vec<u32> = (0..40).collect();
    for end in 1..=40 {
        h.store(path(&tokens[..end]), true);
        assert_eq!(h.tree.nodes(), 2);
    }
    for left in (1..40).rev() {
        let leaf = h.leaves();
        assert_eq!(leaf.len(), 1);
        h.evict(leaf[0]);
        assert_eq!(h.hit(&tokens), left);
        h.check();
    }
    h.evict_all();
    assert_eq!((h.tree.nodes(), h.tree.len()), (0, 0));
}

// scenario: ST7, ST8, S15, S16
#[test]
fn namespaces_share_nothing() {
    let mut h = Harness::new(16, 2);
    let hasher = Hasher::new(HashAlgo::Sha256, 2, b"");
    let space = |salt, adapter| Space { cache_salt: salt, lora_name: adapter, ..Space::default() };
    let spaces: [Space<'_>; 5] = [
        Space::default(),
        space(b"a", b"bc"),
        space(b"ab", b"c"),
        space(b"X", b""),
        space(b"", b"X"),
    ];
    for (i, &space) in spaces.iter().enumerate() {
        let path = Path { root: hasher.root(space), tokens: &[1, 2, 3, 4], marks: &[] };
        assert_eq!(h.find(path), [], "nobody else's");
        h.store(path, true);
        assert_eq!(h.tree.namespaces(), i + 1);
    }
    let elsewhere = Path { root: THERE, tokens: &[1, 2, 3, 4], marks: &[] };
    assert_eq!(h.find(elsewhere), []);
    assert_eq!((h.evict_all(), h.tree.namespaces()), (10, 0), "an empty namespace leaves nothing");
}

#[test]
fn extras_part_the_blocks_that_carry_them_and_what_follows() {
    let mut h = Harness::new(16, 2);
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8];
    let with = |marks| Path { root: HERE, tokens: &tokens, marks };
    let (plain, _) = h.store(with(&[]), true);
    let (cat, _) = h.store(with(&[(1, Key(11)), (2, Key(12))]), true);
    let (dog, _) = h.store(with(&[(1, Key(21)), (2, Key(12))]), true);
    assert_eq!(h.find(with(&[])), plain);
    assert_eq!(h.find(with(&[(1, Key(11)), (2, Key(12))])), cat);
    assert_eq!(h.find(with(&[(1, Key(21)), (2, Key(12))])), dog);
    assert_eq!((cat[0], dog[0]), (plain[0], plain[0]), "what comes before is shared");
    assert_eq!(h.find(with(&[(1, Key(11))])), cat[..2]);
    assert_eq!(h.find(with(&[(3, Key(11))])), plain[..3], "the item lies inside a node");
    h.check();
}

// scenario: S8
#[test]
fn copies_stand_beside_each_other_and_go_one_by_one() {
    let mut h = Harness::new(16, 2);
    let (first, _) = h.store(path(&[1, 2, 3, 4]), false);
    let (second, known) = h.store(path(&[1, 2, 3, 4, 5, 6]), false);
    assert_eq!((known, h.sizes()), (2, (5, 0, 5)));
    assert_eq!(h.tree.other_copy(first[1]), Some(second[1]));
    assert_eq!(h.tree.other_copy(second[2]), None);
    h.check();
    h.evict(first[1]);
    h.check();
    assert_eq!(h.find(path(&[1, 2, 3, 4, 5, 6])), [first[0], second[1], second[2]]);
    h.evict(first[0]);
    assert_eq!(h.find(path(&[1, 2, 3, 4, 5, 6])), second);
    h.check();
}

// scenario: ST19
#[test]
fn outputs_can_go_before_the_prompt() {
    let mut h = Harness::new(16, 2);
    let (blocks, _) = h.store(path(&[1, 2, 3, 4, 5, 6, 7, 8]), true);
    h.evict(blocks[3]);
    h.evict(blocks[2]);
    assert_eq!((h.hit(&[1, 2, 3, 4, 5, 6]), h.sizes()), (4, (2, 0, 2)));
}

// scenario: ST11, ST12
#[test]
fn evictions_free_what_they_say() {
    let mut h = Harness::new(16, 2);
    assert_eq!(h.evict_all(), 0, "an empty tree");
    h.store(path(&[1, 2]), true);
    h.store(path(&[3, 4]), true);
    assert_eq!((h.evict_all(), h.pool.free()), (2, 16));
}

#[test]
fn a_hit_may_end_inside_a_block() {
    let mut h = Harness::new(16, 4);
    let (blocks, _) = h.store(path(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]), true);
    let (other, _) = h.store(path(&[1, 2, 3, 4, 5, 6, 0, 0]), true);
    let partial = |tokens: &[u32], until| {
        let found = h.find(path(tokens));
        h.tree.find_partial(path(tokens), &found, until)
    };
    let of = |source, tokens| Some(Partial { source, tokens });
    assert_eq!(partial(&[1, 2, 3, 4, 5, 6, 7, 0], 8), of(blocks[1], 3));
    assert_eq!(partial(&[1, 2, 3, 4, 5, 6, 0, 7], 8), of(other[1], 3));
    assert_eq!(partial(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 0], 10), of(blocks[2], 1));
    assert_eq!(partial(&[1, 2, 0], 3), of(blocks[0], 2), "at the front");
    assert_eq!(partial(&[1, 2, 0], 1), of(blocks[0], 1), "no further than asked");
    assert_eq!(partial(&[1, 2, 3, 4, 0, 6], 6), None);
    assert_eq!(partial(&[1, 2, 3, 4], 4), None, "nothing is left");
    let marked = Path { root: HERE, tokens: &[1, 2, 0], marks: &[(0, Key(3))] };
    assert_eq!(h.tree.find_partial(marked, &[], 3), None, "an item makes the block another");
}

/// How long it takes to take 1,000 of that many siblings out, at best.
fn detaching(siblings: u32) -> Duration {
    let mut h = Harness::new(siblings + 1, 2);
    let tokens = |i: u32| [0, 0, 7, i];
    let blocks: Vec<_> = (0..siblings).map(|i| h.store(path(&tokens(i)), true).0[1]).collect();
    let rounds = blocks.chunks(1_000).take(3).map(|chunk| {
        let start = Instant::now();
        for &block in chunk {
            h.evict(block);
        }
        start.elapsed()
    });
    let best = rounds.min().expect("a round");
    let left = siblings - 1_000 * (siblings / 1_000).min(3);
    h.check();
    assert_eq!((h.hit(&tokens(0)), h.tree.len() as u32), (2, left + 1));
    best
}

#[test]
fn an_edge_leaves_among_100_000_siblings_for_the_same_price() {
    // A walk along the siblings would take 33 times as long, or more; memory farther away takes some.
    let is_flat = (0..10).any(|_| detaching(100_000) < 12 * detaching(3_000));
    assert!(is_flat, "1,000 of 100,000 siblings took 12 times as long as of 3,000 each time");
}

// scenario: ST15
#[test]
fn stored_bytes_are_those_of_the_tokens() {
    let mut h = Harness::new(20_000, 16);
    let mut tokens: Vec<u32> = (0..10_000).collect();
    for i in 0..1_000 {
        tokens.truncate(10_000);
        tokens.extend((0..112).map(|j| i * 112 + j));
        h.store(path(&tokens), true);
    }
    let held = h.tree.len() * 16;
    assert_eq!(held, 10_000 + 1_000 * 112);
    assert!(h.tree.bytes() < 2 * 4 * held + 2 * 4 * held, "{} bytes of {held}", h.tree.bytes());
    h.check();
}

#[test]
fn dumps_show_nodes_below_those_they_follow() {
    let mut h = Harness::new(16, 2);
    h.store(path(&[1, 2, 3, 4, 5, 6]), true);
    let (blocks, _) = h.store(path(&[1, 2, 9, 9]), true);
    h.lock(blocks[1]).unwrap();
    let text = "namespace 00000000000000000000000000000001\n\
                \x20 tokens 0..2: 1 2; blocks 0; 1 of 1 owned\n\
                \x20   tokens 2..6: 3 4; blocks 1 2; 0 of 2 owned\n\
                \x20   tokens 2..4: 9 9; blocks 3; 1 of 1 owned\n";
    assert_eq!(h.tree.text(&h.pool), text);
    let dot = h.tree.dot(&h.pool);
    assert!(dot.starts_with("digraph radix {") && dot.ends_with("}\n"));
    assert_eq!(dot.matches(" -> ").count(), 3);
    assert!(dot.contains("[label=\"9 9\\nblocks 3\\n1 of 1 owned\"]"), "{dot}");
    assert_eq!(Radix::new(2, false).text(&h.pool), "");
}
