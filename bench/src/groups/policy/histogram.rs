//! What does it cost to count a run time, and to read a quantile off what was counted?
//!
//! Run times lie anywhere from 64 ns to 67 ms, each octave as often as another. `policy-histogram-record`
//! counts one after the other. `policy-histogram-quantile` reads p50, p90, p95, p99 and p999: one by one, or
//! all five in one pass, which is then divided by five. Peer and baseline: `hdrhistogram` with two digits,
//! which is as exact as ours (1 %), for values up to an hour; ours holds any. Limit: finding the bucket and
//! counting it, without the sum and the extremes.
//!
//! Not here: the counters of a pool's workers, which are shared (`pool/`).

use super::{Stopwatch, check_repeated};
use crate::groups::measured;
use crate::measure::{Contestant, Group, Round, ns_per_item};
use hdrhistogram::Histogram as Hdr;
use millpond_policy::affinity::mix;
use millpond_policy::histogram::{BUCKETS, Histogram, bucket_of};
use std::hint::black_box;

/// How many different run times there are; they fit into the first cache with most of the counts.
const VALUES: usize = 1024;
const OCTAVES: u64 = 20;
const HOUR_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 2;
/// Of 10,000.
const SHARES: [u32; 5] = [5_000, 9_000, 9_500, 9_900, 9_990];

pub(super) fn groups() -> Vec<Group> {
    let recorders = vec![
        Contestant::new("millpond", |round| {
            let mut histogram = Histogram::new();
            let figure = record(round, |value| histogram.record(value))?;
            check(histogram.count(), round, |share| histogram.quantile(share).unwrap_or(0))?;
            Ok(figure)
        }),
        Contestant::new("hdrhistogram", |round| {
            let mut histogram = hdr();
            let figure = record(round, |value| histogram.saturating_record(value))?;
            check(histogram.len(), round, |share| histogram.value_at_quantile(fraction(share)))?;
            Ok(figure)
        }),
        Contestant::new("~bucket alone", |round| {
            let mut counts = vec![0_u64; BUCKETS];
            let figure = record(round, |value| counts[bucket_of(value)] += 1)?;
            let histogram = Histogram::from_counts(counts, 0, None).map_err(|error| error.to_string())?;
            check(histogram.count(), round, |share| histogram.quantile(share).unwrap_or(0))?;
            Ok(figure)
        }),
    ];
    let readers = vec![
        Contestant::new("millpond", |round| {
            let histogram = filled();
            read(round, || SHARES.map(|share| black_box(&histogram).quantile(share).unwrap_or(0)))
        }),
        Contestant::new("millpond five at once", |round| {
            let histogram = filled();
            read(round, || {
                let found = black_box(&histogram).percentiles();
                [found.p50, found.p90, found.p95, found.p99, found.p999]
            })
        }),
        Contestant::new("hdrhistogram", |round| {
            let histogram = hdr_filled();
            read(round, || SHARES.map(|share| black_box(&histogram).value_at_quantile(fraction(share))))
        }),
        Contestant::new("hdrhistogram five at once", |round| {
            let histogram = hdr_filled();
            read(round, || {
                let mut found = black_box(&histogram).value_at_quantiles(SHARES.map(fraction));
                [(); 5].map(|()| found.next().unwrap_or(0))
            })
        }),
    ];
    vec![
        measured("policy-histogram-record", "counting one run time", "ns/record", recorders),
        measured("policy-histogram-quantile", "reading p50, p90, p95, p99 and p999", "ns/quantile", readers),
    ]
}

/// The run times, in no order.
fn values() -> [u64; VALUES] {
    std::array::from_fn(|index| {
        let drawn = mix(index as u64 + 1);
        (64 + (drawn >> 32) % 64) << (drawn % OCTAVES)
    })
}

fn hdr() -> Hdr<u64> {
    Hdr::new_with_bounds(1, HOUR_NS, DIGITS).expect("the bounds are valid constants")
}

fn filled() -> Histogram {
    let mut histogram = Histogram::new();
    values().into_iter().for_each(|value| histogram.record(value));
    histogram
}

fn hdr_filled() -> Hdr<u64> {
    let mut histogram = hdr();
    values().into_iter().for_each(|value| histogram.saturating_record(value));
    histogram
}

fn fraction(per_10_000: u32) -> f64 {
    f64::from(per_10_000) / 10_000.0
}

/// Every value comes as often as another, so that the quantiles of a round are those of the values.
fn passes(round: &Round) -> u64 {
    (round.items / VALUES as u64).max(1)
}

fn record(round: &Round, mut record: impl FnMut(u64)) -> Result<f64, String> {
    let (values, passes) = (values(), passes(round));
    let start = Stopwatch::start();
    for _ in 0..passes {
        values.iter().for_each(|value| record(*value));
    }
    Ok(ns_per_item(start.elapsed(), passes * VALUES as u64))
}

fn check(count: u64, round: &Round, quantile: impl Fn(u32) -> u64) -> Result<(), String> {
    let recorded = passes(round) * VALUES as u64;
    if count != recorded {
        return Err(format!("{recorded} values were recorded, {count} were counted"));
    }
    check_quantiles(SHARES.map(quantile))
}

/// Fails unless each quantile is within 1 % of the true one.
fn check_quantiles(found: [u64; 5]) -> Result<(), String> {
    let mut sorted = values();
    sorted.sort_unstable();
    for (share, found) in SHARES.into_iter().zip(found) {
        let rank = (u64::from(share) * VALUES as u64).div_ceil(10_000) as usize;
        let exact = sorted[rank - 1];
        if found.abs_diff(exact) * 100 > exact {
            return Err(format!("{share} of 10,000: expected about {exact}, got {found}"));
        }
    }
    Ok(())
}

fn read(round: &Round, five: impl Fn() -> [u64; 5]) -> Result<f64, String> {
    let expected = five();
    check_quantiles(expected)?;
    // A quantile takes about a microsecond, if the buckets are gone through one by one.
    let passes = (round.items / 200).max(1);
    let mut checksum = 0_u64;
    let start = Stopwatch::start();
    for _ in 0..passes {
        checksum = five().into_iter().fold(checksum, u64::wrapping_add);
    }
    let elapsed = start.elapsed();
    check_repeated(expected.iter().sum::<u64>().wrapping_mul(passes), checksum)?;
    Ok(ns_per_item(elapsed, passes * SHARES.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_that_loses_a_value_or_is_off_is_found() {
        let round = Round { items: 20_000, pinned: false };
        let good = filled();
        let quantile = |share| good.quantile(share).unwrap();
        let count = passes(&round) * VALUES as u64;
        check(count, &round, quantile).unwrap();
        assert!(check(count - 1, &round, quantile).unwrap_err().ends_with("were counted"));
        let off = check(count, &round, |share| quantile(share) * 103 / 100).unwrap_err();
        assert!(off.starts_with("5000 of 10,000: expected about "), "{off}");
    }
}
