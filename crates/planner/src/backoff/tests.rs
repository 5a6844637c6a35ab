//! Rows of failures, and the backoff after them.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_sorter::{Facts, Phase};

use super::{Failure, count_rows, young};
use crate::{Failed, Pod, Point};

/// A pod that was created and failed at these seconds.
fn failed(name: &str, created: i64, at: i64) -> Pod {
    let time = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    let word = |text: &str| Arc::from(text);
    let failed = Failed { at: time(at), seen: time(at), reason: word("OutOfcpu"), message: word("no") };
    let facts = Facts {
        uid: name.into(),
        phase: Phase::of("Failed"),
        created: Some(time(created)),
        ..Facts::default()
    };
    Pod {
        name: name.to_owned(),
        set: "".into(),
        resource_version: String::new(),
        facts,
        terminating: false,
        ends: None,
        finished: true,
        failed: Some(Box::new(failed)),
        unscheduled: None,
        point: Point::None,
    }
}

fn rows(times: &[(i64, i64)]) -> Vec<u32> {
    let pods: Vec<Pod> = times
        .iter()
        .enumerate()
        .map(|(index, (created, at))| failed(&format!("p{index:03}"), *created, *at))
        .collect();
    let mut failures: Vec<Failure<'_>> = pods.iter().filter_map(young).collect();
    count_rows(&mut failures);
    failures.sort_by(|one, other| one.pod.name.cmp(&other.pod.name));
    failures.iter().map(|failure| failure.row).collect()
}

#[test]
fn an_old_failure_and_a_pod_that_lived_long_do_not_count() {
    assert_eq!(rows(&[(0, 0), (599, 599)]), [1, 2]);
    assert_eq!(rows(&[(0, 0), (600, 600)]), [1, 1]);
    assert_eq!(rows(&[(0, 600), (601, 601)]), [1], "the first lived too long to count");
    // The longest row within the time counts, not the latest one.
    assert_eq!(rows(&[(0, 0), (1, 1), (2, 2), (-50, 550), (560, 560)]).last(), Some(&4));
}

#[test]
fn backoff_doubles_up_to_five_minutes() {
    let pod = failed("p", 0, 0);
    let wait = |row| Failure { row, ..young(&pod).unwrap() }.wait();
    let seconds: Vec<_> = (1..=11).map(|row| wait(row).as_secs()).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    for row in [30, 31, 32, 33, u32::MAX] {
        assert_eq!(wait(row), SignedDuration::from_mins(5), "{row}");
    }
}

#[test]
fn rows_match_a_search_through_all_failures() {
    // Compares the sliding window with a search through all failures.
    let mut seed = 7_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((seed >> 33) % below).unwrap()
    };
    for _ in 0..200 {
        let times: Vec<(i64, i64)> = (0..next(40))
            .map(|_| {
                let created = next(3000);
                (created, created + next(600))
            })
            .collect();
        let mut plain = vec![1; times.len()];
        let mut by_created: Vec<usize> = (0..times.len()).collect();
        by_created.sort_by_key(|index| times[*index].0);
        for &index in &by_created {
            let created = times[index].0;
            let followed = (0..times.len()).filter(|other| (1..600).contains(&(created - times[*other].1)));
            plain[index] = followed.map(|other| plain[other] + 1).max().unwrap_or(1);
        }
        assert_eq!(rows(&times), plain, "{times:?}");
    }
}
