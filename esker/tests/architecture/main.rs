//! The dependency law of ARCHITECTURE.md, and what each crate must not touch.
//!
//! Neighbours: `effects` wants a test for every variable, `prose` has the rules for heads, docs and comments, `asserts`
//! counts asserted invariants, `errors` wants one constructor for a number, `rooms` has the laws inside crates.

mod asserts;
mod effects;
mod errors;
mod prose;
mod rooms;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use esker_sql::variables::{Effect, Scope, VARS};

/// What each crate may depend on directly, development dependencies included.
const LAW: &[(&str, &[&str])] = &[
    ("vfs", &[]),
    ("types", &[]),
    ("binlog", &["types", "vfs"]),
    ("wal", &["vfs"]),
    ("engine", &["wal", "vfs"]),
    ("sql-syntax", &["types"]),
    ("sql-catalog", &["binlog", "engine", "types", "vfs"]),
    (
        "sql-plan",
        &["sql-catalog", "sql-syntax", "engine", "types"],
    ),
    (
        "sql-exec",
        &[
            "sql-plan",
            "sql-catalog",
            "sql-syntax",
            "engine",
            "types",
            "vfs",
        ],
    ),
    (
        "sql",
        &[
            "sql-exec",
            "sql-plan",
            "sql-catalog",
            "sql-syntax",
            "binlog",
            "engine",
            "types",
            "vfs",
        ],
    ),
    ("wire", &["types"]),
    (
        "server",
        &["sql", "binlog", "wire", "engine", "types", "vfs"],
    ),
    ("sim", &["binlog", "engine", "wal", "vfs"]),
    ("bench", &["engine", "wal", "vfs"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("workspace root")
        .to_owned()
}

/// All files below a folder whose names end in `.extension`.
fn files_below(dir: &Path, extension: &str, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            files_below(&path, extension, out);
        } else if path.extension().is_some_and(|e| e == extension) {
            out.push(path);
        }
    }
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    files_below(dir, "rs", out);
}

/// Production lines of a file: up to its inline tests.
fn production(text: &str) -> &str {
    let is_inline = |at: usize, marker: &str| {
        let line = text[at + marker.len()..].lines().next();
        line.is_some_and(|line| line.ends_with('{'))
    };
    let mut tests = text.match_indices("#[cfg(test)]\nmod ");
    let first = tests.find(|(at, marker)| is_inline(*at, marker));
    first.map_or(text, |(at, _)| &text[..at])
}

#[test]
fn crates_depend_downwards_only() {
    let law: BTreeMap<_, _> = LAW.iter().copied().collect();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let dir = entry.expect("entry").path();
        let name = dir
            .file_name()
            .expect("name")
            .to_string_lossy()
            .into_owned();
        let allowed = law
            .get(name.as_str())
            .unwrap_or_else(|| panic!("no law for crate {name}"));
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).expect("manifest");
        for line in manifest.lines().filter(|l| l.starts_with("esker-")) {
            let dep = line["esker-".len()..]
                .split(['.', ' ', '='])
                .next()
                .expect("name");
            assert!(allowed.contains(&dep), "{name} must not depend on {dep}");
        }
    }
}

/// Words that only some crates may use, outside tests, with the crates that may.
const RESERVED: &[(&str, &[&str])] = &[
    ("std::fs", &["vfs"]),
    ("SystemTime::now", &["vfs"]),
    ("TcpListener", &["server"]),
    ("UdpSocket", &["server"]),
    ("tokio::", &["server"]),
    ("TcpStream", &["server"]),
];

#[test]
fn disk_clock_and_sockets_have_one_door() {
    for (name, _) in LAW {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            if file.file_name().is_some_and(|f| f == "tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).expect("source");
            for (number, line) in production(&text).lines().enumerate() {
                if line.trim_start().starts_with("//") {
                    continue;
                }
                for (word, allowed) in RESERVED {
                    assert!(
                        allowed.contains(name) || !line.contains(word),
                        "{}:{}: '{word}' is for {allowed:?} only",
                        file.display(),
                        number + 1
                    );
                }
            }
        }
    }
}

#[test]
fn engine_and_log_know_nothing_of_sql() {
    for name in ["vfs", "wal", "engine"] {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            let text = fs::read_to_string(&file).expect("source").to_lowercase();
            assert!(
                !text.contains("mysql"),
                "{} mentions a protocol",
                file.display()
            );
        }
    }
}

