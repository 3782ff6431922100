//! Fewest hits a token of the prefix first: what a leaf's whole chain has brought for the room it
//! takes (proposed as HPT in `SGLang` #30300).

use crate::policy::adapters::scored::{Formula, Past};

/// Hits by blocks up to the leaf, then recency.
#[derive(Debug, Default)]
pub struct Hpt;

impl Formula for Hpt {
    const NAME: &'static str = "hpt";

    fn key(&self, past: &Past) -> (u32, u64) {
        let density = f64::from(past.uses - 1) / (f64::from(past.depth) + 1.0);
        // Bits of floats that are not negative are in their order.
        ((density as f32).to_bits(), past.last)
    }
}
