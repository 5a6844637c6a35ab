//! The status of a controller before version 0.2, which stored sizes of sets in place of numbers of pause
//! points.

use ordereddeployment_api::{
    AheadPoint, Hold, Passed, PassedBy, PausePoint, Rollout, Scaling, Share, names::ALL_POINTS,
};

use crate::ids::Id;
use crate::inventory::Inventory;
use crate::points::Place;
use crate::{Decision, Record};

/// The status with the present fields, if it has those of before. A hold keeps its id; its number is counted
/// from the pods. The sizes of a plain Deployment stay.
pub(crate) fn upgrade(inventory: &Inventory<'_>, is_plain: bool) -> Option<Decision> {
    let rollout = inventory.status.rollout.as_ref().filter(|rollout| rollout.points.is_none())?;
    let mut status = inventory.status.clone();
    let revision = inventory.rollout_revision();
    // A hold ahead of the deletion of its pod had not begun.
    status.hold = status.hold.take().filter(|hold| hold.deleted != Some(false));
    let hold = status.hold.as_ref();
    let mut points: Vec<AheadPoint> = hold.map(|hold| held(inventory, hold)).into_iter().collect();
    if let Some(suspended) = &rollout.suspended {
        let limit = suspended.sizes.get(&inventory.hash).copied().unwrap_or(0);
        let share = Some(Share { limit, replicas: suspended.replicas });
        let names = inventory.spec.strategy.points().map(|point| point.name.as_str());
        let places = names.filter(|name| Place::named(inventory, name).is_some());
        let is_passed = |name: &str| {
            let mut passed = status.passed_points.iter().flatten();
            passed.any(|passed| passed.name == name && passed.group.is_none())
        };
        let places = places.filter(|name| !is_passed(name));
        points.extend(places.map(|name| AheadPoint {
            id: Id { name, revision, time: 1 }.to_string(),
            share,
            ..AheadPoint::default()
        }));
    }
    let pods = inventory.snapshot.pods.iter();
    let by_pod = status.passed.iter().flatten().filter_map(|passed| {
        let name = match passed.pod_uid.as_str() {
            ALL_POINTS => return Some(Passed { id: ALL_POINTS.to_owned(), ..passed.clone() }),
            uid => pods.clone().find(|pod| *pod.facts.uid == *uid)?.name.as_str(),
        };
        Some(Passed { id: Id { name, revision, time: 1 }.to_string(), ..passed.clone() })
    });
    let declared = status.passed_points.iter().flatten().map(|passed| {
        let name = match &passed.group {
            Some(group) => format!("{}.{group}", passed.name),
            None => passed.name.clone(),
        };
        Passed {
            id: Id { name: &name, revision, time: 1 }.to_string(),
            by: PassedBy::Resume,
            pod_uid: String::new(),
            resumed_at: passed.resumed_at.clone(),
        }
    });
    let passed: Vec<_> = by_pod.chain(declared).collect();
    let pause = status.pause.as_ref().filter(|_| inventory.spec.paused && hold.is_none());
    let pause = pause.map(|pause| Share {
        limit: pause.sizes.get(&inventory.hash).copied().unwrap_or(0),
        replicas: pause.replicas,
    });
    status.rollout = Some(Rollout {
        points: Some(points),
        pause,
        scaling: Some(Scaling { reached: rollout.replicas, to: None }),
        scaled_from: rollout.scaled_from.clone().filter(|_| is_plain),
        suspended: None,
        ..rollout.clone()
    });
    status.passed = Some(passed).filter(|passed| !passed.is_empty());
    (status.passed_points, status.pause) = (None, None);
    if let Some(hold) = &mut status.hold {
        hold.deleted = None;
        if !is_plain {
            hold.sizes.clear();
        }
    }
    Some(Decision::Record(Record { status, events: Vec::new() }))
}

/// The point of a hold, with the number of updated pods that the present old ones leave.
fn held(inventory: &Inventory<'_>, hold: &Hold) -> AheadPoint {
    let id = hold.id.clone();
    let mut declared = inventory.spec.strategy.points();
    let is_number = hold
        .declared
        .as_ref()
        .is_some_and(|held| declared.any(|point| point.name == held.name && point.after_updated.is_some()));
    if is_number {
        return AheadPoint { id, ..AheadPoint::default() };
    }
    let limit = (inventory.bounds.desired - inventory.old_count()).max(0);
    let share = Share { limit: i32::try_from(limit).unwrap_or(i32::MAX), replicas: inventory.spec.replicas };
    let share = match hold.sizes.get(&inventory.hash) {
        Some(size) if inventory.old_count() == 0 => Share { limit: *size, replicas: hold.replicas },
        _ => share,
    };
    let side = hold.declared.is_none().then_some(match hold.point {
        PausePoint::Before => PausePoint::Before,
        PausePoint::After => PausePoint::After,
    });
    let seconds = hold.until.as_ref().map(|until| until.0.duration_since(hold.since.0).as_secs());
    AheadPoint { id, share: Some(share), side, seconds: seconds.filter(|_| side.is_some()) }
}
