//! A history as text: what happens and what is found, a line at a time.
//!
//! A line is `deed, deed => fact fact`. Its deeds happen before the controller decides again. Then the
//! controller decides until nothing is left to do, unless the last deed of the line is one of [`PACE`]. Then
//! the facts hold.
//!
//! Pods are chosen by `all`, by `#2` (the third one, from the oldest), or by a number, an image and a node,
//! of which each can be missing: `2 v1 on n0`. The node `-` is none. A pause point is `canary after 1`, `half
//! after 50% for 10m`, `gate before priority 0`, `gate before pool n1`, or `zones between pool`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{
    DeclaredPausePoint, OrderedDeploymentSpec, PausePoint, PodReplacementPolicy, ProgressDeadlineAction,
    Strategy, UnavailablePods, template_hash,
};
use ordereddeployment_planner::{Failed, Malformed, Pod, Point, whole_seconds};
use serde_json::{Value, json};

use crate::model::{Cluster, Compares};

/// The deeds after which a line goes on without more decisions.
const PACE: [&str; 6] = ["begin", "rest", "step", "unseen", "until", "wake"];

/// Tests of which each plays each of its histories from each of its starts: `name: start, start => history |
/// history;`.
macro_rules! histories {
    ($($name:ident: $($($start:expr),+ => $($history:literal)|+),+;)+) => {$(
        #[test]
        fn $name() {
            $(for history in [$($history),+] {
                $($start.play(history);)+
            })+
        }
    )+};
}
pub(crate) use histories;

/// A rolling update with all pods ready; the image is `v1`.
pub(crate) fn rolling(replicas: i32, surge: i32, unavailable: i32, points: &str) -> Cluster {
    let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": bounds, "pausePoints": points_of(points)});
    Cluster::running(&json!({"replicas": replicas, "strategy": strategy}))
}

/// The same with Recreate.
pub(crate) fn recreate(replicas: i32, points: &str) -> Cluster {
    let strategy = json!({"type": "Recreate", "pausePoints": points_of(points)});
    Cluster::running(&json!({"replicas": replicas, "strategy": strategy}))
}

/// Declared pause points, with `;` between them.
pub(crate) fn points_of(text: &str) -> Value {
    text.split("; ").filter(|point| !point.is_empty()).map(point_of).collect()
}

/// A number or a percentage.
fn amount(text: &str) -> Value {
    text.parse::<i32>().map_or_else(|_| json!(text), Value::from)
}

fn point_of(text: &str) -> Value {
    let (text, duration) = text.split_once(" for ").map_or((text, None), |(text, time)| (text, Some(time)));
    let words: Vec<&str> = text.split(' ').collect();
    let mut point = match words[1..] {
        ["after", updated] => json!({"afterUpdated": amount(updated)}),
        ["before", "priority", priority] => json!({"beforePriority": amount(priority)}),
        ["before", label, value] => json!({"beforeNodes": {"matchLabels": {label: value}}}),
        ["between", label] => json!({"betweenNodeGroups": label}),
        _ => panic!("no pause point: {text}"),
    };
    point["name"] = json!(words[0]);
    if let Some(duration) = duration {
        point["duration"] = json!(duration);
    }
    point
}

