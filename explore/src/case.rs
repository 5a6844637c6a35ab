//! The clusters that are explored: how each begins, and how much may go wrong in it.

use std::fmt;

use ordereddeployment_api::{OrderedDeployment, Template, template_hash};
use serde_json::json;

/// A pod's pause point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// None.
    #[default]
    None,
    /// `before`, until it is resumed.
    Before,
    /// `after`, until it is resumed.
    After,
    /// `before`, for a minute.
    BeforeTimed,
    /// `after`, for a minute.
    AfterTimed,
}

/// A pod as a cluster begins with it: ready, unless it is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    /// Of which template it is, from 0.
    pub template: u8,
    /// Its delete priority.
    pub priority: i8,
    /// Its pause point.
    pub mark: Mark,
    /// Whether it is unready and stays so.
    pub broken: bool,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// All that is known.
    Any,
    /// Only what happens to pods, and a change of D.
    Few,
}

/// A cluster to explore: a rollout that is about to begin.
#[derive(Clone, Debug)]
pub struct Case {
    /// D.
    pub replicas: i32,
    /// S and U; `None`: Recreate.
    pub bounds: Option<(i32, i32)>,
    /// The pods that are there, in the order of their UIDs.
    pub pods: Vec<Start>,
    /// The template that is rolled out.
    pub template: u8,
    /// How many pods the namespace may have, terminating ones included.
    pub quota: Option<usize>,
    /// The template whose pods never become ready.
    pub bad: Option<u8>,
    /// How many disturbances a run has at most.
    pub disturbances: u8,
    /// Of which kinds.
    pub trouble: Trouble,
    /// Whether the controller has always done what it can before anything that is waited for comes. Disturbances come at any time.
    pub eager: bool,
}

/// How many templates there are.
pub const TEMPLATES: u8 = 3;

/// The template of that number, as a user writes it.
pub fn template(number: u8) -> Template {
    Template::new(&json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": format!("v{}", number + 1)}]},
    }))
}

/// What all states of one case have in common.
pub struct Fixed {
    /// The case.
    pub case: Case,
    /// The object, with no status.
    pub deployment: OrderedDeployment,
    /// The templates: as in the spec, as in a set, and their hash.
    pub templates: Vec<(Template, Template, String)>,
}

impl Fixed {
    /// Of that case.
    pub fn of(case: Case) -> anyhow::Result<Self> {
        let strategy = match case.bounds {
            Some((surge, unavailable)) => json!({
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            }),
            None => json!({"type": "Recreate"}),
        };
        let deployment = serde_json::from_value(json!({
            "apiVersion": "ordereddeployment.io/v1alpha1",
            "kind": "OrderedDeployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "od", "generation": 1},
            "spec": {
                "replicas": case.replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": strategy,
                "template": template(case.template),
            },
        }))?;
        let templates = (0..TEMPLATES).map(template).map(|template| {
            let hash = template_hash(&template, 0);
            (template.clone(), template.without_hash(), hash)
        });
        Ok(Self { deployment, templates: templates.collect(), case })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "D = {}, ", self.replicas)?;
        match self.bounds {
            Some((surge, unavailable)) => write!(f, "S = {surge}, U = {unavailable}")?,
            None => write!(f, "Recreate")?,
        }
        if let Some(quota) = self.quota {
            write!(f, ", a quota of {quota} pods")?;
        }
        if let Some(bad) = self.bad {
            write!(f, ", pods of v{} never ready", bad + 1)?;
        }
        write!(f, ", to v{}, at most {} disturbances; pods:", self.template + 1, self.disturbances)?;
        for pod in &self.pods {
            write!(f, " v{}/{}", pod.template + 1, pod.priority)?;
            match pod.mark {
                Mark::None => {}
                mark => write!(f, "/{mark:?}")?,
            }
            if pod.broken {
                write!(f, "/unready")?;
            }
        }
        Ok(())
    }
}

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What every check of the repository runs.
    Bounded,
    /// All of it.
    Full,
}

