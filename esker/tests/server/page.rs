//! The admin page and `/metrics` over HTTP.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use esker_server::client::Client;

use crate::common::{Ask, Server, eventually, free_port, has_client, output, patiently};

/// `root:` and `viewer:pw` for Basic authentication.
const ROOT: &str = "cm9vdDo=";
const VIEWER: &str = "dmlld2VyOnB3";
/// `sock:x` and `sock:`.
const SOCK: &str = "c29jazp4";
const SOCK_NO_PASSWORD: &str = "c29jazo=";
const WRONG: &str = "dmlld2VyOm5v";

fn server(args: &[&str]) -> (Server, u16, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let port = free_port();
    let flag = format!("--esker-http-port={port}");
    let all = [&["--esker-http-address=127.0.0.1", flag.as_str()], args].concat();
    let server = Server::start(dir.path(), &all);
    eventually("the page is past recovery", || {
        get(port, "/nothing", "").starts_with("HTTP/1.1 404 ")
    });
    (server, port, dir)
}

/// What is answered to these bytes.
fn answer(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    stream.write_all(request.as_bytes()).expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("reads");
    answer
}

fn get(port: u16, path: &str, token: &str) -> String {
    let login = match token.is_empty() {
        true => String::new(),
        false => format!("Authorization: Basic {token}\r\n"),
    };
    answer(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{login}\r\n"),
    )
}

#[test]
fn accounts_see_figures_and_strangers_do_not() {
    let (server, port, _dir) = server(&[]);
    let mut c = server.connect();
    c.run(
        "CREATE USER viewer IDENTIFIED BY 'pw'; CREATE DATABASE d; CREATE TABLE d.secrets (a INT PRIMARY KEY)",
    );
    for path in ["/", "/metrics", "/panels.json", "/details.json"] {
        for token in ["", WRONG] {
            let refused = get(port, path, token);
            assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
            assert!(refused.contains("WWW-Authenticate: Basic"), "{refused}");
        }
    }
    let metrics = get(port, "/metrics", ROOT);
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    for line in [
        "mysql_up 1\n",
        "\nmysql_global_status_threads_connected 2\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    assert!(metrics.contains(&format!("\nmysql_global_variables_port {}\n", server.port)));
    // Every line is a comment, or a name and a number.
    let body = metrics.split_once("\r\n\r\n").expect("a body").1;
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        assert!(
            name.starts_with("mysql_") && value.parse::<f64>().is_ok(),
            "{line}"
        );
    }
    assert!(get(port, "/", VIEWER).contains("<title>Esker</title>"));
    let panels = get(port, "/panels.json", ROOT);
    let details = get(port, "/details.json", ROOT);
    for (answer, part) in [
        (&panels, "\"running\":{\"columns\""),
        (&panels, "\"commit_times\":{\"columns\""),
        (&details, "\"memory\":{\"columns\""),
        (&details, "d.secrets.PRIMARY"),
        (&details, "listening on 127.0.0.1:"),
    ] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert!(!panels.contains("\"error\""), "{panels}");
    assert!(!details.contains("\"error\""), "{details}");
    // Without PROCESS, nothing of others.
    assert!(!get(port, "/details.json", VIEWER).contains("secrets"));
    assert!(get(port, "/nothing", ROOT).starts_with("HTTP/1.1 404 "));
}

/// The system's user at the viewer's end is not known: the server is at both ends of its own sockets.
#[test]
fn the_page_does_not_take_the_server_for_the_viewer() {
    let (server, port, _dir) = server(&[]);
    let me = output(Command::new("id").arg("-un")).trim().to_owned();
    server.connect().run(&format!(
        "CREATE USER sock@localhost IDENTIFIED WITH auth_socket AS '{me}'; GRANT ALL ON *.* TO sock@localhost"
    ));
    for path in ["/", "/metrics", "/panels.json", "/details.json"] {
        for token in [SOCK, SOCK_NO_PASSWORD] {
            let refused = get(port, path, token);
            assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        }
    }
}

#[test]
fn a_browser_draws_every_panel() {
    const BROWSER: &str = "chromium-headless-shell";
    if !has_client("Chromium", Command::new(BROWSER).arg("--version")) {
        return;
    }
    let (server, port, dir) = server(&[]);
    let mut holder = server.connect();
    holder.run(
        "CREATE DATABASE d; CREATE TABLE d.secrets (a INT PRIMARY KEY); INSERT INTO d.secrets VALUES (1); \
         BEGIN; UPDATE d.secrets SET a = 2",
    );
    let mut waiting = server.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| waiting.code("DELETE FROM d.secrets WHERE a = 1"));
        eventually("the session waits", || {
            holder.value("SELECT COUNT(*) FROM information_schema.ESKER_DATA_LOCK_WAITS") == "1"
        });
        let page = output(Command::new("timeout").args([
            "60",
            BROWSER,
            // Root may not have one, and what is shown is ours.
            "--no-sandbox",
            "--virtual-time-budget=4000",
            "--dump-dom",
            &format!("--user-data-dir={}", dir.path().join("browser").display()),
            &format!("http://root:@127.0.0.1:{port}/"),
        ]));
        holder.run("ROLLBACK");
        let body = page.split_once("</main>").expect("the page").0;
        for part in [
            "statements/s",
            "<polyline points=\"0,",
            "lock waits: 1",
            "DELETE FROM d.secrets",
            "KILL ",
            "idle for ",
            "d.secrets.PRIMARY",
            "block cache",
            "listening on 127.0.0.1:",
            "esker_http_port",
        ] {
            assert!(body.contains(part), "{part}: {body}");
        }
        // Neither the page nor a panel complains, but of the session that waits.
        assert_eq!(body.matches("class=\"bad\"").count(), 1, "{body}");
    });
}

