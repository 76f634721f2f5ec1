//! Accounts: how they are made and changed, what they may use, and how they log in.
//!
//! Neighbours: `privileges` has GRANT and REVOKE; `hostile` has clients that break the protocol.

use esker_server::client::{Client, ClientError};

use crate::common::{Ask, Server, eventually};

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    // Guesses are part of these tests, so they are not slowed down.
    let free = "--connection-control-failed-connections-threshold=0";
    let server = Server::start(dir.path(), &["--skip-ssl", free]);
    (server, dir)
}

fn login(server: &Server, user: &str, password: &str) -> Result<Client, ClientError> {
    Client::connect("127.0.0.1", server.port, user, password, None)
}

/// Number and text of what the login says; 0: it went well.
fn refusal(server: &Server, user: &str, password: &str) -> (u16, String) {
    match login(server, user, password) {
        Ok(_) => (0, String::new()),
        Err(ClientError::Server(e)) => (e.code, e.message),
        Err(e) => panic!("{e}"),
    }
}

fn code(server: &Server, user: &str, password: &str) -> u16 {
    refusal(server, user, password).0
}

/// What SHOW CREATE USER says after the secret.
fn shown(c: &mut Client, user: &str) -> String {
    let text = c.value(&format!("SHOW CREATE USER {user}"));
    let (_, rest) = text.split_once(" REQUIRE ").expect("REQUIRE");
    rest.to_owned()
}

const DEFAULTS: &str = "NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL \
                        DEFAULT PASSWORD REQUIRE CURRENT DEFAULT";

