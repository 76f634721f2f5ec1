//! The evaluation context: what a kernel may know besides its arguments. SQL mode, zone, clock, session facts, and
//! where warnings go.
//!
//! Neighbours: every kernel in `func`, `cast`, `arith` takes `&EvalCtx`; the `sql` crate's session
//! builds one per statement.
//! **Invariant**: `now_micros` is fixed for the whole statement, as MySQL's NOW() is.

use std::cell::{Cell, Ref, RefCell};
use std::ops::Deref;

use jiff::tz::TimeZone;

use crate::collation::Collation;
use crate::error::{Level, SqlError, SqlResult, Warning};
use crate::func::BlockMode;
use crate::sqltype::SqlType;
use crate::value::Value;

/// Most warnings kept per statement (`max_error_count`).
pub const MAX_WARNINGS: usize = 1024;
/// Warnings of how a temporal value is written, whose value is the one that is meant all the same.
const DEPRECATED_DELIMITER: [u16; 2] = [4095, 4096];

/// SQL mode bits that kernels, casts or the parser consult.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SqlMode(pub u64);

macro_rules! modes {
    ($($name:ident = $bit:literal, $text:literal;)*) => {
        impl SqlMode {
            $(#[doc = $text] pub const $name: SqlMode = SqlMode(1 << $bit);)*
            /// Every mode with its MySQL name, in MySQL's order.
            pub const ALL: &'static [(SqlMode, &'static str)] = &[$((SqlMode::$name, $text)),*];
        }
    };
}
modes! {
    REAL_AS_FLOAT = 0, "REAL_AS_FLOAT";
    PIPES_AS_CONCAT = 1, "PIPES_AS_CONCAT";
    ANSI_QUOTES = 2, "ANSI_QUOTES";
    IGNORE_SPACE = 3, "IGNORE_SPACE";
    ONLY_FULL_GROUP_BY = 5, "ONLY_FULL_GROUP_BY";
    NO_UNSIGNED_SUBTRACTION = 6, "NO_UNSIGNED_SUBTRACTION";
    NO_DIR_IN_CREATE = 7, "NO_DIR_IN_CREATE";
    ANSI = 18, "ANSI";
    NO_AUTO_VALUE_ON_ZERO = 19, "NO_AUTO_VALUE_ON_ZERO";
    NO_BACKSLASH_ESCAPES = 20, "NO_BACKSLASH_ESCAPES";
    STRICT_TRANS_TABLES = 21, "STRICT_TRANS_TABLES";
    STRICT_ALL_TABLES = 22, "STRICT_ALL_TABLES";
    NO_ZERO_IN_DATE = 23, "NO_ZERO_IN_DATE";
    NO_ZERO_DATE = 24, "NO_ZERO_DATE";
    ALLOW_INVALID_DATES = 25, "ALLOW_INVALID_DATES";
    ERROR_FOR_DIVISION_BY_ZERO = 26, "ERROR_FOR_DIVISION_BY_ZERO";
    TRADITIONAL = 27, "TRADITIONAL";
    HIGH_NOT_PRECEDENCE = 29, "HIGH_NOT_PRECEDENCE";
    NO_ENGINE_SUBSTITUTION = 30, "NO_ENGINE_SUBSTITUTION";
    PAD_CHAR_TO_FULL_LENGTH = 31, "PAD_CHAR_TO_FULL_LENGTH";
    TIME_TRUNCATE_FRACTIONAL = 32, "TIME_TRUNCATE_FRACTIONAL";
}

impl SqlMode {
    /// MySQL 8.4's default.
    pub const DEFAULT: SqlMode = SqlMode(
        Self::ONLY_FULL_GROUP_BY.0
            | Self::STRICT_TRANS_TABLES.0
            | Self::NO_ZERO_IN_DATE.0
            | Self::NO_ZERO_DATE.0
            | Self::ERROR_FOR_DIVISION_BY_ZERO.0
            | Self::NO_ENGINE_SUBSTITUTION.0,
    );

    /// Those of the bits that stand for a mode.
    pub fn known(bits: u64) -> SqlMode {
        let all = Self::ALL.iter().fold(0, |all, (mode, _)| all | mode.0);
        SqlMode(bits & all)
    }

