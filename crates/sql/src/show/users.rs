//! SHOW CREATE USER.
//!
//! Neighbours: `accounts` has what is shown; `session/users` reads it back.
//! **Invariants**: the text is MySQL's, clause by clause, and makes the same account again; the secret is shown only to
//! those who may see everybody's.

use esker_sql_catalog::accounts::policy::{LockTime, Policy, Transport};
use esker_sql_catalog::accounts::{Account, Plugin, Privileges};
use esker_sql_syntax::ast;
use esker_types::SqlResult;
use esker_types::hex::upper_hex;

use super::{Table, shown, t};
use crate::session::{Session, account_failed, shown_account};

/// The row of SHOW CREATE USER.
pub(super) fn create_user(session: &Session, account: &ast::Account) -> SqlResult<Table> {
    let context = &session.context;
    let (user, host) = session.context.named(account);
    let own = context.account.user == user && context.account.host == host;
    let sees_all = context
        .access
        .on_schema("mysql")
        .contains(Privileges::of(&["SELECT"]));
    if !own && !sees_all {
        return Err(context.no_schema(&context.access.host, "mysql"));
    }
    let found = context.instance.accounts().exact(&user, &host);
    let account =
        found.ok_or_else(|| account_failed("SHOW CREATE USER", &[shown_account(&user, &host)]))?;
    let secret = match secret(&account) {
        secret if secret.is_empty() => String::new(),
        _ if own && !sees_all => " AS <secret>".to_owned(),
        // A secret that can be printed is, as in MySQL.
        secret
            if !secret.iter().all(u8::is_ascii_graphic)
                && session.values.named("print_identified_with_as_hex").is_on() =>
        {
            format!(" AS 0x{}", upper_hex(&secret))
        }
        secret => format!(" AS {}", quoted(&String::from_utf8_lossy(&secret))),
    };
    let quotes = &shown(session).quotes;
    let roles = account.default_roles.iter();
    let roles: Vec<_> = roles
        .map(|(user, host)| quotes.account(user, host))
        .collect();
    let roles = match roles.is_empty() {
        true => String::new(),
        false => format!(" DEFAULT ROLE {}", roles.join(",")),
    };
    let text = format!(
        "CREATE USER {} IDENTIFIED WITH '{}'{secret}{roles}{}",
        quotes.account(&account.user, &account.host),
        account.plugin.name(),
        clauses(&account.policy, account.locked)
    );
    let title = format!("CREATE USER for {}", account.name());
    Ok(Table::texts(&[&title], vec![vec![t(text)]]))
}

/// The secret as IDENTIFIED … AS takes it.
pub(crate) fn secret(account: &Account) -> Vec<u8> {
    match account.plugin {
        Plugin::Native if !account.auth.is_empty() => {
            format!("*{}", upper_hex(&account.auth)).into_bytes()
        }
        _ => account.auth.clone(),
    }
}

/// A text literal, with the escapes that MySQL prints.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// What follows the secret.
fn clauses(policy: &Policy, locked: bool) -> String {
    let mut out = " REQUIRE ".to_owned();
    out += &match &policy.transport {
        Transport::Any => "NONE".to_owned(),
        Transport::Tls => "SSL".to_owned(),
        Transport::Certificate => "X509".to_owned(),
        Transport::Specified {
            subject,
            issuer,
            cipher,
        } => {
            let parts = [("SUBJECT", subject), ("ISSUER", issuer), ("CIPHER", cipher)];
            let given = parts
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.as_ref()?)));
            let texts: Vec<_> = given
                .map(|(name, value)| format!("{name} {}", quoted(value)))
                .collect();
            texts.join(" ")
        }
    };
    let limits = [
        ("MAX_QUERIES_PER_HOUR", policy.limits.queries),
        ("MAX_UPDATES_PER_HOUR", policy.limits.updates),
        ("MAX_CONNECTIONS_PER_HOUR", policy.limits.connections),
        ("MAX_USER_CONNECTIONS", policy.limits.user_connections),
    ];
    let mut lead = " WITH";
    for (name, number) in limits.into_iter().filter(|(_, n)| *n > 0) {
        out += &format!("{lead} {name} {number}");
        lead = "";
    }
    out += &match (policy.expired, policy.lifetime_days) {
        (true, _) => " PASSWORD EXPIRE".to_owned(),
        (false, None) => " PASSWORD EXPIRE DEFAULT".to_owned(),
        (false, Some(0)) => " PASSWORD EXPIRE NEVER".to_owned(),
        (false, Some(days)) => format!(" PASSWORD EXPIRE INTERVAL {days} DAY"),
    };
    out += if locked {
        " ACCOUNT LOCK"
    } else {
        " ACCOUNT UNLOCK"
    };
    let or_default = |n: Option<u16>, unit: &str| {
        n.map_or_else(|| "DEFAULT".to_owned(), |n| format!("{n}{unit}"))
    };
    out += &format!(
        " PASSWORD HISTORY {} PASSWORD REUSE INTERVAL {} PASSWORD REQUIRE CURRENT{}",
        or_default(policy.history, ""),
        or_default(policy.reuse_days, " DAY"),
        match policy.require_current {
            None => " DEFAULT",
            Some(true) => "",
            Some(false) => " OPTIONAL",
        }
    );
    if policy.login_lock.attempts > 0 {
        out += &format!(" FAILED_LOGIN_ATTEMPTS {}", policy.login_lock.attempts);
    }
    match policy.login_lock.time {
        LockTime::Days(0) => (),
        LockTime::Days(days) => out += &format!(" PASSWORD_LOCK_TIME {days}"),
        LockTime::Unbounded => out += " PASSWORD_LOCK_TIME UNBOUNDED",
    }
    if let Some(attribute) = &policy.attribute {
        out += &format!(" ATTRIBUTE {}", quoted(attribute));
    }
    out
}