#[test]
fn every_clause_is_kept_and_shown_as_mysql_shows_it() {
    let (mut server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER a, b@localhost IDENTIFIED BY 'x'");
    assert_eq!(shown(&mut root, "a"), DEFAULTS);
    let all = "NONE WITH MAX_QUERIES_PER_HOUR 5 MAX_UPDATES_PER_HOUR 6 MAX_CONNECTIONS_PER_HOUR 7 \
               MAX_USER_CONNECTIONS 8 PASSWORD EXPIRE INTERVAL 30 DAY ACCOUNT LOCK PASSWORD HISTORY 3 PASSWORD REUSE \
               INTERVAL 4 DAY PASSWORD REQUIRE CURRENT OPTIONAL FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2";
    root.run(&format!("CREATE USER c REQUIRE {all} COMMENT 'it''s me'"));
    let attribute = r#" ATTRIBUTE '{"comment": "it\'s me"}'"#;
    assert_eq!(shown(&mut root, "c"), format!("{all}{attribute}"));
    let attributes = "SELECT user, host, attribute FROM information_schema.user_attributes WHERE user <> 'root' ORDER BY 1";
    let rows = [
        "a|%|NULL",
        "b|localhost|NULL",
        r#"c|%|{"comment": "it's me"}"#,
    ];
    assert_eq!(root.lines(attributes), rows);
    let mut b = login(&server, "b", "x").expect("login");
    assert_eq!(b.lines(attributes), [rows[1]]);
    root.run(
        r#"ALTER USER c REQUIRE X509 WITH MAX_QUERIES_PER_HOUR 0 PASSWORD EXPIRE NEVER PASSWORD HISTORY DEFAULT
           PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT FAILED_LOGIN_ATTEMPTS 0
           PASSWORD_LOCK_TIME UNBOUNDED ACCOUNT UNLOCK
           ATTRIBUTE '{"comment": null, "bb":[1,{"x":2}], "a":1}'"#,
    );
    let other = r#"X509 WITH MAX_UPDATES_PER_HOUR 6 MAX_CONNECTIONS_PER_HOUR 7 MAX_USER_CONNECTIONS 8 PASSWORD EXPIRE NEVER ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT PASSWORD_LOCK_TIME UNBOUNDED ATTRIBUTE '{"a": 1, "bb": [1, {"x": 2}]}'"#;
    assert_eq!(shown(&mut root, "c"), other);
    root.run(
        r#"ALTER USER c REQUIRE ISSUER '/CN=y' AND SUBJECT '/CN=x' CIPHER 'z' PASSWORD EXPIRE ATTRIBUTE '{"bb":null}'"#,
    );
    server.stop();
    server.restart();
    let mut root = server.connect();
    let text = shown(&mut root, "c");
    let begin = "SUBJECT '/CN=x' ISSUER '/CN=y' CIPHER 'z' WITH";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.contains(" PASSWORD EXPIRE ACCOUNT"), "{text}");
    assert!(text.ends_with(r#"'{"a": 1}'"#), "{text}");
    // What is shown makes the same account again, password included.
    for hex in ["OFF", "ON"] {
        root.run(&format!("SET print_identified_with_as_hex = {hex}"));
        let text = root.value("SHOW CREATE USER b@localhost");
        root.run(&format!("DROP USER b@localhost; {text}"));
        assert_eq!(root.value("SHOW CREATE USER b@localhost"), text);
        assert_eq!(code(&server, "b", "x"), 0);
    }
}

#[test]
fn bad_clauses_are_mysqls_errors_and_change_nothing() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER a IDENTIFIED BY 'x'");
    for (sql, code) in [
        ("CREATE USER b, a, c", 1396),
        ("CREATE USER b, b", 1396),
        ("CREATE USER b IDENTIFIED WITH nope BY 'x'", 1524),
        (
            "CREATE USER b IDENTIFIED WITH caching_sha2_password AS 'x'",
            1827,
        ),
        ("CREATE USER b REQUIRE SUBJECT 'x' SUBJECT 'y'", 1225),
        ("CREATE USER b FAILED_LOGIN_ATTEMPTS 32768", 1525),
        ("CREATE USER b PASSWORD_LOCK_TIME 32768", 1525),
        ("CREATE USER b PASSWORD EXPIRE INTERVAL 0 DAY", 1525),
        ("CREATE USER b PASSWORD EXPIRE INTERVAL 65536 DAY", 1525),
        ("CREATE USER b ATTRIBUTE '[1]'", 3982),
        ("CREATE USER b COMMENT 'x' ATTRIBUTE '{}'", 1064),
        (
            "CREATE USER b IDENTIFIED BY 'x' RETAIN CURRENT PASSWORD",
            1064,
        ),
        ("CREATE USER ''@h PASSWORD EXPIRE", 1396),
        ("ALTER USER USER() ACCOUNT LOCK", 1064),
        (
            "ALTER USER USER() IDENTIFIED BY 'x', a IDENTIFIED BY 'x'",
            1064,
        ),
        ("ALTER USER a, nobody ACCOUNT LOCK", 1396),
        ("ALTER USER a IDENTIFIED BY 'y' REPLACE 'x'", 3893),
        (
            "ALTER USER a IDENTIFIED BY '' RETAIN CURRENT PASSWORD",
            3895,
        ),
        (
            "ALTER USER a IDENTIFIED WITH mysql_native_password BY 'y' RETAIN CURRENT PASSWORD",
            3894,
        ),
        ("SET PASSWORD FOR nobody = 'x'", 1133),
        ("RENAME USER a TO b, nobody TO c", 1396),
        ("DROP USER a, nobody", 1396),
        ("SHOW CREATE USER nobody", 1396),
    ] {
        assert_eq!(root.code(sql), Some(code), "{sql}");
    }
    let long = "x".repeat(257);
    let make = |password: &str| format!("CREATE USER b IDENTIFIED BY '{password}'");
    assert_eq!(root.code(&make(&long)), Some(1396));
    // The longest that fits into what the client encrypts.
    root.run(&make(&long[..200]));
    assert_eq!(code(&server, "b", &long[..200]), 0);
    root.run("DROP USER b");
    assert_eq!(shown(&mut root, "a"), DEFAULTS);
    assert_eq!(code(&server, "a", "x"), 0);
    let accounts = "SELECT COUNT(DISTINCT grantee) FROM information_schema.user_privileges";
    assert_eq!(root.value(accounts), "2");
    root.run("ALTER USER IF EXISTS a, nobody ACCOUNT LOCK");
    let note = "Note|3162|Authorization ID 'nobody'@'%' does not exist.";
    assert_eq!(root.lines("SHOW WARNINGS"), [note]);
    root.run("CREATE USER IF NOT EXISTS a, b");
    let note = "Note|3163|Authorization ID 'a'@'%' already exists.";
    assert_eq!(root.lines("SHOW WARNINGS"), [note]);
}

#[test]
fn failed_logins_lock_an_account() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER a IDENTIFIED BY 'p' FAILED_LOGIN_ATTEMPTS 2 PASSWORD_LOCK_TIME 3");
    assert_eq!(code(&server, "a", "x"), 1045);
    assert_eq!(code(&server, "a", "p"), 0);
    assert_eq!(code(&server, "a", "x"), 1045);
    let blocked = "Access denied for user 'a'@'localhost'. Account is blocked for 3 day(s) (3 day(s) remaining) due \
                   to 2 consecutive failed logins.";
    assert_eq!(refusal(&server, "a", "x"), (3955, blocked.to_owned()));
    assert_eq!(refusal(&server, "a", "p"), (3955, blocked.to_owned()));
    for forgive in [
        "ALTER USER a ACCOUNT UNLOCK",
        "FLUSH PRIVILEGES",
        "ALTER USER a PASSWORD_LOCK_TIME UNBOUNDED",
    ] {
        root.run(forgive);
        assert_eq!(code(&server, "a", "p"), 0, "{forgive}");
        assert_eq!(code(&server, "a", ""), 1045);
        assert_eq!(code(&server, "a", "x"), 3955);
        assert_eq!(code(&server, "a", "p"), 3955);
    }
    root.run("ALTER USER a FAILED_LOGIN_ATTEMPTS 0 ACCOUNT LOCK");
    assert_eq!(code(&server, "a", "p"), 3118);
    assert_eq!(code(&server, "a", "x"), 1045);
}

