//! Session and server statements: SET, SHOW, transactions, locks, replication, maintenance.
//!
//! Neighbours: the session layer executes them.
//! **Invariants**: words that select behaviour are enums; a LIKE pattern is bytes with escapes
//! resolved the way a pattern needs them (`\%` and `\_` kept).

use super::{
    Account, Auth, AuthSecret, Expr, Ident, ObjectName, Query, RoleList, Statement, SysVar,
    UserSpec, VarScope,
};

/// One item of SET.
#[derive(Debug, Clone, PartialEq)]
pub enum SetItem {
    /// `@name = value`.
    UserVar {
        /// Lower-cased.
        name: Box<str>,
        /// Value.
        value: Expr,
    },
    /// `[scope] name = value`; a bare word as value is a string literal.
    SysVar {
        /// Variable.
        var: SysVar,
        /// Value; `None` is DEFAULT.
        value: Option<Expr>,
    },
    /// SET NAMES.
    Names {
        /// Character set, lower-cased; `None` is DEFAULT.
        charset: Option<Box<str>>,
        /// COLLATE.
        collation: Option<Box<str>>,
    },
    /// SET CHARACTER SET; `None` is DEFAULT.
    Charset(Option<Box<str>>),
}

/// SET TRANSACTION.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTransaction {
    /// `None`: only the next transaction.
    pub scope: Option<VarScope>,
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// READ ONLY (true), READ WRITE.
    pub read_only: Option<bool>,
}

/// Isolation levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the SQL level of that name")]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    const ALL: [Self; 4] = [
        Self::ReadUncommitted,
        Self::ReadCommitted,
        Self::RepeatableRead,
        Self::Serializable,
    ];

    /// As a value of `transaction_isolation`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadUncommitted => "READ-UNCOMMITTED",
            Self::ReadCommitted => "READ-COMMITTED",
            Self::RepeatableRead => "REPEATABLE-READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }

    /// The level of a value of `transaction_isolation`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// SET PASSWORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetPassword {
    /// FOR; CURRENT_USER when not given.
    pub account: Account,
    /// `= 'password'`; `None` is TO RANDOM.
    pub password: Option<Vec<u8>>,
    /// REPLACE 'current'.
    pub replace: Option<Vec<u8>>,
    /// RETAIN CURRENT PASSWORD.
    pub retain_current: bool,
}

impl SetPassword {
    /// The same as ALTER USER says it.
    pub fn as_spec(&self) -> UserSpec {
        let secret = match &self.password {
            Some(password) => AuthSecret::Password(password.clone()),
            None => AuthSecret::Random,
        };
        UserSpec {
            auth: Some(Auth {
                plugin: None,
                secret,
            }),
            retain_current: self.retain_current,
            replace: self.replace.clone(),
            ..UserSpec::of(self.account.clone())
        }
    }
}

/// BACKUP SERVER TO 'directory' [BASE 'directory'].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupServer {
    /// The directory that is made.
    pub to: Vec<u8>,
    /// The backup whose extents are not copied again.
    pub base: Option<Vec<u8>>,
}

/// START TRANSACTION and BEGIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Begin {
    /// WITH CONSISTENT SNAPSHOT.
    pub snapshot: bool,
    /// READ ONLY (true), READ WRITE.
    pub read_only: Option<bool>,
}

/// AND CHAIN and RELEASE of COMMIT and ROLLBACK; `None` means completion_type decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// AND [NO] CHAIN.
    pub chain: Option<bool>,
    /// [NO] RELEASE.
    pub release: Option<bool>,
}

/// An XA transaction identifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Xid {
    /// Global part, at most [`Xid::MAX_PART`] bytes.
    pub gtrid: Vec<u8>,
    /// Branch part, likewise.
    pub bqual: Vec<u8>,
    /// Format, below 2^63.
    pub format: u64,
}

impl Xid {
    /// Longest part, bytes (X/Open CAE XA, MAXGTRIDSIZE and MAXBQUALSIZE).
    pub const MAX_PART: usize = 64;
}

/// What XA START begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaStart {
    /// A new branch.
    New,
    /// JOIN.
    Join,
    /// RESUME.
    Resume,
}

