//! The server as a process: Unix socket, pid file, service manager, log file, SHUTDOWN, certificates read again.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};

use esker_server::client::{Client, Compressions, Connect, Endpoint, TlsLimits, TlsMode};

use crate::common::{Ask, Server, eventually, has_client, output, serve_command};

/// A session as root over a Unix socket.
fn over(socket: &Path) -> Client {
    Client::open(&Connect {
        endpoint: Endpoint::Socket(socket.to_owned()),
        user: "root".into(),
        password: String::new(),
        database: None,
        tls: TlsMode::Preferred,
        authorities: None,
        identity: None,
        asks_public_key: true,
        tls_limits: TlsLimits::default(),
        public_key: None,
        own_address: None,
        compressions: Compressions::default(),
    })
    .expect("connects")
}

#[test]
fn the_operating_system_says_who_is_at_the_socket() {
    let dir = tempfile::tempdir().expect("folder");
    let socket = dir.path().join("esker.sock");
    let flag = format!("--socket={}", socket.display());
    let server = Server::start(dir.path(), &[&flag]);
    let me = output(Command::new("id").arg("-un")).trim().to_owned();
    let mut c = server.connect();
    c.run(&format!(
        "CREATE USER app@localhost IDENTIFIED WITH auth_socket AS '{me}'"
    ));
    c.run("CREATE USER other@localhost IDENTIFIED WITH auth_socket");
    let shown = c.value("SHOW CREATE USER app@localhost");
    let wanted = format!("IDENTIFIED WITH 'auth_socket' AS '{me}'");
    assert!(shown.contains(&wanted), "{shown}");
    let login = |endpoint: Endpoint, user: &str, password: &str| {
        let mut client = Client::open(&Connect {
            endpoint,
            user: user.into(),
            password: password.into(),
            database: None,
            tls: TlsMode::Preferred,
            authorities: None,
            identity: None,
            asks_public_key: true,
            tls_limits: TlsLimits::default(),
            public_key: None,
            own_address: None,
            compressions: Compressions::default(),
        })
        .ok()?;
        Some(client.value("SELECT CURRENT_USER()"))
    };
    let local = || Endpoint::Socket(socket.clone());
    assert_eq!(login(local(), "app", ""), Some("app@localhost".to_owned()));
    assert_eq!(
        login(local(), "app", "any"),
        Some("app@localhost".to_owned())
    );
    // Somebody else, and a connection of which the system knows nothing.
    assert_eq!(login(local(), "other", ""), None);
    let tcp = Endpoint::Tcp("127.0.0.1".to_owned(), server.port);
    assert_eq!(login(tcp, "app", ""), None);
    assert_eq!(
        c.code("SET PASSWORD FOR app@localhost = 'secret'"),
        Some(1699)
    );
    // The account's own name needs no AS, and a name is no password that expires.
    c.run(&format!("CREATE USER IF NOT EXISTS '{me}'@localhost"));
    c.run(&format!(
        "ALTER USER '{me}'@localhost IDENTIFIED WITH auth_socket"
    ));
    assert_eq!(login(local(), &me, ""), Some(format!("{me}@localhost")));
}

