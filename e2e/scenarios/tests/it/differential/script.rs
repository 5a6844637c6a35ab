//! A fixed sequence of requests whose responses are compared verbatim: the error messages, and the corner
//! cases that random requests rarely reach.

use serde_json::{Value, json};

use super::side::{APPLY, JSON, Kind, MERGE, PATCH, STRATEGIC, Step};

fn step(label: &str, kind: Kind, method: &'static str, rest: &str) -> Step {
    Step { has_words: true, ..Step::new(label, kind, method, rest) }
}

/// The steps, in order.
pub fn steps() -> Vec<Step> {
    let mut steps = of_pods();
    steps.extend(of_templates());
    steps.extend(of_gadgets());
    steps.extend(of_lists());
    steps.extend(corners());
    steps
}

fn of_pods() -> Vec<Step> {
    let step = |label, method, rest: &str| step(label, Kind::Pod, method, rest);
    let patch = |label, rest, form, body| step(label, "PATCH", rest).of(form).with(body);
    let pod = |name: &str| {
        let mut pod = Kind::Pod.named(name);
        pod["metadata"]["labels"] = json!({"a": "b"});
        pod["spec"]["nodeName"] = "silent".into();
        pod
    };
    let held = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["finalizers"] = json!(["test.example/hold"]);
        pod
    };
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    let finalizers = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"}});
    let report = json!({
        "metadata": {"labels": {"by": "status"}}, "spec": {"nodeName": "other"},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]},
    });
    let from_old = json!({"metadata": {"resourceVersion": "{resourceVersion:create}", "labels": {"e": "f"}}});
    let image = json!({"spec": {"containers": [{"name": "main", "image": "web:2"}]}});
    vec![
        step("create", "POST", "").with(pod("a")),
        step("create again", "POST", "").with(pod("a")),
        step("create badly named", "POST", "").with(pod("B_")),
        step("create in no namespace", "POST", "").at("/api/v1/namespaces/no-such/pods").with(pod("a")),
        step("get", "GET", "/a"),
        step("get missing", "GET", "/zz"),
        step("unknown subresource", "GET", "/a/nope"),
        patch("merge labels", "/a", MERGE, labels(json!({"c": "d"}))),
        patch("change nothing", "/a", MERGE, labels(json!({"c": "d"}))),
        patch("change the image", "/a", STRATEGIC, image),
        patch("change from an old version", "/a", STRATEGIC, from_old),
        patch("change the name", "/a", MERGE, json!({"metadata": {"name": "b"}})),
        patch("remove by JSON patch", "/a", PATCH, json!([{"op": "remove", "path": "/metadata/labels/c"}])),
        patch(
            "fail a test",
            "/a",
            PATCH,
            json!([{"op": "test", "path": "/metadata/labels/a", "value": "x"}]),
        ),
        step("replace a missing one", "PUT", "/zz").with(pod("zz")),
        step("bind twice", "POST", "/a/binding").with(binding),
        patch("report", "/a/status", STRATEGIC, report),
        step("delete another uid", "DELETE", "/a").with(json!({"preconditions": {"uid": "x"}})),
        step("delete another version", "DELETE", "/a")
            .with(json!({"preconditions": {"resourceVersion": "1"}})),
        step("delete as if", "DELETE", "/a?dryRun=All"),
        step("delete", "DELETE", "/a").with(json!({})),
        step("delete again", "DELETE", "/a").with(json!({})),
        step("delete sooner", "DELETE", "/a").with(json!({"gracePeriodSeconds": 5})),
        step("delete later", "DELETE", "/a").with(json!({"gracePeriodSeconds": 50})),
        step("delete now", "DELETE", "/a").with(json!({"gracePeriodSeconds": 0})),
        step("gone", "GET", "/a"),
        step("create held", "POST", "").with(held("c")),
        step("delete held", "DELETE", "/c").with(json!({"gracePeriodSeconds": 0})),
        patch("hold on", "/c", MERGE, finalizers(json!(["test.example/more", "test.example/hold"]))),
        patch("let go", "/c", MERGE, finalizers(Value::Null)),
        step("create held and graceful", "POST", "").with(held("d")),
        step("mark", "DELETE", "/d").with(json!({})),
        patch("let go early", "/d", MERGE, finalizers(Value::Null)),
        step("still there", "GET", "/d"),
        step("finish", "DELETE", "/d").with(json!({"gracePeriodSeconds": 0})),
        step("create watched", "POST", "").with(pod("f")),
        step("force", "DELETE", "/f").with(json!({"gracePeriodSeconds": 0})),
        step("watch", "GET", "?watch=1&timeoutSeconds=1&resourceVersion={resourceVersion:create watched}"),
        step("list nothing", "GET", ""),
        step("select an unknown field", "GET", "?fieldSelector=spec.nope%3Da"),
    ]
}

