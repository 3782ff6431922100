//! Rule 8: keys cover all that KV depends on, and two different prefixes never share.
//!
//! The golden values were computed with Python's hashlib, blake3 and xxhash from the description at
//! the head of `hash.rs`. They are part of every stored or published key: a change of one of them is
//! a change of format.

use kvframe_core::hash::{Hasher, MmItem, Space};
use kvframe_core::{HashAlgo, Key, Manager, Options, Request};

use crate::common::{SIZE, build, found, open, prompt, refused, request, serve, small};

const ALGOS: [HashAlgo; 3] = [HashAlgo::Sha256, HashAlgo::Blake3, HashAlgo::Xxh3];

fn keys(algo: HashAlgo, fingerprint: &[u8], space: Space<'_>, mm_items: &[MmItem]) -> Vec<Key> {
    let hasher = Hasher::new(algo, 4, fingerprint);
    let tokens: Vec<u32> = (1..=12).collect();
    let mut keys = Vec::new();
    hasher.extend(hasher.root(space), mm_items, &tokens, &mut keys);
    keys
}

fn image(start: u32, end: u32, id: &[u8]) -> MmItem {
    MmItem { start, end, id: id.to_vec() }
}

#[test]
fn rule_8_golden_keys() {
    let golden = [
        [
            0xfe95_d71e_4582_6902_e739_0a80_5d1b_994f,
            0xe244_5712_dbcf_5b34_d4a2_d9a6_240e_44da,
            0xbe61_2f09_b144_cb43_5dd5_d35f_b98c_5c8d,
        ],
        [
            0x21b1_7aa2_d512_4933_2951_4024_0b0b_b2d9,
            0xdccc_90a8_32aa_cfdf_55d8_9a2e_bbb1_a8dc,
            0xba97_20cd_e755_141d_d066_561f_0fc1_f74b,
        ],
        [
            0x2d3a_9c53_6b28_d6ed_4650_ad7c_cef9_20c8,
            0xf70b_307a_3a68_66d1_bb37_2b1b_6b4a_7d93,
            0x08eb_bb0a_c147_fe8a_9941_08a2_0f06_a628,
        ],
    ];
    for (algo, golden) in ALGOS.into_iter().zip(golden) {
        assert_eq!(keys(algo, b"", Space::default(), &[]), golden.map(Key), "{}", algo.name());
    }
}

#[test]
fn rule_8_golden_keys_with_everything_in_them() {
    let golden = [
        [
            0xdcf6_7741_9948_f8a0_160c_1e39_ed67_f68e,
            0x4c64_c6f1_4bd0_479f_fdd7_9720_d1b3_e2ea,
            0x9735_9aab_56ef_ed3d_0782_da96_fc6d_68ae,
        ],
        [
            0x5117_e186_e222_fc1c_37c3_7d32_b99a_ef44,
            0xae23_95c0_001f_1fb2_e20d_2038_bf21_1f07,
            0xc62c_453d_c98d_30b3_e9e7_f135_9639_e067,
        ],
        [
            0x67d0_01ef_e95b_a412_ee20_cfdb_ea33_0946,
            0x59cc_44f5_1f54_52e9_2b56_2a52_5286_9df4,
            0x2930_94b2_eb1e_6350_9160_bad6_a2e3_6ec8,
        ],
    ];
    for (algo, golden) in ALGOS.into_iter().zip(golden) {
        let space = Space { cache_salt: b"bc", lora_name: b"a", ..Space::default() };
        let found = keys(algo, b"w1", space, &[image(2, 6, b"img")]);
        assert_eq!(found, golden.map(Key), "{}", algo.name());
    }
}

