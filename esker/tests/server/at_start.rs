//! Settings of the start: each has its effect, stops the start, or is warned of.

use std::process::Command;

use esker_server::client::{Client, ClientError};
use esker_sql::variables::{Effect, Scope, VARS, VarDef, VarKind};

use crate::common::{Ask, Server, free_port, serve_command};

/// Output of a server that must not start: what it wrote to its log.
fn refused(args: &[String]) -> String {
    let dir = tempfile::tempdir().expect("folder");
    let out = serve_command()
        .arg(format!("--port={}", free_port()))
        .arg(format!("--datadir={}", dir.path().join("data").display()))
        .args(args)
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{args:?} started: {text}");
    text
}

fn start(args: &[&str]) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    (Server::start(dir.path(), args), dir)
}

fn log_of(dir: &tempfile::TempDir) -> String {
    std::fs::read_to_string(dir.path().join("log")).expect("log")
}

fn flags(settings: &[String]) -> Vec<String> {
    settings.iter().map(|s| format!("--{s}")).collect()
}

/// A value that is not the default.
fn another(def: &VarDef) -> String {
    // Texts with a form of their own.
    match def.name {
        "ft_boolean_syntax" => return " +-><()~*:\"\"&|".to_owned(),
        "innodb_redo_log_archive_dirs" => return "backup:/tmp".to_owned(),
        "innodb_tmpdir" => return "/tmp".to_owned(),
        "log_error_suppression_list" => return "ER_STARTUP".to_owned(),
        name if name.starts_with("innodb_monitor_") => return "all".to_owned(),
        _ => {}
    }
    match &def.kind {
        VarKind::Bool => if def.default == "ON" { "OFF" } else { "ON" }.to_owned(),
        VarKind::UInt { min, max } => {
            let default: u64 = def.default.parse().expect("a number");
            // Sizes are whole numbers of blocks, none of which is larger than a page.
            let steps = [4096, 1].into_iter();
            let mut others = steps.filter_map(|step| default.checked_add(step));
            others.find(|n| n <= max).unwrap_or(*min).to_string()
        }
        VarKind::Int { .. } => if def.default == "1" { "2" } else { "1" }.to_owned(),
        VarKind::Double { .. } => "7.5".to_owned(),
        VarKind::Enum(words) => {
            let other = words.iter().find(|word| **word != def.default);
            // Some have one word only.
            (*other.unwrap_or(&def.default)).to_owned()
        }
        VarKind::Words(words) | VarKind::Set { words, .. } => words[1].to_owned(),
        VarKind::Flags(_) => match def.default.contains("=on") {
            true => def.default.replacen("=on", "=off", 1),
            false => def.default.replacen("=off", "=on", 1),
        },
        VarKind::Charset { .. } => "latin1".to_owned(),
        VarKind::Collation => "utf8mb4_bin".to_owned(),
        VarKind::Engine
        | VarKind::Text
        | VarKind::FileName
        | VarKind::NullableText
        | VarKind::SqlMode => "something".to_owned(),
        VarKind::Suites(names) => names[0].to_owned(),
    }
}

#[test]
fn what_cannot_be_kept_stops_the_start_and_all_of_it_is_told() {
    let bad: Vec<_> = VARS
        .iter()
        .filter(|def| matches!(def.effect, Effect::Fixed | Effect::Fact))
        .collect();
    assert!(bad.len() > 60, "{}", bad.len());
    let settings: Vec<_> = bad
        .iter()
        .map(|def| format!("{}={}", def.name, another(def)))
        .collect();
    let told = refused(&flags(&settings));
    let lines: Vec<_> = told.lines().collect();
    for (def, setting) in bad.iter().zip(&settings) {
        let ours = |line: &&&str| {
            let name = format!("'{}'", def.name);
            line.contains(&name) && line.ends_with(&format!("(command line --{})", def.name))
        };
        let count = lines.iter().filter(ours).count();
        assert_eq!(count, 1, "{setting}\n{told}");
    }
}