/// XA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Xa {
    /// START, BEGIN.
    Start {
        /// Identifier.
        xid: Xid,
        /// New, JOIN or RESUME.
        how: XaStart,
    },
    /// END.
    End {
        /// Identifier.
        xid: Xid,
        /// SUSPEND [FOR MIGRATE].
        suspend: bool,
    },
    /// PREPARE.
    Prepare(Xid),
    /// COMMIT.
    Commit {
        /// Identifier.
        xid: Xid,
        /// ONE PHASE.
        one_phase: bool,
    },
    /// ROLLBACK.
    Rollback(Xid),
    /// RECOVER.
    Recover {
        /// CONVERT XID.
        convert: bool,
    },
}

/// One entry of LOCK TABLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockTable {
    /// Table.
    pub name: ObjectName,
    /// Alias.
    pub alias: Option<Ident>,
    /// WRITE rather than READ.
    pub write: bool,
    /// READ LOCAL or LOW_PRIORITY WRITE (both without further effect).
    pub soft: bool,
}

/// LIKE or WHERE of SHOW.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowFilter {
    /// LIKE pattern.
    Like(Vec<u8>),
    /// WHERE over the columns of the result.
    Where(Box<Expr>),
}

/// SHOW.
#[derive(Debug, Clone, PartialEq)]
pub struct Show {
    /// What.
    pub what: ShowWhat,
    /// LIKE or WHERE.
    pub filter: Option<ShowFilter>,
}

