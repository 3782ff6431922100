//! The radix index and path locks over a pool, without a manager: by hand and against a naive model.

#[allow(dead_code)]
#[path = "../model/dice.rs"]
mod dice;
mod fuzz;
mod harness;
mod lock_rows;
mod model;
mod rows;
