//! The resources of a server with roles: roles, bindings, and reviews, which are answered and never stored.

use super::{ROW, ResourceInfo, Row, describe};

/// The API group of roles and bindings.
pub const ROLES_GROUP: &str = "rbac.authorization.k8s.io";

const ROLES: Row = Row { group: ROLES_GROUP, ..ROW };
const REVIEWS: Row = Row { group: "authorization.k8s.io", namespaced: false, ..ROW };

const STORED: &[Row] = &[
    Row { kind: "ClusterRoleBinding", plural: "clusterrolebindings", namespaced: false, ..ROLES },
    Row { kind: "ClusterRole", plural: "clusterroles", namespaced: false, ..ROLES },
    Row { kind: "RoleBinding", plural: "rolebindings", ..ROLES },
    Row { kind: "Role", plural: "roles", ..ROLES },
];

const ANSWERED: &[Row] = &[
    Row {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        namespaced: false,
        ..ROW
    },
    Row {
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        namespaced: true,
        ..REVIEWS
    },
    Row { kind: "SelfSubjectAccessReview", plural: "selfsubjectaccessreviews", ..REVIEWS },
    Row { kind: "SelfSubjectRulesReview", plural: "selfsubjectrulesreviews", ..REVIEWS },
    Row { kind: "SubjectAccessReview", plural: "subjectaccessreviews", ..REVIEWS },
];

/// The resources that the server has with roles only.
#[must_use]
pub fn access_kinds() -> Vec<ResourceInfo> {
    let answered =
        ANSWERED.iter().map(|row| ResourceInfo { verbs: vec!["create".to_owned()], ..describe(row) });
    STORED.iter().map(describe).chain(answered).collect()
}

impl ResourceInfo {
    /// Whether objects of this resource are answered and not stored.
    #[must_use]
    pub fn is_review(&self) -> bool {
        self.origin == super::Origin::Builtin && self.verbs == ["create"]
    }
}