#[test]
fn an_administrator_sees_it_when_there_is_no_connection_left() {
    let (server, port, _dir) = server(&["--max-connections=1"]);
    server.connect().run("CREATE USER plain");
    // The one seat, and the one more for administrators.
    let login = || Client::connect("127.0.0.1", server.port, "plain", "", None);
    // As soon as the one that has made the account has left its seat.
    let mut first = patiently(login);
    let mut second = server.connect();
    assert!(server.try_connect().is_err());
    let metrics = get(port, "/metrics", ROOT);
    assert!(
        metrics.contains("\nmysql_global_status_threads_connected 3\n"),
        "{metrics}"
    );
    assert_eq!(
        (first.value("SELECT 1"), second.value("SELECT 1")),
        ("1".into(), "1".into())
    );
}

#[test]
fn silent_connections_keep_nobody_out() {
    let (_server, port, _dir) = server(&[]);
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("connects");
    let mut silent: Vec<TcpStream> = (0..300).map(connect).collect();
    for half in &mut silent {
        // It may have been hung up on.
        let _ = half.write_all(b"GET / HTTP/1.1\r\nHost: ");
    }
    let page = get(port, "/metrics", ROOT);
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    // The first ones had to go for it.
    let mut end = Vec::new();
    let first = silent[0].read_to_end(&mut end);
    assert!(first.is_err() || end.is_empty(), "{end:?}");
}

#[test]
fn bad_requests_are_told_so() {
    let (_server, port, _dir) = server(&[]);
    for (request, status) in [
        ("POST / HTTP/1.1\r\n\r\n".to_owned(), "405"),
        ("\u{1}\r\n\r\n".to_owned(), "400"),
        (format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(8192)), "431"),
    ] {
        let told = answer(port, &request);
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{told}");
    }
    // Many at a time do not keep others out for long.
    let idle: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("connects"))
        .collect();
    drop(idle);
    let is_answered = || get_or_nothing(port).starts_with("HTTP/1.1 401 ");
    eventually("others are answered", is_answered);
}

/// An answer, or nothing where the connection was hung up on.
fn get_or_nothing(port: u16) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
        let sent = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
        // A reset is no answer either.
        let _ = sent.and_then(|()| stream.read_to_string(&mut text));
    }
    text
}

/// Names of metrics in the queries of the dashboard for Grafana.
fn plotted() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/grafana/esker.json");
    let text = std::fs::read_to_string(path).expect("the dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("a query"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    queries
        .flat_map(|query| query.split(|c| !is_part(c)))
        .filter(|word| word.starts_with("mysql_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_plots_what_is_told() {
    let (server, port, _dir) = server(&[]);
    server.connect().run(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'r' FOR CHANNEL 'c'",
    );
    let metrics = get(port, "/metrics", ROOT);
    let plotted = plotted();
    assert!(plotted.len() > 30, "{plotted:?}");
    let is_told = |name: &String| {
        let family = format!("# HELP {name} ");
        // A channel that does not run has no lag.
        metrics.contains(&family) || name.ends_with("_seconds_behind_source")
    };
    let missing: Vec<_> = plotted.iter().filter(|name| !is_told(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for sample in [
        "mysql_global_status_commands_total{command=\"select\"} ",
        "mysql_global_status_handlers_total{handler=\"read_key\"} ",
        "mysql_slave_status_replica_io_running{channel_name=\"c\",master_host=\"127.0.0.1\",master_uuid=\"\"} 0",
        "mysql_version_info{",
    ] {
        assert!(metrics.contains(&format!("\n{sample}")), "{sample}");
    }
}

#[test]
fn the_metrics_are_told_as_openmetrics_too() {
    let (_server, port, _dir) = server(&[]);
    let request = |method: &str| {
        let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let head = format!(
            "{method} /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {ROOT}\r\n{accept}\r\n\r\n"
        );
        answer(port, &head)
    };
    let told = request("GET");
    assert!(
        told.contains("Content-Type: application/openmetrics-text; version=1.0.0"),
        "{told}"
    );
    assert!(told.ends_with("\n# EOF\n"), "{told}");
    assert!(
        told.contains("\n# TYPE mysql_global_status_commands counter\n"),
        "{told}"
    );
    let head = request("HEAD");
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}
