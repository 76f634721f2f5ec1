//! Settings of connections: where the server listens, whom it blocks, how long it waits, and how they are encrypted.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use esker_server::client::{Client, ClientError};

use super::start;
use crate::common::{Ask, Server, eventually, output};
use crate::hostile::Raw;

#[test]
fn one_listens_where_one_is_to() {
    let is_heard =
        |server: &Server, host: &str| Client::connect(host, server.port, "root", "", None).is_ok();
    // effect: bind_address
    for (address, heard) in [
        ("127.0.0.1", [true, false]),
        ("127.0.0.2", [false, true]),
        ("0.0.0.0", [true, true]),
    ] {
        let (server, _dir) = start(&[&format!("--bind-address={address}"), "--skip-ssl"]);
        assert_eq!(
            ["127.0.0.1", "127.0.0.2"].map(|host| is_heard(&server, host)),
            heard,
            "{address}"
        );
    }
}

/// Clients that a stopped server has not taken yet: those that the kernel keeps for it.
#[test]
fn so_many_clients_wait_to_be_taken() {
    const CLIENTS: usize = 6;
    let signal = |server: &Server, name: &str| {
        output(Command::new("kill").arg(name).arg(server.pid().to_string()));
    };
    let kept = |args: &[&str]| {
        let (server, _dir) = start(args);
        signal(&server, "-STOP");
        let address = SocketAddr::from(([127, 0, 0, 1], server.port));
        let wait = Duration::from_millis(300);
        let kept: Vec<_> = (0..CLIENTS)
            .map(|_| TcpStream::connect_timeout(&address, wait))
            .collect();
        signal(&server, "-CONT");
        kept.iter().filter(|stream| stream.is_ok()).count()
    };
    assert_eq!(kept(&[]), CLIENTS);
    // effect: back_log
    assert!(kept(&["--back-log=1"]) < CLIENTS);
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<IpAddr> {
    // Nothing is sent: the system only says from where it would be.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// Loopback is trusted, as in MySQL.
#[test]
fn addresses_that_break_off_are_blocked() {
    let Some(address) = own_address() else {
        return;
    };
    let (server, _dir) = start(&["--skip-ssl", "--bind-address=0.0.0.0"]);
    let code = || {
        let login = Client::connect(&address.to_string(), server.port, "nobody", "", None);
        match login.map(drop) {
            Err(ClientError::Server(e)) => e.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code(), 1045);
    // effect: max_connect_errors
    server.connect().run("SET GLOBAL max_connect_errors = 2");
    for _ in 0..2 {
        drop(TcpStream::connect((address, server.port)).expect("connects"));
    }
    eventually("it is blocked", || code() == 1129);
    server.connect().run("FLUSH HOSTS");
    assert_eq!(code(), 1045);
}

#[test]
fn silence_of_interactive_clients_has_a_limit_of_its_own() {
    const INTERACTIVE: u32 = 1 << 10;
    let (server, _dir) = start(&["--skip-ssl"]);
    // effect: interactive_timeout
    server.connect().run("SET GLOBAL interactive_timeout = 1");
    let mut patient = Raw::root(&server);
    Raw::able(&server, INTERACTIVE).hear_the_end();
    patient.command(b"\x03DO 1");
    assert!(patient.read().is_some());
}

/// The suite of a connection of this version of TLS; nothing where there is none.
fn suite(server: &Server, version: &str) -> Option<String> {
    const LOGIN: &str = r#"
import ssl, sys, pymysql
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
context.minimum_version = context.maximum_version = getattr(ssl.TLSVersion, sys.argv[2])
c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl=context).cursor()
c.execute("SHOW STATUS LIKE 'Ssl_cipher'")
print(c.fetchone()[1], end="")
"#;
    let mut python = crate::common::python()?;
    let port = server.port.to_string();
    Some(output(python.args(["-c", LOGIN, &port, version])))
}

#[test]
fn suites_are_those_that_are_allowed() {
    if crate::common::python().is_none() {
        return;
    }
    // effect: ssl_cipher
    for name in [
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
    ] {
        let (server, _dir) = start(&[&format!("--ssl-cipher={name}")]);
        assert_eq!(suite(&server, "TLSv1_2").as_deref(), Some(name));
    }
    // effect: tls_ciphersuites
    for name in ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"] {
        let (server, _dir) = start(&[&format!("--tls-ciphersuites={name}")]);
        assert_eq!(suite(&server, "TLSv1_3").as_deref(), Some(name));
    }
}

/// Does a server offer to encrypt, and has it made a certificate?
fn encryption(args: &[&str]) -> (bool, bool) {
    const OFFERS: u8 = 8;
    let (server, dir) = start(args);
    let mut greeting = [0; 128];
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
    let length = stream.read(&mut greeting).expect("a greeting");
    // Behind the header and the version: a number, eight bytes of the challenge and a zero.
    let version = greeting[5..length]
        .iter()
        .position(|byte| *byte == 0)
        .expect("its end");
    let capabilities = &greeting[5 + version + 1 + 4 + 8 + 1..];
    (
        capabilities[1] & OFFERS != 0,
        dir.path().join("data/server-cert.pem").exists(),
    )
}

#[test]
fn one_encrypts_where_one_is_to() {
    assert_eq!(encryption(&[]), (true, true));
    // effect: ssl
    assert!(!encryption(&["--ssl=OFF"]).0);
    // effect: auto_generate_certs
    assert_eq!(encryption(&["--auto-generate-certs=OFF"]), (false, false));
}

#[test]
fn the_page_is_where_it_is_to_be() {
    let port = crate::common::free_port();
    let is_there = |host: &str| TcpStream::connect((host, port)).is_ok();
    // effect: esker_http_address, esker_http_port
    let option = format!("--esker-http-port={port}");
    let (_server, _dir) = start(&[&option]);
    assert!(!is_there("127.0.0.1"));
    let (_server, _dir) = start(&["--esker-http-address=127.0.0.2", &option]);
    assert!(!is_there("127.0.0.1") && is_there("127.0.0.2"));
}

#[test]
fn files_of_clients_are_read_if_they_are_to() {
    const LOAD: &str = r#"
import sys, pymysql
c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl_disabled=True, local_infile=True).cursor()
try:
    c.execute("LOAD DATA LOCAL INFILE '" + sys.argv[2] + "' INTO TABLE d.t")
    print(c.rowcount, end="")
except pymysql.err.OperationalError as e:
    print(e.args[0], end="")
"#;
    let Some(mut python) = crate::common::python() else {
        return;
    };
    let (server, dir) = start(&["--skip-ssl"]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT)");
    let file = dir.path().join("rows");
    std::fs::write(&file, "1\n2\n").expect("written");
    python
        .args(["-c", LOAD, &server.port.to_string()])
        .arg(&file);
    assert_eq!(output(&mut python), "3948");
    // effect: local_infile
    c.run("SET GLOBAL local_infile = ON");
    assert_eq!(output(&mut python), "2");
}
