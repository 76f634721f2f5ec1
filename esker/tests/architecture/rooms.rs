//! Laws of floors inside crates, as the one between crates: a room uses rooms of its own floor and of those below.
//!
//! A room is a module at the root of a crate, a file or a folder. What counts as a use is a path from `crate`, or by
//! `super` from the root, also by a name that `lib.rs` exports. Neighbours: `main` has the law between crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{root, sources};

/// The floors of a crate, the lowest first.
struct Law {
    name: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Uses upwards that are known: file and room. None may be added.
    known: &'static [(&'static str, &'static str)],
}

const LAWS: &[Law] = &[
    // Why they lie as they do is in `docs/decisions/commit-pipeline.md`.
    Law {
        name: "engine",
        floors: &[
            &[
                "codec", "error", "hash", "iter", "pool", "span", "sync", "visit", "wait",
            ],
            &["budget"],
            &["memtable", "replayed"],
            &["cache", "extent"],
            &["compact", "flush", "tree"],
            &["batch"],
            &["lock"],
            &["commit"],
            &["follow", "txn"],
            &["scan"],
            &["bulk", "config", "maintain", "recovery"],
            &["inspect"],
            &["check", "engine"],
            &["backup"],
        ],
        known: &[],
    },
    Law {
        name: "wal",
        floors: &[
            &["error", "format", "histogram", "lsn", "policy"],
            &["flights", "live", "signals", "stats"],
            &["buffer", "config", "files", "recover", "waiters"],
            &["append"],
            &["flush", "memory", "shared"],
            &["daemon", "future"],
            &["tail"],
            &["wal"],
        ],
        known: &[],
    },
    Law {
        name: "binlog",
        floors: &[
            &["bytes", "gtid", "image", "writeset"],
            &["event", "tally"],
            &["apply", "attachment", "spool"],
            &["derive"],
            &["files"],
            &["relay", "stream"],
        ],
        known: &[],
    },
    Law {
        name: "sql-syntax",
        floors: &[
            &["ast", "keyword"],
            &["lexer"],
            // The parser keeps what is known inside of programs and hints.
            &[
                "deprecated",
                "digest",
                "hint",
                "literal",
                "parser",
                "program",
                "set",
            ],
            // What reads a statement or an expression calls the others as methods of the parser.
            &[
                "account",
                "admin",
                "alter",
                "call",
                "client_text",
                "column",
                "ddl",
                "dml",
                "event",
                "explain",
                "expr",
                "handler",
                "index",
                "item_name",
                "json",
                "operand",
                "partition",
                "query",
                "replication",
                "show",
                "statement",
                "table_option",
                "table_ref",
                "tablespace",
                "terminals",
                "transaction",
                "trigger",
                "window",
                "xa",
            ],
        ],
        known: &[],
    },
    Law {
        name: "sql-catalog",
        floors: &[
            &["exec_error"],
            &["mdl"],
            // Definitions are stored as rows, and rows are laid out by definitions.
            &["catalog", "codec"],
            &["variables"],
            &["accounts", "result"],
        ],
        known: &[],
    },
    Law {
        name: "sql-plan",
        floors: &[&["expr"], &["bind"], &["plan"]],
        // A subquery is an expression that keeps its plan, made where it is bound; a trace is handed down to the
        // planner.
        known: &[
            ("expr/mod.rs", "plan"),
            ("bind/mod.rs", "plan"),
            ("bind/subquery.rs", "plan"),
        ],
    },
    Law {
        name: "sql-exec",
        floors: &[
            &["env", "short"],
            &["memory", "sort", "spill"],
            &["ctx", "join_table", "window"],
            &["fulltext", "group", "key_filter", "locking"],
            // Operators run subqueries, which consist of operators.
            &[
                "disk_join",
                "elements",
                "join",
                "node",
                "parallel",
                "recursive",
                "root",
                "scan",
                "set_ops",
                "states",
                "subquery",
            ],
            &["stream"],
            &["target"],
        ],
        // Operators reach subqueries by their environment, which has what these keep while the statement runs.
        known: &[
            ("env.rs", "ctx"),
            ("env.rs", "fulltext"),
            ("env.rs", "states"),
            ("env.rs", "subquery"),
        ],
    },
    Law {
        name: "sql",
        floors: &[
            &[
                "capture",
                "counts",
                "instruments",
                "loglines",
                "logtable",
                "persisted",
                "printer",
                "program",
                "querylog",
                "slowlog",
                "system_schemas",
                "textfile",
                "throttle",
                "xids",
            ],
            &["audit", "dml", "statements"],
            &["ddl"],
            // What a session does concerns the instance, whose services run sessions.
            &[
                "applier",
                "binlog",
                "datadir",
                "host",
                "infoschema",
                "instance",
                "replica",
                "scheduler",
                "schema",
                "session",
                "show",
            ],
        ],
        known: &[],
    },
];

