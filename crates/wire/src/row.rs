//! Rows: text and binary encodings of values.
//!
//! Neighbours: `server` implements the `sql` crate's row sink with [`RowEncoder`].
//! **Invariants**: one packet per row; in binary rows the null bitmap has an offset of two bits and
//! is patched in place; no allocation beyond the output buffer.

use esker_types::cast::write_text;
use esker_types::{Date, DateTime, SqlType, TypeKind, ValueRef};

use crate::codec::put_lenenc_bytes;
use crate::frame::FrameWriter;

/// Which encoding a result set uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// COM_QUERY.
    Text,
    /// COM_STMT_EXECUTE and COM_STMT_FETCH.
    Binary,
}

/// Encodes rows into a [`FrameWriter`].
#[derive(Debug)]
pub struct RowEncoder<'a> {
    frames: &'a mut FrameWriter,
    format: Format,
    columns: usize,
    /// Offset of the null bitmap in the frame buffer, index of the next value.
    bitmap: usize,
    index: usize,
    rows: u64,
}

impl<'a> RowEncoder<'a> {
    /// Encodes rows of `columns` values.
    pub fn new(frames: &'a mut FrameWriter, format: Format, columns: usize) -> Self {
        Self {
            frames,
            format,
            columns,
            bitmap: 0,
            index: 0,
            rows: 0,
        }
    }

    /// Starts a row.
    pub fn begin_row(&mut self) {
        let out = self.frames.begin();
        self.index = 0;
        if self.format == Format::Binary {
            out.push(0);
            self.bitmap = out.len();
            let bitmap_len = (self.columns + 2).div_ceil(8);
            out.resize(self.bitmap + bitmap_len, 0);
        }
    }

    /// Appends the next value, which is of type `ty`.
    pub fn value(&mut self, v: ValueRef<'_>, ty: &SqlType) {
        let out = self.frames.payload();
        match self.format {
            Format::Text => put_text(v, ty, out),
            Format::Binary => {
                if matches!(v, ValueRef::Null) {
                    let bit = self.index + 2;
                    out[self.bitmap + bit / 8] |= 1 << (bit % 8);
                } else {
                    put_binary(v, ty, out);
                }
            }
        }
        self.index += 1;
    }

    /// Ends the row.
    pub fn end_row(&mut self) {
        debug_assert_eq!(self.index, self.columns);
        self.frames.end();
        self.rows += 1;
    }

    /// Rows encoded so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes waiting to be sent.
    pub fn bytes(&self) -> usize {
        self.frames.bytes().len()
    }
}

/// Appends a value as a length-encoded string, or 0xfb for NULL.
fn put_text(v: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    match v {
        ValueRef::Null => out.push(0xfb),
        ValueRef::Str(bytes) | ValueRef::Label(_, bytes) => put_lenenc_bytes(out, bytes),
        ValueRef::Json(_) => put_document(v, ty, out),
        _ => put_printed(v, ty, out),
    }
}

/// Appends the printed value. Numbers and dates are shorter than 251 bytes, so their length is one
/// byte, written after the fact.
fn put_printed(v: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    let at = out.len();
    out.push(0);
    write_text(v, ty, out);
    let len = out.len() - at - 1;
    assert!(len < 251, "a printed number or date of {len} bytes");
    out[at] = len as u8;
}

/// Appends a JSON document as text.
fn put_document(v: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    write_text(v, ty, &mut text);
    put_lenenc_bytes(out, &text);
}

