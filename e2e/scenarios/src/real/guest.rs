//! A namespace in an external cluster. It is removed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;

use crate::kubeconfig;

/// The namespace. Dropping it deletes the namespace.
pub(super) struct Guest {
    /// The kubeconfig of the cluster with this namespace.
    pub(super) kubeconfig: String,
    file: PathBuf,
    namespace: String,
}

impl Guest {
    /// Creates the namespace. The kubeconfig moves, so relative paths in it do not work.
    pub(super) async fn new(theirs: &str, namespace: &str, folder: &Path) -> Result<Self> {
        let mut parsed = Kubeconfig::from_yaml(theirs).context("cannot read the kubeconfig")?;
        for context in parsed.contexts.iter_mut().filter_map(|named| named.context.as_mut()) {
            context.namespace = Some(namespace.to_owned());
        }
        let kubeconfig = serde_json::to_string(&parsed).context("cannot write the kubeconfig")?;
        let file = folder.join("guest.kubeconfig");
        kubeconfig::write_private(&file, &kubeconfig)?;
        let namespaces: Api<Namespace> = Api::all(kubeconfig::client(&kubeconfig, "scenario").await?);
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        namespaces.create(&PostParams::default(), &object).await.context("cannot make a namespace")?;
        Ok(Self { kubeconfig, file, namespace: namespace.to_owned() })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut kubectl = Command::new(crate::kubectl::program());
        kubectl.arg("--kubeconfig").arg(&self.file).args(["delete", "namespace", "--wait=false"]);
        // Best effort: only a namespace of a test cluster would remain, with our name.
        drop(kubectl.arg(&self.namespace).stdout(Stdio::null()).stderr(Stdio::null()).status());
    }
}
