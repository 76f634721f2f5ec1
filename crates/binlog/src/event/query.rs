//! QUERY: a statement, or BEGIN, with the settings it depends on.
//!
//! ```text
//! thread id u32 | seconds it took u32 | length of the database u8 | error u16 | length of the settings u16
//! settings: code u8 | bytes, each | database 0 | statement
//! ```
//! Neighbours: `attachment` keeps the settings of a transaction once; `derive` writes BEGIN with them. **Invariants**:
//! settings are in the order in which MySQL writes them; readers stop at the first code they do not know, so the ones
//! that only some know are last.

use crate::bytes::{Put, Reader};
use crate::{Result, damaged};

const FLAGS2: u8 = 0;
const SQL_MODE: u8 = 1;
const AUTO_INCREMENT: u8 = 3;
const CHARSET: u8 = 4;
const TIME_ZONE: u8 = 5;
const CATALOG: u8 = 6;
const LC_TIME_NAMES: u8 = 7;
const CHARSET_DATABASE: u8 = 8;
const TABLE_MAP_FOR_UPDATE: u8 = 9;
const INVOKER: u8 = 11;
const UPDATED_DATABASES: u8 = 12;
const MICROSECONDS: u8 = 13;
const EXPLICIT_DEFAULTS: u8 = 16;
const DDL_XID: u8 = 17;
const UTF8MB4_COLLATION: u8 = 18;
const REQUIRE_PRIMARY_KEY: u8 = 19;
const TABLE_ENCRYPTION: u8 = 20;
/// What [`MICROSECONDS`] is for MariaDB.
const MARIADB_MICROSECONDS: u8 = 128;
/// Number of the transaction of a DDL statement of MariaDB.
const MARIADB_XID: u8 = 129;
/// In [`Settings::flags2`] of MariaDB: explicit_defaults_for_timestamp.
const MARIADB_EXPLICIT_DEFAULTS: u32 = 0x100_0000;

/// Bytes before the settings.
pub(crate) const FIXED_BYTES: usize = 4 + 4 + 1 + 2 + 2;

/// The only catalog there is.
const CATALOG_NAME: &[u8] = b"std";
/// Says that more databases are changed than are listed.
const TOO_MANY_DATABASES: u8 = 254;
/// Most databases that are listed.
const MAX_DATABASES: usize = 16;

/// In [`Settings::flags2`]: `sql_auto_is_null = 1`.
pub const AUTO_IS_NULL: u32 = 0x4000;
/// In [`Settings::flags2`]: `foreign_key_checks = 0`.
pub const NO_FOREIGN_KEY_CHECKS: u32 = 0x400_0000;
/// In [`Settings::flags2`]: `unique_checks = 0`.
pub const RELAXED_UNIQUE_CHECKS: u32 = 0x800_0000;

/// Settings of the session that ran a statement. What is `None` or empty is not written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Options of the session.
    pub flags2: Option<u32>,
    /// sql_mode.
    pub sql_mode: Option<u64>,
    /// auto_increment_increment and _offset.
    pub auto_increment: Option<(u16, u16)>,
    /// Collations of client, connection and server.
    pub charset: Option<(u16, u16, u16)>,
    /// time_zone.
    pub time_zone: Option<String>,
    /// Number of lc_time_names.
    pub lc_time_names: Option<u16>,
    /// Collation of the database.
    pub charset_database: Option<u16>,
    /// Databases that the statement changes.
    pub updated_databases: Vec<String>,
    /// Microseconds of the statement's time.
    pub micros: Option<u32>,
    /// explicit_defaults_for_timestamp.
    pub explicit_defaults: Option<bool>,
    /// Number of the transaction of a DDL statement.
    pub ddl_xid: Option<u64>,
    /// default_collation_for_utf8mb4.
    pub utf8mb4_collation: Option<u16>,
    /// sql_require_primary_key.
    pub require_primary_key: Option<bool>,
}

