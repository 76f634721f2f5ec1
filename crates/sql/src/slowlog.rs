//! What the slow query log says of a statement, and how often it says it.
//!
//! Neighbours: `querylog` has the files and the tables that entries go to; `session::measure` makes the entries.
//! **Invariants**
//! - An entry is written as MySQL 8.4 writes it, with `log_slow_extra` too.
//! - What [`IndexThrottle`] leaves out is counted in a line that comes later: with the first statement of another
//!   window that it looks at.

use std::fmt::Write as _;

use parking_lot::Mutex;

use crate::counts::{Counter, Counts};
use crate::logtable::Field;
use crate::querylog::{Entry, Whose, instant, moment};

/// How long the throttle counts together, microseconds.
const WINDOW: i64 = 60_000_000;
/// What the packet of an error has besides its text.
const ERROR_BYTES: u64 = 13;
/// Errors of statements that somebody, or their time, has ended.
const KILLED: [u16; 3] = [1053, 1317, 3024];

/// What `log_slow_extra` counts, by the name in the log; what is not counted is 0, as in SHOW STATUS.
const EXTRA: [(&str, Option<Counter>); 15] = [
    ("Bytes_received", Some(Counter::BytesReceived)),
    ("Bytes_sent", Some(Counter::BytesSent)),
    ("Read_first", Some(Counter::HandlerReadFirst)),
    ("Read_last", Some(Counter::HandlerReadLast)),
    ("Read_key", Some(Counter::HandlerReadKey)),
    ("Read_next", Some(Counter::HandlerReadNext)),
    ("Read_prev", Some(Counter::HandlerReadPrev)),
    ("Read_rnd", None),
    ("Read_rnd_next", Some(Counter::HandlerReadRndNext)),
    ("Sort_merge_passes", Some(Counter::SortMergePasses)),
    ("Sort_range_count", Some(Counter::SortRange)),
    ("Sort_rows", Some(Counter::SortRows)),
    ("Sort_scan_count", Some(Counter::SortScan)),
    (
        "Created_tmp_disk_tables",
        Some(Counter::CreatedTmpDiskTables),
    ),
    ("Created_tmp_tables", Some(Counter::CreatedTmpTables)),
];
/// Where in it is what was sent.
const SENT: usize = 1;

/// The counters of a session when a statement began.
pub(crate) struct Before([u64; EXTRA.len()]);

impl Before {
    pub(crate) fn of(counts: &Counts) -> Self {
        Self(EXTRA.map(|(_, counter)| counter.map_or(0, |counter| counts.get(counter))))
    }
}

/// What `log_slow_extra` adds to an entry.
pub(crate) struct Extra {
    code: u16,
    counts: [u64; EXTRA.len()],
}

impl Extra {
    /// What a session has counted since, and the error of the statement with the length of its text.
    pub(crate) fn since(before: &Before, counts: &Counts, error: Option<(u16, usize)>) -> Self {
        let mut counts = Before::of(counts).0;
        for (now, before) in counts.iter_mut().zip(before.0) {
            // FLUSH STATUS begins them anew.
            *now = now.saturating_sub(before);
        }
        // The error leaves when the statement is over.
        counts[SENT] += error.map_or(0, |(_, length)| length as u64 + ERROR_BYTES);
        Self {
            code: error.map_or(0, |(code, _)| code),
            counts,
        }
    }
}

/// What the slow query log says of a statement.
pub(crate) struct SlowEntry<'a> {
    pub(crate) ended: i64,
    pub(crate) whose: Whose<'a>,
    pub(crate) query_micros: i64,
    pub(crate) lock_micros: u64,
    pub(crate) rows_sent: u64,
    pub(crate) rows_examined: u64,
    pub(crate) database: Option<&'a str>,
    pub(crate) text: &'a str,
    pub(crate) extra: Option<Extra>,
}

impl SlowEntry<'_> {
    /// The statement without its end.
    fn statement(&self) -> &str {
        self.text.trim_end().trim_end_matches(';')
    }

    fn began(&self) -> i64 {
        self.ended - self.query_micros
    }

    /// The rest of the line, with `log_slow_extra`.
    fn print_extra(&self, extra: &Extra, out: &mut String) {
        let killed = if KILLED.contains(&extra.code) {
            extra.code
        } else {
            0
        };
        let connection = self.whose.connection;
        let _ = write!(
            out,
            " Thread_id: {connection} Errno: {} Killed: {killed}",
            extra.code
        );
        for ((name, _), n) in EXTRA.iter().zip(extra.counts) {
            let _ = write!(out, " {name}: {n}");
        }
        let (start, end) = (moment(self.began()), moment(self.ended));
        let _ = write!(out, " Start: {start} End: {end}");
    }
}

