use serde_json::json;

use super::{pair, replace_images, set_image};
use crate::commands::template_change::TemplateChange;
use crate::testing::fixture::Fixture;

fn images(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(container, image)| ((*container).to_owned(), (*image).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn the_images_of_named_containers_change_and_a_rollout_starts() {
    let fixture = Fixture::start().await;
    let asked = images(&[("web", "web:2"), ("init", "init:2")]);
    let output = set_image(&fixture.connection, "web", &asked).await.unwrap();
    insta::assert_snapshot!(output);
    fixture.until(|web| web.status.as_ref().unwrap().rollout.as_ref().unwrap().revision == 2).await;
    let again = set_image(&fixture.connection, "web", &asked).await.unwrap();
    assert!(again.contains("has these images already"), "{again}");
    let wrong =
        set_image(&fixture.connection, "web", &images(&[("app", "x")])).await.unwrap_err().to_string();
    assert!(wrong.contains("no container \"app\"\nhint: it has init, web, proxy"), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_another_client_has_changed_is_not_overwritten() {
    let fixture = Fixture::start().await;
    let state = fixture.connection.state(ordereddeployment_wire::Family::Ordered, "web").await.unwrap();
    fixture.image("web:other").await;
    let template = ordereddeployment_api::Template::new(&json!({}));
    let change = TemplateChange { state: &state, verb: "change", template, annotation: None };
    let error = change.write(&fixture.connection).await.unwrap_err().to_string();
    assert!(error.contains("another client has changed the template"), "{error}");
}

#[test]
fn a_star_is_all_containers_and_the_last_value_counts() {
    let mut template = json!({"spec": {
        "containers": [{"name": "a", "image": "x"}, {"name": "b"}], "initContainers": [{"name": "i",
        "image": "y"}],
    }});
    let output = replace_images(&mut template, &images(&[("*", "n"), ("a", "m")]), "web").unwrap();
    assert_eq!(output, ["i from y to n", "a from x to m", "b from none to n"]);
}

#[test]
fn a_pair_has_a_container_and_an_image() {
    assert_eq!(pair("a=b:1@sha256=c").unwrap(), ("a".to_owned(), "b:1@sha256=c".to_owned()));
    for wrong in ["", "a", "a=", "=b", "a=b c"] {
        assert!(pair(wrong).is_err(), "{wrong}");
    }
}
