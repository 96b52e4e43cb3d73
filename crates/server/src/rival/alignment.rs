//! Which run here is which run there: the pairs are in order, each run is in one at most, and together they differ least.

use std::cmp::Ordering;

/// The most steps of the search; beyond it, which takes thousands of runs within one tolerance, each run gets the first free
/// one within the tolerance.
const STEPS_MAX: usize = 20_000_000;
/// In a step: the run here has a pair.
const PAIRED: u8 = 1;
/// In a step: the run there before it has none.
const SKIPPED: u8 = 2;

/// A run of both sides or of one, by the index of its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AlignedRun {
    /// Both have it.
    Both { here: usize, there: usize },
    /// Only this side has it.
    Here(usize),
    /// Only the other side has it.
    There(usize),
}

/// Pairs moments in milliseconds, both sorted. Those of a pair differ by at most `tolerance`.
#[must_use]
pub(crate) fn align(here: &[i64], there: &[i64], tolerance: i64) -> Vec<AlignedRun> {
    let window = |at: &i64| {
        let (from, to) = (at.saturating_sub(tolerance), at.saturating_add(tolerance));
        (there.partition_point(|other| *other < from), there.partition_point(|other| *other <= to))
    };
    let windows: Vec<(usize, usize)> = here.iter().map(window).collect();
    let steps: usize = windows.iter().map(|(from, to)| to - from + 1).sum();
    let pairs = match steps <= STEPS_MAX {
        true => cheapest(here, there, &windows, tolerance.saturating_add(2) / 2),
        false => first_free(&windows),
    };
    in_order(here, there, &pairs)
}

/// What was decided of one run here.
struct AlignmentRow {
    /// The first index there that is still open before it.
    base: usize,
    /// The steps, from `base` on.
    steps: Vec<u8>,
    /// The index there behind which everything that ends before the next row is given up.
    origin: usize,
}

/// The pairs for which the sum of their differences, and of `alone` for each run without a pair, is least. So two runs that may
/// be a pair are one, unless others fit better.
fn cheapest(here: &[i64], there: &[i64], windows: &[(usize, usize)], alone: i64) -> Vec<(usize, usize)> {
    let mut rows: Vec<AlignmentRow> = Vec::with_capacity(here.len());
    // The least cost so far, where the runs there before this index are done with.
    let mut base = windows.first().map_or(0, |(from, _)| *from);
    let mut costs: Vec<i64> = vec![0];
    for (n, (_, to)) in windows.iter().enumerate() {
        let width = to - base + 1;
        let mut steps = vec![0_u8; width];
        costs.resize(width, i64::MAX);
        for k in 1..width {
            let skipped = costs[k - 1].saturating_add(alone);
            if skipped < costs[k] {
                (costs[k], steps[k]) = (skipped, SKIPPED);
            }
        }
        let mut next: Vec<i64> = costs.iter().map(|cost| cost.saturating_add(alone)).collect();
        for k in 1..width {
            let paired = costs[k - 1].saturating_add((here[n] - there[base + k - 1]).abs());
            if paired < next[k] {
                next[k] = paired;
                steps[k] |= PAIRED;
            }
        }
        let then = windows.get(n + 1).map_or(there.len(), |(from, _)| *from);
        let (origin, cost) = given_up(&next, base, then, alone);
        rows.push(AlignmentRow { base, steps, origin });
        costs = std::iter::once(cost).chain(next.into_iter().skip((then - base).saturating_add(1))).collect();
        base = then;
    }
    backwards(&rows, there.len())
}

/// Of the states up to an index there, the one from which it costs least to give up the runs in between.
fn given_up(costs: &[i64], base: usize, then: usize, alone: i64) -> (usize, i64) {
    let given = |(k, cost): (usize, &i64)| {
        let left = i64::try_from(then - (base + k)).unwrap_or(i64::MAX);
        (base + k, cost.saturating_add(left.saturating_mul(alone)))
    };
    let all = costs.iter().enumerate().take_while(|(k, _)| base + k <= then).map(given);
    all.min_by_key(|(_, cost)| *cost).unwrap_or((then, i64::MAX))
}

/// Follows the decisions back from the end.
fn backwards(rows: &[AlignmentRow], end: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let (mut at, mut then) = (end, end);
    for (n, row) in rows.iter().enumerate().rev() {
        if at == then {
            at = row.origin;
        }
        let step = |at: usize| row.steps.get(at - row.base).copied().unwrap_or_default();
        if step(at) & PAIRED != 0 {
            at -= 1;
            pairs.push((n, at));
        }
        while step(at) & SKIPPED != 0 {
            at -= 1;
        }
        then = row.base;
    }
    pairs.reverse();
    pairs
}

fn first_free(windows: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut next = 0;
    let pair = |(n, (from, to)): (usize, &(usize, usize))| {
        let there = next.max(*from);
        (there < *to).then(|| {
            next = there + 1;
            (n, there)
        })
    };
    windows.iter().enumerate().filter_map(pair).collect()
}