#[test]
fn what_has_no_effect_is_warned_of_in_one_line() {
    let idle: Vec<_> = VARS
        .iter()
        .filter(|def| def.scope != Scope::Session)
        .filter(|def| matches!(def.effect, Effect::Unused | Effect::Stays))
        .collect();
    let settings: Vec<_> = idle
        .iter()
        .map(|def| format!("--{}={}", def.name, another(def)))
        .collect();
    let args: Vec<_> = settings.iter().map(String::as_str).collect();
    let (server, dir) = start(&args);
    let log = log_of(&dir);
    let warned: Vec<_> = log
        .lines()
        .filter(|line| line.contains("no effect"))
        .collect();
    assert_eq!(warned.len(), 1, "{log}");
    let mut c = server.connect();
    for def in idle {
        let word = |w: &str| w == def.name;
        let names = warned[0].split([' ', ',']);
        assert_eq!(names.filter(|w| word(w)).count(), 1, "{}", def.name);
        let now = c.value(&format!("SELECT @@GLOBAL.{}", def.name));
        let shown = c.value(&format!(
            "SHOW GLOBAL VARIABLES LIKE '{}'",
            def.name.replace('_', "\\_")
        ));
        match def.effect {
            Effect::Stays => assert_eq!(shown, format!("{}|{}", def.name, def.default)),
            _ => assert_eq!(
                shown,
                format!("{}|{}", def.name, shown_as(def, &another(def))),
                "{now}"
            ),
        }
    }
}

fn shown_as(def: &VarDef, value: &str) -> String {
    match def.kind {
        VarKind::Double { .. } => format!("{:.6}", value.parse::<f64>().expect("a number")),
        _ => value.to_owned(),
    }
}

/// SET tells the same as the start.
/// Warnings but those about deprecated variables and values.
fn warnings_of(c: &mut Client) -> Vec<String> {
    let mut warnings = c.lines("SHOW WARNINGS");
    warnings.retain(|line| !line.contains("deprecated") && !line.contains("an alias for"));
    warnings
}

#[test]
fn set_refuses_warns_or_works() {
    let (server, _dir) = start(&["--skip-ssl"]);
    let mut c = server.connect();
    for def in VARS.iter() {
        let scope = if def.scope == Scope::Global {
            "GLOBAL"
        } else {
            "SESSION"
        };
        let value = match (&def.kind, another(def)) {
            (VarKind::UInt { .. } | VarKind::Int { .. } | VarKind::Double { .. }, n) => n,
            (_, word) => format!("'{word}'"),
        };
        let sql = format!("SET {scope} `{}` = {value}", def.name);
        if !def.dynamic {
            assert_eq!(c.code(&sql), Some(1238), "{sql}");
            continue;
        }
        if def.name == "innodb_ft_aux_table" {
            // It names a table that is there.
            assert_eq!(c.code(&sql), Some(1231), "{sql}");
            continue;
        }
        if matches!(def.name, "max_allowed_packet" | "net_buffer_length") {
            // A session has them from its beginning on.
            assert_eq!(c.code(&sql), Some(1621), "{sql}");
            continue;
        }
        match def.effect {
            Effect::Fixed => {
                assert_eq!(c.code(&sql), Some(1231), "{sql}");
            }
            Effect::Unused | Effect::Stays => {
                assert_eq!(c.code(&sql), None, "{sql}");
                let warnings = warnings_of(&mut c);
                assert_eq!(warnings.len(), 1, "{sql}: {warnings:?}");
                assert!(
                    warnings[0].starts_with("Warning|1235|Variable '"),
                    "{warnings:?}"
                );
                // The default is no news.
                c.run(&format!("SET {scope} {} = DEFAULT", def.name));
                if def.scope == Scope::Global {
                    assert!(warnings_of(&mut c).is_empty(), "{}", def.name);
                }
            }
            // Their effects are seen in many places, which the architecture test `effects` knows.
            Effect::Works | Effect::Moot => (),
            Effect::Fact => panic!("{} can be set", def.name),
        }
    }
}