    /// Of a stored text: names with commas between them. Other words are passed over.
    pub fn of_names(text: &str) -> SqlMode {
        let of = |word| Self::ALL.iter().find(|(_, name)| *name == word);
        let modes = text.split(',').filter_map(of);
        SqlMode(modes.fold(0, |bits, (mode, _)| bits | mode.0))
    }

    /// Are all bits of `m` set?
    pub fn has(self, m: SqlMode) -> bool {
        self.0 & m.0 == m.0
    }

    /// The same without the bits of `m`.
    pub fn without(self, m: SqlMode) -> SqlMode {
        SqlMode(self.0 & !m.0)
    }

    /// STRICT_TRANS_TABLES or STRICT_ALL_TABLES.
    pub fn is_strict(self) -> bool {
        self.0 & (Self::STRICT_TRANS_TABLES.0 | Self::STRICT_ALL_TABLES.0) != 0
    }
}

/// Work on values of this many bytes takes long enough to ask whether the statement may go on.
pub const MANY_BYTES: usize = 16 * 1024;

/// Counts the bytes that a loop over large values looks at, and asks whether the statement may go on each time they are
/// many: work that is not in proportion to its arguments' lengths is not asked for by them.
pub struct Work<'a> {
    session: &'a dyn SessionInfo,
    /// Bytes until it asks.
    left: usize,
}

impl<'a> Work<'a> {
    /// Nothing was looked at yet.
    pub fn new(session: &'a dyn SessionInfo) -> Self {
        Self {
            session,
            left: MANY_BYTES,
        }
    }

    /// So many bytes were looked at.
    ///
    /// # Errors
    /// The statement is killed or out of time.
    #[inline]
    pub fn done(&mut self, bytes: usize) -> SqlResult<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.ask(bytes),
        }
    }

    /// Calls `each` with one piece of a large value after the other, cut between characters, and asks before each of
    /// them.
    ///
    /// # Errors
    /// The statement is killed or out of time.
    pub fn pieces(&mut self, value: &[u8], mut each: impl FnMut(&[u8])) -> SqlResult<()> {
        let mut rest = value;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(piece_of(rest));
            self.done(piece.len())?;
            each(piece);
            rest = behind;
        }
        Ok(())
    }

    #[cold]
    fn ask(&mut self, bytes: usize) -> SqlResult<()> {
        let sum = MANY_BYTES - self.left + bytes;
        self.left = MANY_BYTES;
        self.session.go_on(sum)
    }
}

/// Bytes of the first piece of a value. Bytes that continue a character are not cut off; there are three at most.
fn piece_of(value: &[u8]) -> usize {
    if value.len() <= MANY_BYTES {
        return value.len();
    }
    let continues = |at: usize| value[at] & 0xC0 == 0x80;
    let mut ends = (MANY_BYTES - 3..=MANY_BYTES).rev();
    ends.find(|at| !continues(*at)).unwrap_or(MANY_BYTES)
}

/// Bounds on regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegexpLimits {
    /// regexp_time_limit: steps of one match; 0: any number.
    pub steps: u64,
    /// regexp_stack_limit: bytes of a compiled pattern.
    pub bytes: u64,
}

impl Default for RegexpLimits {
    fn default() -> Self {
        Self {
            steps: 32,
            bytes: 8_000_000,
        }
    }
}

