//! The identities of a control plane: a certificate authority, the server certificate, the key of service
//! accounts, and a token for each user.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::kubeconfig::{Access, write_private};

pub(super) const AUTHORITY: &str = "ca.crt";
pub(super) const SERVER_CERTIFICATE: &str = "server.crt";
pub(super) const SERVER_KEY: &str = "server.key";
pub(super) const ACCOUNT_KEY: &str = "service-accounts.key";
pub(super) const ACCOUNT_PUBLIC_KEY: &str = "service-accounts.pub";
pub(super) const TOKENS: &str = "tokens.csv";

/// Users with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Admin,
    Controller,
    ControllerManager,
    Scheduler,
    Kubelet,
}

/// The users, with their names and groups. Kubernetes binds the roles of its components to these names.
const USERS: [(User, &str, &str); 5] = [
    (User::Admin, "admin", "system:masters"),
    (User::Controller, "ordered-controller-manager", "system:masters"),
    (User::ControllerManager, "system:kube-controller-manager", ""),
    (User::Scheduler, "system:kube-scheduler", ""),
    (User::Kubelet, "kubelet-stand-in", "system:masters"),
];

/// The tokens and the certificate authority of a control plane.
pub(super) struct Identity {
    url: String,
    authority: String,
    tokens: Vec<(User, String)>,
}

impl Identity {
    /// Creates all credentials and writes the files for the servers.
    pub(super) fn make(folder: &Path, port: u16) -> Result<Self> {
        let authority = certificates(folder).context("cannot make certificates")?;
        let (mut tokens, mut lines) = (Vec::new(), Vec::new());
        for (user, name, groups) in USERS {
            let token = format!("{:032x}", rand::random::<u128>());
            lines.push(format!("{token},{name},{name},\"{groups}\""));
            tokens.push((user, token));
        }
        write_private(&folder.join(TOKENS), &lines.join("\n"))?;
        Ok(Self { url: format!("https://127.0.0.1:{port}"), authority, tokens })
    }

    pub(super) fn access(&self, user: User) -> Access {
        let token = self.tokens.iter().find(|(owner, _)| *owner == user).map(|(_, token)| token.clone());
        Access {
            url: self.url.clone(),
            authority: Some(self.authority.clone()),
            token: token.unwrap_or_default(),
        }
    }
}

/// Writes the files and returns the CA certificate in base64.
fn certificates(folder: &Path) -> Result<String> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "e2e authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut server = CertificateParams::new(names.to_vec())?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &authority)?;
    fs::write(folder.join(AUTHORITY), authority.pem())?;
    fs::write(folder.join(SERVER_CERTIFICATE), certificate.pem() + &authority.pem())?;
    write_private(&folder.join(SERVER_KEY), &key.serialize_pem())?;
    let accounts = KeyPair::generate()?;
    write_private(&folder.join(ACCOUNT_KEY), &accounts.serialize_pem())?;
    fs::write(folder.join(ACCOUNT_PUBLIC_KEY), accounts.public_key_pem())?;
    // Base64, as in kubeconfigs.
    Ok(STANDARD.encode(authority.pem()))
}
