//! Fuzz tests: any input is converted or refused with a message, without a panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::commands::convert::{To, convert, template_of};

fn any_json() -> impl Strategy<Value = Value> {
    let words = "Deployment OrderedDeployment Rollout argoproj.io/v1alpha1 apps/v1 \
                 ordereddeployment.io/v1alpha1 List web 5% - --- a:b {x &a *a !!str";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(words.split(' ').collect::<Vec<_>>()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    let keys = "apiVersion kind metadata spec items name template labels scaleTargetRef targetRef selector \
                strategy containers replicas status canary steps setWeight pause duration blueGreen \
                workloadRef";
    leaf.prop_recursive(4, 24, 5, move |inner| {
        let key = prop_oneof![
            6 => prop::sample::select(keys.split_whitespace().collect::<Vec<_>>()).prop_map(str::to_owned),
            1 => any::<String>(),
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Pieces of YAML syntax, and random text.
fn piece() -> impl Strategy<Value = String> {
    let known = "apiVersion: apps/v1\n|kind: Deployment\n|kind: OrderedDeployment\n|apiVersion: \
                 ordereddeployment.io/v1alpha1\n|metadata: {name: web}\n|metadata:\n  name: \
                 web\n|spec:\n|  replicas: 3\n|---\n|...\n|%YAML 1.2\n|- |? |: |&a |*a\n|<<: *a\n|!!binary \
                 |>-\n|\t|\r\n|'|\"|{|}|[|]|,|#|@|`|\u{feff}|\u{85}|\u{2028}|\u{0}|kind: [|\"kind\": \
                 \"Deployment\"|---| ---\n|kind: HorizontalPodAutoscaler\n|spec: {scaleTargetRef: \
                 {apiVersion: apps/v1, kind: Deployment, name: web}}\n";
    let known = prop::sample::select(known.split('|').chain(["|\n"]).collect::<Vec<_>>());
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

fn convert_both_ways(text: &str) -> Result<(), TestCaseError> {
    for to in [To::Ordereddeployment, To::Deployment] {
        match convert(text, to) {
            // The output is valid YAML.
            Ok(converted) => drop(convert(&converted.text, To::Ordereddeployment)),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
    drop(template_of(text, "web"));
    Ok(())
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(400);
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_text_does_not_panic(pieces in proptest::collection::vec(piece(), 0..14)) {
        convert_both_ways(&pieces.concat())?;
    }

    #[test]
    fn random_documents_do_not_panic(
        documents in proptest::collection::vec(any_json(), 1..3), back in any::<bool>(),
    ) {
        let (version, kind) =
            if back { ("ordereddeployment.io/v1alpha1", "OrderedDeployment") } else { ("apps/v1",
            "Deployment") };
        let texts = documents.into_iter().map(|mut document| {
            if let Some(fields) = document.as_object_mut().filter(|fields| fields.len() % 2 == 0) {
                fields.insert("apiVersion".into(), json!(version));
                fields.insert("kind".into(), json!(kind));
            }
            document.to_string()
        });
        convert_both_ways(&texts.collect::<Vec<_>>().join("\n---\n"))?;
    }
}

#[test]
fn deeply_nested_input_is_refused() {
    for open in ["[", "{a: ", "- ", "? "] {
        let text = format!("apiVersion: apps/v1\nkind: Deployment\nspec:\n  {}", open.repeat(20_000));
        drop(convert(&text, To::Ordereddeployment));
        drop(template_of(&text, "web"));
    }
}
