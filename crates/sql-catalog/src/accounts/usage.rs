//! What accounts use: statements and connections within the hour, connections now, failed logins in a row.
//!
//! Neighbours: the server's login counts connections and failures; `session` counts statements; FLUSH USER_RESOURCES
//! resets. Nothing of it is stored: a restart begins anew, as in MySQL.
//! **Invariants**: counted by account, not by what the client calls itself; an account without limits costs nothing
//! beyond its login; an entry goes when nothing of it counts any more.

use std::collections::HashMap;

use esker_types::SqlError;
use parking_lot::Mutex;

use super::Account;
use super::policy::{DAY, LockTime, LoginLock, ResourceLimits};

/// Seconds after which the hourly counts begin anew.
const HOUR: i64 = 3_600;

/// User and host of an account.
type Name = (String, String);

#[derive(Debug, Default)]
struct Usage {
    limits: ResourceLimits,
    /// Begin of the hour.
    since: i64,
    queries: u32,
    updates: u32,
    connections: u32,
    /// Sessions now.
    open: u32,
    /// Failed logins in a row.
    failures: u16,
    /// When the account was locked by them.
    locked: Option<i64>,
}

impl Usage {
    fn reset_hour(&mut self, now: i64) {
        (self.queries, self.updates, self.connections) = (0, 0, 0);
        self.since = now;
    }

    fn begin_hour(&mut self, now: i64) {
        if !(self.since..self.since.saturating_add(HOUR)).contains(&now) {
            self.reset_hour(now);
        }
    }

    fn is_idle(&self) -> bool {
        self.open == 0
            && self.failures == 0
            && self.locked.is_none()
            && self.limits == ResourceLimits::default()
    }
}

/// What all accounts use.
#[derive(Debug, Default)]
pub struct Usages {
    by_account: Mutex<HashMap<Name, Usage>>,
}

fn name_of(account: &Account) -> Name {
    (account.user.clone(), account.host.clone())
}

fn exceeded(user: &str, what: &str, limit: u32) -> SqlError {
    let text = format!("User '{user}' has exceeded the '{what}' resource (current value: {limit})");
    SqlError::new(1226, "42000", text)
}

impl Usages {
    /// Counts a session of the account that has just logged in. None: there is nothing to count.
    /// `most_sessions`: `max_user_connections`, 0 is no limit.
    ///
    /// # Errors
    /// 1226, 1203.
    pub fn open(&self, account: &Account, most_sessions: u64, now: i64) -> Result<bool, SqlError> {
        let limits = account.policy.limits;
        if limits == ResourceLimits::default() && most_sessions == 0 {
            return Ok(false);
        }
        let mut all = self.by_account.lock();
        let usage = all.entry(name_of(account)).or_default();
        usage.limits = limits;
        usage.begin_hour(now);
        let most = limits.user_connections;
        if most > 0 && usage.open >= most {
            return Err(exceeded(&account.user, "max_user_connections", most));
        }
        if most == 0 && most_sessions > 0 && u64::from(usage.open) >= most_sessions {
            let text = format!(
                "User {} already has more than 'max_user_connections' active connections",
                account.user
            );
            return Err(SqlError::new(1203, "42000", text));
        }
        if limits.connections > 0 && usage.connections >= limits.connections {
            let most = limits.connections;
            return Err(exceeded(&account.user, "max_connections_per_hour", most));
        }
        usage.connections = usage.connections.saturating_add(1);
        usage.open += 1;
        Ok(true)
    }

    /// A session that [`Usages::open`] counted is over.
    pub fn close(&self, user: &str, host: &str) {
        let name = (user.to_owned(), host.to_owned());
        let mut all = self.by_account.lock();
        if let Some(usage) = all.get_mut(&name) {
            usage.open = usage.open.saturating_sub(1);
            if usage.is_idle() {
                all.remove(&name);
            }
        }
    }

