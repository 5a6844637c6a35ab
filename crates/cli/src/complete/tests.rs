use super::words::{Thing, cluster_flags, deployment};
use super::{Wanted, cluster, connect, wanted};
use crate::testing::bench::Bench;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn at(line: &str) -> Wanted {
    wanted(&crate::command(), &words(line)).0
}

fn has(line: &str, word: &str) -> bool {
    matches!(at(line), Wanted::Words(found) if found.iter().any(|found| found == word))
}

#[test]
fn commands_flags_and_values_come_from_the_definitions() {
    assert!(has("", "get") && has("-n shop ", "get") && !has("", "__complete"));
    assert!(has("get --", "--watch") && !has("get --", "--token") && has("get --to", "--token"));
    assert!(has("get -o ", "yaml") && has("get --output=", "yaml"));
    assert!(has("set ", "image"));
    assert!(has("status web --until ", "held"));
    assert_eq!(wanted(&crate::command(), &words("get --output=y")).1, "--output=");
    assert_eq!(at("order web --replicas "), Wanted::Nothing);
    assert_eq!(at("convert -f "), Wanted::Files);
}

#[test]
fn names_are_the_clusters() {
    for (line, thing) in [
        ("get ", Thing::Deployments),
        ("get od/", Thing::Deployments),
        ("adopt ", Thing::Adoptable),
        ("adopt deployment/", Thing::Adoptable),
        ("resume web --hold ", Thing::Holds),
        ("undo web --to-revision ", Thing::Revisions),
        ("mark ", Thing::Pods),
        ("mark web-1 ", Thing::Pods),
        ("set image web ", Thing::Containers),
        ("set image web web=a ", Thing::Containers),
        ("get -n ", Thing::Namespaces),
        ("get --context ", Thing::Contexts),
    ] {
        assert_eq!(at(line), Wanted::Cluster(thing), "{line}");
    }
    assert_eq!(at("get web "), Wanted::Nothing);
    assert_eq!(wanted(&crate::command(), &words("get od/w")).1, "od/");
}

#[test]
fn the_cluster_is_the_one_that_the_line_speaks_of() {
    let line = words("-n shop resume --context=prod od/web --timeout 5s --hold ");
    assert_eq!(cluster_flags(&line), ["-n", "shop", "--context=prod"]);
    let found = connect(&line);
    assert_eq!((found.namespace.as_deref(), found.context.as_deref()), (Some("shop"), Some("prod")));
    assert_eq!(deployment(&crate::command(), &line).as_deref(), Some("web"));
    assert_eq!(deployment(&crate::command(), &words("set image web w")).as_deref(), Some("web"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_tells_its_names() {
    let bench = Bench::start().await;
    let ask = async |thing| cluster::of(&bench.connection, Some("web"), thing).await.unwrap();
    assert_eq!(ask(Thing::Deployments).await, ["web"]);
    assert_eq!(ask(Thing::Adoptable).await, ["web"]);
    assert_eq!(ask(Thing::Pods).await.len(), 4);
    assert_eq!(ask(Thing::Containers).await, ["web=", "proxy=", "init="]);
    assert_eq!(ask(Thing::Revisions).await, ["1"]);
    assert!(ask(Thing::Holds).await.is_empty());
    assert!(ask(Thing::Namespaces).await.contains(&"default".to_owned()));
}
