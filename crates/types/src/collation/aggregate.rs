//! Which collation an operation on several strings uses.
//!
//! Neighbours: the binder gives every expression a [`Coercibility`]; `func` and comparisons call
//! [`aggregate`].
//! **Invariant**: the result does not depend on evaluation, only on static types.

use super::charset::Charset;
use super::list::Collation;
use crate::error::{SqlError, SqlResult};
use crate::errors;
use crate::{SqlType, TypeKind};

/// How strongly an expression insists on its collation; smaller is stronger (MySQL's numbers).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Coercibility {
    /// `COLLATE` clause.
    Explicit = 0,
    /// Result of mixing columns of two collations.
    None = 1,
    /// Column, stored routine parameter, local variable, cast.
    Implicit = 2,
    /// USER(), VERSION(), ….
    SysConst = 3,
    /// Literal.
    Coercible = 4,
    /// Number or temporal value.
    Numeric = 5,
    /// NULL and what derives from it.
    Ignorable = 6,
}

impl Coercibility {
    /// That of a column of this type.
    pub fn of_column(ty: &SqlType) -> Self {
        if ty.is_string()
            || matches!(
                ty.kind,
                TypeKind::Enum(_) | TypeKind::Set(_) | TypeKind::Json
            )
        {
            Self::Implicit
        } else {
            Self::Numeric
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Explicit => "EXPLICIT",
            Self::None => "NONE",
            Self::Implicit => "IMPLICIT",
            Self::SysConst => "SYSCONST",
            Self::Coercible => "COERCIBLE",
            Self::Numeric => "NUMERIC",
            Self::Ignorable => "IGNORABLE",
        }
    }
}

type Item = (Collation, Coercibility);

/// One string of an operation.
#[derive(Copy, Clone, Debug)]
pub struct StringOperand {
    /// Its collation.
    pub collation: Collation,
    /// How strongly it insists on it.
    pub coercibility: Coercibility,
    /// Can its value be written in any character set (a constant of ASCII, a number)?
    pub portable: bool,
}

/// The collation in which an operation compares all `items`: MySQL's derivation rules, left to
/// right. Literals are taken to fit in any character set.
///
/// Error 1267 (two items), 1270 (three) or 1271 (more): no collation fits.
pub fn aggregate(items: &[Item]) -> SqlResult<Item> {
    aggregate_for(items, "operation")
}

/// [`aggregate`], with the operation's name for the error text.
pub fn aggregate_for(items: &[Item], operation: &str) -> SqlResult<Item> {
    let operands: Vec<_> = items
        .iter()
        .map(|&(collation, coercibility)| StringOperand {
            collation,
            coercibility,
            portable: collation.charset() == Charset::Ascii
                || coercibility >= Coercibility::Coercible,
        })
        .collect();
    let found = aggregate_operands(&operands, operation)?;
    if found.1 == Coercibility::None {
        return Err(illegal_mix(&operands, operation));
    }
    Ok(found)
}

/// The collation of a string made of all `operands`. Where columns of one character set disagree it
/// is the `_bin` one, with [`Coercibility::None`]: such a string can be shown, not compared.
pub fn aggregate_operands(operands: &[StringOperand], operation: &str) -> SqlResult<Item> {
    let Some((&first, rest)) = operands.split_first() else {
        return Ok((Collation::BINARY, Coercibility::Coercible));
    };
    let mut acc = first;
    for &operand in rest {
        acc = merge(acc, operand).ok_or_else(|| illegal_mix(operands, operation))?;
    }
    Ok((acc.collation, acc.coercibility))
}

/// One step of the derivation; `None` when neither side yields.
fn merge(a: StringOperand, b: StringOperand) -> Option<StringOperand> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (ca, cb) = (a.collation, b.collation);
    let claim = a.coercibility.cmp(&b.coercibility);
    let portable = a.portable && b.portable;
    let chosen = |operand: StringOperand| {
        Some(StringOperand {
            portable,
            ..operand
        })
    };
    if ca.is_binary() || cb.is_binary() {
        // A byte string makes the operation binary unless the other side insists more.
        let a_wins = if ca.is_binary() {
            claim.is_le()
        } else {
            claim.is_lt()
        };
        return chosen(if a_wins { a } else { b });
    }
    if ca.charset() != cb.charset() {
        return match (takes_in(a, b), takes_in(b, a)) {
            (true, _) => chosen(a),
            (false, true) => chosen(b),
            (false, false) => None,
        };
    }
    match claim {
        Less => chosen(a),
        Greater => chosen(b),
        Equal if ca == cb => chosen(a),
        Equal if a.coercibility == Coercibility::Explicit => None,
        Equal if ca.is_bin() && cb.is_bin() => None,
        Equal if ca.is_bin() => chosen(a),
        Equal if cb.is_bin() => chosen(b),
        Equal => {
            let collation = ca.bin_of();
            Some(StringOperand {
                collation,
                coercibility: Coercibility::None,
                portable,
            })
        }
    }
}

/// Among columns of Unicode's character sets the one of the highest rank takes in the others; equal ranks clash.
fn unicode_rank(charset: Charset) -> u8 {
    match charset {
        Charset::Utf32 => 2,
        Charset::Utf8mb4 => 1,
        _ => 0,
    }
}

