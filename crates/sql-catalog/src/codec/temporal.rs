//! Temporal values as words: what rows and keys store.
//!
//! Neighbours: `phys` (little-endian), `key` (big-endian), `catalog::bytes`.
//! **Invariants**: the order of the words is the order of the values; a word no value has reads as
//! zero; the zero timestamp is 0, which sorts before every instant a TIMESTAMP can be.

use esker_types::{Date, DateTime, SqlResult, Time};
use jiff::tz::TimeZone;

use super::{UTC, damaged};

pub(crate) fn date_bits(v: Date) -> u32 {
    v.packed()
}

pub(crate) fn date_of(bits: u32) -> Date {
    Date::from_packed(bits).unwrap_or(Date::ZERO)
}

pub(crate) fn time_bits(v: Time) -> i64 {
    v.micros()
}

pub(crate) fn time_of(bits: i64) -> Time {
    Time::from_micros(bits).unwrap_or(Time::ZERO)
}

pub(crate) fn datetime_bits(v: DateTime) -> u64 {
    v.packed()
}

pub(crate) fn datetime_of(bits: u64) -> DateTime {
    DateTime::from_packed(bits).unwrap_or(DateTime::ZERO)
}

/// The instant that `local` names in `zone`.
pub(crate) fn timestamp_bits(local: DateTime, zone: &TimeZone) -> SqlResult<i64> {
    let utc = local
        .to_timestamp(zone)
        .ok_or_else(|| damaged("timestamp: out of range"))?;
    Ok(utc.micros)
}

pub(crate) fn timestamp_of(bits: i64, zone: &TimeZone) -> DateTime {
    DateTime::from_timestamp(bits, zone).unwrap_or(DateTime::ZERO)
}

/// A timestamp kept in UTC, in the session's zone.
pub fn utc_to_zone(utc: DateTime, zone: &TimeZone) -> DateTime {
    timestamp_bits(utc, &UTC).map_or(DateTime::ZERO, |bits| timestamp_of(bits, zone))
}

/// A timestamp in the session's zone, in UTC.
pub fn zone_to_utc(local: DateTime, zone: &TimeZone) -> SqlResult<DateTime> {
    Ok(timestamp_of(timestamp_bits(local, zone)?, &UTC))
}
