//! Views in sessions of an instance on a simulated machine: how they are shown, whose rights they have, crashes. What
//! they give and refuse is in `tests/sql/schema/views.slt`.

use std::sync::Arc;

use crate::common::ask::Client;
use crate::common::{client, open};
use esker_sql::accounts::{GrantEntry, GrantScope, Privileges};
use esker_sql::{Instance, Session};
use esker_vfs::sim::SimEnv;

fn lines(client: &mut Client, sql: &str) -> Vec<String> {
    let cells = |row: String| {
        let row = row.strip_suffix('|').expect("each value ends with a bar");
        row.to_owned()
    };
    client.ok(sql).into_iter().map(cells).collect()
}

fn all(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        client.ok(sql);
    }
}

fn code(client: &mut Client, sql: &str) -> u16 {
    client.ask(sql).err().unwrap_or(0)
}

fn root(instance: &Arc<Instance>) -> Client {
    let mut root = Client::new(instance, 1);
    root.ok("USE d");
    root
}

fn database(machine: &SimEnv) -> Arc<Instance> {
    let instance = open(machine, &[]);
    let mut session = Client::new(&instance, 1);
    all(
        &mut session,
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (id INT PRIMARY KEY, g INT, s VARCHAR(10) NOT NULL, KEY g (g))",
            "INSERT INTO d.t VALUES (1,1,'a'),(2,1,'b'),(3,2,'c'),(4,NULL,'d')",
        ],
    );
    instance
}

#[test]
fn rights_are_the_definer_s_or_the_invoker_s() {
    let instance = database(&SimEnv::new(3));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW mine AS SELECT id FROM t",
            "CREATE SQL SECURITY INVOKER VIEW yours AS SELECT id FROM t",
            "CREATE DEFINER = gone@localhost VIEW lost AS SELECT id FROM t",
        ],
    );
    assert_eq!(code(&mut s, "SELECT * FROM lost"), 1449);
    let mut low = client(2);
    let select = |table: &str| GrantEntry {
        scope: GrantScope::Table("d".into(), table.into()),
        privileges: Privileges::named("SELECT").unwrap(),
        grant_option: false,
    };
    (low.user, low.account.user) = ("low".into(), "low".into());
    low.account.grants = vec![select("mine"), select("yours")];
    let mut low = Client(Session::new(instance, low));
    assert_eq!(lines(&mut low, "SELECT COUNT(*) FROM d.mine"), ["4"]);
    for (sql, expected) in [
        ("SELECT COUNT(*) FROM d.yours", 1356),
        ("SELECT COUNT(*) FROM d.t", 1142),
        ("CREATE VIEW d.x AS SELECT 1", 1142),
        ("DROP VIEW d.mine", 1142),
    ] {
        assert_eq!(code(&mut low, sql), expected, "{sql}");
    }
}

#[test]
fn what_is_shown_of_views() {
    let instance = database(&SimEnv::new(4));
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT id, s FROM t",
            "CREATE VIEW w (a) AS SELECT 1 + 1",
        ],
    );
    assert_eq!(
        lines(&mut s, "SHOW FULL TABLES"),
        ["t|BASE TABLE", "v|VIEW", "w|VIEW"]
    );
    let shown = lines(&mut s, "SHOW CREATE VIEW v");
    let text = "v|CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS \
                select `t`.`id` AS `id`,`t`.`s` AS `s` from `t`|utf8mb4|";
    assert!(shown[0].starts_with(text), "{shown:?}");
    let shown = lines(&mut s, "SHOW CREATE TABLE w");
    assert!(
        shown[0].contains("VIEW `w` (`a`) AS select (1 + 1) AS `1 + 1`"),
        "{shown:?}"
    );
    let columns = lines(&mut s, "SHOW COLUMNS FROM v");
    assert!(columns[0].starts_with("id|int|NO"), "{columns:?}");
    assert!(columns[1].starts_with("s|varchar(10)|NO"), "{columns:?}");
    assert_eq!(
        lines(
            &mut s,
            "SELECT TABLE_NAME, VIEW_DEFINITION, IS_UPDATABLE, DEFINER, SECURITY_TYPE \
             FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'd' ORDER BY 1"
        ),
        [
            "v|select `d`.`t`.`id` AS `id`,`d`.`t`.`s` AS `s` from `d`.`t`|YES|root@localhost|DEFINER",
            "w|select (1 + 1) AS `1 + 1`|NO|root@localhost|DEFINER"
        ]
    );
    assert_eq!(
        lines(
            &mut s,
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES \
             WHERE TABLE_SCHEMA = 'd' ORDER BY 1"
        ),
        ["t|BASE TABLE", "v|VIEW", "w|VIEW"]
    );
    let columns = "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_NAME = 'v'";
    assert_eq!(lines(&mut s, columns), ["2"]);
    // Locked by name for reading, as a dump without a transaction does.
    all(
        &mut s,
        &[
            "LOCK TABLES v READ, t READ",
            "SELECT * FROM v",
            "UNLOCK TABLES",
        ],
    );
}

#[test]
fn views_survive_a_power_loss_and_go_with_their_database() {
    let machine = SimEnv::new(5);
    let instance = database(&machine);
    let mut s = root(&instance);
    all(
        &mut s,
        &[
            "CREATE VIEW v AS SELECT id FROM t",
            "CREATE VIEW gone AS SELECT 1 AS a",
            "DROP VIEW gone",
            "CREATE OR REPLACE VIEW v (n) AS SELECT COUNT(*) FROM t",
        ],
    );
    drop((s, instance));
    let machine = machine.crash(6);
    let instance = open(&machine, &[]);
    let mut s = root(&instance);
    assert_eq!(lines(&mut s, "SELECT n FROM v"), ["4"]);
    assert_eq!(code(&mut s, "SELECT * FROM gone"), 1146);
    all(&mut s, &["DROP DATABASE d", "CREATE DATABASE d", "USE d"]);
    assert_eq!(code(&mut s, "SELECT * FROM v"), 1146);
    drop((s, instance));
    let machine = machine.crash(7);
    let instance = open(&machine, &[]);
    let mut s = root(&instance);
    assert!(lines(&mut s, "SHOW TABLES").is_empty());
}