/// Blocks too large for the stack take another way to the same value.
#[test]
fn rule_8_golden_keys_of_large_blocks() {
    let golden = [
        0xf59e_59fa_3367_53f8_66fa_11e5_7129_3639,
        0x7219_6c9a_edd9_534e_4036_fb37_db32_65b9,
        0xb5e0_6d5e_4191_b6c7_0973_8524_ce38_a865,
    ];
    let tokens: Vec<u32> = (0..200_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    for (algo, golden) in ALGOS.into_iter().zip(golden) {
        let hasher = Hasher::new(algo, 200, b"");
        let mut keys = Vec::new();
        hasher.extend(hasher.root(Space::default()), &[], &tokens, &mut keys);
        assert_eq!(keys, [Key(golden)], "{}", algo.name());
    }
}

// scenario: VT47
/// VT47: going on from any block gives the same keys as hashing anew.
#[test]
fn rule_8_hashing_is_incremental() {
    let tokens: Vec<u32> = (1..=12).collect();
    for algo in ALGOS {
        let hasher = Hasher::new(algo, 4, b"");
        let root = hasher.root(Space::default());
        let mm_items = [image(5, 9, b"x")];
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        hasher.extend(root, &mm_items, &tokens, &mut whole);
        for len in 0..=tokens.len() {
            hasher.extend(root, &mm_items, &tokens[..len], &mut parts);
            assert_eq!(parts, whole[..len / 4]);
        }
    }
}

/// Everything that KV depends on sets keys apart, each in a field of its own (S15, V16).
#[test]
fn rule_8_each_part_of_a_key_counts() {
    let space = |salt, adapter| Space { cache_salt: salt, lora_name: adapter, ..Space::default() };
    let plain = Space::default();
    for algo in ALGOS {
        let all = [
            keys(algo, b"", plain, &[]),
            keys(algo, b"x", plain, &[]),
            keys(algo, b"", space(b"x", b""), &[]),
            keys(algo, b"", space(b"", b"x"), &[]),
            keys(algo, b"", space(b"bc", b"a"), &[]),
            keys(algo, b"", space(b"c", b"ab"), &[]),
            keys(algo, b"", space(b"a", b"bc"), &[]),
            keys(algo, b"", plain, &[image(0, 12, b"x")]),
            keys(algo, b"", plain, &[image(0, 12, b"y")]),
            keys(algo, b"", plain, &[image(1, 12, b"x")]),
            keys(algo, b"", plain, &[image(0, 12, b"x"), image(0, 12, b"y")]),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert!(a.iter().zip(b).all(|(a, b)| a != b), "{}", algo.name());
            }
        }
    }
    let of = |algo| keys(algo, b"", plain, &[]);
    assert_ne!(of(HashAlgo::Sha256), of(HashAlgo::Blake3));
    let other = Hasher::new(HashAlgo::Sha256, 2, b"").root(plain);
    assert_ne!(other, Hasher::new(HashAlgo::Sha256, 4, b"").root(plain), "block size");
}

/// An item changes the block it begins in and all after, none before (VT10).
#[test]
fn rule_8_items_count_from_where_they_lie() {
    let plain = keys(HashAlgo::Sha256, b"", Space::default(), &[]);
    let with =
        |start, end| keys(HashAlgo::Sha256, b"", Space::default(), &[image(start, end, b"i")]);
    let same = |keys: &[Key]| plain.iter().zip(keys).take_while(|(a, b)| a == b).count();
    let cases = [(0, 1, 0), (3, 5, 0), (4, 8, 1), (7, 8, 1), (8, 9, 2), (11, 12, 2), (12, 40, 3)];
    for (start, end, before) in cases {
        assert_eq!(same(&with(start, end)), before, "{start}..{end}");
    }
}

/// Two windows of one item, or the same tokens after another prefix, are other blocks (ST30).
#[test]
fn rule_8_equal_blocks_at_other_places_differ() {
    let mut m = small(16);
    let mm_items = [image(0, 8, b"i")];
    let tokens = prompt(&[1, 1, 1]);
    let found = m.keys(&tokens, Space::default(), &mm_items);
    assert_ne!(found[0], found[1]);
    assert_ne!(found[1], found[2]);
    serve(&mut m, &prompt(&[1, 5]));
    assert_eq!(crate::common::found(&m, &open(&[2, 5])), 0, "T30: the parent counts");
}

#[test]
fn rule_8_namespaces_do_not_share_blocks() {
    let spaces: [(&[u8], &[u8]); 5] =
        [(b"", b""), (b"x", b""), (b"", b"x"), (b"bc", b"a"), (b"c", b"ab")];
    for algo in ALGOS {
        let options = Options { blocks: 64, block_size: SIZE, hash: algo, ..Options::default() };
        let mut m = build(options, "lru");
        let tokens = open(&[1, 2]);
        for round in 0..2 {
            for (salt, adapter) in spaces {
                let space = Space { cache_salt: salt, lora_name: adapter, ..Space::default() };
                let seq = m.allocate(&request(&tokens).within(space)).unwrap();
                assert_eq!(seq.cached_tokens, round * 8, "{}: {space:?}", algo.name());
                m.commit(seq.seq, 9).unwrap();
                m.release(seq.seq).unwrap();
            }
        }
    }
}

