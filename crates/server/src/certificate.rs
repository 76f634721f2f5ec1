//! The names in a client's certificate, and whether a connection is what an account's REQUIRE asks for.
//!
//! Neighbours: `stream` has the connection's certificate; `login` asks here after the password. **Invariants**: rustls
//! has verified the certificate against `ssl_ca` before it comes here; one that cannot be read has no names, and lets
//! nobody in who has to have one.

use std::fmt::Write as _;

use esker_sql::accounts::policy::Transport;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

/// What is known of an encrypted connection.
pub(crate) struct Encrypted<'a> {
    /// The suite, as OpenSSL calls it.
    pub(crate) cipher: &'a str,
    /// The client's certificate, if it has shown one.
    pub(crate) certificate: Option<&'a [u8]>,
}

/// Is the connection (`None`: in the clear) what REQUIRE asks for?
pub(crate) fn suits(required: &Transport, connection: Option<&Encrypted<'_>>) -> bool {
    let Some(connection) = connection else {
        return *required == Transport::Any;
    };
    match required {
        Transport::Any | Transport::Tls => true,
        Transport::Certificate => connection.certificate.is_some(),
        Transport::Specified {
            subject,
            issuer,
            cipher,
        } => {
            let is_cipher = cipher.as_ref().is_none_or(|c| c == connection.cipher);
            let wanted = [subject, issuer];
            is_cipher && (wanted.iter().all(|name| name.is_none()) || has(wanted, connection))
        }
    }
}

/// Are subject and issuer of the certificate those that are named?
fn has(wanted: [&Option<String>; 2], connection: &Encrypted<'_>) -> bool {
    let Some((_, certificate)) = connection
        .certificate
        .and_then(|der| X509Certificate::from_der(der).ok())
    else {
        return false;
    };
    let names = [certificate.subject(), certificate.issuer()];
    let mut pairs = wanted.into_iter().zip(names);
    pairs.all(|(wanted, name)| wanted.as_ref().is_none_or(|w| *w == one_line(name)))
}

/// A name as OpenSSL writes it in one line: `/C=SE/O=Example/CN=client`.
fn one_line(name: &X509Name<'_>) -> String {
    let mut line = String::new();
    for attribute in name.iter_attributes() {
        let oid = attribute.attr_type();
        let short = match oid2abbrev(oid, oid_registry()) {
            Ok(short) => short.to_owned(),
            Err(_) => oid.to_id_string(),
        };
        line.push('/');
        line.push_str(&short);
        line.push('=');
        for byte in attribute.as_slice() {
            match byte {
                b' '..=b'~' => line.push(char::from(*byte)),
                _ => write!(line, "\\x{byte:02X}").expect("a String takes everything"),
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, Issuer, KeyPair};

    use super::*;

    /// A certificate of `/C=SE/O=Käse & Co/CN=client`, issued by `/CN=authority`.
    fn certificate() -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::default();
        authority.distinguished_name = rcgen::DistinguishedName::new();
        authority
            .distinguished_name
            .push(DnType::CommonName, "authority");
        let issuer = Issuer::new(authority, KeyPair::generate().expect("a key"));
        let mut params = CertificateParams::default();
        let mut name = rcgen::DistinguishedName::new();
        name.push(DnType::CountryName, "SE");
        name.push(DnType::OrganizationName, "Käse & Co");
        name.push(DnType::CommonName, "client");
        params.distinguished_name = name;
        let made = params.signed_by(&key, &issuer).expect("a certificate");
        made.der().to_vec()
    }

    fn specified(subject: Option<&str>, issuer: Option<&str>, cipher: Option<&str>) -> Transport {
        let text = |name: Option<&str>| name.map(str::to_owned);
        Transport::Specified {
            subject: text(subject),
            issuer: text(issuer),
            cipher: text(cipher),
        }
    }

    #[test]
    fn require_compares_names_as_openssl_writes_them() {
        let der = certificate();
        let shown = Encrypted {
            cipher: "TLS_AES_256_GCM_SHA384",
            certificate: Some(&der),
        };
        let bare = Encrypted {
            certificate: None,
            ..shown
        };
        let broken = Encrypted {
            certificate: Some(&der[..der.len() / 2]),
            ..shown
        };
        let subject = Some(r"/C=SE/O=K\xC3\xA4se & Co/CN=client");
        let issuer = Some("/CN=authority");
        let cipher = Some("TLS_AES_256_GCM_SHA384");
        // Required; with the certificate, without one, with one that cannot be read, in the clear.
        let cells = [
            (Transport::Any, [true, true, true, true]),
            (Transport::Tls, [true, true, true, false]),
            (Transport::Certificate, [true, false, true, false]),
            (specified(subject, None, None), [true, false, false, false]),
            (specified(None, issuer, None), [true, false, false, false]),
            (
                specified(subject, issuer, cipher),
                [true, false, false, false],
            ),
            (specified(None, None, cipher), [true, true, true, false]),
            (specified(None, None, Some("x")), [false; 4]),
            (specified(subject, issuer, Some("x")), [false; 4]),
            (specified(Some("/CN=client"), None, None), [false; 4]),
            (specified(subject, Some("/CN=other"), None), [false; 4]),
            (specified(issuer, None, None), [false; 4]),
        ];
        for (required, expected) in cells {
            let connections = [Some(&shown), Some(&bare), Some(&broken), None];
            assert_eq!(
                connections.map(|c| suits(&required, c)),
                expected,
                "{required:?}"
            );
        }
    }
}
