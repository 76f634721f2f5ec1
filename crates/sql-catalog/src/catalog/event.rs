//! Events: definitions and their bytes, and when they are due.
//!
//! Neighbours: `store` has the keys and the pieces, [`super::Change`] writes; the scheduler asks what is due.
//! **Invariants**: the body is kept as it was written, with everything that its meaning rests on
//! ([`ProgramSettings`]); moments are whole seconds since 1970 UTC; names of events of a database differ in more than
//! case; when an event ran last outlives its definition in memory, and has a row of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use esker_types::SqlResult;
use esker_types::program::EventStatus;
use esker_types::temporal::{DateTime, IntervalUnit, MICROS_PER_SEC};
use jiff::tz::TimeZone;

use super::bytes::{Reader, Writer};
use super::interval::EventInterval;
use super::quotes::Quotes;
use super::routine::ProgramSettings;
use super::show::quoted_literal;
use crate::codec::damaged;

const EVENT_FORMAT: u8 = 1;
const RAN_FORMAT: u8 = 1;
const AT: u8 = 0;
const EVERY: u8 = 1;

/// When an event runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Once.
    At(i64),
    /// Again and again.
    Every {
        /// How often.
        interval: EventInterval,
        /// The first time.
        starts: i64,
        /// Not after this.
        ends: Option<i64>,
    },
}

impl Schedule {
    /// As CREATE EVENT has it, with the moments of a time zone.
    pub fn text(&self, zone: &TimeZone) -> String {
        match self {
            Self::At(at) => format!("AT '{}'", moment_text(*at, zone)),
            Self::Every {
                interval,
                starts,
                ends,
            } => {
                let starts = moment_text(*starts, zone);
                let ends = ends.map_or(String::new(), |ends| {
                    format!(" ENDS '{}'", moment_text(ends, zone))
                });
                let (value, unit) = (interval.text(), interval.unit_text());
                format!("EVERY {value} {unit} STARTS '{starts}'{ends}")
            }
        }
    }
}

/// What is left of an event's schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// It runs then, or at once if that has passed.
    At(i64),
    /// It has run for the last time.
    Never,
}

/// What outlives the definition in memory.
#[derive(Debug, Default)]
pub struct EventRuntime {
    /// When it began last, microseconds since 1970 UTC; 0: never.
    ran: AtomicI64,
}

/// An event.
#[derive(Debug, Clone)]
pub struct EventDef {
    /// Database.
    pub schema: Arc<str>,
    /// Name as written.
    pub name: Arc<str>,
    /// Body as written.
    pub body: Box<str>,
    /// When it runs.
    pub schedule: Schedule,
    /// ON COMPLETION PRESERVE.
    pub preserve: bool,
    /// Does it run?
    pub status: EventStatus,
    /// COMMENT.
    pub comment: Box<str>,
    /// server_id of the server that made it.
    pub originator: u32,
    /// time_zone of the session that gave it its schedule.
    pub time_zone: Box<str>,
    /// What its text rests on.
    pub settings: ProgramSettings,
    /// When it was created, microseconds since 1970 UTC.
    pub created_micros: i64,
    /// When it was changed last.
    pub altered_micros: i64,
    /// What outlives the definition.
    pub runtime: Arc<EventRuntime>,
}

/// Names of events have no case.
pub fn event_key(name: &str) -> Box<str> {
    name.to_lowercase().into()
}

impl EventDef {
    /// When it began last, microseconds since 1970 UTC.
    pub fn last_run(&self) -> Option<i64> {
        Some(self.runtime.ran.load(Ordering::Relaxed)).filter(|ran| *ran != 0)
    }

    /// It begins now.
    pub fn runs_at(&self, micros: i64) {
        self.runtime.ran.store(micros, Ordering::Relaxed);
    }

    /// When it runs next, seen from `now` (seconds), in its time zone. Times that have passed are not made up for,
    /// but for the one time of an event that runs once.
    pub fn due(&self, now: i64, zone: &TimeZone) -> Due {
        let last = self.last_run().map(|ran| ran.div_euclid(MICROS_PER_SEC));
        match &self.schedule {
            Schedule::At(at) if last.is_some_and(|last| *at <= last) => Due::Never,
            Schedule::At(at) => Due::At(*at),
            Schedule::Every {
                interval,
                starts,
                ends,
            } => {
                let after = match last {
                    Some(last) => last.max(now - 1),
                    None if self.begins(*starts, now) => *starts - 1,
                    None => now,
                };
                let next = interval.next(*starts, after, zone);
                match next.filter(|next| ends.is_none_or(|ends| *next <= ends)) {
                    Some(next) => Due::At(next),
                    None => Due::Never,
                }
            }
        }
    }

