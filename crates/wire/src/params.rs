//! Parameter values of COM_STMT_EXECUTE.
//!
//! Neighbours: `command` finds the bytes; `server` keeps the types of the last execution (a client
//! sends them once) and the long data sent ahead.
//! **Invariant**: values come out as `esker_types` values in UTF-8 or raw bytes; nothing is
//! trusted, temporal fields out of range are errors.

use esker_types::{Date, DateTime, Decimal, Time, Value};

use crate::WireError;
use crate::attributes::{self, Attribute};
use crate::codec::Reader;
use crate::command::{Execute, PARAMETER_COUNT_AVAILABLE};
use crate::constants::{cap, coltype};

/// Whole days in the longest TIME, 838:59:59.
const MAX_TIME_DAYS: u32 = 34;

/// Wire type of one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamType {
    /// `MYSQL_TYPE_*`.
    pub code: u8,
    /// Unsigned integer.
    pub unsigned: bool,
    /// Its name, if it is an attribute.
    pub name: Box<[u8]>,
}

/// Decodes the parameters of one execution, and the attributes behind them.
///
/// `types` holds the types sent before and is replaced when the client sends new ones; `long` has
/// the bytes sent ahead per parameter. `capabilities` are the connection's.
///
/// # Errors
/// Truncated packets, unknown types, missing types.
pub fn decode(
    execute: &Execute<'_>,
    count: usize,
    capabilities: u32,
    types: &mut Vec<ParamType>,
    long: &[Option<Vec<u8>>],
) -> Result<(Vec<Value>, Vec<Attribute>), WireError> {
    let mut r = Reader::new(execute.rest);
    let named = capabilities & cap::QUERY_ATTRIBUTES != 0;
    let mut total = count;
    if named && (count > 0 || execute.flags & PARAMETER_COUNT_AVAILABLE != 0) {
        total = usize::try_from(r.lenenc("parameter count")?)
            .map_err(|_| WireError::Bad("parameter count"))?;
        if total < count {
            return Err(WireError::Bad("parameter count"));
        }
    }
    if total == 0 {
        return Ok((Vec::new(), Vec::new()));
    }
    let nulls = r.take(total.div_ceil(8), "null bitmap")?;
    if r.u8("new parameters flag")? == 1 {
        *types = read_types(&mut r, total, named)?;
    }
    if types.len() < total {
        return Err(WireError::Bad("parameter types"));
    }
    let mut values = Vec::with_capacity(count);
    for (i, ty) in types[..count].iter().enumerate() {
        let value = if let Some(Some(bytes)) = long.get(i) {
            Value::Str(bytes.clone())
        } else if is_null(nulls, i) {
            Value::Null
        } else {
            typed(read_value(&mut r, ty)?, ty)
        };
        values.push(value);
    }
    let rest = types[..total].iter().enumerate().skip(count);
    let more = rest.map(|(i, ty)| attributes::read_one(&mut r, ty, is_null(nulls, i)));
    Ok((values, more.collect::<Result<_, _>>()?))
}

/// Does the bitmap say that a parameter is NULL?
pub(crate) fn is_null(nulls: &[u8], i: usize) -> bool {
    nulls[i / 8] >> (i % 8) & 1 == 1
}

/// The types of `total` parameters.
pub(crate) fn read_types(
    r: &mut Reader<'_>,
    total: usize,
    named: bool,
) -> Result<Vec<ParamType>, WireError> {
    // Each type takes at least two bytes: a false count cannot make us allocate more than it sent.
    if total > r.rest().len() / 2 {
        return Err(WireError::Truncated("parameter types"));
    }
    let mut types = Vec::with_capacity(total);
    for _ in 0..total {
        let code = r.u8("parameter type")?;
        let flags = r.u8("parameter flags")?;
        let name = match named {
            true => r.lenenc_bytes("parameter name")?.into(),
            false => Box::default(),
        };
        types.push(ParamType {
            code,
            unsigned: flags & 0x80 != 0,
            name,
        });
    }
    Ok(types)
}