fn log_of(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn clients_come_in_by_a_unix_socket_too() {
    let dir = tempfile::tempdir().expect("folder");
    let socket = dir.path().join("esker.sock");
    // effect: socket
    let flag = format!("--socket={}", socket.display());
    // effect: require_secure_transport
    let mut server = Server::start(dir.path(), &[&flag, "--require-secure-transport=ON"]);
    let mut c = over(&socket);
    c.run("CREATE USER local@localhost IDENTIFIED BY 'pw'");
    assert_eq!(c.value("SELECT @@socket"), socket.display().to_string());
    let host = "SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID()";
    assert_eq!(c.value(host), "localhost");
    assert_eq!(c.value("SELECT CURRENT_USER()"), "root@localhost");
    // A long wait ends with its client here, too.
    c.run("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let mut holder = over(&socket);
    holder.run("BEGIN; DELETE FROM d.t");
    drop(holder);
    c.run("INSERT INTO d.t VALUES (2)");
    if has_client("mariadb", Command::new("mariadb").arg("--version")) {
        let path = format!("--socket={}", socket.display());
        let login = [
            "--no-defaults",
            &path,
            "-ulocal",
            "-ppw",
            "-N",
            "-e",
            "SELECT USER()",
        ];
        assert_eq!(
            output(Command::new("mariadb").args(login)),
            "local@localhost\n"
        );
    }
    // A killed server's socket is replaced, a running one's is not.
    server.kill();
    assert!(socket.exists());
    server.restart();
    assert_eq!(over(&socket).value("SELECT COUNT(*) FROM d.t"), "2");
    let second = serve_command()
        .args([&flag, "--port=0"])
        .arg(format!("--datadir={}", dir.path().join("other").display()))
        .stderr(Stdio::piped())
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains("another server uses this socket"), "{told}");
    server.stop();
    assert!(!socket.exists());
}

#[test]
fn the_pid_file_is_there_while_the_server_runs() {
    let dir = tempfile::tempdir().expect("folder");
    // effect: pid_file
    let mut server = Server::start(dir.path(), &["--pid-file=esker.pid"]);
    let file = dir.path().join("data/esker.pid");
    assert_eq!(log_of(&file), format!("{}\n", server.pid()));
    server.stop();
    assert!(!file.exists());
}

#[test]
fn a_service_manager_is_told() {
    let dir = tempfile::tempdir().expect("folder");
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("binds");
    let mut child = serve_command()
        .arg("--port=0")
        .arg(format!("--datadir={}", dir.path().join("data").display()))
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let heard = || {
        let mut message = [0; 512];
        let length = manager.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    // A start that takes long says so before.
    let first = std::iter::repeat_with(heard).find(|told| !told.contains("EXTEND_TIMEOUT_USEC="));
    let is_ready =
        |told: String| told.starts_with("READY=1\nSTATUS=Ready for connections on 127.0.0.1:");
    assert!(first.is_some_and(is_ready));
    output(Command::new("kill").arg(child.id().to_string()));
    assert!(heard().starts_with("STOPPING=1\n"));
    assert!(child.wait().expect("ends").success());
}

#[test]
fn shutdown_is_a_statement_and_a_command() {
    let dir = tempfile::tempdir().expect("folder");
    let log = dir.path().join("error.log");
    let flag = format!("--log-error={}", log.display());
    let mut server = Server::start(dir.path(), &[&flag]);
    let mut c = server.connect();
    c.run("CREATE USER nobody");
    let mut plain = Client::connect("127.0.0.1", server.port, "nobody", "", None).expect("login");
    assert_eq!(plain.code("SHUTDOWN"), Some(1227));
    assert_eq!(plain.code("RESTART"), Some(1227));
    assert_eq!(c.code("RESTART"), Some(3707));
    c.run("SHUTDOWN");
    server.wait();
    assert!(
        log_of(&log).contains("SHUTDOWN by root@localhost"),
        "{}",
        log_of(&log)
    );
    server.restart();
    if has_client(
        "mariadb-admin",
        Command::new("mariadb-admin").arg("--version"),
    ) {
        let port = format!("--port={}", server.port);
        let to = ["--no-defaults", "-h127.0.0.1", "-uroot", &port, "shutdown"];
        output(Command::new("mariadb-admin").args(to));
        server.wait();
    }
}

#[test]
fn a_log_that_is_rotated_loses_no_line() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--log-error=error.log"]);
    let [log, old] = ["error.log", "error.log.1"].map(|name| dir.path().join("data").join(name));
    let refuse = |user: &str| {
        let refused = Client::connect("127.0.0.1", server.port, user, "no", None);
        assert!(refused.is_err());
    };
    refuse("first");
    std::fs::rename(&log, &old).expect("renames");
    refuse("second");
    output(Command::new("kill").args(["-HUP", &server.pid().to_string()]));
    eventually("the signal is heeded", || {
        log_of(&log).contains("certificate and key are read again")
    });
    refuse("third");
    for (user, file) in [("first", &old), ("second", &old), ("third", &log)] {
        assert!(log_of(file).contains(user), "{user}");
    }
    // FLUSH LOGS does the same.
    std::fs::rename(&log, &old).expect("renames");
    server.connect().run("FLUSH ERROR LOGS");
    refuse("fourth");
    assert!(log_of(&log).contains("fourth"));
    server.stop();
    // A file that cannot be is told before anything is made.
    let refused = serve_command()
        // effect: log_error
        .args(["--log-error=/nowhere/error.log", "--port=0"])
        .arg(format!("--datadir={}", dir.path().join("other").display()))
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        told.contains("log_error: there is no folder /nowhere"),
        "{told}"
    );
    assert!(!dir.path().join("other").exists());
}

