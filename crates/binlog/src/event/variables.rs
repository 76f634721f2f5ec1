//! What a statement of `binlog_format = STATEMENT` depends on besides its settings: INTVAR, RAND and USER_VAR, each an
//! event of its own in front of the statement.
//!
//! ```text
//! INTVAR    kind u8 (1 LAST_INSERT_ID, 2 AUTO_INCREMENT) | value u64
//! RAND      two seeds, u64 each
//! USER_VAR  length of the name u32 | name | is NULL u8 | [type u8 | collation u32 | length u32 | value | [flags u8]]
//! ```
//! Esker writes rows and none of these. Neighbours: `apply::assemble` gathers them with their statement; the applier of
//! `sql` sets what they say. **Invariant**: lengths and types are checked; an unknown one is an error.

use esker_types::Decimal;

use crate::bytes::Reader;
use crate::image::Form;
use crate::{Result, damaged};

const LAST_INSERT_ID: u8 = 1;
const INSERT_ID: u8 = 2;

/// Types of user variables, as `Item_result` counts them.
const TEXT: u8 = 0;
const REAL: u8 = 1;
const INT: u8 = 2;
const DECIMAL: u8 = 4;
/// Flag of an integer.
const UNSIGNED: u8 = 1;
/// Most digits of a DECIMAL, and most behind its point.
const MAX_DIGITS: (u8, u8) = (65, 30);

/// What the next statement is to find.
#[derive(Debug, Clone, PartialEq)]
pub enum Variable<'a> {
    /// LAST_INSERT_ID().
    LastInsertId(u64),
    /// The first AUTO_INCREMENT value that it generates.
    InsertId(u64),
    /// The seeds of RAND().
    Seeds(u64, u64),
    /// A user variable.
    User(&'a [u8], UserValue<'a>),
}

/// The value of a user variable.
#[derive(Debug, Clone, PartialEq)]
pub enum UserValue<'a> {
    /// NULL.
    Null,
    /// A text, and the number of its collation.
    Text(&'a [u8], u32),
    /// A floating-point number.
    Double(f64),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A DECIMAL.
    Decimal(Decimal),
}

impl<'a> Variable<'a> {
    /// Reads the body of INTVAR.
    ///
    /// # Errors
    /// Damaged bytes, as for the others.
    pub fn int(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        match r.u8()? {
            LAST_INSERT_ID => Ok(Self::LastInsertId(r.u64()?)),
            INSERT_ID => Ok(Self::InsertId(r.u64()?)),
            _ => Err(damaged("INTVAR event: unknown kind")),
        }
    }

    /// Reads the body of RAND.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn seeds(body: &[u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        Ok(Self::Seeds(r.u64()?, r.u64()?))
    }

    /// Reads the body of USER_VAR.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn user(body: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let length = r.u32()? as usize;
        let name = r.take(length)?;
        if r.u8()? != 0 {
            return Ok(Self::User(name, UserValue::Null));
        }
        let (kind, collation) = (r.u8()?, r.u32()?);
        let length = r.u32()? as usize;
        let bytes = r.take(length)?;
        let flags = if r.is_empty() { 0 } else { r.u8()? };
        let mut value = Reader::new(bytes);
        let value = match kind {
            TEXT => UserValue::Text(bytes, collation),
            REAL => UserValue::Double(f64::from_le_bytes(value.array()?)),
            INT if flags & UNSIGNED != 0 => UserValue::UInt(value.u64()?),
            INT => UserValue::Int(value.u64()? as i64),
            DECIMAL => UserValue::Decimal(decimal(&mut value)?),
            _ => return Err(damaged("USER_VAR event: unknown type")),
        };
        Ok(Self::User(name, value))
    }
}

fn decimal(r: &mut Reader<'_>) -> Result<Decimal> {
    let (precision, scale) = (r.u8()?, r.u8()?);
    let fits = precision <= MAX_DIGITS.0 && scale <= MAX_DIGITS.1 && scale <= precision;
    if !fits || precision == 0 {
        return Err(damaged("USER_VAR event: DECIMAL"));
    }
    match (Form::Decimal { precision, scale }).read(r)? {
        esker_types::Value::Decimal(value) => Ok(value),
        _ => Err(damaged("USER_VAR event: DECIMAL")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Put;

    fn user(kind: u8, value: &[u8], flags: &[u8]) -> Vec<u8> {
        let mut body = 1u32.to_le_bytes().to_vec();
        body.bytes(b"x\0");
        body.u8(kind);
        body.u32(45);
        body.u32(value.len() as u32);
        body.bytes(value);
        body.bytes(flags);
        body
    }

    #[test]
    fn values_of_all_types_are_read() {
        let is = |body: &[u8], value: UserValue<'_>| {
            assert_eq!(
                Variable::user(body).expect("event"),
                Variable::User(b"x", value)
            );
        };
        is(&user(TEXT, b"ab", &[0]), UserValue::Text(b"ab", 45));
        is(
            &user(REAL, &1.5f64.to_le_bytes(), &[0]),
            UserValue::Double(1.5),
        );
        is(&user(INT, &[0xff; 8], &[0]), UserValue::Int(-1));
        is(&user(INT, &[0xff; 8], &[1]), UserValue::UInt(u64::MAX));
        is(
            &user(INT, &[1, 0, 0, 0, 0, 0, 0, 0], &[]),
            UserValue::Int(1),
        );
        is(b"\x01\0\0\0x\x01", UserValue::Null);
        // 12.50 as DECIMAL(4,2): one byte before the point, one behind it.
        let decimal = "12.50".parse().expect("number");
        is(
            &user(DECIMAL, &[4, 2, 0x8c, 50], &[0]),
            UserValue::Decimal(decimal),
        );
    }

    #[test]
    fn damage_is_an_error() {
        let mut bodies = vec![
            user(REAL, &[0; 8], &[]),
            user(DECIMAL, &[4, 2, 0x8c, 50], &[]),
        ];
        bodies.push(user(TEXT, b"ab", &[]));
        for body in &bodies {
            for end in 0..body.len() {
                assert!(Variable::user(&body[..end]).is_err(), "{end}");
            }
        }
        assert!(Variable::user(&user(9, b"", &[])).is_err());
        assert!(Variable::user(&user(DECIMAL, &[0, 0], &[])).is_err());
        assert!(Variable::user(&user(DECIMAL, &[4, 5, 0], &[])).is_err());
        assert!(Variable::int(&[3, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(Variable::int(&[1, 0]).is_err() && Variable::seeds(&[0; 15]).is_err());
        assert_eq!(
            Variable::int(&[2, 7, 0, 0, 0, 0, 0, 0, 0]).expect("event"),
            Variable::InsertId(7)
        );
    }
}
