//! Does a column of a row event fit a column of ours? What `replica_type_conversions` allows.
//!
//! Neighbours: `columns` asks when an event's table is opened.
//! **Invariants**: what is equal needs no permission; what may lose digits or characters needs it.

use esker_binlog::event::table_map::MapColumn;
use esker_binlog::image::Form;
use esker_sql_catalog::catalog::{ColumnDef, TableDef};
use esker_types::collation::Collation;
use esker_types::geometry::{GeometryType, Shape};
use esker_types::{SqlError, SqlType, TypeKind};

/// Which conversions between unequal types may be made (`replica_type_conversions`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Conversions {
    /// Those that may lose something.
    lossy: bool,
    /// Those to a wider type.
    non_lossy: bool,
}

impl Conversions {
    /// What the variable's value allows.
    pub(crate) fn of(setting: &str) -> Self {
        let has = |wanted: &str| {
            setting
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case(wanted))
        };
        Self {
            lossy: has("ALL_LOSSY"),
            non_lossy: has("ALL_NON_LOSSY"),
        }
    }

    fn allow(self, fit: Fit) -> bool {
        match fit {
            Fit::Same => true,
            Fit::Wider => self.non_lossy,
            Fit::Narrower => self.lossy,
            Fit::Never => false,
        }
    }
}

/// How one type relates to another that is to take its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Same,
    Wider,
    Narrower,
    Never,
}

impl Fit {
    /// Of a type with capacity `from` to one of the same kind with capacity `to`.
    fn by(from: u64, to: u64) -> Self {
        match from.cmp(&to) {
            std::cmp::Ordering::Equal => Self::Same,
            std::cmp::Ordering::Less => Self::Wider,
            std::cmp::Ordering::Greater => Self::Narrower,
        }
    }

    /// Of two types of different kinds with these capacities.
    fn between(from: u64, to: u64) -> Self {
        match Self::by(from, to) {
            Self::Narrower => Self::Narrower,
            _ => Self::Wider,
        }
    }
}

/// Largest string of a form, bytes.
fn capacity(form: Form) -> Option<u64> {
    match form {
        Form::Char { max_bytes } | Form::VarChar { max_bytes } => Some(max_bytes.into()),
        Form::Blob { prefix } => Some((1 << (8 * u32::from(prefix))) - 1),
        _ => None,
    }
}

/// Digits before and behind the point.
fn digits(form: Form) -> Option<(u8, u8)> {
    /// Most digits of integers, by their bytes.
    const INT_DIGITS: [u8; 9] = [0, 3, 5, 8, 10, 0, 0, 0, 20];
    match form {
        Form::Int { bytes, .. } => Some((INT_DIGITS[usize::from(bytes.min(8))], 0)),
        Form::Decimal { precision, scale } => Some((precision - scale, scale)),
        _ => None,
    }
}

fn fit(from: Form, to: Form) -> Fit {
    match (from, to) {
        // The sign is not compared: MySQL takes the bytes as they are.
        (Form::Int { bytes: a, .. }, Form::Int { bytes: b, .. }) => Fit::by(a.into(), b.into()),
        _ if from == to => Fit::Same,
        (Form::Float, Form::Double) => Fit::Wider,
        (Form::Double, Form::Float) => Fit::Narrower,
        (Form::Bit { bits: a }, Form::Bit { bits: b }) => Fit::by(a.into(), b.into()),
        (Form::Enum { bytes: a }, Form::Enum { bytes: b })
        | (Form::Set { bytes: a }, Form::Set { bytes: b })
        | (Form::Time { fsp: a }, Form::Time { fsp: b })
        | (Form::DateTime { fsp: a }, Form::DateTime { fsp: b })
        | (Form::Timestamp { fsp: a }, Form::Timestamp { fsp: b }) => Fit::by(a.into(), b.into()),
        (Form::Date, Form::DateTime { .. }) => Fit::Wider,
        (Form::DateTime { .. }, Form::Date) => Fit::Narrower,
        _ => match (capacity(from), capacity(to), digits(from), digits(to)) {
            (Some(from), Some(to), ..) => Fit::between(from, to),
            (_, _, Some(from), Some(to)) if from.0 <= to.0 && from.1 <= to.1 => Fit::Wider,
            (_, _, Some(_), Some(_)) => Fit::Narrower,
            _ => Fit::Never,
        },
    }
}

/// How values of a column come into ours.
#[derive(Debug, Clone)]
pub(super) enum How {
    /// As they are.
    Same,
    /// Converted from this type.
    Convert(SqlType),
}

/// How values of the event's column come into `column`, the `nth` of `table`.
///
/// # Errors
/// 1677.
pub(super) fn how(
    source: &MapColumn,
    (nth, table, column): (usize, &TableDef, &ColumnDef),
    conversions: Conversions,
) -> Result<How, SqlError> {
    let target = Form::of(&column.ty);
    let fit = fit(source.form, target);
    if !conversions.allow(fit) {
        let text = format!(
            "Column {} (counting the first column as number 1) of table '{}.{}' cannot be converted from type '{}' to \
             type '{}'",
            nth + 1,
            table.schema,
            table.name,
            shown(source.form),
            shown(target)
        );
        return Err(SqlError::new(1677, "HY000", text));
    }
    Ok(match fit {
        Fit::Same => How::Same,
        _ => How::Convert(type_of(source)),
    })
}