#[test]
fn the_log_can_be_lines_of_json() {
    let dir = tempfile::tempdir().expect("folder");
    // effect: log_error_services
    let sink = "--log-error-services=log_filter_internal; log_sink_json";
    let mut server = Server::start(dir.path(), &[sink]);
    let refused = Client::connect("127.0.0.1", server.port, "nobody", "x", None);
    assert!(refused.is_err());
    server.stop();
    let log = std::fs::read_to_string(dir.path().join("log")).expect("log");
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.len() > 3, "{log}");
    for line in &lines {
        let is_object = line.starts_with("{\"prio\":") && line.ends_with('}');
        assert!(is_object && line.contains("\"msg\":\""), "{line}");
    }
    let replayed = lines
        .iter()
        .find(|line| line.contains("the log is replayed"));
    assert!(replayed.expect("a line").contains(",\"records\":"));
    assert!(log.contains("Access denied for user"), "{log}");
}

#[test]
fn certificates_are_read_again() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let other = tempfile::tempdir().expect("folder");
    drop(Server::start(other.path(), &[]));
    let files = ["server-cert.pem", "server-key.pem"];
    let [from, to] = [&other, &dir].map(|d| d.path().join("data"));
    let trusts = |authority: &Path| {
        Client::open(&Connect {
            endpoint: Endpoint::Tcp("localhost".into(), server.port),
            user: "root".into(),
            password: String::new(),
            database: None,
            tls: TlsMode::VerifyIdentity,
            authorities: Some(authority.to_owned()),
            identity: None,
            asks_public_key: true,
            tls_limits: TlsLimits::default(),
            public_key: None,
            own_address: None,
            compressions: Compressions::default(),
        })
    };
    let old = dir.path().join("old.pem");
    std::fs::copy(to.join(files[0]), &old).expect("copies");
    let mut c = trusts(&old).expect("the first certificate");
    // A certificate without its key changes nothing.
    std::fs::copy(from.join(files[0]), to.join(files[0])).expect("copies");
    assert_eq!(c.code("ALTER INSTANCE RELOAD TLS"), Some(3888));
    trusts(&old).expect("still the first");
    std::fs::copy(from.join(files[1]), to.join(files[1])).expect("copies");
    c.run("ALTER INSTANCE RELOAD TLS");
    assert!(trusts(&old).is_err());
    trusts(&from.join(files[0])).expect("the second certificate");
    // What was open goes on.
    assert_eq!(c.value("SELECT 1"), "1");
    server.stop();
}

