//! Keeps a status within the [`limits`](crate::limits).

use std::collections::BTreeSet;

use crate::limits::{CONDITIONS, ID, MESSAGE, NAME, PASSED, POINTS, REASON, SELECTOR, TYPE, cut};
use crate::names::{HISTORY, condition};
use crate::{Condition, OrderedDeploymentStatus};

impl OrderedDeploymentStatus {
    /// Cuts what is longer than its limit, and drops repetitions. Returns whether anything changed.
    pub fn limit(&mut self) -> bool {
        let mut is_cut = false;
        let texts = self.selector.iter_mut().map(|text| (text, SELECTOR));
        let ids = self.blocked.iter_mut().map(|blocked| (&mut blocked.id, ID));
        let aborted = self
            .aborted
            .iter_mut()
            .flat_map(|aborted| [(&mut aborted.template_hash, NAME), (&mut aborted.reason, REASON)]);
        for (text, most) in texts.chain(ids).chain(aborted) {
            is_cut |= cut(text, most);
        }
        if let Some(rollout) = &mut self.rollout {
            is_cut |= cut(&mut rollout.template_hash, NAME);
            is_cut |= rollout.from.as_mut().is_some_and(|from| cut(&mut from.template_hash, NAME));
            if let Some(groups) = &mut rollout.node_groups {
                is_cut |= cut(&mut groups.label, NAME);
                is_cut |= groups.group.as_mut().is_some_and(|group| cut(group, NAME));
            }
            if let Some(points) = &mut rollout.points {
                for point in &mut *points {
                    is_cut |= cut(&mut point.id, ID);
                }
                let before = points.len();
                let mut seen = BTreeSet::new();
                points.retain(|point| seen.insert(point.id.clone()));
                points.truncate(POINTS);
                is_cut |= points.len() < before;
            }
        }
        if let Some(hold) = &mut self.hold {
            is_cut |= cut(&mut hold.id, ID) | cut(&mut hold.pod, NAME) | cut(&mut hold.pod_uid, NAME);
            is_cut |= hold.node.as_mut().is_some_and(|node| cut(node, NAME));
            if let Some(declared) = &mut hold.declared {
                is_cut |= cut(&mut declared.name, NAME);
                is_cut |= declared.group.as_mut().is_some_and(|group| cut(group, NAME));
            }
        }
        is_cut |= self.conditions.as_mut().is_some_and(cut_conditions);
        if let Some(passed) = &mut self.passed {
            for passed in &mut *passed {
                is_cut |= cut(&mut passed.id, ID) | cut(&mut passed.pod_uid, NAME);
            }
            let before = passed.len();
            let mut seen = BTreeSet::new();
            passed.retain(|one| seen.insert((one.id.clone(), one.pod_uid.clone())));
            passed.drain(..passed.len().saturating_sub(PASSED));
            is_cut |= passed.len() < before;
        }
        if let Some(history) = &mut self.history {
            let excess = history.len().saturating_sub(HISTORY);
            is_cut |= history.drain(..excess).count() > 0;
            for entry in history {
                is_cut |= cut(&mut entry.reason, REASON) | entry.id.as_mut().is_some_and(|id| cut(id, ID));
            }
        }
        is_cut
    }
}

fn cut_conditions(conditions: &mut Vec<Condition>) -> bool {
    let before = conditions.len();
    let mut seen = BTreeSet::new();
    conditions.retain(|condition| seen.insert(condition.type_.clone()));
    if conditions.len() > CONDITIONS {
        let is_own = |type_: &str| condition::ALWAYS.contains(&type_) || type_ == condition::REPLICA_FAILURE;
        conditions.sort_by_key(|condition| !is_own(&condition.type_));
        conditions.truncate(CONDITIONS);
    }
    let mut is_cut = conditions.len() < before;
    for condition in conditions {
        is_cut |= cut(&mut condition.type_, TYPE) | cut(&mut condition.reason, REASON);
        is_cut |= cut(&mut condition.message, MESSAGE);
    }
    is_cut
}