/// The type of the event's column, for conversions.
fn type_of(source: &MapColumn) -> SqlType {
    let collation = source
        .collation
        .and_then(Collation::by_id)
        .unwrap_or(Collation::BINARY);
    let number = |kind| SqlType::new(kind);
    match source.form {
        Form::Int { unsigned, .. } => SqlType::bigint(unsigned),
        Form::Float => number(TypeKind::Float),
        Form::Double => number(TypeKind::Double),
        Form::Decimal { precision, scale } => SqlType::decimal(precision.into(), scale),
        Form::Bit { bits } => SqlType {
            length: bits.into(),
            ..number(TypeKind::Bit)
        },
        Form::Year => number(TypeKind::Year),
        Form::Date => number(TypeKind::Date),
        Form::Time { fsp } => fractional(TypeKind::Time, fsp),
        Form::DateTime { fsp } => fractional(TypeKind::DateTime, fsp),
        Form::Timestamp { fsp } => fractional(TypeKind::Timestamp, fsp),
        Form::Char { max_bytes } | Form::VarChar { max_bytes } => {
            SqlType::varchar(max_bytes, collation)
        }
        Form::Blob { .. } => SqlType::varchar(u32::MAX, collation),
        Form::Geometry => number(TypeKind::Geometry(GeometryType::of(Shape::Geometry))),
        Form::Json => number(TypeKind::Json),
        Form::Enum { .. } | Form::Set { .. } => SqlType::bigint(true),
    }
}

fn fractional(kind: TypeKind, fsp: u8) -> SqlType {
    SqlType {
        decimals: fsp,
        ..SqlType::new(kind)
    }
}

/// A type in MySQL's words.
fn shown(form: Form) -> String {
    match form {
        Form::Int { bytes, .. } => match bytes {
            1 => "tinyint",
            2 => "smallint",
            3 => "mediumint",
            4 => "int",
            _ => "bigint",
        }
        .to_owned(),
        Form::Float => "float".to_owned(),
        Form::Double => "double".to_owned(),
        Form::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        Form::Bit { bits } => format!("bit({bits})"),
        Form::Year => "year".to_owned(),
        Form::Date => "date".to_owned(),
        Form::Time { fsp } => format!("time({fsp})"),
        Form::DateTime { fsp } => format!("datetime({fsp})"),
        Form::Timestamp { fsp } => format!("timestamp({fsp})"),
        Form::Char { max_bytes } => format!("char({max_bytes}(bytes))"),
        Form::VarChar { max_bytes } => format!("varchar({max_bytes}(bytes))"),
        Form::Blob { prefix } => match prefix {
            1 => "tinyblob",
            2 => "blob",
            3 => "mediumblob",
            _ => "longblob",
        }
        .to_owned(),
        Form::Json => "json".to_owned(),
        Form::Enum { .. } => "enum".to_owned(),
        Form::Set { .. } => "set".to_owned(),
        Form::Geometry => "geometry".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_and_narrower_types_need_their_permission() {
        let int = |bytes| Form::Int {
            bytes,
            unsigned: false,
        };
        let unsigned = Form::Int {
            bytes: 4,
            unsigned: true,
        };
        let decimal = |precision, scale| Form::Decimal { precision, scale };
        let varchar = |max_bytes| Form::VarChar { max_bytes };
        for (from, to, expected) in [
            (int(4), unsigned, Fit::Same),
            (int(4), int(8), Fit::Wider),
            (int(8), int(4), Fit::Narrower),
            (int(4), decimal(10, 0), Fit::Wider),
            (int(4), decimal(9, 2), Fit::Narrower),
            (decimal(10, 2), decimal(12, 4), Fit::Wider),
            (decimal(10, 2), decimal(10, 4), Fit::Narrower),
            (varchar(40), varchar(40), Fit::Same),
            (varchar(40), varchar(80), Fit::Wider),
            (varchar(256), Form::Blob { prefix: 1 }, Fit::Narrower),
            (Form::Char { max_bytes: 10 }, varchar(10), Fit::Wider),
            (Form::Time { fsp: 0 }, Form::Time { fsp: 6 }, Fit::Wider),
            (Form::Json, varchar(10), Fit::Never),
            (Form::Date, Form::Time { fsp: 0 }, Fit::Never),
        ] {
            assert_eq!(fit(from, to), expected, "{from:?} to {to:?}");
        }
        let both = Conversions::of("ALL_LOSSY,ALL_NON_LOSSY");
        assert!(both.allow(Fit::Narrower) && both.allow(Fit::Wider) && !both.allow(Fit::Never));
        let none = Conversions::of("");
        assert!(none.allow(Fit::Same) && !none.allow(Fit::Wider) && !none.allow(Fit::Narrower));
    }
}
