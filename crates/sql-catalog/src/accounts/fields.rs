//! Fields with a number and a length: how the accounts file says what it holds.
//!
//! Neighbours: `record` gives the fields of accounts and grants their numbers and meaning.
//! **Invariant**: bytes that are no such fields become an error, never a panic and never a guess.

use std::fmt::Display;

/// Appends fields: number u16, length u32, bytes, all little-endian.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    /// The bytes of the fields.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// A field of bytes.
    pub(super) fn bytes(&mut self, number: u16, bytes: &[u8]) {
        self.0.extend_from_slice(&number.to_le_bytes());
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// A text; an empty one is left out, which reads the same.
    pub(super) fn text(&mut self, number: u16, text: &str) {
        if !text.is_empty() {
            self.bytes(number, text.as_bytes());
        }
    }

    /// A flag; one that is off is left out.
    pub(super) fn flag(&mut self, number: u16, on: bool) {
        if on {
            self.bytes(number, &[]);
        }
    }

    /// A number.
    pub(super) fn number(&mut self, number: u16, value: i64) {
        self.bytes(number, &value.to_le_bytes());
    }

    /// A number that is left out if there is none.
    pub(super) fn optional(&mut self, number: u16, value: Option<impl Into<i64>>) {
        if let Some(value) = value {
            self.number(number, value.into());
        }
    }

    /// A field that has fields itself.
    pub(super) fn nested(&mut self, number: u16, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.bytes(number, &inner.0);
    }
}

/// One field that was read.
pub(super) struct Field<'a> {
    /// What it is.
    pub(super) number: u16,
    /// Its contents.
    pub(super) bytes: &'a [u8],
}

impl<'a> Field<'a> {
    /// The contents as text.
    pub(super) fn text(&self) -> Result<String, String> {
        String::from_utf8(self.bytes.to_vec()).map_err(|_| self.wrong("is not UTF-8"))
    }

    /// The contents of a flag that is on.
    pub(super) fn flag(&self) -> Result<bool, String> {
        if self.bytes.is_empty() {
            Ok(true)
        } else {
            Err(self.wrong("is a flag and has contents"))
        }
    }

    /// The contents as a number that fits `T`.
    pub(super) fn number<T: TryFrom<i64>>(&self) -> Result<T, String> {
        let bytes = self.bytes.try_into().map(i64::from_le_bytes).ok();
        let value = bytes.and_then(|n| T::try_from(n).ok());
        value.ok_or_else(|| self.wrong("is no such number"))
    }

    /// The fields inside.
    pub(super) fn nested(&self) -> Fields<'a> {
        Fields(self.bytes)
    }

    /// The error for a number that nothing is known of: it may restrict what the account may do, so it is not skipped.
    pub(super) fn unknown(&self, of: &str) -> String {
        format!(
            "field {} of {of} is unknown; a newer version has written it",
            self.number
        )
    }

    /// The error for contents that do not fit.
    pub(super) fn wrong(&self, what: impl Display) -> String {
        format!("field {} {what}", self.number)
    }
}

/// Fields one after the other; ends with the first error.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let cut = || {
            let (head, rest) = self.0.split_first_chunk::<6>()?;
            let [n0, n1, l0, l1, l2, l3] = *head;
            let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
            let (bytes, rest) = rest.split_at_checked(length)?;
            let number = u16::from_le_bytes([n0, n1]);
            Some((Field { number, bytes }, rest))
        };
        let Some((field, rest)) = cut() else {
            self.0 = &[];
            return Some(Err("a field is cut short".into()));
        };
        self.0 = rest;
        Some(Ok(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut w = Writer::default();
        w.text(1, "name");
        w.text(2, "");
        w.flag(3, false);
        w.flag(4, true);
        w.nested(500, |w| w.bytes(7, &[1, 2]));
        w.number(6, 300);
        w.optional(8, None::<u16>);
        let bytes = w.into_bytes();
        let fields: Vec<_> = Fields(&bytes).map(Result::unwrap).collect();
        let numbers: Vec<_> = fields.iter().map(|f| f.number).collect();
        assert_eq!(numbers, [1, 4, 500, 6]);
        assert_eq!(fields[0].text().unwrap(), "name");
        assert!(fields[1].flag().unwrap());
        let inner = fields[2].nested().next().unwrap().unwrap();
        assert_eq!((inner.number, inner.bytes), (7, &[1_u8, 2][..]));
        assert_eq!(fields[3].number::<u16>(), Ok(300));
        assert!(fields[3].number::<u8>().is_err());
        assert!(fields[0].number::<u64>().is_err());
        for cut in 1..bytes.len() {
            let ok = Fields(&bytes[..cut]).all(|f| f.is_ok());
            let whole = [10, 16, 30].contains(&cut);
            assert_eq!(ok, whole, "cut at {cut}");
        }
    }
}