#[test]
fn rule_8_another_image_ends_the_hit() {
    let mut m = small(16);
    let tokens = open(&[1, 2, 3]);
    let hit = |m: &mut Manager, id: &[u8]| {
        let mm_items = [image(5, 7, id)];
        let allocation =
            m.allocate(&Request { mm_items: mm_items.to_vec(), ..request(&tokens) }).unwrap();
        m.commit(allocation.seq, 13).unwrap();
        m.release(allocation.seq).unwrap();
        allocation.cached_tokens
    };
    assert_eq!((hit(&mut m, b"cat"), hit(&mut m, b"dog"), hit(&mut m, b"cat")), (0, 4, 12));
}

fn keyed<'a>(tokens: &'a [u32], keys: &'a [Key]) -> Request {
    Request { tokens: tokens.to_vec(), keys: keys.to_vec(), ..Request::default() }
}

// scenario: V17
/// V17: one key for other tokens, forced by handing in the key: a miss, counted, never wrong KV.
#[test]
fn rule_8_a_collision_is_a_miss() {
    let options =
        Options { blocks: 16, block_size: SIZE, hash: HashAlgo::Xxh3, ..Options::default() };
    let mut m = build(options, "lru");
    let (a, b, key) = (open(&[1]), open(&[2]), [Key(42)]);
    let first = m.allocate(&keyed(&a, &key)).unwrap();
    m.commit(first.seq, 5).unwrap();
    assert_eq!(m.stats().collisions, 0);
    let allocation = m.allocate(&keyed(&a, &key)).unwrap();
    assert_eq!(allocation.cached_tokens, 4, "the same tokens are found");
    let allocation = m.allocate(&keyed(&b, &key)).unwrap();
    assert_eq!((allocation.cached_tokens, m.stats().collisions), (0, 1));
    // Its own block stays private, and nothing after it is published either.
    let done = m.commit(allocation.seq, 5).unwrap();
    assert_eq!((done.stored, m.stats().collisions), (0, 2));
    m.append(allocation.seq, &prompt(&[7])).unwrap();
    assert_eq!(m.commit(allocation.seq, 9).unwrap().stored, 0);
    m.release(allocation.seq).unwrap();
    assert_eq!(m.allocate(&keyed(&a, &key)).unwrap().cached_tokens, 4);
    m.check_integrity().unwrap();
}

/// The same tokens after another link are told apart too.
#[test]
fn rule_8_a_collision_of_links_is_a_miss() {
    let options =
        Options { blocks: 16, block_size: SIZE, hash: HashAlgo::Xxh3, ..Options::default() };
    let mut m = build(options, "lru");
    let (tokens, key) = (open(&[1]), [Key(42)]);
    let first = m.allocate(&keyed(&tokens, &key)).unwrap();
    m.commit(first.seq, 5).unwrap();
    let salted = Request { cache_salt: b"s".to_vec(), ..keyed(&tokens, &key) };
    assert_eq!(m.allocate(&salted).unwrap().cached_tokens, 0);
    assert_eq!(m.stats().collisions, 1);
}

#[test]
fn rule_8_keys_alone_serve_engines_that_hash_themselves() {
    for algo in ALGOS {
        let options = Options { blocks: 8, block_size: SIZE, hash: algo, ..Options::default() };
        let mut m = build(options, "lru");
        let request = Request::of_keys(&[Key(1), Key(2)], 9);
        let a = m.allocate(&request).unwrap();
        m.commit(a.seq, 9).unwrap();
        let error = refused(&mut m, &[a.seq], |m| m.append(a.seq, &[1]));
        assert!(matches!(error, kvframe_core::Error::Invalid { what: "append", .. }), "{error}");
        m.release(a.seq).unwrap();
        assert_eq!(m.allocate(&request).unwrap().cached_tokens, 8, "{}", algo.name());
        assert_eq!(found(&m, &open(&[1, 2])), 0);
    }
}

