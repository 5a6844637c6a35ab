//! The clusters that are explored: the initial state of each, and the faults in it.

use ordereddeployment_api::Template;
use serde_json::{Value, json};

/// A pod's pause point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPausePoint {
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

/// A pod of the initial state. It is ready, unless it is `never_ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InitialPod {
    /// The number of its template, from 0.
    pub template: u8,
    pub priority: i8,
    pub point: PodPausePoint,
    /// Whether it is unready and stays unready.
    pub never_ready: bool,
}

impl InitialPod {
    /// A ready pod of the first template without a point.
    fn of(goes_first: bool) -> Self {
        let (template, priority) = (0, i8::from(goes_first));
        Self { template, priority, point: PodPausePoint::None, never_ready: false }
    }
}

/// A declared pause point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredPoint {
    /// `afterUpdated` with this number, until it is resumed.
    After(i32),
    /// The same, for a minute.
    AfterTimed(i32),
    /// `afterUpdated` with this percentage.
    AfterPercent(i32),
    /// `beforePriority`.
    BeforePriority(i32),
}

impl DeclaredPoint {
    pub fn declared(self, index: usize) -> Value {
        let mut point = match self {
            Self::After(number) => json!({"afterUpdated": number}),
            Self::AfterTimed(number) => json!({"afterUpdated": number, "duration": "1m"}),
            Self::AfterPercent(percent) => json!({"afterUpdated": format!("{percent}%")}),
            Self::BeforePriority(priority) => json!({"beforePriority": priority}),
        };
        point["name"] = json!(format!("point-{index}"));
        point
    }
}

/// A cluster to explore, at the start of a rollout.
#[derive(Clone, Debug)]
pub struct Case {
    /// D.
    pub replicas: i32,
    /// S and U; `None`: Recreate.
    pub bounds: Option<(i32, i32)>,
    /// The initial pods, in the order of their UIDs.
    pub pods: Vec<InitialPod>,
    pub points: Vec<DeclaredPoint>,
    /// Whether the rollout comes after a complete one, so that it can be aborted: by users, and by the
    /// deadline if pods of the new template never become ready.
    pub aborts: bool,
    /// The template that is rolled out.
    pub template: u8,
    /// The quota of pods in the namespace. Terminating pods count.
    pub quota: Option<usize>,
    /// The template whose pods never become ready.
    pub broken_template: Option<u8>,
    /// The most faults on one path.
    pub max_faults: u8,
    /// Whether there are more faults than those of pods and a change of D.
    pub all_faults: bool,
    /// Whether expected events happen only while the controller is idle. Faults happen at any time.
    pub eager: bool,
}

impl Case {
    /// A rollout to the second template, with one fault at any time.
    fn of(replicas: u8, bounds: Option<(i32, i32)>, pods: Vec<InitialPod>) -> Self {
        Self {
            replicas: i32::from(replicas),
            bounds,
            pods,
            points: Vec::new(),
            aborts: false,
            template: 1,
            quota: None,
            broken_template: None,
            max_faults: 1,
            all_faults: false,
            eager: replicas > 1,
        }
    }
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

/// Every cluster, or the part for every check of the repository, the small ones first.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = special();
    cases.extend(declared(full));
    let max_replicas = if full { 5 } else { 3 };
    for replicas in 1..=max_replicas {
        for bounds in [Some((1, 0)), Some((0, 1)), Some((1, 1)), None] {
            for pods in layouts(replicas, full && replicas < 4) {
                let max_faults = match (replicas, full) {
                    (1, true) => 3,
                    (2, true) => 2,
                    _ => 1,
                };
                let all_faults = replicas <= if full { 3 } else { 2 };
                let template = pods.iter().map(|pod| pod.template).max().map_or(0, |newest| newest + 1);
                cases.push(Case { template, max_faults, all_faults, ..Case::of(replicas, bounds, pods) });
            }
        }
    }
    cases
}

