//! An authority of the cluster: its certificate and key, and the certificates that it signs.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::time::Wall;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::exit::{CliError, ExitKind};
use crate::key::hex;
use crate::request;

/// How long an authority is valid.
const AUTHORITY_TERM: Duration = Duration::from_secs(20 * 365 * 24 * 3_600);
/// How long a certificate of a node is valid. It is renewed long before.
const LEAF_TERM: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Certificates are valid from a while ago, for clocks that are behind.
const SKEW: Duration = Duration::from_secs(3_600);

/// An authority.
pub(super) struct Authority {
    /// Its name in certificates.
    name: String,
    pub(super) certificate: CertificateDer<'static>,
    pub(super) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// An authority as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthorityRecord {
    name: String,
    /// In PEM.
    certificate: String,
    /// In PEM.
    key: String,
}

/// What a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeafNames {
    /// The URI of the life of a node.
    pub(crate) life: Option<String>,
    /// Host names and addresses, without ports.
    pub(crate) hosts: Vec<String>,
}

/// A certificate with its key, as TLS uses it.
pub(crate) type LeafCertificate = Arc<CertifiedKey>;

impl Authority {
    pub(super) fn create(now: Wall) -> Result<Self, CliError> {
        let number: [u8; 4] = request::chance()?;
        let name = format!("Evenkeel cluster {}", hex(&number));
        Self::with_name(name, now)
            .map_err(|e| CliError::new(ExitKind::Failed, format!("no authority can be made: {e}")))
    }

    fn with_name(name: String, now: Wall) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = authority_params(&name);
        (params.not_before, params.not_after) = (date(now) - SKEW, date(now) + AUTHORITY_TERM);
        let certificate = params.self_signed(&key)?;
        let (der, pem) = (certificate.der().clone(), certificate.pem());
        Ok(Self { name, certificate: der, pem, issuer: Issuer::new(params, key) })
    }

    pub(super) fn from_record(record: AuthorityRecord) -> Result<Self, String> {
        let AuthorityRecord { name, certificate: pem, key } = record;
        let certificate =
            CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| "a certificate in it is none")?;
        let key = KeyPair::from_pem(&key).map_err(|_| "a key in it is none")?;
        let issuer = Issuer::new(authority_params(&name), key);
        Ok(Self { name, certificate, pem, issuer })
    }

    pub(super) fn record(&self) -> AuthorityRecord {
        let (name, certificate) = (self.name.clone(), self.pem.clone());
        AuthorityRecord { name, certificate, key: self.issuer.key().serialize_pem() }
    }

    pub(super) fn issue(&self, names: &LeafNames, now: Wall) -> Result<LeafCertificate, String> {
        self.signed(names, now).map_err(|e| e.to_string())
    }

    fn signed(&self, names: &LeafNames, now: Wall) -> Result<LeafCertificate, Box<dyn std::error::Error>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Evenkeel node");
        params.subject_alt_names = subject_names(names)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (date(now) - SKEW, date(now) + LEAF_TERM);
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let key = aws_lc_rs::sign::any_ecdsa_type(&key)?;
        // With the authority, for a node that knows only its fingerprint yet.
        Ok(Arc::new(CertifiedKey::new(vec![certificate.der().clone(), self.certificate.clone()], key)))
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn subject_names(names: &LeafNames) -> Result<Vec<SanType>, rcgen::Error> {
    let hosts = names.hosts.iter().map(|host| match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => Ok(SanType::IpAddress(ip)),
        Err(_) => Ok(SanType::DnsName(host.as_str().try_into()?)),
    });
    let life = names.life.iter().map(|life| Ok(SanType::URI(life.as_str().try_into()?)));
    hosts.chain(life).collect()
}

/// The date of a moment, in whole seconds.
fn date(now: Wall) -> OffsetDateTime {
    let seconds = now.0.div_euclid(1_000);
    OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}