/// Every cluster up to those bounds, the small ones first.
pub fn cases(depth: Depth) -> Vec<Case> {
    let mut cases = special();
    let full = depth == Depth::Full;
    let most = if full { 5 } else { 3 };
    for replicas in 1..=most {
        for bounds in [Some((1, 0)), Some((0, 1)), Some((1, 1)), None] {
            for pods in layouts(replicas, full && replicas < 4) {
                let disturbances = match (replicas, full) {
                    (1, true) => 3,
                    (2, true) => 2,
                    _ => 1,
                };
                let any = replicas <= if full { 3 } else { 2 };
                let trouble = if any { Trouble::Any } else { Trouble::Few };
                cases.push(Case {
                    replicas: i32::from(replicas),
                    bounds,
                    template: pods.iter().map(|pod| pod.template).max().map_or(0, |newest| newest + 1),
                    pods,
                    quota: None,
                    bad: None,
                    disturbances,
                    trouble,
                    eager: replicas > 1,
                });
            }
        }
    }
    cases
}

/// Clusters in which something lasts: a quota that is used up, pods that never get ready.
fn special() -> Vec<Case> {
    let mut cases = Vec::new();
    let start = |priority, mark, broken| Start { template: 0, priority, mark, broken };
    for replicas in 2..=4_u8 {
        for bounds in [Some((1, 0)), Some((0, 1)), Some((1, 1)), None] {
            for broken in 0..=replicas {
                for mark in [
                    None,
                    Some((0, Mark::Before)),
                    Some((replicas - 1, Mark::Before)),
                    Some((1, Mark::After)),
                    Some((1, Mark::BeforeTimed)),
                ] {
                    let pods = (0..replicas).map(|index| {
                        let mark = mark.filter(|(at, _)| *at == index).map_or(Mark::None, |(_, mark)| mark);
                        let priority = i8::from(index == 0);
                        start(priority, mark, index + 1 == broken)
                    });
                    let pods: Vec<Start> = pods.collect();
                    for (quota, bad) in [(None, None), (Some(usize::from(replicas)), None), (None, Some(1))] {
                        if broken == 0 && quota.is_none() && bad.is_none() {
                            continue;
                        }
                        let replicas = i32::from(replicas);
                        let pods = pods.clone();
                        cases.push(Case {
                            replicas,
                            bounds,
                            pods,
                            template: 1,
                            quota,
                            bad,
                            disturbances: 1,
                            trouble: Trouble::Few,
                            eager: true,
                        });
                    }
                }
            }
        }
    }
    cases
}

/// Every way to have so many pods with up to two priorities and up to two pause points. Pods of the larger priority come first: they
/// go first whatever their UIDs are.
fn layouts(count: u8, full: bool) -> Vec<Vec<Start>> {
    let mut layouts = Vec::new();
    let marks = |timed: bool| {
        if timed {
            vec![Mark::Before, Mark::After, Mark::BeforeTimed, Mark::AfterTimed]
        } else {
            vec![Mark::Before, Mark::After]
        }
    };
    for high in 0..count {
        let plain: Vec<Start> = (0..count)
            .map(|index| Start {
                template: 0,
                priority: i8::from(index < high),
                mark: Mark::None,
                broken: false,
            })
            .collect();
        let mut marked = vec![plain.clone()];
        for one in 0..count {
            for mark in marks(full) {
                let mut with_one = plain.clone();
                with_one[usize::from(one)].mark = mark;
                marked.push(with_one.clone());
                for other in one + 1..count {
                    for mark in marks(false) {
                        let mut with_two = with_one.clone();
                        with_two[usize::from(other)].mark = mark;
                        marked.push(with_two);
                    }
                }
            }
        }
        for pods in marked {
            // Of one old revision, and of two: those in the middle of an earlier rollout.
            if count > 1 && (full || count < 3) {
                let mut two = pods.clone();
                for pod in two.iter_mut().skip(usize::from(count / 2)) {
                    pod.template = 1;
                }
                layouts.push(two);
            }
            layouts.push(pods);
        }
    }
    layouts
}