impl Settings {
    /// Appends them.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(flags) = self.flags2 {
            out.u8(FLAGS2);
            out.u32(flags);
        }
        if let Some(mode) = self.sql_mode {
            out.u8(SQL_MODE);
            out.u64(mode);
        }
        out.u8(CATALOG);
        out.short_bytes(CATALOG_NAME);
        if let Some((increment, offset)) = self.auto_increment {
            out.u8(AUTO_INCREMENT);
            out.u16(increment);
            out.u16(offset);
        }
        if let Some((client, connection, server)) = self.charset {
            out.u8(CHARSET);
            out.u16(client);
            out.u16(connection);
            out.u16(server);
        }
        if let Some(zone) = &self.time_zone {
            out.u8(TIME_ZONE);
            out.short_bytes(zone.as_bytes());
        }
        if let Some(number) = self.lc_time_names {
            out.u8(LC_TIME_NAMES);
            out.u16(number);
        }
        if let Some(collation) = self.charset_database {
            out.u8(CHARSET_DATABASE);
            out.u16(collation);
        }
        self.write_databases(out);
        if let Some(micros) = self.micros {
            out.u8(MICROSECONDS);
            out.uint(micros.into(), 3);
        }
        if let Some(explicit) = self.explicit_defaults {
            out.bytes(&[EXPLICIT_DEFAULTS, explicit.into()]);
        }
        if let Some(xid) = self.ddl_xid {
            out.u8(DDL_XID);
            out.u64(xid);
        }
        if let Some(collation) = self.utf8mb4_collation {
            out.u8(UTF8MB4_COLLATION);
            out.u16(collation);
        }
        if let Some(required) = self.require_primary_key {
            out.bytes(&[REQUIRE_PRIMARY_KEY, required.into()]);
        }
    }

    fn write_databases(&self, out: &mut Vec<u8>) {
        if self.updated_databases.is_empty() {
            return;
        }
        out.u8(UPDATED_DATABASES);
        if self.updated_databases.len() > MAX_DATABASES {
            out.u8(TOO_MANY_DATABASES);
            return;
        }
        out.u8(self.updated_databases.len() as u8);
        for database in &self.updated_databases {
            out.bytes(database.as_bytes());
            out.u8(0);
        }
    }

    /// Reads them.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let mut settings = Self::default();
        while !r.is_empty() {
            match r.u8()? {
                FLAGS2 => settings.flags2 = Some(r.u32()?),
                SQL_MODE => settings.sql_mode = Some(r.u64()?),
                CATALOG => {
                    r.short_bytes()?;
                }
                AUTO_INCREMENT => settings.auto_increment = Some((r.u16()?, r.u16()?)),
                CHARSET => settings.charset = Some((r.u16()?, r.u16()?, r.u16()?)),
                TIME_ZONE => settings.time_zone = Some(text(r.short_bytes()?)),
                LC_TIME_NAMES => settings.lc_time_names = Some(r.u16()?),
                CHARSET_DATABASE => settings.charset_database = Some(r.u16()?),
                TABLE_MAP_FOR_UPDATE => {
                    r.u64()?;
                }
                INVOKER => {
                    r.short_bytes()?;
                    r.short_bytes()?;
                }
                UPDATED_DATABASES => {
                    let count = r.u8()?;
                    for _ in 0..(if count == TOO_MANY_DATABASES {
                        0
                    } else {
                        count
                    }) {
                        settings.updated_databases.push(text(until_zero(&mut r)?));
                    }
                }
                MICROSECONDS | MARIADB_MICROSECONDS => settings.micros = Some(r.uint(3)? as u32),
                MARIADB_XID => {
                    r.u64()?;
                    let flags = settings.flags2.unwrap_or(0);
                    settings.explicit_defaults = Some(flags & MARIADB_EXPLICIT_DEFAULTS != 0);
                }
                EXPLICIT_DEFAULTS => settings.explicit_defaults = Some(r.u8()? != 0),
                DDL_XID => settings.ddl_xid = Some(r.u64()?),
                UTF8MB4_COLLATION => settings.utf8mb4_collation = Some(r.u16()?),
                REQUIRE_PRIMARY_KEY => settings.require_primary_key = Some(r.u8()? != 0),
                TABLE_ENCRYPTION => {
                    r.u8()?;
                }
                // Newer than this reader.
                _ => break,
            }
        }
        Ok(settings)
    }
}

