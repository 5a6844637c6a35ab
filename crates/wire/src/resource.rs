/// The resource of a type that the API server serves as another type: that of the other one. The last
/// argument is the field with the metadata.
#[macro_export]
macro_rules! served_as {
    ($kind:ty, $served:ty, $($metadata:tt)+) => {
        impl ::kube::Resource for $kind {
            type DynamicType = ();
            type Scope = <$served as ::kube::Resource>::Scope;

            fn kind((): &()) -> ::std::borrow::Cow<'_, str> {
                <$served as ::kube::Resource>::kind(&())
            }

            fn group((): &()) -> ::std::borrow::Cow<'_, str> {
                <$served as ::kube::Resource>::group(&())
            }

            fn version((): &()) -> ::std::borrow::Cow<'_, str> {
                <$served as ::kube::Resource>::version(&())
            }

            fn plural((): &()) -> ::std::borrow::Cow<'_, str> {
                <$served as ::kube::Resource>::plural(&())
            }

            fn meta(&self) -> &::kube::core::ObjectMeta {
                &self.$($metadata)+
            }

            fn meta_mut(&mut self) -> &mut ::kube::core::ObjectMeta {
                &mut self.$($metadata)+
            }
        }
    };
}