#[test]
fn an_expired_password_is_changed_before_anything_else() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE DATABASE d; CREATE USER a IDENTIFIED BY 'p' PASSWORD EXPIRE; GRANT ALL ON d.* TO a",
    );
    let mut a = Client::connect("127.0.0.1", server.port, "a", "p", Some("d")).expect("login");
    for sql in [
        "SELECT 1",
        "SET @a = 1",
        "USE d",
        "BEGIN",
        "KILL 1",
        "PREPARE s FROM 'SELECT 1'",
        "CREATE TABLE t (a INT)",
        "CREATE USER b",
    ] {
        // From the second time on there could be a plan for the text.
        for _ in 0..3 {
            assert_eq!(a.code(sql), Some(1820), "{sql}");
        }
    }
    assert_eq!(a.code("ALTER USER a ACCOUNT UNLOCK"), Some(1227));
    a.run("SET PASSWORD = 'q'");
    assert_eq!(a.value("SELECT 1"), "1");
    root.run("ALTER USER a PASSWORD EXPIRE");
    // A session that is in stays in.
    assert_eq!(a.value("SELECT 1"), "1");
    let mut b = login(&server, "a", "q").expect("login");
    assert_eq!(b.code("SELECT 1"), Some(1820));
    b.run("ALTER USER USER() IDENTIFIED BY 'r'");
    assert_eq!(b.value("SELECT 1"), "1");
    // A plugin without a password takes the password away.
    root.run("ALTER USER a IDENTIFIED WITH caching_sha2_password");
    assert_eq!(code(&server, "a", "r"), 1045);
    let mut c = login(&server, "a", "").expect("login");
    assert_eq!(c.code("SELECT 1"), Some(1820));
}

#[test]
fn old_passwords_are_not_taken_again() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER a IDENTIFIED BY '1' PASSWORD HISTORY 2");
    assert_eq!(root.code("ALTER USER a IDENTIFIED BY '1'"), Some(3638));
    // That is said before that the account is there.
    assert_eq!(root.code("CREATE USER a IDENTIFIED BY '1'"), Some(3638));
    assert_eq!(root.code("CREATE USER a IDENTIFIED BY '0'"), Some(1396));
    assert_eq!(
        root.code("CREATE USER a IDENTIFIED BY '1' PASSWORD HISTORY 0"),
        Some(1396)
    );
    root.run("CREATE USER IF NOT EXISTS a IDENTIFIED BY '1'");
    root.run("ALTER USER a IDENTIFIED BY '2'");
    assert_eq!(root.code("SET PASSWORD FOR a = '1'"), Some(3638));
    root.run("ALTER USER a IDENTIFIED BY '3'; ALTER USER a IDENTIFIED BY '1'");
    root.run("ALTER USER a PASSWORD HISTORY DEFAULT PASSWORD REUSE INTERVAL 1 DAY; ALTER USER a IDENTIFIED BY '4'");
    assert_eq!(root.code("ALTER USER a IDENTIFIED BY '1'"), Some(3638));
    // effect: password_history
    root.run("ALTER USER a PASSWORD REUSE INTERVAL DEFAULT; SET GLOBAL password_history = 1");
    assert_eq!(root.code("ALTER USER a IDENTIFIED BY '4'"), Some(3638));
    root.run("SET GLOBAL password_history = DEFAULT; ALTER USER a IDENTIFIED BY '4'");
}