/// The body of a QUERY event of this server, with the number of its transaction among the settings.
pub(crate) fn with_ddl_xid(body: &[u8], xid: u64) -> Result<Vec<u8>> {
    let mut query = Query::parse(body)?;
    let mut settings = Settings::parse(query.settings)?;
    settings.ddl_xid = Some(xid);
    let mut bytes = Vec::with_capacity(query.settings.len() + 9);
    settings.write(&mut bytes);
    query.settings = &bytes;
    let mut out = Vec::with_capacity(body.len() + 9);
    query.write(&mut out);
    Ok(out)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until_zero<'a>(r: &mut Reader<'a>) -> Result<&'a [u8]> {
    let mut ahead = *r;
    let len = ahead.rest().iter().position(|b| *b == 0);
    let bytes = r.take(len.ok_or_else(|| damaged("query event: no end of a name"))?)?;
    r.u8()?;
    Ok(bytes)
}

/// A statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// Number of the session.
    pub thread_id: u32,
    /// Seconds it took.
    pub seconds: u32,
    /// Code of the error it ended with.
    pub error: u16,
    /// Default database.
    pub schema: &'a [u8],
    /// [`Settings`], as bytes.
    pub settings: &'a [u8],
    /// The statement.
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let schema = &self.schema[..self.schema.len().min(255)];
        out.u32(self.thread_id);
        out.u32(self.seconds);
        out.u8(schema.len() as u8);
        out.u16(self.error);
        out.u16(self.settings.len() as u16);
        out.bytes(self.settings);
        out.bytes(schema);
        out.u8(0);
        out.bytes(self.text);
    }

    /// Reads the body.
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(body);
        let (thread_id, seconds) = (r.u32()?, r.u32()?);
        let schema_len = usize::from(r.u8()?);
        let error = r.u16()?;
        let settings_len = usize::from(r.u16()?);
        let settings = r.take(settings_len)?;
        let schema = r.take(schema_len)?;
        r.u8()?;
        Ok(Self {
            thread_id,
            seconds,
            error,
            schema,
            settings,
            text: r.rest(),
        })
    }
}

/// Where the numbers of collations stand in the body of a statement.
pub fn collations(body: &[u8]) -> Result<Vec<usize>> {
    let settings = Query::parse(body)?.settings;
    let end = FIXED_BYTES + settings.len();
    let mut r = Reader::new(settings);
    let mut places = Vec::new();
    while !r.is_empty() {
        let code = r.u8()?;
        let at = end - r.len();
        let fixed = match code {
            CHARSET => {
                places.extend([at, at + 2, at + 4]);
                6
            }
            CHARSET_DATABASE => {
                places.push(at);
                2
            }
            FLAGS2 | AUTO_INCREMENT => 4,
            SQL_MODE | TABLE_MAP_FOR_UPDATE | DDL_XID => 8,
            LC_TIME_NAMES | UTF8MB4_COLLATION => 2,
            MICROSECONDS => 3,
            EXPLICIT_DEFAULTS | REQUIRE_PRIMARY_KEY | TABLE_ENCRYPTION => 1,
            CATALOG | TIME_ZONE => r.u8()?.into(),
            // Those with collations stand before the rest.
            _ => break,
        };
        r.take(fixed)?;
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings of CREATE TABLE as MariaDB 10.11 has written them.
    fn of_mariadb(flags: u32, xid: u64) -> Settings {
        let mut bytes = vec![FLAGS2];
        bytes.u32(flags);
        bytes.u8(SQL_MODE);
        bytes.u64(0x5420_0000);
        bytes.bytes(b"\x06\x03std\x04\x2d\0\x2d\0\x08\0\x81");
        bytes.u64(xid);
        Settings::parse(&bytes).expect("settings")
    }

    #[test]
    fn mariadb_says_among_its_flags_whether_defaults_are_explicit() {
        let (without, with) = (of_mariadb(0, 8), of_mariadb(0x100_0000, 10));
        assert_eq!(without.explicit_defaults, Some(false));
        assert_eq!(with.explicit_defaults, Some(true));
        assert_eq!(with.charset, Some((45, 45, 8)));
    }
}
