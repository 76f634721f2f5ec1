//! Changes of tables without any key: rows are found by what they are.
//!
//! Neighbours: `tests` has servers; `dml::apply` finds the rows, one behind the other or many in one pass.

use super::tests::Server;

const ROWS: u64 = 20_000;
/// Statements that change rows, each of which is to read the table a few times at most.
const STATEMENTS: u64 = 7;

/// Rows of the table that were read.
const READ: &str = "SELECT count_fetch FROM performance_schema.table_io_waits_summary_by_table \
                    WHERE object_schema = 'a' AND object_name = 't'";

/// Rows that come in another order than the table has them are found in a pass over it for many, and not in one for
/// each.
#[test]
fn rows_of_a_table_without_a_key_are_found_in_any_order() {
    let source = Server::source();
    let mut c = source.client(1);
    for sql in [
        "CREATE DATABASE a",
        "CREATE TABLE a.t (id INT, v INT, w VARCHAR(20), j JSON, d DOUBLE)",
        "SET SESSION cte_max_recursion_depth = 1000000",
        // Every row is there twice.
        &format!(
            "INSERT INTO a.t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
             SELECT i DIV 2, 0, IF(i % 7 = 0, NULL, CONCAT('w', i DIV 2)), JSON_ARRAY(i DIV 2), i DIV 2 / 3 FROM n"
        ),
        "UPDATE a.t SET v = v + 1 ORDER BY id DESC",
        "UPDATE a.t SET v = v + id % 3 ORDER BY RAND(3)",
        // What a row becomes is what another one was.
        "UPDATE a.t SET id = id - 1, w = NULL, j = NULL, d = NULL ORDER BY id DESC",
        "UPDATE a.t SET id = id + 1 ORDER BY id DESC",
        "DELETE FROM a.t ORDER BY RAND(5) LIMIT 15000",
        "SET SESSION binlog_row_image = MINIMAL",
        "UPDATE a.t SET v = v * 2 ORDER BY id DESC",
    ] {
        c.ok(sql);
    }
    let (events, expected) = (source.events(), source.dump());
    for log_bin in ["OFF", "ON"] {
        let replica = Server::replica(&[("log_bin", log_bin)]);
        assert_eq!(replica.apply(&events).failure, None);
        let read: u64 = replica.client(5).ok(READ)[0]
            .trim_end_matches('|')
            .parse()
            .expect("rows");
        assert!(read >= ROWS, "{read}");
        assert!(read <= 3 * STATEMENTS * ROWS, "{read}");
        assert_eq!(replica.dump(), expected);
    }
}
