//! An account as bytes: the present format.
//!
//! Neighbours: `store` frames what is written here in a file with a checksum; `old_record` reads the two formats
//! before. **Invariants**: a field whose number is unknown is an error, because it may be a restriction; a number is
//! never given another meaning, and a new field is one more number. docs/formats/accounts.md lists them all.

use esker_types::program::RoutineKind;

use super::fields::{Field, Fields, Writer};
use super::old_record;
use super::policy::{LockTime, OldPassword, Policy, Transport};
use super::store::Stored;
use super::{
    Account, GrantEntry, GrantScope, GrantedRole, Plugin, Privileges, ProxyGrant, RoleName,
};

/// Present format.
const MAGIC: &[u8; 8] = b"ESKACCT3";
/// Fixed layout.
const MAGIC_2: &[u8; 8] = b"ESKACCT2";
/// Fixed layout, from before XA_RECOVER_ADMIN.
const MAGIC_1: &[u8; 8] = b"ESKACCT1";

/// Numbers of the fields of the file.
mod top {
    pub(super) const ACCOUNT: u16 = 1;
    pub(super) const CHANGE: u16 = 2;
}

/// Numbers of the fields of an account.
mod account {
    pub(super) const USER: u16 = 1;
    pub(super) const HOST: u16 = 2;
    pub(super) const PLUGIN: u16 = 3;
    pub(super) const SECRET: u16 = 4;
    pub(super) const LOCKED: u16 = 5;
    pub(super) const GRANT: u16 = 6;
    pub(super) const TRANSPORT: u16 = 16;
    pub(super) const MAX_QUERIES: u16 = 17;
    pub(super) const MAX_UPDATES: u16 = 18;
    pub(super) const MAX_CONNECTIONS: u16 = 19;
    pub(super) const MAX_USER_CONNECTIONS: u16 = 20;
    pub(super) const EXPIRED: u16 = 21;
    pub(super) const LIFETIME_DAYS: u16 = 22;
    pub(super) const PASSWORD_CHANGED: u16 = 23;
    pub(super) const PASSWORD_HISTORY: u16 = 24;
    pub(super) const REUSE_DAYS: u16 = 25;
    pub(super) const REQUIRE_CURRENT: u16 = 26;
    pub(super) const FAILED_ATTEMPTS: u16 = 27;
    pub(super) const LOCK_DAYS: u16 = 28;
    pub(super) const LOCK_UNBOUNDED: u16 = 29;
    pub(super) const ATTRIBUTE: u16 = 30;
    pub(super) const OLD_PASSWORD: u16 = 31;
    pub(super) const RETAINED_SECRET: u16 = 32;
    pub(super) const PROXY: u16 = 33;
    pub(super) const ROLE: u16 = 40;
    pub(super) const DEFAULT_ROLE: u16 = 41;
    pub(super) const RESTRICTION: u16 = 42;
}

/// Numbers of the fields of a role.
mod role {
    pub(super) const USER: u16 = 1;
    pub(super) const HOST: u16 = 2;
    pub(super) const ADMIN: u16 = 3;
}

/// Numbers of the fields of REQUIRE.
mod transport {
    pub(super) const TLS: u16 = 1;
    pub(super) const CERTIFICATE: u16 = 2;
    pub(super) const SUBJECT: u16 = 3;
    pub(super) const ISSUER: u16 = 4;
    pub(super) const CIPHER: u16 = 5;
}

/// Numbers of the fields of an old password.
mod old_password {
    pub(super) const SINCE: u16 = 1;
    pub(super) const SECRET: u16 = 2;
}

/// Numbers of the fields of PROXY.
mod proxy {
    pub(super) const USER: u16 = 1;
    pub(super) const HOST: u16 = 2;
    pub(super) const GRANT_OPTION: u16 = 3;
}

/// Numbers of the fields of a grant.
mod grant {
    pub(super) const SCHEMA: u16 = 1;
    pub(super) const TABLE: u16 = 2;
    pub(super) const PRIVILEGE: u16 = 3;
    pub(super) const GRANT_OPTION: u16 = 4;
    pub(super) const COLUMN: u16 = 5;
    pub(super) const PROCEDURE: u16 = 6;
    pub(super) const FUNCTION: u16 = 7;
}

