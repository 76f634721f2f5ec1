//! TLS with a certificate made on first start, or the user's own.
//!
//! Neighbours: `listener` builds the acceptor once; files go through `esker-vfs`.
//! **Invariants**: TLS 1.2 and 1.3 only; the private key's file is written before the
//! certificate's, each whole or not at all, so no crash leaves a certificate without its key or half of one.

use std::path::Path;
use std::sync::Arc;

use esker_vfs::{Env, OpenMode};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::listener::StartError;

/// File of the self-made certificate, in the data directory.
pub const CERT_FILE: &str = "server-cert.pem";
/// File of its key.
pub const KEY_FILE: &str = "server-key.pem";

fn read(env: &Env, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = env.fs.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(std::io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn write(env: &Env, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension("pem.new");
    let file = env.fs.open(&fresh, OpenMode::CreateOrOpen)?;
    file.set_len(0)?;
    file.write_all_at(bytes, 0)?;
    file.sync_all()?;
    env.fs.rename(&fresh, path)
}

/// Makes a self-signed certificate in `dir` unless one is there.
fn ensure_certificate(env: &Env, dir: &Path) -> Result<(), StartError> {
    let fail = |e: String| StartError::Tls(e);
    if env
        .fs
        .exists(&dir.join(CERT_FILE))
        .map_err(|e| fail(e.to_string()))?
    {
        return Ok(());
    }
    let names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ];
    let made = rcgen::generate_simple_self_signed(names).map_err(|e| fail(e.to_string()))?;
    write(
        env,
        &dir.join(KEY_FILE),
        made.signing_key.serialize_pem().as_bytes(),
    )
    .and_then(|()| write(env, &dir.join(CERT_FILE), made.cert.pem().as_bytes()))
    .and_then(|()| env.fs.sync_dir(dir))
    .map_err(|e| fail(e.to_string()))
}

/// Loads the certificate chain and key (made on first start when `cert` is None).
///
/// # Errors
/// Unreadable or malformed files.
pub fn acceptor(
    env: &Env,
    dir: &Path,
    own: Option<(&Path, &Path)>,
) -> Result<TlsAcceptor, StartError> {
    let made = (dir.join(CERT_FILE), dir.join(KEY_FILE));
    let (cert, key) = match own {
        Some(paths) => paths,
        None => {
            ensure_certificate(env, dir)?;
            (made.0.as_path(), made.1.as_path())
        }
    };
    let (chain, key_der) = load(env, cert, key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| StartError::Tls(e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key_der)
        .map_err(|e| unusable(cert, e))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> StartError {
    StartError::Tls(format!("{}: {why}", path.display()))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn load(env: &Env, cert: &Path, key: &Path) -> Result<Identity, StartError> {
    let cert_pem = read(env, cert).map_err(|e| unusable(cert, e))?;
    let key_pem = read(env, key).map_err(|e| unusable(key, e))?;
    let chain = CertificateDer::pem_slice_iter(&cert_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(cert, e))?;
    if chain.is_empty() {
        return Err(unusable(cert, "there is no certificate in it"));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|e| unusable(key, e))?;
    Ok((chain, key_der))
}

/// What would keep a start from using the certificate in the data directory; none is made at the start.
///
/// # Errors
/// The reason, with the file.
pub fn check(env: &Env, dir: &Path) -> Result<(), StartError> {
    let (cert, key) = (dir.join(CERT_FILE), dir.join(KEY_FILE));
    match env.fs.exists(&cert).map_err(|e| unusable(&cert, e))? {
        true => load(env, &cert, &key).map(drop),
        false => Ok(()),
    }
}
