//! Which grouping keys tell groups apart.
//!
//! Neighbours: `plan::group_keys` decides.
//! **Invariant**: leaving the other keys out of the comparison changes no group.

use esker_sql_plan::plan::Root;

use super::rig::Rig;

fn tells(rig: &Rig, sql: &str) -> Vec<bool> {
    let plan = rig.plan(sql, &[]).unwrap();
    let Root::Block(block) = &plan.root else {
        panic!("{sql} is one block")
    };
    block.group.as_ref().expect("it groups").tells.clone()
}

#[test]
fn what_follows_from_a_primary_key_tells_nothing() {
    let rig = Rig::new(&[
        "CREATE TABLE c (id INT PRIMARY KEY, name VARCHAR(20), nation INT, u INT UNIQUE)",
        "CREATE TABLE n (id INT PRIMARY KEY, name VARCHAR(20))",
        "CREATE TABLE l (o INT, line INT, text VARCHAR(20), PRIMARY KEY (o, line))",
        "CREATE TABLE s (id VARCHAR(20) PRIMARY KEY, x INT)",
        "CREATE TABLE f (id INT, x INT)",
        "INSERT INTO c VALUES (1, 'a', 1, 1), (2, 'a', 1, NULL), (3, 'b', 2, NULL), (4, 'b', 9, 2)",
        "INSERT INTO n VALUES (1, 'x'), (2, 'y')",
    ]);
    for (from_and_keys, expected) in [
        ("c GROUP BY id, name", &[true, false][..]),
        ("c GROUP BY name, id", &[false, true]),
        ("c GROUP BY name, nation", &[true, true]),
        ("c GROUP BY u, name", &[true, true]),
        ("c GROUP BY id + 1, name", &[true, true]),
        ("c GROUP BY id, name WITH ROLLUP", &[true, true]),
        (
            "c JOIN n ON nation = n.id GROUP BY c.id, n.name",
            &[true, false],
        ),
        (
            "c, n WHERE nation = n.id GROUP BY n.name, c.id, n.id",
            &[false, true, false],
        ),
        (
            "c LEFT JOIN n ON nation = n.id GROUP BY c.id, n.name",
            &[true, true],
        ),
        (
            "c LEFT JOIN n ON nation = n.id GROUP BY n.id, n.name",
            &[true, false],
        ),
        (
            "c, n WHERE nation <=> n.id GROUP BY c.id, n.name",
            &[true, true],
        ),
        ("l GROUP BY o, text", &[true, true]),
        ("l GROUP BY line, text, o", &[true, false, true]),
        ("s GROUP BY id, x", &[true, true]),
        ("f GROUP BY id, x", &[true, true]),
    ] {
        let sql = format!("SELECT COUNT(*) FROM {from_and_keys}");
        assert_eq!(tells(&rig, &sql), expected, "{sql}");
    }
    let rows = |sql: &str| rig.sorted(sql);
    let joined = "SELECT MIN(c.id), MIN(c.name), MIN(n.name), COUNT(*) FROM c LEFT JOIN n ON nation >= n.id GROUP BY";
    assert_eq!(
        rows(&format!("{joined} c.name, n.name, n.id, c.id")),
        rows(&format!("{joined} c.name, n.name, n.id + 0, c.id + 0")),
    );
    let sql =
        "SELECT n.id, n.name, COUNT(*) FROM c LEFT JOIN n ON nation = n.id GROUP BY n.id, n.name";
    assert_eq!(rows(sql), ["1|x|2", "2|y|1", "NULL|NULL|1"]);
}
