//! Names of result columns without an alias: the expression as it was written.
//!
//! Neighbours: `query` asks for every item of a select list; the binder takes the name for what is no column.
//! **Invariant**: like in MySQL's preprocessed text, version comments leave what they contain, and nothing of
//! those that are not executed; other comments stay.

use super::ast::{Expr, Literal, UnaryOp};
use super::lexer::{Lexer, Tok, end_of_nested, find, version_of};
use super::parser::Parser;
use super::terminals::in_names;

impl Parser<'_> {
    /// MySQL's name for an unaliased expression that starts at `start` and ends here.
    pub(super) fn item_name(&self, expr: &Expr, start: usize) -> Box<str> {
        in_names(self.item_text(expr, start))
    }

    fn item_text(&self, expr: &Expr, start: usize) -> Box<str> {
        let mut source = self.source(start, self.prev_end);
        if source.contains("/*!") || source.contains("*/") {
            let text = without_version_comments(source.as_bytes());
            source = String::from_utf8_lossy(text.trim_ascii()).into();
        }
        let Expr::Literal(literal) = without_plus(expr) else {
            return source;
        };
        match literal {
            Literal::Null => "NULL".into(),
            Literal::Int(_) | Literal::Decimal(_) | Literal::Double(_) => source
                .trim_matches(|c: char| c.is_ascii_whitespace() || "+()".contains(c))
                .into(),
            Literal::Str { .. } => self.string_name(start).unwrap_or(source),
            _ => source,
        }
    }

    /// Contents of the first string at or after `start`, without leading blanks.
    fn string_name(&self, start: usize) -> Option<Box<str>> {
        let mut lex = Lexer::new(self.src, start, self.opts.sql_mode);
        let token = loop {
            let token = lex.next_token();
            match token.tok {
                Tok::Str | Tok::NStr => break token,
                Tok::LParen | Tok::Plus | Tok::Introducer => {}
                _ => return None,
            }
        };
        let skip = usize::from(token.tok == Tok::NStr);
        let bytes = self.unescape(&self.src[token.start + skip..token.end]);
        let text = String::from_utf8_lossy(&bytes);
        Some(text.trim_start_matches(|c: char| c <= ' ').into())
    }
}

/// `+` leaves no trace in MySQL's tree.
fn without_plus(mut expr: &Expr) -> &Expr {
    while let Expr::Unary {
        op: UnaryOp::Plus,
        expr: operand,
    } = expr
    {
        expr = operand;
    }
    expr
}

/// The text without the marks of version comments, and without those that are not executed.
fn without_version_comments(source: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let end = match rest {
            [b'/', b'*', b'!', ..] => match version_of(source, at + 3) {
                Some(digits) => {
                    at += 3 + digits;
                    continue;
                }
                None => {
                    at = end_of_nested(source, at + 3).unwrap_or(source.len());
                    continue;
                }
            },
            [b'*', b'/', ..] => {
                at += 2;
                continue;
            }
            [b'/', b'*', ..] => find(source, at + 2, b"*/").map_or(source.len(), |end| end + 2),
            [b'#', ..] | [b'-', b'-', b' ', ..] => {
                let line = rest.iter().position(|b| *b == b'\n');
                line.map_or(source.len(), |length| at + length)
            }
            [quote @ (b'\'' | b'"' | b'`'), ..] => end_of_quoted(source, at, *quote),
            _ => at + 1,
        };
        assert!(end > at, "every step goes on");
        out.extend_from_slice(&source[at..end]);
        at = end;
    }
    out
}

/// End of what is quoted from `start` on.
fn end_of_quoted(source: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start + 1;
    while let Some(byte) = source.get(at) {
        match byte {
            b'\\' if quote != b'`' => at += 2,
            byte if *byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::without_version_comments;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        let text = without_version_comments(source.as_bytes());
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    #[test]
    fn marks_of_version_comments_are_left_out() {
        check("1 /*!32301 +1 */", "1  +1 ");
        check("7 */ + 1", "7  + 1");
        check("1 + /*!00000 2 */ + 3 /*!99999 x*/ + 4", "1 +  2  + 3  + 4");
        check("1 /* a */ + 1", "1 /* a */ + 1");
        check("'/*!1 */' + `*/` # */", "'/*!1 */' + `*/` # */");
        check("'a\\'*/' */", "'a\\'*/' ");
        check("1 /*!9", "1 9");
        check("1 /*!99999 ", "1 ");
    }
}