/// What SHOW shows.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowWhat {
    /// DATABASES, SCHEMAS.
    Databases,
    /// [FULL] TABLES [FROM d].
    Tables {
        /// FULL.
        full: bool,
        /// FROM.
        schema: Option<Ident>,
    },
    /// OPEN TABLES [FROM d].
    OpenTables {
        /// FROM.
        schema: Option<Ident>,
    },
    /// TABLE STATUS [FROM d].
    TableStatus {
        /// FROM.
        schema: Option<Ident>,
    },
    /// [EXTENDED] [FULL] COLUMNS FROM t, and DESCRIBE t.
    Columns {
        /// FULL.
        full: bool,
        /// EXTENDED.
        extended: bool,
        /// Table.
        table: ObjectName,
    },
    /// [EXTENDED] INDEX, INDEXES, KEYS FROM t.
    Index {
        /// EXTENDED.
        extended: bool,
        /// Table.
        table: ObjectName,
    },
    /// CREATE TABLE.
    CreateTable(ObjectName),
    /// CREATE VIEW.
    CreateView(ObjectName),
    /// CREATE DATABASE.
    CreateDatabase {
        /// Schema.
        name: Ident,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT: the keyword, upper-cased.
    CreateRoutine(&'static str, ObjectName),
    /// CREATE USER.
    CreateUser(Account),
    /// [GLOBAL|SESSION] VARIABLES.
    Variables(Option<VarScope>),
    /// [GLOBAL|SESSION] STATUS.
    Status(Option<VarScope>),
    /// WARNINGS [LIMIT].
    Warnings {
        /// Rows to skip and to show.
        limit: Option<(u64, u64)>,
    },
    /// ERRORS [LIMIT].
    Errors {
        /// Rows to skip and to show.
        limit: Option<(u64, u64)>,
    },
    /// COUNT(*) WARNINGS.
    CountWarnings,
    /// COUNT(*) ERRORS.
    CountErrors,
    /// [FULL] PROCESSLIST.
    Processlist {
        /// FULL.
        full: bool,
    },
    /// [STORAGE] ENGINES.
    Engines,
    /// ENGINE x STATUS | MUTEX | LOGS.
    Engine {
        /// Engine; `ALL` is possible.
        name: Box<str>,
        /// `STATUS`, `MUTEX` or `LOGS`.
        what: &'static str,
    },
    /// PLUGINS.
    Plugins,
    /// PRIVILEGES.
    Privileges,
    /// GRANTS [FOR account [USING roles]].
    Grants {
        /// FOR; `None` is the current user.
        account: Option<Account>,
        /// USING.
        roles: Vec<Account>,
    },
    /// COLLATION.
    Collation,
    /// CHARACTER SET, CHARSET.
    CharacterSet,
    /// [FULL] TRIGGERS [FROM d].
    Triggers {
        /// FROM.
        schema: Option<Ident>,
    },
    /// EVENTS [FROM d].
    Events {
        /// FROM.
        schema: Option<Ident>,
    },
    /// PROCEDURE STATUS, FUNCTION STATUS, and MariaDB's PACKAGE [BODY] STATUS: the words before
    /// STATUS, upper-cased.
    RoutineStatus(&'static str),
    /// PROFILES.
    Profiles,
    /// PROFILE [types] [FOR QUERY n] [LIMIT].
    Profile {
        /// The number.
        query: Option<u64>,
        /// The types, in upper case.
        types: Vec<&'static str>,
    },
    /// MASTER STATUS, BINARY LOG STATUS.
    BinlogStatus,
    /// BINARY LOGS, MASTER LOGS.
    BinaryLogs,
    /// BINLOG EVENTS, RELAYLOG EVENTS.
    BinlogEvents {
        /// RELAYLOG.
        relay: bool,
        /// IN file.
        file: Option<Vec<u8>>,
        /// FROM position.
        position: Option<u64>,
        /// LIMIT: rows to skip and to show.
        limit: Option<(u64, u64)>,
        /// FOR CHANNEL, with RELAYLOG.
        channel: Option<Vec<u8>>,
    },
    /// REPLICA STATUS, SLAVE STATUS [FOR CHANNEL c], ALL SLAVES STATUS.
    ReplicaStatus {
        /// Written with SLAVE: the old column names.
        old_names: bool,
        /// ALL SLAVES (MariaDB).
        all: bool,
        /// FOR CHANNEL.
        channel: Option<Vec<u8>>,
    },
    /// REPLICAS, SLAVE HOSTS.
    Replicas {
        /// SHOW SLAVE HOSTS.
        old_names: bool,
    },
}

impl ShowWhat {
    /// May LIKE or WHERE follow?
    pub fn is_filterable(&self) -> bool {
        matches!(
            self,
            Self::Databases
                | Self::Tables { .. }
                | Self::OpenTables { .. }
                | Self::TableStatus { .. }
                | Self::Columns { .. }
                | Self::Index { .. }
                | Self::Variables(_)
                | Self::Status(_)
                | Self::Collation
                | Self::CharacterSet
                | Self::Triggers { .. }
                | Self::Events { .. }
                | Self::RoutineStatus(_)
        )
    }
}

/// A member of `FLUSH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlushWhat {
    /// TABLES [names].
    Tables {
        /// Names; empty is all.
        names: Vec<ObjectName>,
        /// WITH READ LOCK.
        read_lock: bool,
        /// FOR EXPORT.
        for_export: bool,
    },
    /// PRIVILEGES.
    Privileges,
    /// [kind] LOGS: `BINARY`, `ENGINE`, `ERROR`, `GENERAL`, `SLOW`, or empty for all.
    Logs(&'static str),
    /// RELAY LOGS [FOR CHANNEL].
    RelayLogs(Option<Vec<u8>>),
    /// STATUS.
    Status,
    /// HOSTS.
    Hosts,
    /// USER_RESOURCES.
    UserResources,
    /// OPTIMIZER_COSTS.
    OptimizerCosts,
}

/// ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR TABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintain {
    /// Which.
    pub kind: MaintainKind,
    /// NO_WRITE_TO_BINLOG, LOCAL.
    pub local: bool,
    /// Tables.
    pub tables: Vec<ObjectName>,
    /// ALTER TABLE … ANALYZE PARTITION and its kin: of the only table.
    pub partitions: Option<super::PartitionNames>,
    /// QUICK, EXTENDED, FOR UPGRADE, …, upper-cased.
    pub options: Vec<Box<str>>,
    /// NOWAIT, WAIT n.
    pub wait: super::LockWait,
    /// ANALYZE … HISTOGRAM.
    pub histogram: Option<Histogram>,
}

/// Kinds of table maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the statement of that name")]
pub enum MaintainKind {
    Analyze,
    Check,
    Checksum,
    Optimize,
    Repair,
}

/// UPDATE HISTOGRAM ON, DROP HISTOGRAM ON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// DROP rather than UPDATE.
    pub drop: bool,
    /// Columns.
    pub columns: Vec<Ident>,
    /// WITH n BUCKETS.
    pub buckets: Option<u64>,
    /// AUTO UPDATE.
    pub auto_update: bool,
}

/// What EXPLAIN explains.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainWhat {
    /// A statement.
    Statement(Box<super::Statement>),
    /// FOR CONNECTION n.
    Connection(u64),
}

/// EXPLAIN.
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    /// ANALYZE.
    pub analyze: bool,
    /// FORMAT.
    pub format: ExplainFormat,
    /// INTO @variable.
    pub into: Option<Box<str>>,
    /// FOR SCHEMA: the default database of the statement.
    pub schema: Option<Ident>,
    /// What.
    pub what: ExplainWhat,
}

