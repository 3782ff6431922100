//! Random operations under every policy: after each, all invariants hold and every page a sequence
//! can read holds exactly its tokens.
//!
//! A failure prints the seed and the last operations; `KVFRAME_SEED=n cargo test --test property`
//! runs that one seed alone, `KVFRAME_RUNS=n` more or fewer of them.

mod dice;
mod ops;
mod pages;
mod promises;
mod texts;
mod verbs;
mod world;

#[path = "../common/mod.rs"]
mod common;

use kvframe_core::index::IndexKind;
use kvframe_core::{GroupKind, HashAlgo, Options, policy::NAMES};

use dice::Dice;
use ops::Run;

/// Runs a policy, where `KVFRAME_RUNS` does not say otherwise.
const RUNS: u64 = 200;
const STEPS: usize = 250;
/// Seeds of one policy.
const SERIES: u64 = 1_000_000;

fn window(window: u32) -> GroupKind {
    GroupKind::SlidingWindow { window }
}

fn options(dice: &mut Dice) -> Options {
    let size = dice.pick(&[1, 2, 4]);
    let full = GroupKind::Full;
    let groups = match dice.below(7) {
        0..=2 => vec![full],
        3 => vec![full, full],
        4 => vec![full, window(dice.between(1, 2 * size + 1))],
        5 => vec![window(dice.between(1, 3 * size))],
        _ => vec![full, window(dice.between(1, 4)), window(dice.between(2, 9))],
    };
    let blocks = dice.between(2, 14) * groups.len() as u32;
    let radix = groups.iter().all(|group| *group == full) && dice.one_in(2);
    Options {
        blocks,
        block_size: size,
        groups,
        index: if radix { IndexKind::Radix } else { IndexKind::Hash },
        hash: dice.pick(&[HashAlgo::Sha256, HashAlgo::Blake3, HashAlgo::Xxh3]),
        prefix_caching: !dice.one_in(12),
        null_block: dice.one_in(3),
        event_log: dice.one_in(2),
        reserve: if dice.one_in(4) { dice.between(0, blocks / 4) } else { 0 },
        ..Options::default()
    }
}

/// Every policy there is; the last lives outside the core and is asked for victims.
fn policies() -> Vec<&'static str> {
    NAMES.iter().copied().chain(["external"]).collect()
}

fn drive(policy: &str, seed: u64) {
    let mut dice = Dice::new(seed);
    let options = options(&mut dice);
    let mut run = Run::new(options, policy, seed, dice);
    for _ in 0..STEPS {
        run.one();
    }
    run.finish();
}

#[test]
fn random_operations_under_every_policy() {
    let number = |name| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    if let Some(seed) = number("KVFRAME_SEED") {
        let at = (seed / SERIES) as usize;
        return drive(policies()[at % policies().len()], seed);
    }
    let runs = number("KVFRAME_RUNS").unwrap_or(RUNS);
    std::thread::scope(|scope| {
        for (at, policy) in policies().into_iter().enumerate() {
            // The policy's number is part of the seed, so that one number repeats a failure.
            scope.spawn(move || (0..runs).for_each(|i| drive(policy, at as u64 * SERIES + i)));
        }
    });
}
