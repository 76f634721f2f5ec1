//! What the shell does itself: `use`, `source`, `help` and their kin.
//!
//! Neighbours: `split` finds them between statements, [`super`] runs them.
//! **Invariant**: every command is in [`HELP`], with the letter that follows a backslash.

use std::path::PathBuf;

/// A command with its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Quit,
    /// Another database.
    Use(String),
    /// Statements of a file.
    Source(PathBuf),
    Status,
    /// What ends a statement.
    Delimiter(Vec<u8>),
    /// How results are printed: the name of a format.
    Format(String),
    /// Whether the time of a statement is printed; None: the other way round.
    Timing(Option<bool>),
    /// Read the names for completion again.
    Rehash,
    /// Whether warnings are printed after each statement.
    Warnings(bool),
    /// Not usable, and why.
    Bad(String),
}

/// Name, letter, argument and meaning, for `help`.
pub(super) const HELP: &[(&str, &str, &str)] = &[
    ("help", "\\h, ?", "Show this list."),
    ("clear", "\\c", "Forget the statement that has begun."),
    ("delimiter STRING", "\\d", "Set what ends a statement."),
    ("go", "\\g", "End a statement."),
    (
        "ego",
        "\\G",
        "End a statement; print its result vertically.",
    ),
    (
        "format NAME",
        "",
        "Print results as table, vertical, tabs, csv or json.",
    ),
    (
        "nowarning",
        "\\w",
        "Do not print warnings after each statement.",
    ),
    ("quit", "\\q", "Leave; so do 'exit' and Ctrl-D."),
    ("rehash", "\\#", "Read the names for completion again."),
    ("source FILE", "\\.", "Run the statements of a file."),
    ("status", "\\s", "Show the connection."),
    ("timing [on|off]", "", "Print how long statements take."),
    ("use DATABASE", "\\u", "Use another database."),
    ("warnings", "\\W", "Print warnings after each statement."),
];

/// A line that is a command: its first word says so.
pub(super) fn parse(line: &[u8], delimiter: &[u8]) -> Option<Command> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let bare = without_delimiter(word, delimiter);
    let name = bare.to_ascii_lowercase();
    // "DELIMITER ;" names what would be cut off.
    let argument = match name.as_str() {
        "delimiter" => rest.trim(),
        _ => without_delimiter(rest.trim(), delimiter),
    };
    match (name.as_str(), argument) {
        ("?" | "help", _) => Some(Command::Help),
        ("exit" | "quit", "") => Some(Command::Quit),
        ("use", "") => Some(Command::Bad("USE needs the name of a database".into())),
        ("use", database) => Some(Command::Use(unquote(database))),
        ("source", "") => Some(Command::Bad("source needs a file".into())),
        ("source", file) => Some(Command::Source(unquote(file).into())),
        ("status", "") => Some(Command::Status),
        ("delimiter", text) => Some(set_delimiter(text)),
        ("format", name) => Some(Command::Format(name.to_owned())),
        ("timing", "") => Some(Command::Timing(None)),
        ("timing", "on") => Some(Command::Timing(Some(true))),
        ("timing", "off") => Some(Command::Timing(Some(false))),
        ("rehash", "") => Some(Command::Rehash),
        ("warnings", "") => Some(Command::Warnings(true)),
        ("nowarning", "") => Some(Command::Warnings(false)),
        _ => None,
    }
}

/// The command of a letter behind a backslash, and how much of the line belongs to it.
pub(super) fn by_letter(letter: u8, rest: &[u8], delimiter: &[u8]) -> Option<(Command, usize)> {
    let name = match letter {
        b'h' | b'?' => return Some((Command::Help, 0)),
        b'q' => return Some((Command::Quit, 0)),
        b's' => return Some((Command::Status, 0)),
        b'#' => return Some((Command::Rehash, 0)),
        b'W' => return Some((Command::Warnings(true), 0)),
        b'w' => return Some((Command::Warnings(false), 0)),
        b'u' => "use",
        b'.' => "source",
        b'd' => "delimiter",
        _ => return None,
    };
    let line = [name.as_bytes(), b" ", rest].concat();
    parse(&line, delimiter).map(|command| (command, rest.len()))
}

fn set_delimiter(text: &str) -> Command {
    match text.split_whitespace().next() {
        None => Command::Bad("DELIMITER needs a string".into()),
        Some(word) if word.contains('\\') => {
            Command::Bad("a delimiter cannot contain a backslash".into())
        }
        Some(word) => Command::Delimiter(word.into()),
    }
}

fn without_delimiter<'a>(text: &'a str, delimiter: &[u8]) -> &'a str {
    let mut text = text.trim_end();
    if let Ok(delimiter) = std::str::from_utf8(delimiter) {
        text = text.trim_end_matches(delimiter).trim_end();
    }
    text
}

fn unquote(text: &str) -> String {
    for quote in ['`', '"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            return inner.replace(&format!("{quote}{quote}"), &quote.to_string());
        }
    }
    text.to_owned()
}
