//! Rules for prose: heads name their modules, paths in the docs exist, and lines end at column 120.
//!
//! Neighbours: `main` has the dependency law; the rules are those of CONTRIBUTING.md.

use std::fs;
use std::path::{Path, PathBuf};

use super::{files_below, root};

/// Most columns of a line of prose.
const MAX_COLUMNS: usize = 120;

/// Folders with prose and sources, from the repository's root.
const FOLDERS: &[&str] = &["crates", "esker", "docs"];

fn with_extension(extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        files_below(&root().join(folder), extension, &mut files);
    }
    for entry in fs::read_dir(root()).expect("the root") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    files
}

/// The lines of the head comment of a source file.
fn head(text: &str) -> String {
    text.lines()
        .take_while(|line| line.starts_with("//!"))
        .fold(String::new(), |head, line| head + line + "\n")
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

/// The modules that a file declares with `mod name;`, but for tests.
fn modules(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines() {
        if line.starts_with("#[") {
            is_test |= line.contains("cfg(") && line.contains("test");
            continue;
        }
        let declared = line.strip_suffix(';').and_then(|line| {
            let (visibility, name) = line.split_once("mod ")?;
            let is_visibility = visibility.is_empty() || visibility.starts_with("pub");
            is_visibility.then_some(name)
        });
        if let Some(name) = declared.filter(|_| !is_test) {
            found.push(name);
        }
        is_test = false;
    }
    found
}

#[test]
fn every_module_is_named_in_its_parents_head() {
    let mut missing = Vec::new();
    for file in with_extension("rs") {
        let below = file.strip_prefix(root()).expect("below");
        if !below.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("source");
        let head = head(&text);
        for name in modules(&text) {
            if !has_word(&head, name) {
                missing.push(format!("{}: {name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "not named: {missing:#?}");
}

/// Words in backticks that look like paths of the repository, and the targets of relative links.
fn paths(text: &str) -> (Vec<&str>, Vec<&str>) {
    let quoted = text.split('`').skip(1).step_by(2).filter(|word| {
        let is_plain = word
            .chars()
            .all(|c| c.is_alphanumeric() || "._-/".contains(c));
        let mut roots = ["crates/", "esker/", "docs/", "bench/", "tests/", ".ci/"].iter();
        is_plain && roots.any(|root| word.starts_with(root))
    });
    let links = text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        let target = target.split('#').next()?;
        let is_file = !target.is_empty() && !target.contains("://");
        is_file.then_some(target)
    });
    (quoted.collect(), links.collect())
}

#[test]
fn every_path_in_the_docs_exists() {
    let mut missing = Vec::new();
    for file in with_extension("md") {
        let text = fs::read_to_string(&file).expect("a page");
        let folder = file.parent().expect("a folder");
        let (quoted, links) = paths(&text);
        let mut check = |from: &Path, path: &str| {
            if !from.join(path).exists() {
                missing.push(format!("{}: {path}", file.display()));
            }
        };
        quoted.into_iter().for_each(|path| check(&root(), path));
        links.into_iter().for_each(|path| check(folder, path));
    }
    assert!(missing.is_empty(), "not there: {missing:#?}");
}

/// Lines of text that are too long: not tables, figures in fences, or a single word.
fn long_lines<'t>(lines: impl Iterator<Item = (usize, &'t str, &'t str)>) -> Vec<usize> {
    let mut is_fenced = false;
    let mut long = Vec::new();
    for (number, line, text) in lines {
        let text = text.trim();
        if text.starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_table = text.starts_with('|');
        let is_one_word = text.split_whitespace().count() < 2 || text.starts_with("`bench/compare");
        if line.chars().count() > MAX_COLUMNS && !is_fenced && !is_table && !is_one_word {
            long.push(number);
        }
    }
    long
}

#[test]
fn no_line_of_prose_is_too_long() {
    let mut long = Vec::new();
    let mut note = |file: &Path, lines: Vec<usize>| {
        long.extend(
            lines
                .iter()
                .map(|line| format!("{}:{line}", file.display())),
        );
    };
    for file in with_extension("md") {
        let text = fs::read_to_string(&file).expect("a page");
        let lines = text.lines().enumerate();
        note(
            &file,
            long_lines(lines.map(|(n, line)| (n + 1, line, line))),
        );
    }
    for file in with_extension("rs") {
        let text = fs::read_to_string(&file).expect("source");
        let lines = text.lines().enumerate().filter_map(|(n, line)| {
            let comment = line.trim_start().strip_prefix("//")?;
            Some((n + 1, line, comment.trim_start_matches(['/', '!'])))
        });
        note(&file, long_lines(lines));
    }
    assert!(long.is_empty(), "above {MAX_COLUMNS} columns: {long:#?}");
}

#[test]
fn the_rules_find_what_they_forbid() {
    let text = "//! Parts: `one`.\n\nmod one;\n#[cfg(test)]\nmod tests;\npub(crate) mod two;\n";
    assert_eq!(modules(text), ["one", "two"]);
    assert!(has_word(&head(text), "one") && !has_word(&head(text), "two"));
    let (quoted, links) = paths("`crates/x.rs`, `a b`, [y](z.md#part), [w](https://x)");
    assert_eq!((quoted, links), (vec!["crates/x.rs"], vec!["z.md"]));
    let long = "word ".repeat(30);
    let table = format!("| {long}");
    let lines = [
        (1, &*long, &*long),
        (2, "short", "short"),
        (3, &*table, &*table),
    ];
    assert_eq!(long_lines(lines.into_iter()), [1]);
}