#[test]
fn every_setting_has_a_meaning_only_if_it_is_known() {
    let told = refused(
        &[
            "--nonsense=1",
            "--skip-nonsense",
            "--skip-networking",
            "--lower-case-table-names=1",
            "--innodb-read-only=ON",
            "--skip-grant-tables",
            "--gtid-slave-pos=0-1-2",
        ]
        .map(str::to_owned),
    );
    for line in [
        "unknown variable 'nonsense' (command line --nonsense)",
        "unknown variable 'skip_nonsense'",
        "'skip_networking' can only be 'OFF', not 'ON': TCP is the only way in",
        "'lower_case_table_names' can only be '0', not '1'",
        "'innodb_read_only' can only be 'OFF', not 'ON'",
        "'skip_grant_tables' is not possible",
        "'gtid_slave_pos' is kept with the data; SET GLOBAL changes it while the server runs",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    let (_server, dir) = start(&[
        "--loose-nonsense=1",
        "--user=mysql",
        "--skip-log-bin",
        "--max-connections=1000000",
    ]);
    let log = log_of(&dir);
    for line in [
        "unknown variable 'loose_nonsense'",
        "have no effect in Esker: user",
        "option 'max_connections': value 1000000 adjusted to 100000",
    ] {
        assert!(log.contains(line), "{line}\n{log}");
    }
}

#[test]
fn nobody_writes_where_administrators_may_not() {
    // effect: super_read_only
    let (server, _dir) = start(&["--super-read-only", "--read-only=OFF"]);
    let mut c = server.connect();
    let both = "SELECT CONCAT(@@read_only, @@super_read_only)";
    assert_eq!(c.value(both), "11");
    assert_eq!(c.code("CREATE DATABASE d"), Some(1290));
    c.run("SET GLOBAL read_only = 0");
    assert_eq!(c.value(both), "00");
    c.run("CREATE DATABASE d; SET GLOBAL super_read_only = 1");
    assert_eq!(c.value(both), "11");
    c.run("SET GLOBAL super_read_only = 0");
    assert_eq!(c.value(both), "10");
    c.run("DROP DATABASE d");
}

#[test]
fn a_read_only_transaction_is_the_default_where_it_is_set() {
    let (server, _dir) = start(&[
        "--transaction-read-only=ON",
        "--transaction-isolation=READ-COMMITTED",
    ]);
    let mut c = server.connect();
    assert_eq!(c.code("CREATE DATABASE d"), Some(1792));
    c.run("SET transaction_read_only = 0; CREATE DATABASE d");
    assert_eq!(c.value("SELECT @@transaction_isolation"), "READ-COMMITTED");
}

#[test]
fn the_servers_character_set_is_that_of_new_databases() {
    let (server, _dir) = start(&[
        "--collation-server=latin1_german1_ci",
        "--character-set-server=latin1",
    ]);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    let made = c.value("SHOW CREATE DATABASE d");
    assert!(made.contains("latin1_german1_ci"), "{made}");
    let names =
        "SELECT CONCAT_WS(' ', @@GLOBAL.character_set_client, @@GLOBAL.character_set_database,
                 @@GLOBAL.collation_server, @@GLOBAL.collation_connection)";
    assert_eq!(
        c.value(names),
        "latin1 latin1 latin1_german1_ci latin1_german1_ci"
    );
    c.run("SET GLOBAL character_set_server = utf8mb4");
    assert_eq!(
        c.value("SELECT @@GLOBAL.collation_server"),
        "utf8mb4_0900_ai_ci"
    );
    let told = refused(
        &[
            "--collation-server=utf8mb4_bin",
            "--character-set-server=latin1",
        ]
        .map(str::to_owned),
    );
    let line = "COLLATION 'utf8mb4_bin' is not valid for CHARACTER SET 'latin1'";
    assert!(told.contains(line), "{told}");
}

#[test]
fn databases_are_shown_to_those_who_may_see_them() {
    // effect: skip_show_database
    let (server, _dir) = start(&["--skip-show-database"]);
    server
        .connect()
        .run("CREATE USER u@localhost; GRANT SELECT ON x.* TO u@localhost");
    let mut c = Client::connect("127.0.0.1", server.port, "u", "", None).expect("logs in");
    assert_eq!(c.code("SHOW DATABASES"), Some(1227));
    server
        .connect()
        .run("GRANT SHOW DATABASES ON *.* TO u@localhost");
    let mut c = Client::connect("127.0.0.1", server.port, "u", "", None).expect("logs in");
    c.run("SHOW DATABASES");
}

