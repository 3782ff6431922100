//! Each kind of layer group: what a hit needs, what is given up and when, what is worth finding.

#[path = "../common/mod.rs"]
mod common;
#[path = "../model/dice.rs"]
#[allow(dead_code)]
mod dice;
mod gone;
mod helpers;
mod hits;
mod kept;
mod peaks;
mod shared;
