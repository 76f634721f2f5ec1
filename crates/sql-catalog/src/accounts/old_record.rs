//! The two formats of accounts before the present one, of fixed layout: reading only.
//!
//! Account count u32, then per account: user, host, plugin name, secret (each u32 length and bytes), locked u8, grant
//! count u32, per grant: scope u8 (0 global, 1 schema, 2 table), schema, table, privileges u64 (bits by
//! [`privileges`]), grant option u8. Neighbours: `record` tells formats apart; docs/formats/accounts.md describes
//! them. **Invariant**: bytes that do not fit the layout to the last one give no accounts.

use super::{Account, GrantEntry, GrantScope, Plugin, Privileges, ProxyGrant};

/// Privileges by their bits in these formats.
pub(super) fn privileges() -> impl Iterator<Item = &'static str> {
    Privileges::STATIC.names().chain(["XA_RECOVER_ADMIN"])
}

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
        // Whoever could grant everything could have granted PROXY, had there been that.
        let super_bit = Privileges::named("SUPER")?;
        let may_grant_all = |g: &GrantEntry| {
            g.grant_option && g.scope == GrantScope::Global && g.privileges.contains(super_bit)
        };
        if account.grants.iter().any(may_grant_all) {
            account.proxies.push(ProxyGrant::anybody());
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
    if bits >> privileges().count() != 0 {
        return None;
    }
    let named = privileges().enumerate();
    let held = named.filter(|(i, _)| bits >> i & 1 == 1).map(|(_, n)| n);
    let mut granted = Privileges::default();
    for name in held {
        granted.0 |= Privileges::named(name)?.0;
        // SUPER was everything that dynamic privileges are now.
        if name == "SUPER" && scope == GrantScope::Global {
            granted = granted.or(Privileges::DYNAMIC);
        }
    }
    Some(GrantEntry {
        scope,
        privileges: granted,
        grant_option,
    })
}

#[cfg(test)]
mod tests {
    use super::privileges;

    #[test]
    fn bits_stand_for_what_they_always_stood_for() {
        let names: Vec<_> = privileges().collect();
        assert_eq!(names.len(), 31);
        let places = [
            (0, "SELECT"),
            (10, "REFERENCES"),
            (14, "SUPER"),
            (29, "DROP ROLE"),
        ];
        for (bit, name) in places {
            assert_eq!(names[bit], name);
        }
        assert_eq!(names[30], "XA_RECOVER_ADMIN");
    }
}