#[test]
fn a_file_of_statements_is_run_before_anybody_is_let_in() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("init.sql");
    let write = |text: &str| std::fs::write(&file, text).expect("writes");
    write(
        "-- made at the start\nCREATE DATABASE IF NOT EXISTS d;\nCREATE TABLE IF NOT EXISTS d.t (a INT);\nINSERT INTO d.t VALUES (1);\nSELECT * FROM d.t;\nSET GLOBAL wait_timeout = 77",
    );
    // effect: init_file
    let flag = format!("--init-file={}", file.display());
    let mut server = Server::start(dir.path(), &[&flag]);
    assert_eq!(
        server
            .connect()
            .value("SELECT COUNT(*), @@GLOBAL.wait_timeout FROM d.t"),
        "1|77"
    );
    server.stop();
    server.restart();
    assert_eq!(server.connect().value("SELECT COUNT(*) FROM d.t"), "2");
    server.stop();
    write("INSERT INTO d.t VALUES (1); INSERT INTO d.nope VALUES (1)");
    let told = refused(&[flag]);
    assert!(told.contains("init.sql: ERROR 1049"), "{told}");
    let told = refused(&["--init-file=/nowhere.sql".to_owned()]);
    assert!(told.contains("init_file /nowhere.sql: "), "{told}");
}

#[test]
fn init_connect_is_run_for_all_but_administrators() {
    // effect: init_connect
    let (server, _dir) = start(&["--init-connect=SET @a = 5; SET sql_safe_updates = 1"]);
    let mut root = server.connect();
    root.run("CREATE USER u@localhost");
    assert_eq!(root.value("SELECT @a, @@sql_safe_updates"), "NULL|0");
    let as_u = || Client::connect("127.0.0.1", server.port, "u", "", None);
    assert_eq!(
        as_u()
            .expect("logs in")
            .value("SELECT @a, @@sql_safe_updates"),
        "5|1"
    );
    root.run("SET GLOBAL init_connect = 'SELECT * FROM nope.nope'");
    match as_u() {
        Err(ClientError::Server(e)) => assert_eq!(e.code, 1184),
        other => panic!("{:?}", other.is_ok()),
    }
    server.connect().run("SET GLOBAL init_connect = ''");
    as_u().expect("logs in");
}

#[test]
fn files_are_read_and_written_in_their_folder_only() {
    // effect: secure_file_priv
    let told = refused(&["--secure-file-priv=/nowhere".to_owned()]);
    assert!(told.contains("secure_file_priv names '/nowhere'"), "{told}");
    let (server, _dir) = start(&["--secure-file-priv=NULL"]);
    let mut c = server.connect();
    assert_eq!(c.value("SELECT @@secure_file_priv"), "NULL");
    assert_eq!(c.code("SELECT 1 INTO OUTFILE '/tmp/x'"), Some(1290));
}

#[test]
fn a_lock_that_is_not_had_in_time_can_end_the_transaction() {
    // effect: innodb_rollback_on_timeout
    for (flag, left) in [
        ("--innodb-rollback-on-timeout", "0"),
        ("--skip-innodb-rollback-on-timeout", "1"),
    ] {
        let (server, _dir) = start(&[flag, "--innodb-lock-wait-timeout=1"]);
        let (mut a, mut b) = (server.connect(), server.connect());
        a.run("CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY); INSERT INTO t VALUES (1)");
        a.run("BEGIN; SELECT * FROM t WHERE a = 1 FOR UPDATE");
        b.run("USE d; BEGIN; INSERT INTO t VALUES (2)");
        assert_eq!(b.code("DELETE FROM t WHERE a = 1"), Some(1205));
        b.run("COMMIT");
        a.run("COMMIT");
        assert_eq!(
            a.value("SELECT COUNT(*) FROM t WHERE a = 2"),
            left,
            "{flag}"
        );
    }
}

