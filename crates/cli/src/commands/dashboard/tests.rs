mod forged;
mod requests;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::buttons::buttons;
use super::page::{Page, Rows, changed_rows, rows};
use crate::testing::{
    aborted, at_declared, at_revision, deployment, observed_state, overview, paused_before, pod,
};
use crate::view::state::ObservedState;
use crate::view::state::Revision;

fn revisions(state: &ObservedState) -> Vec<Revision> {
    let back = ordereddeployment_planner::last_served(&state.deployment, &state.sets);
    let revision = |set: &ordereddeployment_planner::Set| Revision {
        number: set.revision,
        set: set.name.clone(),
        cause: None,
        template: set.template.clone(),
        created: set.created,
        pods: 0,
        current: ordereddeployment_planner::is_of(set, &state.deployment.spec.template),
        back: back.is_some_and(|back| back.uid == set.uid),
    };
    let mut revisions: Vec<Revision> = state.sets.iter().map(revision).collect();
    revisions.sort_by_key(|revision| std::cmp::Reverse(revision.number));
    revisions
}

fn page(state: &ObservedState) -> Page {
    let revisions = revisions(state);
    let buttons = buttons(&state.deployment, &revisions, " -n shop");
    Page::of(state, &overview(state), &revisions, &buttons, " -n shop")
}

/// The JSON that the browser gets.
fn sent(before: &Page, after: &Page) -> Value {
    after.since(before).unwrap_or_default()
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap()
}

/// The disabled buttons with their reasons, the possible ones without.
fn reasons(state: &ObservedState) -> Vec<(String, Option<String>)> {
    let sent = serde_json::to_value(buttons(&state.deployment, &revisions(state), "")).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let buttons = sent.as_array().unwrap().iter();
    buttons.map(|button| (text(&button["action"]).unwrap(), text(&button["reason"]))).collect()
}

#[test]
fn a_paused_rollout_is_sent_with_its_line_zones_and_buttons() {
    let pods = [
        pod("web:1", "bbbbbbbb", "n3").priority(5),
        pod("web:1", "cccccccc", "n2").pause("before"),
        pod("web:1", "dddddddd", "n1"),
        pod("web:2", "gggggggg", "n4"),
    ];
    let mut status = paused_before(&pods[1]);
    status["history"] = json!([{
        "action": "Held", "id": "web-5d9c7b8c4d-cccccccc@2", "revision": 2, "at": "2030-01-01T11:58:00Z",
        "reason": "pause point",
    }]);
    let state = observed_state(4, "web:2", &status, &pods);
    insta::assert_snapshot!(pretty(&sent(&Page::default(), &page(&state))));
}

#[test]
fn a_change_sends_only_what_differs() {
    let mut pods = vec![
        pod("web:1", "bbbbbbbb", "n1").priority(2),
        pod("web:1", "cccccccc", "n2").priority(1),
        pod("web:2", "gggggggg", "n4"),
    ];
    let before = page(&observed_state(3, "web:2", &at_revision(2), &pods));
    assert_eq!(sent(&before, &before), Value::Null);
    pods[2].ready = false;
    let unready = page(&observed_state(3, "web:2", &at_revision(2), &pods));
    let delta = sent(&before, &unready);
    assert_eq!(delta["pods"].as_array().unwrap().len(), 1, "{delta}");
    assert_eq!((&delta["pods"][0]["health"], &delta["order"]), (&json!("starting"), &Value::Null), "{delta}");
    pods.remove(0);
    let gone = sent(&unready, &page(&observed_state(3, "web:2", &at_revision(2), &pods)));
    assert_eq!(gone["gone"], json!(["web-5d9c7b8c4d-bbbbbbbb"]));
    assert_eq!(gone["order"], json!(["web-5d9c7b8c4d-cccccccc"]));
    assert_eq!(gone["revisions"], Value::Null);
}

#[test]
fn a_tick_changes_only_texts_with_times() {
    let pods = [pod("web:1", "cccccccc", "n2").pause("before"), pod("web:1", "dddddddd", "n1")];
    let mut state = observed_state(2, "web:2", &paused_before(&pods[0]), &pods);
    let before = page(&state);
    state.now += SignedDuration::from_secs(60);
    let delta = sent(&before, &page(&state));
    assert_eq!(delta.as_object().unwrap().len(), 1, "{delta}");
    let (before, after) = (&sent(&Page::default(), &before)["head"], &delta["head"]);
    assert!(before["detail"].as_str().unwrap().contains("for 2m,"), "{before}");
    assert!(after["detail"].as_str().unwrap().contains("for 3m,"), "{after}");
    assert_eq!(before["plan"], after["plan"]);
}

#[test]
fn the_list_says_where_and_since_when_a_rollout_is_paused() {
    let pods = [pod("web:1", "cccccccc", "n2"), pod("web:1", "dddddddd", "n1")];
    let rename = |status: &Value, name: &str| {
        let mut web = deployment(status);
        web.metadata.name = Some(name.to_owned());
        web
    };
    let mut paused = rename(&at_revision(2), "paused");
    paused.spec.paused = true;
    paused.status.as_mut().unwrap().conditions = serde_json::from_value(json!([{
        "type": "Progressing", "status": "Unknown", "reason": "DeploymentPaused", "message": "",
        "lastTransitionTime": "2030-01-01T11:00:00Z", "lastUpdateTime": "2030-01-01T11:00:00Z",
    }]))
    .unwrap();
    let all = [
        rename(&paused_before(&pods[0]), "held"),
        rename(&at_declared("canary", &pods), "declared"),
        paused,
        rename(&aborted(), "aborted"),
        rename(&Value::Null, "unobserved"),
    ];
    let now: Timestamp = "2030-01-01T12:00:00Z".parse().unwrap();
    let shown = rows(&all, now);
    insta::assert_snapshot!(pretty(&changed_rows(&Rows::new(), &shown)));
    assert!(changed_rows(&shown, &shown).is_none());
    let mut fewer = shown.clone();
    fewer.pop_first();
    let gone = changed_rows(&shown, &fewer).unwrap();
    assert_eq!(gone, json!({"rows": [], "gone": [["shop", "aborted"]]}));
}

#[test]
fn a_button_is_disabled_with_the_reason_of_its_command() {
    let pods = [pod("web:1", "cccccccc", "n2").pause("before"), pod("web:2", "gggggggg", "n1")];
    let mut output = String::new();
    let mut list = |what: &str, state: &ObservedState| {
        let lines = reasons(state);
        let line = |(action, reason): (String, Option<String>)| {
            format!("\n  {action}: {}", reason.as_deref().unwrap_or("possible"))
        };
        output.extend([what.to_owned(), lines.into_iter().map(line).collect(), "\n".to_owned()]);
    };
    list("paused at a pause point", &observed_state(2, "web:2", &paused_before(&pods[0]), &pods));
    list("aborted", &observed_state(2, "web:2", &aborted(), &pods));
    let mut complete = at_revision(2);
    complete["rollout"]["completed"] = true.into();
    list("complete", &observed_state(2, "web:2", &complete, &pods));
    let mut paused = observed_state(2, "web:2", &at_revision(2), &pods);
    std::sync::Arc::make_mut(&mut paused.deployment).spec.paused = true;
    list("spec.paused", &paused);
    insta::assert_snapshot!(output);
}
