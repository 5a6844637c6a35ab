//! What all states of one case have in common.

use std::sync::Arc;
use std::time::Duration;

use ordereddeployment_api::{OrderedDeployment, PausePoint, Template, template_hash};
use ordereddeployment_planner::{Pod, Point};
use ordereddeployment_sorter::{Facts, Phase};
use serde_json::json;

use crate::case::{Case, PodPausePoint, TEMPLATES, template};
use crate::pods::{PodState, old};
use crate::statuses::Statuses;

/// How long a timed pause point lasts.
const MINUTE: Duration = Duration::from_secs(60);

/// How many names of pods are kept: no state has more pods.
const NAMED: u16 = 64;

/// What all states of one case have in common.
pub struct Setup {
    pub case: Case,
    /// The object, with no status.
    pub deployment: OrderedDeployment,
    /// The templates: as in the spec, as in a set, and their hash.
    pub templates: Vec<(Template, Template, String)>,
    /// The UIDs of their sets.
    pub sets: Vec<Arc<str>>,
    /// The names and UIDs of the pods of a canonical state.
    pub pods: Vec<(String, Arc<str>)>,
    /// The only node.
    pub node: Arc<str>,
    pub statuses: Statuses,
}

impl Setup {
    pub fn of(case: Case) -> anyhow::Result<Self> {
        let mut strategy = match case.bounds {
            Some((surge, unavailable)) => json!({
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }),
            None => json!({"type": "Recreate"}),
        };
        if !case.points.is_empty() {
            let points = case.points.iter().enumerate().map(|(index, point)| point.declared(index));
            strategy["pausePoints"] = points.collect();
        }
        let action = if case.aborts && case.broken_template.is_some() { "Abort" } else { "Continue" };
        let deployment = serde_json::from_value(json!({
            "apiVersion": "ordereddeployment.io/v1alpha1",
            "kind": "OrderedDeployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "od", "generation": 1},
            "spec": {
                "replicas": case.replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": strategy,
                "progressDeadlineAction": action,
                "template": template(case.template),
            },
        }))?;
        let templates = (0..TEMPLATES).map(template).map(|template| {
            let hash = template_hash(&template, 0);
            (template.clone(), template.without_hash(), hash)
        });
        let sets = (0..TEMPLATES).map(|template| format!("set-t{template}").into());
        let pods = (0..NAMED).map(|id| (format!("pod-{id:04}"), format!("uid-{id:04}").into()));
        Ok(Self {
            deployment,
            templates: templates.collect(),
            sets: sets.collect(),
            pods: pods.collect(),
            node: "n".into(),
            statuses: Statuses::default(),
            case,
        })
    }

    /// The pod as the planner observes it.
    pub fn pod(&self, state: &PodState) -> Pod {
        let named = self.pods.get(usize::from(state.id)).cloned();
        // A new pod has another number until the next canonical form.
        let (name, uid) =
            named.unwrap_or_else(|| (format!("pod-{:04}", state.id), format!("uid-{:04}", state.id).into()));
        let at = |side, duration| Point::At { side, duration: Ok(duration) };
        Pod {
            name,
            set: Arc::clone(&self.sets[usize::from(state.template)]),
            resource_version: "1".to_owned(),
            facts: Facts {
                uid,
                node: Some(Arc::clone(&self.node)),
                phase: if state.started { Phase::Running } else { Phase::Pending },
                ready: state.ready,
                ready_since: Some(old()),
                created: Some(old()),
                priority: Some(i32::from(state.priority)),
                ..Facts::default()
            },
            terminating: state.terminating,
            ends: None,
            finished: false,
            failed: None,
            unscheduled: None,
            point: match state.point {
                PodPausePoint::None => Point::None,
                PodPausePoint::Before => at(PausePoint::Before, None),
                PodPausePoint::After => at(PausePoint::After, None),
                PodPausePoint::BeforeTimed => at(PausePoint::Before, Some(MINUTE)),
                PodPausePoint::AfterTimed => at(PausePoint::After, Some(MINUTE)),
            },
        }
    }
}
