//! States as text, for traces.

use std::fmt;

use ordereddeployment_api::ConditionStatus;

use crate::case::PodPausePoint;
use crate::state::State;

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "D = {}, to v{}{}:",
            self.replicas,
            self.template + 1,
            if self.paused { ", paused" } else { "" }
        )?;
        for pod in &self.pods {
            write!(f, " pod-{:04} (v{}, priority {}", pod.id, pod.template + 1, pod.priority)?;
            if pod.point != PodPausePoint::None {
                write!(f, ", {:?}", pod.point)?;
            }
            let is = match (pod.terminating, pod.ready, pod.started) {
                (true, ..) => "terminating",
                (_, true, _) => "ready",
                (_, _, true) => "unready",
                _ => "pending",
            };
            write!(f, ", {is});")?;
        }
        let status = &self.status.status;
        if let Some(hold) = &status.hold {
            let timed = if hold.until.is_some() { ", timed" } else { "" };
            write!(f, " hold {}{timed};", hold.id)?;
        }
        let points = status.rollout.iter().flat_map(|rollout| rollout.points.iter().flatten());
        for point in points {
            match point.share {
                Some(share) => write!(f, " ahead {} ({} of {});", point.id, share.limit, share.replicas)?,
                None => write!(f, " ahead {};", point.id)?,
            }
        }
        let passed: Vec<&str> = status.passed.iter().flatten().map(|one| one.id.as_str()).collect();
        if !passed.is_empty() {
            write!(f, " passed {};", passed.join(", "))?;
        }
        if let Some(aborted) = &status.aborted {
            write!(f, " aborted to revision {};", aborted.to)?;
        }
        if let Some(requested) = &status.resume_requested {
            write!(f, " resume requested: {requested};")?;
        }
        for condition in status.conditions.iter().flatten() {
            let is_true = condition.status == ConditionStatus::True;
            if is_true && ["Complete", "Stalled"].contains(&condition.type_.as_str()) {
                write!(f, " {} ({});", condition.type_, condition.reason)?;
            }
        }
        if let Some(failure) = &self.failure {
            write!(f, " the last create failed: {};", failure.message)?;
        }
        Ok(())
    }
}