/// Appends a non-NULL value in the binary encoding of its static type.
fn put_binary(v: ValueRef<'_>, ty: &SqlType, out: &mut Vec<u8>) {
    match (&ty.kind, v) {
        (TypeKind::TinyInt, v) if as_int(v).is_some() => out.push(as_int(v).unwrap_or(0) as u8),
        (TypeKind::SmallInt | TypeKind::Year, v) if as_int(v).is_some() => {
            out.extend_from_slice(&(as_int(v).unwrap_or(0) as u16).to_le_bytes());
        }
        (TypeKind::MediumInt | TypeKind::Int, v) if as_int(v).is_some() => {
            out.extend_from_slice(&(as_int(v).unwrap_or(0) as u32).to_le_bytes());
        }
        (TypeKind::BigInt, v) if as_int(v).is_some() => {
            out.extend_from_slice(&as_int(v).unwrap_or(0).to_le_bytes());
        }
        (TypeKind::Float, ValueRef::Double(d)) => {
            out.extend_from_slice(&(d as f32).to_bits().to_le_bytes());
        }
        (TypeKind::Double, ValueRef::Double(d)) => {
            out.extend_from_slice(&d.to_bits().to_le_bytes());
        }
        (TypeKind::Date, ValueRef::Date(d)) => put_date(d, out),
        (TypeKind::DateTime | TypeKind::Timestamp, ValueRef::DateTime(t)) => put_datetime(t, out),
        (TypeKind::Time, ValueRef::Time(t)) => put_time(t.micros(), out),
        (_, ValueRef::Str(bytes) | ValueRef::Label(_, bytes)) => put_lenenc_bytes(out, bytes),
        (_, ValueRef::Json(_)) => put_document(v, ty, out),
        (_, v) => put_printed(v, ty, out),
    }
}

fn as_int(v: ValueRef<'_>) -> Option<u64> {
    match v {
        ValueRef::Int(i) => Some(i as u64),
        ValueRef::UInt(u) => Some(u),
        _ => None,
    }
}

fn put_date(d: Date, out: &mut Vec<u8>) {
    if d.is_zero() {
        out.push(0);
    } else {
        out.push(4);
        put_day(d, out);
    }
}

fn put_day(d: Date, out: &mut Vec<u8>) {
    out.extend_from_slice(&(d.year() as u16).to_le_bytes());
    out.extend_from_slice(&[d.month() as u8, d.day() as u8]);
}

fn put_datetime(t: DateTime, out: &mut Vec<u8>) {
    let d = t.date();
    let micros = t.microsecond();
    let clock = (t.hour(), t.minute(), t.second());
    let len = if micros != 0 {
        11
    } else if clock != (0, 0, 0) {
        7
    } else {
        return put_date(d, out);
    };
    out.push(len);
    put_day(d, out);
    out.extend_from_slice(&[clock.0 as u8, clock.1 as u8, clock.2 as u8]);
    if len == 11 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

fn put_time(total: i64, out: &mut Vec<u8>) {
    let magnitude = total.unsigned_abs();
    let micros = (magnitude % 1_000_000) as u32;
    let seconds = magnitude / 1_000_000;
    let len = match (magnitude, micros) {
        (0, _) => return out.push(0),
        (_, 0) => 8,
        _ => 12,
    };
    out.push(len);
    out.push(u8::from(total < 0));
    out.extend_from_slice(&((seconds / 86_400) as u32).to_le_bytes());
    out.extend_from_slice(&[
        (seconds / 3600 % 24) as u8,
        (seconds / 60 % 60) as u8,
        (seconds % 60) as u8,
    ]);
    if len == 12 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(format: Format, values: &[(ValueRef<'_>, SqlType)]) -> Vec<u8> {
        let mut frames = FrameWriter::default();
        let mut rows = RowEncoder::new(&mut frames, format, values.len());
        rows.begin_row();
        for (v, ty) in values {
            rows.value(*v, ty);
        }
        rows.end_row();
        frames.bytes()[crate::frame::HEADER..].to_vec()
    }

    #[test]
    fn text_rows() {
        let int = SqlType::new(TypeKind::Int);
        let text = SqlType::new(TypeKind::VarChar);
        let got = encode(
            Format::Text,
            &[
                (ValueRef::Int(-7), int.clone()),
                (ValueRef::Null, int),
                (ValueRef::Str(b"ab"), text),
            ],
        );
        assert_eq!(got, b"\x02-7\xfb\x02ab");
    }

    #[test]
    fn binary_rows_have_a_null_bitmap_with_two_spare_bits() {
        let int = SqlType::new(TypeKind::Int);
        let tiny = SqlType::new(TypeKind::TinyInt);
        let got = encode(
            Format::Binary,
            &[
                (ValueRef::Int(1), tiny),
                (ValueRef::Null, int.clone()),
                (ValueRef::Int(-1), int),
            ],
        );
        assert_eq!(got, b"\x00\x08\x01\xff\xff\xff\xff");
    }
}
