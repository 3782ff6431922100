//! Fixed slots: by hand, and random calls with the KV that an engine would have in them.

#[allow(dead_code)]
#[path = "../model/dice.rs"]
mod dice;
mod engine;
mod rows;
mod walk;