/// What a server decodes and encodes again: empty values, and quantities in other forms.
fn of_templates() -> Vec<Step> {
    let probe = json!({"initialDelaySeconds": 0, "timeoutSeconds": 0, "httpGet": {"port": 80, "host": ""}});
    let container = json!({
        "name": "web", "image": "web:1", "tty": false, "stdin": false, "args": [""], "command": [],
        "workingDir": "",
        "env": [{"name": "A", "value": ""},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        "resources": {"limits": {"cpu": "0.5", "memory": "4096Mi"}, "requests": {"cpu": "1e-1",
        "memory": "1.5Ki"}},
        "readinessProbe": probe, "ports": [{"containerPort": 80, "hostPort": 0, "name": ""}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp", "readOnly": false, "subPath": ""}],
    });
    let spec = json!({
        "hostNetwork": false, "shareProcessNamespace": false, "nodeSelector": {}, "tolerations": [],
        "imagePullSecrets": [], "hostname": "", "dnsPolicy": "", "containers": [container],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "", "sizeLimit": "1024Ki"}},
                    {"name": "disk", "csi": {"driver": "d.example.com", "readOnly": false}},
                    {"name": "cert", "secret": {"secretName": "s", "optional": false, "items": []}}],
    });
    let template = json!({"metadata": {"labels": {"app": "words"}}, "spec": spec});
    let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": "words"}}, "template": template});
    let mut steps = vec![step("a template in odd words", Kind::ReplicaSet, "POST", "").with(
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "words"}, "spec": spec}),
    )];
    steps.extend(of_pod_templates(template));
    steps
}

/// The basis on which the controller compares templates: their defaults, without the admission of pods.
fn of_pod_templates(odd: Value) -> Vec<Step> {
    let web = |more: Value| {
        let mut container = json!({"name": "web", "image": "web:1"});
        extend(&mut container, more);
        json!({"containers": [container]})
    };
    let limits = |cpu: Value| web(json!({"resources": {"limits": {"cpu": cpu}}}));
    let mut defaults = web(json!({
        "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }));
    let of_pods = json!({
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler", "securityContext": {}, "serviceAccountName": "web",
    });
    extend(&mut defaults, of_pods);
    let mut on_the_host = web(json!({"ports": [{"containerPort": 80}]}));
    on_the_host["hostNetwork"] = true.into();
    let specs = [
        ("a plain pod template", json!({})),
        ("a pod template with its defaults", defaults),
        ("a pod template of 1000m", limits("1000m".into())),
        ("a pod template of the number 1", limits(1.into())),
        ("a pod template with an older account", json!({"serviceAccount": "web"})),
        ("a pod template on the host", on_the_host),
        ("a pod template of jobs", json!({"restartPolicy": "Never", "activeDeadlineSeconds": 5})),
        ("a pod template with no containers", json!({"containers": []})),
        ("a pod template with a bad name", json!({"containers": [{"name": "B_", "image": "a"}]})),
        ("a pod template of another shape", json!({"containers": "web"})),
    ];
    let labelled = specs.map(|(label, more)| {
        let mut spec = web(json!({}));
        extend(&mut spec, more);
        (label, json!({"metadata": {"labels": {"app": "words"}}, "spec": spec}))
    });
    let unlabelled = json!({"spec": {"containers": [{"name": "web", "image": "web"}]}});
    let others = [("a pod template in odd words", odd), ("a pod template without labels", unlabelled)];
    let dry_run = |(label, template)| {
        let object = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "words"},
                            "template": template});
        step(label, Kind::PodTemplate, "POST", "?dryRun=All").with(object)
    };
    let stored = step("no pod template is stored", Kind::PodTemplate, "GET", "");
    labelled.into_iter().chain(others).map(dry_run).chain([stored]).collect()
}

fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn of_gadgets() -> Vec<Step> {
    let step = |label, method, rest: &str| step(label, Kind::Gadget, method, rest);
    let patch = |label, rest, form, body| step(label, "PATCH", rest).of(form).with(body);
    let gadget = |name: &str, spec: Value| {
        json!({"apiVersion": "test.example/v1", "kind": "Gadget",
        "metadata": {"name": name}, "spec": spec})
    };
    let versioned = |spec: Value| {
        let mut gadget = gadget("a", spec);
        gadget["metadata"]["resourceVersion"] = "{resourceVersion:make}".into();
        gadget
    };
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 6},
        "metadata": {"name": "a", "namespace": "{ns}", "resourceVersion": "{resourceVersion:get the scale}"},
    });
    let status = json!({"spec": {"colour": "no"}, "status": {"note": "x", "replicas": 2, "selector": "a=b"}});
    vec![
        step("make", "POST", "").with(gadget("a", json!({"colour": "red", "nonsense": 1}))),
        step("replace without a version", "PUT", "/zz").with(gadget("zz", json!({}))),
        step("replace under another name", "PUT", "/b").with(gadget("a", json!({}))),
        step("replace", "PUT", "/a").with(versioned(json!({"colour": "blue"}))),
        step("replace an old version", "PUT", "/a").with(versioned(json!({"colour": "green"}))),
        patch("merge", "/a", MERGE, json!({"spec": {"replicas": 3}, "status": {"note": "x"}})),
        patch("patch strategically", "/a", STRATEGIC, json!({"spec": {}})),
        patch("apply", "/a?fieldManager=x", APPLY, gadget("a", json!({}))),
        patch("patch the status", "/a/status", MERGE, status),
        step("get the scale", "GET", "/a/scale"),
        patch("scale", "/a/scale", MERGE, json!({"spec": {"replicas": 5}})),
        step("scale an old version", "PUT", "/a/scale").with(scale),
        step("get it", "GET", "/a"),
        step("unknown resource", "GET", "").at("/apis/test.example/v1/namespaces/{ns}/gizmos"),
        step("watch it", "GET", "?watch=1&timeoutSeconds=1&resourceVersion={resourceVersion:replace}"),
        step("delete it as if", "DELETE", "/a?dryRun=All"),
        patch("hold it", "/a", MERGE, json!({"metadata": {"finalizers": ["test.example/hold"]}})),
        step("delete it held", "DELETE", "/a"),
        patch("let it go", "/a", PATCH, json!([{"op": "remove", "path": "/metadata/finalizers"}])),
        step("delete it missing", "DELETE", "/a"),
    ]
}

fn of_lists() -> Vec<Step> {
    let step = |label, method, rest: &str| step(label, Kind::ConfigMap, method, rest);
    let map = |name: &str| Kind::ConfigMap.named(name);
    vec![
        step("one", "POST", "").with(map("p1")),
        step("two", "POST", "").with(map("p2")),
        step("three", "POST", "").with(map("p3")),
        step("a page", "GET", "?limit=2"),
        step("in between", "POST", "").with(map("p25")),
        step("the next page", "GET", "?limit=2&continue={continue:a page}"),
        step("a page of a selection", "GET", "?limit=2&labelSelector=a%3D1"),
        step("continue with a version", "GET", "?limit=2&resourceVersion=1&continue={continue:a page}"),
        step("continue from nonsense", "GET", "?limit=2&continue=nonsense"),
        step("a limit that is no number", "GET", "?limit=x"),
        step("a limit below zero", "GET", "?limit=-1"),
        step("match without a version", "GET", "?resourceVersionMatch=Exact"),
        step("match nothing exactly", "GET", "?resourceVersionMatch=Exact&resourceVersion=0"),
        step("match in an unknown way", "GET", "?resourceVersionMatch=Nearly&resourceVersion=1"),
        step("list at nonsense", "GET", "?resourceVersion=nonsense"),
        step("page at nonsense", "GET", "?resourceVersion=nonsense&limit=2"),
        step("get at nonsense", "GET", "/p1?resourceVersion=nonsense"),
        step("get from the past", "GET", "/p1?resourceVersion=1"),
        step("list as it was", "GET", "?resourceVersionMatch=Exact&resourceVersion={resourceVersion:two}"),
        step(
            "page as it was",
            "GET",
            "?resourceVersionMatch=Exact&resourceVersion={resourceVersion:three}&limit=2",
        ),
        step("the next page as it was", "GET", "?limit=2&continue={continue:page as it was}"),
        step("select badly", "GET", "?labelSelector=a%3D%3D%3D"),
        step("select badly by field", "GET", "?fieldSelector=metadata.name"),
        step("delete a selection", "DELETE", "?labelSelector=a%3D1").with(json!({})),
        step("nothing is left", "GET", ""),
        step("delete badly", "DELETE", "/p1").with(json!({"propagationPolicy": "Sometimes"})),
        step("delete doubly", "DELETE", "/p1")
            .with(json!({"propagationPolicy": "Orphan", "orphanDependents": true})),
    ]
}