/// All accounts as bytes.
pub(super) fn encode(stored: &Stored) -> Vec<u8> {
    let mut w = Writer::default();
    w.optional(top::CHANGE, (stored.change > 0).then_some(stored.change));
    for a in &stored.accounts {
        w.nested(top::ACCOUNT, |w| encode_account(a, w));
    }
    let mut out = MAGIC.to_vec();
    out.extend(w.into_bytes());
    out
}

fn encode_account(a: &Account, w: &mut Writer) {
    w.text(account::USER, &a.user);
    w.text(account::HOST, &a.host);
    w.text(account::PLUGIN, a.plugin.name());
    w.bytes(account::SECRET, &a.auth);
    w.flag(account::LOCKED, a.locked);
    for g in &a.grants {
        w.nested(account::GRANT, |w| encode_grant(g, w));
    }
    for r in &a.roles {
        w.nested(account::ROLE, |w| {
            encode_role(&r.role, w);
            w.flag(role::ADMIN, r.admin);
        });
    }
    for r in &a.default_roles {
        w.nested(account::DEFAULT_ROLE, |w| encode_role(r, w));
    }
    if !a.retained.is_empty() {
        w.bytes(account::RETAINED_SECRET, &a.retained);
    }
    for p in &a.proxies {
        w.nested(account::PROXY, |w| {
            w.text(proxy::USER, &p.user);
            w.text(proxy::HOST, &p.host);
            w.flag(proxy::GRANT_OPTION, p.grant_option);
        });
    }
    for (schema, privileges) in a.restrictions.iter() {
        let entry = GrantEntry {
            scope: GrantScope::Schema(schema.to_owned()),
            privileges,
            grant_option: false,
        };
        w.nested(account::RESTRICTION, |w| encode_grant(&entry, w));
    }
    encode_policy(&a.policy, w);
}

fn encode_role(role: &RoleName, w: &mut Writer) {
    w.text(role::USER, &role.0);
    w.text(role::HOST, &role.1);
}

fn decode_role(fields: Fields<'_>) -> Result<GrantedRole, String> {
    let mut granted = GrantedRole {
        role: RoleName::default(),
        admin: false,
    };
    for field in fields {
        let field = field?;
        match field.number {
            role::USER => granted.role.0 = field.text()?,
            role::HOST => granted.role.1 = field.text()?,
            role::ADMIN => granted.admin = field.flag()?,
            _ => return Err(field.unknown("a role")),
        }
    }
    Ok(granted)
}

fn encode_policy(p: &Policy, w: &mut Writer) {
    if p.transport != Transport::Any {
        w.nested(account::TRANSPORT, |w| encode_transport(&p.transport, w));
    }
    let limit = |n: u32| (n > 0).then_some(n);
    w.optional(account::MAX_QUERIES, limit(p.limits.queries));
    w.optional(account::MAX_UPDATES, limit(p.limits.updates));
    w.optional(account::MAX_CONNECTIONS, limit(p.limits.connections));
    w.optional(
        account::MAX_USER_CONNECTIONS,
        limit(p.limits.user_connections),
    );
    w.flag(account::EXPIRED, p.expired);
    w.optional(account::LIFETIME_DAYS, p.lifetime_days);
    w.optional(account::PASSWORD_CHANGED, p.changed);
    w.optional(account::PASSWORD_HISTORY, p.history);
    w.optional(account::REUSE_DAYS, p.reuse_days);
    w.optional(account::REQUIRE_CURRENT, p.require_current);
    let lock = p.login_lock;
    w.optional(account::FAILED_ATTEMPTS, limit(lock.attempts.into()));
    match lock.time {
        LockTime::Days(days) => w.optional(account::LOCK_DAYS, limit(days.into())),
        LockTime::Unbounded => w.flag(account::LOCK_UNBOUNDED, true),
    }
    if let Some(attribute) = &p.attribute {
        w.text(account::ATTRIBUTE, attribute);
    }
    for old in &p.old_passwords {
        w.nested(account::OLD_PASSWORD, |w| {
            w.number(old_password::SINCE, old.since);
            w.bytes(old_password::SECRET, &old.secret);
        });
    }
}