#[test]
fn half_of_a_login_lock_is_kept() {
    let (server, _dir) = server();
    let mut root = server.connect();
    let kept = "SELECT User_attributes->'$.Password_locking' FROM mysql.user WHERE User = 'a'";
    root.run("CREATE USER a FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2");
    root.run("ALTER USER a FAILED_LOGIN_ATTEMPTS 0");
    assert_eq!(
        root.value(kept),
        r#"{"failed_login_attempts": 0, "password_lock_time_days": 2}"#
    );
    root.run("ALTER USER a PASSWORD_LOCK_TIME 0");
    assert_eq!(root.value(kept), "NULL");
}

#[test]
fn the_current_password_is_asked_for() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER b; CREATE USER a IDENTIFIED BY 'p' PASSWORD REQUIRE CURRENT");
    let mut a = login(&server, "a", "p").expect("login");
    for (sql, code) in [
        ("SET PASSWORD = 'q'", 3892),
        ("ALTER USER USER() IDENTIFIED BY 'q'", 3892),
        ("ALTER USER a IDENTIFIED BY 'q' REPLACE 'x'", 3891),
        ("SET PASSWORD = 'q' REPLACE ''", 3891),
        ("SET PASSWORD FOR b = 'q'", 1044),
        ("ALTER USER root@localhost IDENTIFIED BY 'q'", 1227),
        (
            "SET PASSWORD = 'q' REPLACE 'p' RETAIN CURRENT PASSWORD",
            1227,
        ),
        ("ALTER USER USER() DISCARD OLD PASSWORD", 1227),
        (
            "ALTER USER a IDENTIFIED BY 'q' REPLACE 'p' REQUIRE NONE",
            1227,
        ),
        ("ALTER USER a COMMENT 'me'", 1227),
        ("SHOW CREATE USER b", 1044),
    ] {
        assert_eq!(a.code(sql), Some(code), "{sql}");
    }
    a.run("SET PASSWORD = 'q' REPLACE 'p'; ALTER USER a IDENTIFIED BY 'r' REPLACE 'q'");
    assert!(
        a.value("SHOW CREATE USER a")
            .contains(" AS <secret> REQUIRE")
    );
    root.run("ALTER USER a PASSWORD REQUIRE CURRENT DEFAULT");
    a.run("SET PASSWORD = 's'");
    // effect: password_require_current
    root.run("SET GLOBAL password_require_current = ON");
    assert_eq!(a.code("SET PASSWORD = 't'"), Some(3892));
    assert_eq!(code(&server, "a", "s"), 0);
}

#[test]
fn two_passwords_log_in_until_the_old_one_is_discarded() {
    let (server, _dir) = server();
    let mut root = server.connect();
    for plugin in ["caching_sha2_password", "mysql_native_password"] {
        root.run(&format!("CREATE USER a IDENTIFIED WITH {plugin} BY '1'"));
        // The second time the server knows the digests.
        let works = |passwords: &str| {
            for _ in 0..2 {
                let tried = ["1", "2", "3"].into_iter();
                let taken: String = tried.filter(|p| code(&server, "a", p) == 0).collect();
                assert_eq!(taken, passwords, "{plugin}");
            }
        };
        works("1");
        root.run("ALTER USER a IDENTIFIED BY '2' RETAIN CURRENT PASSWORD");
        works("12");
        // Without RETAIN the present one is replaced, the retained one stays.
        root.run("ALTER USER a IDENTIFIED BY '3'");
        works("13");
        root.run("ALTER USER a DISCARD OLD PASSWORD");
        works("3");
        root.run("SET PASSWORD FOR a = '2' RETAIN CURRENT PASSWORD");
        works("23");
        root.run("ALTER USER a IDENTIFIED BY ''");
        works("");
        assert_eq!(code(&server, "a", ""), 0);
        let retain = "ALTER USER a IDENTIFIED BY '1' RETAIN CURRENT PASSWORD";
        assert_eq!(root.code(retain), Some(3878));
        root.run("DROP USER a");
    }
}

#[test]
fn random_passwords_log_in() {
    let (server, _dir) = server();
    let mut root = server.connect();
    // effect: generated_random_password_length
    root.run("SET generated_random_password_length = 30; SET GLOBAL generated_random_password_length = 30");
    let made =
        "CREATE USER a IDENTIFIED BY RANDOM PASSWORD, b@localhost IDENTIFIED BY RANDOM PASSWORD";
    let rows = root.rows(made);
    assert_eq!(rows.len(), 2);
    for (row, user) in rows.iter().zip(["a", "b"]) {
        let password = row[2].as_deref().expect("password");
        assert_eq!((row[0].as_deref(), password.len()), (Some(user), 30));
        assert_eq!(code(&server, user, password), 0);
    }
    assert_ne!(rows[0][2], rows[1][2]);
    let rows = root.rows("SET PASSWORD FOR a TO RANDOM");
    let password = rows[0][2].as_deref().expect("password");
    assert_eq!(code(&server, "a", password), 0);
}

