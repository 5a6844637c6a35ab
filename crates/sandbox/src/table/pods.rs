//! The row of a pod: summarizes its status in one word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    age,
    fields::{at, count, list, or_none},
    head::{Head, text, wide},
};

pub(super) fn heads() -> Vec<Head> {
    vec![
        text("Name"),
        text("Ready"),
        text("Status"),
        text("Restarts"),
        text("Age"),
        wide("IP"),
        wide("Node"),
        wide("Nominated Node"),
        wide("Readiness Gates"),
    ]
}

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = PodSummary::read(pod);
    let mut restarts = summary.restarts.to_string();
    if let Some(last) = summary.last_restart.filter(|_| summary.restarts > 0) {
        restarts = format!("{restarts} ({} ago)", age::human(now.as_second() - last.as_second()));
    }
    let ip = match at(pod, "status.podIP") {
        "" => list(pod, "status.podIPs").first().map_or("", |ip| at(ip, "ip")),
        ip => ip,
    };
    vec![
        json!(at(pod, "metadata.name")),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.status),
        json!(restarts),
        json!(age::since(at(pod, "metadata.creationTimestamp"), now)),
        json!(or_none(ip)),
        json!(or_none(at(pod, "spec.nodeName"))),
        json!(or_none(at(pod, "status.nominatedNodeName"))),
        json!(readiness_gates(pod)),
    ]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "spec.readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates.iter().filter(|gate| condition(pod, at(gate, "conditionType")) == "True").count();
    format!("{open}/{}", gates.len())
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let all = list(pod, "status.conditions").iter();
    all.filter(|c| at(c, "type") == kind).map(|c| at(c, "status")).next().unwrap_or_default()
}

#[derive(Default)]
struct PodSummary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl PodSummary {
    fn read(pod: &Value) -> Self {
        let phase = at(pod, "status.phase");
        let sidecars: Vec<&str> = list(pod, "spec.initContainers")
            .iter()
            .filter(|c| at(c, "restartPolicy") == "Always")
            .map(|c| at(c, "name"))
            .collect();
        let mut summary = Self {
            status: phase.to_owned(),
            total: list(pod, "spec.containers").len() + sidecars.len(),
            ..Self::default()
        };
        if !at(pod, "status.reason").is_empty() {
            at(pod, "status.reason").clone_into(&mut summary.status);
        }
        let gated = |c: &Value| at(c, "type") == "PodScheduled" && at(c, "reason") == "SchedulingGated";
        if list(pod, "status.conditions").iter().any(gated) {
            "SchedulingGated".clone_into(&mut summary.status);
        }
        let sidecar_restarts = summary.read_init(pod, &sidecars);
        let initializing = sidecar_restarts.is_none();
        if !initializing || condition(pod, "Initialized") == "True" {
            summary.restarts = sidecar_restarts.unwrap_or(0);
            summary.read_containers(pod);
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            if at(pod, "status.reason") == "NodeLost" {
                "Unknown".clone_into(&mut summary.status);
            } else if phase != "Succeeded" && phase != "Failed" {
                "Terminating".clone_into(&mut summary.status);
            }
        }
        summary
    }

    /// The restarts of sidecars after initialization; `None` while it runs or when it has failed.
    fn read_init(&mut self, pod: &Value, sidecars: &[&str]) -> Option<i64> {
        let mut sidecar_restarts = 0;
        let all = list(pod, "spec.initContainers").len();
        for (i, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let is_sidecar = sidecars.contains(&at(container, "name"));
            if is_sidecar {
                sidecar_restarts += count(container, "restartCount");
            }
            let ended = &container["state"]["terminated"];
            if ended.is_object() && count(ended, "exitCode") == 0 {
                continue;
            }
            if is_sidecar && container["started"] == Value::Bool(true) {
                self.ready += usize::from(container["ready"] == Value::Bool(true));
                continue;
            }
            let waiting = at(container, "state.waiting.reason");
            self.status = if ended.is_object() {
                format!("Init:{}", ended_word(ended))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{all}")
            };
            return None;
        }
        Some(sidecar_restarts)
    }

    fn read_containers(&mut self, pod: &Value) {
        let mut has_running = false;
        for container in list(pod, "status.containerStatuses").iter().rev() {
            self.count_restarts(container);
            let waiting = at(container, "state.waiting.reason");
            let ended = &container["state"]["terminated"];
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.status);
            } else if ended.is_object() {
                self.status = ended_word(ended);
            } else if container["ready"] == Value::Bool(true) && container["state"]["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && has_running {
            let is_ready = condition(pod, "Ready") == "True";
            (if is_ready { "Running" } else { "NotReady" }).clone_into(&mut self.status);
        }
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += count(container, "restartCount");
        let ended = at(container, "lastState.terminated.finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(ended);
    }
}

fn ended_word(ended: &Value) -> String {
    match (at(ended, "reason"), count(ended, "signal")) {
        ("", 0) => format!("ExitCode:{}", count(ended, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
