//! From which length on a load is faster than computing.

use super::Tiers;
use super::link::Way;
use super::options::BreakEven;
use crate::profile::{StepTime, of_prompt};

/// Lengths beyond this many tokens are not looked at.
const LONGEST: u32 = 1 << 20;

impl Tiers {
    /// Works out from which length on a load from each tier pays, and from which on each loads.
    pub(crate) fn set_break_even(&mut self, times: &dyn StepTime, factor: f64, chunk: u32) {
        for place in 0..self.levels.len() {
            let pays =
                self.break_even(place, &|tokens| factor * compute(times, (0, tokens), chunk));
            self.report.tiers[place].break_even = pays;
            self.least[place] = match self.levels[place].options.break_even {
                BreakEven::Off => 0,
                BreakEven::Auto => pays.unwrap_or(u32::MAX),
                BreakEven::Tokens(least) => least,
            };
        }
    }

    /// The fewest tokens, in whole pages, that come from a tier faster than they are computed.
    fn break_even(&self, place: usize, compute: &dyn Fn(u32) -> f64) -> Option<u32> {
        let size = self.block_size;
        let pays = |pages: u32| self.load_seconds(place, pages) <= compute(pages * size);
        let last = (LONGEST / size).max(1);
        let high = (0..u32::BITS).map(|bit| last.min(1 << bit)).find(|&pages| pays(pages))?;
        // Computing grows faster than loading: once ahead, the load stays ahead.
        let (mut low, mut high) = (high / 2 + 1, high);
        while low < high {
            let middle = low.midpoint(high);
            if pays(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Some(high * size)
    }

    /// Seconds of pages between a tier and the pool or another tier, over free links.
    pub(super) fn seconds(&self, place: usize, (way, pages): (Way, u32), to_pool: bool) -> f64 {
        let level = &self.levels[place];
        let path = self.links.path(level.path(to_pool));
        self.links.net().seconds(&path, way, f64::from(pages) * level.options.page_bytes)
    }

    /// Seconds for pages of a tier to come to the pool over free links.
    pub(super) fn load_seconds(&self, place: usize, pages: u32) -> f64 {
        let hops = self.hops(place);
        let last = hops.last().copied();
        hops.into_iter().map(|hop| self.seconds(hop, (Way::Read, pages), Some(hop) == last)).sum()
    }
}

/// Seconds that the tokens of a prompt from `done` on take beyond the one token that is always computed.
pub(super) fn compute(times: &dyn StepTime, (done, tokens): (u32, u32), chunk: u32) -> f64 {
    let (mut done, mut total) = (done, -of_prompt(times, tokens, 1));
    let tokens = tokens + 1;
    while done < tokens {
        let count = (tokens - done).min(chunk);
        total += of_prompt(times, done, count);
        done += count;
    }
    total
}