#[test]
fn settings_of_tls_hold_from_the_next_reload() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let port = server.port;
    let encrypted = |tls| {
        let target = Connect {
            endpoint: Endpoint::Tcp("localhost".into(), port),
            user: "root".into(),
            password: String::new(),
            database: None,
            tls,
            authorities: None,
            identity: None,
            asks_public_key: true,
            tls_limits: TlsLimits::default(),
            public_key: None,
            own_address: None,
            compressions: Compressions::default(),
        };
        let mut c = Client::open(&target).ok()?;
        let version = c.rows("SHOW STATUS LIKE 'Ssl_version'");
        Some(version[0][1].clone().expect("a text"))
    };
    let mut c = server.connect();
    let mut status = |name: &str| {
        let rows = c.rows(&format!("SHOW GLOBAL STATUS LIKE '{name}'"));
        rows[0][1].clone().expect("a text")
    };
    assert_eq!(status("Current_tls_version"), "TLSv1.2,TLSv1.3");
    assert_eq!(status("Current_tls_cert"), "server-cert.pem");
    assert!(status("Ssl_server_not_before").ends_with(" GMT"));
    assert!(status("Ssl_server_not_after").ends_with(" GMT"));
    let mut admin = server.connect();
    for (statement, code) in [
        ("SET GLOBAL tls_version = 'TLSv1.1'", 1231),
        ("SET GLOBAL tls_version = NULL", 1231),
        ("SET GLOBAL ssl_cipher = 'DHE-RSA-AES256-SHA'", 1231),
        ("SET GLOBAL tls_ciphersuites = 'foo'", 1231),
        ("SET GLOBAL ssl_cert = 1", 1232),
        ("SET SESSION tls_version = ''", 1229),
        ("ALTER INSTANCE RELOAD TLS FOR CHANNEL other", 1149),
        ("ALTER INSTANCE RELOAD TLS FOR CHANNEL 'mysql_main'", 1064),
    ] {
        assert_eq!(admin.code(statement), Some(code), "{statement}");
    }
    // effect: tls_version
    admin.run("SET GLOBAL tls_version = 'TLSv1.2'");
    assert_eq!(status("Current_tls_version"), "TLSv1.2,TLSv1.3");
    assert_eq!(encrypted(TlsMode::Required).as_deref(), Some("TLSv1.3"));
    admin.run("ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_admin");
    assert_eq!(encrypted(TlsMode::Required).as_deref(), Some("TLSv1.3"));
    admin.run("ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_main");
    assert_eq!(status("Current_tls_version"), "TLSv1.2");
    assert_eq!(encrypted(TlsMode::Required).as_deref(), Some("TLSv1.2"));
    // A certificate that is not there: what is in use stays, unless the statement says otherwise.
    // effect: ssl_cert
    admin.run("SET GLOBAL ssl_cert = '/nothing.pem'");
    assert_eq!(admin.code("ALTER INSTANCE RELOAD TLS"), Some(3888));
    assert_eq!(status("Current_tls_cert"), "server-cert.pem");
    assert_eq!(encrypted(TlsMode::Required).as_deref(), Some("TLSv1.2"));
    admin.run("ALTER INSTANCE RELOAD TLS NO ROLLBACK ON ERROR");
    let warnings = admin.rows("SHOW WARNINGS");
    assert_eq!(warnings[0][1].as_deref(), Some("3888"));
    assert_eq!(status("Current_tls_cert"), "/nothing.pem");
    assert_eq!(status("Ssl_server_not_after"), "");
    assert_eq!(encrypted(TlsMode::Required), None);
    admin.run("SET GLOBAL ssl_cert = DEFAULT");
    admin.run("ALTER INSTANCE RELOAD TLS FOR CHANNEL mysql_main NO ROLLBACK ON ERROR");
    assert_eq!(encrypted(TlsMode::Required).as_deref(), Some("TLSv1.2"));
    // What was kept and cannot be had does not keep the server from its next start.
    admin.run("SET PERSIST ssl_cert = '/nothing.pem'");
    server.stop();
    server.restart();
    assert_eq!(encrypted(TlsMode::Required), None);
    server.connect().run("RESET PERSIST ssl_cert");
    server.stop();
    server.restart();
    assert!(encrypted(TlsMode::Required).is_some());
    server.stop();
}

