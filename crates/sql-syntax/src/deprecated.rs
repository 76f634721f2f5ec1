//! Deprecated syntax: what MySQL warns of while it reads a statement.
//!
//! Neighbours: the parser notes it where it is read; the session raises the warnings before the statement runs, also
//! where it then fails. Deprecated variables are known to the catalog, deprecated types to `ddl`.
//!
//! **Invariants**: warnings come in the order of the text, one for each time that the syntax is used, and at most
//! [`MAX_DEPRECATIONS`] of a statement.

use esker_types::collation::{Charset, Collation};

use super::parser::Parser;

/// Most that are noted of one statement; `max_error_count` has no larger values.
const MAX_DEPRECATIONS: usize = 65_535;

/// A use of deprecated syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deprecation {
    /// `&&`.
    And,
    /// `||` for OR.
    Or,
    /// `!`.
    Not,
    /// `BINARY expr`.
    Binary,
    /// SQL_CALC_FOUND_ROWS.
    CalcFoundRows,
    /// SQL_NO_CACHE.
    NoCache,
    /// FOUND_ROWS().
    FoundRows,
    /// `@a := b` in an expression.
    Assignment,
    /// VALUES(column) behind ON DUPLICATE KEY UPDATE.
    Values,
    /// VALUES(column) anywhere else.
    MisplacedValues,
    /// NCHAR, NATIONAL and `N'…'`.
    National,
    /// The character set `utf8`.
    Utf8,
    /// A character set that is to go.
    Charset(Charset),
    /// A collation of such a character set.
    Collation(Collation),
    /// An unquoted name that begins with `$`.
    Dollar,
    /// INTO before FOR UPDATE and its kin.
    InnerInto,
    /// SHOW PROFILE.
    ShowProfile,
    /// SHOW PROFILES.
    ShowProfiles,
    /// DISABLE ON SLAVE of an event.
    DisableOnSlave,
    /// ON EMPTY behind ON ERROR in JSON_TABLE.
    LateOnEmpty,
}

impl Deprecation {
    /// What the name of a character set is, if it is deprecated.
    pub fn of_charset(name: &str) -> Option<Self> {
        if name == "utf8" {
            return Some(Self::Utf8);
        }
        Charset::by_name(name)
            .filter(is_deprecated)
            .map(Self::Charset)
    }

    /// What the name of a collation is, if it is deprecated.
    pub fn of_collation(name: &str) -> Option<Self> {
        Collation::by_name(name)
            .filter(|collation| is_deprecated(&collation.charset()))
            .map(Self::Collation)
    }

    /// Number and text of MySQL's warning.
    pub fn warning(self) -> (u16, String) {
        match self {
            Self::And => replaced("&&", "AND instead"),
            Self::Or => replaced("|| as a synonym for OR", "OR instead"),
            Self::Not => replaced("!", "NOT instead"),
            Self::Binary => replaced("BINARY expr", "CAST instead"),
            Self::CalcFoundRows => {
                considered("SQL_CALC_FOUND_ROWS", "using two separate queries instead.")
            }
            Self::NoCache => dropped("SQL_NO_CACHE"),
            Self::FoundRows => considered("FOUND_ROWS()", "using COUNT(*) instead."),
            Self::Assignment => considered(
                "Setting user variables within expressions",
                "alternatives: 'SET variable=expression, ...', or 'SELECT expression(s) INTO variables(s)'.",
            ),
            Self::Values => replaced(
                "VALUES function",
                "an alias (INSERT INTO ... VALUES (...) AS alias) and replace VALUES(col) in the ON DUPLICATE KEY \
                 UPDATE clause with alias.col instead",
            ),
            Self::MisplacedValues => dropped("VALUES function"),
            Self::National => (
                3720,
                "NATIONAL/NCHAR/NVARCHAR implies the character set UTF8MB3, which will be replaced by UTF8MB4 in a \
                 future release. Please consider using CHAR(x) CHARACTER SET UTF8MB4 in order to be unambiguous."
                    .to_owned(),
            ),
            Self::Utf8 => (
                3719,
                "'utf8' is currently an alias for the character set UTF8MB3, but will be an alias for UTF8MB4 in a \
                 future release. Please consider using UTF8MB4 in order to be unambiguous."
                    .to_owned(),
            ),
            Self::Charset(charset) => replaced(charset.name(), "utf8mb4 instead"),
            Self::Collation(collation) => of_collation(collation),
            Self::Dollar => dropped("$ as the first character of an unquoted identifier"),
            Self::InnerInto => (
                3962,
                "The INTO clause is deprecated inside query blocks of query expressions and will be removed in a \
                 future release. Please move the INTO clause to the end of statement instead."
                    .to_owned(),
            ),
            Self::ShowProfile => replaced("SHOW PROFILE", "Performance Schema instead"),
            Self::ShowProfiles => replaced("SHOW PROFILES", "Performance Schema instead"),
            Self::DisableOnSlave => replaced(
                "<CREATE|ALTER> EVENT ... DISABLE ON SLAVE",
                "<CREATE|ALTER> EVENT ... DISABLE ON REPLICA instead",
            ),
            Self::LateOnEmpty => (
                SYNTAX,
                "Specifying an ON EMPTY clause after the ON ERROR clause in a JSON_TABLE column definition is \
                 deprecated syntax and will be removed in a future release. Specify ON EMPTY before ON ERROR instead."
                    .to_owned(),
            ),
        }
    }
}

/// ER_WARN_DEPRECATED_SYNTAX.
const SYNTAX: u16 = 1287;
/// ER_WARN_DEPRECATED_SYNTAX_NO_REPLACEMENT.
const WITHOUT_REPLACEMENT: u16 = 1681;

fn replaced(what: &str, by: &str) -> (u16, String) {
    let text =
        format!("'{what}' is deprecated and will be removed in a future release. Please use {by}");
    (SYNTAX, text)
}

fn considered(what: &str, how: &str) -> (u16, String) {
    let text =
        format!("{what} is deprecated and will be removed in a future release. Consider {how}");
    (SYNTAX, text)
}

fn dropped(what: &str) -> (u16, String) {
    let text = format!("'{what}' is deprecated and will be removed in a future release.");
    (WITHOUT_REPLACEMENT, text)
}

fn is_deprecated(charset: &Charset) -> bool {
    matches!(
        charset.name(),
        "dec8" | "hp8" | "macce" | "macroman" | "ucs2" | "utf8mb3"
    )
}

fn of_collation(collation: Collation) -> (u16, String) {
    let (code, charset, other) = match collation.charset().name() {
        "utf8mb3" => (3778, "UTF8MB3", "UTF8MB4"),
        name => (4079, name, "utf8mb4"),
    };
    let text = format!(
        "'{}' is a collation of the deprecated character set {charset}. Please consider using {other} with an \
         appropriate collation instead.",
        collation.name()
    );
    (code, text)
}

impl Parser<'_> {
    /// Notes that deprecated syntax was read.
    pub(super) fn deprecate(&mut self, what: Deprecation) {
        if self.deprecations.len() < MAX_DEPRECATIONS {
            self.deprecations.push(what);
        }
    }
}
