//! Multi-valued indexes: whatever changes the rows, a condition finds the same ones with the index and without.

use esker_server::client::Client;

use crate::common::{Ask, Server};

/// Changes of the random test, each followed by one comparison.
const STEPS: usize = 600;
/// Keys and elements are below this, so that changes meet.
const VALUES: u64 = 12;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }

    /// A number: what a text is in an array of numbers, only the index finds (`typed_elements.slt`).
    fn element(&mut self) -> String {
        let n = self.below(VALUES);
        match self.below(4) {
            0 => format!("{n}.0"),
            _ => n.to_string(),
        }
    }

    fn list(&mut self) -> String {
        let elements: Vec<_> = (0..self.below(5)).map(|_| self.element()).collect();
        format!("[{}]", elements.join(", "))
    }

    /// The document of a row.
    fn document(&mut self) -> String {
        match self.below(6) {
            0 => "NULL".to_owned(),
            1 => "'{\"y\": 1}'".to_owned(),
            // What is no array is one of itself, but only for the index.
            2 => format!("'{{\"z\": [{}]}}'", self.element()),
            _ => format!("'{{\"z\": {}}}'", self.list()),
        }
    }

    fn change(&mut self) -> String {
        let (id, document) = (self.below(VALUES * 4), self.document());
        match self.below(9) {
            0..=2 => format!("INSERT IGNORE INTO t (id, d) VALUES ({id}, {document})"),
            3 => format!("REPLACE INTO t (id, d) VALUES ({id}, {document})"),
            4 => format!(
                "INSERT INTO t (id, d) VALUES ({id}, {document}) ON DUPLICATE KEY UPDATE d = {}",
                self.document()
            ),
            5 => format!("UPDATE t SET d = {document} WHERE id % 7 = {}", id % 7),
            6 => format!(
                "UPDATE IGNORE t SET id = {} WHERE id = {id}",
                self.below(VALUES * 4)
            ),
            7 => format!(
                "DELETE FROM t WHERE {} MEMBER OF (d->'$.z')",
                self.element()
            ),
            _ => format!(
                "UPDATE t SET n = n + 1 WHERE JSON_CONTAINS(d->'$.z', '{}')",
                self.list()
            ),
        }
    }

    fn condition(&mut self) -> String {
        let list = self.list();
        match self.below(5) {
            0 | 1 => format!("{} MEMBER OF (d->'$.z')", self.element()),
            2 => format!("JSON_CONTAINS(d->'$.z', '{list}')"),
            3 => format!("JSON_OVERLAPS(d->'$.z', '{list}')"),
            _ => format!("JSON_OVERLAPS('{list}', d->'$.z')"),
        }
    }
}

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    server.connect().run("CREATE DATABASE d");
    (server, dir)
}

fn connect(server: &Server) -> Client {
    let mut c = server.connect();
    c.run("USE d");
    c
}

fn compare(c: &mut Client, condition: &str) {
    let ask =
        |hint: &str| format!("SELECT id, n FROM t {hint} INDEX (z) WHERE {condition} ORDER BY id");
    assert_eq!(
        c.lines(&ask("FORCE")),
        c.lines(&ask("IGNORE")),
        "{condition}"
    );
    let count = format!("SELECT COUNT(*) FROM t FORCE INDEX (z) WHERE {condition}");
    let rows = c.lines(&ask("IGNORE")).len();
    assert_eq!(c.value(&count), rows.to_string(), "{condition}");
}

/// Values of another table's rows find the same rows with the index and without.
fn compare_joins(c: &mut Client, numbers: &mut Numbers) {
    c.run("CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v JSON)");
    for _ in 0..60 {
        let value = match numbers.below(3) {
            0 => numbers.element(),
            _ => numbers.list(),
        };
        c.run(&format!("INSERT INTO s (v) VALUES ('{value}')"));
    }
    for condition in [
        "v MEMBER OF (d->'$.z')",
        "JSON_CONTAINS(d->'$.z', v)",
        "JSON_OVERLAPS(d->'$.z', v)",
        "JSON_OVERLAPS(CAST(v AS CHAR), d->'$.z')",
    ] {
        let ask = |hint: &str| {
            format!(
                "SELECT s.id, t.id FROM s STRAIGHT_JOIN t {hint} INDEX (z) ON {condition} ORDER BY 1, 2"
            )
        };
        let plan = c.lines(&format!("EXPLAIN {}", ask("FORCE")));
        assert!(plan[1].contains("|z|"), "{plan:?}");
        let found = c.lines(&ask("FORCE"));
        assert!(!found.is_empty(), "{condition}");
        assert_eq!(found, c.lines(&ask("IGNORE")), "{condition}");
    }
}