#[test]
fn every_file_has_a_head_and_a_bounded_length() {
    const MAX_PRODUCTION_LINES: usize = 1000;
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("esker"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        assert!(
            text.starts_with("//!"),
            "{} has no head comment",
            file.display()
        );
        let lines = production(&text).lines().count();
        assert!(
            lines <= MAX_PRODUCTION_LINES || file.ends_with("variables/table.rs"),
            "{} has {lines} lines",
            file.display()
        );
    }
}

/// A module is where its name says, and compiled once.
#[test]
fn no_module_names_its_file() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("esker/src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("source");
        let mut lines = text.lines();
        assert!(
            !lines.any(|line| line.trim_start().starts_with("#[path")),
            "{} includes a file by its path",
            file.display()
        );
    }
}

/// Where the module of a file can be declared: in the file that is named like its folder, or at the folder's root.
fn declares(file: &Path) -> bool {
    let stem = |path: &Path| {
        path.file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    let mut folder = file.parent().expect("a folder");
    let mut name = stem(file);
    if name == "mod" {
        name = stem(folder);
        folder = folder.parent().expect("a folder");
    }
    let roots = ["mod.rs", "lib.rs", "main.rs"].map(|root| folder.join(root));
    let declared = format!("mod {name};");
    let mut parents = roots.into_iter().chain([folder.with_extension("rs")]);
    parents.any(|parent| fs::read_to_string(parent).is_ok_and(|text| text.contains(&declared)))
}

/// A file that no module names is not compiled, and its tests do not run.
#[test]
fn every_file_is_a_module() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    sources(&root().join("esker"), &mut files);
    files.retain(|file| {
        let folder = file.parent().expect("a folder");
        let is_target = folder.ends_with("tests") && folder.with_file_name("src").exists();
        let is_example = file.iter().any(|part| part == "examples");
        let is_root = ["lib.rs", "main.rs", "build.rs"]
            .iter()
            .any(|root| file.ends_with(root));
        !is_target && !is_example && !is_root
    });
    let orphans: Vec<_> = files.iter().filter(|file| !declares(file)).collect();
    assert!(orphans.is_empty(), "no module: {orphans:#?}");
}

/// A variable that does what it says is asked for by name somewhere.
#[test]
fn no_variable_is_stored_and_never_read() {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        sources(&entry.expect("entry").path().join("src"), &mut files);
    }
    let tables = ["table.rs", "unused.rs"].map(|name| Path::new("variables").join(name));
    files.retain(|file| !tables.iter().any(|table| file.ends_with(table)));
    let texts: Vec<_> = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("source"))
        .collect();
    for def in VARS.iter().filter(|def| def.effect == Effect::Works) {
        let name = format!("\"{}\"", def.name);
        let is_read = texts.iter().any(|text| production(text).contains(&name));
        assert!(is_read, "nothing asks for {}", def.name);
    }
}

/// The page of all variables, which `ESKER_WRITE_DOCS=1` writes again.
#[test]
fn the_list_of_variables_is_whole() {
    let mut page = String::from(
        "# All system variables\n\
         Written from the tables in `crates/sql-catalog/src/variables`; [variables.md](variables.md) explains the\n\
         kinds. Defaults that follow from the machine are those of the table.\n\n\
         | Name | Scope | SET | Default | Kind |\n|---|---|---|---|---|\n",
    );
    for def in VARS.iter() {
        let scope = match def.scope {
            Scope::Global => "global",
            Scope::Session => "session",
            Scope::Both => "both",
        };
        let set = if def.dynamic { "yes" } else { "no" };
        let kind = match def.effect {
            Effect::Works => "works",
            Effect::Fixed => "one value",
            Effect::Stays => "stays",
            Effect::Unused => "no effect",
            Effect::Moot => "any value is true",
            Effect::Fact => "fact",
        };
        let default = match def.default {
            "\0NULL" => "NULL".to_owned(),
            "" => String::new(),
            text => format!("`{}`", text.replace('|', "\\|").replace(',', ", ")),
        };
        page += &format!("| {} | {scope} | {set} | {default} | {kind} |\n", def.name);
    }
    let path = root().join("docs/variables-list.md");
    if std::env::var_os("ESKER_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("writes");
    }
    let there = fs::read_to_string(&path).expect("the page");
    assert!(there == page, "run this test with ESKER_WRITE_DOCS=1");
}
