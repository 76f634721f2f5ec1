//! Query attributes: what a client says of a statement beside it, name by name.
//!
//! Neighbours: `command` finds those of COM_QUERY, `params` those behind the parameters of COM_STMT_EXECUTE; both have
//! the layout of parameters. **Invariant**: a value comes out as the text that MySQL makes of it, strings as they were
//! sent.

use esker_types::Value;
use esker_types::cast::write_f64;

use crate::WireError;
use crate::codec::Reader;
use crate::constants::coltype;
use crate::params::{ParamType, is_null, read_types, read_value};

/// Digits of the fraction of a second.
const DIGITS: u8 = 6;
/// Bytes of a moment that has an offset from UTC.
const WITH_OFFSET: u8 = 13;

/// One attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: Vec<u8>,
    /// Its value; None for NULL.
    pub value: Option<Vec<u8>>,
}

/// The attributes of a COM_QUERY.
pub(crate) fn read(r: &mut Reader<'_>, count: usize) -> Result<Vec<Attribute>, WireError> {
    let nulls = r.take(count.div_ceil(8), "null bitmap")?;
    if r.u8("new parameters flag")? != 1 {
        return Err(WireError::Bad("query attributes"));
    }
    let types = read_types(r, count, true)?;
    let typed = types.iter().enumerate();
    typed
        .map(|(i, ty)| read_one(r, ty, is_null(nulls, i)))
        .collect()
}

/// One attribute, whose value comes next unless it is NULL.
pub(crate) fn read_one(
    r: &mut Reader<'_>,
    ty: &ParamType,
    is_null: bool,
) -> Result<Attribute, WireError> {
    let value = match is_null {
        true => None,
        false => read_text(r, ty)?,
    };
    Ok(Attribute {
        name: ty.name.to_vec(),
        value,
    })
}

fn read_text(r: &mut Reader<'_>, ty: &ParamType) -> Result<Option<Vec<u8>>, WireError> {
    let offset = match ty.code {
        coltype::DATETIME | coltype::TIMESTAMP => offset_of(r.rest()),
        _ => None,
    };
    let mut text = Vec::new();
    match read_value(r, ty)? {
        Value::Int(n) => text.extend_from_slice(n.to_string().as_bytes()),
        Value::UInt(n) => text.extend_from_slice(n.to_string().as_bytes()),
        Value::Double(d) => write_f64(d, &mut text),
        Value::Date(date) => date.write(&mut text),
        Value::Time(time) => time.write(DIGITS, &mut text),
        Value::DateTime(moment) => moment.write(DIGITS, &mut text),
        Value::Str(bytes) => text = bytes,
        _ => return Ok(None),
    }
    if let Some(minutes) = offset {
        let sign = if minutes < 0 { '-' } else { '+' };
        let (hours, rest) = (minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60);
        text.extend_from_slice(format!("{sign}{hours}:{rest:02}").as_bytes());
    }
    Ok(Some(text))
}

/// The offset from UTC, in minutes, of a moment that has one: it stands at its end.
fn offset_of(moment: &[u8]) -> Option<i16> {
    let (length, rest) = moment.split_first()?;
    let moment = rest.get(..usize::from(*length))?;
    match *length == WITH_OFFSET {
        true => Some(i16::from_le_bytes(*moment.last_chunk::<2>()?)),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(code: u8, bytes: &[u8]) -> Option<Vec<u8>> {
        let ty = ParamType {
            code,
            unsigned: false,
            name: b"a"[..].into(),
        };
        read_text(&mut Reader::new(bytes), &ty).expect("a value")
    }

    #[test]
    fn values_are_texts() {
        let some = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(text(coltype::TINY, b"\xfb"), some("-5"));
        assert_eq!(
            text(coltype::DOUBLE, &1e100_f64.to_le_bytes()),
            some("1e100")
        );
        assert_eq!(text(coltype::STRING, b"\x02ab"), some("ab"));
        assert_eq!(
            text(coltype::DATE, b"\x04\xe4\x07\x01\x02"),
            some("2020-01-02")
        );
        let moment = [0xe4, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0x88, 0xff];
        let sent = |n: usize| [&[n as u8], &moment[..n]].concat();
        let shown = "2020-01-02 03:04:05.000006";
        assert_eq!(text(coltype::DATETIME, &sent(11)), some(shown));
        assert_eq!(
            text(coltype::TIMESTAMP, &sent(13)),
            some(&format!("{shown}-2:00"))
        );
        assert_eq!(text(coltype::NULL, b""), None);
    }
}