fn check(c: &mut Client) {
    let lines = c.lines("CHECK TABLE t");
    assert!(
        lines.last().is_some_and(|l| l.ends_with("|OK")),
        "{lines:?}"
    );
}

#[test]
fn the_index_finds_what_a_scan_finds_under_random_changes() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, d JSON)");
    let mut numbers = Numbers(7);
    for step in 0..STEPS {
        if step == STEPS / 4 {
            // The rows that are there come into a new index.
            c.run("ALTER TABLE t ADD KEY z ((CAST(d->'$.z' AS UNSIGNED ARRAY)))");
            let plan =
                c.lines("EXPLAIN SELECT * FROM t FORCE INDEX (z) WHERE 1 MEMBER OF (d->'$.z')");
            assert!(
                plan[0].contains("|ref|") && plan[0].contains("|z|"),
                "{plan:?}"
            );
        }
        let is_undone = numbers.below(4) == 0;
        if is_undone {
            c.run("BEGIN");
        }
        c.run(&numbers.change());
        if step > STEPS / 4 {
            compare(&mut c, &numbers.condition());
        }
        if is_undone {
            c.run("ROLLBACK");
        }
    }
    check(&mut c);
    server.kill();
    server.restart();
    let mut c = connect(&server);
    check(&mut c);
    for _ in 0..50 {
        compare(&mut c, &numbers.condition());
    }
    compare_joins(&mut c, &mut numbers);
    let condition = "1 MEMBER OF (d->'$.z')";
    c.run("BEGIN");
    let locked =
        format!("SELECT id, n FROM t FORCE INDEX (z) WHERE {condition} ORDER BY id FOR UPDATE");
    let plain = format!("SELECT id, n FROM t IGNORE INDEX (z) WHERE {condition} ORDER BY id");
    assert_eq!(c.lines(&locked), c.lines(&plain));
    c.run("ROLLBACK");
}

#[test]
fn no_two_rows_have_an_element_of_a_unique_index_in_common() {
    let (mut server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, d JSON)");
    c.run("ALTER TABLE t ADD UNIQUE KEY z ((CAST(d->'$.z' AS UNSIGNED ARRAY)))");
    let mut numbers = Numbers(11);
    let (mut taken, mut written) = (0, 0);
    for _ in 0..STEPS {
        match c.code(&numbers.change()) {
            Some(1062) => taken += 1,
            other => {
                assert_eq!(other, None);
                written += 1;
            }
        }
        compare(&mut c, &numbers.condition());
    }
    assert!(
        taken > STEPS / 50 && written > STEPS / 4,
        "{taken} {written}"
    );
    let shared = "SELECT COUNT(*) FROM t a JOIN t b ON a.id < b.id AND JSON_OVERLAPS(a.d->'$.z', b.d->'$.z')";
    assert_eq!(c.value(shared), "0");
    check(&mut c);
    server.kill();
    server.restart();
    let mut c = connect(&server);
    assert_eq!(c.value(shared), "0");
    check(&mut c);
}

#[test]
fn two_sessions_do_not_get_an_element_of_a_unique_index_both() {
    let (server, _dir) = server();
    let (mut one, mut two) = (connect(&server), connect(&server));
    one.run(
        "CREATE TABLE t (id INT PRIMARY KEY, d JSON, UNIQUE KEY z ((CAST(d AS SIGNED ARRAY))))",
    );
    one.run("BEGIN");
    one.run("INSERT INTO t VALUES (1, '[1, 2, 3]')");
    two.run("SET innodb_lock_wait_timeout = 1");
    assert_eq!(two.code("INSERT INTO t VALUES (2, '[4, 3]')"), Some(1205));
    two.run("INSERT INTO t VALUES (3, '[5]')");
    one.run("ROLLBACK");
    two.run("INSERT INTO t VALUES (2, '[4, 3]')");
    one.run("BEGIN");
    one.run("DELETE FROM t WHERE id = 2");
    assert_eq!(two.code("INSERT INTO t VALUES (4, '[4]')"), Some(1205));
    one.run("COMMIT");
    two.run("INSERT INTO t VALUES (4, '[4]')");
}