fn encode_transport(t: &Transport, w: &mut Writer) {
    match t {
        Transport::Any => (),
        Transport::Tls => w.flag(transport::TLS, true),
        Transport::Certificate => w.flag(transport::CERTIFICATE, true),
        Transport::Specified {
            subject,
            issuer,
            cipher,
        } => {
            let fields = [
                (transport::SUBJECT, subject),
                (transport::ISSUER, issuer),
                (transport::CIPHER, cipher),
            ];
            for (number, text) in fields {
                if let Some(text) = text {
                    w.bytes(number, text.as_bytes());
                }
            }
        }
    }
}

fn encode_grant(g: &GrantEntry, w: &mut Writer) {
    match &g.scope {
        GrantScope::Global => (),
        GrantScope::Schema(s) => w.bytes(grant::SCHEMA, s.as_bytes()),
        GrantScope::Table(s, t) => {
            w.bytes(grant::SCHEMA, s.as_bytes());
            w.bytes(grant::TABLE, t.as_bytes());
        }
        GrantScope::Column(s, t, c) => {
            w.bytes(grant::SCHEMA, s.as_bytes());
            w.bytes(grant::TABLE, t.as_bytes());
            w.bytes(grant::COLUMN, c.as_bytes());
        }
        GrantScope::Routine(kind, s, name) => {
            w.bytes(grant::SCHEMA, s.as_bytes());
            w.bytes(routine_field(*kind), name.as_bytes());
        }
    }
    for name in g.privileges.names() {
        w.text(grant::PRIVILEGE, name);
    }
    w.flag(grant::GRANT_OPTION, g.grant_option);
}

fn routine_field(kind: RoutineKind) -> u16 {
    match kind {
        RoutineKind::Procedure => grant::PROCEDURE,
        RoutineKind::Function => grant::FUNCTION,
    }
}

/// Accounts from bytes.
///
/// # Errors
/// What is wrong with them.
pub(super) fn decode(bytes: &[u8]) -> Result<Stored, String> {
    let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
        return Err("it is too short".into());
    };
    match magic {
        MAGIC => decode_fields(rest),
        MAGIC_1 | MAGIC_2 => old_record::decode(rest).map(Stored::first),
        _ => Err("it is no accounts file of a known version".into()),
    }
}

fn decode_fields(bytes: &[u8]) -> Result<Stored, String> {
    let mut stored = Stored::first(Vec::new());
    for field in Fields(bytes) {
        let field = field?;
        match field.number {
            top::ACCOUNT => stored.accounts.push(decode_account(field.nested())?),
            top::CHANGE => stored.change = field.number()?,
            _ => return Err(field.unknown("the file")),
        }
    }
    Ok(stored)
}

fn decode_account(fields: Fields<'_>) -> Result<Account, String> {
    let mut a = Account::named("", "");
    for field in fields {
        let field = field?;
        match field.number {
            account::USER => a.user = field.text()?,
            account::HOST => a.host = field.text()?,
            account::PLUGIN => {
                let name = field.text()?;
                a.plugin = Plugin::by_name(&name)
                    .ok_or_else(|| field.wrong(format_args!("names the plugin {name}")))?;
            }
            account::SECRET => a.auth = field.bytes.to_vec(),
            account::LOCKED => a.locked = field.flag()?,
            account::GRANT => a.grants.push(decode_grant(field.nested())?),
            account::ROLE => a.roles.push(decode_role(field.nested())?),
            account::DEFAULT_ROLE => a.default_roles.push(decode_role(field.nested())?.role),
            account::RETAINED_SECRET => a.retained = field.bytes.to_vec(),
            account::PROXY => a.proxies.push(decode_proxy(field.nested())?),
            account::RESTRICTION => {
                let entry = decode_grant(field.nested())?;
                let GrantScope::Schema(schema) = &entry.scope else {
                    return Err(
                        field.wrong("takes privileges away on something else than a database")
                    );
                };
                a.restrictions.set(schema, entry.privileges);
            }
            _ => decode_policy(&field, &mut a.policy)?,
        }
    }
    Ok(a)
}