/// May `b`, of another character set, be converted to that of `a`?
fn takes_in(a: StringOperand, b: StringOperand) -> bool {
    let (outer, inner) = (a.collation.charset(), b.collation.charset());
    match a.coercibility.cmp(&b.coercibility) {
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => {
            let wider = unicode_rank(outer) > unicode_rank(inner);
            (outer.is_unicode() && (wider || !inner.is_unicode())) || (b.portable && !a.portable)
        }
        std::cmp::Ordering::Less => {
            let constant = b.coercibility >= Coercibility::SysConst;
            let insists = a.coercibility == Coercibility::Explicit;
            outer.is_unicode() || b.portable || constant || insists
        }
    }
}

fn illegal_mix(items: &[StringOperand], operation: &str) -> SqlError {
    let show = |i: &StringOperand| format!("({},{})", i.collation.name(), i.coercibility.name());
    match items {
        [a, b] => SqlError::new(
            1267,
            "HY000",
            format!(
                "Illegal mix of collations {} and {} for operation '{operation}'",
                show(a),
                show(b)
            ),
        ),
        [a, b, c] => SqlError::new(
            1270,
            "HY000",
            format!(
                "Illegal mix of collations {}, {}, {} for operation '{operation}'",
                show(a),
                show(b),
                show(c)
            ),
        ),
        _ => errors::illegal_mix(operation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coercibility::{Coercible, Explicit, Implicit, Numeric, SysConst};
    use Collation as C;

    const AI: C = C::UTF8MB4_0900_AI_CI;
    const LATIN1: C = C::LATIN1_SWEDISH_CI;

    /// As MySQL 9.7 answers, in both orders.
    #[test]
    fn pairs_as_mysql() {
        for (a, b, wanted) in [
            ((AI, Implicit), (LATIN1, Implicit), Ok((AI, Implicit))),
            ((LATIN1, Implicit), (AI, Coercible), Ok((LATIN1, Implicit))),
            (
                (LATIN1, Implicit),
                (C::UTF8MB3_GENERAL_CI, SysConst),
                Ok((LATIN1, Implicit)),
            ),
            (
                (LATIN1, Implicit),
                (C::ASCII_GENERAL_CI, Implicit),
                Ok((LATIN1, Implicit)),
            ),
            (
                (LATIN1, Implicit),
                (C::LATIN1_BIN, Implicit),
                Ok((C::LATIN1_BIN, Implicit)),
            ),
            (
                (AI, Implicit),
                (C::UTF8MB3_BIN, Implicit),
                Ok((AI, Implicit)),
            ),
            (
                (AI, Implicit),
                (C::UTF8MB4_BIN, Implicit),
                Ok((C::UTF8MB4_BIN, Implicit)),
            ),
            ((AI, Implicit), (C::UTF8MB4_GENERAL_CI, Implicit), Err(1267)),
            (
                (C::UTF8MB4_BIN, Implicit),
                (C::UTF8MB4_0900_BIN, Implicit),
                Err(1267),
            ),
            (
                (AI, Implicit),
                (C::UTF8MB4_GENERAL_CI, Coercible),
                Ok((AI, Implicit)),
            ),
            (
                (AI, Implicit),
                (C::UTF8MB4_BIN, Explicit),
                Ok((C::UTF8MB4_BIN, Explicit)),
            ),
            (
                (AI, Implicit),
                (C::LATIN1_BIN, Explicit),
                Ok((C::LATIN1_BIN, Explicit)),
            ),
            ((AI, Explicit), (C::UTF8MB4_BIN, Explicit), Err(1267)),
            ((AI, Implicit), (C::BINARY, Coercible), Ok((AI, Implicit))),
            (
                (AI, Implicit),
                (C::BINARY, Implicit),
                Ok((C::BINARY, Implicit)),
            ),
            ((AI, Coercible), (LATIN1, Coercible), Ok((AI, Coercible))),
            ((AI, Coercible), (AI, Numeric), Ok((AI, Coercible))),
            (
                (C::UTF8MB3_GENERAL_CI, SysConst),
                (AI, Coercible),
                Ok((C::UTF8MB3_GENERAL_CI, SysConst)),
            ),
        ] {
            let found = aggregate(&[a, b]).map_err(|e| e.code);
            assert_eq!(found, wanted, "{a:?} {b:?}");
            assert_eq!(
                aggregate(&[b, a]).map_err(|e| e.code),
                wanted,
                "{b:?} {a:?}"
            );
        }
    }

    #[test]
    fn columns_that_disagree() {
        let column = |collation| StringOperand {
            collation,
            coercibility: Implicit,
            portable: false,
        };
        let columns = [column(AI), column(C::UTF8MB4_GENERAL_CI)];
        let shown = aggregate_operands(&columns, "concat");
        assert_eq!(shown, Ok((C::UTF8MB4_BIN, Coercibility::None)));
        let explicit = column(C::UTF8MB4_UNICODE_CI);
        let explicit = StringOperand {
            coercibility: Explicit,
            ..explicit
        };
        let settled = aggregate_operands(&[columns[0], columns[1], explicit], "concat");
        assert_eq!(settled, Ok((C::UTF8MB4_UNICODE_CI, Explicit)));

        let items = [(AI, Implicit), (C::UTF8MB4_GENERAL_CI, Implicit)];
        assert_eq!(
            aggregate_for(&items, "=").unwrap_err().message,
            "Illegal mix of collations (utf8mb4_0900_ai_ci,IMPLICIT) and \
             (utf8mb4_general_ci,IMPLICIT) for operation '='"
        );
        assert_eq!(
            aggregate(&[items[0], items[1], items[0]]).unwrap_err().code,
            1270
        );
        assert_eq!(aggregate(&[items, items].concat()).unwrap_err().code, 1271);
    }
}
