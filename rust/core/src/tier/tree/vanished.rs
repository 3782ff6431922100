//! Where evicted nodes ended: a prompt that comes again may be cut otherwise, and the policy is to
//! recognise it all the same.

use std::collections::{HashSet, VecDeque};

use crate::hash::{Key, fold};

/// The most ends that are remembered.
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Vanished {
    ends: HashSet<Key>,
    order: VecDeque<Key>,
}

impl Vanished {
    /// A node that ended there was evicted.
    pub fn add(&mut self, end: Key) {
        if self.ends.insert(end) {
            self.order.push_back(end);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.ends.remove(&oldest);
        }
    }

    /// The last page of `tokens`, which follow `before`, with which a node that was evicted ended.
    pub fn last_of(&mut self, before: Key, tokens: &[i64], page: usize) -> Option<Key> {
        if self.ends.is_empty() {
            return None;
        }
        let mut end = before;
        let mut found = None;
        for page in tokens.chunks(page) {
            end = chain(end, page);
            if self.ends.contains(&end) {
                found = Some(end);
            }
        }
        found
    }
}

/// The key of what follows `before`: token by token, so that a cut in between changes nothing. It is no
/// cryptographic hash, and only tells a policy what it has seen before.
pub(super) fn chain(before: Key, tokens: &[i64]) -> Key {
    let (mut low, mut high) = (before.0 as u64, (before.0 >> 64) as u64);
    for &token in tokens {
        let token = token.cast_unsigned();
        low = fold(low ^ token ^ 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F ^ high);
        high = high.rotate_left(29).wrapping_add(low ^ token);
    }
    Key(u128::from(high) << 64 | u128::from(low))
}