#[test]
fn the_server_tells_the_truth_about_itself() {
    let dir = tempfile::tempdir().expect("folder");
    let tmp = dir.path().join("tmp");
    // effect: tmpdir
    let flag = format!("--tmpdir={}", tmp.display());
    let server = Server::start(dir.path(), &[&flag]);
    let mut c = server.connect();
    let host = Command::new("uname")
        .arg("-n")
        .output()
        .expect("uname")
        .stdout;
    assert_eq!(
        c.value("SELECT @@hostname"),
        String::from_utf8_lossy(&host).trim()
    );
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).expect("limits");
    let line = limits
        .lines()
        .find(|l| l.starts_with("Max open files"))
        .expect("line");
    let files = line.split_whitespace().nth(3).expect("soft limit");
    assert_eq!(c.value("SELECT @@open_files_limit"), files);
    let tmpdir = c.value("SELECT @@tmpdir");
    assert!(tmpdir.starts_with(&*tmp.to_string_lossy()), "{tmpdir}");
    assert!(std::fs::read_dir(&tmpdir).is_ok());
}

/// Logs in with TLS of one version; tells the suite.
const TLS: &str = r#"
import ssl, sys, pymysql
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
version = getattr(ssl.TLSVersion, sys.argv[2])
context.minimum_version = context.maximum_version = version
try:
    c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl=context)
    cursor = c.cursor()
    cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
    print(cursor.fetchone()[1])
except (pymysql.err.OperationalError, ssl.SSLError):
    print("refused")
"#;

#[test]
fn the_versions_and_suites_of_tls_are_those_that_are_set() {
    if crate::common::python().is_none() {
        return;
    }
    let (server, _dir) = start(&[
        "--tls-version=TLSv1.3",
        "--tls-ciphersuites=TLS_CHACHA20_POLY1305_SHA256",
    ]);
    let (both, _dir) =
        start(&["--ssl-cipher=ECDHE-ECDSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384"]);
    for (server, version, suite) in [
        (&server, "TLSv1_2", "refused"),
        (&server, "TLSv1_3", "TLS_CHACHA20_POLY1305_SHA256"),
        (&both, "TLSv1_2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ] {
        let mut python = crate::common::python().expect("it was there");
        let told =
            crate::common::output(python.args(["-c", TLS, &server.port.to_string(), version]));
        assert_eq!(told.trim(), suite, "{version}");
    }
}

/// Writes an option file and starts with it: the log.
fn start_with(text: &str) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("my.cnf");
    // The machine's own folders are for its own servers.
    let own = |path: &str| format!("{}{path}", dir.path().display());
    let mut text = text.to_owned();
    for folder in [
        "/var/log/mysql",
        "/var/run/mysqld",
        "/var/lib/mysql",
        "/run/mysqld",
    ] {
        std::fs::create_dir_all(own(folder)).expect("a folder");
        for assigned in ["=", "= "] {
            let theirs = format!("{assigned}{folder}");
            text = text.replace(&theirs, &format!("{assigned}{}", own(folder)));
        }
    }
    std::fs::write(&file, text).expect("writes");
    let flag = format!("--defaults-file={}", file.display());
    (Server::start(dir.path(), &[&flag]), dir)
}

