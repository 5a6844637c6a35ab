use serde_json::json;

use super::{annotate, restart};
use crate::commands::mark::{Marks, Side};
use crate::testing::fixture::{Fixture, without_names};

#[tokio::test(start_paused = true)]
async fn a_restart_replaces_all_pods_and_lists_the_pause_points() {
    let (fixture, order) = Fixture::with_order().await;
    fixture.mark(&order[1], Marks { pause: Some(Side::After), ..Marks::default() }).await;
    let output = restart(&fixture.connection, "web").await.unwrap();
    insta::assert_snapshot!(without_names(&output, &order));
    fixture.until_state("Paused at").await;
    fixture.patch(json!({"spec": {"paused": true}})).await;
    let refused = restart(&fixture.connection, "web").await.unwrap_err().to_string();
    assert!(refused.contains("kubectl ordered unpause web"), "{refused}");
}

#[test]
fn the_annotation_is_that_of_kubectl_and_nothing_else_changes() {
    for template in [
        json!({"spec": {"a": 1}}),
        json!({"metadata": null, "spec": {"a": 1}}),
        json!({"metadata": {"annotations": null}, "spec": {"a": 1}}),
    ] {
        let mut changed = template.clone();
        annotate(&mut changed, "now");
        assert_eq!(changed["metadata"]["annotations"], json!({"kubectl.kubernetes.io/restartedAt": "now"}));
        assert_eq!(changed["spec"], template["spec"]);
    }
    let mut kept = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    annotate(&mut kept, "now");
    assert_eq!(kept["metadata"]["annotations"]["c"], "d");
    assert_eq!(kept["metadata"]["labels"]["a"], "b");
}
