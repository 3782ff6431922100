//! Each kind of layer group: what a hit needs, what is given up and when, what is worth finding.

#[path = "../common/mod.rs"]
mod common;
mod gone;
mod helpers;
mod hits;
mod shared;
