//! The radix index and fixed slots, each beside its model, under calls that the input chooses.
#![no_main]

use libfuzzer_sys::fuzz_target;

use dice::Dice;

#[allow(dead_code)]
#[path = "../../core/tests/model/dice.rs"]
mod dice;

// As the tests have them: modules that look for each other at the root of the crate.
#[allow(dead_code)]
#[path = "../../core/tests/slots/engine.rs"]
mod engine;
#[allow(dead_code)]
#[path = "../../core/tests/radix/fuzz.rs"]
mod fuzz;
#[allow(dead_code)]
#[path = "../../core/tests/radix/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../../core/tests/radix/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../../core/tests/slots/walk.rs"]
mod walk;

/// Calls of one input, at the most.
const MOST: usize = 400;

fuzz_target!(|tape: Vec<u16>| {
    let steps = tape.len().min(MOST);
    let mut dice = Dice::Tape(tape);
    if dice.one_in(2) {
        let mut walk = fuzz::Walk::new(dice);
        for _ in 0..steps {
            walk.step();
            walk.check();
        }
        walk.end();
    } else {
        let mut walk = walk::Walk::new(dice);
        for _ in 0..steps {
            walk.step();
        }
    }
});
