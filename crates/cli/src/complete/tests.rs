use super::{Completion, Line, Resource, cluster, connect, offered};
use crate::testing::condition;
use crate::testing::fixture::Fixture;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn at(line: &str) -> Completion {
    completion(line).0
}

fn completion(line: &str) -> (Completion, String) {
    Line::of(&crate::command(), &words(line)).completion()
}

fn has(line: &str, word: &str) -> bool {
    matches!(at(line), Completion::Words(found) if found.iter().any(|found| found == word))
}

#[test]
fn commands_flags_and_values_come_from_the_definitions() {
    assert!(has("", "get") && has("-n shop ", "get") && !has("", "__complete"));
    assert!(has("get --", "--watch") && !has("get --", "--token") && has("get --to", "--token"));
    assert!(has("get -o ", "yaml") && has("get --output=", "yaml"));
    assert!(has("set ", "image"));
    assert!(has("status web --until ", "held"));
    assert_eq!(completion("get --output=y").1, "--output=");
    assert_eq!(at("order web --replicas "), Completion::Nothing);
    assert_eq!(at("convert -f "), Completion::Files);
}

#[test]
fn names_come_from_the_cluster() {
    for (line, resource) in [
        ("get ", Resource::Deployments),
        ("get od/", Resource::Deployments),
        ("abort ", Resource::Rolling),
        ("abort od/", Resource::Rolling),
        ("retry ", Resource::Aborted),
        ("resume ", Resource::Deployments),
        ("adopt ", Resource::Adoptable),
        ("adopt deployment/", Resource::Adoptable),
        ("resume web --hold ", Resource::Holds),
        ("undo web --to-revision ", Resource::Revisions),
        ("mark ", Resource::Pods),
        ("mark web-1 ", Resource::Pods),
        ("unmark --all ", Resource::Deployments),
        ("rollback web --to-revision ", Resource::Revisions),
        ("set image web ", Resource::Containers),
        ("set image web web=a ", Resource::Containers),
        ("get -n ", Resource::Namespaces),
        ("get --context ", Resource::Contexts),
    ] {
        assert_eq!(at(line), Completion::Cluster(resource), "{line}");
    }
    assert_eq!(at("get web "), Completion::Nothing);
    assert_eq!(completion("get od/w").1, "od/");
}

#[test]
fn the_cluster_is_that_of_the_flags_on_the_line() {
    let definition = crate::command();
    let words = words("-n shop resume --context=prod od/web --timeout 5s --hold ");
    let line = Line::of(&definition, &words);
    assert_eq!(line.cluster, ["-n", "shop", "--context=prod"]);
    let found = connect(&line.cluster);
    assert_eq!((found.namespace.as_deref(), found.context.as_deref()), (Some("shop"), Some("prod")));
    assert_eq!(line.deployment().as_deref(), Some("web"));
    let words = ["set", "image", "web", "w"].map(str::to_owned);
    assert_eq!(Line::of(&definition, &words).deployment().as_deref(), Some("web"));
}

#[test]
fn only_candidates_that_no_shell_interprets_are_offered() {
    let safe = ["app=", "canary@2", "eks:eu/web", "node.usage", "shop", "team-*", "web_2"];
    let hostile =
        "x;touch${IFS}owned $(id) `id` a|b a&b a>b a'b a\"b a\\b !1 ~ # {a,b} [a] a? größe \u{202e}a a%b a+b";
    let blanks = ["a b", "a\nb", "a\tb", "a\0b"];
    let found = safe.into_iter().chain(hostile.split(' ')).chain(blanks).map(str::to_owned).collect();
    assert_eq!(offered(found, "", ""), safe);
}

#[tokio::test(start_paused = true)]
async fn names_are_read_from_the_cluster() {
    let fixture = Fixture::start().await;
    let ask = async |resource| cluster::of(&fixture.connection, Some("web"), resource).await.unwrap();
    assert_eq!(ask(Resource::Deployments).await, ["web"]);
    assert_eq!(ask(Resource::Adoptable).await, ["web"]);
    assert_eq!(ask(Resource::Pods).await.len(), 4);
    assert_eq!(ask(Resource::Containers).await, ["web=", "proxy=", "init="]);
    assert_eq!(ask(Resource::Revisions).await, ["1"]);
    assert!(ask(Resource::Holds).await.is_empty());
    assert!(ask(Resource::Namespaces).await.contains(&"default".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn names_and_holds_depend_on_the_rollout() {
    let fixture = Fixture::start().await;
    let ask = async |resource| cluster::of(&fixture.connection, Some("web"), resource).await.unwrap();
    let limit = Some(std::time::Duration::from_secs(30));
    assert!(ask(Resource::Rolling).await.is_empty() && ask(Resource::Aborted).await.is_empty());
    fixture.pause_at(serde_json::json!([{"name": "canary", "afterUpdated": 1}])).await;
    assert_eq!(ask(Resource::Holds).await, ["canary@2"]);
    assert_eq!(ask(Resource::Rolling).await, ["web"]);
    assert!(ask(Resource::Aborted).await.is_empty());
    crate::commands::abort::abort(&fixture.connection, "web", None, limit).await.unwrap();
    assert!(ask(Resource::Rolling).await.is_empty());
    assert_eq!(ask(Resource::Aborted).await, ["web"]);
}

#[test]
fn a_blocked_rollout_completes_its_pause_point() {
    let now = "2030-01-01T12:00:00Z";
    let mut status = serde_json::json!({
        "rollout": {"revision": 2, "templateHash": "a", "replicas": 4},
        "blocked": {"id": "canary@2", "since": now},
    });
    let holds = |status: &serde_json::Value| cluster::holds(&serde_json::from_value(status.clone()).unwrap());
    // Only once the condition says so.
    assert!(holds(&status).is_empty());
    status["conditions"] = serde_json::json!([condition("Stalled", "True", "Blocked", "why")]);
    assert_eq!(holds(&status), ["canary@2"]);
}
