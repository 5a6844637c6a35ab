//! The workload that all contenders run: its names, its template and the limits of its rolling updates.

use serde_json::{Value, json};

/// The name of the object in rows with one object.
pub const NAME: &str = "web";
/// The label with the name of the object.
pub const APP: &str = "app";
/// The label with the number of the template.
pub const REVISION: &str = "revision";

/// The limits of a rolling update, in pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub surge: usize,
    pub unavailable: usize,
}

impl Bounds {
    /// One pod after the other.
    pub const STRICT: Self = Self { surge: 1, unavailable: 0 };

    /// 25% and 25%, the default of both kinds: rounded up and rounded down.
    pub fn quarter(replicas: usize) -> Self {
        Self { surge: replicas.div_ceil(4), unavailable: replicas / 4 }
    }
}

/// A pod template of that object with that revision.
pub fn template(app: &str, revision: u32) -> Value {
    json!({
        "metadata": {"labels": {APP: app, REVISION: revision.to_string()}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": format!("registry.example/web:{revision}")}],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::Bounds;

    #[test]
    fn a_quarter_is_rounded_up_for_surge_and_down_for_unavailable_pods() {
        assert_eq!(Bounds::quarter(10), Bounds { surge: 3, unavailable: 2 });
        assert_eq!(Bounds::quarter(1000), Bounds { surge: 250, unavailable: 250 });
    }
}
