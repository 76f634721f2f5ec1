//! Dates and times against an oracle and frozen results of MySQL.

use proptest::prelude::*;

use super::calendar::{day_number, day_of_year, from_day_number, last_day, week, weekday};
use super::zone::{TIMESTAMP_MAX_MICROS, parse_time_zone, time_zone_name};
use super::*;

fn dt(text: &str) -> DateTime {
    parse_datetime(text.as_bytes(), DateFlags::FUZZY)
        .unwrap()
        .datetime
}

fn any_date() -> impl Strategy<Value = Date> {
    (0u32..=9999, 0u32..=12, 0u32..=31).prop_map(|(y, m, d)| Date::new(y, m, d).unwrap())
}

fn any_moment() -> impl Strategy<Value = DateTime> {
    (any_date(), 0..MICROS_PER_DAY).prop_map(|(d, t)| DateTime::from_parts(d, t))
}

proptest! {
    #[test]
    fn packed_forms_order_and_return(a in any_moment(), b in any_moment(), t in any::<i64>()) {
        prop_assert_eq!(DateTime::from_packed(a.packed()), Some(a));
        prop_assert_eq!(Date::from_packed(a.date().packed()), Some(a.date()));
        prop_assert_eq!(a.packed().cmp(&b.packed()), (a.date(), a.time()).cmp(&(b.date(), b.time())));
        let time = Time::clamped(t).0;
        prop_assert_eq!(Time::from_packed(time.packed()), Some(time));
        prop_assert!(time.packed() >> 48 == 0);
        prop_assert_eq!(DateTime::from_parts(a.date(), a.time().micros()), a);
    }

    #[test]
    fn text_reads_back(a in any_moment(), t in any::<i64>()) {
        let flags = DateFlags::FUZZY.with(DateFlags::INVALID_DATES);
        let p = parse_datetime(a.format(6).as_bytes(), flags).unwrap();
        prop_assert_eq!((p.datetime, p.digits, p.warn, p.deprecated), (a, 6, TemporalWarn::NONE, None));
        let time = Time::clamped(t).0;
        let p = parse_time(time.format(6).as_bytes(), flags).unwrap();
        prop_assert_eq!((p.time, p.warn, p.deprecated), (time, TemporalWarn::NONE, None));
        if a.date().year() >= 1000 {
            let n = datetime_from_number(a.to_number(), flags).unwrap();
            prop_assert_eq!(n.datetime, a.with_microsecond(0));
        }
    }

    #[test]
    fn any_text_parses_without_panic(text in "[-+0-9: .Ta/]{0,30}", bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
        for t in [text.as_bytes(), &bytes] {
            let _ = parse_datetime(t, DateFlags::FUZZY);
            let _ = parse_time(t, DateFlags::NONE);
            let _ = Interval::from_text(IntervalUnit::DayMicrosecond, t);
        }
    }

    #[test]
    fn any_number_is_read_without_panic(n in any::<i64>(), small in 0i64..100_000_000) {
        for n in [n, small, small * 1_000_000] {
            let _ = datetime_from_number(n, DateFlags::FUZZY);
            let _ = time_from_number(n);
        }
    }

    #[test]
    fn days_count_as_the_calendar_does(year in 1i16..=9999, month in 1i8..=12, day in 1i8..=28) {
        let d = Date::new(year as u32, month as u32, day as u32).unwrap();
        let oracle = jiff::civil::date(year, month, day);
        let since = oracle.since((jiff::Unit::Day, jiff::civil::date(1970, 1, 1))).unwrap().get_days();
        prop_assert_eq!(i64::from(day_number(d)), 719_528 + i64::from(since));
        prop_assert_eq!(from_day_number(day_number(d)), Some(d));
        prop_assert_eq!(weekday(day_number(d), false), oracle.weekday().to_monday_zero_offset() as u32);
        prop_assert_eq!(day_of_year(d), oracle.day_of_year() as u32);
        prop_assert_eq!(last_day(d).unwrap().day(), oracle.days_in_month() as u32);
        let iso = oracle.iso_week_date();
        prop_assert_eq!(week(d, 3), (iso.week() as u32, i32::from(iso.year())));
    }

    #[test]
    fn moments_survive_their_zone(secs in 1i64..i64::from(i32::MAX), micro in 0i64..1_000_000) {
        let micros = secs * MICROS_PER_SEC + micro;
        for zone in ["+05:30", "-13:59", "Europe/Berlin", "Australia/Lord_Howe"] {
            let zone = parse_time_zone(zone).unwrap();
            let local = DateTime::from_timestamp(micros, &zone).unwrap();
            let back = local.to_timestamp(&zone);
            // In the hour that comes twice the earlier moment is taken.
            let back = back.map_or(0, |u| { assert!(!u.in_gap); u.micros });
            let twice = (30 * 60 * MICROS_PER_SEC, 3600 * MICROS_PER_SEC);
            let lost = micros - back;
            prop_assert!(lost == 0 || lost == twice.0 || lost == twice.1, "{local} {lost}");
            prop_assert_eq!(DateTime::from_timestamp(back, &zone), Some(local));
        }
    }
}

