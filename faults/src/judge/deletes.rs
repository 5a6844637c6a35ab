//! S1, S2, S3, S5, S13: which pods are deleted, in which order, and what stays.
//!
//! Judged is what was sent, one decision at a time, against what that decision was made on.

use std::collections::BTreeSet;

use ordereddeployment_api::{PausePoint, Template};
use ordereddeployment_oracle::{Member, View, count, current_set};
use ordereddeployment_planner::{Act, Point, Purpose, Target};
use ordereddeployment_sandbox::Record;
use ordereddeployment_wire::PodView;

use super::history::{History, Kind, Write, controller, found, is_terminating};
use super::violation::Violation;
use crate::log::{Decided, Mark, What};
use crate::scenarios::in_plain_words;

/// An act that had deletes sent, and what it was decided on.
struct Deletes<'h, 'a> {
    decided: &'a Decided,
    act: &'a Act,
    view: View<'a>,
    sent: Vec<&'h Write<'a>>,
}

fn all<'h, 'a>(history: &'h History<'a>) -> impl Iterator<Item = Deletes<'h, 'a>> {
    history.acts().filter_map(move |(place, decided, act)| {
        let sent: Vec<_> = history.sent(place).filter(|write| write.kind == Kind::DeletePod).collect();
        // One that came late may be an earlier decision's.
        let sent: Vec<_> = sent.into_iter().filter(|write| !write.is_late).collect();
        (!sent.is_empty()).then(|| Deletes { decided, act, view: View::of(&decided.snapshot), sent })
    })
}

fn decided(act: &Act, purpose: Purpose) -> Vec<&Target> {
    let groups = act.deletes.iter().filter(|group| group.purpose == purpose);
    groups.flat_map(|group| &group.targets).collect()
}

fn name<'w>(write: &Write<'w>) -> &'w str {
    write.record.name.as_deref().unwrap_or_default()
}

/// S1: deletions follow the order of the contract, as of the decision.
pub(super) fn order(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        let wrong = |words: String| found("S1", deletes.decided.at, words);
        for write in &deletes.sent {
            let purpose = if write.is_rollout() { Purpose::Rollout } else { Purpose::Scale };
            let uid = write.precondition("uid");
            let targets = decided(deletes.act, purpose);
            let asked = targets
                .iter()
                .any(|target| target.name() == name(write) && uid.is_none_or(|uid| **target.uid() == *uid));
            if !asked {
                let purpose = &write.record.user_agent;
                found_all.push(wrong(format!("nobody decided to delete {} ({purpose})", name(write))));
            }
        }
        let places = |purpose| -> Vec<usize> {
            let targets = decided(deletes.act, purpose);
            targets.iter().filter_map(|target| deletes.view.place(target.uid())).collect()
        };
        let sent = |rollout: bool| deletes.sent.iter().any(|write| write.is_rollout() == rollout);
        if sent(true) {
            found_all.extend(of_rollout(&deletes.view, &places(Purpose::Rollout)).map(wrong));
        }
        if sent(false) {
            found_all.extend(of_scaling(&deletes.view, &places(Purpose::Scale)).map(wrong));
        }
    }
    found_all
}

/// Nothing goes while an old pod ahead of it stays, but for unavailable pods that pass available ones (`WhenBlocked`).
fn of_rollout(view: &View<'_>, places: &[usize]) -> Option<String> {
    if !places.is_sorted() {
        return Some("a rollout's deletions do not follow the order".to_owned());
    }
    for place in places {
        let goes = &view.pods[*place];
        if goes.updated {
            return Some(format!("the rollout deletes {}, which is updated", goes.pod.name));
        }
        let ahead = view.pods[..*place].iter().enumerate();
        let stays = ahead.filter(|(ahead, member)| !member.updated && !places.contains(ahead));
        for (_, stays) in stays {
            let passes = stays.available && !goes.available && view.lets_out_of_turn();
            if !passes {
                return Some(format!("{} goes although {} is ahead of it", goes.pod.name, stays.pod.name));
            }
            let barrier = view.barrier().and_then(|(at, ..)| view.old().nth(at));
            let past = barrier.and_then(|member| view.place(&member.pod.facts.uid));
            if past.is_some_and(|barrier| barrier <= *place) {
                return Some(format!("{} goes out of turn, at or past the barrier", goes.pod.name));
            }
        }
    }
    None
}

