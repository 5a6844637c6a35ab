use std::sync::Arc;

use super::{FILES, NO_FILES, NO_SPACE, Names, Resource, answer, holds, names_in, offered, parsed};
use crate::testing::condition;
use crate::testing::fixture::Fixture;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// The candidates of a line, and the directive. Each name from the cluster is that of its kind.
fn at(line: &str) -> (String, u8) {
    let names: Names = Arc::new(|resource| match resource {
        Resource::Containers => vec!["containers=".to_owned()],
        other => vec![format!("{other:?}").to_lowercase()],
    });
    let (found, directive) = answer(&crate::command(), &words(line), &names);
    (found.join(" "), directive)
}

fn has(line: &str, word: &str) -> bool {
    at(line).0.split(' ').any(|found| found == word)
}

#[test]
fn commands_flags_and_values_come_from_the_definitions() {
    assert!(
        has("", "get")
            && has("", "help")
            && has("", "resume")
            && has("", "undo")
            && !has("", "rollback")
            && has("-n shop ", "get")
            && !has("", "--context")
    );
    assert!(has("get --", "--watch") && !has("get --", "--token") && has("get --to", "--token"));
    for (line, offered) in [
        ("sta", "status"),
        ("get -o y", "yaml"),
        ("get --output=y", "--output=yaml"),
        ("set ", "image"),
        ("und", "undo"),
        ("rol", "rollback"),
        ("restart web --dry-run ", ""),
        ("status web --until ", "complete held"),
        ("order web --replicas ", ""),
    ] {
        assert_eq!(at(line), (offered.to_owned(), NO_FILES), "{line}");
    }
    assert_eq!(at("convert -f "), (String::new(), FILES));
    assert_eq!(at("get --kubeconfig=con"), (String::new(), FILES));
}

#[test]
fn names_come_from_the_cluster() {
    for (line, offered) in [
        ("get ", "deployments"),
        ("get od/", "od/deployments"),
        ("resume ", "deployments"),
        ("get web ", ""),
        ("adopt deployment/", "deployment/adoptable"),
        ("resume web --hold ", "holds"),
        ("undo web --to-revision ", "revisions"),
        ("mark ", "pods"),
        ("mark web-1 ", "pods"),
        ("unmark --all ", "deployments"),
        ("rollback web --to-revision ", "revisions"),
        ("get -n ", "namespaces"),
        ("get --context=c", "--context=contexts"),
    ] {
        assert_eq!(at(line), (offered.to_owned(), NO_FILES), "{line}");
    }
    for line in ["set image web ", "set image web web=a "] {
        assert_eq!(at(line), ("containers=".to_owned(), NO_SPACE), "{line}");
    }
}

#[test]
fn the_cluster_is_that_of_the_flags_on_the_line() {
    for (line, namespace, context) in [
        ("-n shop resume --context=prod od/web --timeout 5s --hold ", Some("shop"), Some("prod")),
        ("-n shop set image -n other web w", Some("other"), None),
    ] {
        let (found, named) = parsed(&crate::command(), &words(line)).unwrap();
        assert_eq!((found.namespace.as_deref(), found.context.as_deref()), (namespace, context), "{line}");
        assert_eq!(named.as_deref(), Some("web"), "{line}");
    }
}

#[test]
fn only_candidates_that_no_shell_interprets_are_offered() {
    let safe = ["app=", "canary@2", "eks:eu/web", "node.usage", "shop", "team-*", "web_2"];
    let hostile =
        "x;touch${IFS}owned $(id) `id` a|b a&b a>b a'b a\"b a\\b !1 ~ # {a,b} [a] a? größe \u{202e}a a%b a+b";
    let blanks = ["a b", "a\nb", "a\tb", "a\0b"];
    let found = safe.into_iter().chain(hostile.split(' ')).chain(blanks).map(str::to_owned).collect();
    assert_eq!(offered(found, ""), safe);
}

#[tokio::test(start_paused = true)]
async fn names_are_read_from_the_cluster() {
    let fixture = Fixture::start().await;
    let ask = async |resource| names_in(&fixture.connection, Some("web"), resource).await.unwrap();
    assert_eq!(ask(Resource::Deployments).await, ["web"]);
    assert_eq!(ask(Resource::Adoptable).await, ["web"]);
    assert_eq!(ask(Resource::Pods).await.len(), 4);
    assert_eq!(ask(Resource::Containers).await, ["web=", "proxy=", "init="]);
    assert_eq!(ask(Resource::Revisions).await, ["1"]);
    assert!(ask(Resource::Holds).await.is_empty());
    fixture.pause_at(serde_json::json!([{"name": "canary", "afterUpdated": 1}])).await;
    assert_eq!(ask(Resource::Holds).await, ["canary@2"]);
    assert!(ask(Resource::Namespaces).await.contains(&"default".to_owned()));
}

#[test]
fn a_blocked_rollout_completes_its_pause_point() {
    let now = "2030-01-01T12:00:00Z";
    let mut status = serde_json::json!({
        "rollout": {"revision": 2, "templateHash": "a", "replicas": 4},
        "blocked": {"id": "canary@2", "since": now},
    });
    let holds = |status: &serde_json::Value| holds(&serde_json::from_value(status.clone()).unwrap());
    // Only once the condition says so.
    assert!(holds(&status).is_empty());
    status["conditions"] = serde_json::json!([condition("Stalled", "True", "Blocked", "why")]);
    assert_eq!(holds(&status), ["canary@2"]);
}
