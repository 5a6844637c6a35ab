//! Arbitrary JSON, and objects with arbitrary JSON at some path.

use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that have a meaning in some field.
const WORDS: &str = "\
    a b default * 0 -1 5 1e3 100% -5% 9223372036854775807 99999999999999999999 9999-12-31T23:59:59Z \
    10000-01-01T00:00:00Z 2030-01-01T00:00:00Z soon true Always Running Failed True Pod v1 apps/v1 \
    foregroundDeletion orphan kubernetes test.example/x Terminating Orphan Foreground n1 \u{0} ٥ 💥 A_B .. 1Gi \
    -0.5m ";

pub fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![
            0,
            1,
            -1,
            2,
            30,
            i64::from(i32::MAX),
            i64::from(i32::MIN),
            i64::MAX,
            i64::MIN
        ])
        .prop_map(Value::from),
        Just(Value::from(u64::MAX)),
        prop::sample::select(vec![0.5, -0.0, 1e300, 3.0]).prop_map(Value::from),
        prop::sample::select(WORDS.split(' ').collect::<Vec<_>>()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Field names that the server reads.
const KEYS: &str = "\
    kind apiVersion metadata spec status name namespace generateName uid labels annotations resourceVersion \
    generation creationTimestamp deletionTimestamp finalizers deletionGracePeriodSeconds ownerReferences \
    managedFields controller blockOwnerDeletion replicas selector matchLabels matchExpressions key operator values \
    template containers initContainers image resources requests limits cpu memory nodeName nodeSelector \
    tolerations taints effect unschedulable terminationGracePeriodSeconds schedulingGates restartPolicy phase \
    conditions type lastTransitionTime containerStatuses restartCount data binaryData stringData minAvailable \
    maxUnavailable hard used scopes holderIdentity leaseDurationSeconds renewTime group names plural scope \
    versions schema openAPIV3Schema properties items x-kubernetes-validations rule default enum minimum pattern \
    format required subresources scale specReplicasPath jsonPath additionalPrinterColumns preconditions \
    propagationPolicy gracePeriodSeconds dryRun target deleteOptions orphanDependents $patch $retainKeys \
    $setElementOrder/containers $deleteFromPrimitiveList/finalizers ports env strategy rollingUpdate maxSurge \
    colour limit note count series involvedObject additionalProperties additionalItems allOf not";

/// The name of a field.
pub fn key() -> impl Strategy<Value = String> {
    let known = prop::sample::select(KEYS.split(' ').collect::<Vec<_>>());
    prop_oneof![9 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

/// One change of an object.
#[derive(Clone, Debug)]
pub enum Change {
    Replace(prop::sample::Index, Value),
    Remove(prop::sample::Index),
    Insert(prop::sample::Index, String, Value),
    /// At a path that the server reads.
    Set(&'static str, Value),
}

/// Paths at which a wrong type could be missed.
const PLACES: &str = "\
    /metadata /metadata/name /metadata/namespace /metadata/generateName /metadata/labels /metadata/annotations \
    /metadata/finalizers /metadata/ownerReferences /metadata/ownerReferences/0 /metadata/ownerReferences/0/uid \
    /metadata/deletionTimestamp /metadata/creationTimestamp /metadata/deletionGracePeriodSeconds \
    /metadata/resourceVersion /metadata/uid /metadata/generation /metadata/managedFields /kind /apiVersion /spec \
    /status /spec/replicas /spec/selector /spec/selector/matchLabels /spec/selector/matchExpressions \
    /spec/template /spec/template/metadata /spec/template/spec /spec/containers /spec/containers/0 \
    /spec/containers/0/resources/requests/cpu /spec/nodeName /spec/terminationGracePeriodSeconds \
    /spec/nodeSelector /spec/tolerations /spec/taints /spec/unschedulable /spec/minAvailable /spec/maxUnavailable \
    /spec/hard /spec/hard/pods /status/phase /status/conditions /status/replicas /spec/versions \
    /spec/versions/0/schema/openAPIV3Schema /spec/versions/0/subresources /spec/names";

pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (any::<prop::sample::Index>(), any_value()).prop_map(|(at, value)| Change::Replace(at, value)),
        2 => any::<prop::sample::Index>().prop_map(Change::Remove),
        2 => (any::<prop::sample::Index>(), key(), any_value()).prop_map(|(at, key, value)| Change::Insert(at, key, value)),
        4 => (prop::sample::select(PLACES.split(' ').collect::<Vec<_>>()), any_value()).prop_map(|(place, value)| Change::Set(place, value)),
    ]
}

impl Change {
    pub fn apply(&self, object: &mut Value) {
        let mut places = Vec::new();
        list_places(object, String::new(), &mut places);
        match self {
            Self::Replace(at, value) => {
                if let Some(place) = object.pointer_mut(at.get(&places).as_str()) {
                    *place = value.clone();
                }
            }
            Self::Remove(at) => {
                let place = at.get(&places);
                let Some((parent, key)) = place.rsplit_once('/') else { return };
                match object.pointer_mut(parent) {
                    Some(Value::Object(map)) => _ = map.remove(key),
                    Some(Value::Array(list)) => {
                        if let Some(index) = key.parse().ok().filter(|index| *index < list.len()) {
                            list.remove(index);
                        }
                    }
                    _ => {}
                }
            }
            Self::Insert(at, key, value) => match object.pointer_mut(at.get(&places).as_str()) {
                Some(Value::Object(map)) => _ = map.insert(key.clone(), value.clone()),
                Some(Value::Array(list)) => list.push(value.clone()),
                _ => {}
            },
            Self::Set(place, value) => {
                let mut at = object;
                for step in place.split('/').skip(1) {
                    at = child(at, step);
                }
                *at = value.clone();
            }
        }
    }
}

/// The child with this name or index; created if absent.
fn child<'a>(value: &'a mut Value, step: &str) -> &'a mut Value {
    if let (true, Ok(index)) = (value.is_array(), step.parse::<usize>()) {
        let list = value.as_array_mut().unwrap();
        if index >= list.len() {
            list.push(Value::Null);
        }
        return list.last_mut().unwrap();
    }
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
}

fn list_places(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                list_places(inner, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), places);
            }
        }
        Value::Array(list) => {
            for (index, inner) in list.iter().enumerate() {
                list_places(inner, format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push(at);
}