/// Clusters with a permanent problem: a quota that is used up, or pods that never become ready.
fn special() -> Vec<Case> {
    let mut cases = Vec::new();
    for replicas in 2..=4_u8 {
        for bounds in [Some((1, 0)), Some((0, 1)), Some((1, 1)), None] {
            for never_ready in 0..=replicas {
                for point in [
                    None,
                    Some((0, PodPausePoint::Before)),
                    Some((replicas - 1, PodPausePoint::Before)),
                    Some((1, PodPausePoint::After)),
                    Some((1, PodPausePoint::BeforeTimed)),
                ] {
                    let at = |index| point.filter(|(at, _)| *at == index).map(|(_, point)| point);
                    let pods = (0..replicas).map(|index| InitialPod {
                        point: at(index).unwrap_or_default(),
                        never_ready: index + 1 == never_ready,
                        ..InitialPod::of(index == 0)
                    });
                    let pods: Vec<InitialPod> = pods.collect();
                    for (quota, broken_template) in
                        [(None, None), (Some(usize::from(replicas)), None), (None, Some(1))]
                    {
                        if never_ready == 0 && quota.is_none() && broken_template.is_none() {
                            continue;
                        }
                        let case = Case::of(replicas, bounds, pods.clone());
                        cases.push(Case { quota, broken_template, ..case });
                    }
                }
            }
        }
    }
    cases
}

/// Clusters with declared pause points, in which users and deadlines abort the rollout.
fn declared(full: bool) -> Vec<Case> {
    use DeclaredPoint::{After, AfterPercent, AfterTimed, BeforePriority};
    let lists = [
        vec![],
        vec![After(1)],
        vec![AfterTimed(1)],
        vec![After(1), AfterPercent(60)],
        vec![BeforePriority(0)],
        vec![After(1), BeforePriority(0)],
        vec![BeforePriority(1), After(2)],
    ];
    let mut cases = Vec::new();
    for replicas in 1..=if full { 4_u8 } else { 3 } {
        for bounds in [Some((1, 0)), Some((0, 1)), Some((1, 1)), Some((2, 0)), None] {
            for list in &lists {
                for broken_template in [None, Some(1)] {
                    for point in [PodPausePoint::None, PodPausePoint::Before, PodPausePoint::After] {
                        let pods = (0..replicas).map(|index| InitialPod {
                            point: if index == replicas / 2 { point } else { PodPausePoint::None },
                            ..InitialPod::of(index < replicas.div_ceil(2))
                        });
                        let fits =
                            |point: &&DeclaredPoint| bounds.is_some() || matches!(point, BeforePriority(_));
                        cases.push(Case {
                            points: list.iter().filter(fits).copied().collect(),
                            aborts: true,
                            broken_template,
                            max_faults: if full && replicas < 3 { 2 } else { 1 },
                            all_faults: replicas < 3,
                            ..Case::of(replicas, bounds, pods.collect())
                        });
                    }
                }
            }
        }
    }
    cases
}

/// Every combination of that many pods with up to two priorities and up to two pause points. Pods of the
/// larger priority come first, since they are deleted first regardless of their UIDs.
fn layouts(count: u8, full: bool) -> Vec<Vec<InitialPod>> {
    use PodPausePoint::{After, AfterTimed, Before, BeforeTimed};
    let mut layouts = Vec::new();
    let points = [Before, After, BeforeTimed, AfterTimed];
    let points = if full { &points[..] } else { &points[..2] };
    for high in 0..count {
        let plain: Vec<InitialPod> = (0..count).map(|index| InitialPod::of(index < high)).collect();
        let mut with_points = vec![plain.clone()];
        for one in 0..count {
            for point in points {
                let mut with_one = plain.clone();
                with_one[usize::from(one)].point = *point;
                with_points.push(with_one.clone());
                for other in one + 1..count {
                    for point in [Before, After] {
                        let mut with_two = with_one.clone();
                        with_two[usize::from(other)].point = point;
                        with_points.push(with_two);
                    }
                }
            }
        }
        for pods in with_points {
            // Of one old revision, and of two: the second is the result of an interrupted rollout.
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