fn of_scaling(view: &View<'_>, places: &[usize]) -> Option<String> {
    let snapshot = view.snapshot;
    let status = &view.status;
    let share = |hash: &str| {
        status.pause.as_ref().and_then(|pause| pause.sizes.get(hash)).is_some_and(|size| *size > 0)
    };
    let current = current_set(snapshot).map(|set| &set.uid);
    let mut older = snapshot.sets.iter().filter(|set| !set.terminating && Some(&set.uid) != current);
    // A pause in a rollout keeps the share of an older set even while none of its pods is there.
    let keeps_old = snapshot.deployment.spec.paused && older.any(|set| share(&set.hash));
    let collected = |member: &Member<'_>| view.is_collected(member);
    if let Some(place) = places.iter().find(|place| collected(&view.pods[**place])) {
        return Some(format!("{} is scaled away while its set is being deleted", view.pods[*place].pod.name));
    }
    if view.old().next().is_none() && view.held().is_none() && !keeps_old {
        let surplus = usize::try_from(count(view.pods.len()) - view.desired).unwrap_or(0);
        let first = view.pods.iter().enumerate().filter(|(_, member)| !collected(member)).map(|(at, _)| at);
        if !places.iter().copied().eq(first.take(surplus)) {
            let wrong = format!("a scale-down takes places {places:?}, not the first {surplus} of the order");
            return Some(wrong);
        }
    }
    let untimed = view.held().is_some_and(|hold| hold.until.is_none()) && !view.recreates();
    for place in places {
        let goes = &view.pods[*place];
        if goes.updated && untimed {
            // Surge that the hold has no use for: unavailable pods first.
            continue;
        }
        let mut stays =
            view.pods.iter().enumerate().filter(|(at, one)| !places.contains(at) && !collected(one));
        let first = stays.find(|(at, member)| {
            if view.gates(goes) && !member.updated {
                !view.gates(member)
            } else {
                member.pod.set == goes.pod.set && at < place && !view.gates(member)
            }
        });
        if let Some((_, stays)) = first {
            return Some(format!("{} is scaled away before {}", goes.pod.name, stays.pod.name));
        }
    }
    of_surge(view, places)
}

/// What a hold without a duration takes of the surge: unavailable pods first, and no more than the floor allows.
fn of_surge(view: &View<'_>, places: &[usize]) -> Option<String> {
    let hold = view.held().filter(|hold| hold.until.is_none() && !view.recreates())?;
    if i64::from(hold.replicas) != view.desired || view.updated() > view.desired {
        return None;
    }
    let gone = view.pods.iter().enumerate();
    let gone = gone.filter(|(at, member)| member.updated && member.available && places.contains(at)).count();
    if gone == 0 {
        return None;
    }
    let mut left = view.pods.iter().enumerate().filter(|(at, member)| member.updated && !places.contains(at));
    if left.any(|(_, member)| !member.available && !view.is_collected(member)) {
        return Some("an available surge pod goes before an unavailable one".to_owned());
    }
    (view.available() - count(gone) < view.floor).then(|| "surge goes below the floor".to_owned())
}

/// S15: a rollout deletes no pod of the current template, whatever becomes of its set.
pub(super) fn current_template(history: &History<'_>) -> Vec<Violation> {
    let rollouts = history.writes.iter().filter(|write| write.kind == Kind::DeletePod && write.is_rollout());
    let wrong = rollouts.filter(|write| {
        let (Some(decision), Some(pod)) =
            (write.decision.filter(|_| !write.is_late), write.precondition("uid"))
        else {
            return false;
        };
        let wanted = history.decided(decision).snapshot.deployment.spec.template.without_hash();
        let set = history.controller_of(pod, write.place);
        let set = set.and_then(|set| history.changes(set).next());
        set.is_some_and(|set| Template::new(&set.object["spec"]["template"]).without_hash().same_as(&wanted))
    });
    let words = |write: &Write<'_>| {
        found("S15", write.record.at, format!("the rollout deletes {} of the current template", name(write)))
    };
    wrong.map(words).collect()
}

/// S2: nothing is sent while one of a higher priority is not accepted by the server, or gone.
pub(super) fn prefix(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        for write in &deletes.sent {
            let purpose = if write.is_rollout() { Purpose::Rollout } else { Purpose::Scale };
            let mut groups = deletes.act.deletes.iter().filter(|group| group.purpose == purpose);
            let Some(own) =
                groups.clone().position(|group| group.targets.iter().any(|one| one.name() == name(write)))
            else {
                continue;
            };
            let waiting = groups.by_ref().take(own).flat_map(|group| &group.targets).find(|target| {
                let accepted = deletes.sent.iter().any(|other| {
                    other.place < write.place
                        && name(other) == target.name()
                        && (other.is_accepted() || other.record.code == 404)
                });
                !accepted && history.at(target.uid(), write.place).is_some_and(|pod| !is_terminating(pod))
            });
            if let Some(waiting) = waiting {
                let words = format!("{} is deleted while {} still waits", name(write), waiting.name());
                found_all.push(found("S2", write.record.at, words));
            }
        }
    }
    found_all
}

