//! What an account is bound by besides its privileges: its passwords' life, its connections, its limits.
//!
//! Neighbours: `session/users` sets it, `record` stores it, the server's login and `usage` enforce it.
//! **Invariants**: `None` is DEFAULT everywhere, which means the system variable of the time it is asked; times are
//! seconds since 1970 UTC.

/// Seconds of a day.
pub const DAY: i64 = 86_400;

/// REQUIRE: what the connection must be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Transport {
    /// NONE.
    #[default]
    Any,
    /// SSL.
    Tls,
    /// X509: TLS with a client certificate that the server's CA has signed.
    Certificate,
    /// A client certificate as in X509 with these properties, or a cipher; those that are `Some` count.
    Specified {
        /// Subject, as `/C=SE/CN=name`.
        subject: Option<String>,
        /// Issuer, in the same form.
        issuer: Option<String>,
        /// Cipher suite.
        cipher: Option<String>,
    },
}

/// WITH MAX_…; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// MAX_QUERIES_PER_HOUR.
    pub queries: u32,
    /// MAX_UPDATES_PER_HOUR.
    pub updates: u32,
    /// MAX_CONNECTIONS_PER_HOUR.
    pub connections: u32,
    /// MAX_USER_CONNECTIONS, at one time.
    pub user_connections: u32,
}

/// A password that was, for PASSWORD HISTORY and REUSE INTERVAL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldPassword {
    /// When it was set.
    pub since: i64,
    /// What was stored of it.
    pub secret: Vec<u8>,
}

/// How long PASSWORD_LOCK_TIME locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTime {
    /// So many days; 0 switches the lock off.
    Days(u16),
    /// Until it is unlocked.
    Unbounded,
}

impl Default for LockTime {
    fn default() -> Self {
        Self::Days(0)
    }
}

/// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME; either at 0 switches both off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoginLock {
    /// Failures in a row that lock the account.
    pub attempts: u16,
    /// For how long.
    pub time: LockTime,
}

impl LoginLock {
    /// Are failed logins counted?
    pub fn is_on(self) -> bool {
        self.attempts > 0 && self.time != LockTime::Days(0)
    }
}

/// Everything of this kind that an account has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// REQUIRE.
    pub transport: Transport,
    /// WITH MAX_….
    pub limits: ResourceLimits,
    /// PASSWORD EXPIRE: the password must be changed before anything else.
    pub expired: bool,
    /// PASSWORD EXPIRE INTERVAL in days; 0 is NEVER.
    pub lifetime_days: Option<u16>,
    /// When the password was set; None: by a version that did not note it.
    pub changed: Option<i64>,
    /// PASSWORD HISTORY.
    pub history: Option<u16>,
    /// PASSWORD REUSE INTERVAL in days.
    pub reuse_days: Option<u16>,
    /// PASSWORD REQUIRE CURRENT.
    pub require_current: Option<bool>,
    /// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME.
    pub login_lock: LoginLock,
    /// ATTRIBUTE and COMMENT: a JSON object.
    pub attribute: Option<String>,
    /// Earlier passwords, the newest last.
    pub old_passwords: Vec<OldPassword>,
}

impl Policy {
    /// Must the password be changed? `default_days`: `default_password_lifetime`.
    pub fn is_expired(&self, now: i64, default_days: u64) -> bool {
        let days = self.lifetime_days.map_or(default_days, u64::from);
        let too_old = |changed| now.saturating_sub(changed) / DAY >= days as i64;
        self.expired || days > 0 && self.changed.is_some_and(too_old)
    }

    /// Earlier passwords that must not be used again, and are worth keeping: the last `history` ones and those of the
    /// last `reuse_days` days.
    pub fn passwords_in_force(
        &self,
        now: i64,
        history: u64,
        reuse_days: u64,
    ) -> impl Iterator<Item = &OldPassword> {
        let oldest = now.saturating_sub((reuse_days as i64).saturating_mul(DAY));
        let newest_first = self.old_passwords.iter().rev().zip(0..);
        newest_first
            .filter(move |(p, nth)| *nth < history || p.since > oldest)
            .map(|(p, _)| p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_expires_by_age_or_by_decree() {
        let mut p = Policy {
            changed: Some(1_000),
            ..Policy::default()
        };
        assert!(!p.is_expired(1_000 + 900 * DAY, 0));
        assert!(!p.is_expired(999 + 3 * DAY, 3));
        assert!(p.is_expired(1_000 + 3 * DAY, 3));
        p.lifetime_days = Some(0);
        assert!(!p.is_expired(1_000 + 3 * DAY, 3));
        p.lifetime_days = Some(1);
        assert!(p.is_expired(1_000 + DAY, 0));
        p.changed = None;
        assert!(!p.is_expired(1_000 + DAY, 0));
        p.expired = true;
        assert!(p.is_expired(0, 0));
    }

    #[test]
    fn old_passwords_count_by_number_and_by_age() {
        let old = |days: i64| OldPassword {
            since: days * DAY,
            secret: vec![days as u8],
        };
        let p = Policy {
            old_passwords: (1..=5).map(old).collect(),
            ..Policy::default()
        };
        let kept = |history, days| -> Vec<u8> {
            let all = p.passwords_in_force(6 * DAY, history, days);
            all.map(|p| p.secret[0]).collect()
        };
        assert_eq!(kept(0, 0), [0_u8; 0]);
        assert_eq!(kept(2, 0), [5, 4]);
        assert_eq!(kept(0, 3), [5, 4]);
        assert_eq!(kept(1, 100), [5, 4, 3, 2, 1]);
        assert_eq!(kept(9, 1), [5, 4, 3, 2, 1]);
    }
}
