//! Types of columns from their text: `varchar(64)`, `bigint unsigned`, `enum('a','b')`.
//!
//! Neighbours: `declared` reads the frozen declarations with it.
//! **Invariant**: what it reads prints as the same text again, but for types that no user's table has.

use std::sync::Arc;

use esker_types::collation::Collation;
use esker_types::{SqlType, TypeKind};

/// The type; None: not one that a system table has.
pub(super) fn read(text: &str, collation: Collation) -> Option<SqlType> {
    let (text, unsigned) = match text.strip_suffix(" unsigned") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (word, args) = match text.split_once('(') {
        Some((word, args)) => (word, args.strip_suffix(')')?),
        None => (text, ""),
    };
    let kind = match word {
        "tinyint" => TypeKind::TinyInt,
        "smallint" => TypeKind::SmallInt,
        "mediumint" => TypeKind::MediumInt,
        "int" => TypeKind::Int,
        "bigint" => TypeKind::BigInt,
        "float" => TypeKind::Float,
        "double" => TypeKind::Double,
        "decimal" => TypeKind::Decimal,
        "date" => TypeKind::Date,
        "time" => TypeKind::Time,
        "datetime" => TypeKind::DateTime,
        "timestamp" => TypeKind::Timestamp,
        "char" | "binary" => TypeKind::Char,
        "varchar" | "varbinary" => TypeKind::VarChar,
        "tinytext" | "tinyblob" => TypeKind::TinyText,
        "text" | "blob" => TypeKind::Text,
        "mediumtext" | "mediumblob" => TypeKind::MediumText,
        "longtext" | "longblob" => TypeKind::LongText,
        "json" => TypeKind::Json,
        "enum" => TypeKind::Enum(labels(args)),
        "set" => TypeKind::Set(labels(args)),
        _ => return None,
    };
    let mut ty = SqlType::new(kind);
    ty.unsigned = unsigned;
    match &ty.kind {
        TypeKind::Decimal => {
            /// Most digits of a DECIMAL.
            const MOST: u32 = 65;
            let (precision, scale) = args.split_once(',')?;
            ty.length = precision.parse::<u32>().ok()?.min(MOST);
            ty.decimals = scale.parse().ok()?;
        }
        TypeKind::Double if !args.is_empty() => {
            let (precision, scale) = args.split_once(',')?;
            ty.length = precision.parse().ok()?;
            ty.decimals = scale.parse().ok()?;
        }
        TypeKind::TinyInt if args == "1" => ty.length = 1,
        TypeKind::Char | TypeKind::VarChar => ty.length = args.parse().ok()?,
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp if !args.is_empty() => {
            ty.decimals = args.parse().ok()?;
            ty.length += 1 + u32::from(ty.decimals);
        }
        _ => (),
    }
    if ty.is_string() || matches!(ty.kind, TypeKind::Enum(_) | TypeKind::Set(_)) {
        ty.collation = collation;
    }
    Some(ty)
}

/// The labels in `'a','b'`; none has a quote or a comma.
fn labels(args: &str) -> Arc<[Arc<str>]> {
    let bare = |label: &str| Arc::from(label.trim_matches('\''));
    args.split(',').map(bare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_with_their_parameters() {
        let read = |text| read(text, Collation::UTF8MB3_GENERAL_CI);
        assert_eq!(read("bigint unsigned"), Some(SqlType::bigint(true)));
        let chars = read("varchar(64)").unwrap();
        assert_eq!(
            (chars.length, chars.collation),
            (64, Collation::UTF8MB3_GENERAL_CI)
        );
        assert_eq!(read("timestamp(6)").unwrap().decimals, 6);
        let TypeKind::Enum(labels) = read("enum('','PRI')").unwrap().kind else {
            panic!("an enum")
        };
        assert_eq!(labels.len(), 2);
        assert_eq!(read("geometry"), None);
    }
}
