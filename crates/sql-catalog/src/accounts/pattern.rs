//! Names of databases in grants: patterns.
//!
//! Neighbours: `access` looks for the grant that a database has.
//! **Invariant**: `%` is any run, `_` any one character, `\` takes the meaning from the character behind it; as in
//! MySQL, what a grant of `my_app` covers includes `myXapp`.

/// The pattern's rank among those that match the same name; of several the largest holds, as MySQL sorts them: a name
/// without wildcards, then the one whose first wildcard stands farthest to the right.
pub(super) fn rank(pattern: &str) -> u8 {
    const LITERAL: u8 = 128;
    let mut escaped = false;
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'%' | b'_' => return (at + 1).min(usize::from(LITERAL) - 1) as u8,
            _ => (),
        }
    }
    LITERAL
}

/// Does the pattern match the whole name? Linear, with one place to come back to.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern = tokens(pattern);
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    let mut restart: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(Token::Any) => {
                restart = Some((p, n));
                p += 1;
            }
            Some(Token::One) => (p, n) = (p + 1, n + 1),
            Some(Token::Char(c)) if *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match restart {
                Some((star, from)) => {
                    restart = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|t| *t == Token::Any)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Any,
    One,
    Char(char),
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut chars = pattern.chars();
    let mut out = Vec::new();
    while let Some(c) = chars.next() {
        out.push(match c {
            '%' => Token::Any,
            '_' => Token::One,
            '\\' => Token::Char(chars.next().unwrap_or('\\')),
            c => Token::Char(c),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_and_escapes() {
        assert!(matches("my_app", "my_app") && matches("my_app", "myXapp"));
        assert!(matches(r"my\_app", "my_app") && !matches(r"my\_app", "myXapp"));
        assert!(matches("my%", "my") && matches("%a%b", "xaxbb") && !matches("%a%b", "xbxa"));
        assert!(matches(r"a\", r"a\") && !matches("a", "ab") && !matches("", "a"));
        assert!(matches("d_", "dé"));
    }

    #[test]
    fn the_first_wildcard_decides() {
        assert!(rank(r"my\_app") > rank("my_app"));
        assert!(rank("my_app") == rank("my%") && rank("my%") > rank("m%"));
        assert!(rank("plain") > rank("plai_"));
    }
}
