//! Numbers at the end of their range: no overflow, no long loop and no large allocation.

use ordereddeployment_api::{Hold, PausePoint};
use ordereddeployment_planner::{Act, Decision, DryRun, Snapshot, decide};
use serde_json::{Value, json};

use crate::model::Cluster;

/// The act for the current state of a deployment, after everything that must be stored is stored.
fn act(cluster: &mut Cluster) -> Act {
    loop {
        match decide(&Snapshot { live: true, dry_run: DryRun::Accepted, ..cluster.observed() }) {
            Decision::Act(act) => return act,
            Decision::Record(record) => cluster.deployment.status = Some(record.status),
            Decision::Read(read) => panic!("{read:?}"),
        }
    }
}

fn bounds() -> impl Iterator<Item = (Value, Value)> {
    let surges = [json!(0), json!(i32::MAX), json!("100%"), json!("2147483647%"), json!("99999999999999%")];
    let unavailable = [json!(1), json!(i32::MAX), json!("100%")];
    surges.into_iter().flat_map(move |surge| unavailable.clone().map(|value| (surge.clone(), value)))
}

#[test]
fn the_largest_numbers_are_counted_without_overflow() {
    let most = usize::try_from(i32::MAX).unwrap();
    for (surge, unavailable) in bounds() {
        let strategy = json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let mut cluster = Cluster::new(&json!({"replicas": i32::MAX, "strategy": strategy}));
        let created = act(&mut cluster).creates;
        assert_eq!(created.iter().map(|create| create.count).sum::<usize>(), most);
        // Scaled, paused and rolled out from a few pods to the maximum.
        let mut cluster = Cluster::running(&json!({"replicas": 3, "strategy": strategy}));
        cluster.set_image("v2");
        cluster.edit(|spec| spec.replicas = i32::MAX);
        let created = act(&mut cluster).creates;
        assert!(created.iter().map(|create| create.count).sum::<usize>() >= most - 3, "{created:?}");
        cluster.edit(|spec| spec.paused = true);
        act(&mut cluster);
        cluster.edit(|spec| spec.replicas = 0);
        assert_eq!(act(&mut cluster).deletes.iter().map(|group| group.targets.len()).sum::<usize>(), 3);
    }
}

#[test]
fn absurd_stored_sizes_are_apportioned_without_a_long_loop() {
    let mut cluster = Cluster::running(&json!({"replicas": 3}));
    cluster.play("image v2");
    cluster.pause_at(0, PausePoint::Before);
    cluster.play("image v3");
    let hold = cluster.status().hold.unwrap();
    for (size, replicas) in [(i32::MAX, 3), (i32::MAX, i32::MAX), (-1, 3), (i32::MAX, -1), (0, 0)] {
        for desired in [1, 3, i32::MAX] {
            let sizes = cluster.sets.iter().map(|set| (set.hash.clone(), size)).collect();
            let forged = Hold { sizes, replicas, ..hold.clone() };
            cluster.deployment.status.get_or_insert_default().hold = Some(forged);
            cluster.edit(|spec| spec.replicas = desired);
            act(&mut cluster);
        }
    }
}

#[test]
fn forged_extreme_counts_are_recomputed_without_overflow() {
    for (all, updated) in [(i32::MIN, i32::MAX), (i32::MAX, i32::MIN), (-1, i32::MAX)] {
        let mut cluster = Cluster::running(&json!({"replicas": 3}));
        cluster.set_image("v2");
        cluster.step();
        let status = cluster.deployment.status.get_or_insert_default();
        (status.replicas, status.updated_replicas) = (Some(all), Some(updated));
        (status.ready_replicas, status.available_replicas) = (Some(all), Some(updated));
        assert_eq!(act(&mut cluster).status.replicas, Some(3));
    }
}

#[test]
fn a_hold_forged_to_two_billion_pods_creates_no_pod_above_the_ceiling() {
    let mut cluster = Cluster::running(&json!({"replicas": 3}));
    cluster.pause_at(0, PausePoint::Before);
    cluster.play("image v2");
    let hold = cluster.status().hold.unwrap();
    let sizes = cluster.sets.iter().map(|set| (set.hash.clone(), i32::MAX)).collect();
    cluster.deployment.status.get_or_insert_default().hold = Some(Hold { sizes, replicas: 3, ..hold });
    let created: usize = act(&mut cluster).creates.iter().map(|create| create.count).sum();
    assert!(cluster.active().count() + created <= 4, "{created} are created");
}
