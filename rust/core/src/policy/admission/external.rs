//! Verdicts of a policy that lives outside the core, made before the operation they are for.
//!
//! The caller gathers what an operation is about to make findable, lets the policy judge it without
//! the lock, and hands the verdicts in. A verdict names a prefix by its key, so it holds whatever
//! happened to blocks and sequences meanwhile. A block without a verdict is kept.

use hashbrown::HashMap;

use super::{Admit, Ask, Offer, Verdict};
use crate::hash::Key;

/// Verdicts for the pending operation, and events not yet delivered to the policy.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// By prefix and group: the verdict, and how many operations under way it is for.
    known: HashMap<(Key, u8), (Verdict, u32)>,
    seen: Vec<Key>,
    /// Whether the policy wants to know what was seen.
    keeps_seen: bool,
}

impl Verdicts {
    /// None yet; what is seen is kept only for a policy that `keeps_seen`.
    pub fn new(keeps_seen: bool) -> Self {
        Self { keeps_seen, ..Self::default() }
    }

    /// What the policy said of the rows of `offer`.
    pub fn enter(&mut self, offer: &Offer, verdicts: &[Verdict]) {
        for ((&key, &group), &verdict) in offer.keys.iter().zip(&offer.groups).zip(verdicts) {
            let entry = self.known.entry((key, group)).or_insert((verdict, 0));
            *entry = (verdict, entry.1 + 1);
        }
    }

    /// The operation that `offer` was gathered for is over.
    pub fn leave(&mut self, offer: &Offer) {
        for (&key, &group) in offer.keys.iter().zip(&offer.groups) {
            if let Some((_, holders)) = self.known.get_mut(&(key, group)) {
                *holders -= 1;
                if *holders == 0 {
                    self.known.remove(&(key, group));
                }
            }
        }
    }

    /// Keys seen since the last call.
    pub fn take_seen(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.seen)
    }

    /// How many keys were seen since the last call.
    pub fn seen_len(&self) -> usize {
        self.seen.len()
    }
}

impl Admit for Verdicts {
    fn name(&self) -> &'static str {
        "external"
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn seen(&mut self, keys: &[Key]) {
        if self.keeps_seen {
            self.seen.extend_from_slice(keys);
        }
    }

    fn admit(&mut self, offer: &Offer, _: Ask, out: &mut [Verdict]) {
        let rows = offer.keys.iter().zip(&offer.groups);
        for ((&key, &group), verdict) in rows.zip(out) {
            *verdict = self.known.get(&(key, group)).map_or(Verdict::Keep, |&(said, _)| said);
        }
    }

    fn external(&mut self) -> Option<&mut Verdicts> {
        Some(self)
    }
}
