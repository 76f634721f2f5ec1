//! Fields of a row image as values.
//!
//! Neighbours: `event::rows` reads NULL bits; `write` is the inverse. **Invariants**: TIMESTAMPs come out in UTC; texts
//! stay in the column's character set; labels have their number, no text.

use esker_types::{Date, DateTime, Decimal, Time, Value, json};

use super::Form;
use super::write::{decimal_bytes, fraction_bytes, fraction_unit, group_bytes};
use crate::bytes::Reader;
use crate::{Result, damaged};

impl Form {
    /// Reads a value that is not NULL.
    pub(crate) fn read(self, r: &mut Reader<'_>) -> Result<Value> {
        Ok(match self {
            Self::Int { bytes, unsigned } => {
                let raw = r.uint(bytes.into())?;
                let unused = 64 - 8 * u32::from(bytes);
                match unsigned {
                    true => Value::UInt(raw),
                    false => Value::Int((raw << unused) as i64 >> unused),
                }
            }
            Self::Float => Value::Double(f32::from_le_bytes(r.array()?).into()),
            Self::Double => Value::Double(f64::from_le_bytes(r.array()?)),
            Self::Decimal { precision, scale } => {
                let bytes = r.take(decimal_bytes(precision, scale))?;
                Value::Decimal(decimal(bytes, precision, scale)?)
            }
            Self::Bit { bits } => Value::Bit(r.uint_be(usize::from(bits).div_ceil(8))?, bits),
            Self::Year => Value::Int(match r.u8()? {
                0 => 0,
                year => 1900 + i64::from(year),
            }),
            Self::Date => {
                let date = Date::from_packed(r.uint(3)? as u32);
                Value::Date(date.ok_or_else(|| damaged("row image: DATE"))?)
            }
            Self::Time { fsp } => Value::Time(time(r, fsp)?),
            Self::DateTime { fsp } => Value::DateTime(datetime(r, fsp)?),
            Self::Timestamp { fsp } => Value::DateTime(timestamp(r, fsp)?),
            Self::Char { max_bytes } | Self::VarChar { max_bytes } => {
                let len = r.uint(Self::string_prefix(max_bytes))?;
                Value::Str(r.take(len as usize)?.to_vec())
            }
            Self::Blob { prefix } => {
                let len = r.uint(prefix.into())?;
                Value::Str(r.take(len as usize)?.to_vec())
            }
            Self::Json => {
                let len = r.u32()?;
                let document = r.take(len as usize)?;
                if !json::is_sound(document) {
                    return Err(damaged("row image: JSON"));
                }
                Value::Json(document.to_vec())
            }
            Self::Geometry => {
                let len = r.u32()?;
                Value::Str(r.take(len as usize)?.to_vec())
            }
            Self::Enum { bytes } | Self::Set { bytes } => {
                Value::Label(r.uint(bytes.into())?, Box::default())
            }
        })
    }
}

impl Form {
    /// The bytes of a value that is not NULL, without its length: equal values of a column have equal bytes.
    pub(crate) fn raw<'a>(self, r: &mut Reader<'a>) -> Result<&'a [u8]> {
        let length = match self {
            Self::Int { bytes, .. } | Self::Enum { bytes } | Self::Set { bytes } => bytes.into(),
            Self::Float => 4,
            Self::Double => 8,
            Self::Decimal { precision, scale } => decimal_bytes(precision, scale),
            Self::Bit { bits } => usize::from(bits).div_ceil(8),
            Self::Year => 1,
            Self::Date => 3,
            Self::Time { fsp } => 3 + fraction_bytes(fsp),
            Self::DateTime { fsp } => 5 + fraction_bytes(fsp),
            Self::Timestamp { fsp } => 4 + fraction_bytes(fsp),
            Self::Char { max_bytes } | Self::VarChar { max_bytes } => {
                r.uint(Self::string_prefix(max_bytes))? as usize
            }
            Self::Blob { prefix } => r.uint(prefix.into())? as usize,
            Self::Json | Self::Geometry => r.u32()? as usize,
        };
        r.take(length)
    }
}

fn micros(r: &mut Reader<'_>, fsp: u8) -> Result<u32> {
    Ok((r.uint_be(fraction_bytes(fsp))? * fraction_unit(fsp)) as u32)
}

fn time(r: &mut Reader<'_>, fsp: u8) -> Result<Time> {
    let bytes = fraction_bytes(fsp);
    let biased = r.uint_be(3 + bytes)? as i64;
    let signed = biased - (1 << (8 * bytes + 23));
    let magnitude = signed.unsigned_abs();
    let whole = (magnitude >> (8 * bytes)) as u32;
    let micro = (magnitude & ((1 << (8 * bytes)) - 1)) * fraction_unit(fsp);
    let (hour, minute, second) = (whole >> 12 & 0x3ff, whole >> 6 & 0x3f, whole & 0x3f);
    Time::new(signed < 0, hour, minute, second, micro as u32)
        .ok_or_else(|| damaged("row image: TIME"))
}

fn datetime(r: &mut Reader<'_>, fsp: u8) -> Result<DateTime> {
    let packed = r.uint_be(5)? & !(1 << 39);
    let micro = micros(r, fsp)?;
    let (date, time) = ((packed >> 17) as u32, (packed & 0x1_ffff) as u32);
    let year_month = date >> 5;
    let date = Date::new(year_month / 13, year_month % 13, date & 0x1f);
    date.and_then(|date| DateTime::new(date, time >> 12, time >> 6 & 0x3f, time & 0x3f, micro))
        .ok_or_else(|| damaged("row image: DATETIME"))
}

fn timestamp(r: &mut Reader<'_>, fsp: u8) -> Result<DateTime> {
    let seconds = r.uint_be(4)? as i64;
    let micro = i64::from(micros(r, fsp)?);
    if seconds == 0 && micro == 0 {
        return Ok(DateTime::ZERO);
    }
    DateTime::from_utc_micros(seconds * 1_000_000 + micro)
        .ok_or_else(|| damaged("row image: TIMESTAMP"))
}

fn decimal(bytes: &[u8], precision: u8, scale: u8) -> Result<Decimal> {
    let mut bytes = bytes.to_vec();
    let negative = bytes[0] & 0x80 == 0;
    bytes[0] ^= 0x80;
    if negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut r = Reader::new(&bytes);
    let mut text = String::with_capacity(usize::from(precision) + 2);
    if negative {
        text.push('-');
    }
    let whole = usize::from(precision - scale);
    let mut group = |digits: usize, text: &mut String| -> Result<()> {
        let number = r.uint_be(group_bytes(digits))?;
        let padded = format!("{number:0digits$}");
        if padded.len() != digits {
            return Err(damaged("row image: DECIMAL"));
        }
        text.push_str(&padded);
        Ok(())
    };
    if !whole.is_multiple_of(9) {
        group(whole % 9, &mut text)?;
    }
    for _ in 0..whole / 9 {
        group(9, &mut text)?;
    }
    if whole == 0 {
        text.push('0');
    }
    if scale > 0 {
        text.push('.');
        for _ in 0..scale / 9 {
            group(9, &mut text)?;
        }
        if !scale.is_multiple_of(9) {
            group((scale % 9).into(), &mut text)?;
        }
    }
    text.parse().map_err(|_| damaged("row image: DECIMAL"))
}
