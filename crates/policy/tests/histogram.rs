//! The histogram counts as `tests/vectors/histogram.json` says, within the error it promises.
//!
//! The vectors were worked out from the description and sorted values, not from the code.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use millpond_policy::histogram::{
    BOUNDS_DEFAULT, BUCKETS, Histogram, Percentiles, WrongLayout, bounds_from_ms, bucket_of, lower_bound,
    middle, upper_bound,
};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../tests/vectors/histogram.json")).unwrap()
}

/// Numbers from 2^53 on are strings.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn optional(value: &Value) -> Option<u64> {
    (!value.is_null()).then(|| number(value))
}

fn histogram(case: &Value) -> Histogram {
    let mut histogram = Histogram::new();
    for pair in case["values"].as_array().unwrap() {
        histogram.record_n(number(&pair[0]), number(&pair[1]));
    }
    histogram
}

/// The next of a row of numbers that look random (xorshift64*).
fn draw(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

#[test]
fn every_value_has_the_bucket_written() {
    let vectors = vectors();
    assert_eq!(BUCKETS as u64, number(&vectors["buckets_total"]));
    for case in vectors["buckets"].as_array().unwrap() {
        let (value, bucket) = (number(&case["value"]), bucket_of(number(&case["value"])));
        assert_eq!(bucket as u64, number(&case["bucket"]), "{value}");
        assert_eq!(lower_bound(bucket), number(&case["lower"]), "{value}");
        assert_eq!(upper_bound(bucket), number(&case["upper"]), "{value}");
        assert_eq!(middle(bucket), number(&case["middle"]), "{value}");
    }
}

#[test]
fn the_buckets_cover_all_numbers_without_a_gap_and_are_as_narrow_as_promised() {
    assert_eq!(lower_bound(0), 0);
    assert_eq!(upper_bound(BUCKETS - 1), u64::MAX);
    for bucket in 0..BUCKETS {
        let (low, high) = (lower_bound(bucket), upper_bound(bucket));
        assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
        if bucket > 0 {
            assert_eq!(low, upper_bound(bucket - 1) + 1);
        }
        // 0.8 %: 125 times the way from the middle to an end is not more than that end.
        let middle = u128::from(middle(bucket));
        assert!(125 * (middle - u128::from(low)) <= u128::from(low), "bucket {bucket}");
        assert!(125 * (u128::from(high) - middle) <= u128::from(high), "bucket {bucket}");
    }
    assert!(BUCKETS * size_of::<u64>() <= 32 * 1024);
}

#[test]
fn every_vector_is_answered_as_written() {
    for case in vectors()["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let histogram = histogram(case);
        let expect = &case["expect"];
        assert_eq!(histogram.count(), number(&expect["count"]), "{name}");
        assert_eq!(histogram.sum(), number(&expect["sum"]), "{name}");
        assert_eq!(histogram.min(), optional(&expect["min"]), "{name}");
        assert_eq!(histogram.max(), optional(&expect["max"]), "{name}");
        assert_eq!(histogram.mean(), optional(&expect["mean"]), "{name}");
        let [p50, p90, p95, p99, p999] =
            ["p50", "p90", "p95", "p99", "p999"].map(|percentile| number(&expect[percentile]));
        assert_eq!(histogram.percentiles(), Percentiles { p50, p90, p95, p99, p999 }, "{name}");
        let bounds = match case["bounds_ms"].as_array() {
            Some(bounds) => {
                let bounds: Vec<f64> = bounds.iter().map(|bound| bound.as_f64().unwrap()).collect();
                bounds_from_ms(&bounds).unwrap()
            }
            None => BOUNDS_DEFAULT.to_vec(),
        };
        let mut counts = vec![0; bounds.len()];
        histogram.cumulative(&bounds, &mut counts);
        let expected: Vec<u64> = expect["cumulative"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(counts, expected, "{name}");
    }
}

#[test]
fn quantiles_are_within_a_hundredth_of_the_true_ones() {
    let mut state = 42;
    let mut histogram = Histogram::new();
    // From nanoseconds to days, as many in each power of two.
    let mut values: Vec<u64> =
        (0..20_000).map(|_| draw(&mut state)).map(|drawn| drawn >> (16 + drawn % 48)).collect();
    values.iter().for_each(|&value| histogram.record(value));
    values.sort_unstable();
    for share in [0, 1, 10, 100, 1_000, 2_500, 5_000, 9_000, 9_500, 9_900, 9_990, 9_999, 10_000] {
        let rank = (values.len() * share as usize).div_ceil(10_000).max(1);
        let (truth, got) = (values[rank - 1], histogram.quantile(share).unwrap());
        assert!(100 * truth.abs_diff(got) <= truth, "{share} of 10 000: {got} instead of {truth}");
    }
    assert_eq!(histogram.quantile(10_001), histogram.quantile(10_000), "there is no more than all");
    assert_eq!(Histogram::new().quantile(5_000), None);
}

#[test]
fn merging_is_the_same_as_counting_together_and_clearing_as_beginning_anew() {
    for case in vectors()["cases"].as_array().unwrap() {
        let (mut odd, mut even) = (Histogram::new(), Histogram::new());
        for (index, pair) in case["values"].as_array().unwrap().iter().enumerate() {
            let half = if index % 2 == 0 { &mut even } else { &mut odd };
            half.record_n(number(&pair[0]), number(&pair[1]));
        }
        let whole = histogram(case);
        let (mut one, mut other) = (odd.clone(), even.clone());
        one.merge(&even);
        other.merge(&odd);
        assert_eq!(one, whole, "{}", case["name"]);
        assert_eq!(other, whole, "{}", case["name"]);
        one.clear();
        assert_eq!(one, Histogram::new());
    }
}

#[test]
fn counts_kept_elsewhere_give_the_same_histogram() {
    for case in vectors()["cases"].as_array().unwrap() {
        let whole = histogram(case);
        let extremes = whole.min().zip(whole.max());
        let counts = || whole.counts().iter().copied();
        assert_eq!(Histogram::from_counts(counts(), whole.sum(), extremes).unwrap(), whole);
        // Without extremes the outer buckets' bounds stand in, so quantiles are as good as buckets are.
        let rough = Histogram::from_counts(counts(), whole.sum(), None).unwrap();
        assert_eq!((rough.count(), rough.sum()), (whole.count(), whole.sum()));
        assert_eq!(rough.min(), whole.min().map(|min| lower_bound(bucket_of(min))));
        assert_eq!(rough.max(), whole.max().map(|max| upper_bound(bucket_of(max))));
    }
}

#[test]
fn extremes_that_lag_behind_their_counts_are_put_right() {
    let mut counts = vec![0; BUCKETS];
    counts[bucket_of(1_000)] = 1;
    // Another thread has counted the value and not yet its extremes.
    let histogram = Histogram::from_counts(counts, 1_000, Some((u64::MAX, 0))).unwrap();
    let (min, max) = (histogram.min().unwrap(), histogram.max().unwrap());
    assert!(min <= max && bucket_of(min) == bucket_of(1_000) && bucket_of(max) == bucket_of(1_000));
    assert_eq!(bucket_of(histogram.percentiles().p50), bucket_of(1_000));
}

#[test]
fn counts_of_another_layout_are_refused_and_change_nothing() {
    let mut histogram = Histogram::new();
    histogram.record(5);
    let before = histogram.clone();
    for (got, buckets) in [(0, 0), (BUCKETS - 1, BUCKETS - 1), (BUCKETS + 1, BUCKETS + 9)] {
        assert_eq!(histogram.add_counts(vec![1; buckets], 1, None), Err(WrongLayout { got }));
    }
    assert_eq!(histogram, before);
    let text = WrongLayout { got: 12 }.to_string();
    assert_eq!(text, "counts: expected 3776 buckets, got 12; count with bucket_of of this release");
}

#[test]
fn bounds_are_checked_and_converted() {
    for case in vectors()["bounds"].as_array().unwrap() {
        let bounds: Vec<f64> = case["bounds_ms"]
            .as_array()
            .unwrap()
            .iter()
            .map(|bound| bound.as_f64().unwrap_or_else(|| bound.as_str().unwrap().parse().unwrap()))
            .collect();
        match bounds_from_ms(&bounds) {
            Ok(bounds) => {
                let expect: Vec<u64> = case["expect_ns"].as_array().unwrap().iter().map(number).collect();
                assert_eq!(bounds, expect);
            }
            Err(error) => assert_eq!(error.to_string(), case["error"].as_str().unwrap()),
        }
    }
}

#[test]
fn counting_and_asking_allocate_nothing() {
    let (mut histogram, other) = (Histogram::new(), Histogram::new());
    let memory = allocation_counter::measure(|| {
        for value in 0..1_000 {
            histogram.record(value * value);
        }
        histogram.merge(&other);
        histogram.cumulative(&BOUNDS_DEFAULT, &mut [0; 9]);
        assert!(histogram.quantile(9_999).is_some() && histogram.percentiles().p50 > 0);
        histogram.clear();
    });
    assert_eq!(memory.count_total, 0);
}
