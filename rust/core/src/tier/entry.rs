//! Whether pages enter a tier: what its admission policy is asked, and what its answer lets in.

use super::{OrderedKeys, RequestInfo};
use crate::hash::Key;
use crate::policy::admission::{Occasion, Offer, OfferRow, Verdict};

/// Keys whose uses are counted, at most; those used longest ago are forgotten.
const REMEMBERED: usize = 1 << 16;

/// How often requests used which pages.
#[derive(Debug, Clone, Default)]
pub struct PageUses {
    counts: OrderedKeys<u32>,
}

impl PageUses {
    /// A request found these pages. That they were computed, once, counts as a use.
    pub fn count(&mut self, found: &[Key]) {
        for &key in found {
            let before = self.counts.remove(&key).unwrap_or(1);
            self.counts.set(key, before.saturating_add(1));
        }
        while self.counts.len() > REMEMBERED {
            self.counts.pop_first();
        }
    }

    /// Uses of each page; 0 for one that was computed just now.
    pub fn of(&self, keys: &[Key]) -> Vec<u32> {
        keys.iter().map(|key| self.counts.get(key).copied().unwrap_or(0)).collect()
    }
}

/// The occasion on which pages with such uses enter a tier while the tier above keeps them.
pub fn occasion_of(uses: &[u32]) -> Occasion {
    if uses.first().is_some_and(|&uses| uses > 0) { Occasion::Used } else { Occasion::Computed }
}

/// What a tier's admission policy is asked: the pages `keys`, which begin at the place `start` of their
/// prefix, have `block_size` tokens and were used so often in the tier above.
pub fn offer_pages(
    keys: &[Key],
    (start, block_size): (u32, u32),
    uses: &[u32],
    known: RequestInfo<'_>,
) -> Offer {
    let mut offer = Offer::default();
    for (i, &key) in keys.iter().enumerate() {
        offer.push(OfferRow {
            key,
            next: keys.get(i + 1).copied().unwrap_or(Key(0)),
            depth: start + i as u32,
            span: block_size,
            group: 0,
            state: false,
            reach: known.tokens,
            prompt: known.tokens,
            uses: uses.get(i).copied().unwrap_or(0),
            meta: known.meta,
        });
    }
    offer
}

/// How many of the pages that were offered enter or pass through the tier: a tier has the beginning of
/// a prefix, so after one that is dropped none does.
pub fn let_in(verdicts: &[Verdict]) -> u32 {
    verdicts.iter().take_while(|&&verdict| verdict != Verdict::Drop).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_found_page_was_computed_once_and_used_once() {
        let mut uses = PageUses::default();
        uses.count(&[Key(1), Key(2)]);
        uses.count(&[Key(1)]);
        assert_eq!(uses.of(&[Key(1), Key(2), Key(3)]), [3, 2, 0]);
        assert_eq!(occasion_of(&uses.of(&[Key(3), Key(1)])), Occasion::Computed);
        assert_eq!(occasion_of(&uses.of(&[Key(1), Key(3)])), Occasion::Used);
    }

    #[test]
    fn the_page_used_longest_ago_is_forgotten_first() {
        let mut uses = PageUses::default();
        let keys: Vec<Key> = (0..=REMEMBERED as u128).map(Key).collect();
        uses.count(&keys[..2]);
        uses.count(&keys[..1]);
        uses.count(&keys[2..]);
        assert_eq!(uses.of(&keys[..3]), [3, 0, 2]);
    }

    #[test]
    fn nothing_enters_behind_what_is_dropped() {
        use Verdict::{Drop, Keep, Lower};
        assert_eq!(let_in(&[Keep, Lower, Drop, Keep]), 2);
        assert_eq!(let_in(&[]), 0);
    }
}
