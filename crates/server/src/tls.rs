//! TLS for whoever comes by TCP, where the owner has a certificate.

use std::sync::Arc;

use engine::TlsFiles;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;

/// Reads certificate and key; both must fit each other.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let failed = |path: &std::path::Path, why: String| ServeError::Tls { path: path.to_path_buf(), why };
    let read = CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect);
    let chain: Vec<CertificateDer<'static>> = read.map_err(|error| failed(&files.certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(&files.certificate, "there is no certificate in it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| failed(&files.key, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
