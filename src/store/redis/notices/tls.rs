//! TLS for the client that carries notices, by the same certificates as the others.

use fred::types::config::{TlsConfig, TlsConnector};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::super::target::RedisTarget;

/// What `target` goes by; none where it is reached without TLS.
///
/// # Errors
/// When the system has no certificates, or one of those given cannot be used.
pub(super) fn config(target: &RedisTarget) -> Result<Option<TlsConfig>, String> {
    if !target.url().is_tls() {
        return Ok(None);
    }
    let certificates = target.certificates();
    let trusted = ClientConfig::builder().with_root_certificates(roots(certificates.root_cert.as_deref())?);
    let config = match &certificates.client_tls {
        None => trusted.with_no_client_auth(),
        Some(client) => {
            let chain = read(&client.client_cert)?;
            let key = PrivateKeyDer::from_pem_slice(&client.client_key).map_err(|error| error.to_string())?;
            trusted
                .with_client_auth_cert(chain, key)
                .map_err(|error| error.to_string())?
        }
    };
    Ok(Some(TlsConnector::from(config).into()))
}

fn roots(given: Option<&[u8]>) -> Result<RootCertStore, String> {
    let certificates = match given {
        Some(pem) => read(pem)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(String::from(
            "there is no authority that Redis could be trusted by",
        ));
    }
    Ok(roots)
}

fn read(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}