/// What others ship or run, without comments.
const OPTION_FILES: [&str; 4] = [
    // Ubuntu's mysqld.cnf.
    "[mysqld]\nuser = mysql\nbind-address = 127.0.0.1\nmysqlx-bind-address = 127.0.0.1\nkey_buffer_size = 16M
myisam-recover-options = BACKUP\nlog_error = /var/log/mysql/error.log\nmax_binlog_size = 100M",
    // The container image's my.cnf.
    "[mysqld]\nhost-cache-size=0\nskip-name-resolve\nsecure-file-priv=NULL\nuser=mysql
pid-file=/var/run/mysqld/mysqld.pid\nsocket=/var/run/mysqld/mysqld.sock\n[client]\nsocket=/var/run/mysqld/mysqld.sock",
    // MariaDB's 50-server.cnf.
    "[server]\n[mysqld]\npid-file = /run/mysqld/mysqld.pid\nbasedir = /usr\nbind-address = 127.0.0.1\nexpire_logs_days = 10
character-set-server = utf8mb4\ncollation-server = utf8mb4_general_ci\n[embedded]\n[mariadb]\n[mariadb-10.11]",
    // A tuned one.
    "[mysqld]\nuser=mysql\nsocket=/var/lib/mysql/mysql.sock\nskip-external-locking\ndefault_time_zone='+00:00'
max_connections=500\nmax_allowed_packet=64M\nthread_cache_size=50\ntable_open_cache=4096\nopen_files_limit=1024
innodb_buffer_pool_size=300M\ninnodb_buffer_pool_instances=8\ninnodb_flush_method=O_DIRECT\ninnodb_redo_log_capacity=2G
innodb_log_file_size=512M\ninnodb_log_buffer_size=64M\ninnodb_flush_log_at_trx_commit=2\ninnodb_io_capacity=2000
innodb_io_capacity_max=4000\ninnodb_read_io_threads=8\ninnodb_write_io_threads=8\ninnodb_print_all_deadlocks=1
innodb_numa_interleave=1\ninnodb_adaptive_hash_index=0\ninnodb_file_per_table=1\nskip-log-bin\nsync_binlog=1
binlog_expire_logs_seconds=604800\nslow_query_log=1\nslow_query_log_file=/var/log/mysql/slow.log\nlong_query_time=1
log_queries_not_using_indexes=1\nlog_timestamps=SYSTEM\nquery_cache_type=0\nquery_cache_size=0\nsymbolic-links=0
performance_schema=ON\nsql_mode=STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION\nlc_messages_dir=/usr/share/mysql
tmp_table_size=64M\nmax_heap_table_size=64M\nsort_buffer_size=4M\njoin_buffer_size=4M",
];

#[test]
fn option_files_of_others_start_the_server() {
    for text in OPTION_FILES {
        let (server, dir) = start_with(text);
        let own_log = dir.path().join("var/log/mysql/error.log");
        let log = log_of(&dir) + &std::fs::read_to_string(own_log).unwrap_or_default();
        assert_eq!(log.matches("no effect in Esker").count(), 1, "{log}");
        let mut c = server.connect();
        if text.contains("300M") {
            let memory = "SELECT @@esker_memory_limit, @@innodb_buffer_pool_size, @@innodb_flush_log_at_trx_commit";
            assert_eq!(c.value(memory), "314572800|314572800|1");
            assert_eq!(
                c.value("SELECT @@time_zone, @@max_connections, @@long_query_time"),
                "+00:00|500|1.000000"
            );
        }
        if text.contains("general_ci") {
            assert_eq!(c.value("SELECT @@collation_server"), "utf8mb4_general_ci");
        }
    }
}

#[test]
fn the_buffer_pool_is_the_memory_limit() {
    let (server, _dir) = start(&["--innodb-buffer-pool-size=1G", "--esker-memory-limit=400M"]);
    let mut c = server.connect();
    let both = "SELECT @@esker_memory_limit, @@innodb_buffer_pool_size";
    assert_eq!(c.value(both), "419430400|419430400");
    c.run("SET GLOBAL innodb_buffer_pool_size = 536870912");
    assert_eq!(c.value(both), "536870912|536870912");
    // MySQL's default is too little for everything together.
    // effect: innodb_buffer_pool_size
    c.run("SET GLOBAL innodb_buffer_pool_size = 134217728");
    assert_eq!(c.value("SELECT @@esker_memory_limit"), "268435456");
}

