//! Conversions between types.
//!
//! In flow order: `number` (implicit conversions to numbers), `temporal` (to dates and times),
//! `text` (to text, also for the wire), `explicit` (CAST), `column` (assignment to columns, with
//! `column_text` and `column_time` for those families).
//! Neighbours: `arith`, `cmp` and `func` convert their arguments here; INSERT and UPDATE call
//! [`to_column`].
//!
//! **Invariants**: every problem is raised through [`EvalCtx::raise`], so that strict writes fail
//! and everything else warns, with MySQL's numbers and texts; NULL stays NULL.

mod column;
mod column_text;
mod column_time;
mod explicit;
mod number;
mod temporal;
#[cfg(test)]
mod tests;
mod text;

pub use column::{implicit_default, to_column};
pub use column_text::stored_digits;
pub use column_time::is_zero_date;
pub use explicit::cast;
pub(crate) use explicit::out_of_range;
pub use number::{
    IntStatus, TextNumber, literal_bytes_to_u64, parse_f64, parse_int, round_f64, to_bool,
    to_decimal, to_f64, to_i64, to_int, to_number, to_u64,
};
pub(crate) use temporal::to_moment_of_text;
pub use temporal::{
    date_flags, first_day_of_year, literal_moment, to_clock, to_date, to_datetime, to_time, today,
};
pub use text::{to_str, write_f32, write_f64, write_i64, write_text, write_u64};

use crate::ctx::EvalCtx;
use crate::error::SqlResult;

/// Most bytes of a value shown in a message.
const MAX_SHOWN_BYTES: usize = 128;

/// A value as messages show it: bytes that are no characters as `\xHH`, cut to 128 bytes.
pub fn quoted(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if out.len() + c.len_utf8() > MAX_SHOWN_BYTES {
                return out;
            }
            out.push(c);
        }
        for b in chunk.invalid() {
            if out.len() + 4 > MAX_SHOWN_BYTES {
                return out;
            }
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{b:02X}");
        }
    }
    out
}

/// A binary value as messages show it: what is no printable ASCII as `\xHH`, cut to 128 bytes.
fn quoted_bytes(bytes: &[u8]) -> String {
    let one = |b: &u8| {
        if matches!(b, b' '..=b'~') {
            char::from(*b).to_string()
        } else {
            format!("\\x{b:02X}")
        }
    };
    let mut out: String = bytes.iter().take(MAX_SHOWN_BYTES).map(one).collect();
    out.truncate(MAX_SHOWN_BYTES);
    out
}

/// Raises 1292 `Truncated incorrect KIND value: 'text'`.
pub fn truncated(ctx: &EvalCtx, kind: &str, text: &[u8]) -> SqlResult<()> {
    let message = format!("Truncated incorrect {kind} value: '{}'", quoted(text));
    ctx.raise(1292, "22007", message)
}