impl Explain {
    /// The query that EXPLAIN ANALYZE runs.
    pub fn analyzed_query(&self) -> Option<&Query> {
        match &self.what {
            ExplainWhat::Statement(statement) if self.analyze => match &**statement {
                Statement::Query(query) => Some(query),
                _ => None,
            },
            _ => None,
        }
    }
}

/// EXPLAIN FORMAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainFormat {
    /// As explain_format says.
    Default,
    /// TRADITIONAL.
    Traditional,
    /// JSON.
    Json,
    /// TREE.
    Tree,
}

/// KILL.
#[derive(Debug, Clone, PartialEq)]
pub struct Kill {
    /// QUERY rather than CONNECTION.
    pub query: bool,
    /// Connection id.
    pub id: Expr,
}

/// What PREPARE prepares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareSource {
    /// A string literal.
    Text(Vec<u8>),
    /// A user variable, lower-cased.
    Var(Box<str>),
}

/// Replication statements.
#[derive(Debug, Clone, PartialEq)]
pub enum Replication {
    /// CHANGE REPLICATION SOURCE TO, CHANGE MASTER TO: option upper-cased (as written) and value
    /// (`None` for NULL); lists keep their text.
    ChangeSource {
        /// Options.
        options: Vec<(Box<str>, Option<Vec<u8>>)>,
        /// FOR CHANNEL.
        channel: Option<Vec<u8>>,
    },
    /// CHANGE REPLICATION FILTER.
    ChangeFilter {
        /// Filters: name upper-cased, members' text.
        filters: Vec<(Box<str>, Vec<Box<str>>)>,
        /// FOR CHANNEL.
        channel: Option<Vec<u8>>,
    },
    /// START REPLICA.
    Start(ReplicaThreads),
    /// STOP REPLICA.
    Stop(ReplicaThreads),
    /// RESET REPLICA [ALL].
    ResetReplica {
        /// ALL.
        all: bool,
        /// FOR CHANNEL.
        channel: Option<Vec<u8>>,
    },
    /// RESET MASTER, RESET BINARY LOGS AND GTIDS.
    ResetBinlog {
        /// TO n.
        to: Option<u64>,
    },
    /// RESET of a list of the two above.
    ResetSeveral(Vec<Replication>),
    /// PURGE BINARY LOGS TO file.
    PurgeTo(Vec<u8>),
    /// PURGE BINARY LOGS BEFORE time.
    PurgeBefore(Box<Expr>),
    /// BINLOG 'base64'.
    Binlog(Vec<u8>),
    /// START and STOP GROUP_REPLICATION.
    Group {
        /// START.
        start: bool,
    },
}

impl Replication {
    /// Does it commit what is open, so that it is refused inside functions and triggers?
    pub fn commits(&self) -> bool {
        !matches!(
            self,
            Self::PurgeTo(_) | Self::PurgeBefore(_) | Self::Binlog(_)
        )
    }
}

/// Whose certificates RELOAD TLS reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsChannel {
    /// `mysql_main`.
    Main,
    /// `mysql_admin`.
    Admin,
    /// Any other name.
    Unknown,
}

/// What ALTER INSTANCE does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterInstance {
    /// RELOAD TLS.
    ReloadTls {
        /// FOR CHANNEL.
        channel: TlsChannel,
        /// NO ROLLBACK ON ERROR: without TLS rather than with the old certificate.
        keeps_error: bool,
    },
    /// RELOAD KEYRING.
    ReloadKeyring,
    /// ROTATE INNODB or BINLOG MASTER KEY.
    RotateKey {
        /// BINLOG.
        is_binlog: bool,
    },
    /// ENABLE or DISABLE INNODB REDO_LOG.
    RedoLog(bool),
}

/// Threads and end point of START and STOP REPLICA.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplicaThreads {
    /// IO_THREAD.
    pub io: bool,
    /// SQL_THREAD.
    pub sql: bool,
    /// UNTIL: option upper-cased and value.
    pub until: Vec<(Box<str>, Vec<u8>)>,
    /// USER, PASSWORD, DEFAULT_AUTH, PLUGIN_DIR: upper-cased and value.
    pub connection: Vec<(Box<str>, Vec<u8>)>,
    /// FOR CHANNEL.
    pub channel: Option<Vec<u8>>,
}

/// SET ROLE and SET DEFAULT ROLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRole {
    /// Roles.
    pub roles: RoleList,
    /// SET DEFAULT ROLE … TO: accounts; `None` for SET ROLE.
    pub default_for: Option<Vec<Account>>,
}
