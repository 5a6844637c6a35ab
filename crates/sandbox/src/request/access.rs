//! What a request does and whom its user acts as, for authorization.
//!
//! Source: `apiserver/pkg/endpoints/request/requestinfo.go` and `filters/impersonation`.

use std::collections::BTreeMap;

use http::{HeaderMap, Method};

use super::{Query, decode};
use crate::rbac::{Attributes, Impersonation};

const EXTRA: &str = "impersonate-extra-";

/// The attributes of a request with this method, path and query.
pub(crate) fn attributes(method: &Method, path: &str, query: &Query) -> Attributes {
    let steps: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let (group, mut rest) = match steps.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["api", _, _, ..] => (String::new(), &steps[2..]),
        ["apis", group, _, _, ..] => ((*group).to_owned(), &steps[3..]),
        _ => {
            let verb = method.as_str().to_lowercase();
            return Attributes { verb, path: Some(decode(path)), ..Attributes::default() };
        }
    };
    let mut namespace = String::new();
    if let [first, name, ..] = rest
        && first == "namespaces"
    {
        // The attributes of a namespace itself contain its name as the namespace too.
        namespace.clone_from(name);
        if rest.get(2).is_some_and(|step| step != "status" && step != "finalize") {
            rest = &rest[2..];
        }
    }
    let step = |place: usize| rest.get(place).cloned().unwrap_or_default();
    let (resource, mut name, subresource) = (step(0), step(1), step(2));
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ if !name.is_empty() => "get",
        _ if query.flag("watch") => "watch",
        _ => "list",
    };
    if matches!(verb, "list" | "watch") {
        // A rule with a name allows these for exactly that object.
        name = selected_name(query).unwrap_or_default();
    }
    Attributes { verb: verb.to_owned(), group, resource, subresource, namespace, name, path: None }
}

/// The name in a field selector that selects one object by name.
fn selected_name(query: &Query) -> Option<String> {
    let selector = query.get("fieldSelector")?;
    let name = selector.split(',').find_map(|term| {
        let (field, value) = term.split_once('=')?;
        (field.trim() == "metadata.name").then(|| value.trim_start_matches('=').trim().to_owned())
    })?;
    let is_segment = !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '%']);
    is_segment.then_some(name)
}

/// The impersonation headers.
pub(crate) fn impersonation(headers: &HeaderMap) -> Impersonation {
    let values = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let first = |name: &str| values(name).into_iter().next().unwrap_or_default();
    let mut extra = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.insert(decode(key), values(name.as_str()));
        }
    }
    Impersonation {
        user: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: values("impersonate-group"),
        extra,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn request(method: &str, target: &str) -> Attributes {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        attributes(&method.parse::<Method>().unwrap(), path, &Query::parse(query))
    }

    #[test]
    fn the_path_and_the_method_give_the_attributes() {
        let table = [
            ("GET", "/api/v1/namespaces/a/pods", "list pods a "),
            ("GET", "/api/v1/pods", "list pods  "),
            ("GET", "/api/v1/pods?watch=true", "watch pods  "),
            ("GET", "/api/v1/namespaces/a/pods/p", "get pods a p"),
            ("HEAD", "/api/v1/namespaces/a/pods/p", "get pods a p"),
            ("GET", "/api/v1/namespaces/a/pods/p/log", "get pods/log a p"),
            ("POST", "/api/v1/namespaces/a/pods", "create pods a "),
            ("PUT", "/apis/apps/v1/namespaces/a/deployments/d/scale", "update deployments/scale a d"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d", "patch deployments a d"),
            ("DELETE", "/api/v1/namespaces/a/pods/p", "delete pods a p"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods a "),
            ("GET", "/api/v1/namespaces", "list namespaces  "),
            ("GET", "/api/v1/namespaces/a", "get namespaces a a"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a a"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dp", "list pods  p"),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=a=b,metadata.name==p", "watch pods  p"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!=p", "list pods  "),
            ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab", "patch clusterroles  a:b"),
        ];
        for (method, target, wanted) in table {
            let found = request(method, target);
            let text = format!("{} {} {} {}", found.verb, found.combined(), found.namespace, found.name);
            assert_eq!((text.as_str(), &found.path), (wanted, &None), "{method} {target}");
        }
        for target in
            ["/version", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1", "/"]
        {
            assert_eq!(request("GET", target).path.as_deref(), Some(target));
            assert_eq!(request("GET", target).verb, "get");
        }
    }

    fn headers(list: &[(&'static str, &'static str)]) -> Impersonation {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, HeaderValue::from_static(value));
        }
        impersonation(&map)
    }

    #[test]
    fn impersonation_needs_a_permission_for_each_part() {
        assert!(headers(&[]).needs().unwrap().is_empty());
        let wanted = headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-example.com%2fscopes", "view"),
        ]);
        let needs: Vec<String> = wanted
            .needs()
            .unwrap()
            .iter()
            .map(|need| format!("{} {} {:?} {}", need.verb, need.combined(), need.group, need.name))
            .collect();
        assert_eq!(
            needs,
            [
                "impersonate users \"\" jane",
                "impersonate groups \"\" dev",
                "impersonate groups \"\" ops",
                "impersonate userextras/example.com/scopes \"authentication.k8s.io\" view",
                "impersonate uids \"authentication.k8s.io\" 7",
            ]
        );
        let user = wanted.target();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(user.extra["example.com/scopes"], ["view"]);
        let need = &headers(&[("impersonate-user", "system:serviceaccount:a:robot")]).needs().unwrap()[0];
        assert_eq!(
            need.refused("jane", "").message,
            "serviceaccounts \"robot\" is forbidden: User \"jane\" cannot impersonate resource \"serviceaccounts\" in API \
         group \"\" in the namespace \"a\""
        );
    }

    #[test]
    fn an_impersonated_user_has_the_groups_of_its_kind() {
        type Row = (&'static [(&'static str, &'static str)], &'static [&'static str]);
        let table: [Row; 6] = [
            (&[("impersonate-user", "jane")], &["system:authenticated"]),
            (
                &[("impersonate-user", "system:serviceaccount:a:robot")],
                &["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"],
            ),
            (
                &[("impersonate-user", "system:serviceaccount:a:robot"), ("impersonate-group", "dev")],
                &["dev", "system:authenticated"],
            ),
            (&[("impersonate-user", "system:serviceaccount:a:b:c")], &["system:authenticated"]),
            (&[("impersonate-user", "system:anonymous")], &["system:unauthenticated"]),
            (
                &[("impersonate-user", "jane"), ("impersonate-group", "system:unauthenticated")],
                &["system:unauthenticated"],
            ),
        ];
        for (list, wanted) in table {
            assert_eq!(headers(list).target().groups, wanted, "{list:?}");
        }
    }

    #[test]
    fn groups_without_a_user_are_a_bad_request() {
        let failure = headers(&[("impersonate-group", "dev"), ("impersonate-uid", "7")]).needs().unwrap_err();
        assert_eq!(failure.code, 400);
        assert_eq!(
            failure.message,
            "requested [{Group  dev    } {UID  7  authentication.k8s.io/v1  }] without impersonating a user"
        );
    }
}
