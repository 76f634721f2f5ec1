//! An account as bytes: the present format, and the two before it.
//!
//! Neighbours: `store` frames what is written here in a file with a checksum.
//! **Invariants**: a field whose number is unknown is an error, because it may be a restriction; a number is never
//! given another meaning, and a new field is one more number. docs/formats/accounts.md lists them all.

use super::fields::{Fields, Writer};
use super::{Account, GrantEntry, GrantScope, GrantedRole, Plugin, Privileges, RoleName};

/// Present format.
const MAGIC: &[u8; 8] = b"ESKACCT3";
/// Fixed layout.
const MAGIC_2: &[u8; 8] = b"ESKACCT2";
/// Fixed layout, from before XA_RECOVER_ADMIN.
const MAGIC_1: &[u8; 8] = b"ESKACCT1";

/// Numbers of the fields of the file.
mod top {
    pub(super) const ACCOUNT: u16 = 1;
}

/// Numbers of the fields of an account.
mod account {
    pub(super) const USER: u16 = 1;
    pub(super) const HOST: u16 = 2;
    pub(super) const PLUGIN: u16 = 3;
    pub(super) const SECRET: u16 = 4;
    pub(super) const LOCKED: u16 = 5;
    pub(super) const GRANT: u16 = 6;
    pub(super) const ROLE: u16 = 40;
    pub(super) const DEFAULT_ROLE: u16 = 41;
}

/// Numbers of the fields of a role.
mod role {
    pub(super) const USER: u16 = 1;
    pub(super) const HOST: u16 = 2;
    pub(super) const ADMIN: u16 = 3;
}

/// Numbers of the fields of a grant.
mod grant {
    pub(super) const SCHEMA: u16 = 1;
    pub(super) const TABLE: u16 = 2;
    pub(super) const PRIVILEGE: u16 = 3;
    pub(super) const GRANT_OPTION: u16 = 4;
    pub(super) const COLUMN: u16 = 5;
}

/// All accounts as bytes.
pub(super) fn encode(accounts: &[Account]) -> Vec<u8> {
    let mut w = Writer::default();
    for a in accounts {
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
    }
    for name in g.privileges.names() {
        w.text(grant::PRIVILEGE, name);
    }
    w.flag(grant::GRANT_OPTION, g.grant_option);
}

/// Accounts from bytes.
///
/// # Errors
/// What is wrong with them.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Account>, String> {
    let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
        return Err("it is too short".into());
    };
    match magic {
        MAGIC => decode_fields(rest),
        MAGIC_1 | MAGIC_2 => old::decode(rest),
        _ => Err("it is no accounts file of a known version".into()),
    }
}

fn decode_fields(bytes: &[u8]) -> Result<Vec<Account>, String> {
    let mut accounts = Vec::new();
    for field in Fields(bytes) {
        let field = field?;
        match field.number {
            top::ACCOUNT => accounts.push(decode_account(field.nested())?),
            _ => return Err(field.unknown("the file")),
        }
    }
    Ok(accounts)
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
            _ => return Err(field.unknown("an account")),
        }
    }
    Ok(a)
}