impl Cluster {
    /// Plays a history.
    #[track_caller]
    pub(crate) fn play(&mut self, history: &str) -> &mut Self {
        for line in history.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (deeds, facts) = line.split_once("=>").unwrap_or((line, ""));
            let deeds: Vec<&str> = deeds.split(',').map(str::trim).filter(|deed| !deed.is_empty()).collect();
            for deed in &deeds {
                assert!(self.deed(deed), "{line}: no deed: {deed}");
            }
            if deeds.last().is_some_and(|deed| !PACE.contains(&deed.split(' ').next().unwrap())) {
                self.settle();
            }
            for fact in facts.split_whitespace() {
                assert!(self.is(fact), "{line}: it is not {fact}: {}\n{:?}", self.found(), self.status());
            }
        }
        self
    }

    /// Carries out a deed. Whether there is such a deed.
    pub(crate) fn deed(&mut self, deed: &str) -> bool {
        let words: Vec<&str> = deed.split(' ').collect();
        self.edits(&words) || self.requests(&words) || self.happens(&words) || self.goes_on(&words)
    }

    /// A user changes the spec.
    fn edits(&mut self, words: &[&str]) -> bool {
        let change: Box<dyn FnOnce(&mut OrderedDeploymentSpec)> = match *words {
            ["image" | "begin", image] => {
                self.set_image(image);
                if words[0] == "begin" {
                    self.until(&format!("{image}>0"), 0);
                }
                return true;
            }
            ["scale", replicas] => {
                let replicas = replicas.parse().unwrap();
                Box::new(move |spec| spec.replicas = replicas)
            }
            ["points", ref points @ ..] => {
                let points: Vec<DeclaredPausePoint> =
                    serde_json::from_value(points_of(&points.join(" "))).unwrap();
                Box::new(move |spec| spec.strategy.pause_points = Some(points))
            }
            ["pause"] => Box::new(|spec| spec.paused = true),
            ["unpause"] => Box::new(|spec| spec.paused = false),
            ["history", limit] => {
                let limit = limit.parse().unwrap();
                Box::new(move |spec| spec.revision_history_limit = limit)
            }
            ["deadline", seconds, ref abort @ ..] => {
                let (seconds, aborts) = (seconds.parse().unwrap(), *abort == ["aborts"]);
                Box::new(move |spec| {
                    spec.progress_deadline_seconds = seconds;
                    if aborts {
                        spec.progress_deadline_action = ProgressDeadlineAction::Abort;
                    }
                })
            }
            ["in-order"] => Box::new(|spec| {
                let order = spec.deletion_order.get_or_insert_default();
                order.unavailable_pods = UnavailablePods::InOrder;
            }),
            ["min-ready", seconds] => {
                let seconds = seconds.parse().unwrap();
                Box::new(move |spec| spec.min_ready_seconds = seconds)
            }
            ["await-ends"] => Box::new(|spec| {
                spec.pod_replacement_policy = PodReplacementPolicy::TerminationComplete;
            }),
            ["recreate"] => with_strategy(&json!({"type": "Recreate"})),
            ["bounds", surge, unavailable] => {
                let [surge, unavailable] = [surge, unavailable].map(amount);
                let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
                with_strategy(&json!({"type": "RollingUpdate", "rollingUpdate": bounds}))
            }
            _ => return false,
        };
        self.edit(change);
        true
    }

    /// A user requests something in the status.
    fn requests(&mut self, words: &[&str]) -> bool {
        let revision = |words: &[&str]| {
            let current = self.status().rollout.map_or(0, |rollout| rollout.revision);
            words.first().map_or(current, |word| word.parse().unwrap())
        };
        match *words {
            ["resume"] => {
                let id = self.status().hold.map(|hold| hold.id).or_else(|| self.stands_at());
                self.request_resume(&id.expect("it is held, or it waits"));
            }
            ["resume", "all"] => self.request_resume(&format!("*@{}", revision(&[]))),
            ["resume", id] => self.request_resume(id),
            ["abort", ref rest @ ..] => self.request_abort(revision(rest)),
            ["retry", ref rest @ ..] => self.request_retry(revision(rest)),
            _ => return false,
        }
        true
    }

    /// Something happens to pods, sets, nodes, the status or the API server.
    fn happens(&mut self, words: &[&str]) -> bool {
        let optional = |text: &str| (text != "none").then(|| text.parse().unwrap());
        match *words {
            ["broken", image] => _ = self.broken.insert(image.to_owned()),
            ["mended"] => self.broken.clear(),
            ["refused", image] => _ = self.refused.insert(image.to_owned()),
            ["accepted"] => self.refused.clear(),
            ["quota", pods] => self.quota = optional(pods),
            ["breaks", after] => self.breaks_after = optional(after),
            ["delete", "set", image] => {
                let at = self.set_of(image);
                self.delete_set(at);
            }
            // The garbage collector begins to release its pods.
            ["collect", image] => {
                let at = self.set_of(image);
                self.sets[at].terminating = true;
            }
            ["lose", "status"] => {
                self.forged = true;
                self.deployment.status = None;
            }
            ["restart"] => self.restart(),
            ["forget"] => self.sets.iter_mut().for_each(|set| set.equal_templates.clear()),
            ["cordon" | "uncordon", node] => {
                self.nodes.get_mut(node).unwrap().unschedulable = words[0] == "cordon";
            }
            ["taken", image] => {
                // Somebody else has a set of that name.
                let mut template = self.deployment.spec.template.clone();
                template.edit(|template| template["spec"]["containers"][0]["image"] = json!(image));
                let hash = template_hash(&template, self.status().collision_count.unwrap_or(0));
                if self.sets.iter().all(|set| set.hash != hash) {
                    self.taken_names.insert(format!("web-{hash}"));
                }
            }
            ["respell", how] => self.respell(how.parse().unwrap()),
            ["silent"] => self.silence(true),
            ["answers"] => self.silence(false),
            ["lose", ref pods @ ..] => {
                let lost = self.chosen(pods);
                self.pods.retain(|pod| !lost.contains(&pod.facts.uid));
            }
            ["delete", ref pods @ ..] => self.each(pods, |pod| pod.terminating = true),
            ["ready", ref pods @ ..] => {
                let now = self.now;
                self.each(pods, |pod| (pod.facts.ready, pod.facts.ready_since) = (true, Some(now)));
            }
            ["fail", ref pods @ ..] => {
                // The kubelet fails it now.
                let at = whole_seconds(self.now);
                let (reason, message) = ("OutOfcpu".into(), "Node didn't have enough".into());
                let failed = Failed { at, seen: at, reason, message };
                self.each(pods, |pod| {
                    (pod.finished, pod.facts.ready) = (true, false);
                    pod.failed = Some(Box::new(failed.clone()));
                });
            }
            ["unready", ref pods @ ..] => self.each(pods, |pod| pod.facts.ready = false),
            ["priorities", ref all @ ..] => {
                let all: Vec<i32> = all.iter().map(|text| text.parse().unwrap()).collect();
                self.prioritize(&all);
            }
            ["priority", value, ref pods @ ..] => {
                let value = Some(value.parse().unwrap());
                self.each(pods, |pod| pod.facts.priority = value);
            }
            ["nodes", ref nodes @ ..] => self.place("", nodes),
            ["node", node, ref pods @ ..] => {
                let node: Option<Arc<str>> = (node != "-").then(|| node.into());
                self.each(pods, |pod| pod.facts.node.clone_from(&node));
            }
            ["mark", side, ref pods @ ..] => self.mark(side, pods),
            ["unmark", ref pods @ ..] => self.each(pods, |pod| pod.point = Point::None),
            [image, "nodes", ref nodes @ ..] => self.place(image, nodes),
            _ => return false,
        }
        true
    }

    /// The controller decides, or time passes.
    fn goes_on(&mut self, words: &[&str]) -> bool {
        match *words {
            ["step"] => _ = self.step(),
            ["step", number] => (0..number.parse().unwrap()).for_each(|_| _ = self.step()),
            ["rest"] => self.rest(),
            ["settle"] => self.settle(),
            ["wake"] => self.settle_when_asked(),
            ["wait", seconds] => self.tick(seconds.parse().unwrap()),
            ["until", fact] => self.until(fact, 0),
            ["until", fact, "ticking"] => self.until(fact, 1),
            ["compares"] => self.compares = Some(Compares::default()),
            ["unseen"] => {}
            _ => return false,
        }
        true
    }

    /// The set with that image that is not being deleted.
    pub(crate) fn set_of(&self, image: &str) -> usize {
        let mut sets = self.sets.iter();
        sets.position(|set| !set.terminating && self.image_of(set) == image).unwrap()
    }

    fn until(&mut self, fact: &str, seconds: i64) {
        for _ in 0..1000 {
            if self.is(fact) {
                return;
            }
            self.tick_if(seconds);
            self.step();
        }
        panic!("it is never {fact}: {}", self.found());
    }

    fn tick_if(&mut self, seconds: i64) {
        if seconds > 0 {
            self.tick(seconds);
        }
    }

    /// UIDs of the chosen pods.
    pub(crate) fn chosen(&self, words: &[&str]) -> BTreeSet<Arc<str>> {
        let (words, node) = match words {
            [words @ .., "on", node] => (words, Some(*node)),
            words => (words, None),
        };
        let at = |pod: &Pod| node.is_none_or(|node| pod.facts.node.as_deref().unwrap_or("-") == node);
        let numbers: Vec<usize> =
            words.iter().filter_map(|word| word.strip_prefix('#')?.parse().ok()).collect();
        let count = words.first().and_then(|word| word.parse().ok());
        let image = words.last().filter(|word| word.starts_with('v'));
        let known = numbers.len() + usize::from(count.is_some()) + usize::from(image.is_some());
        assert!(known == words.len() || words == ["all"] || words == ["marked"], "no pods: {words:?}");
        let pods = self.active().enumerate().filter(|(index, pod)| {
            (numbers.is_empty() || numbers.contains(index))
                && image.is_none_or(|image| self.image(pod) == **image)
                && (words != ["marked"] || self.marked.last() == Some(&pod.name))
                && at(pod)
        });
        let chosen: BTreeSet<_> =
            pods.map(|(_, pod)| Arc::clone(&pod.facts.uid)).take(count.unwrap_or(usize::MAX)).collect();
        let wanted = count.unwrap_or(numbers.len());
        assert!(words == ["all"] || chosen.len() >= wanted.max(1), "{words:?}: {chosen:?}");
        chosen
    }

    fn each(&mut self, pods: &[&str], change: impl FnMut(&mut Pod)) {
        let chosen = self.chosen(pods);
        self.pods.iter_mut().filter(|pod| chosen.contains(&pod.facts.uid)).for_each(change);
    }

    /// Sets a pause point at a pod; a duration is in seconds. What is no side or no number is malformed.
    fn mark(&mut self, side: &str, pods: &[&str]) {
        let (pods, duration) = match pods {
            [pods @ .., "for", seconds] => {
                let seconds = seconds.parse().map_err(|_| Malformed);
                (pods, seconds.map(|seconds| Some(Duration::from_secs(seconds))))
            }
            pods => (pods, Ok(None)),
        };
        let point = match side {
            "before" => Point::At { side: PausePoint::Before, duration },
            "after" => Point::At { side: PausePoint::After, duration },
            _ => Point::Malformed,
        };
        let mut names = Vec::new();
        self.each(pods, |pod| {
            pod.point = point.clone();
            names.push(pod.name.clone());
        });
        self.marked.extend(names);
    }

    /// Puts the pods of an image on nodes, from the oldest.
    pub(crate) fn place(&mut self, image: &str, nodes: &[&str]) {
        let at: Vec<usize> = (0..self.pods.len())
            .filter(|at| image.is_empty() || self.image(&self.pods[*at]) == image)
            .collect();
        for (at, node) in at.into_iter().zip(nodes) {
            self.pods[at].facts.node = (*node != "-").then(|| (*node).into());
        }
    }

    /// Resumes each hold. Returns the holds, with the number of pods of that image at each.
    pub(crate) fn resume_all(&mut self, image: &str) -> Vec<(String, usize)> {
        let mut holds = Vec::new();
        while let Some(hold) = self.status().hold {
            holds.push((hold.id, self.of_image(image)));
            self.play("resume");
        }
        holds
    }

    /// Whether a fact holds: a word, or a key with a value, as `v1=3`, `held=canary@2` or
    /// `Stalled=InvalidSpec`.
    pub(crate) fn is(&self, fact: &str) -> bool {
        let status = self.status();
        let Some(at) = fact.find(['=', '<', '>']) else {
            return match fact {
                "complete" => self.is_complete(),
                "incomplete" => !self.is_complete(),
                "aborted" => status.aborted.is_some(),
                "unaborted" => status.aborted.is_none(),
                "held" => status.hold.is_some(),
                "sound" => status.condition(condition::REPLICA_FAILURE).is_none(),
                "free" => status.hold.is_none(),
                _ => panic!("no fact: {fact}"),
            };
        };
        let (key, rest) = fact.split_at(at);
        let value = rest.trim_start_matches(['=', '<', '>']);
        match (key, value.parse()) {
            ("held", _) => !self.is_complete() && status.hold.is_some_and(|hold| self.is_at(&hold.id, value)),
            ("waits", _) => {
                status.hold.is_none() && self.stands_at().is_some_and(|id| self.is_at(&id, value))
            }
            ("served", _) => self.served() == value,
            (_, Ok(number)) => match &rest[..rest.len() - value.len()] {
                "=" => self.number(key) == number,
                "<=" => self.number(key) <= number,
                ">" => self.number(key) > number,
                sign => panic!("no sign: {sign}"),
            },
            (type_, Err(_)) => status.condition(type_).is_some_and(|found| found.reason == value),
        }
    }

    /// Whether that is the id of a pause point: of the pod that was marked last, of that name, with that
    /// beginning before a `*`, or exactly if it has an `@`.
    fn is_at(&self, id: &str, point: &str) -> bool {
        let name = id.rsplit_once('@').map_or(id, |(name, _)| name);
        match point {
            "mark" => self.marked.last().is_some_and(|marked| marked == name),
            point if point.ends_with('*') => id.starts_with(point.trim_end_matches('*')),
            point if point.contains('@') => id == point,
            point => name == point,
        }
    }

    fn number(&self, key: &str) -> usize {
        match key {
            "active" => self.active().count(),
            "deleted" => self.deleted.len(),
            "made" => self.made,
            "asked" => self.asked(),
            "dry-runs" => self.dry_runs,
            "sets" => self.sets.len(),
            "revision" => {
                usize::try_from(self.status().rollout.map_or(0, |rollout| rollout.revision)).unwrap()
            }
            image if image.starts_with('v') => self.of_image(image),
            reason => self.count_events(reason),
        }
    }

    /// Images that served, from the first.
    fn served(&self) -> String {
        let mut sets: Vec<_> =
            self.sets.iter().filter(|set| set.served.is_some_and(|served| served > 0)).collect();
        sets.sort_by_key(|set| set.served);
        sets.into_iter().map(|set| self.image_of(set)).collect::<Vec<_>>().join(",")
    }

    /// The images of the pods, and where the rollout is.
    fn found(&self) -> String {
        let images: BTreeSet<_> = self.active().map(|pod| self.image(pod)).collect();
        let counts: Vec<_> = images.iter().map(|image| format!("{image}={}", self.of_image(image))).collect();
        let held = self.status().hold.map(|hold| hold.id);
        format!("{} held={held:?} waits={:?}", counts.join(" "), self.stands_at())
    }

    /// The message of a condition.
    pub(crate) fn message(&self, type_: &str) -> String {
        self.status().condition(type_).map(|found| found.message.clone()).unwrap_or_default()
    }

    /// Whether the rollout is stalled, and why.
    pub(crate) fn stalled(&self) -> String {
        self.message(condition::STALLED)
    }
}

/// Replaces the strategy, except for its pause points.
fn with_strategy(strategy: &Value) -> Box<dyn FnOnce(&mut OrderedDeploymentSpec)> {
    let strategy: Strategy = serde_json::from_value(strategy.clone()).unwrap();
    Box::new(move |spec| {
        let points = spec.strategy.pause_points.take();
        spec.strategy = Strategy { pause_points: points, ..strategy };
    })
}