/// An engine that hashes for itself knows the key of a block once its tokens are there: a sequence that
/// came as keys grows, is committed and found as one that came as tokens.
#[test]
fn rule_8_keys_that_come_later_find_what_tokens_find() {
    let options = || Options { blocks: 9, block_size: SIZE, ..Options::default() };
    for policy in ["lru", "lfu", "arc"] {
        let (mut by_tokens, mut by_keys) = (build(options(), policy), build(options(), policy));
        for round in 0..60_u32 {
            let (family, turn) = (round * 7 % 5, round * 3 % 4);
            let tokens = prompt(&[family, family + turn, 8]);
            let keys = by_tokens.keys(&tokens, Space::default(), &[]);
            let a = by_tokens.allocate(&request(&tokens)).unwrap();
            // The last key of the prompt comes with the commit.
            let b = by_keys.allocate(&Request::of_keys(&keys[..2], 3 * SIZE)).unwrap();
            assert_eq!(a.cached_tokens, b.cached_tokens, "{policy}, round {round}");
            by_tokens.commit(a.seq, 3 * SIZE).unwrap();
            by_keys.advance(b.seq, 3 * SIZE, &keys[2..], 3 * SIZE).unwrap();
            by_keys.commit(b.seq, 3 * SIZE).unwrap();
            for answer in 1..=turn {
                let until = (3 + answer) * SIZE;
                let all: Vec<u32> =
                    tokens.iter().copied().chain(prompt(&vec![20; answer as usize])).collect();
                by_tokens.append(a.seq, &prompt(&[20])).unwrap();
                by_tokens.commit(a.seq, until).unwrap();
                let keys = by_tokens.keys(&all, Space::default(), &[]);
                by_keys.advance(b.seq, until, &keys[2 + answer as usize..], until).unwrap();
                by_keys.commit(b.seq, until).unwrap();
            }
            let table = |m: &Manager, seq| m.sequence(seq).unwrap().tables[0].to_vec();
            assert_eq!(table(&by_tokens, a.seq), table(&by_keys, b.seq), "{policy}, round {round}");
            by_tokens.release(a.seq).unwrap();
            by_keys.release(b.seq).unwrap();
            assert_eq!(by_tokens.eviction_order(u32::MAX), by_keys.eviction_order(u32::MAX));
            by_keys.check_integrity().unwrap();
        }
        assert!(by_keys.stats().evictions > 20, "{policy}");
    }
}

/// What is wrong with a call is said before anything moves.
#[test]
fn rule_8_keys_are_those_of_full_blocks() {
    let mut m = build(Options { blocks: 4, block_size: SIZE, ..Options::default() }, "lru");
    let seq = m.allocate(&Request::of_keys(&[], 6)).unwrap().seq;
    let mut refused = |until, keys: &[Key], upto| {
        refused(&mut m, &[seq], |m| m.advance(seq, until, keys, upto)).to_string()
    };
    let many = refused(8, &[Key(1), Key(2), Key(3)], 0);
    assert!(many.contains("2 full blocks"), "{many}");
    assert!(refused(8, &[], 9).contains('9'), "past its slots");
    assert!(refused(12, &[Key(1)], 12).contains("only the ids of 6 tokens are known"));
    assert!(refused(40, &[Key(1)], 4).contains("10"), "no room");
    m.advance(seq, 8, &[Key(1), Key(2)], 8).unwrap();
    assert_eq!(m.commit(seq, 8).unwrap().stored, 2);
    let other = m.allocate(&request(&[1, 2])).unwrap().seq;
    let error = m.advance(other, 8, &[Key(3)], 0).unwrap_err().to_string();
    assert!(error.contains("came as tokens"), "{error}");
}

#[test]
fn rule_8_hashes_are_chosen_by_name() {
    for algo in ALGOS {
        assert_eq!(HashAlgo::from_name(algo.name()), Ok(algo));
    }
    let error = HashAlgo::from_name("md5").unwrap_err().to_string();
    assert_eq!(error, "hash \"md5\" is unknown; there are sha256, blake3, xxh3-128");
    assert_eq!(ALGOS.map(HashAlgo::is_cryptographic), [true, true, false]);
}