    /// Is the first time still to come? It is that of an event that begins as it is made, too; the scheduler may hear
    /// of that in the next second.
    fn begins(&self, starts: i64, now: i64) -> bool {
        let made = self.altered_micros.div_euclid(MICROS_PER_SEC);
        starts >= now || (starts >= made && made >= now - 1)
    }

    /// `CREATE DEFINER=… EVENT …`, as SHOW CREATE prints it: moments in its time zone, names in the quotes of whoever
    /// asks.
    pub fn create_text(&self, zone: &TimeZone, quotes: Quotes) -> String {
        let (user, host) = &self.settings.definer;
        let (definer, name) = (quotes.account(user, host), quotes.name(&self.name));
        let when = self.schedule.text(zone);
        let not = if self.preserve { "" } else { "NOT " };
        let comment = match &*self.comment {
            "" => String::new(),
            comment => format!(" COMMENT {}", quoted_literal(comment)),
        };
        format!(
            "CREATE DEFINER={definer} EVENT {name} ON SCHEDULE {when} ON COMPLETION {not}PRESERVE {}{comment} DO {}",
            self.status.clause(),
            self.body
        )
    }
}

/// A moment as the zone has it.
pub fn moment_in(seconds: i64, zone: &TimeZone) -> Option<DateTime> {
    DateTime::from_utc(seconds.checked_mul(MICROS_PER_SEC)?, zone)
}

fn moment_text(seconds: i64, zone: &TimeZone) -> String {
    moment_in(seconds, zone)
        .unwrap_or(DateTime::ZERO)
        .format(0)
        .to_string()
}

/// What follows the prefix in the key of an event's row; names have no zero byte.
pub(super) fn key_bytes(schema: &str, name: &str) -> Vec<u8> {
    [schema.as_bytes(), &[0], event_key(name).as_bytes()].concat()
}

pub(super) fn value(def: &EventDef) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(EVENT_FORMAT);
    w.text(&def.schema);
    w.text(&def.name);
    w.text(&def.body);
    match &def.schedule {
        Schedule::At(at) => {
            w.byte(AT);
            w.int(*at as u64);
        }
        Schedule::Every {
            interval,
            starts,
            ends,
        } => {
            w.byte(EVERY);
            w.text(&interval.unit_text());
            w.int(interval.amount());
            w.int(*starts as u64);
            w.option(*ends, |w, ends| w.int(ends as u64));
        }
    }
    w.flag(def.preserve);
    w.byte(def.status.to_byte());
    w.text(&def.comment);
    w.int(def.originator.into());
    w.text(&def.time_zone);
    def.settings.write(&mut w);
    w.int(def.created_micros as u64);
    w.int(def.altered_micros as u64);
    w.out
}

pub(super) fn read(bytes: &[u8]) -> SqlResult<EventDef> {
    let bad = || damaged("catalog row: event");
    let mut r = Reader::new(bytes);
    if r.byte()? != EVENT_FORMAT {
        return Err(damaged("catalog row: unknown format"));
    }
    let def = EventDef {
        schema: r.text()?.into(),
        name: r.text()?.into(),
        body: r.text()?.into(),
        schedule: read_schedule(&mut r)?,
        preserve: r.flag()?,
        status: EventStatus::from_byte(r.byte()?).ok_or_else(bad)?,
        comment: r.text()?.into(),
        originator: u32::try_from(r.int()?).map_err(|_| bad())?,
        time_zone: r.text()?.into(),
        settings: ProgramSettings::read(&mut r)?,
        created_micros: r.int()? as i64,
        altered_micros: r.int()? as i64,
        runtime: Arc::default(),
    };
    r.end()?;
    Ok(def)
}

fn read_schedule(r: &mut Reader<'_>) -> SqlResult<Schedule> {
    let bad = || damaged("catalog row: schedule of an event");
    Ok(match r.byte()? {
        AT => Schedule::At(r.int()? as i64),
        EVERY => {
            let unit = IntervalUnit::by_name(r.text()?).ok_or_else(bad)?;
            Schedule::Every {
                interval: EventInterval::new(unit, r.int()?).ok_or_else(bad)?,
                starts: r.int()? as i64,
                ends: match r.flag()? {
                    true => Some(r.int()? as i64),
                    false => None,
                },
            }
        }
        _ => return Err(bad()),
    })
}