fn decode_proxy(fields: Fields<'_>) -> Result<ProxyGrant, String> {
    let mut p = ProxyGrant::default();
    for field in fields {
        let field = field?;
        match field.number {
            proxy::USER => p.user = field.text()?,
            proxy::HOST => p.host = field.text()?,
            proxy::GRANT_OPTION => p.grant_option = field.flag()?,
            _ => return Err(field.unknown("PROXY")),
        }
    }
    Ok(p)
}

fn decode_policy(field: &Field<'_>, p: &mut Policy) -> Result<(), String> {
    match field.number {
        account::TRANSPORT => p.transport = decode_transport(field.nested())?,
        account::MAX_QUERIES => p.limits.queries = field.number()?,
        account::MAX_UPDATES => p.limits.updates = field.number()?,
        account::MAX_CONNECTIONS => p.limits.connections = field.number()?,
        account::MAX_USER_CONNECTIONS => p.limits.user_connections = field.number()?,
        account::EXPIRED => p.expired = field.flag()?,
        account::LIFETIME_DAYS => p.lifetime_days = Some(field.number()?),
        account::PASSWORD_CHANGED => p.changed = Some(field.number()?),
        account::PASSWORD_HISTORY => p.history = Some(field.number()?),
        account::REUSE_DAYS => p.reuse_days = Some(field.number()?),
        account::REQUIRE_CURRENT => p.require_current = Some(field.number::<u8>()? != 0),
        account::FAILED_ATTEMPTS => p.login_lock.attempts = field.number()?,
        account::LOCK_DAYS => p.login_lock.time = LockTime::Days(field.number()?),
        account::LOCK_UNBOUNDED => p.login_lock.time = LockTime::Unbounded,
        account::ATTRIBUTE => p.attribute = Some(field.text()?),
        account::OLD_PASSWORD => p.old_passwords.push(decode_old_password(field.nested())?),
        _ => return Err(field.unknown("an account")),
    }
    Ok(())
}

fn decode_old_password(fields: Fields<'_>) -> Result<OldPassword, String> {
    let (mut since, mut secret) = (0, Vec::new());
    for field in fields {
        let field = field?;
        match field.number {
            old_password::SINCE => since = field.number()?,
            old_password::SECRET => secret = field.bytes.to_vec(),
            _ => return Err(field.unknown("an old password")),
        }
    }
    Ok(OldPassword { since, secret })
}

fn decode_transport(fields: Fields<'_>) -> Result<Transport, String> {
    let mut whole = None;
    let (mut subject, mut issuer, mut cipher) = (None, None, None);
    for field in fields {
        let field = field?;
        match field.number {
            transport::TLS => whole = Some(Transport::Tls),
            transport::CERTIFICATE => whole = Some(Transport::Certificate),
            transport::SUBJECT => subject = Some(field.text()?),
            transport::ISSUER => issuer = Some(field.text()?),
            transport::CIPHER => cipher = Some(field.text()?),
            _ => return Err(field.unknown("REQUIRE")),
        }
    }
    Ok(whole.unwrap_or(Transport::Specified {
        subject,
        issuer,
        cipher,
    }))
}

