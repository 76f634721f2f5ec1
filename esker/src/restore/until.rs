//! `--until`: the last transaction that is wanted, by its GTID or by a time.
//!
//! Neighbours: `replay` compares transactions with it.
//! **Invariant**: what a backup is past already is refused before a byte is written.

use std::fmt::{self, Display};
use std::str::FromStr;

use esker_binlog::gtid::{Gtid, GtidSet};
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

impl Until {
    /// A backup that was begun at `micros` with these GTIDs must not be past it: nothing takes transactions back.
    pub(super) fn is_behind(&self, micros: i64, gtids: &GtidSet) -> Result<(), String> {
        let why = match self {
            Self::Gtid(gtid) if gtids.contains(gtid) => "is in it already",
            // All that the backup has was committed before it was begun.
            Self::Micros(wanted) if i128::from(*wanted) < i128::from(micros) => "is before that",
            _ => return Ok(()),
        };
        Err(format!(
            "the backup is of {}, and {self} {why}; take an earlier backup",
            Moment(micros)
        ))
    }
}

impl Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gtid(gtid) => gtid.fmt(f),
            Self::Micros(micros) => Moment(i64::try_from(*micros).unwrap_or(i64::MAX)).fmt(f),
        }
    }
}

/// Microseconds since the epoch, as a time that `--until` understands.
struct Moment(i64);

impl Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Timestamp::from_microsecond(self.0) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{} microseconds", self.0),
        }
    }
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

    #[test]
    fn what_a_backup_is_past_is_refused() {
        let gtids = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23";
        let check = |until: &str| {
            let until: Until = until.parse().expect("a time or a GTID");
            until.is_behind(1_795_525_140_500_000, &gtids.parse().expect("a set"))
        };
        assert_eq!(check("3e11fa47-71ca-11e1-9e33-c80aa9429562:24"), Ok(()));
        assert_eq!(check("2026-11-24T12:59:00.5Z"), Ok(()));
        let refused = "the backup is of 2026-11-24T12:59:00.5Z, and \
                       2026-11-24T12:59:00.499999Z is before that; take an earlier backup";
        assert_eq!(
            check("2026-11-24T12:59:00.499999Z"),
            Err(refused.to_owned())
        );
        let refused = "the backup is of 2026-11-24T12:59:00.5Z, and \
                       3e11fa47-71ca-11e1-9e33-c80aa9429562:23 is in it already; take an earlier backup";
        assert_eq!(
            check("3e11fa47-71ca-11e1-9e33-c80aa9429562:23"),
            Err(refused.to_owned())
        );
    }
}
