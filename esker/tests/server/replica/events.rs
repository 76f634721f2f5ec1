//! Events on a replica: they come, are altered and go with the source's, and do not run there.

use super::{REPLICA, catch_up, change, source};
use crate::common::{Ask, Server, eventually};

const EVENTS: &str = "SELECT event_name, status, originator, time_zone, starts, definer, event_definition \
                      FROM information_schema.events ORDER BY event_name";

#[test]
fn events_of_the_source_do_not_run_on_its_replica() {
    let dir = tempfile::tempdir().expect("folder");
    let source = source(dir.path());
    let replica = Server::start(&dir.path().join("replica"), &REPLICA);
    let mut there = replica.connect();
    change(&mut there, source.port, "SOURCE_AUTO_POSITION = 1");
    there.run("START REPLICA");
    let mut c = source.connect();
    c.run(
        "USE d; SET time_zone = '+03:00';
         CREATE EVENT e ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01' DO INSERT INTO t SELECT IFNULL(MAX(id), 0) + 1, \
         @@server_id FROM t;
         CREATE EVENT d.off ON SCHEDULE EVERY 1 SECOND STARTS '2020-01-01' DISABLE DO SET @a = 1;
         CREATE EVENT once ON SCHEDULE AT NOW() DO SET @a = 1",
    );
    let rows = "SELECT COUNT(*) >= 3 FROM d.t";
    eventually("it runs on the source", || c.value(rows) == "1");
    c.run("DROP EVENT IF EXISTS nothing; ALTER EVENT e COMMENT 'altered'; ALTER EVENT off RENAME TO d.off2 DISABLE");
    eventually("the replica has heard", || {
        there
            .value("SELECT COUNT(*) FROM information_schema.events WHERE event_comment = 'altered'")
            == "1"
            && there
                .value("SELECT COUNT(*) FROM information_schema.events WHERE event_name = 'off2'")
                == "1"
    });
    eventually("what has ended on the source is gone", || {
        there.value("SELECT COUNT(*) FROM information_schema.events") == "2"
    });
    let body = "INSERT INTO t SELECT IFNULL(MAX(id), 0) + 1, @@server_id FROM t";
    assert_eq!(
        there.lines(EVENTS),
        [
            format!("e|REPLICA_SIDE_DISABLED|1|+03:00|2020-01-01 00:00:00|root@localhost|{body}"),
            "off2|REPLICA_SIDE_DISABLED|1|+03:00|2020-01-01 00:00:00|root@localhost|SET @a = 1"
                .to_owned(),
        ]
    );
    c.run("ALTER EVENT e DISABLE");
    let running = "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Connect'";
    eventually("the last run has ended", || c.value(running) == "0");
    catch_up(&replica, &super::contents(&mut c));
    assert_eq!(there.value("SELECT COUNT(*) FROM d.t WHERE v <> 1"), "0");
    // A variable of a procedure is logged as what it is.
    c.run(
        "CREATE PROCEDURE p(n INT) ALTER EVENT off2 ON SCHEDULE EVERY n + 1 HOUR STARTS '2036-01-01' COMMENT 'by p';
         CALL p(2)",
    );
    let every = "SELECT COUNT(*) FROM information_schema.events WHERE interval_value = 3 AND event_comment = 'by p'";
    eventually("that is altered", || there.value(every) == "1");
    c.run("DROP EVENT e; DROP EVENT off2");
    eventually("both are gone", || {
        there.value("SELECT COUNT(*) FROM information_schema.events") == "0"
    });
}