/// Session facts that functions return (USER(), DATABASE(), LAST_INSERT_ID(), …). What is given here is what a session
/// says that has no facts, for tasks that never ask for them and for tests.
pub trait SessionInfo {
    /// The wall clock, microseconds since the epoch, UTC (SYSDATE(), SLEEP(), UUID()).
    fn wall_micros(&self) -> i64 {
        0
    }
    /// CONNECTION_ID().
    fn connection_id(&self) -> u64 {
        0
    }
    /// DATABASE().
    fn database(&self) -> Option<&str> {
        None
    }
    /// USER(): name@host as the client gave it.
    fn user(&self) -> String {
        String::new()
    }
    /// CURRENT_USER(): the matched account.
    fn current_user(&self) -> String {
        String::new()
    }
    /// CURRENT_ROLE().
    fn current_role(&self) -> String {
        "NONE".to_owned()
    }
    /// VERSION().
    fn version(&self) -> &str {
        ""
    }
    /// LAST_INSERT_ID().
    fn last_insert_id(&self) -> u64 {
        0
    }
    /// LAST_INSERT_ID(expr).
    fn set_last_insert_id(&self, _id: u64) {}
    /// ROW_COUNT().
    fn row_count(&self) -> i64 {
        -1
    }
    /// FOUND_ROWS().
    fn found_rows(&self) -> u64 {
        0
    }
    /// UUID() and RAND() without seed: 64 random bits.
    fn random(&self) -> u64 {
        0
    }
    /// RAND() without seed, in a session that has set `rand_seed1` and `rand_seed2`.
    fn seeded(&self) -> Option<f64> {
        None
    }
    /// Is the statement killed, or its time over? SLEEP asks.
    fn killed(&self) -> bool {
        false
    }
    /// Blocks the thread for `time`, or until the statement is killed. SLEEP waits by it.
    fn pause(&self, time: std::time::Duration) {
        std::thread::sleep(time);
    }
    /// Asked before work on `bytes` bytes of values, if they are many ([`MANY_BYTES`]): may the statement go on?
    ///
    /// # Errors
    /// The statement is killed or out of time.
    fn go_on(&self, _bytes: usize) -> SqlResult<()> {
        Ok(())
    }
    /// Asked before a value of `bytes` bytes is made, if they are many ([`MANY_BYTES`]): is there memory for it?
    ///
    /// # Errors
    /// 1041.
    fn may_make(&self, _bytes: usize) -> SqlResult<()> {
        Ok(())
    }
    /// May errors name this table and its columns, though no statement names it?
    fn may_hear_of(&self, _schema: &str, _table: &str) -> bool {
        true
    }
    /// Bounds on regular expressions.
    fn regexp_limits(&self) -> RegexpLimits {
        RegexpLimits::default()
    }
    /// GET_LOCK: acquired (Some(true)), timed out (Some(false)), there are no locks (None).
    ///
    /// # Errors
    /// The wait is killed, or would never end.
    fn get_lock(&self, _name: &str, _timeout_secs: f64) -> SqlResult<Option<bool>> {
        Ok(None)
    }
    /// RELEASE_LOCK: released (Some(true)), not the holder (Some(false)), no such lock (None).
    fn release_lock(&self, _name: &str) -> Option<bool> {
        None
    }
    /// IS_FREE_LOCK / IS_USED_LOCK: the holder's connection id.
    fn lock_holder(&self, _name: &str) -> Option<u64> {
        None
    }
    /// RELEASE_ALL_LOCKS(): how many were released.
    fn release_all_locks(&self) -> u64 {
        0
    }
    /// Is there a connection with this id?
    fn has_connection(&self, id: u64) -> bool {
        id == self.connection_id()
    }
    /// The account that a connection has logged in with, `name@host`. None: there is no such connection.
    fn connection_account(&self, _id: u64) -> Option<String> {
        None
    }
    /// Are the events of a consumer of `performance_schema` collected? None: there is no such consumer.
    fn collects(&self, _consumer: &str) -> Option<bool> {
        None
    }
    /// A statement without its literals.
    ///
    /// # Errors
    /// What the parser says of it.
    fn digest_text(&self, _statement: &[u8]) -> SqlResult<String> {
        Err(SqlError::not_supported("digests in this place"))
    }
    /// LOAD_FILE(): what is in a file of the server's machine, at most one byte more than `most`; `None` where it is
    /// not there or out of reach.
    ///
    /// # Errors
    /// 1085: it is no file that the server may read; 1041, 1317.
    fn load_file(&self, _name: &[u8], _most: u64) -> SqlResult<Option<Vec<u8>>> {
        Ok(None)
    }
    /// The value and type of a user variable that was set.
    fn user_variable(&self, _name: &str) -> Option<(Value, SqlType)> {
        None
    }
    /// ROLES_GRAPHML(): every account and the roles that it has been granted.
    fn roles_graphml(&self) -> String {
        String::new()
    }
    /// SOURCE_POS_WAIT(): how often what is applied advanced until it was there; -1: not in time; `None`: nothing is
    /// being applied.
    ///
    /// # Errors
    /// The statement was killed.
    fn wait_for_source(&self, _wait: &SourceWait) -> SqlResult<Option<i64>> {
        Ok(None)
    }
    /// Changes which sources channels may go over to. False: it is listed already, or not at all.
    ///
    /// # Errors
    /// Missing rights; those of the engine.
    fn change_sources(&self, _change: &SourceChange) -> SqlResult<bool> {
        Ok(false)
    }
    /// The client's attribute of the statement; None: there is none of the name, or it is NULL.
    fn query_attribute(&self, _name: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Who knows about sets of GTIDs, if somebody does.
    fn gtids(&self) -> Option<&dyn GtidFunctions> {
        None
    }
}

/// A source that a channel may go over to, when its own is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSource {
    /// Name of the channel.
    pub channel: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A change of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceChange {
    /// One more, with its weight: the heaviest comes first.
    Add(ListedSource, u8),
    /// One less.
    Delete(ListedSource),
    /// All go.
    Reset,
}

/// What SOURCE_POS_WAIT() waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceWait {
    /// The source's log file.
    pub file: String,
    /// The position in it; nothing waits for a negative one.
    pub position: i64,
    /// Seconds to wait; `None`: as long as it takes.
    pub at_most_secs: Option<f64>,
    /// Name of the replication channel; `None`: the only one.
    pub channel: Option<String>,
}