    /// Counts a statement of a session that [`Usages::open`] counted.
    ///
    /// # Errors
    /// 1226.
    pub fn statement(
        &self,
        user: &str,
        host: &str,
        is_update: bool,
        now: i64,
    ) -> Result<(), SqlError> {
        let mut all = self.by_account.lock();
        let Some(usage) = all.get_mut(&(user.to_owned(), host.to_owned())) else {
            return Ok(());
        };
        usage.begin_hour(now);
        let limits = usage.limits;
        if limits.queries > 0 && usage.queries >= limits.queries {
            return Err(exceeded(user, "max_questions", limits.queries));
        }
        usage.queries = usage.queries.saturating_add(1);
        if is_update {
            if limits.updates > 0 && usage.updates >= limits.updates {
                return Err(exceeded(user, "max_updates", limits.updates));
            }
            usage.updates = usage.updates.saturating_add(1);
        }
        Ok(())
    }

    /// FLUSH USER_RESOURCES.
    pub fn flush(&self, now: i64) {
        let mut all = self.by_account.lock();
        all.values_mut().for_each(|u| u.reset_hour(now));
    }

    /// The accounts have changed: limits are those of the list, and an account that was dropped is forgotten.
    pub(super) fn adopt(&self, accounts: &[Account]) {
        let mut all = self.by_account.lock();
        if all.is_empty() {
            return;
        }
        let known: HashMap<_, _> = accounts
            .iter()
            .map(|a| ((a.user.as_str(), a.host.as_str()), a))
            .collect();
        all.retain(|(user, host), usage| {
            let account = known.get(&(user.as_str(), host.as_str()));
            let policy = account.map(|a| &a.policy);
            usage.limits = policy.map_or_else(ResourceLimits::default, |p| p.limits);
            if !policy.is_some_and(|p| p.login_lock.is_on()) {
                (usage.failures, usage.locked) = (0, None);
            }
            !usage.is_idle()
        });
    }

    /// Failed logins in a row are forgotten: of one account, or of all.
    pub fn unlock(&self, account: Option<&Account>) {
        let mut all = self.by_account.lock();
        let forgive = |usage: &mut Usage| (usage.failures, usage.locked) = (0, None);
        match account {
            Some(account) => all.get_mut(&name_of(account)).into_iter().for_each(forgive),
            None => all.values_mut().for_each(forgive),
        }
    }

    /// A login of the account was tried with a right or a wrong password.
    ///
    /// # Errors
    /// 3955: too many wrong ones have locked it; the right one does not help then.
    pub fn attempt(
        &self,
        account: &Account,
        client: &str,
        right: bool,
        now: i64,
    ) -> Result<(), SqlError> {
        let lock = account.policy.login_lock;
        if !lock.is_on() {
            return Ok(());
        }
        let mut all = self.by_account.lock();
        let name = name_of(account);
        let usage = all.entry(name.clone()).or_default();
        if usage
            .locked
            .is_some_and(|since| remaining(lock, since, now) == Some(0))
        {
            (usage.failures, usage.locked) = (0, None);
        }
        if usage.locked.is_none() && !right {
            usage.failures = usage.failures.saturating_add(1);
            if usage.failures >= lock.attempts {
                usage.locked = Some(now);
            }
        }
        let locked = usage.locked;
        if let Some(since) = locked {
            return Err(blocked(client, lock, remaining(lock, since, now)));
        }
        if right {
            usage.failures = 0;
            if usage.is_idle() {
                all.remove(&name);
            }
        }
        Ok(())
    }
}

/// Days that a lock lasts on; None: without end.
fn remaining(lock: LoginLock, since: i64, now: i64) -> Option<i64> {
    match lock.time {
        LockTime::Unbounded => None,
        LockTime::Days(days) => {
            let left = since + i64::from(days) * DAY - now;
            Some((left + DAY - 1).div_euclid(DAY).max(0))
        }
    }
}

fn blocked(client: &str, lock: LoginLock, remaining: Option<i64>) -> SqlError {
    let days = match lock.time {
        LockTime::Days(days) => days.to_string(),
        LockTime::Unbounded => "unlimited".to_owned(),
    };
    let left = remaining.map_or_else(|| "unlimited".to_owned(), |d| d.to_string());
    let text = format!(
        "Access denied for user {client}. Account is blocked for {days} day(s) ({left} day(s) remaining) due to {} \
         consecutive failed logins.",
        lock.attempts
    );
    SqlError::new(3955, "HY000", text)
}

#[cfg(test)]
mod tests {
    use super::super::policy::Policy;
    use super::*;

    fn account(policy: Policy) -> Account {
        Account {
            policy,
            ..Account::named("u", "%")
        }
    }