fn decode_grant(fields: Fields<'_>) -> Result<GrantEntry, String> {
    let (mut schema, mut table, mut column) = (None, None, None);
    let mut routine = None;
    let mut privileges = Privileges::default();
    let mut grant_option = false;
    for field in fields {
        let field = field?;
        match field.number {
            grant::SCHEMA => schema = Some(field.text()?),
            grant::TABLE => table = Some(field.text()?),
            grant::COLUMN => column = Some(field.text()?),
            grant::PROCEDURE => routine = Some((RoutineKind::Procedure, field.text()?)),
            grant::FUNCTION => routine = Some((RoutineKind::Function, field.text()?)),
            grant::PRIVILEGE => {
                let name = field.text()?;
                let one = Privileges::named(&name)
                    .ok_or_else(|| field.wrong(format_args!("names the privilege {name}")))?;
                privileges.0 |= one.0;
            }
            grant::GRANT_OPTION => grant_option = field.flag()?,
            _ => return Err(field.unknown("a grant")),
        }
    }
    let scope = match (schema, table, column, routine) {
        (None, None, None, None) => GrantScope::Global,
        (Some(s), None, None, None) => GrantScope::Schema(s),
        (Some(s), Some(t), None, None) => GrantScope::Table(s, t),
        (Some(s), Some(t), Some(c), None) => GrantScope::Column(s, t, c),
        (Some(s), None, None, Some((kind, name))) => GrantScope::Routine(kind, s, name),
        _ => return Err("a grant is on something that is nowhere, or on two things".into()),
    };
    Ok(GrantEntry {
        scope,
        privileges,
        grant_option,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Restrictions;
    use super::super::policy::{LoginLock, ResourceLimits};
    use super::*;

    fn privileges(names: &[&str]) -> Privileges {
        let bits = names.iter().map(|n| Privileges::named(n).unwrap().0);
        Privileges(bits.fold(0, |a, b| a | b))
    }

    /// Accounts that have something in every field.
    fn sample() -> Vec<Account> {
        let grant = |scope, names: &[&str], grant_option| GrantEntry {
            scope,
            privileges: privileges(names),
            grant_option,
        };
        vec![
            Account {
                plugin: Plugin::Native,
                auth: vec![1, 2, 3],
                locked: true,
                roles: vec![GrantedRole {
                    role: ("r".into(), "%".into()),
                    admin: true,
                }],
                default_roles: vec![("r".into(), "%".into())],
                restrictions: {
                    let mut restrictions = Restrictions::NONE;
                    restrictions.set("s", privileges(&["SELECT", "GRANT OPTION"]));
                    restrictions.set("t", privileges(&["DROP"]));
                    restrictions
                },
                grants: vec![
                    grant(
                        GrantScope::Column("s".into(), "t".into(), "c".into()),
                        &["INSERT"],
                        false,
                    ),
                    grant(
                        GrantScope::of_routine(RoutineKind::Function, "s", "F"),
                        &["EXECUTE"],
                        true,
                    ),
                    grant(GrantScope::Global, &["SUPER", "XA_RECOVER_ADMIN"], false),
                    grant(GrantScope::Schema("s".into()), &["SUPER"], false),
                    grant(
                        GrantScope::Table("s".into(), "t".into()),
                        &["SELECT", "UPDATE"],
                        true,
                    ),
                ],
                ..Account::named("u", "%")
            },
            Account::named("", "localhost"),
        ]
    }

    /// What came after the first two formats, too.
    fn newer_sample() -> Vec<Account> {
        let of = |transport| Account {
            policy: Policy {
                transport,
                ..Policy::default()
            },
            ..Account::named("t", "%")
        };
        let full = Account {
            retained: vec![4, 5],
            proxies: vec![ProxyGrant::anybody(), ProxyGrant::default()],
            policy: Policy {
                transport: Transport::Tls,
                limits: ResourceLimits {
                    queries: 1,
                    updates: 2,
                    connections: 3,
                    user_connections: u32::MAX,
                },
                expired: true,
                lifetime_days: Some(0),
                changed: Some(-1),
                history: Some(0),
                reuse_days: Some(7),
                require_current: Some(false),
                login_lock: LoginLock {
                    attempts: 3,
                    time: LockTime::Unbounded,
                },
                attribute: Some("{\"a\": 1}".into()),
                old_passwords: vec![OldPassword {
                    since: 5,
                    secret: vec![6],
                }],
            },
            ..Account::named("full", "%")
        };
        let days = Account {
            policy: Policy {
                login_lock: LoginLock {
                    attempts: 1,
                    time: LockTime::Days(2),
                },
                ..Policy::default()
            },
            ..Account::named("days", "%")
        };
        let some = |text: &str| Some(text.to_owned());
        let specified = |subject, issuer, cipher| Transport::Specified {
            subject,
            issuer,
            cipher,
        };
        vec![
            full,
            days,
            of(Transport::Certificate),
            of(specified(some("/CN=a"), some("/CN=b"), some("c"))),
            of(specified(None, some(""), None)),
        ]
    }

    #[test]
    fn every_field_survives_and_no_damage_is_believed() {
        let with = |accounts, change| Stored { accounts, change };
        let stored = with(sample(), 0);
        let bytes = encode(&stored);
        assert_eq!(decode(&bytes).unwrap(), stored);
        let newer = with(newer_sample(), 7);
        assert_eq!(decode(&encode(&newer)).unwrap(), newer);
        for cut in 0..bytes.len() {
            // Between two accounts a file looks whole; its checksum says that it is not.
            if let Ok(part) = decode(&bytes[..cut]) {
                assert!(sample().starts_with(&part.accounts) && part.accounts.len() < 2);
            }
        }
    }

    #[test]
    fn fields_of_a_newer_version_are_refused() {
        let with = |fill: fn(&mut Writer)| {
            let mut w = Writer::default();
            fill(&mut w);
            decode(&[MAGIC.as_slice(), &w.into_bytes()].concat()).unwrap_err()
        };
        let text = with(|w| w.bytes(999, b""));
        assert_eq!(
            text,
            "field 999 of the file is unknown; a newer version has written it"
        );
        assert!(with(|w| w.nested(1, |w| w.bytes(999, b""))).contains("999 of an account"));
        let grant: fn(&mut Writer) = |w| w.nested(1, |w| w.nested(6, |w| w.bytes(999, b"")));
        assert!(with(grant).contains("999 of a grant"));
        let privilege: fn(&mut Writer) = |w| w.nested(1, |w| w.nested(6, |w| w.text(3, "FLY")));
        assert!(with(privilege).contains("FLY"));
        assert!(decode(b"ESKACCT9").unwrap_err().contains("known version"));
    }

    /// What of the sample the first two formats could say.
    fn old_sample() -> Vec<Account> {
        let mut accounts = sample();
        for account in &mut accounts {
            let is_newer = |g: &GrantEntry| {
                matches!(g.scope, GrantScope::Column(..) | GrantScope::Routine(..))
            };
            account.grants.retain(|g| !is_newer(g));
            account.roles.clear();
            account.default_roles.clear();
            account.restrictions = Restrictions::NONE;
        }
        accounts
    }

    /// The old sample as the first two formats wrote it.
    fn fixed_layout(magic: &[u8; 8]) -> Vec<u8> {
        let mut out = magic.to_vec();
        let put = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        let accounts = old_sample();
        out.extend_from_slice(&(accounts.len() as u32).to_le_bytes());
        for a in &accounts {
            for bytes in [
                a.user.as_bytes(),
                a.host.as_bytes(),
                a.plugin.name().as_bytes(),
                &a.auth,
            ] {
                put(&mut out, bytes);
            }
            out.push(u8::from(a.locked));
            out.extend_from_slice(&(a.grants.len() as u32).to_le_bytes());
            for g in &a.grants {
                let (tag, schema, table) = match &g.scope {
                    GrantScope::Global => (0, "", ""),
                    GrantScope::Schema(s) => (1, s.as_str(), ""),
                    GrantScope::Table(s, t) => (2, s.as_str(), t.as_str()),
                    GrantScope::Column(..) | GrantScope::Routine(..) => {
                        unreachable!("not in an old file")
                    }
                };
                out.push(tag);
                put(&mut out, schema.as_bytes());
                put(&mut out, table.as_bytes());
                let bit = |name| old_record::privileges().position(|p| p == name).unwrap();
                let names = g.privileges.names();
                // The first format did not know the privilege.
                let known = names.filter(|n| magic == MAGIC_2 || *n != "XA_RECOVER_ADMIN");
                let bits: u64 = known.map(|n| 1 << bit(n)).sum();
                out.extend_from_slice(&bits.to_le_bytes());
                out.push(u8::from(g.grant_option));
            }
        }
        out
    }

    #[test]
    fn the_formats_of_before_are_read() {
        for magic in [MAGIC_1, MAGIC_2] {
            let bytes = fixed_layout(magic);
            let mut expected = old_sample();
            for account in &mut expected {
                for grant in std::mem::take(&mut account.grants) {
                    let is_super = grant.privileges.meets(Privileges::of(&["SUPER"]));
                    let more = match is_super && grant.scope == GrantScope::Global {
                        true => Privileges::DYNAMIC,
                        false => Privileges::NONE,
                    };
                    let privileges = grant.privileges.or(more);
                    account.change_grant(&grant.scope, privileges, grant.grant_option, true);
                }
            }
            assert_eq!(decode(&bytes).unwrap(), Stored::first(expected));
            for cut in 8..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
