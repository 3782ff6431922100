//! The whole manager by scripts that the input writes, beside the model of the property tests: any
//! policy, options and layer groups, every verb, and the pages under them.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../core/tests/common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../../core/tests/model/mod.rs"]
mod model;

use model::dice::Dice;
use model::{Op, VERBS, options, play, policies};

/// Bytes of an operation: so many always, so that what the fuzzer changes in one moves no other.
const RECORD: usize = 32;

fuzz_target!(|input: &[u8]| {
    let numbers = |bytes: &[u8]| -> Vec<u16> {
        bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
    };
    let mut records = input.chunks(RECORD).map(numbers).filter(|record| !record.is_empty());
    let Some(setup) = records.next() else { return };
    let script: Vec<Op> =
        records.map(|record| (usize::from(record[0]) % VERBS, record[1..].to_vec())).collect();
    let policy = policies()[usize::from(setup[0]) % policies().len()];
    play(options(&mut Dice::Tape(setup[1..].to_vec())), policy, &script);
});