/// The lines of an audit log, once one of them is about this event: sessions end when their clients are gone.
fn audited(path: &Path, event: &str) -> Vec<serde_json::Value> {
    let parsed = || -> Vec<serde_json::Value> {
        let text = log_of(path);
        let line = |line| serde_json::from_str(line).expect("an object");
        text.lines().map(line).collect()
    };
    eventually(event, || parsed().iter().any(|line| line["event"] == event));
    parsed()
}

#[test]
fn the_audit_log_has_logins_denials_and_statements_by_class() {
    let dir = tempfile::tempdir().expect("folder");
    // effect: esker_audit_log
    let server = Server::start(dir.path(), &["--esker-audit-log=ON"]);
    let path = dir.path().join("data/audit.log");
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d; CREATE TABLE t (a INT)");
    c.run("INSERT INTO t VALUES (1)");
    c.run("CREATE USER app IDENTIFIED BY 'a secret'; GRANT INSERT ON d.* TO app");
    assert_eq!(c.code("CREATE USER x IDENTIFIED BY 'a secret"), Some(1064));
    let login = |password| Client::connect("127.0.0.1", server.port, "app", password, None);
    assert!(login("a wrong secret").is_err());
    let mut app = login("a secret").expect("connects");
    assert_eq!(app.code("SELECT * FROM d.t"), Some(1142));
    drop(app);
    let lines = audited(&path, "disconnect");
    let of = |event: &str, command: &str| {
        let is_it = |l: &&serde_json::Value| {
            l["event"] == event && (command.is_empty() || l["command"] == command)
        };
        let found: Vec<_> = lines.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{event} {command}: {lines:?}");
        found[0].clone()
    };
    let table = of("statement", "create_table");
    assert_eq!(table["text"], "CREATE TABLE t (a INT)");
    assert_eq!(
        (&table["class"], &table["database"]),
        (&"ddl".into(), &"d".into())
    );
    assert_eq!(
        (&table["code"], &table["account"]),
        (&0.into(), &"root@localhost".into())
    );
    assert_eq!(of("statement", "create_user")["class"], "account");
    let denied = of("denied", "select");
    assert_eq!(
        (&denied["code"], &denied["user"]),
        (&1142.into(), &"app".into())
    );
    assert_eq!(denied["text"], "SELECT * FROM d.t");
    let refused = of("refused", "");
    assert_eq!(refused["code"], 1045);
    assert!(
        refused["message"]
            .as_str()
            .is_some_and(|m| m.contains("'app'"))
    );
    assert_eq!(of("disconnect", "")["account"], "app@%");
    let logins = lines.iter().filter(|l| l["event"] == "connect");
    assert_eq!(logins.count(), 2, "{lines:?}");
    assert!(lines.iter().all(|l| l["command"] != "insert"), "{lines:?}");

    // Other classes, and a file that was renamed.
    let moved = dir.path().join("data/audit.log.1");
    std::fs::rename(&path, &moved).expect("renames");
    // effect: esker_audit_log_events
    c.run("SET GLOBAL esker_audit_log_events = 'change,other,read'");
    c.run("FLUSH LOGS");
    c.run("INSERT INTO t VALUES (2), (3)");
    c.run("DROP TABLE t");
    c.run("SELECT 'the last'");
    let refused = c.code("SET GLOBAL esker_audit_log_file = 'a\\nb'");
    assert_eq!(refused, Some(1231), "a name with a line's end");
    c.run("SET GLOBAL esker_audit_log = OFF");
    c.run("SELECT 'not logged'");
    let text = log_of(&path);
    let now: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    let insert = now.iter().find(|l| l["command"] == "insert").expect(&text);
    assert_eq!(
        (&insert["class"], &insert["affected_rows"]),
        (&"change".into(), &2.into())
    );
    assert!(
        text.contains("the last") && !text.contains("not logged"),
        "{text}"
    );
    assert!(!text.contains("DROP TABLE"), "{text}");
    let off = now.last().expect("lines");
    assert_eq!(
        (&off["event"], &off["variable"], &off["value"]),
        (
            &"audit_log".into(),
            &"esker_audit_log".into(),
            &"OFF".into()
        )
    );
    assert_eq!(off["account"], "root@localhost");
    for file in [&text, &log_of(&moved)] {
        assert!(!file.contains("secret"), "{file}");
    }
}