/// What each endpoint decodes, checks and writes; without messages.
fn corners() -> Vec<Step> {
    use Kind::{ConfigMap, Gadget, Pod, ReplicaSet};
    let mut wrong = ConfigMap.named("absent");
    wrong["data"] = json!({"k": 1});
    let mut other = ConfigMap.named("absent");
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    let mut numbered = ConfigMap.named("m");
    numbered["metadata"]["generation"] = 7.into();
    let bare = json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "bare"}});
    let kinds = json!({"kind": "Other", "apiVersion": "v7"});
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x"});
    let forged = json!({"labels": {"x": "y"}, "annotations": {"x": "y"}, "finalizers": ["test.example/one"],
        "deletionTimestamp": "2020-01-01T00:00:00Z"});
    let labelled = json!({"metadata": {"labels": {"bad key!": "x"}}, "spec": {"replicas": -1}});
    let one_available = json!({"status": {"replicas": 1, "availableReplicas": 1}});
    let two_finalizers = json!({"metadata": {"finalizers": ["test.example/one", "bad"]}});
    let unnamed = json!({"spec": {"containers": [{"image": "web:2"}]}});
    let put = |kind, rest, body| (kind, "PUT", rest, JSON, body);
    let post = |kind, body| (kind, "POST", "", JSON, body);
    let patch = |kind, rest, form, body| (kind, "PATCH", rest, form, body);
    let get = |kind, rest| (kind, "GET", rest, JSON, Value::Null);
    let corners = [
        put(ConfigMap, "/absent", wrong),
        put(ConfigMap, "/absent", other),
        put(ReplicaSet, "/absent/scale", Pod.named("absent")),
        put(ReplicaSet, "/absent/scale", json!({"metadata": {"name": "other"}})),
        put(ReplicaSet, "/absent/scale", json!({"metadata": {"namespace": "other"}})),
        get(ReplicaSet, "/absent/scale"),
        post(ConfigMap, numbered),
        patch(ConfigMap, "/m", MERGE, two_finalizers),
        post(ReplicaSet, ReplicaSet.named("s")),
        patch(ReplicaSet, "/s", STRATEGIC, kinds.clone()),
        patch(ReplicaSet, "/s/scale", STRATEGIC, kinds),
        patch(ReplicaSet, "/s/scale", MERGE, json!({"spec": {"replicas": "x"}})),
        patch(ReplicaSet, "/s/scale", MERGE, json!({"kind": "Other"})),
        patch(ReplicaSet, "/s/scale", MERGE, labelled),
        patch(ReplicaSet, "/s/scale", MERGE, json!({"spec": {"replicas": 0}})),
        get(ReplicaSet, "/s/scale"),
        patch(ReplicaSet, "/s/status", MERGE, one_available),
        patch(ReplicaSet, "/s/status", MERGE, json!({"metadata": forged, "spec": {"replicas": 5}})),
        post(Pod, Pod.named("p")),
        patch(Pod, "/p", STRATEGIC, json!({"metadata": {"ownerReferences": [owner]}})),
        patch(Pod, "/p", STRATEGIC, unnamed),
        patch(Pod, "/p/status", MERGE, json!({"metadata": forged})),
        post(Gadget, bare),
        get(Gadget, "/bare/scale"),
        patch(Gadget, "/bare/scale", MERGE, json!({"spec": {"replicas": 0}})),
        patch(Gadget, "/bare/scale", MERGE, json!({"spec": {"replicas": 2}})),
        patch(
            Gadget,
            "/bare/status",
            MERGE,
            json!({"kind": "Other", "metadata": forged, "status": {"note": "x"}}),
        ),
    ];
    let step = |(kind, method, rest, form, body)| Step::new("corner", kind, method, rest).of(form).with(body);
    corners.into_iter().map(step).collect()
}
