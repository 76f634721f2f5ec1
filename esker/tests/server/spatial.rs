//! Geometries beyond single statements: crashes, replicas, dumps, bytes of a hostile client.
//!
//! Neighbours: `tests/sql/spatial/*.slt` have the statements themselves.

use std::process::Command;

use esker_server::client::Client;

use crate::common::{Ask, Dice, Server, eventually, has_client, output, source_and_replica};

/// A column of every type; rows of every shape, with the SRID's bytes that a text could not carry.
const TABLES: &str = "CREATE DATABASE d; USE d; \
    CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, p POINT NOT NULL SRID 4326, l LINESTRING, a POLYGON SRID 0, \
    mp MULTIPOINT, ml MULTILINESTRING, ma MULTIPOLYGON, c GEOMCOLLECTION, SPATIAL KEY (p)); \
    INSERT INTO t VALUES (1, POINT(1, 2), ST_GeomFromText('POINT(1 2)', 4326), \
    ST_GeomFromText('LINESTRING(0 0,1 1)'), ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), \
    ST_GeomFromText('MULTIPOINT(1 1,2 2)'), ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))', 3857), \
    ST_GeomFromText('MULTIPOLYGON(((0 0,1 0,1 1,0 0)))'), ST_GeomFromText('GEOMETRYCOLLECTION()')); \
    INSERT INTO t (id, p) VALUES (2, ST_GeomFromText('POINT(-90 180)', 4326)), \
    (3, ST_GeomFromText('POINT(0 0)', 4326))";

fn contents(c: &mut Client) -> Vec<String> {
    let mut shown = c.lines("SHOW CREATE TABLE d.t");
    shown.extend(c.lines(
        "SELECT id, HEX(g), HEX(p), HEX(l), HEX(a), HEX(mp), HEX(ml), HEX(ma), HEX(c) FROM d.t ORDER BY id",
    ));
    shown
}

#[test]
fn geometries_are_there_after_a_crash() {
    let dir = tempfile::tempdir().expect("folder");
    let mut server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    c.run(TABLES);
    let before = contents(&mut c);
    assert_eq!(before.len(), 4);
    server.kill();
    server.restart();
    assert_eq!(contents(&mut server.connect()), before);
}

#[test]
fn a_dump_of_geometries_makes_them_again() {
    let dump = || Command::new("mariadb-dump");
    if !has_client("mariadb-dump", dump().arg("--version")) {
        return;
    }
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut c = server.connect();
    c.run(TABLES);
    let before = contents(&mut c);
    let port = format!("--port={}", server.port);
    let options = [
        "--host=127.0.0.1",
        &port,
        "--user=root",
        "--hex-blob",
        "--compact",
        "d",
    ];
    let text = output(dump().args(options));
    assert!(text.contains("SPATIAL KEY"), "{text}");
    c.run("DROP DATABASE d; CREATE DATABASE d; USE d");
    c.run(&text);
    assert_eq!(contents(&mut c), before);
}

#[test]
fn replicas_have_the_geometries_of_their_source() {
    let dir = tempfile::tempdir().expect("folder");
    let (source, replica) = source_and_replica(dir.path());
    let mut c = source.connect();
    c.run(TABLES);
    c.run(
        "UPDATE t SET g = l WHERE id = 1; UPDATE t SET p = ST_SRID(POINT(7, 7), 4326) WHERE id = 3; \
         DELETE FROM t WHERE p = ST_GeomFromText('POINT(-90 180)', 4326)",
    );
    let expected = contents(&mut c);
    assert_eq!(expected.len(), 3);
    eventually("the replica has caught up", || {
        let mut r = replica.connect();
        r.code("SELECT 1 FROM d.t LIMIT 1").is_none() && contents(&mut r) == expected
    });
}

#[test]
fn any_bytes_are_a_geometry_or_an_error() {
    const ROUNDS: usize = 400;
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &[]);
    let mut c = server.connect();
    let seed = c.lines(
        "SELECT HEX(ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),MULTIPOLYGON(((0 0,1 0,1 1,0 0))),\
         GEOMETRYCOLLECTION(MULTILINESTRING((0 0,1 1)),MULTIPOINT(1 1,2 2)))'))",
    );
    let mut dice = Dice::new(4711);
    let digits: Vec<char> = seed.concat().chars().collect();
    for _ in 0..ROUNDS {
        let mut changed = digits.clone();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(changed.len() as u64) as usize;
            changed[at] = char::from(b"0123456789ABCDEF"[dice.roll(16) as usize]);
        }
        changed.truncate(digits.len() - 2 * dice.roll(4) as usize);
        let bytes: String = changed.into_iter().collect();
        let sql = format!(
            "SELECT ST_AsText(g), ST_Envelope(g), ST_Centroid(g), ST_ConvexHull(g), ST_Simplify(g, 1), \
             ST_AsGeoJSON(g), ST_Distance(g, POINT(1, 1)) FROM (SELECT X'{bytes}' AS g) AS d"
        );
        assert_ne!(c.code(&sql), Some(1815), "{sql}");
    }
    c.run("DO 1");
}
