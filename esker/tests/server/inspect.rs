//! `esker inspect manifest` and `esker inspect extent` on the files of a real server: whole, damaged, missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Ask, Server};

fn inspect(what: &str, args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker"))
        .args(["inspect", what])
        .args(args)
        .arg(dir)
        .output()
        .expect("the command runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The objects of this type in the output of `--json`.
fn objects<'a>(output: &'a str, kind: &str) -> Vec<&'a str> {
    let begin = format!("{{\"type\":\"{kind}\",");
    output.lines().filter(|l| l.starts_with(&begin)).collect()
}

fn number(object: &str, field: &str) -> u64 {
    let rest = object.split(&format!("\"{field}\":")).nth(1);
    let digits = rest.map(|rest| rest.split([',', '}']).next().unwrap_or(""));
    let parsed = digits.and_then(|digits| digits.parse().ok());
    parsed.unwrap_or_else(|| panic!("no {field} in {object}"))
}

fn newest(dir: &Path) -> PathBuf {
    let files = fs::read_dir(dir).expect("a directory");
    let paths = files.map(|file| file.expect("readable").path());
    // Room that is kept for the next manifest is none.
    let paths = paths.filter(|path| !path.ends_with("spare"));
    paths.max().expect("a file")
}

const SETTINGS: [&str; 2] = [
    "--esker-memtable-size=1048576",
    "--esker-memory-limit=33554432",
];

/// A server that has written extents of a table with rows of 6,400 bytes.
fn filled(dir: &Path) -> Server {
    let server = Server::start(dir, &SETTINGS);
    let mut c = server.connect();
    c.run("CREATE DATABASE d");
    c.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(8000))");
    for id in 0..400 {
        c.run(&format!(
            "INSERT INTO d.t VALUES ({id}, REPEAT(MD5({id}), 200))"
        ));
    }
    let flushed =
        "SELECT COUNT(*) > 0 FROM information_schema.ESKER_EXTENTS WHERE TABLE_NAME = 't'";
    while c.value(flushed) == "0" {
        std::thread::yield_now();
    }
    server
}

#[test]
fn manifest_and_extents_are_shown_and_agree() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut server = filled(dir.path());
    let mut c = server.connect();
    let tree: u64 = c
        .value("SELECT TREE_ID FROM information_schema.ESKER_TREES WHERE TABLE_NAME = 't'")
        .parse()
        .expect("a number");
    // The manifest may be looked at while somebody works, the extents may not.
    let running = inspect("manifest", &["--json"], &data);
    assert!(running.status.success(), "{running:?}");
    let refused = inspect("extent", &[], &data);
    assert_eq!(refused.status.code(), Some(1));
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(error.contains("in use by another process"), "{error}");
    drop(c);
    server.stop();

    let manifest = text(&inspect("manifest", &["--extents", "--json"], &data));
    let head = objects(&manifest, "manifest");
    let trees = objects(&manifest, "tree");
    assert_eq!(number(head[0], "trees"), trees.len() as u64);
    let runs = objects(&manifest, "run");
    let extents = objects(&manifest, "extent");
    for field in ["versions", "deletes", "stored_bytes", "data_bytes"] {
        let sum = |all: &[&str]| all.iter().map(|o| number(o, field)).sum::<u64>();
        assert_eq!(sum(&runs), sum(&extents), "{field}");
    }
    let plain = text(&inspect("manifest", &[], &data));
    assert!(plain.contains(&format!("tree {tree}: flushed up to sequence ")));
    assert!(plain.contains(" before compression, "), "{plain}");

    let shown = inspect("extent", &["--blocks", "--json"], &data);
    assert!(shown.status.success(), "{shown:?}");
    let shown = text(&shown);
    assert_eq!(objects(&shown, "extent").len(), extents.len());
    for extent in objects(&shown, "extent") {
        let id = number(extent, "extent");
        let blocks = objects(&shown, "block");
        let own: Vec<_> = blocks
            .iter()
            .filter(|b| number(b, "extent") == id)
            .collect();
        assert_eq!(number(extent, "blocks"), own.len() as u64);
        let versions: u64 = own.iter().map(|block| number(block, "versions")).sum();
        assert_eq!(versions, number(extent, "versions"), "{extent}");
        let stored: u64 = own.iter().map(|block| number(block, "stored_bytes")).sum();
        assert_eq!(
            number(extent, "filter_offset"),
            number(own[0], "offset") + stored
        );
    }
    let of_tree = |o: &&&str| number(o, "tree") == tree;
    let wanted = extents.iter().filter(of_tree).count();
    let only = text(&inspect("extent", &["--tree", &tree.to_string()], &data));
    assert!(
        only.ends_with(&format!("{wanted} extents, 0 damaged\n")),
        "{only}"
    );
    assert!(only.contains(" versions (0 deletes), sequences "), "{only}");
}

#[test]
fn damage_is_named_and_hides_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    filled(dir.path()).stop();
    let whole = text(&inspect("extent", &["--blocks", "--json"], &data));
    let (extents, blocks) = (objects(&whole, "extent"), objects(&whole, "block"));
    let extent = extents.iter().find(|e| number(e, "blocks") > 2);
    let extent = extent.expect("one with several blocks");
    let id = number(extent, "extent");
    let block = blocks.iter().filter(|b| number(b, "extent") == id).nth(1);
    let offset = number(block.expect("a second block"), "offset");
    let file = data.join(format!(
        "extents/{:06}.extents",
        number(extent, "file_number")
    ));
    let mut bytes = fs::read(&file).expect("readable");
    bytes[(number(extent, "offset") + offset + 7) as usize] ^= 1;
    fs::write(&file, &bytes).expect("writable");

    let damaged = inspect("extent", &["--blocks", "--json"], &data);
    assert_eq!(damaged.status.code(), Some(2));
    let damaged = text(&damaged);
    assert_eq!(objects(&damaged, "block").len(), blocks.len());
    assert_eq!(damaged.matches("\"damage\":").count(), 1, "{damaged}");
    assert!(damaged.contains("the checksum is wrong"), "{damaged}");
    assert!(damaged.ends_with(&format!(
        "{{\"type\":\"end\",\"extents\":{},\"damaged\":1}}\n",
        extents.len()
    )));
    // Without --blocks the damaged one is shown all the same.
    let short = text(&inspect("extent", &["--extent", &id.to_string()], &data));
    let place = format!("block 1 at {offset}: ");
    assert!(
        short.contains(&place) && short.contains("DAMAGED "),
        "{short}"
    );
    assert!(short.contains(file.to_str().expect("text")), "{short}");
    assert!(short.ends_with("1 extents, 1 damaged\n"), "{short}");

    fs::remove_file(&file).expect("removed");
    let missing = inspect("extent", &[], &data);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing).contains("the file is missing"));

    let manifest = newest(&data.join("manifest"));
    let mut bytes = fs::read(&manifest).expect("readable");
    bytes[30] ^= 1;
    fs::write(&manifest, &bytes).expect("writable");
    for what in ["manifest", "extent"] {
        let shown = inspect(what, &[], &data);
        assert_eq!(shown.status.code(), Some(2), "{what}");
        let said = text(&shown);
        assert!(said.contains("DAMAGED "), "{said}");
        assert!(said.contains(manifest.to_str().expect("text")), "{said}");
    }
    let nothing = inspect("manifest", &[], &dir.path().join("nothing"));
    assert_eq!(nothing.status.code(), Some(1));
}
