//! ENUM and SET columns whose words are others than the source's.

use super::tests::Server;

/// Values go by their numbers, in however many bytes; what the replica has no word for is lost.
#[test]
fn values_of_enum_and_set_go_by_their_numbers() {
    let source = Server::source();
    let mut c = source.client(1);
    c.ok("CREATE DATABASE a");
    c.ok("CREATE TABLE a.t (id INT PRIMARY KEY, s SET('a','b'), e ENUM('x','y'), n ENUM('p','q'))");
    let before = source.events();
    c.ok("INSERT INTO a.t VALUES (1, 'a,b', 'y', 'q'), (2, '', 'x', 'p'), (3, NULL, NULL, NULL)");
    c.ok("UPDATE a.t SET s = 'b' WHERE id = 2");
    let events = source.events();
    let replica = Server::replica(&[("replica_type_conversions", "ALL_NON_LOSSY")]);
    assert_eq!(replica.apply(&before).failure, None);
    let mut there = replica.client(1);
    let many: Vec<String> = (0..300).map(|n| format!("'w{n}'")).collect();
    there.ok(&format!(
        "ALTER TABLE a.t MODIFY s SET('a','b','c','d','e','f','g','h','i'), MODIFY e ENUM({}), MODIFY n ENUM('p')",
        many.join(",")
    ));
    assert_eq!(replica.apply(&events).failure, None);
    let rows = there.ok("SELECT * FROM a.t ORDER BY id");
    assert_eq!(rows, ["1|a,b|w1||", "2|b|w0|p|", "3|NULL|NULL|NULL|"]);
}
