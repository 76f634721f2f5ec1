//! Settings of accounts: rights to routines, ages of passwords, delays, proxies.

use std::time::{Duration, Instant};

use crate::common::{Ask, Server, output, python};

use super::{figure, login, start};

#[test]
fn who_makes_a_routine_may_call_it() {
    let (server, _dir) = start(&["--skip-ssl"]);
    let mut root = server.connect();
    root.run("CREATE DATABASE d; CREATE USER u; GRANT CREATE ROUTINE ON d.* TO u");
    let mut u = login(&server, "u").expect("logs in");
    u.run("CREATE PROCEDURE d.p() SELECT 1");
    assert_eq!(u.value("CALL d.p()"), "1");
    // effect: automatic_sp_privileges
    root.run("SET GLOBAL automatic_sp_privileges = OFF");
    u.run("CREATE PROCEDURE d.q() SELECT 1");
    assert_eq!(u.code("CALL d.q()"), Some(1370));
}

#[test]
fn passwords_have_an_age_and_are_not_used_again() {
    let (server, _dir) = start(&["--skip-ssl"]);
    let mut root = server.connect();
    // MySQL: the password is as old as the statement.
    root.run("SET timestamp = 1000000000; CREATE USER u IDENTIFIED BY ''; SET timestamp = DEFAULT");
    let code = |server: &Server| login(server, "u").expect("may change it").code("DO 1");
    assert_eq!(code(&server), None);
    // effect: default_password_lifetime
    root.run("SET GLOBAL default_password_lifetime = 300");
    assert_eq!(code(&server), Some(1820));
    root.run("SET GLOBAL default_password_lifetime = 20000");
    assert_eq!(code(&server), None);
    // effect: password_reuse_interval
    root.run("CREATE USER v IDENTIFIED BY 'a'; ALTER USER v IDENTIFIED BY 'a'");
    root.run("SET GLOBAL password_reuse_interval = 1; ALTER USER v IDENTIFIED BY 'b'");
    assert_eq!(root.code("ALTER USER v IDENTIFIED BY 'b'"), Some(3638));
}

#[test]
fn who_has_an_expired_password_is_refused_or_may_change_it() {
    // A client that does not say that it can do anything about it.
    const LOGIN: &str = r#"
import sys, pymysql
try:
    pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="u").cursor().execute("DO 1")
except pymysql.err.MySQLError as e:
    print(e.args[0], end="")
"#;
    if python().is_none() {
        return;
    }
    // effect: disconnect_on_expired_password
    for (setting, code) in [("ON", "1862"), ("OFF", "1820")] {
        let option = format!("--disconnect-on-expired-password={setting}");
        let (server, _dir) = start(&["--skip-ssl", &option]);
        server.connect().run("CREATE USER u PASSWORD EXPIRE");
        let mut login = python().expect("Python");
        let told = output(login.args(["-c", LOGIN, &server.port.to_string()]));
        assert_eq!(told, code, "{setting}");
    }
}

#[test]
fn accounts_of_the_old_plugin_are_proxies_where_that_is_set() {
    let (server, _dir) = start(&["--skip-ssl", "--check-proxy-users=ON"]);
    let mut root = server.connect();
    root.run(
        "CREATE USER emp IDENTIFIED WITH mysql_native_password, dev; GRANT PROXY ON dev TO emp",
    );
    let who = "SELECT CURRENT_USER()";
    assert_eq!(login(&server, "emp").expect("logs in").value(who), "emp@%");
    // effect: mysql_native_password_proxy_users
    root.run("SET GLOBAL mysql_native_password_proxy_users = ON");
    assert_eq!(login(&server, "emp").expect("logs in").value(who), "dev@%");
}

/// Wrong passwords in a row cost time from the threshold on, between the least and the longest delay.
#[test]
fn guesses_are_delayed_as_is_set() {
    let (server, _dir) = start(&["--skip-ssl"]);
    let mut root = server.connect();
    root.run("CREATE USER u IDENTIFIED BY 'right'");
    // effect: connection_control_failed_connections_threshold
    let mut delays = |threshold: u32| {
        root.run(&format!(
            "SET GLOBAL connection_control_failed_connections_threshold = {threshold}"
        ));
        let before = figure(&mut root, "Connection_control_delay_generated");
        for _ in 0..3 {
            assert_eq!(login(&server, "u").err(), Some(1045));
        }
        figure(&mut root, "Connection_control_delay_generated") - before
    };
    assert_eq!(delays(3), 0);
    // Wrong passwords count from the first one on.
    assert_eq!(delays(1), 3);
    // effect: connection_control_min_connection_delay
    let least = Duration::from_secs(3);
    root.run("SET GLOBAL connection_control_min_connection_delay = 3000");
    let begun = Instant::now();
    assert_eq!(login(&server, "u").err(), Some(1045));
    assert!(begun.elapsed() >= least);
}