fn decode_grant(fields: Fields<'_>) -> Result<GrantEntry, String> {
    let (mut schema, mut table, mut column) = (None, None, None);
    let mut privileges = Privileges::default();
    let mut grant_option = false;
    for field in fields {
        let field = field?;
        match field.number {
            grant::SCHEMA => schema = Some(field.text()?),
            grant::TABLE => table = Some(field.text()?),
            grant::COLUMN => column = Some(field.text()?),
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
    let scope = match (schema, table, column) {
        (None, None, None) => GrantScope::Global,
        (Some(s), None, None) => GrantScope::Schema(s),
        (Some(s), Some(t), None) => GrantScope::Table(s, t),
        (Some(s), Some(t), Some(c)) => GrantScope::Column(s, t, c),
        _ => return Err("a grant has a table and no database, or a column and no table".into()),
    };
    Ok(GrantEntry {
        scope,
        privileges,
        grant_option,
    })
}

/// The fixed layouts of before: account count u32, then per account: user, host, plugin name, secret (each
/// u32 length and bytes), locked u8, grant count u32, per grant: scope u8 (0 global, 1 schema, 2 table), schema,
/// table, privileges u64 (bits by their place in [`old::PRIVILEGES`]), grant option u8.
mod old {
    use super::{Account, GrantEntry, GrantScope, Plugin, Privileges};

    /// The bits of these formats.
    pub(super) const PRIVILEGES: [&str; 31] = [
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
        "XA_RECOVER_ADMIN",
    ];

    struct Reader<'a>(&'a [u8]);

    impl Reader<'_> {
        fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
            let (head, tail) = self.0.split_first_chunk::<N>()?;
            self.0 = tail;
            Some(*head)
        }

        fn bytes(&mut self) -> Option<Vec<u8>> {
            let len = u32::from_le_bytes(self.array()?) as usize;
            let (head, tail) = self.0.split_at_checked(len)?;
            self.0 = tail;
            Some(head.to_vec())
        }

        fn text(&mut self) -> Option<String> {
            String::from_utf8(self.bytes()?).ok()
        }

        fn flag(&mut self) -> Option<bool> {
            self.array().map(|[b]| b != 0)
        }
    }

    /// Accounts of an old file.
    pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Account>, String> {
        let mut r = Reader(bytes);
        let read = read(&mut r).filter(|_| r.0.is_empty());
        read.ok_or_else(|| "it is unreadable".into())
    }

    fn read(r: &mut Reader<'_>) -> Option<Vec<Account>> {
        let count = u32::from_le_bytes(r.array()?);
        let mut accounts = Vec::new();
        for _ in 0..count {
            let mut account = Account::named(&r.text()?, &r.text()?);
            account.plugin = Plugin::by_name(&r.text()?)?;
            account.auth = r.bytes()?;
            account.locked = r.flag()?;
            for _ in 0..u32::from_le_bytes(r.array()?) {
                let grant = read_grant(r)?;
                let (scope, option) = (&grant.scope, grant.grant_option);
                account.change_grant(scope, grant.privileges, option, true);
            }
            accounts.push(account);
        }
        Some(accounts)
    }

    fn read_grant(r: &mut Reader<'_>) -> Option<GrantEntry> {
        let [tag] = r.array()?;
        let (schema, table) = (r.text()?, r.text()?);
        let scope = match tag {
            0 => GrantScope::Global,
            1 => GrantScope::Schema(schema),
            2 => GrantScope::Table(schema, table),
            _ => return None,
        };
        let bits = u64::from_le_bytes(r.array()?);
        let grant_option = r.flag()?;
        if bits >> PRIVILEGES.len() != 0 {
            return None;
        }
        let named = PRIVILEGES.iter().enumerate();
        let held = named.filter(|(i, _)| bits >> i & 1 == 1).map(|(_, n)| *n);
        let mut privileges = Privileges::default();
        for name in held {
            privileges.0 |= Privileges::named(name)?.0;
            // SUPER was everything that dynamic privileges are now.
            if name == "SUPER" && scope == GrantScope::Global {
                privileges = privileges.or(Privileges::DYNAMIC);
            }
        }
        Some(GrantEntry {
            scope,
            privileges,
            grant_option,
        })
    }
}

#[cfg(test)]
mod tests {
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
                grants: vec![
                    grant(
                        GrantScope::Column("s".into(), "t".into(), "c".into()),
                        &["INSERT"],
                        false,
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

    #[test]
    fn every_field_survives_and_no_damage_is_believed() {
        let bytes = encode(&sample());
        assert_eq!(decode(&bytes).unwrap(), sample());
        for cut in 0..bytes.len() {
            // Between two accounts a file looks whole; its checksum says that it is not.
            if let Ok(part) = decode(&bytes[..cut]) {
                assert!(sample().starts_with(&part) && part.len() < 2);
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
            let is_column = |g: &GrantEntry| matches!(g.scope, GrantScope::Column(..));
            account.grants.retain(|g| !is_column(g));
            account.roles.clear();
            account.default_roles.clear();
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
                    GrantScope::Column(..) => unreachable!("not in an old file"),
                };
                out.push(tag);
                put(&mut out, schema.as_bytes());
                put(&mut out, table.as_bytes());
                let bit = |name| old::PRIVILEGES.iter().position(|p| *p == name).unwrap();
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
            assert_eq!(decode(&bytes).unwrap(), expected);
            for cut in 8..bytes.len() {
                assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}