#[test]
fn weeks_are_mysqls() {
    let mut cases = 0;
    for line in include_str!("testdata/weeks.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let (text, numbers) = line.split_once(' ').unwrap();
        let n: Vec<u32> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
        let d = dt(text).date();
        assert_eq!(day_number(d), n[0], "{text}");
        assert_eq!(weekday(n[0], false), n[1], "{text}");
        assert_eq!(day_of_year(d), n[2], "{text}");
        for mode in 0..8 {
            assert_eq!(week(d, mode).0, n[3 + mode as usize], "{text} {mode}");
            let (w, y) = week(d, mode | 2);
            assert_eq!(y as u32 * 100 + w, n[11 + mode as usize], "{text} {mode}");
        }
        cases += 1;
    }
    assert!(cases > 100);
}

#[test]
fn intervals_are_mysqls() {
    let mut cases = 0;
    for line in include_str!("testdata/intervals.tsv")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let f: Vec<&str> = line.split('\t').collect();
        let unit = IntervalUnit::by_name(f[1]).unwrap();
        let interval = match f[2].strip_prefix('\'') {
            Some(text) => Interval::from_text(unit, text.trim_end_matches('\'').as_bytes()),
            None => Interval::from_int(unit, f[2].parse().unwrap()),
        };
        let base = dt(f[0]);
        let got = interval.and_then(|i| base.add_interval(&i));
        // A result without microseconds shows none.
        let digits = got.map_or(0, |d| if d.microsecond() > 0 { 6 } else { 0 });
        let text = got.map_or("NULL".to_owned(), |d| d.format(digits));
        let expected = match f[3].split_once('.') {
            Some((secs, fraction)) if fraction.trim_matches('0').is_empty() => secs.to_owned(),
            Some((secs, fraction)) => format!("{secs}.{fraction:0<6}"),
            None => f[3].to_owned(),
        };
        assert_eq!(text, expected, "{line}");
        cases += 1;
    }
    assert!(cases > 700);
}

#[test]
fn units_have_names() {
    for (name, unit) in IntervalUnit::ALL {
        assert_eq!(IntervalUnit::by_name(&name.to_uppercase()), Some(*unit));
        assert_eq!(unit.name(), *name);
    }
    assert_eq!(
        IntervalUnit::by_name("SQL_TSI_day"),
        Some(IntervalUnit::Day)
    );
    assert_eq!(IntervalUnit::by_name("fortnight"), None);
}

#[test]
fn clocks_put_forward_and_back() {
    let utc = |zone: &str, local: &str| {
        let u = dt(local).to_utc(&parse_time_zone(zone).unwrap()).unwrap();
        (u.micros / MICROS_PER_SEC, u.in_gap)
    };
    assert_eq!(
        utc("Europe/Berlin", "2024-03-31 02:30:00"),
        (1_711_846_800, true)
    );
    assert_eq!(
        utc("Europe/Berlin", "2024-03-31 02:00:00"),
        (1_711_846_800, true)
    );
    assert_eq!(
        utc("Europe/Berlin", "2024-03-31 03:00:00"),
        (1_711_846_800, false)
    );
    assert_eq!(
        utc("Europe/Berlin", "2024-10-27 02:30:00"),
        (1_729_989_000, false)
    );
    assert_eq!(
        utc("Europe/Berlin", "2024-10-27 03:00:00"),
        (1_729_994_400, false)
    );
    assert_eq!(
        utc("Europe/Berlin", "2037-07-01 00:00:00"),
        (2_130_012_000, false)
    );
    assert_eq!(
        utc("America/New_York", "2024-03-10 02:30:00"),
        (1_710_054_000, true)
    );
    assert_eq!(
        utc("America/New_York", "2024-11-03 01:30:00"),
        (1_730_611_800, false)
    );
    assert_eq!(
        utc("Australia/Lord_Howe", "2024-10-06 02:15:00"),
        (1_728_142_200, true)
    );
    assert_eq!(
        utc("Australia/Lord_Howe", "2024-04-07 01:45:00"),
        (1_712_414_700, false)
    );
    let berlin = parse_time_zone("Europe/Berlin").unwrap();
    let u = dt("2024-03-31 02:59:59.5").to_utc(&berlin).unwrap();
    assert_eq!(u.micros, 1_711_846_800_500_000);
}

