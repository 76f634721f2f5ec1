//! Names of privileges, and sets of them.
//!
//! Neighbours: grants hold sets, `access` adds up what a session has. **Invariant**: bits are places in
//! [`PRIVILEGES`]. The accounts file has names, so dynamic privileges may change their places; static ones keep their
//! order, by which the old files have their bits.

/// A privilege set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Privileges(pub u128);

/// Privileges: the static ones in MySQL's order, which error texts and SHOW GRANTS have, then dynamic ones.
pub const PRIVILEGES: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "RELOAD",
    "SHUTDOWN",
    "PROCESS",
    "FILE",
    "GRANT OPTION",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "SHOW DATABASES",
    "SUPER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "REPLICATION SLAVE",
    "REPLICATION CLIENT",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "CREATE USER",
    "EVENT",
    "TRIGGER",
    "CREATE TABLESPACE",
    "CREATE ROLE",
    "DROP ROLE",
    "ALLOW_NONEXISTENT_DEFINER",
    "APPLICATION_PASSWORD_ADMIN",
    "AUDIT_ABORT_EXEMPT",
    "AUDIT_ADMIN",
    "AUTHENTICATION_POLICY_ADMIN",
    "BACKUP_ADMIN",
    "BINLOG_ADMIN",
    "BINLOG_ENCRYPTION_ADMIN",
    "CLONE_ADMIN",
    "CONNECTION_ADMIN",
    "ENCRYPTION_KEY_ADMIN",
    "FIREWALL_EXEMPT",
    "FLUSH_OPTIMIZER_COSTS",
    "FLUSH_PRIVILEGES",
    "FLUSH_STATUS",
    "FLUSH_TABLES",
    "FLUSH_USER_RESOURCES",
    "GROUP_REPLICATION_ADMIN",
    "GROUP_REPLICATION_STREAM",
    "INNODB_REDO_LOG_ARCHIVE",
    "INNODB_REDO_LOG_ENABLE",
    "OPTIMIZE_LOCAL_TABLE",
    "PASSWORDLESS_USER_ADMIN",
    "PERSIST_RO_VARIABLES_ADMIN",
    "REPLICATION_APPLIER",
    "REPLICATION_SLAVE_ADMIN",
    "RESOURCE_GROUP_ADMIN",
    "RESOURCE_GROUP_USER",
    "ROLE_ADMIN",
    "SENSITIVE_VARIABLES_OBSERVER",
    "SERVICE_CONNECTION_ADMIN",
    "SESSION_VARIABLES_ADMIN",
    "SET_ANY_DEFINER",
    "SHOW_ROUTINE",
    "SYSTEM_USER",
    "SYSTEM_VARIABLES_ADMIN",
    "TABLE_ENCRYPTION_ADMIN",
    "TELEMETRY_LOG_ADMIN",
    "TRANSACTION_GTID_TAG",
    "XA_RECOVER_ADMIN",
];

/// Number of static privileges; those behind them in [`PRIVILEGES`] are dynamic: for the whole server only.
const STATIC_PRIVILEGES: u32 = 31;

/// What a grant on a database may have.
const ON_SCHEMA: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "CREATE TEMPORARY TABLES",
    "LOCK TABLES",
    "EXECUTE",
    "CREATE VIEW",
    "SHOW VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "EVENT",
    "TRIGGER",
];

/// What a grant on a table may have.
const ON_TABLE: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "REFERENCES",
    "INDEX",
    "ALTER",
    "CREATE VIEW",
    "SHOW VIEW",
    "TRIGGER",
];

/// Are the texts the same?
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl Privileges {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// The right to grant what one has.
    pub const GRANT: Self = Self::of(&["GRANT OPTION"]);

    /// Everything but GRANT OPTION.
    pub const ALL: Self = Self((1 << PRIVILEGES.len()) - 1).without(Self::GRANT);

    /// Everything that is not dynamic.
    pub const STATIC: Self = Self((1 << STATIC_PRIVILEGES) - 1).without(Self::GRANT);

    /// What MySQL names one by one instead of SUPER.
    pub const DYNAMIC: Self = Self::ALL.without(Self::STATIC);

    /// Everything that can be granted on a database.
    pub const ON_SCHEMA: Self = Self::of(ON_SCHEMA);

    /// Everything that can be granted on a table.
    pub const ON_TABLE: Self = Self::of(ON_TABLE);

    /// Everything that can be granted on a routine.
    pub const ON_ROUTINE: Self = Self::of(&["EXECUTE", "ALTER ROUTINE"]);

    /// Everything that can be granted on columns.
    pub const ON_COLUMN: Self = Self::of(&["SELECT", "INSERT", "UPDATE", "REFERENCES"]);

    /// The set of these.
    ///
    /// # Panics
    /// For a name that is none: a mistake of the caller, which a constant shows when it is compiled.
    pub const fn of(names: &[&str]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < names.len() {
            let mut at = 0;
            while !same(PRIVILEGES[at], names[i]) {
                at += 1;
            }
            bits |= 1 << at;
            i += 1;
        }
        Self(bits)
    }

    /// The set with one privilege; None for unknown names.
    pub fn named(name: &str) -> Option<Self> {
        PRIVILEGES
            .iter()
            .position(|p| *p == name)
            .map(|i| Self(1 << i))
    }

    /// The members that are in `other`, too.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The members of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Are all of `other` in this set?
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Is any of `other` in this set?
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Has it no members?
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Names of the members.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        PRIVILEGES
            .iter()
            .enumerate()
            .filter(move |(i, _)| self.0 >> i & 1 == 1)
            .map(|(_, n)| *n)
    }

    /// Names of the members as error texts have them.
    pub fn listed(self) -> String {
        let short = |name| match name {
            "GRANT OPTION" => "GRANT",
            name => name,
        };
        self.names().map(short).collect::<Vec<_>>().join(", ")
    }
}
