//! The order of a clock.

use std::cmp::Ordering;

/// Something at a time. Ordered by the time and then by the number, which tells those of one time apart; `what` has no
/// part in the order.
#[derive(Debug, Clone, Copy)]
pub struct ByTime<T = ()> {
    /// When, in seconds.
    pub at: f64,
    /// Which of them.
    pub number: usize,
    /// What is then.
    pub what: T,
}

impl<T> PartialEq for ByTime<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for ByTime<T> {}

impl<T> PartialOrd for ByTime<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for ByTime<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.number.cmp(&other.number))
    }
}

#[cfg(test)]
mod tests {
    use super::ByTime;

    #[test]
    fn the_earlier_comes_first_and_of_one_time_the_lower_number() {
        let mut all = [(2.0, 1, 'c'), (1.0, 7, 'b'), (f64::INFINITY, 0, 'd'), (1.0, 3, 'a')]
            .map(|(at, number, what)| ByTime { at, number, what });
        all.sort();
        assert_eq!(all.map(|one| one.what), ['a', 'b', 'c', 'd']);
    }
}
