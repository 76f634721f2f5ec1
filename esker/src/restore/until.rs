//! `--until`: the last transaction that is wanted, by its GTID or by a time.
//!
//! Neighbours: `replay` compares transactions with it.

use std::str::FromStr;

use esker_binlog::gtid::Gtid;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Where to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Until {
    /// Behind this transaction.
    Gtid(Gtid),
    /// Before the first one that was committed later, microseconds since the epoch.
    Micros(u64),
}

impl FromStr for Until {
    type Err = String;

    /// A GTID, a time with an offset (RFC 3339), or one of the local time zone.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(gtid) = text.parse() {
            return Ok(Self::Gtid(gtid));
        }
        let local = || {
            let civil = text.parse::<DateTime>().ok()?;
            let zoned = civil.to_zoned(TimeZone::system()).ok()?;
            Some(zoned.timestamp())
        };
        let time = text.parse::<Timestamp>().ok().or_else(local);
        let micros = time.and_then(|time| u64::try_from(time.as_microsecond()).ok());
        let micros = micros.ok_or("give 'YYYY-MM-DD HH:MM:SS' or a GTID, uuid:number")?;
        Ok(Self::Micros(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_gtids_are_told_apart() {
        let gtid = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23";
        assert!(matches!(gtid.parse(), Ok(Until::Gtid(_))));
        let time = "2026-11-24T12:59:00.5Z".parse();
        assert_eq!(time, Ok(Until::Micros(1_795_525_140_500_000)));
        assert!(matches!(
            "2026-11-24 12:59:00".parse(),
            Ok(Until::Micros(_))
        ));
        assert!("yesterday".parse::<Until>().is_err());
    }
}
