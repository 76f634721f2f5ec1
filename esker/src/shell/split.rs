//! Lines to statements and commands of the shell.
//!
//! Neighbours: [`super`] feeds lines and runs what comes out; `command` knows the commands' names.
//! **Invariants**: a statement ends at the delimiter, `\g` or `\G` outside quotes and comments; a command is known by
//! its first word at the start of a statement, and ends with its line; nothing is sent for comments alone.

use super::command::{self, Command};

/// What a delimiter is at first.
const DELIMITER: &str = ";";

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A statement for the server.
    Statement {
        sql: Vec<u8>,
        /// The line it begins on, from 1.
        line: usize,
        /// Ended with `\G`.
        vertical: bool,
    },
    /// Something for the shell itself.
    Command { command: Command, line: usize },
}

/// In what the end of a line lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    Quote(u8),
    Comment,
}

/// The statement that has begun, and where its end may be.
#[derive(Debug)]
pub(super) struct Splitter {
    pending: Vec<u8>,
    /// Line that the statement begins on.
    begin: usize,
    line: usize,
    within: Within,
    /// Is there more than comments?
    has_content: bool,
    delimiter: Vec<u8>,
}

impl Splitter {
    pub(super) fn new() -> Self {
        Self {
            pending: Vec::new(),
            begin: 1,
            line: 0,
            within: Within::Text,
            has_content: false,
            delimiter: DELIMITER.into(),
        }
    }

    /// What the prompt shows of an unfinished statement: a quote, the comment's star, or nothing.
    pub(super) fn open_mark(&self) -> Option<char> {
        match self.within {
            Within::Quote(quote) => Some(char::from(quote)),
            Within::Comment => Some('*'),
            Within::Text => None,
        }
    }

    /// Is a statement begun and not ended?
    pub(super) fn is_open(&self) -> bool {
        self.has_content || self.within != Within::Text
    }