/// The value of the row that says when an event ran last.
pub(super) fn ran_value(micros: i64) -> Vec<u8> {
    let mut w = Writer::default();
    w.byte(RAN_FORMAT);
    w.int(micros as u64);
    w.out
}

pub(super) fn read_ran(bytes: &[u8]) -> SqlResult<i64> {
    let mut r = Reader::new(bytes);
    if r.byte()? != RAN_FORMAT {
        return Err(damaged("catalog row: unknown format"));
    }
    let micros = r.int()? as i64;
    r.end()?;
    Ok(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(schedule: Schedule) -> EventDef {
        EventDef {
            schema: "d".into(),
            name: "E`1".into(),
            body: "DO 1".into(),
            schedule,
            preserve: true,
            status: EventStatus::ReplicaSideDisabled,
            comment: "it's \\".into(),
            originator: 7,
            time_zone: "+01:00".into(),
            settings: ProgramSettings {
                definer: ("u".into(), "%".into()),
                invoker: false,
                sql_mode: "NO_ZERO_DATE".into(),
                charset_client: "utf8mb4".into(),
                collation_connection: "utf8mb4_0900_ai_ci".into(),
                database_collation: "latin1_swedish_ci".into(),
            },
            created_micros: 1,
            altered_micros: -2,
            runtime: Arc::default(),
        }
    }

    fn every(amount: u64, unit: IntervalUnit, ends: Option<i64>) -> EventDef {
        event(Schedule::Every {
            interval: EventInterval::new(unit, amount).expect("a unit of events"),
            starts: 1000,
            ends,
        })
    }

    #[test]
    fn an_event_is_read_as_it_was_written() {
        let written = [
            event(Schedule::At(-5)),
            every(90, IntervalUnit::MinuteSecond, Some(5000)),
        ];
        for def in written {
            let bytes = value(&def);
            let found = read(&bytes).unwrap();
            assert_eq!(value(&found), bytes);
            assert_eq!(found.schedule, def.schedule);
            for end in 0..bytes.len() {
                assert!(read(&bytes[..end]).is_err(), "cut off at {end}");
            }
        }
        let ran = ran_value(-3);
        assert_eq!(read_ran(&ran).unwrap(), -3);
        assert!(read_ran(&ran[..1]).is_err());
    }

    #[test]
    fn the_text_is_that_of_show_create() {
        let def = every(90, IntervalUnit::MinuteSecond, Some(86_400));
        let text = "CREATE DEFINER=`u`@`%` EVENT `E``1` ON SCHEDULE EVERY '1:30' MINUTE_SECOND STARTS '1970-01-01 \
                    00:16:40' ENDS '1970-01-02 00:00:00' ON COMPLETION PRESERVE DISABLE ON REPLICA COMMENT 'it''s \
                    \\\\' DO DO 1";
        assert_eq!(def.create_text(&TimeZone::UTC, Quotes::BACKTICKS), text);
    }

    #[test]
    fn what_has_passed_is_not_made_up_for() {
        let def = every(10, IntervalUnit::Second, Some(1030));
        let due = |now| def.due(now, &TimeZone::UTC);
        assert_eq!(due(5), Due::At(1000));
        assert_eq!(due(1000), Due::At(1000));
        assert_eq!(due(1001), Due::At(1010));
        assert_eq!(due(1029), Due::At(1030));
        assert_eq!(due(1030), Due::Never, "not at once for a time that is now");
        def.runs_at(1010 * MICROS_PER_SEC + 5);
        assert_eq!(due(1010), Due::At(1020), "not twice in its second");
        def.runs_at(1030 * MICROS_PER_SEC);
        assert_eq!(due(1030), Due::Never);
    }

    #[test]
    fn an_event_that_runs_once_runs_late_but_not_again() {
        let def = event(Schedule::At(1000));
        assert_eq!(def.due(5000, &TimeZone::UTC), Due::At(1000));
        def.runs_at(5000 * MICROS_PER_SEC);
        assert_eq!(def.due(5000, &TimeZone::UTC), Due::Never);
    }
}
