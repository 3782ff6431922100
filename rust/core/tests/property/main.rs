//! Random operations under every policy: after each, all invariants hold and every page a sequence
//! can read holds exactly its tokens.
//!
//! A failure prints the seed and the last operations; `KVFRAME_SEED=n cargo test --test property`
//! runs that one seed alone, `KVFRAME_RUNS=n` more or fewer of them, `KVFRAME_FROM=n` others.

mod alone;
mod scripts;

#[path = "../common/mod.rs"]
mod common;
#[path = "../model/mod.rs"]
mod model;

use model::dice::{Dice, runs};
use model::seen::Seen;
use model::{Run, options, policies};

/// Runs a policy, where `KVFRAME_RUNS` does not say otherwise.
const RUNS: u64 = 40;
const STEPS: usize = 250;
/// Seeds of one policy.
const SERIES: u64 = 1_000_000;

fn drive(policy: &str, seed: u64) -> Seen {
    let mut dice = Dice::new(seed);
    let options = options(&mut dice);
    let mut run = Run::new(options, policy, seed, dice);
    for _ in 0..STEPS {
        run.one();
    }
    run.finish();
    run.w.seen
}

#[test]
fn random_operations_under_every_policy() {
    let number = |name| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    if let Some(seed) = number("KVFRAME_SEED") {
        let at = (seed / SERIES) as usize;
        drive(policies()[at % policies().len()], seed);
        return;
    }
    let (runs, from) = (runs(RUNS), number("KVFRAME_FROM").unwrap_or(0));
    let seen = std::thread::scope(|scope| {
        let one = |(at, policy)| {
            // The policy's number is part of the seed, so that one number repeats a failure.
            let seed = move |i| at as u64 * SERIES + (from + i) % SERIES;
            let all = move || (0..runs).map(|i| drive(policy, seed(i))).sum::<Seen>();
            scope.spawn(all)
        };
        let threads: Vec<_> = policies().into_iter().enumerate().map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("sound")).sum::<Seen>()
    });
    assert!(runs < RUNS || seen.is_enough(), "hardly ever: {seen:?}");
}
