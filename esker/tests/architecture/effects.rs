//! No setting is silent: every variable that works has a test that sees its effect.
//!
//! A comment `effect: NAME, …` marks the place, above statements of a script (`tests/sql`) or in a test in Rust, where
//! something else comes of another value than of the default. What is marked ends with the next mark of a script, or
//! with the function. Neighbours: `tests/sql/settings` and the server's tests `effects` are there for variables that no
//! other test is about; `at_start` sees that all others are refused or warned of. **Invariant**: [`UNSEEN`] only
//! shrinks.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use esker_sql::variables::{Effect, VARS};

use super::{files_below, root, sources};

/// What no test sees yet: most are about how something is done, not what comes of it. None may be added.
const UNSEEN: [&str; 10] = [
    // One commit need not wait for others: only time tells.
    "binlog_group_commit_sync_no_delay_count",
    // Guesses wait no longer: only time tells.
    "connection_control_max_connection_delay",
    // How often the log is synced in a group.
    "esker_binlog_harden",
    // Whether a thread waits or goes on with other sessions.
    "esker_flush_pipelining",
    // How threads share the buffer of the log.
    "esker_log_buffer",
    // How many threads build what is replayed.
    "esker_recovery_threads",
    // How many threads take tasks.
    "esker_scan_threads",
    // Where all answers are right, nothing is seen; the engine's tests make them wrong.
    "esker_verify_metadata_answers",
    // How far a reader of the relay log may be ahead.
    "replica_pending_jobs_size_max",
    // How often the relay log is synced.
    "sync_relay_log",
];

/// Words of a test in Rust that fail it.
const ASSERTIONS: [&str; 5] = ["assert", "until(", "eventually(", "catch_up(", "panic!"];

/// A marked place.
struct Mark {
    /// File and line.
    place: String,
    names: Vec<String>,
    /// What stands there, without comments.
    lines: Vec<String>,
    is_script: bool,
    /// More of it may come.
    is_open: bool,
}

/// The names in a mark.
fn names_in(line: &str) -> Option<Vec<String>> {
    let text = line.trim_start().trim_start_matches(['/', '#', ' ']);
    let is_comment = text.len() < line.trim_start().len();
    let list = text.strip_prefix("effect: ").filter(|_| is_comment)?;
    Some(list.split(", ").map(str::to_owned).collect())
}

fn marks() -> Vec<Mark> {
    let mut files = Vec::new();
    for folder in ["crates", "esker/tests/server"] {
        sources(&root().join(folder), &mut files);
    }
    files_below(&root().join("tests/sql"), "slt", &mut files);
    files.iter().flat_map(marks_of).collect()
}

fn marks_of(file: &PathBuf) -> Vec<Mark> {
    let text = fs::read_to_string(file).expect("a source");
    let is_script = file.extension().is_some_and(|e| e == "slt");
    let mut marks: Vec<Mark> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let names = names_in(line);
        if is_script && names.is_some() || !is_script && line == "}" {
            marks.iter_mut().for_each(|mark| mark.is_open = false);
        }
        if let Some(names) = names {
            marks.push(Mark {
                place: format!("{}:{}", file.display(), number + 1),
                names,
                lines: Vec::new(),
                is_script,
                is_open: true,
            });
        } else if !line
            .trim_start()
            .starts_with(if is_script { "#" } else { "//" })
        {
            let open = marks.iter_mut().filter(|mark| mark.is_open);
            open.for_each(|mark| mark.lines.push(line.to_owned()));
        }
    }
    marks
}

/// Is a variable named there, as a variable or as an option, and not only to be read back?
fn sets(lines: &[String], name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '@');
    let option = name.replace('_', "-");
    let short = format!("--{}", option.strip_prefix("esker-").unwrap_or(&option));
    [name, &option, &short].iter().any(|form| {
        lines.iter().any(|line| {
            let line = line.to_lowercase();
            line.match_indices(form).any(|(at, _)| {
                let (before, behind) = (line[..at].chars().next_back(), &line[at + form.len()..]);
                !before.is_some_and(is_part)
                    && !behind.starts_with(|c: char| is_part(c) && c != '.' || c == '-')
            })
        })
    })
}

/// Does something there fail if it does not come as it is to?
fn sees(mark: &Mark) -> bool {
    if !mark.is_script {
        return ASSERTIONS
            .iter()
            .any(|word| mark.lines.iter().any(|line| line.contains(word)));
    }
    let answered = |pair: &[String]| {
        let is_answer = ["query", "statement error", "statement count"];
        is_answer.iter().any(|word| pair[0].starts_with(word))
            && !pair[1].to_lowercase().starts_with("select @@")
    };
    mark.lines.windows(2).any(answered)
}

#[test]
fn every_variable_that_works_has_an_effect_that_a_test_sees() {
    let works: BTreeSet<&str> = VARS
        .iter()
        .filter(|def| def.effect == Effect::Works)
        .map(|def| def.name)
        .collect();
    let marks = marks();
    let mut seen = BTreeSet::new();
    for mark in &marks {
        assert!(sees(mark), "{}: nothing fails there", mark.place);
        for name in &mark.names {
            let known = works.get(name.as_str());
            let known = known.unwrap_or_else(|| panic!("{}: {name} does not work", mark.place));
            assert!(
                sets(&mark.lines, name),
                "{}: {name} is not set there",
                mark.place
            );
            seen.insert(*known);
        }
    }
    let unseen: Vec<&str> = works.difference(&seen).copied().collect();
    assert_eq!(unseen, UNSEEN, "of these no test sees an effect");
}
