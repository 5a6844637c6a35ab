//! The commands that start the servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::children::Children;
use super::identity::{self, Identity, User};
use crate::{Setting, free_port, kubeconfig};

/// Their process names.
pub(super) const ETCD: &str = "etcd";
pub(super) const API_SERVER: &str = "kube-apiserver";
pub(super) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(super) const SCHEDULER: &str = "kube-scheduler";
const CRD_SERVER: &str = "crd-server";

/// The audit policy of the API server.
const POLICY: &str = include_str!("audit-policy.yaml");

/// Without leader election and without a port.
pub(super) fn quiet(command: &mut Command, children: &Children) {
    command.args(["--bind-address=127.0.0.1", "--secure-port=0", "--leader-elect=false"]);
    if children.minor() < 24 {
        // Newer versions have no insecure port.
        command.arg("--port=0");
    }
}

/// Starts etcd. Returns its URL.
pub(super) fn start_etcd(children: &mut Children, folder: &Path, setting: &Setting) -> Result<String> {
    let client = format!("http://127.0.0.1:{}", free_port()?);
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut etcd = children.command(ETCD);
    etcd.arg(format!("--data-dir={}", folder.join("etcd").display()))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"));
    if !setting.faults {
        // The data is deleted with the test.
        etcd.arg("--unsafe-no-fsync");
    }
    children.start(ETCD, etcd)?;
    Ok(client)
}

/// Starts the API server. Returns the path of its audit log.
pub(super) fn start_api_server(
    children: &mut Children,
    folder: &Path,
    port: u16,
    etcd: &str,
    setting: &Setting,
) -> Result<PathBuf> {
    let policy = folder.join("audit-policy.yaml");
    fs::write(&policy, POLICY).context("cannot write the audit policy")?;
    let audit = folder.join("audit.log");
    let file = |name: &str| folder.join(name).display().to_string();
    let mut server = children.command(API_SERVER);
    server
        .arg(format!("--etcd-servers={etcd}"))
        .args([
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
        ])
        .arg(format!("--secure-port={port}"))
        .arg(format!("--tls-cert-file={}", file(identity::SERVER_CERTIFICATE)))
        .arg(format!("--tls-private-key-file={}", file(identity::SERVER_KEY)))
        .arg(format!("--token-auth-file={}", file(identity::TOKENS)))
        .arg("--authorization-mode=RBAC")
        // Like a hardened cluster: a client that sets blockOwnerDeletion needs the permission for it.
        .arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
        .arg("--service-cluster-ip-range=10.0.0.0/24")
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(format!("--service-account-key-file={}", file(identity::ACCOUNT_PUBLIC_KEY)))
        .arg(format!("--service-account-signing-key-file={}", file(identity::ACCOUNT_KEY)))
        .arg(format!("--audit-policy-file={}", policy.display()))
        .arg(format!("--audit-log-path={}", audit.display()))
        .arg("--audit-log-mode=blocking")
        // Without it the file is rotated at 100 MB, and the requests before are missing.
        .arg("--audit-log-maxsize=100000")
        .args(&setting.api_server_arguments);
    if setting.faults {
        server.arg("--storage-media-type=application/json");
    }
    children.start(API_SERVER, server)?;
    Ok(audit)
}

/// Starts Kubernetes' CRD server beside the API server of this kubeconfig, which answers its questions about
/// users.
pub(super) fn start_crd_server(
    children: &mut Children,
    folder: &Path,
    program: &Path,
    (port, etcd, kubeconfig): (u16, &str, &Path),
) -> Result<()> {
    let kubeconfig = kubeconfig.display();
    let mut server = Command::new(program);
    server
        .arg(format!("--etcd-servers={etcd}"))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={port}"))
        .arg(format!("--tls-cert-file={}", folder.join(identity::SERVER_CERTIFICATE).display()))
        .arg(format!("--tls-private-key-file={}", folder.join(identity::SERVER_KEY).display()))
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        // These watch resources that a server as old as 1.20 does not have, and would never become ready.
        .arg("--enable-priority-and-fairness=false")
        .arg(
            "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook,\
             MutatingAdmissionPolicy,ValidatingAdmissionPolicy",
        );
    children.start(CRD_SERVER, server)
}

/// Starts kube-controller-manager and kube-scheduler.
pub(super) fn start_controllers(
    children: &mut Children,
    identity: &Identity,
    folder: &Path,
    setting: &Setting,
) -> Result<()> {
    let kubeconfig = |name: &str, user| -> Result<String> {
        let file = folder.join(format!("{name}.kubeconfig"));
        kubeconfig::write_private(&file, &identity.access(user).kubeconfig("default"))?;
        Ok(format!("--kubeconfig={}", file.display()))
    };
    let mut manager = children.command(CONTROLLER_MANAGER);
    quiet(&mut manager, children);
    // The client limit stays at the default of 20 requests per second: a slower garbage collector exposes
    // more races.
    manager
        .arg(kubeconfig(CONTROLLER_MANAGER, User::ControllerManager)?)
        .arg(format!("--controllers={}", setting.built_in_controllers))
        .arg("--use-service-account-credentials")
        .arg(format!("--service-account-private-key-file={}", folder.join(identity::ACCOUNT_KEY).display()))
        .arg(format!("--root-ca-file={}", folder.join(identity::AUTHORITY).display()))
        .arg("--horizontal-pod-autoscaler-sync-period=2s")
        .args(&setting.controller_manager_arguments);
    children.start(CONTROLLER_MANAGER, manager)?;
    let mut scheduler = children.command(SCHEDULER);
    quiet(&mut scheduler, children);
    scheduler.arg(kubeconfig("kube-scheduler", User::Scheduler)?);
    if children.minor() < 24 {
        scheduler.args(["--kube-api-qps=500", "--kube-api-burst=1000"]);
    }
    children.start(SCHEDULER, scheduler)
}
