//! TLS with a certificate made on first start, or the user's own.
//!
//! Neighbours: `tls_state` reads the settings and keeps the acceptor; files go through `esker-vfs`.
//! **Invariants**: TLS 1.2 and 1.3 only; the private key's file is written before the
//! certificate's, each whole or not at all, so no crash leaves a certificate without its key or half of one; a key that
//! the server has not made is never written over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_vfs::{Env, OpenMode};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CipherSuite, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use crate::listener::StartError;

/// File of the self-made certificate, in the data directory.
pub const CERT_FILE: &str = "server-cert.pem";
/// File of its key.
pub const KEY_FILE: &str = "server-key.pem";
/// Digits of a subject's hash in the name of a file.
const HASH: usize = 8;
/// Most files that are read of a folder of certificates.
const MAX_HASHED: usize = 4096;

pub(crate) fn read(env: &Env, path: &Path) -> std::io::Result<Vec<u8>> {
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

/// First line of a key that the server has made. A crash may leave it without its certificate.
const MADE_HERE: &str = "# Made by the server, with a certificate of its own.\n";

/// Is there a file under this name that the server has not made?
fn has_own(env: &Env, path: &Path) -> Result<bool, StartError> {
    match env.fs.exists(path).map_err(|e| unusable(path, e))? {
        true => {
            let bytes = read(env, path).map_err(|e| unusable(path, e))?;
            Ok(!bytes.starts_with(MADE_HERE.as_bytes()))
        }
        false => Ok(false),
    }
}

/// Makes a self-signed certificate in `dir` unless one is there, or a key that the server has not made.
fn ensure_certificate(env: &Env, dir: &Path) -> Result<(), StartError> {
    let fail = |e: String| StartError::Tls(e);
    if has_own(env, &dir.join(CERT_FILE))? || has_own(env, &dir.join(KEY_FILE))? {
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
        format!("{MADE_HERE}{}", made.signing_key.serialize_pem()).as_bytes(),
    )
    .and_then(|()| write(env, &dir.join(CERT_FILE), made.cert.pem().as_bytes()))
    .and_then(|()| env.fs.sync_dir(dir))
    .map_err(|e| fail(e.to_string()))
}

/// What the variables say about TLS.
pub struct TlsSettings {
    /// `ssl_cert` and `ssl_key`. Relative paths, here and below, begin in the data directory.
    pub cert: String,
    /// The key.
    pub key: String,
    /// May a certificate be made (`auto_generate_certs`)? Only under the default names.
    pub generate: bool,
    /// `tls_version`.
    pub versions: String,
    /// `ssl_cipher`: suites of TLS 1.2; empty: all.
    pub ciphers: String,
    /// `tls_ciphersuites`: suites of TLS 1.3; empty: all.
    pub suites: String,
    /// `ssl_ca`: whose certificates clients may show; empty: nobody is asked for one.
    pub authority: String,
    /// `ssl_crl`: certificates of clients that are void.
    pub revoked: String,
}

/// Loads certificates and keys. None: there is no certificate and none may be made, or `tls_version` is empty.
///
/// # Errors
/// Unreadable or malformed files, unknown versions and suites.
pub fn acceptor(
    env: &Env,
    dir: &Path,
    settings: &TlsSettings,
) -> Result<Option<TlsAcceptor>, StartError> {
    let versions = versions(&settings.versions)?;
    let is_default = (settings.cert.as_str(), settings.key.as_str()) == (CERT_FILE, KEY_FILE);
    if is_default && settings.generate {
        ensure_certificate(env, dir)?;
    }
    let (cert, key) = (&dir.join(&settings.cert), &dir.join(&settings.key));
    let is_there = env.fs.exists(cert).map_err(|e| unusable(cert, e))?;
    let is_named = !settings.cert.is_empty() && !settings.key.is_empty();
    if versions.is_empty() || !is_named || (is_default && !is_there) {
        tracing::warn!("TLS is off: there is no certificate, or tls_version is empty");
        return Ok(None);
    }
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    choose_suites(
        &mut provider,
        &versions,
        (
            &settings.ciphers,
            Some(&*settings.suites).filter(|list| !list.is_empty()),
        ),
    )?;
    let provider = Arc::new(provider);
    let (chain, key_der) = load(env, cert, key)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&versions)
        .map_err(|e| StartError::Tls(e.to_string()))?;
    let builder = match client_verifier(env, dir, provider, settings)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let config = builder
        .with_single_cert(chain, key_der)
        .map_err(|e| unusable(cert, e))?;
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> StartError {
    StartError::Tls(format!("{}: {why}", path.display()))
}

/// A certificate with those that vouch for it, and its key.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn load(env: &Env, cert: &Path, key: &Path) -> Result<Identity, StartError> {
    let chain = certificates(env, cert)?;
    let key_pem = read(env, key).map_err(|e| unusable(key, e))?;
    let key_der = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|e| unusable(key, e))?;
    Ok((chain, key_der))
}