#[test]
fn settings_are_printed_and_checked_without_a_start() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("my.cnf");
    std::fs::write(
        &file,
        "[mysqld]\nport=4000\nskip-log-bin\n[mysqld-8.4]\nuser=mysql",
    )
    .expect("writes");
    let more = dir.path().join("more.cnf");
    std::fs::write(&more, "[mysqld]\nmax_connections=9").expect("writes");
    let files = [
        format!("--defaults-file={}", file.display()),
        format!("--defaults-extra-file={}", more.display()),
    ];
    let out = serve_command()
        .args(&files)
        .arg("--print-defaults")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert_eq!(
        text,
        "--port=4000\n--skip_log_bin=ON\n--user=mysql\n--max_connections=9\n"
    );
    let check = |flags: &[&str]| {
        let out = serve_command()
            .args(&files)
            .args(flags)
            .current_dir(dir.path())
            .output()
            .expect("runs");
        (
            out.status.success(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    assert!(check(&["--validate-config"]).0);
    let (fine, told) = check(&["--skip-networking", "--validate-config", "--nonsense"]);
    assert!(
        !fine && told.contains("'nonsense'") && told.contains("'skip_networking'"),
        "{told}"
    );
    assert!(!dir.path().join("esker-data").exists());
    let out = serve_command()
        .args(["--no-defaults", "--defaults-file=x", "--validate-config"])
        .output();
    assert!(!out.expect("runs").status.success());
}

#[test]
fn a_table_needs_a_primary_key_where_that_is_set() {
    let (server, _dir) = start(&[]);
    let mut c = server.connect();
    c.run(
        "CREATE DATABASE d; USE d; CREATE TABLE a (i INT); CREATE TABLE b (i INT PRIMARY KEY, j INT NOT NULL UNIQUE);
         CREATE TABLE u (j INT NOT NULL, UNIQUE (j)); SET sql_require_primary_key = 1",
    );
    for (sql, code) in [
        ("CREATE TABLE x (i INT)", Some(3750)),
        ("CREATE TABLE x (i INT UNIQUE)", Some(3750)),
        ("CREATE TABLE x LIKE a", Some(3750)),
        ("CREATE TABLE x (i INT NOT NULL UNIQUE)", None),
        ("CREATE TABLE y LIKE b", None),
        ("ALTER TABLE a ADD COLUMN k INT", Some(3750)),
        ("ALTER TABLE a COMMENT 'x'", Some(3750)),
        ("ALTER TABLE a RENAME TO a2", None),
        ("TRUNCATE TABLE a2", None),
        ("ALTER TABLE b DROP PRIMARY KEY", Some(3750)),
        ("ALTER TABLE b DROP PRIMARY KEY, ADD PRIMARY KEY (j)", None),
        ("CREATE INDEX k ON u (j)", Some(3750)),
        ("ALTER TABLE a2 ADD PRIMARY KEY (i)", None),
        ("ALTER TABLE a2 ADD COLUMN k INT", None),
    ] {
        assert_eq!(c.code(sql), code, "{sql}");
    }
}

/// COM_REFRESH, and the status bits that come with rows.
const REFRESH: &str = r#"
import sys, pymysql
c = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="root", ssl_disabled=True, database="d")
for what in (1, 4, 8, 16, 32, 1 | 2 | 4 | 8 | 16):
    c._execute_command(7, bytes([what]))
    assert c._read_ok_packet().is_ok_packet()
seen = []
read = pymysql.connections.Connection._read_packet
def spy(self, *more):
    packet = read(self, *more)
    seen.append(packet._data)
    return packet
pymysql.connections.Connection._read_packet = spy
def no_index(sql):
    c.cursor().execute(sql)
    assert seen[-1][0] == 0xfe, seen[-1]
    return bool(seen[-1][3] & 32)
assert no_index("SELECT * FROM t")
assert no_index("SELECT v FROM t WHERE v = 3 ORDER BY v")
assert not no_index("SELECT * FROM t WHERE id = 3")
assert not no_index("SELECT 1")
assert no_index("SELECT * FROM t a JOIN t b ON a.v = b.id")
u = pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="u", ssl_disabled=True)
u._execute_command(7, b"\4")
try:
    u._read_ok_packet()
    print("allowed")
except pymysql.err.OperationalError as e:
    assert e.args[0] == 1227, e
print("fine")
"#;

#[test]
fn flushing_by_command_and_reading_without_an_index() {
    let Some(mut python) = crate::common::python() else {
        return;
    };
    let (server, _dir) = start(&[]);
    server.connect().run(
        "CREATE USER u@localhost; CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (3,3)",
    );
    let told = crate::common::output(python.args(["-c", REFRESH]).arg(server.port.to_string()));
    assert_eq!(told, "fine\n");
}

