//! A replica that shows a certificate, for an account with REQUIRE X509 or SUBJECT, and believes only its source's
//! authority.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::{REPLICA, SOURCE, catch_up, change, contents, status, write};
use crate::common::{Ask, Server, eventually, output, python};

/// Number of the certificates that an authority signs.
const SERIAL: u64 = 7;

/// An authority, with its certificate in a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let file = dir.join(format!("{name}.pem"));
        let made = params.self_signed(&key).expect("a certificate");
        std::fs::write(&file, made.pem()).expect("written");
        let issuer = Issuer::new(params, key);
        Self { issuer, file }
    }

    /// A certificate of this name, and its key.
    fn sign(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(hosts).expect("names");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(SERIAL));
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("a certificate");
        let files = (
            dir.join(format!("{name}-cert.pem")),
            dir.join(format!("{name}-key.pem")),
        );
        std::fs::write(&files.0, made.pem()).expect("written");
        std::fs::write(&files.1, key.serialize_pem()).expect("written");
        files
    }

    /// A list that says that the certificates of `sign` are void.
    fn revoke(&self) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(SERIAL),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2126, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("a list");
        list.pem().expect("PEM")
    }
}

#[test]
fn authorities_and_void_certificates_are_found_in_folders() {
    let dir = tempfile::tempdir().expect("folder");
    let own = Authority::new(dir.path(), "authority");
    let server = own.sign(dir.path(), "source");
    let folder = |name: &str, files: &[(&str, &[u8])]| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).expect("folder");
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).expect("written");
        }
        folder
    };
    let certificate = std::fs::read(&own.file).expect("read");
    let (named, unnamed) = (
        folder("named", &[("0a1b2c3d.0", &certificate)]),
        folder("unnamed", &[("authority.pem", &certificate)]),
    );
    let void = folder("void", &[("0a1b2c3d.r0", own.revoke().as_bytes())]);
    let tls = [
        format!("--ssl-cert={}", server.0.display()),
        format!("--ssl-key={}", server.1.display()),
    ];
    let options: Vec<&str> = SOURCE.into_iter().chain(tls.iter().map(|o| &**o)).collect();
    let source = Server::start(&dir.path().join("source"), &options);
    source.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); SET sql_log_bin = 0; \
         CREATE USER repl IDENTIFIED BY 'secret-word'; GRANT REPLICATION SLAVE ON *.* TO repl",
    );
    write(&mut source.connect(), 0..10);
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut there = replica.connect();
    let options = "SOURCE_AUTO_POSITION = 1, SOURCE_SSL = 1, SOURCE_SSL_VERIFY_SERVER_CERT = 1";
    change(&mut there, source.port, options);
    for (authorities, revoked, why) in [
        (&unnamed, None, Some("no certificate")),
        (&named, Some(&void), Some("Revoked")),
        (&named, None, None),
    ] {
        let revoked = revoked.map(|path| path.display().to_string());
        there.run(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_SSL_CAPATH = '{}', SOURCE_SSL_CRLPATH = '{}'; START REPLICA",
            authorities.display(),
            revoked.unwrap_or_default(),
        ));
        match why {
            Some(why) => {
                eventually("it is refused", || status(&mut there)[34] == "2026");
                assert!(status(&mut there)[35].contains(why), "{why}");
            }
            None => catch_up(&replica, &contents(&mut source.connect())),
        }
        there.run("STOP REPLICA");
    }
    let shown = format!("{}||NULL", named.display());
    let sql = "SELECT ssl_ca_path, ssl_crl_path, tls_ciphersuites FROM \
               performance_schema.replication_connection_configuration";
    assert_eq!(there.lines(sql), [shown]);
}