#[test]
fn logs_of_statements_are_tables_where_one_wants_them() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &["--log-output=TABLE", "--general-log=ON"]);
    let file = |name: &str| log_of(&dir.path().join("data").join(name));
    let mut c = server.connect();
    let logged = |c: &mut Client, text: &str| {
        c.lines(&format!(
            "SELECT CONCAT_WS('|', user_host, thread_id = CONNECTION_ID(), server_id, command_type, \
             event_time BETWEEN NOW() - INTERVAL 1 DAY AND NOW() + INTERVAL 1 SECOND) \
             FROM mysql.general_log WHERE argument LIKE 'SELECT \\'{text}%'"
        ))
    };
    c.run("SELECT 'first', \"a \\\"quoted\\\"\nline, and a comma\"");
    assert_eq!(
        logged(&mut c, "first"),
        ["root[root] @ localhost [127.0.0.1]|1|1|Query|1"]
    );
    let argument = "SELECT argument = 'SELECT \\'first\\', \"a \\\\\"quoted\\\\\"\nline, and a comma\"' \
                    FROM mysql.general_log WHERE argument LIKE 'SELECT _first%'";
    assert_eq!(c.value(argument), "1");
    assert_eq!(file("general.log"), "");
    let logins = "SELECT argument FROM mysql.general_log WHERE command_type = 'Connect' AND thread_id = CONNECTION_ID()";
    assert_eq!(c.lines(logins), ["root@localhost on  using TCP/IP"]);

    // A slow statement, and the columns of its row.
    c.run("SET GLOBAL slow_query_log = ON; SET long_query_time = 0.05; CREATE DATABASE d; USE d");
    c.run("SELECT SLEEP(0.1), 'slow one'");
    let row = "SELECT CONCAT_WS('|', user_host, query_time BETWEEN '00:00:00.1' AND '00:10:00', lock_time, rows_sent, \
               rows_examined, db, server_id, thread_id = CONNECTION_ID()) FROM mysql.slow_log \
               WHERE sql_text LIKE '%slow one%'";
    assert_eq!(
        c.lines(row),
        ["root[root] @ localhost [127.0.0.1]|1|00:00:00.000000|1|0|d|1|1"]
    );
    assert_eq!(file("slow.log"), "");

    // Both, and nothing at all.
    // effect: log_output
    c.run("SET GLOBAL log_output = 'FILE,TABLE'");
    c.run("SELECT 'twice'");
    assert_eq!(logged(&mut c, "twice").len(), 1);
    assert!(file("general.log").contains("SELECT 'twice'"));
    c.run("SET GLOBAL log_output = 'NONE,TABLE'");
    c.run("SELECT 'never'");
    c.run("SET GLOBAL log_output = 'TABLE'");
    assert!(logged(&mut c, "never").is_empty());

    // Rows outlive the server, and TRUNCATE empties the table.
    c.run("SET GLOBAL general_log = OFF");
    drop(c);
    server.stop();
    let server = Server::start(dir.path(), &["--log-output=TABLE", "--general-log=OFF"]);
    let mut c = server.connect();
    assert_eq!(logged(&mut c, "first").len(), 1);
    c.run("TRUNCATE TABLE mysql.general_log");
    assert_eq!(c.value("SELECT COUNT(*) FROM mysql.general_log"), "0");
    c.run("SET GLOBAL general_log = ON");
    c.run("SELECT 'again'");
    assert_eq!(logged(&mut c, "again").len(), 1);
}

