//! Pause points: where a rollout pauses, what ends the pause, and what does not.

use std::time::Duration;

use ordereddeployment_api::names::{annotation, reason};
use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test(start_paused = true)]
async fn a_resume_with_another_id_is_ignored_and_the_right_one_continues() {
    let (cluster, pods) = Cluster::with_pods(10).await;
    let hold = cluster.paused_at_the_third(&pods).await.status().hold.unwrap();
    let mark = cluster.mark();
    for wrong in ["web-other-pod@2", &format!("{}@1", pods[5]), "*@1", "nonsense", ""] {
        cluster.resume(wrong).await;
        let view = cluster.until("it is dropped", |view| view.status().resume_requested.is_none()).await;
        assert_eq!(view.status().hold, Some(hold.clone()), "{wrong}");
    }
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
    let ignored = cluster.events_of(reason::RESUME_IGNORED).await;
    assert!(ignored.iter().any(|message| message.contains("web-other-pod@2")), "{ignored:#?}");

    cluster.resume(&hold.id).await;
    let view = cluster.until_out(10).await;
    assert_eq!(view.status().hold, None);
    assert_eq!(cluster.deleted(mark)[0], pods[5]);
    let resumes = |result, count| format!("ordereddeployment_resumes_total{{result=\"{result}\"}} {count}\n");
    let counted = cluster.metrics.render().unwrap();
    assert!(
        counted.contains(&resumes("accepted", 1)) && counted.contains(&resumes("ignored", 5)),
        "{counted}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_annotation_has_one_warning_on_a_pod_and_on_the_object() {
    let (mut cluster, pods) = Cluster::with_pods(2).await;
    cluster.annotate(&pods[0], "ordereddeployment.io/pausepoint", "before").await;
    cluster.annotate(&pods[1], annotation::BUDGET_RECOUNT, "then").await;
    let patch =
        json!({"metadata": {"annotations": {"ordereddeployment.io/adoptin": "x", "example.com/a": "b"}}});
    cluster.patch(patch).await;
    cluster.set_image("web:2").await;
    cluster.until_out(2).await;
    let mut messages = cluster.events_of(reason::MALFORMED_ANNOTATION).await;
    messages.sort();
    let unknown = |of: &str, key: &str, known: &str| {
        format!(
            "{of}: the annotation ordereddeployment.io/{key} is unknown and has no effect: did you mean \
             {known}?"
        )
    };
    assert_eq!(
        messages,
        [
            unknown("OrderedDeployment", "adoptin", annotation::ADOPTING),
            unknown(&format!("Pod {}", pods[0]), "pausepoint", annotation::PAUSE_POINT),
        ]
    );
    // Equal events would be one with a count.
    let metrics = cluster.metrics.render().unwrap();
    assert!(metrics.contains("ordereddeployment_malformed_annotations_total 2\n"), "{metrics}");
    cluster.kill();
}
