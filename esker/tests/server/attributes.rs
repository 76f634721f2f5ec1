//! Query attributes: what a client says of a statement beside it, and the function that tells.
//!
//! Neighbours: `hostile` has the client, whose packets are made by hand. **Invariant**: the answers are MySQL's.

use esker_server::client::Client;

use crate::common::{Ask, Server};
use crate::hostile::Raw;

const QUERY_ATTRIBUTES: u32 = 1 << 27;
const LONGLONG: u8 = 8;
const DATETIME: u8 = 12;
const STRING: u8 = 254;

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    (server, dir)
}

fn text(s: &str) -> Vec<u8> {
    [&[s.len() as u8], s.as_bytes()].concat()
}

/// Values as COM_QUERY and COM_STMT_EXECUTE have them: their number, which are NULL, types with names, values.
fn values(given: &[(&str, u8, Option<Vec<u8>>)], sets: &[u8]) -> Vec<u8> {
    let mut nulls = vec![0; given.len().div_ceil(8)];
    let (mut types, mut bytes) = (Vec::new(), Vec::new());
    for (i, (name, ty, value)) in given.iter().enumerate() {
        types.extend_from_slice(&[*ty, 0]);
        types.extend(text(name));
        match value {
            Some(value) => bytes.extend_from_slice(value),
            None => nulls[i / 8] |= 1 << (i % 8),
        }
    }
    [&[given.len() as u8], sets, &nulls, &[1], &types, &bytes].concat()
}

/// The cells of the one row that comes; `binary` is that of a prepared statement.
fn row(raw: &mut Raw, binary: bool) -> Vec<Option<String>> {
    let count = usize::from(raw.read().expect("the number of columns")[0]);
    (0..count).for_each(|_| drop(raw.read().expect("a column")));
    let packet = raw.read().expect("a row");
    let (nulls, mut rest) = match binary {
        true => packet[1..].split_at((count + 2).div_ceil(8)),
        false => (&[][..], &packet[..]),
    };
    let mut cells = Vec::new();
    for nth in 2..count + 2 {
        let is_null = match binary {
            true => nulls[nth / 8] >> (nth % 8) & 1 == 1,
            false => rest[0] == 0xfb,
        };
        let length = if is_null { 0 } else { usize::from(rest[0]) };
        cells.push((!is_null).then(|| String::from_utf8_lossy(&rest[1..=length]).into_owned()));
        rest = &rest[if is_null && binary { 0 } else { 1 + length }..];
    }
    raw.read().expect("the end");
    cells
}

const ASK: &str = "SELECT mysql_query_attribute_string('a'), mysql_query_attribute_string('B'), \
                   mysql_query_attribute_string('at'), mysql_query_attribute_string('none'), \
                   mysql_query_attribute_string('absent')";

fn given() -> Vec<(&'static str, u8, Option<Vec<u8>>)> {
    let moment = vec![11, 0xe4, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0];
    vec![
        ("a", STRING, Some(text("one"))),
        ("a", STRING, Some(text("two"))),
        ("b", LONGLONG, Some((-5_i64).to_le_bytes().to_vec())),
        ("at", DATETIME, Some(moment)),
        ("none", STRING, None),
    ]
}

fn told() -> Vec<Option<String>> {
    let told = [
        Some("one"),
        Some("-5"),
        Some("2020-01-02 03:04:05.000006"),
        None,
        None,
    ];
    told.map(|cell| cell.map(str::to_owned)).to_vec()
}

#[test]
fn attributes_are_told_to_their_statement_alone() {
    let (server, _dir) = server();
    let mut raw = Raw::able(&server, QUERY_ATTRIBUTES);
    raw.command(&[&[3], &values(&given(), &[1])[..], ASK.as_bytes()].concat());
    assert_eq!(row(&mut raw, false), told());
    raw.command(&[&[3, 0, 1], ASK.as_bytes()].concat());
    assert_eq!(row(&mut raw, false), vec![None; 5]);
}

#[test]
fn prepared_statements_have_them_behind_their_parameters() {
    let (server, _dir) = server();
    let mut raw = Raw::able(&server, QUERY_ATTRIBUTES);
    let with = ASK.replacen("SELECT", "SELECT CONCAT(?),", 1);
    for (sql, parameter) in [(with.as_str(), true), (ASK, false)] {
        let id = raw.prepare(sql);
        let (mut sent, mut told) = (given(), told());
        if parameter {
            sent.insert(0, ("", STRING, Some(text("p"))));
            told.insert(0, Some("p".to_owned()));
        }
        // Flag 8: the number of parameters follows.
        let head = [&[0x17], &id.to_le_bytes()[..], &[8, 1, 0, 0, 0]].concat();
        raw.command(&[head, values(&sent, &[])].concat());
        assert_eq!(row(&mut raw, true), told, "{sql}");
    }
}

#[test]
fn the_function_is_one_of_a_component() {
    let (server, _dir) = server();
    let mut c = server.connect();
    c.run("INSTALL COMPONENT 'file://component_query_attributes'");
    assert_eq!(
        c.lines("SELECT mysql_query_attribute_string('a')"),
        ["NULL"]
    );
    assert_eq!(
        c.lines("SELECT mysql_query_attribute_string(NULL)"),
        ["NULL"]
    );
    c.run("UNINSTALL COMPONENT 'file://component_query_attributes'");
    for (sql, code) in [
        ("SELECT mysql_query_attribute_string()", 1123),
        ("SELECT mysql_query_attribute_string(1)", 1123),
        ("SELECT mysql_query_attribute_string('a', 'b')", 1123),
        ("INSTALL COMPONENT 'component_query_attributes'", 3527),
        ("INSTALL COMPONENT 'x://component_query_attributes'", 3528),
        ("UNINSTALL COMPONENT 'file://component_nix'", 3537),
        ("INSTALL COMPONENT 'file://component_nix'", 3529),
        ("INSTALL COMPONENT", 1064),
    ] {
        assert_eq!(c.code(sql), Some(code), "{sql}");
    }
    c.run("CREATE USER u@localhost");
    let mut u = Client::connect("127.0.0.1", server.port, "u", "", None).expect("login");
    assert_eq!(
        u.code("INSTALL COMPONENT 'file://component_query_attributes'"),
        Some(1142)
    );
}