#[test]
fn limits_of_an_account_hold() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE DATABASE d; CREATE TABLE d.t (a INT); CREATE USER a WITH MAX_QUERIES_PER_HOUR 3;
         GRANT ALL ON d.* TO a",
    );
    let mut a = login(&server, "a", "").expect("login");
    let insert = "INSERT INTO d.t VALUES (1)";
    a.run("SELECT 1; SELECT 1");
    a.run("SELECT 1");
    let text = match a.query("SELECT 1", &mut |_| ()) {
        Err(ClientError::Server(e)) => e.message,
        other => panic!("{other:?}"),
    };
    let exceeded = "User 'a' has exceeded the 'max_questions' resource (current value: 3)";
    assert_eq!(text, exceeded);
    // Another session of the same account has no more, and FLUSH gives anew.
    let mut b = login(&server, "a", "").expect("login");
    assert_eq!(b.code("SET @a = 1"), Some(1226));
    root.run("FLUSH USER_RESOURCES");
    b.run("SELECT 1");
    root.run(
        "ALTER USER a WITH MAX_QUERIES_PER_HOUR 0 MAX_UPDATES_PER_HOUR 2; FLUSH USER_RESOURCES",
    );
    a.run(insert);
    a.run(insert);
    for sql in [
        insert,
        "CREATE TABLE d.u (a INT)",
        "SET PASSWORD = ''",
        "DELETE FROM d.t",
    ] {
        assert_eq!(a.code(sql), Some(1226), "{sql}");
    }
    a.run("SELECT 1; BEGIN; COMMIT");
    root.run(
        "ALTER USER a WITH MAX_UPDATES_PER_HOUR 0 MAX_CONNECTIONS_PER_HOUR 2; FLUSH USER_RESOURCES",
    );
    assert_eq!(code(&server, "a", ""), 0);
    assert_eq!(code(&server, "a", ""), 0);
    let text = "User 'a' has exceeded the 'max_connections_per_hour' resource (current value: 2)";
    assert_eq!(refusal(&server, "a", ""), (1226, text.to_owned()));
    root.run("ALTER USER a WITH MAX_CONNECTIONS_PER_HOUR 0 MAX_USER_CONNECTIONS 2");
    let text = "User 'a' has exceeded the 'max_user_connections' resource (current value: 2)";
    assert_eq!(refusal(&server, "a", ""), (1226, text.to_owned()));
    drop((a, b));
    eventually("there is room again", || code(&server, "a", "") == 0);
}

#[test]
fn require_refuses_a_clear_connection() {
    let (server, _dir) = server();
    let mut root = server.connect();
    for require in [
        "SSL",
        "X509",
        "CIPHER 'x'",
        "SUBJECT '/CN=x'",
        "ISSUER '/CN=x'",
    ] {
        root.run(&format!(
            "CREATE USER a IDENTIFIED BY 'p' REQUIRE {require}"
        ));
        assert_eq!(code(&server, "a", "p"), 1045, "{require}");
        root.run("ALTER USER a REQUIRE NONE");
        assert_eq!(code(&server, "a", "p"), 0);
        root.run("DROP USER a");
    }
}

#[test]
fn hosts_are_addresses_networks_and_patterns() {
    let (server, _dir) = server();
    let mut root = server.connect();
    // Of those that fit, the account is the first.
    let by_rank = [
        "127.0.0.1",
        "127.0.0.0/24",
        "127.0.0.0/255.255.255.0",
        "localhost",
        "127.0.0.%",
        "127.%",
        "%.1",
        "%",
        "",
    ];
    for host in by_rank.iter().rev() {
        root.run(&format!("CREATE USER u@'{host}'"));
        let mut u = login(&server, "u", "").expect("login");
        assert_eq!(u.value("SELECT CURRENT_USER()"), format!("u@{host}"));
    }
    for host in ["127.0.0.1/8", "128.0.0.0/8", "::1", "10.%"] {
        root.run(&format!("CREATE USER v@'{host}'"));
        assert_eq!(code(&server, "v", ""), 1045, "{host}");
    }
}
