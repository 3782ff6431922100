//! Times between tokens, in bounded memory.

/// Entries that are kept, 16 bytes each. Up to so many, every one is exact.
const MOST: usize = 1 << 20;

/// Bits of a time that are kept once there are more: it is off by a part in 8,192 at most.
const KEPT_BITS: u32 = 12;

/// `count` tokens came `seconds` after the one before.
pub(crate) fn note(gaps: &mut Vec<(f64, u32)>, seconds: f64, count: u32) {
    if gaps.len() >= MOST {
        fold(gaps, |seconds| seconds);
        if gaps.len() > MOST / 2 {
            fold(gaps, rounded);
        }
    }
    gaps.push((seconds, count));
}

/// One entry for all times that `of` makes equal, in the order of time.
fn fold(gaps: &mut Vec<(f64, u32)>, of: impl Fn(f64) -> f64) {
    for gap in gaps.iter_mut() {
        gap.0 = of(gap.0);
    }
    gaps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    gaps.dedup_by(|next, kept| {
        let sum = kept.1.checked_add(next.1).filter(|_| next.0.to_bits() == kept.0.to_bits());
        kept.1 = sum.unwrap_or(kept.1);
        sum.is_some()
    });
}

/// To the nearest number with so few bits.
fn rounded(seconds: f64) -> f64 {
    let dropped = f64::MANTISSA_DIGITS - 1 - KEPT_BITS;
    let half = 1u64 << (dropped - 1);
    f64::from_bits((seconds.to_bits() + half) >> dropped << dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_equal_times_stay_exact() {
        let mut gaps = Vec::new();
        for i in 0..3 * MOST {
            note(&mut gaps, [0.1, 0.2, 0.30001][i % 3], 2);
        }
        assert!(gaps.len() <= MOST + 1);
        for of in [0.1f64, 0.2, 0.30001] {
            let same = gaps.iter().filter(|gap| gap.0.to_bits() == of.to_bits());
            assert_eq!(same.map(|gap| gap.1 as usize).sum::<usize>(), 2 * MOST);
        }
    }

    #[test]
    fn many_different_times_are_rounded_and_none_is_lost() {
        let mut gaps = Vec::new();
        let time = |i: usize| 1e-4 * 1.000_01f64.powi(i as i32 % 1_500_000);
        (0..2 * MOST).for_each(|i| note(&mut gaps, time(i), 1));
        assert!(gaps.len() <= MOST + 1);
        assert_eq!(gaps.iter().map(|gap| gap.1 as usize).sum::<usize>(), 2 * MOST);
        for seconds in [1e-4, 0.012_345, 7.0, 1e5] {
            assert!((rounded(seconds) / seconds - 1.0).abs() <= 1.0 / 8_192.0);
        }
        let mean = |all: &mut dyn Iterator<Item = f64>| all.sum::<f64>() / (2 * MOST) as f64;
        let exact = mean(&mut (0..2 * MOST).map(time));
        let kept = mean(&mut gaps.iter().map(|gap| gap.0 * f64::from(gap.1)));
        assert!((kept / exact - 1.0).abs() < 1e-5);
    }
}