#[test]
fn a_replica_shows_the_certificate_that_its_account_requires() {
    let dir = tempfile::tempdir().expect("folder");
    let own = Authority::new(dir.path(), "authority");
    let strange = Authority::new(dir.path(), "stranger");
    let server = own.sign(dir.path(), "source");
    let client = own.sign(dir.path(), "replica");
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let tls = [
        // effect: ssl_ca, ssl_key
        option("ssl-ca", &own.file),
        option("ssl-cert", &server.0),
        option("ssl-key", &server.1),
    ];
    let options: Vec<&str> = SOURCE.into_iter().chain(tls.iter().map(|o| &**o)).collect();
    let source = Server::start(&dir.path().join("source"), &options);
    source.connect().run(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); \
         SET sql_log_bin = 0; CREATE USER any IDENTIFIED BY 'pw' REQUIRE X509; \
         CREATE USER this IDENTIFIED BY 'pw' REQUIRE SUBJECT '/CN=replica'; \
         CREATE USER other IDENTIFIED BY 'pw' REQUIRE SUBJECT '/CN=other'; \
         GRANT REPLICATION SLAVE ON *.* TO any, this, other",
    );
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut there = replica.connect();
    let shown = format!(
        "SOURCE_SSL_CERT = '{}', SOURCE_SSL_KEY = '{}'",
        client.0.display(),
        client.1.display()
    );
    let none = "SOURCE_SSL_CERT = '', SOURCE_SSL_KEY = ''";
    let mut numbers = 0..10;
    // Account, what is shown, whom the replica believes, and whether it is let in.
    for (account, identity, authority, goes) in [
        ("any", none, &own, false),
        ("any", &*shown, &own, true),
        ("other", &*shown, &own, false),
        ("this", &*shown, &own, true),
        ("this", &*shown, &strange, false),
    ] {
        there.run(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = '{account}', \
             SOURCE_PASSWORD = 'pw', SOURCE_SSL = 1, SOURCE_SSL_VERIFY_SERVER_CERT = 1, SOURCE_SSL_CA = '{}', {identity}, \
             SOURCE_CONNECT_RETRY = 1, SOURCE_RETRY_COUNT = 1, SOURCE_AUTO_POSITION = 1; START REPLICA",
            source.port,
            authority.file.display(),
        ));
        if goes {
            let mut c = source.connect();
            write(&mut c, numbers.clone());
            numbers = numbers.end..numbers.end + 10;
            catch_up(&replica, &contents(&mut c));
            assert_eq!(status(&mut there)[10], "Yes", "{account}");
        } else {
            eventually("it is refused", || status(&mut there)[34] != "0");
        }
        there.run("STOP REPLICA");
    }
}

/// A list of void certificates is heeded by who is connected to as by who connects.
#[test]
fn who_shows_a_void_certificate_is_not_let_in() {
    const LOGIN: &str = r#"
import sys, pymysql
shown = {"ca": sys.argv[2], "cert": sys.argv[3], "key": sys.argv[4], "check_hostname": False}
try:
    pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl=shown)
    print("in", end="")
except (OSError, pymysql.err.OperationalError):
    print("out", end="")
"#;
    if python().is_none() {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let own = Authority::new(dir.path(), "authority");
    let (server, client) = (
        own.sign(dir.path(), "source"),
        own.sign(dir.path(), "client"),
    );
    let void = dir.path().join("void.pem");
    std::fs::write(&void, own.revoke()).expect("written");
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let tls = [
        option("ssl-ca", &own.file),
        option("ssl-cert", &server.0),
        option("ssl-key", &server.1),
        // effect: ssl_crl
        option("ssl-crl", &void),
    ];
    for (count, end) in [(3, "in"), (4, "out")] {
        let options: Vec<&str> = tls[..count].iter().map(|o| &**o).collect();
        let server = Server::start(&dir.path().join(end), &options);
        let mut login = python().expect("Python");
        login.args(["-c", LOGIN, &server.port.to_string()]);
        login.args([&own.file, &client.0, &client.1]);
        assert_eq!(output(&mut login), end);
    }
}