/// A session without facts.
#[derive(Debug, Clone, Copy)]
pub struct NoSession;

impl SessionInfo for NoSession {}

/// Functions of sets of GTIDs, whose text MySQL defines.
pub trait GtidFunctions {
    /// GTID_SUBSET(a, b): is everything of `a` in `b`?
    ///
    /// # Errors
    /// 1772: one of them is no set.
    fn is_subset(&self, a: &str, b: &str) -> SqlResult<bool>;
    /// GTID_SUBTRACT(a, b).
    ///
    /// # Errors
    /// 1772.
    fn subtract(&self, a: &str, b: &str) -> SqlResult<String>;
    /// WAIT_FOR_EXECUTED_GTID_SET: false if the time was not enough; `None`: as long as it takes.
    ///
    /// # Errors
    /// 1772; the statement was killed.
    fn wait_for_executed(&self, set: &str, at_most_secs: Option<f64>) -> SqlResult<bool>;
}

/// What evaluation depends on besides values and the session: plain data, which threads may copy and share.
#[derive(Debug, Clone)]
pub struct EvalSettings {
    /// SQL mode.
    pub sql_mode: SqlMode,
    /// Session time zone.
    pub time_zone: TimeZone,
    /// Statement time, microseconds since the epoch, UTC.
    pub now_micros: i64,
    /// div_precision_increment (0-30, default 4).
    pub div_precision_increment: u8,
    /// default_week_format (0-7, default 0).
    pub default_week_format: u8,
    /// sql_auto_is_null: `counter IS NULL` in WHERE finds the row of LAST_INSERT_ID().
    pub auto_is_null: bool,
    /// lc_time_names.
    pub time_names: crate::func::TimeLocale,
    /// max_allowed_packet, bytes.
    pub max_allowed_packet: u64,
    /// group_concat_max_len, bytes.
    pub group_concat_max_len: u64,
    /// Collation of literals (collation_connection).
    pub collation_connection: Collation,
    /// block_encryption_mode.
    pub block_encryption: BlockMode,
}

impl Default for EvalSettings {
    /// Those of a session by default, in UTC at the epoch.
    fn default() -> Self {
        Self {
            sql_mode: SqlMode::DEFAULT,
            time_zone: TimeZone::UTC,
            now_micros: 0,
            div_precision_increment: 4,
            default_week_format: 0,
            auto_is_null: false,
            time_names: crate::func::TimeLocale::default(),
            max_allowed_packet: 64 << 20,
            group_concat_max_len: 1024,
            collation_connection: Collation::UTF8MB4_0900_AI_CI,
            block_encryption: BlockMode::default(),
        }
    }
}

/// What a statement's evaluation has warned about, and whether bad values are errors.
#[derive(Debug, Default)]
pub struct Diagnostics {
    /// In INSERT/UPDATE under strict mode bad values are errors, elsewhere warnings.
    pub strict_write: Cell<bool>,
    /// What the statement has told LAST_INSERT_ID(…) last.
    pub told_insert_id: Cell<Option<u64>>,
    kept: RefCell<Vec<Warning>>,
    count: Cell<u64>,
}

/// A place in [`Diagnostics`] to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    kept: usize,
    count: u64,
}

/// Warnings taken out of [`Diagnostics`].
#[derive(Debug, Default)]
pub struct Raised {
    /// Those that were kept, the oldest first.
    pub kept: Vec<Warning>,
    /// How many were raised in all, at least those kept.
    pub count: u64,
}