#[test]
fn zone_names() {
    for (given, shown) in [
        ("+14:00", "+14:00"),
        ("-13:59", "-13:59"),
        ("+1:00", "+01:00"),
        ("-0:30", "-00:30"),
        ("europe/berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
    ] {
        assert_eq!(time_zone_name(&parse_time_zone(given).unwrap()), shown);
    }
    for bad in [
        "+14:01", "-14:00", "foo", "+01", "", "+", "+1:60", "+1:5:5", "+:30", "1:00",
    ] {
        let e = parse_time_zone(bad).unwrap_err();
        assert_eq!(
            (e.code, e.message),
            (1298, format!("Unknown or incorrect time zone: '{bad}'"))
        );
    }
    assert!(parse_time_zone("system").is_ok());
}

#[test]
fn timestamps_have_their_range() {
    let utc = parse_time_zone("+00:00").unwrap();
    let stored = |text: &str| dt(text).to_timestamp(&utc).map(|u| u.micros);
    assert_eq!(stored("1970-01-01 00:00:00"), None);
    assert_eq!(stored("1970-01-01 00:00:01"), Some(1_000_000));
    assert_eq!(
        stored("2038-01-19 03:14:07.999999"),
        Some(TIMESTAMP_MAX_MICROS)
    );
    assert_eq!(stored("2038-01-19 03:14:08"), None);
    assert_eq!(DateTime::ZERO.to_timestamp(&utc).map(|u| u.micros), Some(0));
    assert_eq!(DateTime::from_timestamp(0, &utc), Some(DateTime::ZERO));
    assert_eq!(
        DateTime::from_timestamp(TIMESTAMP_MAX_MICROS + 1, &utc),
        None
    );
    assert_eq!(DateTime::from_timestamp(-1, &utc), None);
}

#[test]
fn damaged_packed_forms_are_refused() {
    assert_eq!(Date::from_packed(13 << 5), None);
    assert_eq!(Date::from_packed(u32::MAX), None);
    assert_eq!(DateTime::from_packed(u64::MAX), None);
    assert_eq!(DateTime::from_packed(24 << 36), None);
    assert_eq!(DateTime::from_packed(1_000_000), None);
    assert_eq!(Time::from_packed(0), None);
    assert_eq!(Time::from_packed(u64::MAX), None);
}

/// The forms are on disk: they must never change.
#[test]
fn packed_forms_are_frozen() {
    const FROZEN: u64 =
        ((2026 * 13 + 2) << 5 | 28) << 41 | 13 << 36 | 14 << 30 | 15 << 24 | 678_901;
    assert_eq!(dt("2026-02-28 13:14:15.678901").packed(), FROZEN);
    assert_eq!(dt("2026-02-28").date().packed(), 2026 << 9 | 2 << 5 | 28);
    assert_eq!(
        Time::new(true, 1, 2, 3, 4).unwrap().packed(),
        (1 << 47) - 3_723_000_004
    );
    assert_eq!(DateTime::MAX, dt("9999-12-31 23:59:59.999999"));
    assert_eq!(Date::MAX, dt("9999-12-31").date());
}

#[test]
fn rounding() {
    let round = |t: &str, fsp| Some(dt(t).round(fsp, false).ok()?.format(fsp));
    assert_eq!(
        round("2024-01-31 23:59:59.5", 0).as_deref(),
        Some("2024-02-01 00:00:00")
    );
    assert_eq!(
        round("2024-01-31 23:59:59.4999", 0).as_deref(),
        Some("2024-01-31 23:59:59")
    );
    assert_eq!(
        round("2024-01-31 23:59:59.995", 2).as_deref(),
        Some("2024-02-01 00:00:00.00")
    );
    // A date with zeros has no second that follows another.
    assert_eq!(
        round("2024-00-00 10:00:00.64", 1).as_deref(),
        Some("2024-00-00 10:00:00.6")
    );
    let zero = Err(TemporalWarn::ZERO_IN_DATE);
    for zeros in ["2024-00-00 10:00:00.9", "2024-00-01 23:59:59.9"] {
        assert_eq!(dt(zeros).round(0, false), zero);
    }
    let last = dt("9999-12-31 23:59:59.9").round(0, false);
    assert!(last.unwrap_err().has(TemporalWarn::FIELD_OVERFLOW));
    let invalid = DateTime::new(Date::new(2024, 2, 31).unwrap(), 10, 0, 0, 900_000).unwrap();
    assert_eq!(
        invalid.round(0, false).map(|d| d.format(0)).as_deref(),
        Ok("2024-03-02 10:00:01")
    );
    assert_eq!(
        dt("9999-12-31 23:59:59.9")
            .round(0, true)
            .unwrap()
            .format(0),
        "9999-12-31 23:59:59"
    );
    let time = |h, us| Time::new(true, h, 59, 59, us).unwrap();
    assert_eq!(
        time(1, 500_000).round(0, false),
        (Time::new(true, 2, 0, 0, 0).unwrap(), false)
    );
    assert_eq!(time(1, 499_999).round(0, false), (time(1, 0), false));
    assert_eq!(Time::clamped(i64::MIN + 1), (Time::MIN, true));
    assert_eq!(
        time(5, 123_456).round(3, false).0.to_string(),
        "-05:59:59.123"
    );
}
