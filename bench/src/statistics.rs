//! Quantiles, and how far a median may be trusted. Pure.

/// Samples of the bootstrap: enough for two digits of the interval's ends.
const RESAMPLES: usize = 2_000;

/// A seed, not a secret: the same values have the same interval.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// The value that a share `q` (0 to 1) of `values` does not exceed; of an even number of values, no
/// mean is taken. Nothing has no quantile.
///
/// ```
/// use overtake_bench::statistics::quantile;
/// assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
/// assert_eq!(quantile(&[], 0.5), None);
/// ```
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "a quantile of {q}");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * q).round() as usize])
}

/// The value in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The interval in which the median lies with 95 % confidence, by resampling.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut random = SEED;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        values[(random % values.len() as u64) as usize]
    };
    if values.is_empty() {
        return None;
    }
    let medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| median(&values.iter().map(|_| draw()).collect::<Vec<_>>()))
        .collect();
    Some((quantile(&medians, 0.025)?, quantile(&medians, 0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_run_from_the_least_to_the_greatest() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        for q in [0.0, 0.01, 0.5, 0.99, 1.0] {
            assert_eq!(quantile(&values, q), Some(q * 100.0));
        }
    }

    #[test]
    fn nothing_has_no_median_and_no_interval() {
        assert_eq!(median(&[]), None);
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_more_values() {
        let values = |n: u32| -> Vec<f64> { (0..n).map(|i| f64::from(i * 37 % 101)).collect() };
        let width = |n| {
            let (low, high) = median_interval(&values(n)).unwrap();
            let median = median(&values(n)).unwrap();
            assert!(low <= median && median <= high, "{low} {median} {high}");
            high - low
        };
        assert!(width(1010) < width(101) / 2.0);
        assert!(width(101) > 0.0);
    }

    #[test]
    fn equal_values_have_an_interval_of_no_width() {
        assert_eq!(median_interval(&[2.0; 30]), Some((2.0, 2.0)));
    }
}