impl Diagnostics {
    /// Adds a warning (kept up to [`MAX_WARNINGS`], counted always).
    pub fn add(&self, level: Level, code: u16, message: String) {
        self.count.set(self.count.get() + 1);
        let mut kept = self.kept.borrow_mut();
        if kept.len() < MAX_WARNINGS {
            kept.push(Warning {
                level,
                code,
                message,
                condition: None,
            });
        }
    }

    /// Adds what was raised elsewhere, as [`Self::add`] would one by one.
    pub fn add_raised(&self, raised: &Raised) {
        self.count.set(self.count.get() + raised.count);
        let mut kept = self.kept.borrow_mut();
        let room = MAX_WARNINGS.saturating_sub(kept.len());
        kept.extend(raised.kept.iter().take(room).cloned());
    }

    /// Warnings raised in all (may exceed the kept ones).
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The warnings kept.
    pub fn kept(&self) -> Ref<'_, [Warning]> {
        Ref::map(self.kept.borrow(), Vec::as_slice)
    }

    /// Takes everything out.
    pub fn take(&self) -> Raised {
        self.told_insert_id.take();
        Raised {
            kept: self.kept.take(),
            count: self.count.take(),
        }
    }

    /// This place, for [`Self::undo_to`].
    pub fn mark(&self) -> Mark {
        Mark {
            kept: self.kept.borrow().len(),
            count: self.count.get(),
        }
    }

    /// Was anything raised since?
    pub fn raised_since(&self, mark: Mark) -> bool {
        self.count.get() != mark.count
    }

    /// Was more than notes raised since, and more than how a value is written? What is not kept counts as more.
    pub fn doubted_since(&self, mark: Mark) -> bool {
        let kept = self.kept.borrow();
        let since = &kept[mark.kept..];
        let all_are_kept = self.count.get() - mark.count == since.len() as u64;
        let is_doubt =
            |w: &Warning| w.level != Level::Note && !DEPRECATED_DELIMITER.contains(&w.code);
        !all_are_kept || since.iter().any(is_doubt)
    }

    /// Lets `change` say otherwise what was raised since the mark.
    pub fn reword_since(&self, mark: Mark, mut change: impl FnMut(&mut Warning)) {
        let mut kept = self.kept.borrow_mut();
        kept.iter_mut().skip(mark.kept).for_each(&mut change);
    }

    /// Forgets what was raised since the mark.
    pub fn undo_to(&self, mark: Mark) {
        debug_assert!(mark.count <= self.count.get());
        self.kept.borrow_mut().truncate(mark.kept);
        self.count.set(mark.count);
    }
}

/// Context of one statement's evaluation. Its settings are read as its own fields.
pub struct EvalCtx<'a> {
    /// What it depends on.
    pub settings: EvalSettings,
    /// Session facts.
    pub session: &'a dyn SessionInfo,
    /// Diagnostics area being filled.
    pub diagnostics: Diagnostics,
}

impl Deref for EvalCtx<'_> {
    type Target = EvalSettings;

    fn deref(&self) -> &EvalSettings {
        &self.settings
    }
}

impl<'a> EvalCtx<'a> {
    /// A context with an empty diagnostics area.
    pub fn new(settings: EvalSettings, session: &'a dyn SessionInfo) -> Self {
        Self {
            settings,
            session,
            diagnostics: Diagnostics::default(),
        }
    }

    /// Adds a warning (kept up to [`MAX_WARNINGS`], counted always).
    pub fn warn(&self, level: Level, code: u16, message: impl Into<String>) {
        self.diagnostics.add(level, code, message.into());
    }

    /// A value problem: an error in a strict INSERT or UPDATE, a warning elsewhere.
    pub fn raise(
        &self,
        code: u16,
        state: &'static str,
        message: impl Into<String>,
    ) -> SqlResult<()> {
        if self.diagnostics.strict_write.get() {
            return Err(SqlError::new(code, state, message));
        }
        self.warn(Level::Warning, code, message);
        Ok(())
    }

    /// The same context with an empty diagnostics area of its own and no strict writes: for
    /// conversions that are only tried.
    pub fn quiet(&self) -> Self {
        Self::new(self.settings.clone(), self.session)
    }
}