/// The certificates of a PEM file, at least one.
pub(crate) fn certificates(
    env: &Env,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let pem = read(env, path).map_err(|e| unusable(path, e))?;
    let chain = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(path, e))?;
    match chain.is_empty() {
        true => Err(unusable(path, "there is no certificate in it")),
        false => Ok(chain),
    }
}

/// The revocation lists of a PEM file.
pub(crate) fn revocations(
    env: &Env,
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, StartError> {
    let pem = read(env, path).map_err(|e| unusable(path, e))?;
    CertificateRevocationListDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(path, e))
}

/// What OpenSSL would find in a folder: files named by the hash of a subject and a number, as `openssl rehash` names
/// them. `mark` stands before the number: nothing for certificates, `r` for revocation lists.
///
/// # Errors
/// The folder is unreadable, or has too many such files.
pub(crate) fn hashed_files(
    env: &Env,
    folder: &Path,
    mark: &str,
) -> Result<Vec<PathBuf>, StartError> {
    let mut names = env.fs.list(folder).map_err(|e| unusable(folder, e))?;
    names.retain(|name| is_hashed(name, mark));
    if names.len() > MAX_HASHED {
        return Err(unusable(folder, format!("more than {MAX_HASHED} files")));
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| folder.join(name)).collect())
}

/// `0a1b2c3d.0`, or `0a1b2c3d.r0` with the mark `r`.
fn is_hashed(name: &str, mark: &str) -> bool {
    let Some((hash, number)) = name.split_once('.') else {
        return false;
    };
    let number = number.strip_prefix(mark).unwrap_or_default();
    hash.len() == HASH
        && hash.bytes().all(|b| b.is_ascii_hexdigit())
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit())
}

/// The protocol versions of `tls_version`.
pub(crate) fn versions(list: &str) -> Result<Vec<&'static SupportedProtocolVersion>, StartError> {
    let words = list
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty());
    words
        .map(|word| match word.to_ascii_lowercase().as_str() {
            "tlsv1.2" => Ok(&rustls::version::TLS12),
            "tlsv1.3" => Ok(&rustls::version::TLS13),
            _ => {
                let text = format!("tls_version: '{word}' is none of TLSv1.2, TLSv1.3");
                Err(StartError::Tls(text))
            }
        })
        .collect()
}

/// Leaves the suites of TLS 1.2 and TLS 1.3 that are named; an empty list of the former, and no list of the latter,
/// name all.
pub(crate) fn choose_suites(
    provider: &mut CryptoProvider,
    versions: &[&SupportedProtocolVersion],
    (ciphers, suites): (&str, Option<&str>),
) -> Result<(), StartError> {
    let all: Vec<_> = std::mem::take(&mut provider.cipher_suites);
    let ciphers = Some(ciphers).filter(|list| !list.is_empty());
    for (version, name, list) in [
        (&rustls::version::TLS12, "ssl_cipher", ciphers),
        (&rustls::version::TLS13, "tls_ciphersuites", suites),
    ] {
        let wanted: Vec<_> = list
            .unwrap_or_default()
            .split([':', ','])
            .map(str::trim)
            .collect();
        let ours = all.iter().filter(|suite| suite.version() == version);
        let known: Vec<_> = ours
            .map(|suite| (suite_name(suite.suite()), *suite))
            .collect();
        let kept = known
            .iter()
            .filter(|(name, _)| list.is_none() || wanted.contains(&name.as_str()));
        let kept: Vec<_> = kept.map(|(_, suite)| *suite).collect();
        if kept.is_empty() && versions.contains(&version) {
            let known: Vec<_> = known.into_iter().map(|(name, _)| name).collect();
            let text = format!(
                "{name}: none of '{}' is here; there are {}",
                list.unwrap_or_default(),
                known.join(":")
            );
            return Err(StartError::Tls(text));
        }
        provider.cipher_suites.extend(kept);
    }
    Ok(())
}

/// A suite as OpenSSL and MySQL call it: `ECDHE-RSA-AES256-GCM-SHA384`, `TLS_AES_256_GCM_SHA384`.
pub(crate) fn suite_name(suite: CipherSuite) -> String {
    let name = format!("{suite:?}");
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => name
            .trim_start_matches("TLS_")
            .replace("_WITH_", "_")
            .replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
            .replace("AES_", "AES")
            .replace('_', "-"),
    }
}