/// Code without comments and without its tests, which may use what they like.
fn code(text: &str) -> String {
    let is_inline = |rest: &&str| {
        let name = rest.split(';').next().unwrap_or_default();
        name.contains('{')
    };
    let mut end = text.len();
    for (at, marker) in text.match_indices("#[cfg(test)]\n") {
        let behind = text[at + marker.len()..].trim_start_matches("pub(crate) ");
        if behind.strip_prefix("mod ").filter(is_inline).is_some() {
            end = at;
            break;
        }
    }
    let lines = text[..end].lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// What follows the root in paths of this code: a name, or all names of a group. The file lies `depth` modules below.
fn uses(code: &str, depth: usize) -> BTreeSet<&str> {
    let climb = "super::".repeat(depth);
    let mut found = BTreeSet::new();
    for root in ["crate::", &climb] {
        for (at, marker) in code.match_indices(root) {
            let is_path = code[..at]
                .chars()
                .next_back()
                .is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':');
            let rest = &code[at + marker.len()..];
            match rest.strip_prefix('{') {
                _ if !is_path => {}
                Some(group) => found.extend(words(group.split(';').next().unwrap_or_default())),
                None => found.extend(words(rest).next()),
            }
        }
    }
    found
}

/// Names that `lib.rs` exports, with their rooms.
fn exports(lib: &str) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for export in lib.split("pub use ").skip(1) {
        let mut words = words(export.split(';').next().unwrap_or_default());
        if let Some(room) = words.next() {
            found.extend(words.map(|name| (name, room)));
        }
    }
    found
}

/// The room of a file, and how many modules it lies below the root.
fn room_of(inside: &Path) -> (String, usize) {
    let name = |part: &std::ffi::OsStr| part.to_string_lossy().trim_end_matches(".rs").to_owned();
    let parts: Vec<_> = inside.iter().map(name).collect();
    let depth = parts.len() - usize::from(parts.last().is_some_and(|last| last == "mod"));
    (parts[0].clone(), depth)
}

/// Uses upwards, as file and room. Every room must have a floor.
fn upward_uses(law: &Law) -> BTreeSet<(String, String)> {
    let src = root().join("crates").join(law.name).join("src");
    let floor_of = |room: &str| law.floors.iter().position(|floor| floor.contains(&room));
    let lib = fs::read_to_string(src.join("lib.rs")).expect("source");
    let exports = exports(&lib);
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut upward = BTreeSet::new();
    for file in files {
        let inside = file.strip_prefix(&src).expect("a file of the crate");
        let is_test = inside.to_string_lossy().contains("test");
        let (room, depth) = room_of(inside);
        if room == "lib" || is_test || inside.ends_with("random_trees.rs") {
            continue;
        }
        let floor =
            floor_of(&room).unwrap_or_else(|| panic!("{}: room {room} has no floor", law.name));
        let text = code(&fs::read_to_string(&file).expect("source"));
        for used in uses(&text, depth) {
            let used = exports.get(used).copied().unwrap_or(used);
            if floor_of(used).is_some_and(|other| other > floor) {
                upward.insert((inside.display().to_string(), used.to_owned()));
            }
        }
    }
    upward
}

#[test]
fn rooms_use_downwards_only() {
    for law in LAWS {
        let known = law
            .known
            .iter()
            .map(|(file, room)| (file.to_string(), room.to_string()));
        let known: BTreeSet<_> = known.collect();
        let found = upward_uses(law);
        let new: Vec<_> = found.difference(&known).collect();
        assert!(new.is_empty(), "{}: uses upwards: {new:#?}", law.name);
        let gone: Vec<_> = known.difference(&found).collect();
        assert!(gone.is_empty(), "{}: no longer there: {gone:#?}", law.name);
    }
}

#[test]
fn uses_are_found() {
    let text = "use crate::{A, b::{C}};\nuse crate::d::E;\nlet x = crate::f();\nesker_crate::g();\n// crate::h\n#[cfg(test)]\nmod tests;\nuse crate::i;\nuse super::super::k::L;\nuse super::m;\n#[cfg(test)]\nmod more {\nuse crate::j;\n}";
    let code = code(text);
    let found: Vec<_> = uses(&code, 2).into_iter().collect();
    assert_eq!(found, ["A", "C", "b", "d", "f", "i", "k"]);
    let exported = exports("pub use a::b::C;\npub use d::{E, F};\nmod a;");
    assert_eq!(exported.get("C"), Some(&"a"));
    assert_eq!(exported.get("F"), Some(&"d"));
    let room = |path| room_of(Path::new(path));
    assert_eq!(room("a/b/mod.rs"), ("a".to_owned(), 2));
    assert_eq!(room("a.rs"), ("a".to_owned(), 1));
}
