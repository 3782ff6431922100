//! The same operations as scripts that proptest writes, and makes short where one fails.

use kvframe_core::{HashAlgo, Options};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::dice::Dice;
use crate::ops::{Run, VERBS};
use crate::{options, policies};

/// An operation, and the choices in it.
type Op = (usize, Vec<u16>);

/// Operations of a script at the most, and the scripts that are tried.
const OPERATIONS: usize = 60;
const SCRIPTS: u32 = 400;

fn script(operations: usize) -> impl Strategy<Value = Vec<Op>> {
    vec((0..VERBS, vec(any::<u16>(), 0..40)), 1..operations)
}

fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("KVFRAME_SCRIPTS").map_or(cases, |n| n.parse().expect("a number"));
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Default::default()
    }
}

fn play(options: Options, policy: &str, script: &[Op]) {
    let mut run = Run::new(options, policy, 0, Dice::Tape(Vec::new()));
    for (verb, choices) in script {
        run.dice = Dice::Tape(choices.iter().rev().copied().collect());
        run.act(*verb);
    }
    // What is left of it has to end somehow: by dice, so that it does.
    run.dice = Dice::new(1);
    run.finish();
}

proptest! {
    #![proptest_config(config(SCRIPTS))]

    // scenario: I1, I2, I3, I4, I5, I7, I8, I9, I13, ST41
    #[test]
    fn scripts_keep_every_rule(
        policy in 0..policies().len(),
        choices in vec(any::<u16>(), 12),
        script in script(OPERATIONS),
    ) {
        play(options(&mut Dice::Tape(choices)), policies()[policy], &script);
    }
}

proptest! {
    #![proptest_config(config(40))]

    /// One script in pools with room for fewer and fewer blocks: so a growth fails at each of its
    /// allocations in turn, and `Run` demands that every refusal leaves all as it was.
    // scenario: I3, CB-B16
    #[test]
    fn a_growth_that_fails_at_any_allocation_changes_nothing(
        policy in 0..policies().len(),
        choices in vec(any::<u16>(), 12),
        script in script(30),
    ) {
        let built = options(&mut Dice::Tape(choices));
        let least = 2 * built.groups.len() as u32;
        for blocks in least..=built.blocks.max(least) {
            let reserve = built.reserve.min((blocks - 1) / 4);
            let hash = HashAlgo::Sha256;
            play(Options { blocks, reserve, hash, ..built.clone() }, policies()[policy], &script);
        }
    }
}