#[test]
fn a_malformed_option_file_hides_no_other_complaint() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("bad.cnf");
    let text = "[mysqld\nfoo=1\n=bar\nsort_buffer_size=0.5G\ntwo words\nport=x\n";
    std::fs::write(&file, text).expect("written");
    let data = dir.path().join("data");
    let out = serve_command()
        .arg(format!("--defaults-file={}", file.display()))
        .arg(format!("--datadir={}", data.display()))
        .arg("stray")
        .output()
        .expect("runs");
    assert!(!out.status.success());
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    for complaint in [
        "bad.cnf:1: missing ']'",
        "bad.cnf:3: expected name = value",
        "bad.cnf:5: expected name = value",
        "bad value 'x' for port",
        "unexpected argument 'stray'",
        "'foo'",
        "'0.5G'",
    ] {
        assert!(told.contains(complaint), "{complaint}: {told}");
    }
    assert!(!data.exists());
}

#[test]
fn where_the_port_is_taken_no_database_is_made() {
    // effect: port
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let port = taken.local_addr().expect("bound").port();
    let dir = tempfile::tempdir().expect("folder");
    let data = dir.path().join("data");
    let out = serve_command()
        .arg(format!("--port={port}"))
        .arg(format!("--datadir={}", data.display()))
        .output()
        .expect("runs");
    assert!(!out.status.success());
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.contains("cannot listen on"), "{told}");
    assert!(!data.exists(), "{told}");
    // effect: datadir
    let elsewhere = dir.path().join("elsewhere");
    let option = format!("--datadir={}", elsewhere.display());
    let _server = Server::start(dir.path(), &[&option]);
    assert!(elsewhere.join("wal").exists() && !data.exists());
}

#[test]
fn files_of_others_are_not_replaced() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("letters");
    std::fs::write(&file, "dear reader").expect("written");
    for name in ["socket", "pid-file"] {
        let told = refused(&[format!("--{name}={}", file.display())]);
        assert!(told.contains("letters"), "{told}");
        let kept = std::fs::read_to_string(&file).expect("reads");
        assert_eq!(kept, "dear reader", "{name}");
    }
}

#[test]
fn values_that_mysql_refuses_are_refused() {
    let (server, _dir) = start(&[]);
    let mut c = server.connect();
    for (setting, code) in [
        ("ft_boolean_syntax = 'x'", 1231),
        ("innodb_monitor_enable = 'foo'", 1231),
        ("innodb_monitor_reset_all = ''", 1231),
        ("innodb_ft_aux_table = 'a/b'", 1231),
        ("innodb_redo_log_archive_dirs = 'x'", 1231),
        ("innodb_tmpdir = '/nothing'", 1231),
        ("log_error_suppression_list = 'foo'", 1231),
        ("replica_type_conversions = 'foo'", 1231),
        ("admin_tls_version = 'x'", 1231),
        ("admin_ssl_cipher = 'x'", 1231),
        ("lc_messages = 'foo'", 1649),
    ] {
        assert_eq!(
            c.code(&format!("SET GLOBAL {setting}")),
            Some(code),
            "{setting}"
        );
    }
    for setting in [
        "innodb_monitor_enable = 'dml%'",
        "innodb_monitor_disable = 'all'",
        "log_error_suppression_list = 'ER_STARTUP,MY-010907'",
        "init_connect = NULL",
        "replica_type_conversions = 'ALL_LOSSY,ALL_NON_LOSSY'",
    ] {
        c.run(&format!("SET GLOBAL {setting}"));
    }
    // Whoever has set it is known without SET PERSIST, too.
    let info = "SELECT VARIABLE_SOURCE, SET_USER, SET_HOST, SET_TIME IS NOT NULL
                FROM performance_schema.variables_info WHERE VARIABLE_NAME = ";
    c.run("SET GLOBAL max_connections = 77");
    assert_eq!(
        c.lines(&format!("{info}'max_connections'")),
        ["DYNAMIC|root|localhost|1"]
    );
    assert_eq!(
        c.lines(&format!("{info}'wait_timeout'")),
        ["COMPILED|NULL|NULL|0"]
    );
}
