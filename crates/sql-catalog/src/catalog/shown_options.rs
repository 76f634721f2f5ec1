//! Table options that mean nothing here, and are shown as they were given.
//!
//! Neighbours: `ddl` checks values before they come here; `store` keeps them as an extension of the table's row;
//! `show` and `information_schema.TABLES` print them.
//! **Invariants**: a value is as MySQL prints it and never empty; an option has one value or none.

use std::collections::BTreeMap;

use esker_types::SqlResult;

use super::bytes::{Reader, Writer};
use crate::codec::damaged;

/// An option, by its number in the catalog; in the order of SHOW CREATE TABLE, where TABLESPACE comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the option of that name")]
pub enum ShownOption {
    AutoextendSize = 1,
    MinRows = 2,
    MaxRows = 3,
    AvgRowLength = 4,
    PackKeys = 5,
    StatsPersistent = 6,
    StatsAutoRecalc = 7,
    StatsSamplePages = 8,
    Checksum = 9,
    DelayKeyWrite = 10,
    KeyBlockSize = 11,
    Compression = 12,
    Connection = 13,
    Tablespace = 14,
}

use ShownOption::*;

/// All of them, with their names, in the order of their numbers.
const ALL: [(ShownOption, &str); 14] = [
    (AutoextendSize, "AUTOEXTEND_SIZE"),
    (MinRows, "MIN_ROWS"),
    (MaxRows, "MAX_ROWS"),
    (AvgRowLength, "AVG_ROW_LENGTH"),
    (PackKeys, "PACK_KEYS"),
    (StatsPersistent, "STATS_PERSISTENT"),
    (StatsAutoRecalc, "STATS_AUTO_RECALC"),
    (StatsSamplePages, "STATS_SAMPLE_PAGES"),
    (Checksum, "CHECKSUM"),
    (DelayKeyWrite, "DELAY_KEY_WRITE"),
    (KeyBlockSize, "KEY_BLOCK_SIZE"),
    (Compression, "COMPRESSION"),
    (Connection, "CONNECTION"),
    (Tablespace, "TABLESPACE"),
];

/// Options of `CREATE_OPTIONS` before and after `row_format`, in MySQL's order.
const LISTED_BEFORE: [ShownOption; 3] = [MaxRows, MinRows, AvgRowLength];
const LISTED_AFTER: [ShownOption; 8] = [
    StatsSamplePages,
    StatsAutoRecalc,
    Compression,
    KeyBlockSize,
    StatsPersistent,
    PackKeys,
    Checksum,
    DelayKeyWrite,
];

impl ShownOption {
    /// The option of a name in upper case.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().find(|(_, it)| *it == name).map(|(it, _)| *it)
    }

    /// Its name in statements.
    pub fn name(self) -> &'static str {
        ALL[self as usize - 1].1
    }

    fn numbered(number: u8) -> Option<Self> {
        let at = usize::from(number).checked_sub(1)?;
        ALL.get(at).map(|(it, _)| *it)
    }

    /// `name=value` in `CREATE_OPTIONS`.
    fn listed(self, value: &str) -> String {
        match self {
            Compression => format!("COMPRESSION=\"{value}\""),
            KeyBlockSize => format!("KEY_BLOCK_SIZE={value}"),
            _ => format!("{}={value}", self.name().to_ascii_lowercase()),
        }
    }
}

/// The options of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownOptions(BTreeMap<ShownOption, Box<str>>);

impl ShownOptions {
    /// Gives an option a value, or takes it away with an empty one.
    pub fn set(&mut self, option: ShownOption, value: &str) {
        match value {
            "" => self.0.remove(&option),
            value => self.0.insert(option, value.into()),
        };
    }

    /// An option's value.
    pub fn get(&self, option: ShownOption) -> Option<&str> {
        self.0.get(&option).map(|value| &**value)
    }

    /// All of them, as a statement would give them.
    pub fn all(&self) -> Vec<(ShownOption, Box<str>)> {
        let all = self.0.iter();
        all.map(|(option, value)| (*option, value.clone()))
            .collect()
    }

    /// Names and values of the numbers that SHOW CREATE TABLE prints between collation and ROW_FORMAT.
    pub(super) fn numbers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0
            .range(MinRows..=DelayKeyWrite)
            .map(|(option, value)| (option.name(), &**value))
    }

    /// `information_schema.TABLES.CREATE_OPTIONS`, with ROW_FORMAT as given.
    pub fn listed(&self, row_format: &str) -> String {
        let some = |options: &'static [ShownOption]| {
            let given = options.iter().filter_map(|it| Some((*it, self.get(*it)?)));
            given.map(|(option, value)| option.listed(value))
        };
        let format = match row_format {
            "" | "DEFAULT" => None,
            format => Some(format!("row_format={format}")),
        };
        let all: Vec<_> = some(&LISTED_BEFORE)
            .chain(format)
            .chain(some(&LISTED_AFTER))
            .collect();
        all.join(" ")
    }

    /// What is stored of them; `None`: there are none.
    pub(super) fn extension(&self) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let mut w = Writer::default();
        w.int(self.0.len() as u64);
        for (option, value) in &self.0 {
            w.byte(*option as u8);
            w.text(value);
        }
        Some(w.out)
    }

    /// What [`Self::extension`] stored.
    pub(super) fn read_extension(bytes: &[u8]) -> SqlResult<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut r = Reader::new(bytes);
        let all = r.list(|r| {
            let option = ShownOption::numbered(r.byte()?);
            let option = option.ok_or_else(|| damaged("catalog row: table option"))?;
            Ok((option, Box::<str>::from(r.text()?)))
        })?;
        r.end()?;
        let count = all.len();
        let options: BTreeMap<_, _> = all.into_iter().collect();
        if options.len() != count || options.values().any(|value| value.is_empty()) {
            return Err(damaged("catalog row: table options"));
        }
        Ok(Self(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_found_by_name_and_by_number() {
        for (at, (option, name)) in ALL.iter().enumerate() {
            assert_eq!(ShownOption::named(name), Some(*option));
            assert_eq!(option.name(), *name);
            assert_eq!(ShownOption::numbered(at as u8 + 1), Some(*option));
        }
        assert_eq!(ShownOption::numbered(0), None);
        assert_eq!(ShownOption::numbered(ALL.len() as u8 + 1), None);
    }

    #[test]
    fn options_come_back_from_their_bytes_and_damage_is_an_error() {
        let mut options = ShownOptions::default();
        assert_eq!(options.extension(), None);
        options.set(MaxRows, "7");
        options.set(Connection, "a 'b'");
        options.set(Checksum, "1");
        options.set(Checksum, "");
        let bytes = options.extension().unwrap();
        assert_eq!(ShownOptions::read_extension(&bytes).unwrap(), options);
        for cut in 1..bytes.len() {
            assert!(
                ShownOptions::read_extension(&bytes[..cut]).is_err(),
                "{cut}"
            );
        }
        for wrong in [
            &[1, 0, 1, b'x'][..],
            &[1, 99, 1, b'x'],
            &[1, 3, 0],
            &[2, 3, 1, b'1', 3, 1, b'2'],
        ] {
            assert!(ShownOptions::read_extension(wrong).is_err(), "{wrong:?}");
        }
    }
}