/// The value of a parameter: numbers that come as texts are numbers. What follows one is left out, as in MySQL.
fn typed(value: Value, ty: &ParamType) -> Value {
    match (ty.code, value) {
        (coltype::DECIMAL | coltype::NEWDECIMAL, Value::Str(text)) => {
            Value::Decimal(Decimal::parse(&text).0)
        }
        (_, value) => value,
    }
}

/// A value of a type, DECIMAL as a text.
pub(crate) fn read_value(r: &mut Reader<'_>, ty: &ParamType) -> Result<Value, WireError> {
    let int = |signed: i64, unsigned: u64| {
        if ty.unsigned {
            Value::UInt(unsigned)
        } else {
            Value::Int(signed)
        }
    };
    Ok(match ty.code {
        coltype::TINY => {
            let v = r.u8("parameter")?;
            int(i64::from(v as i8), u64::from(v))
        }
        coltype::SHORT | coltype::YEAR => {
            let v = r.u16("parameter")?;
            int(i64::from(v as i16), u64::from(v))
        }
        coltype::LONG | coltype::INT24 => {
            let v = r.u32("parameter")?;
            int(i64::from(v as i32), u64::from(v))
        }
        coltype::LONGLONG => {
            let v = r.u64("parameter")?;
            int(v as i64, v)
        }
        coltype::FLOAT => Value::Double(f64::from(f32::from_bits(r.u32("parameter")?))),
        coltype::DOUBLE => Value::Double(f64::from_bits(r.u64("parameter")?)),
        coltype::NULL => Value::Null,
        coltype::DATE | coltype::DATETIME | coltype::TIMESTAMP => read_datetime(r, ty.code)?,
        coltype::TIME => read_time(r)?,
        coltype::DECIMAL
        | coltype::NEWDECIMAL
        | coltype::VARCHAR
        | coltype::VAR_STRING
        | coltype::STRING
        | coltype::ENUM
        | coltype::SET
        | coltype::BIT
        | coltype::JSON
        | coltype::GEOMETRY
        | coltype::TINY_BLOB
        | coltype::MEDIUM_BLOB
        | coltype::LONG_BLOB
        | coltype::BLOB => Value::Str(r.lenenc_bytes("parameter")?.to_vec()),
        _ => return Err(WireError::Bad("parameter type")),
    })
}

fn read_datetime(r: &mut Reader<'_>, code: u8) -> Result<Value, WireError> {
    let n = usize::from(r.u8("temporal parameter")?);
    let mut f = Reader::new(r.take(n, "temporal parameter")?);
    let (mut date, mut clock, mut micros) = ((0, 0, 0), (0, 0, 0), 0);
    if n >= 4 {
        date = (f.u16("year")?, f.u8("month")?, f.u8("day")?);
    }
    if n >= 7 {
        clock = (f.u8("hour")?, f.u8("minute")?, f.u8("second")?);
    }
    if n >= 11 {
        micros = f.u32("microsecond")?;
    }
    let bad = WireError::Bad("date parameter");
    let date = Date::new(u32::from(date.0), u32::from(date.1), u32::from(date.2)).ok_or(bad)?;
    if code == coltype::DATE && n <= 4 {
        return Ok(Value::Date(date));
    }
    DateTime::new(
        date,
        u32::from(clock.0),
        u32::from(clock.1),
        u32::from(clock.2),
        micros,
    )
    .map(Value::DateTime)
    .ok_or(WireError::Bad("time parameter"))
}

fn read_time(r: &mut Reader<'_>) -> Result<Value, WireError> {
    let n = usize::from(r.u8("time parameter")?);
    let mut f = Reader::new(r.take(n, "time parameter")?);
    let bad = || WireError::Bad("time parameter");
    if n == 0 {
        return Time::from_micros(0).map(Value::Time).ok_or_else(bad);
    }
    let negative = f.u8("sign")? != 0;
    let days = f.u32("days")?;
    let (h, m, s) = (f.u8("hour")?, f.u8("minute")?, f.u8("second")?);
    let micros = if n >= 12 { f.u32("microsecond")? } else { 0 };
    if days > MAX_TIME_DAYS || h > 23 {
        return Err(bad());
    }
    let hours = days * 24 + u32::from(h);
    Time::new(negative, hours, u32::from(m), u32::from(s), micros)
        .map(Value::Time)
        .ok_or_else(bad)
}
