//! Accounts, roles and privileges.
//!
//! Neighbours: the session layer executes them.
//! **Invariants**: an account without a host has host `%`; CURRENT_USER is its own variant, so no
//! one mistakes it for a name.

use super::{Ident, ObjectName};

/// `'user'@'host'` or CURRENT_USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// By name.
    Named {
        /// User; may be empty (anonymous).
        user: Box<str>,
        /// Host, lower-cased.
        host: Box<str>,
    },
    /// CURRENT_USER[()], USER().
    CurrentUser,
}

/// How an account proves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// IDENTIFIED WITH plugin.
    pub plugin: Option<Box<str>>,
    /// The secret.
    pub secret: AuthSecret,
}

/// The secret part of IDENTIFIED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthSecret {
    /// No secret given (only a plugin).
    None,
    /// BY 'password'.
    Password(Vec<u8>),
    /// BY RANDOM PASSWORD.
    Random,
    /// AS 'stored form'.
    Stored(Vec<u8>),
}

/// One account of CREATE USER or ALTER USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserSpec {
    /// Account.
    pub account: Account,
    /// IDENTIFIED.
    pub auth: Option<Auth>,
    /// DISCARD OLD PASSWORD (ALTER).
    pub discard_old: bool,
    /// RETAIN CURRENT PASSWORD (ALTER).
    pub retain_current: bool,
    /// REPLACE 'old password' (ALTER).
    pub replace: Option<Vec<u8>>,
}

impl UserSpec {
    /// An account of which nothing is said.
    pub fn of(account: Account) -> Self {
        Self {
            account,
            auth: None,
            discard_old: false,
            retain_current: false,
            replace: None,
        }
    }
}

/// CREATE USER and ALTER USER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserStatement {
    /// IF NOT EXISTS or IF EXISTS.
    pub if_exists: bool,
    /// OR REPLACE (MariaDB).
    pub or_replace: bool,
    /// Accounts.
    pub users: Vec<UserSpec>,
    /// DEFAULT ROLE.
    pub default_roles: Option<RoleList>,
    /// REQUIRE.
    pub require: Option<Require>,
    /// WITH MAX_…: name upper-cased and number.
    pub limits: Vec<(Box<str>, u64)>,
    /// ACCOUNT LOCK (true) or UNLOCK.
    pub lock: Option<bool>,
    /// PASSWORD EXPIRE, HISTORY, REUSE, …
    pub password_options: Vec<PasswordOption>,
    /// COMMENT or ATTRIBUTE.
    pub attribute: Option<UserAttribute>,
}

impl UserStatement {
    /// A statement without options.
    pub fn of(if_exists: bool, users: Vec<UserSpec>) -> Self {
        Self {
            if_exists,
            or_replace: false,
            users,
            default_roles: None,
            require: None,
            limits: Vec::new(),
            lock: None,
            password_options: Vec::new(),
            attribute: None,
        }
    }

    /// Does it ask for anything but passwords?
    pub fn has_options(&self) -> bool {
        self.default_roles.is_some()
            || self.require.is_some()
            || !self.limits.is_empty()
            || self.lock.is_some()
            || !self.password_options.is_empty()
            || self.attribute.is_some()
    }
}

/// What is noted of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAttribute {
    /// COMMENT 'text'.
    Comment(Vec<u8>),
    /// ATTRIBUTE 'JSON object'.
    Json(Vec<u8>),
}

/// REQUIRE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Require {
    /// NONE.
    None,
    /// SSL.
    Ssl,
    /// X509.
    X509,
    /// SUBJECT, ISSUER, CIPHER: keyword upper-cased and value.
    Fields(Vec<(Box<str>, Vec<u8>)>),
}

/// Password policy of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordOption {
    /// EXPIRE now.
    Expire,
    /// EXPIRE DEFAULT.
    ExpireDefault,
    /// EXPIRE NEVER.
    ExpireNever,
    /// EXPIRE INTERVAL n DAY.
    ExpireDays(u64),
    /// HISTORY (None is DEFAULT).
    History(Option<u64>),
    /// REUSE INTERVAL n DAY (None is DEFAULT).
    ReuseDays(Option<u64>),
    /// REQUIRE CURRENT [DEFAULT | OPTIONAL]: `Some(false)` is OPTIONAL, `None` DEFAULT.
    RequireCurrent(Option<bool>),
    /// FAILED_LOGIN_ATTEMPTS.
    FailedAttempts(u64),
    /// PASSWORD_LOCK_TIME in days; `None` is UNBOUNDED.
    LockDays(Option<u64>),
}

/// Which roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleList {
    /// NONE.
    None,
    /// DEFAULT.
    Default,
    /// ALL [EXCEPT …].
    All(Vec<Account>),
    /// Named.
    Named(Vec<Account>),
}

/// What REVOKE passes over with a warning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lenience {
    /// IF EXISTS: what is not granted, and roles that there are not.
    pub missing: bool,
    /// IGNORE UNKNOWN USER: accounts that there are not.
    pub unknown_users: bool,
}

/// What a privilege is granted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantTarget {
    /// `*.*`
    Global,
    /// `*`: the current database.
    CurrentSchema,
    /// `d.*`
    Schema(Ident),
    /// `[d.]t`, TABLE.
    Table(ObjectName),
    /// PROCEDURE or FUNCTION (the keyword, upper-cased).
    Routine(&'static str, ObjectName),
}

/// One privilege with its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privilege {
    /// Upper-cased words with single spaces: `SELECT`, `REPLICATION SLAVE`, `ALL`, or a dynamic one.
    pub name: Box<str>,
    /// Column list.
    pub columns: Vec<Ident>,
}

/// `AS user [WITH ROLE …]` of GRANT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedBy {
    /// The account.
    pub user: Account,
    /// The roles that are active for it; `None` are those that are at its login.
    pub roles: Option<RoleList>,
}

/// GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Privileges.
    Privileges {
        /// Which.
        privileges: Vec<Privilege>,
        /// On what.
        target: GrantTarget,
        /// To or from whom.
        users: Vec<Account>,
        /// WITH GRANT OPTION.
        grant_option: bool,
        /// AS: whose restrictions the grant has.
        by: Option<GrantedBy>,
    },
    /// Roles.
    Roles {
        /// Which.
        roles: Vec<Account>,
        /// To or from whom.
        users: Vec<Account>,
        /// WITH ADMIN OPTION.
        admin_option: bool,
    },
    /// PROXY ON.
    Proxy {
        /// Account to act as.
        on: Account,
        /// To or from whom.
        users: Vec<Account>,
        /// WITH GRANT OPTION.
        grant_option: bool,
    },
    /// REVOKE ALL PRIVILEGES, GRANT OPTION FROM.
    All {
        /// From whom.
        users: Vec<Account>,
    },
}
