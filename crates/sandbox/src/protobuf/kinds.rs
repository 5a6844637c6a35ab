//! The fields, by number, of the kinds that clients send in protobuf.

use Shape::{Bool, Bytes, Int, IntOrText, List, Map, Message, Optional, Quantity, Text, Time};

/// The encoding of a field.
pub(super) enum Shape {
    Text,
    /// Base64 in JSON.
    Bytes,
    Bool,
    /// Omitted when 0.
    Int,
    /// A number that is written even when 0.
    Optional,
    Time,
    IntOrText,
    Quantity,
    Message(&'static Fields),
    List(&'static Shape),
    /// From strings to values of this shape.
    Map(&'static Shape),
}

/// The fields of one message: number, name in JSON, shape.
pub(super) type Fields = [(u64, &'static str, Shape)];

/// The fields of a kind.
pub(super) fn fields_of(api_version: &str, kind: &str) -> Option<&'static Fields> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "ResourceQuota") => QUOTA,
        ("v1", "Service") => SERVICE,
        ("v1", "Pod") => POD,
        ("apps/v1", "Deployment") => DEPLOYMENT,
        ("policy/v1", "PodDisruptionBudget") => BUDGET,
        ("policy/v1", "Eviction") => EVICTION,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => return None,
    })
}

const TEXTS: Shape = List(&Text);
const LABELS: Shape = Map(&Text);
const META: (u64, &str, Shape) = (1, "metadata", Message(OBJECT_META));

const OBJECT_META: &Fields = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Int),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", Optional),
    (11, "labels", LABELS),
    (12, "annotations", LABELS),
    (13, "ownerReferences", List(&Message(OWNER))),
    (14, "finalizers", TEXTS),
];
const OWNER: &Fields = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", Bool),
    (7, "blockOwnerDeletion", Bool),
];
const NAMESPACE: &Fields =
    &[META, (2, "spec", Message(&[(1, "finalizers", TEXTS)])), (3, "status", Message(&[(1, "phase", Text)]))];
const CONFIG_MAP: &Fields =
    &[META, (2, "data", LABELS), (3, "binaryData", Map(&Bytes)), (4, "immutable", Bool)];
const SECRET: &Fields =
    &[META, (2, "data", Map(&Bytes)), (3, "type", Text), (4, "stringData", LABELS), (5, "immutable", Bool)];
const NAME: &Fields = &[(1, "name", Text)];
const SERVICE_ACCOUNT: &Fields = &[
    META,
    (2, "secrets", List(&Message(&[(3, "name", Text)]))),
    (3, "imagePullSecrets", List(&Message(NAME))),
    (4, "automountServiceAccountToken", Bool),
];
const QUOTA: &Fields = &[
    META,
    (2, "spec", Message(&[(1, "hard", Map(&Quantity)), (2, "scopes", TEXTS)])),
    (3, "status", Message(&[])),
];
const SERVICE: &Fields = &[
    META,
    (
        2,
        "spec",
        Message(&[
            (
                1,
                "ports",
                List(&Message(&[
                    (1, "name", Text),
                    (2, "protocol", Text),
                    (3, "port", Int),
                    (4, "targetPort", IntOrText),
                    (5, "nodePort", Int),
                ])),
            ),
            (2, "selector", LABELS),
            (3, "clusterIP", Text),
            (4, "type", Text),
            (5, "externalIPs", TEXTS),
            (7, "sessionAffinity", Text),
            (10, "externalName", Text),
        ]),
    ),
    (3, "status", Message(&[(1, "loadBalancer", Message(&[]))])),
];
const POD: &Fields = &[META, (2, "spec", Message(POD_SPEC)), (3, "status", Message(&[]))];
const POD_SPEC: &Fields = &[
    (2, "containers", List(&Message(CONTAINER))),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Optional),
    (5, "activeDeadlineSeconds", Optional),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", LABELS),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", Bool),
    (12, "hostPID", Bool),
    (13, "hostIPC", Bool),
    (14, "securityContext", Message(&[])),
    (16, "hostname", Text),
    (17, "subdomain", Text),
    (19, "schedulerName", Text),
    (20, "initContainers", List(&Message(CONTAINER))),
    (24, "priorityClassName", Text),
];
const CONTAINER: &Fields = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", TEXTS),
    (4, "args", TEXTS),
    (5, "workingDir", Text),
    (
        6,
        "ports",
        List(&Message(&[
            (1, "name", Text),
            (2, "hostPort", Int),
            (3, "containerPort", Int),
            (4, "protocol", Text),
            (5, "hostIP", Text),
        ])),
    ),
    (7, "env", List(&Message(&[(1, "name", Text), (2, "value", Text)]))),
    (8, "resources", Message(&[])),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (16, "stdin", Bool),
    (17, "stdinOnce", Bool),
    (18, "tty", Bool),
    (20, "terminationMessagePolicy", Text),
];
const SELECTOR: &Fields = &[
    (1, "matchLabels", LABELS),
    (2, "matchExpressions", List(&Message(&[(1, "key", Text), (2, "operator", Text), (3, "values", TEXTS)]))),
];
const DEPLOYMENT: &Fields = &[
    META,
    (
        2,
        "spec",
        Message(&[
            (1, "replicas", Optional),
            (2, "selector", Message(SELECTOR)),
            (3, "template", Message(&[META, (2, "spec", Message(POD_SPEC))])),
            (
                4,
                "strategy",
                Message(&[
                    (1, "type", Text),
                    (
                        2,
                        "rollingUpdate",
                        Message(&[(1, "maxUnavailable", IntOrText), (2, "maxSurge", IntOrText)]),
                    ),
                ]),
            ),
            (5, "minReadySeconds", Int),
            (6, "revisionHistoryLimit", Optional),
            (7, "paused", Bool),
            (9, "progressDeadlineSeconds", Optional),
        ]),
    ),
    (3, "status", Message(&[])),
];
const BUDGET: &Fields = &[
    META,
    (
        2,
        "spec",
        Message(&[
            (1, "minAvailable", IntOrText),
            (2, "selector", Message(SELECTOR)),
            (3, "maxUnavailable", IntOrText),
            (4, "unhealthyPodEvictionPolicy", Text),
        ]),
    ),
    (3, "status", Message(&[])),
];
const EVICTION: &Fields = &[META, (2, "deleteOptions", Message(DELETE_OPTIONS))];
const DELETE_OPTIONS: &Fields = &[
    (1, "gracePeriodSeconds", Optional),
    (2, "preconditions", Message(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (3, "orphanDependents", Bool),
    (4, "propagationPolicy", Text),
    (5, "dryRun", TEXTS),
];
