//! Lines typed by people: editing, history, completion of names.
//!
//! Neighbours: [`super`] asks for lines; `target` tells the names.
//! **Invariants**: statements that hold a password are not kept in the history; names are read when Tab is pressed for
//! the first time in a database, at most [`MAX_NAMES`] of a kind.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use esker_server::client::QueryResult;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::target::{Running, Target};

/// Statements kept.
const MAX_HISTORY: usize = 10_000;
/// Most names of one kind that are read for completion.
const MAX_NAMES: usize = 10_000;
/// Environment variable with the path of the history.
const HISTORY_ENV: &str = "ESKER_HISTFILE";
const HISTORY_FILE: &str = ".esker_history";
/// Statements with these words may hold a password.
const SECRET_WORDS: [&str; 3] = ["identified", "password", "encryption key"];

/// What came from a person.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Cancelled,
    /// Ctrl-D.
    End,
}

/// The line editor.
pub(super) struct Input {
    editor: Editor<Names, FileHistory>,
    history: Option<PathBuf>,
}

impl Input {
    pub(super) fn new(target: Rc<RefCell<Target>>, running: Arc<Running>) -> Result<Self, String> {
        let config = Config::builder()
            .max_history_size(MAX_HISTORY)
            .map_err(|e| e.to_string())?
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::with_config(config).map_err(|e| e.to_string())?;
        editor.set_helper(Some(Names::new(target, running)));
        let history = std::env::var_os(HISTORY_ENV)
            .map(PathBuf::from)
            .or_else(|| {
                let home = std::env::var_os("HOME")?;
                Some(PathBuf::from(home).join(HISTORY_FILE))
            });
        if let Some(path) = &history {
            // There is none at first.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    pub(super) fn read(&mut self, prompt: &str) -> Result<Typed, String> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Cancelled),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Keeps a whole statement or command.
    pub(super) fn remember(&mut self, text: &str) {
        let lower = text.to_ascii_lowercase();
        if text.trim().is_empty() || SECRET_WORDS.iter().any(|word| lower.contains(word)) {
            return;
        }
        // A history that cannot be kept is no reason to stop.
        let _ = self.editor.add_history_entry(text.trim());
        if let Some(path) = &self.history {
            let _ = self.editor.append_history(path);
        }
    }

    /// Forgets the names, which are read again at the next Tab.
    pub(super) fn rehash(&self) {
        if let Some(names) = self.editor.helper() {
            names.loaded.set(false);
        }
    }
}

/// Names for completion.
struct Names {
    target: Rc<RefCell<Target>>,
    running: Arc<Running>,
    loaded: Cell<bool>,
    keywords: RefCell<Vec<String>>,
    names: RefCell<Vec<String>>,
}

impl Names {
    fn new(target: Rc<RefCell<Target>>, running: Arc<Running>) -> Self {
        Self {
            target,
            running,
            loaded: Cell::new(false),
            keywords: RefCell::default(),
            names: RefCell::default(),
        }
    }

    fn load(&self) {
        if self.loaded.replace(true) {
            return;
        }
        if self.keywords.borrow().is_empty() {
            *self.keywords.borrow_mut() =
                self.column("SELECT word FROM information_schema.keywords");
        }
        let of_database = "WHERE table_schema = DATABASE()";
        let mut names = self.column("SELECT schema_name FROM information_schema.schemata");
        for query in [
            format!("SELECT table_name FROM information_schema.tables {of_database}"),
            format!("SELECT DISTINCT column_name FROM information_schema.columns {of_database}"),
        ] {
            names.extend(self.column(&query));
        }
        names.sort();
        names.dedup();
        *self.names.borrow_mut() = names;
    }

    /// The first column of a query's rows; nothing where it fails, as for want of privileges.
    fn column(&self, query: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut target = self.target.borrow_mut();
        let query = format!("{query} LIMIT {MAX_NAMES}");
        let outcome = target.query(&self.running, query.as_bytes(), &mut |result| {
            if let QueryResult::Rows { rows, .. } = result {
                let cells = rows.into_iter().filter_map(|row| row.into_iter().next()?);
                found.extend(cells.filter_map(|cell| String::from_utf8(cell).ok()));
            }
        });
        if outcome.is_err() {
            found.clear();
        }
        found
    }
}

/// Where the word before the cursor begins.
fn word_start(line: &str, pos: usize) -> usize {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    line[..pos]
        .char_indices()
        .rev()
        .take_while(|(_, c)| is_part(*c))
        .last()
        .map_or(pos, |(at, _)| at)
}

/// What the beginning of a word may become; keywords keep the case in which they were begun.
fn candidates(keywords: &[String], names: &[String], begun: &str) -> Vec<String> {
    let begins = |word: &&String| {
        let head = word.get(..begun.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(begun))
    };
    let is_lower = begun.chars().any(char::is_lowercase);
    let keyword = |word: &String| match is_lower {
        true => word.to_ascii_lowercase(),
        false => word.clone(),
    };
    let mut found: Vec<String> = names.iter().filter(begins).cloned().collect();
    found.extend(keywords.iter().filter(begins).map(keyword));
    found
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let start = word_start(line, pos);
        if start == pos {
            return Ok((start, Vec::new()));
        }
        self.load();
        let found = candidates(
            &self.keywords.borrow(),
            &self.names.borrow(),
            &line[start..pos],
        );
        Ok((start, found))
    }
}

impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_in_the_case_they_are_begun_in() {
        let keywords = ["SELECT".to_owned(), "SET".to_owned()];
        let names = ["Settings".to_owned(), "orders".to_owned()];
        assert_eq!(
            candidates(&keywords, &names, "se"),
            ["Settings", "select", "set"]
        );
        assert_eq!(candidates(&keywords, &names, "SEL"), ["SELECT"]);
        assert_eq!(word_start("select a.na", 11), 9);
        assert_eq!(word_start("select ", 7), 7);
    }
}