    fn limited(queries: u32, updates: u32, connections: u32, user_connections: u32) -> Account {
        let limits = ResourceLimits {
            queries,
            updates,
            connections,
            user_connections,
        };
        account(Policy {
            limits,
            ..Policy::default()
        })
    }

    #[test]
    fn statements_are_counted_by_the_hour() {
        let usages = Usages::default();
        assert!(usages.open(&limited(3, 1, 0, 0), 0, 0).unwrap());
        let run = |update, now| usages.statement("u", "%", update, now);
        run(true, 1).unwrap();
        let text = run(true, 1).unwrap_err().message;
        assert_eq!(
            text,
            "User 'u' has exceeded the 'max_updates' resource (current value: 1)"
        );
        run(false, 1).unwrap();
        assert!(
            run(false, 3_599)
                .unwrap_err()
                .message
                .contains("'max_questions'")
        );
        run(false, 3_600).unwrap();
        // A clock that was set back begins an hour, too.
        run(true, 0).unwrap();
        assert!(run(true, 0).is_err());
        usages.flush(0);
        run(true, 0).unwrap();
        usages.adopt(&[limited(0, 0, 0, 0)]);
        (0..9).for_each(|_| run(true, 0).unwrap());
        usages.close("u", "%");
        assert!(usages.by_account.lock().is_empty());
    }

    #[test]
    fn connections_are_counted_by_the_hour_and_at_one_time() {
        let usages = Usages::default();
        let two = limited(0, 0, 2, 0);
        for _ in 0..2 {
            usages.open(&two, 0, 0).unwrap();
            usages.close("u", "%");
        }
        let error = usages.open(&two, 0, 0).unwrap_err();
        assert!(error.message.contains("max_connections_per_hour"));
        usages.open(&two, 0, HOUR).unwrap();
        let one = limited(0, 0, 0, 1);
        let error = usages.open(&one, 0, 0).unwrap_err();
        assert_eq!(error.code, 1226);
        usages.close("u", "%");
        usages.open(&one, 0, 0).unwrap();
        // The account's own limit goes before the server's.
        assert_eq!(
            usages.open(&limited(0, 0, 0, 0), 1, 0).unwrap_err().code,
            1203
        );
        usages.open(&limited(0, 0, 0, 9), 1, 0).unwrap();
        assert!(!usages.open(&limited(0, 0, 0, 0), 0, 0).unwrap());
    }

    #[test]
    fn failures_in_a_row_lock_for_so_many_days() {
        let usages = Usages::default();
        let lock = |attempts, time| {
            account(Policy {
                login_lock: LoginLock { attempts, time },
                ..Policy::default()
            })
        };
        let two = lock(2, LockTime::Days(3));
        let try_it = |a: &Account, right, now| usages.attempt(a, "'u'@'h'", right, now);
        try_it(&two, false, 0).unwrap();
        try_it(&two, true, 0).unwrap();
        try_it(&two, false, 0).unwrap();
        let error = try_it(&two, false, 0).unwrap_err();
        assert_eq!(error.code, 3955);
        assert_eq!(
            error.message,
            "Access denied for user 'u'@'h'. Account is blocked for 3 day(s) (3 day(s) remaining) due to 2 consecutive \
             failed logins."
        );
        let later = try_it(&two, true, 2 * DAY + 1).unwrap_err().message;
        assert!(later.contains("(1 day(s) remaining)"), "{later}");
        try_it(&two, true, 3 * DAY).unwrap();
        assert!(usages.by_account.lock().is_empty());
        let ever = lock(1, LockTime::Unbounded);
        try_it(&ever, false, 0).unwrap_err();
        let text = try_it(&ever, true, 900 * DAY).unwrap_err().message;
        assert!(text.contains("unlimited day(s) (unlimited day(s) remaining)"));
        usages.unlock(Some(&ever));
        try_it(&ever, true, 900 * DAY).unwrap();
        try_it(&ever, false, 0).unwrap_err();
        usages.adopt(&[account(Policy::default())]);
        assert!(usages.by_account.lock().is_empty());
        let off = lock(0, LockTime::Unbounded);
        (0..9).for_each(|_| try_it(&off, false, 0).unwrap());
    }
}