#[test]
fn slow_statements_and_all_statements_are_logged() {
    let dir = tempfile::tempdir().expect("folder");
    // Of two statements one is longer than the limit, and one is shorter, however slow the machine is.
    // effect: slow_query_log, long_query_time
    let args = ["--slow-query-log=ON", "--long-query-time=3600"];
    let server = Server::start(dir.path(), &args);
    let file = |name: &str| log_of(&dir.path().join("data").join(name));
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("USE d; SET long_query_time = 0.05");
    c.run("SELECT SLEEP(0.1), 'slow one'");
    c.run("SET long_query_time = DEFAULT");
    c.run("SELECT 'quick one'");
    let slow = file("slow.log");
    let entry = slow.split("# Time: ").last().expect("an entry");
    let mut lines = entry.lines().skip(1);
    assert_eq!(
        lines.next().map(|line| line.split("Id:").next()),
        Some(Some("# User@Host: root[root] @ localhost [127.0.0.1]  "))
    );
    let figures = lines.next().expect("figures");
    let time = figures.split_whitespace().nth(2).expect("a time");
    assert!(time.parse::<f64>().is_ok_and(|s| s >= 0.1), "{figures}");
    assert!(
        figures.ends_with("Rows_sent: 1  Rows_examined: 0"),
        "{figures}"
    );
    assert_eq!(lines.next(), Some("use d;"));
    assert!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("SET timestamp="))
    );
    assert_eq!(lines.next(), Some("SELECT SLEEP(0.1), 'slow one';"));
    assert!(!slow.contains("quick one"), "{slow}");

    // Whatever reads no index, or enough rows; statements of administrators only if they are asked for.
    c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
    // effect: log_queries_not_using_indexes, min_examined_row_limit
    c.run("SET GLOBAL log_queries_not_using_indexes = ON; SET min_examined_row_limit = 3");
    c.run("SELECT 'a scan' FROM t WHERE b = 1; SELECT 'a key' FROM t WHERE a = 1");
    c.run("SELECT 'few rows' FROM t LIMIT 2");
    c.run(
        "SET GLOBAL log_queries_not_using_indexes = OFF; SELECT 'another scan' FROM t WHERE b = 1",
    );
    c.run("SET min_examined_row_limit = 0, long_query_time = 0");
    // effect: log_slow_admin_statements
    c.run("ANALYZE TABLE t; SET GLOBAL log_slow_admin_statements = ON; CHECK TABLE t");
    c.run("SET long_query_time = DEFAULT");
    let slow = file("slow.log");
    // Statements that come together are logged one by one.
    assert!(
        slow.contains("\nSELECT 'a scan' FROM t WHERE b = 1;\n"),
        "{slow}"
    );
    assert!(slow.contains("\nCHECK TABLE t;\n"), "{slow}");
    for quiet in ["'a key'", "'few rows'", "'another scan'", "ANALYZE TABLE t"] {
        assert!(!slow.contains(quiet), "{quiet}: {slow}");
    }

    // All statements, from now on; no password among them.
    assert_eq!(file("general.log"), "");
    // effect: general_log
    c.run("SET GLOBAL general_log = ON");
    c.run("SELECT 'logged'");
    c.run("CREATE USER u IDENTIFIED BY 'a secret'");
    // effect: sql_log_off
    c.run("SET sql_log_off = ON");
    c.run("SELECT 'not logged, either'");
    c.run("SET sql_log_off = OFF");
    c.run("SET GLOBAL general_log = OFF");
    c.run("SELECT 'not logged'");
    let general = file("general.log");
    assert!(general.contains(" Query\tSELECT 'logged'\n"), "{general}");
    assert!(general.contains("IDENTIFIED BY"), "{general}");
    for absent in ["a secret", "not logged"] {
        assert!(!general.contains(absent), "{general}");
    }
    // A file that was renamed is begun anew.
    let moved = dir.path().join("data/slow.log.1");
    std::fs::rename(dir.path().join("data/slow.log"), &moved).expect("renames");
    c.run("FLUSH SLOW LOGS");
    c.run("SET long_query_time = 0.05; SELECT SLEEP(0.1), 'another'");
    assert!(file("slow.log").contains("another"));
    assert!(!log_of(&moved).contains("another"));
}
