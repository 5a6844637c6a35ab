//! What people see of an OrderedDeployment, or of a plain Deployment: its phase, its pods in order, its pause points, as text and as
//! JSON. Pure functions: no client, no clock. The planner computes everything.

/// The resource of a type that the API server serves as another type: that of the other one.
macro_rules! served_as {
    ($kind:ty, $served:ty, $($metadata:tt)+) => {
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                <$served as kube::Resource>::kind(&())
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                <$served as kube::Resource>::group(&())
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                <$served as kube::Resource>::version(&())
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                <$served as kube::Resource>::plural(&())
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.$($metadata)+
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.$($metadata)+
            }
        }
    };
}
pub(crate) use served_as;

pub(crate) mod age;
pub(crate) mod declared;
pub(crate) mod overview;
pub(crate) mod pause_points;
pub(crate) mod phase;
pub(crate) mod plain;
pub(crate) mod pod;
pub(crate) mod revisions;
pub(crate) mod state;
pub(crate) mod tree;
