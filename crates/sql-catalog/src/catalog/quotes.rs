//! Quoted identifiers: how SHOW CREATE and SHOW GRANTS write names, by `sql_mode` and `sql_quote_show_create`.
//!
//! Neighbours: `show` and `partitioning` print definitions with it; sessions make one of their settings, for only the
//! parser knows the keywords. **Invariant**: a name that is written without quotes is read as that name again.

use esker_types::SqlMode;

/// How names are written.
#[derive(Debug, Clone, Copy)]
pub struct Quotes {
    mark: char,
    /// Names have quotes only where they need them, as those that this finds do; none: always.
    is_keyword: Option<fn(&str) -> bool>,
}

/// A name in backticks.
pub fn quoted(name: &str) -> String {
    Quotes::BACKTICKS.name(name)
}

impl Quotes {
    /// As what is stored has them.
    pub const BACKTICKS: Self = Self {
        mark: '`',
        is_keyword: None,
    };

    /// Those of a session; `is_keyword`: names that are no keywords and have no special characters are left bare.
    pub fn of(mode: SqlMode, is_keyword: Option<fn(&str) -> bool>) -> Self {
        let mark = match mode.has(SqlMode::ANSI_QUOTES) {
            true => '"',
            false => '`',
        };
        Self { mark, is_keyword }
    }

    /// The name as it is printed.
    pub fn name(self, name: &str) -> String {
        let mut out = String::with_capacity(name.len() + 2);
        self.push(&mut out, name);
        out
    }

    /// Appends the name as it is printed.
    pub fn push(self, out: &mut String, name: &str) {
        if self
            .is_keyword
            .is_some_and(|is| is_plain(name) && !is(name))
        {
            out.push_str(name);
            return;
        }
        out.push(self.mark);
        for c in name.chars() {
            if c == self.mark {
                out.push(c);
            }
            out.push(c);
        }
        out.push(self.mark);
    }

    /// An account: `user@host`.
    pub fn account(self, user: &str, host: &str) -> String {
        format!("{}@{}", self.name(user), self.name(host))
    }

    /// A stored expression, whose names are in backticks, with these quotes.
    pub fn expression(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(['`', '\'']) {
            let (before, quoted) = rest.split_at(at);
            out.push_str(before);
            let mark = if quoted.starts_with('`') { '`' } else { '\'' };
            let end = end_of_quoted(quoted, mark);
            match mark {
                '`' => {
                    let inner = quoted[1..end].strip_suffix('`').unwrap_or(&quoted[1..end]);
                    self.push(&mut out, &inner.replace("``", "`"));
                }
                _ => out.push_str(&quoted[..end]),
            }
            rest = &quoted[end..];
        }
        out.push_str(rest);
        out
    }

    /// An expression of a column: its names keep their backticks, but for those that need none.
    pub(super) fn column_expression(self, text: &str) -> String {
        match self.is_keyword {
            Some(_) => Self { mark: '`', ..self }.expression(text),
            None => text.to_owned(),
        }
    }
}

/// Where the quoted text at the beginning ends: behind its closing mark, or with the text.
fn end_of_quoted(text: &str, mark: char) -> usize {
    debug_assert!(text.starts_with(mark));
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && mark == '\'' {
            chars.next();
        } else if c == mark && chars.next_if(|(_, next)| *next == mark).is_none() {
            return at + mark.len_utf8();
        }
    }
    text.len()
}

/// Has it only letters of ASCII, digits and underscores, and not digits alone?
fn is_plain(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    name.bytes().all(is_word) && !name.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_quotes_where_they_need_them() {
        let ansi = Quotes::of(SqlMode::ANSI_QUOTES, None);
        assert_eq!(ansi.name("a\"b`c"), "\"a\"\"b`c\"");
        assert_eq!(Quotes::BACKTICKS.name("a\"b`c"), "`a\"b``c`");
        let bare = Quotes::of(SqlMode::DEFAULT, Some(|name| name == "from"));
        let names = ["a_1", "1a", "12", "from", "a$", "ü", "a b", ""];
        let shown: Vec<String> = names.iter().map(|n| bare.name(n)).collect();
        assert_eq!(
            shown,
            ["a_1", "1a", "`12`", "`from`", "`a$`", "`ü`", "`a b`", "``"]
        );
        assert_eq!(bare.account("u", "%"), "u@`%`");
    }

    #[test]
    fn literals_of_expressions_stay() {
        let ansi = Quotes::of(SqlMode::ANSI_QUOTES, None);
        let text = r"(`a``b` = _utf8mb4'x`y''`\'`') or (`c` > 1)";
        let shown = r#"("a`b" = _utf8mb4'x`y''`\'`') or ("c" > 1)"#;
        assert_eq!(ansi.expression(text), shown);
        assert_eq!(ansi.column_expression(text), text);
        assert_eq!(ansi.expression("'open `"), "'open `");
        let bare = Quotes::of(SqlMode::ANSI_QUOTES, Some(|_| false));
        assert_eq!(bare.column_expression("(`a`, `b c`)"), "(a, `b c`)");
    }
}