/// Checks the certificates of clients that have one; whoever has none may still log in.
fn client_verifier(
    env: &Env,
    dir: &Path,
    provider: Arc<CryptoProvider>,
    settings: &TlsSettings,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, StartError> {
    if settings.authority.is_empty() {
        return match settings.revoked.is_empty() {
            true => Ok(None),
            false => Err(StartError::Tls("ssl_crl needs ssl_ca".to_owned())),
        };
    }
    let path = &dir.join(&settings.authority);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(env, path)? {
        roots.add(certificate).map_err(|e| unusable(path, e))?;
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if !settings.revoked.is_empty() {
        let lists = revocations(env, &dir.join(&settings.revoked))?;
        builder = builder.with_crls(lists).allow_unknown_revocation_status();
    }
    let verifier = builder.allow_unauthenticated().build();
    Ok(Some(verifier.map_err(|e| unusable(path, e))?))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> TlsSettings {
        TlsSettings {
            cert: CERT_FILE.to_owned(),
            key: KEY_FILE.to_owned(),
            generate: true,
            versions: "TLSv1.2,TLSv1.3".to_owned(),
            ciphers: String::new(),
            suites: String::new(),
            authority: String::new(),
            revoked: String::new(),
        }
    }

    #[test]
    fn suites_have_the_names_of_openssl() {
        let suites = rustls::crypto::aws_lc_rs::default_provider().cipher_suites;
        let mut names: Vec<_> = suites.iter().map(|s| suite_name(s.suite())).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-CHACHA20-POLY1305",
                "TLS_AES_128_GCM_SHA256",
                "TLS_AES_256_GCM_SHA384",
                "TLS_CHACHA20_POLY1305_SHA256",
            ]
        );
    }

    #[test]
    fn files_of_folders_have_the_names_of_openssl() {
        for (name, mark, is_one) in [
            ("0a1b2c3d.0", "", true),
            ("0a1b2c3d.12", "", true),
            ("0a1b2c3d.r0", "r", true),
            ("0a1b2c3d.r0", "", false),
            ("0a1b2c3d.0", "r", false),
            ("0a1b2c3d.", "", false),
            ("0a1b2c3.0", "", false),
            ("0a1b2c3x.0", "", false),
            ("ca.pem", "", false),
        ] {
            assert_eq!(is_hashed(name, mark), is_one, "{name}");
        }
    }

    #[test]
    fn a_key_of_ones_own_is_not_written_over() {
        let folder = tempfile::tempdir().expect("folder");
        let (key, cert) = (folder.path().join(KEY_FILE), folder.path().join(CERT_FILE));
        std::fs::write(&key, "somebody's").expect("write");
        assert!(
            acceptor(&Env::os(), folder.path(), &settings())
                .expect("fine")
                .is_none()
        );
        assert_eq!(std::fs::read(&key).expect("read"), b"somebody's");
        // One that was made here, and whose certificate a crash has taken, is made anew.
        std::fs::remove_file(&key).expect("remove");
        for _ in 0..2 {
            assert!(
                acceptor(&Env::os(), folder.path(), &settings())
                    .expect("fine")
                    .is_some()
            );
            std::fs::remove_file(&cert).expect("remove");
        }
    }

    #[test]
    fn settings_are_kept_or_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let made = |change: &dyn Fn(&mut TlsSettings)| {
            let mut settings = settings();
            change(&mut settings);
            acceptor(&Env::os(), folder.path(), &settings)
        };
        assert!(made(&|s| s.generate = false).expect("fine").is_none());
        assert!(made(&|_| ()).expect("fine").is_some());
        assert!(
            made(&|s| s.generate = false).expect("fine").is_some(),
            "it was made before"
        );
        assert!(
            made(&|s| s.versions = String::new())
                .expect("fine")
                .is_none()
        );
        assert!(
            made(&|s| s.versions = "TLSv1.3".into())
                .expect("fine")
                .is_some()
        );
        for bad in [
            made(&|s| s.versions = "TLSv1.1,TLSv1.2".into()),
            made(&|s| s.ciphers = "DHE-RSA-AES256-SHA".into()),
            made(&|s| s.suites = "TLS_AES_128_CCM_SHA256".into()),
            made(&|s| s.authority = "nothing.pem".into()),
            made(&|s| s.revoked = "nothing.pem".into()),
        ] {
            assert!(matches!(bad, Err(StartError::Tls(_))));
        }
        // The suites of a version that is not spoken do not matter.
        let other = made(&|s| {
            s.versions = "TLSv1.3".into();
            s.ciphers = "DHE-RSA-AES256-SHA".into();
        });
        assert!(other.expect("fine").is_some());
    }
}
