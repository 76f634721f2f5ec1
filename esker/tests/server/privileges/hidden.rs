//! What errors do not tell.

use super::{connect_as, server};
use crate::common::Ask;

#[test]
fn errors_of_foreign_keys_name_no_table_that_one_has_no_privilege_on() {
    const FAILS: [&str; 2] = [
        "Cannot delete or update a parent row: a foreign key constraint fails",
        "Cannot add or update a child row: a foreign key constraint fails",
    ];
    const KEY: &str =
        " (`e`.`c`, CONSTRAINT `c_ibfk_1` FOREIGN KEY (`p`) REFERENCES `d`.`t` (`a`))";
    const REFUSED: [&str; 2] = [
        "DELETE FROM d.t WHERE a = 1",
        "INSERT INTO e.c VALUES (9, 99)",
    ];
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE DATABASE e; CREATE TABLE e.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.t (a)); \
         INSERT INTO e.c VALUES (1, 1); CREATE USER parent, child; GRANT SELECT, DELETE ON d.t TO parent; \
         GRANT INSERT ON e.c TO child",
    );
    let sessions = ["parent", "child"].map(|user| connect_as(&server, user));
    for (nth, mut session) in sessions.into_iter().enumerate() {
        let (user, place) = [("parent", "e.c"), ("child", "d.t")][nth];
        let (refused, fails) = (REFUSED[nth], FAILS[nth]);
        assert!(session.error(refused).ends_with(fails), "{refused}");
        session.run(
            &refused
                .replace("DELETE", "DELETE IGNORE")
                .replace("INSERT", "INSERT IGNORE"),
        );
        assert_eq!(session.rows("SHOW WARNINGS")[0][2].as_deref(), Some(fails));
        // A privilege on a column does not do, any on the whole table does.
        let column = if nth == 0 { "id" } else { "a" };
        root.run(&format!("GRANT SELECT ({column}) ON {place} TO {user}"));
        assert!(session.error(refused).ends_with(fails), "{refused}");
        root.run(&format!("GRANT REFERENCES ON {place} TO {user}"));
        let told = format!("{fails}{KEY}");
        assert!(session.error(refused).ends_with(&told), "{refused}");
    }
}