#[test]
fn nothing_else_takes_the_index_for_an_ordinary_one() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, d JSON, KEY z ((CAST(d AS SIGNED ARRAY))))");
    c.run(
        "INSERT INTO t (id, d) VALUES (1, '[1, 2, 3]'), (2, '[]'), (3, NULL), (4, '[2]'), (5, '2')",
    );
    assert_eq!(c.value("SELECT COUNT(*) FROM t FORCE INDEX (z)"), "5");
    assert_eq!(
        c.lines("SELECT id FROM t FORCE INDEX (z) ORDER BY d, id")
            .len(),
        5
    );
    assert_eq!(c.lines("SELECT DISTINCT d FROM t FORCE INDEX (z)").len(), 5);
    assert_eq!(
        c.value("SELECT COUNT(d) FROM t FORCE INDEX FOR GROUP BY (z)"),
        "4"
    );
    assert_eq!(
        c.lines("SELECT id FROM t WHERE 2 MEMBER OF (d) ORDER BY id DESC"),
        ["5", "4", "1"]
    );
    assert_eq!(
        c.lines("SELECT id FROM t WHERE JSON_OVERLAPS(d, '[1, 2, 3]') ORDER BY id"),
        ["1", "4", "5"]
    );
    assert_eq!(
        c.lines("SELECT a.id, b.id FROM t a JOIN t b ON b.id = a.id WHERE 2 MEMBER OF (b.d) ORDER BY a.id"),
        ["1|1", "4|4", "5|5"]
    );
    assert_eq!(
        c.lines("SELECT a.id, b.id FROM t a LEFT JOIN t b ON 1 MEMBER OF (b.d) ORDER BY a.id"),
        ["1|1", "2|1", "3|1", "4|1", "5|1"]
    );
    c.run("PREPARE s FROM 'SELECT COUNT(*) FROM t WHERE ? MEMBER OF (d)'");
    for (value, rows) in [("1", "1"), ("2", "3"), ("9", "0")] {
        c.run(&format!("SET @v = {value}"));
        assert_eq!(c.value("EXECUTE s USING @v"), rows);
    }
    // A dump makes the same table again.
    let shown = c.rows("SHOW CREATE TABLE t")[0][1].clone().expect("text");
    assert!(
        shown.contains("KEY `z` ((cast(`d` as signed array)))"),
        "{shown}"
    );
    c.run(&format!("CREATE DATABASE e; USE e; {shown}"));
    assert_eq!(
        c.rows("SHOW CREATE TABLE t")[0][1].as_deref(),
        Some(shown.as_str())
    );
}

#[test]
fn an_index_is_added_while_rows_change() {
    let (server, _dir) = server();
    let mut c = connect(&server);
    c.run("CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, d JSON)");
    for from in (0..8000).step_by(1000) {
        let rows: Vec<_> = (from..from + 1000)
            .map(|id| format!("({id}, '{{\"z\": [{}, {}]}}')", id % 12, id % 5))
            .collect();
        c.run(&format!("INSERT INTO t (id, d) VALUES {}", rows.join(",")));
    }
    let mut other = connect(&server);
    let writer = std::thread::spawn(move || {
        let mut numbers = Numbers(11);
        for _ in 0..300 {
            other.run(&numbers.change());
        }
    });
    c.run("ALTER TABLE t ADD KEY z ((CAST(d->'$.z' AS UNSIGNED ARRAY)))");
    writer.join().expect("writes");
    check(&mut c);
    let mut numbers = Numbers(13);
    for _ in 0..30 {
        compare(&mut c, &numbers.condition());
    }
}