    /// Forgets the statement that has begun.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.within = Within::Text;
        self.has_content = false;
    }

    /// Takes one line without its line feed.
    pub(super) fn feed(&mut self, line: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.line += 1;
        let mut at = 0;
        if !self.is_open()
            && let Some(command) = command::parse(line, &self.delimiter)
        {
            self.clear();
            self.push_command(command, &mut pieces);
            return pieces;
        }
        while at < line.len() {
            at += self.step(&line[at..], &mut pieces);
        }
        if self.is_open() || !self.pending.is_empty() {
            self.pending.push(b'\n');
        }
        if !self.is_open() {
            self.clear();
        }
        pieces
    }

    /// Takes what is left as a statement.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        self.end(false)
    }

    fn push_command(&mut self, command: Command, pieces: &mut Vec<Piece>) {
        if let Command::Delimiter(delimiter) = command {
            self.delimiter = delimiter;
            return;
        }
        let line = self.line;
        pieces.push(Piece::Command { command, line });
    }

    /// Takes the next token of a line; says how long it is.
    fn step(&mut self, rest: &[u8], pieces: &mut Vec<Piece>) -> usize {
        match self.within {
            Within::Quote(quote) => self.in_quote(rest, quote),
            Within::Comment => {
                let end = rest.windows(2).position(|w| w == b"*/");
                if end.is_some() {
                    self.within = Within::Text;
                }
                self.take(rest, end.map_or(rest.len(), |at| at + 2))
            }
            Within::Text => self.in_text(rest, pieces),
        }
    }

    fn in_quote(&mut self, rest: &[u8], quote: u8) -> usize {
        match rest[0] {
            b'\\' if quote != b'`' => self.take(rest, 2.min(rest.len())),
            byte => {
                if byte == quote {
                    self.within = Within::Text;
                }
                self.take(rest, 1)
            }
        }
    }

    fn in_text(&mut self, rest: &[u8], pieces: &mut Vec<Piece>) -> usize {
        if rest.starts_with(&self.delimiter) {
            pieces.extend(self.end(false));
            return self.delimiter.len();
        }
        let is_dash_comment =
            rest.starts_with(b"--") && rest.get(2).is_none_or(u8::is_ascii_whitespace);
        match rest[0] {
            b'#' => self.take(rest, rest.len()),
            b'-' if is_dash_comment => self.take(rest, rest.len()),
            b'/' if rest.starts_with(b"/*") => {
                // Versioned comments and hints are for the server.
                if matches!(rest.get(2), Some(b'!' | b'+')) {
                    self.begin_content();
                }
                self.within = Within::Comment;
                self.take(rest, 2)
            }
            b'\\' if rest.len() > 1 => self.backslash(rest, pieces),
            quote @ (b'\'' | b'"' | b'`') => {
                self.begin_content();
                self.within = Within::Quote(quote);
                self.take(rest, 1)
            }
            byte => {
                if !byte.is_ascii_whitespace() {
                    self.begin_content();
                }
                self.take(rest, 1)
            }
        }
    }

    /// `\g`, `\G`, `\c`, or a command by its letter.
    fn backslash(&mut self, rest: &[u8], pieces: &mut Vec<Piece>) -> usize {
        match rest[1] {
            b'g' | b'G' => pieces.extend(self.end(rest[1] == b'G')),
            b'c' => self.clear(),
            letter => {
                let Some((command, len)) = command::by_letter(letter, &rest[2..], &self.delimiter)
                else {
                    self.begin_content();
                    return self.take(rest, 2);
                };
                self.push_command(command, pieces);
                return 2 + len;
            }
        }
        2
    }

    fn begin_content(&mut self) {
        if !self.has_content {
            self.has_content = true;
            self.begin = self.line;
        }
    }

    fn take(&mut self, rest: &[u8], len: usize) -> usize {
        self.pending.extend_from_slice(&rest[..len]);
        len
    }

    fn end(&mut self, vertical: bool) -> Option<Piece> {
        let (has_content, line) = (self.has_content, self.begin);
        let sql = std::mem::take(&mut self.pending);
        self.clear();
        has_content.then(|| Piece::Statement {
            sql: sql.trim_ascii().to_vec(),
            line,
            vertical,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(text: &str) -> Vec<(String, usize, bool)> {
        let mut splitter = Splitter::new();
        let mut pieces: Vec<Piece> = text
            .lines()
            .flat_map(|line| splitter.feed(line.as_bytes()))
            .collect();
        pieces.extend(splitter.finish());
        pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Statement {
                    sql,
                    line,
                    vertical,
                } => (
                    String::from_utf8(sql).expect("text as it was given"),
                    line,
                    vertical,
                ),
                Piece::Command { command, line } => (format!("{command:?}"), line, false),
            })
            .collect()
    }

    fn texts(text: &str) -> Vec<String> {
        statements(text).into_iter().map(|s| s.0).collect()
    }

    #[test]
    fn statements_end_at_delimiters_outside_quotes_and_comments() {
        assert_eq!(texts("select 1"), ["select 1"]);
        assert_eq!(texts("select 1; select 2;"), ["select 1", "select 2"]);
        assert_eq!(texts("select ';';"), ["select ';'"]);
        assert_eq!(texts(r"select 'it\';';x;"), [r"select 'it\';'", "x"]);
        assert_eq!(texts("select `a;b`;"), ["select `a;b`"]);
        assert_eq!(texts("select 1 /* ; */ + 1;"), ["select 1 /* ; */ + 1"]);
        assert_eq!(texts("select 1 -- ;\n+ 1;"), ["select 1 -- ;\n+ 1"]);
        assert_eq!(texts("select 2--1;"), ["select 2--1"]);
        assert_eq!(texts("select 'a\nb';"), ["select 'a\nb'"]);
    }

    #[test]
    fn comments_alone_are_not_sent() {
        assert!(texts("-- nothing\n\n# nothing\n/* nothing\n at all */;;\n").is_empty());
        assert_eq!(
            texts("/*!40101 SET NAMES utf8 */;"),
            ["/*!40101 SET NAMES utf8 */"]
        );
    }

    #[test]
    fn a_statement_knows_its_line_and_its_end() {
        let expected = [
            ("select\n1".to_owned(), 3, true),
            ("select 2".to_owned(), 5, false),
        ];
        assert_eq!(statements("\n-- x\nselect\n1\\G\nselect 2\\g"), expected);
    }

    #[test]
    fn delimiters_can_be_changed() {
        let text = "delimiter //\ncreate trigger x begin a; b; end//\ndelimiter ;\nselect 1;";
        assert_eq!(
            texts(text),
            ["create trigger x begin a; b; end", "select 1"]
        );
    }

    #[test]
    fn commands_stand_at_the_start_of_a_statement() {
        assert_eq!(texts("use shop"), [r#"Use("shop")"#]);
        assert_eq!(texts("USE `shop`;"), [r#"Use("shop")"#]);
        assert_eq!(texts("select\nuse;"), ["select\nuse"]);
        assert_eq!(texts("select 1 \\c\nselect 2;"), ["select 2"]);
        assert_eq!(texts(r"\u shop"), [r#"Use("shop")"#]);
        assert_eq!(texts(r"\s"), ["Status"]);
    }
}