/// All runs in the order of their moments.
fn in_order(here: &[i64], there: &[i64], pairs: &[(usize, usize)]) -> Vec<AlignedRun> {
    let (mut n, mut k) = (0, 0);
    let mut runs = Vec::with_capacity(here.len() + there.len() - pairs.len());
    let alone = |n: &mut usize, k: &mut usize, (until_here, until_there): (usize, usize)| {
        let mut found = Vec::new();
        while *n < until_here || *k < until_there {
            let is_here = match (*n < until_here, *k < until_there) {
                (true, true) => here[*n].cmp(&there[*k]) != Ordering::Greater,
                (is_here, _) => is_here,
            };
            if is_here {
                found.push(AlignedRun::Here(*n));
                *n += 1;
            } else {
                found.push(AlignedRun::There(*k));
                *k += 1;
            }
        }
        found
    };
    for (one, other) in pairs {
        runs.extend(alone(&mut n, &mut k, (*one, *other)));
        runs.push(AlignedRun::Both { here: *one, there: *other });
        (n, k) = (one + 1, other + 1);
    }
    runs.extend(alone(&mut n, &mut k, (here.len(), there.len())));
    runs
}

#[cfg(test)]
mod tests {
    use super::AlignedRun::{Both, Here, There};
    use super::*;

    fn seconds(list: &[i64]) -> Vec<i64> {
        list.iter().map(|second| second * 1_000).collect()
    }

    fn of(here: &[i64], there: &[i64], tolerance: i64) -> Vec<AlignedRun> {
        align(&seconds(here), &seconds(there), tolerance * 1_000)
    }

    fn both(here: usize, there: usize) -> AlignedRun {
        Both { here, there }
    }

    #[test]
    fn a_doubled_run_there_and_one_that_is_missing_there_are_found() {
        assert_eq!(of(&[], &[], 60), []);
        assert_eq!(of(&[5], &[], 60), [Here(0)]);
        assert_eq!(of(&[], &[5], 60), [There(0)]);
        assert_eq!(of(&[0, 300], &[1, 4, 301], 60), [both(0, 0), There(1), both(1, 2)]);
        assert_eq!(of(&[0, 300, 600], &[1, 601], 60), [both(0, 0), Here(1), both(2, 1)]);
        assert_eq!(of(&[0], &[61], 60), [Here(0), There(0)]);
        assert_eq!(of(&[0], &[60], 60), [both(0, 0)]);
    }

    #[test]
    fn a_missing_run_does_not_shift_the_others_when_the_tolerance_spans_several() {
        let here: Vec<i64> = (0..100).map(|n| n * 10).collect();
        let there: Vec<i64> = here.iter().copied().filter(|at| *at != 330).collect();
        let runs = of(&here, &there, 60);
        assert_eq!(runs.iter().filter(|run| matches!(run, Here(33))).count(), 1, "{runs:?}");
        let is_off = |run: &&AlignedRun| matches!(run, Both { here: n, there: k } if here[*n] != there[*k]);
        assert_eq!(runs.iter().find(is_off), None);
        let runs = of(&there, &here, 60);
        assert_eq!(runs.iter().filter(|run| matches!(run, There(33))).count(), 1, "{runs:?}");
        assert_eq!(runs.len(), 100);
    }

    #[test]
    fn runs_that_are_all_late_are_pairs_all_the_same() {
        let here: Vec<i64> = (0..50).map(|n| n * 10).collect();
        let there: Vec<i64> = here.iter().map(|at| at + 4).collect();
        assert!(of(&here, &there, 60).iter().all(|run| matches!(run, Both { here, there } if here == there)));
    }

    /// The least cost of all ways, tried one after the other.
    fn least(here: &[i64], there: &[i64], tolerance: i64) -> i64 {
        let alone = (tolerance + 2) / 2;
        match (here.split_first(), there.split_first()) {
            (None, _) => alone * there.len() as i64,
            (_, None) => alone * here.len() as i64,
            (Some((one, here_left)), Some((other, there_left))) => {
                let mut cost =
                    alone + least(here_left, there, tolerance).min(least(here, there_left, tolerance));
                if (one - other).abs() <= tolerance {
                    cost = cost.min((one - other).abs() + least(here_left, there_left, tolerance));
                }
                cost
            }
        }
    }

    #[test]
    fn no_other_pairs_in_order_differ_less() {
        let mut seed = 7_u64;
        let mut random = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % most
        };
        for _ in 0..2_000 {
            let tolerance = random(12) as i64;
            let mut side = || {
                let mut moments: Vec<i64> = (0..random(7)).map(|_| random(40) as i64).collect();
                moments.sort_unstable();
                moments
            };
            let (here, there) = (side(), side());
            let runs = align(&here, &there, tolerance);
            let alone = (tolerance + 2) / 2;
            let cost = |run: &AlignedRun| match run {
                Both { here: n, there: k } => {
                    let differ = (here[*n] - there[*k]).abs();
                    assert!(differ <= tolerance, "{here:?} {there:?} {runs:?}");
                    differ
                }
                Here(_) | There(_) => alone,
            };
            let total: i64 = runs.iter().map(cost).sum();
            assert_eq!(total, least(&here, &there, tolerance), "{here:?} {there:?} {tolerance} {runs:?}");
            let ours: Vec<usize> = runs
                .iter()
                .filter_map(|run| match run {
                    Both { here, .. } | Here(here) => Some(*here),
                    There(_) => None,
                })
                .collect();
            assert_eq!(ours, (0..here.len()).collect::<Vec<_>>(), "each once and in order");
        }
    }

    #[test]
    fn thousands_of_runs_at_one_moment_are_paired_in_time() {
        let (here, there) = (vec![0; 10_000], vec![5; 100_000]);
        let runs = align(&here, &there, 60_000);
        assert_eq!(runs.iter().filter(|run| matches!(run, Both { .. })).count(), 10_000);
        assert_eq!(runs.len(), 100_000);
    }
}
