//! The same operations as scripts that proptest writes, and makes short where one fails.

use kvframe_core::{HashAlgo, Options};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::dice::Dice;
use crate::model::{FEW, Op, VERBS, options, play, policies};

/// Operations of a script at the most, and the scripts that are tried.
const OPERATIONS: usize = 60;
const SCRIPTS: u32 = 200;

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
            let mut options = Options { blocks, reserve, hash, ..built.clone() };
            if blocks < FEW {
                options.tenants.clear();
            }
            play(options, policies()[policy], &script);
        }
    }
}