impl Entry for SlowEntry<'_> {
    fn print(&self) -> String {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let mut out = format!(
            "# Time: {}\n# User@Host: {}  Id: {:>5}\n\
             # Query_time: {:.6}  Lock_time: {:.6} Rows_sent: {}  Rows_examined: {}",
            moment(self.ended),
            self.whose.account(),
            self.whose.connection,
            seconds(self.query_micros.max(0) as u64),
            seconds(self.lock_micros),
            self.rows_sent,
            self.rows_examined,
        );
        if let Some(extra) = &self.extra {
            self.print_extra(extra, &mut out);
        }
        out.push('\n');
        if let Some(name) = self.database {
            let _ = writeln!(out, "use {name};");
        }
        let timestamp = self.began() / 1_000_000;
        let _ = writeln!(out, "SET timestamp={timestamp};\n{};", self.statement());
        out
    }

    fn row(&self) -> Vec<Field<'_>> {
        vec![
            Field::text(instant(self.began())),
            Field::text(self.whose.account()),
            Field::Number(self.query_micros.max(0) as u64),
            Field::Number(self.lock_micros),
            Field::Number(self.rows_sent),
            Field::Number(self.rows_examined),
            Field::text(self.database.unwrap_or_default()),
            Field::Number(self.whose.server_id),
            Field::text(self.statement()),
            Field::Number(self.whose.connection),
        ]
    }
}

/// Bounds how many statements are logged because they used no index (`log_throttle_queries_not_using_indexes`).
#[derive(Default)]
pub(crate) struct IndexThrottle(Mutex<Window>);

#[derive(Default)]
struct Window {
    end: i64,
    seen: u64,
    left_out: LeftOut,
}

/// What was not logged.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) statements: u64,
    pub(crate) query_micros: i64,
    pub(crate) lock_micros: u64,
}

impl LeftOut {
    /// What the log says of it.
    pub(crate) fn text(&self) -> String {
        format!(
            "throttle: {:10} 'index not used' warning(s) suppressed.",
            self.statements
        )
    }
}

/// Whether a statement is logged, and what is to be told of earlier ones.
pub(crate) struct Verdict {
    pub(crate) logs: bool,
    pub(crate) left_out: Option<LeftOut>,
}

impl IndexThrottle {
    /// A statement without an index has ended at `now`: at most `limit` of them are logged in a window.
    pub(crate) fn admit(&self, limit: u64, now: i64, took: (i64, u64)) -> Verdict {
        let mut window = self.0.lock();
        let mut left_out = None;
        if now >= window.end {
            let ended = std::mem::take(&mut *window).left_out;
            left_out = Some(ended).filter(|ended| ended.statements > 0);
            window.end = now + WINDOW;
        }
        window.seen += 1;
        let logs = limit == 0 || window.seen <= limit;
        if !logs {
            window.left_out.statements += 1;
            window.left_out.query_micros += took.0;
            window.left_out.lock_micros += took.1;
        }
        Verdict { logs, left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> SlowEntry<'static> {
        SlowEntry {
            ended: 1_700_000_001_500_000,
            whose: Whose {
                user: "app",
                host: "localhost",
                address: "127.0.0.1",
                connection: 8,
                server_id: 1,
            },
            query_micros: 1_250_000,
            lock_micros: 500,
            rows_sent: 3,
            rows_examined: 40,
            database: Some("shop"),
            text: "SELECT 1;",
            extra: None,
        }
    }

    #[test]
    fn entries_are_those_of_mysql() {
        let head = "# Time: 2023-11-14T22:13:21.500000Z\n# User@Host: app[app] @ localhost [127.0.0.1]  Id:     8\n\
                    # Query_time: 1.250000  Lock_time: 0.000500 Rows_sent: 3  Rows_examined: 40";
        let tail = "\nuse shop;\nSET timestamp=1700000000;\nSELECT 1;\n";
        assert_eq!(entry().print(), format!("{head}{tail}"));
        let counts = Counts::default();
        counts.add(Counter::HandlerReadKey, 5);
        let before = Before::of(&counts);
        counts.add(Counter::HandlerReadKey, 2);
        counts.add(Counter::BytesReceived, 14);
        let entry = SlowEntry {
            extra: Some(Extra::since(&before, &counts, Some((1317, 30)))),
            ..entry()
        };
        let extra = " Thread_id: 8 Errno: 1317 Killed: 1317 Bytes_received: 14 Bytes_sent: 43 Read_first: 0 \
                     Read_last: 0 Read_key: 2 Read_next: 0 Read_prev: 0 Read_rnd: 0 Read_rnd_next: 0 \
                     Sort_merge_passes: 0 Sort_range_count: 0 Sort_rows: 0 Sort_scan_count: 0 \
                     Created_tmp_disk_tables: 0 Created_tmp_tables: 0 Start: 2023-11-14T22:13:20.250000Z \
                     End: 2023-11-14T22:13:21.500000Z";
        assert_eq!(entry.print(), format!("{head}{extra}{tail}"));
    }

    #[test]
    fn a_window_logs_so_many_and_counts_the_rest() {
        let throttle = IndexThrottle::default();
        let ask = |limit, now| throttle.admit(limit, now, (10, 1));
        let logged: Vec<bool> = (0..4).map(|n| ask(2, 1000 + n).logs).collect();
        assert_eq!(logged, [true, true, false, false]);
        let next = ask(2, 1000 + WINDOW);
        assert!(next.logs);
        let left_out = LeftOut {
            statements: 2,
            query_micros: 20,
            lock_micros: 2,
        };
        assert_eq!(next.left_out, Some(left_out.clone()));
        assert_eq!(
            left_out.text(),
            "throttle:          2 'index not used' warning(s) suppressed."
        );
        assert!((0..9).all(|n| ask(0, 1001 + WINDOW + n).logs));
        assert!(ask(2, 1000 + 2 * WINDOW).left_out.is_none());
    }
}
