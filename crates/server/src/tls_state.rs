//! What new connections get of TLS: the acceptor, and the settings and dates that it was made of.
//!
//! Neighbours: `tls` loads the files; `listener` makes it at the start, `host` anew at ALTER INSTANCE RELOAD TLS and
//! SIGHUP; `connection` accepts with it.
//! **Invariant**: acceptor and status change together, so `Current_tls_…` tells what is in use, whatever variables say.

use std::path::Path;

use esker_vfs::Env;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::listener::StartError;
use crate::tls::{self, TlsSettings};

/// Status variables, and the variables that they are taken from.
const CURRENT: [(&str, &str); 9] = [
    ("Current_tls_ca", "ssl_ca"),
    ("Current_tls_capath", "ssl_capath"),
    ("Current_tls_cert", "ssl_cert"),
    ("Current_tls_cipher", "ssl_cipher"),
    ("Current_tls_ciphersuites", "tls_ciphersuites"),
    ("Current_tls_crl", "ssl_crl"),
    ("Current_tls_crlpath", "ssl_crlpath"),
    ("Current_tls_key", "ssl_key"),
    ("Current_tls_version", "tls_version"),
];

/// TLS as new connections get it.
pub(crate) struct Tls {
    /// None: there is no TLS.
    pub(crate) acceptor: Option<TlsAcceptor>,
    /// `Current_tls_…` and `Ssl_server_…`.
    pub(crate) status: Vec<(&'static str, String)>,
}

impl Tls {
    /// What the variables say. Without an acceptor where there is no certificate, or `ssl` is off.
    ///
    /// # Errors
    /// Unreadable files, and settings that cannot be kept.
    pub(crate) fn load(
        dir: &Path,
        env: &Env,
        variable: &dyn Fn(&str) -> String,
        is_on: &dyn Fn(&str) -> bool,
    ) -> Result<Self, StartError> {
        let mut loaded = Self::none(variable);
        if !is_on("ssl") {
            return Ok(loaded);
        }
        let settings = TlsSettings {
            cert: variable("ssl_cert"),
            key: variable("ssl_key"),
            generate: is_on("auto_generate_certs"),
            versions: variable("tls_version"),
            ciphers: variable("ssl_cipher"),
            suites: variable("tls_ciphersuites"),
            authority: variable("ssl_ca"),
            revoked: variable("ssl_crl"),
        };
        loaded.acceptor = tls::acceptor(env, dir, &settings)?;
        if loaded.acceptor.is_some() {
            let cert = dir.join(settings.cert);
            loaded.status.extend(validity(env, &cert)?);
        } else if is_on("require_secure_transport") {
            let text =
                "require_secure_transport=ON, and there is no TLS: no certificate, or no version";
            return Err(StartError::Tls(text.to_owned()));
        }
        Ok(loaded)
    }

    /// What it is made of.
    pub(crate) fn variables() -> [&'static str; CURRENT.len()] {
        CURRENT.map(|(_, variable)| variable)
    }

    /// No TLS, with what the variables say.
    pub(crate) fn none(variable: &dyn Fn(&str) -> String) -> Self {
        let status = CURRENT.map(|(name, from)| (name, variable(from)));
        Self {
            acceptor: None,
            status: status.to_vec(),
        }
    }
}

/// From when and until when the server's certificate holds.
fn validity(env: &Env, cert: &Path) -> Result<[(&'static str, String); 2], StartError> {
    let chain = tls::certificates(env, cert)?;
    let (_, first) = X509Certificate::from_der(&chain[0])
        .map_err(|e| StartError::Tls(format!("{}: {e}", cert.display())))?;
    let validity = first.validity();
    Ok([
        ("Ssl_server_not_before", printed(validity.not_before)),
        ("Ssl_server_not_after", printed(validity.not_after)),
    ])
}

/// As OpenSSL prints it: `Nov  8 21:31:53 2036 GMT`.
fn printed(time: ASN1Time) -> String {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let at = time.to_datetime();
    let (hour, minute, second) = at.to_hms();
    let month = MONTHS[u8::from(at.month()) as usize - 1];
    let (day, year) = (at.day(), at.year());
    format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_openssl_does() {
        let at = |seconds| printed(ASN1Time::from_timestamp(seconds).expect("a time"));
        assert_eq!(at(0), "Jan  1 00:00:00 1970 GMT");
        assert_eq!(at(2_110_398_713), "Nov 15 21:51:53 2036 GMT");
    }
}
