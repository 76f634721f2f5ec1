//! What channels leave out, and where they stop.

use super::{REPLICA, catch_up, change, contents, source, status, write};
use crate::common::{Ask, Server, eventually};

/// Every statement of an XA transaction may come from a session with another default database.
#[test]
fn filters_leave_rows_of_xa_transactions_out_but_never_their_ends() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut c = source.connect();
    c.run("CREATE DATABASE other; CREATE TABLE other.t (id INT PRIMARY KEY); CREATE TABLE d.own (id INT PRIMARY KEY)");
    for rule in [
        "REPLICATE_IGNORE_DB = (other)",
        "REPLICATE_DO_DB = (d)",
        "REPLICATE_WILD_IGNORE_TABLE = ('other.%')",
    ] {
        let replica = Server::start(
            &dir.path().join(rule.split(' ').next().expect("a name")),
            &["--log-bin=ON", "--gtid-mode=ON", "--server-id=2"],
        );
        let mut there = replica.connect();
        change(&mut there, source.port, "SOURCE_AUTO_POSITION = 1");
        there.run("START REPLICA");
        c.run("DELETE FROM d.t");
        write(&mut c, 0..3);
        // The same rows were there before.
        let all = c.value("SELECT @@GLOBAL.gtid_executed");
        there.run(&format!("DO WAIT_FOR_EXECUTED_GTID_SET('{all}')"));
        catch_up(&replica, &contents(&mut c));
        there.run(&format!(
            "STOP REPLICA; DELETE FROM other.t; CHANGE REPLICATION FILTER {rule}; START REPLICA"
        ));
        let statements = [
            "XA START 'x'",
            "INSERT INTO d.t VALUES (1001, 0)",
            "INSERT INTO other.t VALUES (1)",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
        ];
        // From this statement on the default database is one that is left out.
        for away in 0..statements.len() {
            c.run("USE d");
            for (nth, sql) in statements.iter().enumerate() {
                if nth == away {
                    c.run("USE other");
                }
                c.run(sql);
            }
            let is_there = "SELECT COUNT(*) FROM d.t WHERE id = 1001";
            eventually("it is committed", || there.lines(is_there) == ["1"]);
            c.run("DELETE FROM other.t; USE d; DELETE FROM d.t WHERE id = 1001");
            catch_up(&replica, &contents(&mut c));
        }
        // One that has changed nothing else, and one that is rolled back.
        c.run("USE other; XA START 'y'; INSERT INTO other.t VALUES (2); XA END 'y'; XA PREPARE 'y'; XA COMMIT 'y'");
        c.run("XA START 'z'; INSERT INTO d.t VALUES (1002, 0); XA END 'z'; XA PREPARE 'z'; XA ROLLBACK 'z'");
        c.run("DELETE FROM other.t; USE d; INSERT INTO d.t VALUES (1003, 0)");
        catch_up(&replica, &contents(&mut c));
        assert_eq!(there.lines("XA RECOVER"), [""; 0], "{rule}");
        assert_eq!(there.lines("SELECT * FROM other.t"), [""; 0], "{rule}");
        assert_eq!(status(&mut there)[36], "0", "{rule}");
        c.run("DROP TABLE other.t; CREATE TABLE other.t (id INT PRIMARY KEY)");
    }
}

#[test]
fn a_channel_stops_where_gtids_are_executed_already_or_by_others() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let mut c = source.connect();
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut there = replica.connect();
    change(&mut there, source.port, "SOURCE_AUTO_POSITION = 1");
    there.run("START REPLICA");
    write(&mut c, 0..3);
    catch_up(&replica, &contents(&mut c));
    there.run("STOP REPLICA");
    let before = contents(&mut c);
    let [theirs, own] = [&mut c, &mut there].map(|c| c.value("SELECT @@server_uuid"));
    there.run("CREATE DATABASE here; CREATE TABLE here.t (id INT)");
    write(&mut c, 3..5);
    let mut stops = |until: &str| {
        there.run(&format!("START REPLICA UNTIL {until}"));
        eventually("it stops", || status(&mut there)[11] == "No");
        assert_eq!(contents(&mut there), before, "{until}");
        there.run("STOP REPLICA");
    };
    // What is executed already, and what sessions have executed.
    stops(&format!("SQL_BEFORE_GTIDS = '{theirs}:3-6'"));
    stops(&format!("SQL_BEFORE_GTIDS = '{theirs}:2'"));
    stops(&format!("SQL_AFTER_GTIDS = '{theirs}:1-4,{own}:1-2'"));
    // A session executes the last one while the channel goes on.
    there.run(&format!(
        "START REPLICA UNTIL SQL_AFTER_GTIDS = '{theirs}:1-4,{own}:3'"
    ));
    catch_up(&replica, &contents(&mut c));
    assert_eq!(status(&mut there)[11], "Yes");
    there.run("INSERT INTO here.t VALUES (1)");
    eventually("it stops", || status(&mut there)[11] == "No");
}