/// S3: a rollout leaves enough available pods, and enough to rely on.
pub(super) fn floors(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        let view = &deletes.view;
        let member = |uid: &str| view.place(uid).map(|place| &view.pods[place]);
        // What scaling takes in the same decision, the rollout cannot count on.
        let scaled = decided(deletes.act, Purpose::Scale);
        let leaving = count(
            scaled.iter().filter(|target| member(target.uid()).is_some_and(|one| one.available)).count(),
        );
        let mut available = view.available() - leaving;
        let mut reliable = view.reliable() - leaving;
        let mut gone = BTreeSet::new();
        for write in deletes.sent.iter().filter(|write| write.is_rollout()) {
            let Some(goes) = view.pods.iter().find(|member| member.pod.name == name(write)) else { continue };
            if !gone.insert(name(write)) {
                // Sent once more, after a conflict.
                continue;
            }
            available -= i64::from(goes.available);
            reliable -= 1;
            let floor = view.floor;
            if (goes.available && available < floor) || reliable < floor {
                let words = format!(
                    "deleting {} leaves {available} available pods and {reliable} to rely on; the floor is {floor}",
                    name(write)
                );
                found_all.push(found("S3", write.record.at, words));
            }
        }
    }
    found_all
}

/// S13: no rollout deletes a pod whose template is the spec's in other words, unless the server has refused to compare.
pub(super) fn equal_templates(history: &History<'_>) -> Vec<Violation> {
    let refused = |record: &Record| record.plural == "podtemplates" && matches!(record.code, 400 | 403 | 422);
    let struck = |mark: &Mark| matches!(&mark.what, What::Struck(words) if words.starts_with("Answer") && words.ends_with("/podtemplates"));
    if history.log.requests.iter().any(refused) || history.log.marks.iter().any(struck) {
        return Vec::new();
    }
    let mut found_all = Vec::new();
    for deletes in all(history) {
        let snapshot = deletes.view.snapshot;
        let own = in_plain_words(&snapshot.deployment.spec.template);
        for write in deletes.sent.iter().filter(|write| write.is_rollout()) {
            let pod = snapshot.pods.iter().find(|pod| pod.name == name(write));
            let set = pod.and_then(|pod| snapshot.sets.iter().find(|set| set.uid == pod.set));
            if set.is_some_and(|set| in_plain_words(&set.template) == own) {
                let words =
                    format!("{} is deleted for a template that is its own in other words", name(write));
                found_all.push(found("S13", write.record.at, words));
            }
        }
    }
    found_all
}

/// S5: nothing at or behind a pause point goes before it was passed, and of a point `after` nothing before its hold is stored.
pub(super) fn barrier(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        let view = &deletes.view;
        let stays = view.is_kept() || view.is_uncompared();
        let may_go = if stays { 0 } else { view.may_go() };
        for write in deletes.sent.iter().filter(|write| write.is_rollout()) {
            let place = view.old().position(|member| member.pod.name == name(write));
            if place.is_some_and(|place| place >= may_go) {
                let words = format!("{} is deleted at or past the barrier", name(write));
                found_all.push(found("S5", write.record.at, words));
            } else if is_marked(history, view, write) {
                let words = format!("{} is deleted although it was given a pause point before", name(write));
                found_all.push(found("S5", write.record.at, words));
            }
        }
    }
    found_all
}

/// Whether the server had a point `before` on that pod, which was not passed, when it took this delete.
fn is_marked(history: &History<'_>, view: &View<'_>, write: &Write<'_>) -> bool {
    let Some(uid) = write.precondition("uid").filter(|_| write.is_accepted()) else { return false };
    let Some(pod) = history.at(uid, write.place) else { return false };
    if view.status.has_passed(uid) || controller(pod).is_none() {
        return false;
    }
    let pod: Option<PodView> = serde_json::from_value(pod.clone()).ok();
    pod.is_some_and(|pod| matches!(pod.pod().point, Point::At { side: PausePoint::Before, .. }))
}
