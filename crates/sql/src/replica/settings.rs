//! How a channel is configured: what CHANGE REPLICATION SOURCE and CHANGE REPLICATION FILTER say.
//!
//! ```text
//! version u8 = 1 | (name, value)*      each text: length u32, bytes
//! ```
//! Neighbours: `options` reads what statements say into it, `channel` keeps it. **Invariants**: values of the catalog
//! are checked; what an older server has kept is read, with defaults for the rest.

use esker_types::{SqlResult, errors};

use super::options::{account, change_filters, flag, key_check, number};
use crate::applier::{Anonymous, Filters, KeyCheck};

const VERSION: u8 = 1;
const DEFAULT_PORT: u16 = 3306;
const DEFAULT_RETRY: u32 = 60;
const DEFAULT_RETRIES: u64 = 10;
const DEFAULT_ZSTD_LEVEL: u8 = 3;
/// Highest SOURCE_ZSTD_COMPRESSION_LEVEL.
pub(super) const MAX_ZSTD_LEVEL: u8 = 22;

/// A source that a channel may go over to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSource {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// From 1 to 100: the heaviest comes first.
    pub weight: u8,
}

/// How a channel is configured.
#[derive(Clone, PartialEq)]
pub struct ChannelSettings {
    /// The source's host; empty: there is none.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The account there.
    pub user: String,
    /// Its password.
    pub password: String,
    /// Seconds between attempts.
    pub connect_retry: u32,
    /// Attempts; 0: no limit.
    pub retry_count: u64,
    /// Seconds of silence before the source sends a heartbeat; `None`: half of `replica_net_timeout`.
    pub heartbeat: Option<f64>,
    /// By MySQL's GTIDs.
    pub auto_position: bool,
    /// By MariaDB's.
    pub maria_gtid: bool,
    /// TLS.
    pub ssl: bool,
    /// File of certificate authorities.
    pub ssl_ca: String,
    /// Folder of more of them.
    pub ssl_capath: String,
    /// File of the certificate with which this server shows who it is.
    pub ssl_cert: String,
    /// File of its key.
    pub ssl_key: String,
    /// Suites of TLS 1.2 that may be used; empty: all.
    pub ssl_cipher: String,
    /// File of certificates that are void.
    pub ssl_crl: String,
    /// Folder of more of them.
    pub ssl_crlpath: String,
    /// Versions of TLS that may be used; empty: all.
    pub tls_version: String,
    /// Suites of TLS 1.3 that may be used; `None`: all.
    pub tls_ciphersuites: Option<String>,
    /// File of the key that encrypts the password where the connection is not encrypted.
    pub public_key_path: String,
    /// The source's certificate must name the host.
    pub ssl_verify: bool,
    /// The key for the password may be asked of the source.
    pub get_public_key: bool,
    /// The network namespace that connections are made in; empty: the server's own, and no other can be had.
    pub network_namespace: String,
    /// The address that connections come from; empty: any.
    pub bind: String,
    /// Algorithms that may compress the connection, with commas.
    pub compression: String,
    /// The level of zstd.
    pub zstd_level: u8,
    /// Statements that change rows are refused.
    pub row_format: bool,
    /// Places are not what the channel goes on by. They are not here anyway.
    pub gtid_only: bool,
    /// User and host of the account that must have the rights for what is applied.
    pub checks_user: Option<(String, String)>,
    /// Where the source does not answer, the channel goes over to another one that is listed.
    pub auto_failover: bool,
    /// Sources that it may go over to, the heaviest first.
    pub sources: Vec<OtherSource>,
    /// What becomes of transactions without GTIDs.
    pub anonymous: Anonymous,
    /// Seconds that the applier stays behind.
    pub delay: u32,
    /// Servers whose transactions are left out.
    pub ignored_servers: Vec<u32>,
    /// Do new tables need a primary key?
    pub key_check: KeyCheck,
    /// What is applied.
    pub filters: Filters,
    /// Since when, microseconds since the epoch.
    pub filters_since: i64,
    /// CHANGE REPLICATION FILTER has named the channel.
    pub has_own_filters: bool,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: DEFAULT_PORT,
            user: String::new(),
            password: String::new(),
            connect_retry: DEFAULT_RETRY,
            retry_count: DEFAULT_RETRIES,
            heartbeat: None,
            auto_position: false,
            maria_gtid: false,
            ssl: false,
            ssl_ca: String::new(),
            ssl_capath: String::new(),
            ssl_cert: String::new(),
            ssl_key: String::new(),
            ssl_cipher: String::new(),
            ssl_crl: String::new(),
            ssl_crlpath: String::new(),
            tls_version: String::new(),
            tls_ciphersuites: None,
            public_key_path: String::new(),
            ssl_verify: false,
            get_public_key: false,
            network_namespace: String::new(),
            bind: String::new(),
            compression: "uncompressed".to_owned(),
            zstd_level: DEFAULT_ZSTD_LEVEL,
            row_format: false,
            gtid_only: false,
            checks_user: None,
            auto_failover: false,
            sources: Vec::new(),
            anonymous: Anonymous::Off,
            delay: 0,
            ignored_servers: Vec::new(),
            key_check: KeyCheck::default(),
            filters: Filters::default(),
            filters_since: 0,
            has_own_filters: false,
        }
    }
}

impl ChannelSettings {
    /// Takes the rules of CHANGE REPLICATION FILTER.
    ///
    /// # Errors
    /// 1235: no such kind of rule; 1210: a rule that names nothing.
    pub(super) fn change_filters(
        &mut self,
        rules: &[(Box<str>, Vec<Box<str>>)],
        is_own: bool,
        now: i64,
    ) -> SqlResult<()> {
        change_filters(&mut self.filters, rules)?;
        self.has_own_filters = is_own;
        self.filters_since = now;
        Ok(())
    }

    /// Do heartbeats come less often than a silence may last?
    pub(super) fn has_long_heartbeat(&self, timeout: u64) -> bool {
        self.heartbeat
            .is_some_and(|seconds| seconds > timeout as f64)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let flag = |is_on: bool| u8::from(is_on).to_string();
        let pairs = |pairs: &[(String, String)]| -> Vec<String> {
            pairs.iter().map(|(a, b)| format!("{a}\0{b}")).collect()
        };
        let mut fields = vec![
            ("host", self.host.clone()),
            ("port", self.port.to_string()),
            ("user", self.user.clone()),
            ("password", self.password.clone()),
            ("connect_retry", self.connect_retry.to_string()),
            ("retry_count", self.retry_count.to_string()),
            ("auto_position", flag(self.auto_position)),
            ("maria_gtid", flag(self.maria_gtid)),
            ("ssl", flag(self.ssl)),
            ("ssl_ca", self.ssl_ca.clone()),
            ("ssl_capath", self.ssl_capath.clone()),
            ("ssl_cert", self.ssl_cert.clone()),
            ("ssl_key", self.ssl_key.clone()),
            ("ssl_cipher", self.ssl_cipher.clone()),
            ("ssl_crl", self.ssl_crl.clone()),
            ("ssl_crlpath", self.ssl_crlpath.clone()),
            ("tls_version", self.tls_version.clone()),
            ("public_key_path", self.public_key_path.clone()),
            ("ssl_verify", flag(self.ssl_verify)),
            ("get_public_key", flag(self.get_public_key)),
            ("namespace", self.network_namespace.clone()),
            ("bind", self.bind.clone()),
            ("compression", self.compression.clone()),
            ("zstd_level", self.zstd_level.to_string()),
            ("row_format", flag(self.row_format)),
            ("gtid_only", flag(self.gtid_only)),
            ("auto_failover", flag(self.auto_failover)),
            ("names_anonymous", anonymous_text(self.anonymous)),
            ("delay", self.delay.to_string()),
            ("key_check", self.key_check.name().to_owned()),
            ("filters_since", self.filters_since.to_string()),
            ("own_filters", flag(self.has_own_filters)),
        ];
        let checks = self.checks_user.as_ref();
        fields.extend(checks.map(|(user, host)| ("checks_user", format!("{user}\0{host}"))));
        let suites = self.tls_ciphersuites.clone();
        fields.extend(suites.map(|suites| ("tls_suites", suites)));
        fields.extend(
            self.heartbeat
                .map(|seconds| ("heartbeat", seconds.to_string())),
        );
        let ignored = self.ignored_servers.iter().map(ToString::to_string);
        fields.extend(ignored.map(|id| ("ignored", id)));
        let others = self.sources.iter();
        let other = |one: &OtherSource| format!("{}\0{}\0{}", one.host, one.port, one.weight);
        fields.extend(others.map(|one| ("source", other(one))));
        let filters = &self.filters;
        for (name, list) in [
            ("do_db", filters.do_db.clone()),
            ("ignore_db", filters.ignore_db.clone()),
            ("do_table", pairs(&filters.do_table)),
            ("ignore_table", pairs(&filters.ignore_table)),
            ("wild_do_table", filters.wild_do_table.clone()),
            ("wild_ignore_table", filters.wild_ignore_table.clone()),
            ("rewrite_db", pairs(&filters.rewrite_db)),
        ] {
            fields.extend(list.into_iter().map(|member| (name, member)));
        }
        fields
    }

    fn set_field(&mut self, name: &str, text: &str) -> SqlResult<()> {
        let pair = || -> SqlResult<(String, String)> {
            let (a, b) = text
                .split_once('\0')
                .ok_or_else(|| errors::wrong_arguments(name))?;
            Ok((a.to_owned(), b.to_owned()))
        };
        let filters = &mut self.filters;
        match name {
            "host" => text.clone_into(&mut self.host),
            "port" => self.port = number(name, text)?,
            "user" => text.clone_into(&mut self.user),
            "password" => text.clone_into(&mut self.password),
            "connect_retry" => self.connect_retry = number(name, text)?,
            "retry_count" => self.retry_count = number(name, text)?,
            "auto_position" => self.auto_position = flag(name, text)?,
            "maria_gtid" => self.maria_gtid = flag(name, text)?,
            "ssl" => self.ssl = flag(name, text)?,
            "ssl_ca" => text.clone_into(&mut self.ssl_ca),
            "ssl_capath" => text.clone_into(&mut self.ssl_capath),
            "ssl_cert" => text.clone_into(&mut self.ssl_cert),
            "ssl_key" => text.clone_into(&mut self.ssl_key),
            "ssl_cipher" => text.clone_into(&mut self.ssl_cipher),
            "ssl_crl" => text.clone_into(&mut self.ssl_crl),
            "ssl_crlpath" => text.clone_into(&mut self.ssl_crlpath),
            "tls_version" => text.clone_into(&mut self.tls_version),
            // Older servers have kept nothing as an empty text.
            "tls_ciphersuites" if text.is_empty() => {}
            "tls_ciphersuites" | "tls_suites" => self.tls_ciphersuites = Some(text.to_owned()),
            "public_key_path" => text.clone_into(&mut self.public_key_path),
            "ssl_verify" => self.ssl_verify = flag(name, text)?,
            "get_public_key" => self.get_public_key = flag(name, text)?,
            "namespace" => text.clone_into(&mut self.network_namespace),
            "bind" => text.clone_into(&mut self.bind),
            "compression" => text.clone_into(&mut self.compression),
            "zstd_level" => self.zstd_level = number(name, text)?,
            "row_format" => self.row_format = flag(name, text)?,
            "gtid_only" => self.gtid_only = flag(name, text)?,
            "auto_failover" => self.auto_failover = flag(name, text)?,
            "source" => self.sources.push(other_source(name, text)?),
            "names_anonymous" => self.anonymous = kept_anonymous(name, text)?,
            "checks_user" => self.checks_user = account(text),
            "delay" => self.delay = number(name, text)?,
            "key_check" => self.key_check = key_check(name, text)?,
            "heartbeat" => self.heartbeat = Some(number(name, text)?),
            "filters_since" => self.filters_since = number(name, text)?,
            "own_filters" => self.has_own_filters = flag(name, text)?,
            "ignored" => self.ignored_servers.push(number(name, text)?),
            "do_db" => filters.do_db.push(text.to_owned()),
            "ignore_db" => filters.ignore_db.push(text.to_owned()),
            "do_table" => filters.do_table.push(pair()?),
            "ignore_table" => filters.ignore_table.push(pair()?),
            "wild_do_table" => filters.wild_do_table.push(text.to_owned()),
            "wild_ignore_table" => filters.wild_ignore_table.push(text.to_owned()),
            "rewrite_db" => filters.rewrite_db.push(pair()?),
            _ => return Err(errors::wrong_arguments(name)),
        }
        Ok(())
    }

    /// The form in the catalog.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        for (name, value) in self.fields() {
            for text in [name, &value] {
                out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
        out
    }

    /// Reads it.
    ///
    /// # Errors
    /// 1872: it is damaged.
    pub(super) fn decode(bytes: &[u8]) -> SqlResult<Self> {
        let damaged = || {
            let text =
                "Replica failed to initialize applier metadata structure from the repository";
            errors::channel_damaged(text)
        };
        let Some((&VERSION, mut rest)) = bytes.split_first() else {
            return Err(damaged());
        };
        let mut settings = Self::default();
        while !rest.is_empty() {
            let name = take_text(&mut rest).ok_or_else(damaged)?;
            let value = take_text(&mut rest).ok_or_else(damaged)?;
            settings.set_field(name, value).map_err(|_| damaged())?;
        }
        Ok(settings)
    }
}

fn other_source(name: &str, text: &str) -> SqlResult<OtherSource> {
    let parts: Vec<&str> = text.split('\0').collect();
    let [host, port, weight] = parts[..] else {
        return Err(errors::wrong_arguments(name));
    };
    Ok(OtherSource {
        host: host.to_owned(),
        port: number(name, port)?,
        weight: number(name, weight)?,
    })
}

/// As it is kept: 0, 1 for LOCAL, or a UUID.
fn anonymous_text(anonymous: Anonymous) -> String {
    match anonymous {
        Anonymous::Off => "0".to_owned(),
        Anonymous::Local => "1".to_owned(),
        Anonymous::Uuid(sid) => sid.to_string(),
    }
}

fn kept_anonymous(name: &str, text: &str) -> SqlResult<Anonymous> {
    match text {
        "0" => Ok(Anonymous::Off),
        "1" => Ok(Anonymous::Local),
        uuid => uuid
            .parse()
            .map(Anonymous::Uuid)
            .map_err(|_| errors::wrong_arguments(name)),
    }
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (text, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";

    fn option(name: &str, value: &str) -> (Box<str>, Option<Vec<u8>>) {
        (name.into(), Some(value.as_bytes().to_vec()))
    }

    #[test]
    fn old_and_new_words_say_the_same() {
        let (mut old, mut new) = (ChannelSettings::default(), ChannelSettings::default());
        let changed = old.change(
            "",
            &[option("MASTER_HOST", "h"), option("MASTER_LOG_POS", "4")],
        );
        let same = new.change(
            "",
            &[option("SOURCE_HOST", "h"), option("SOURCE_LOG_POS", "4")],
        );
        assert_eq!(changed.expect("old"), same.expect("new"));
        assert!(old == new && old.host == "h");
    }

    #[test]
    fn settings_come_back_from_the_catalog() {
        let mut settings = ChannelSettings::default();
        let options = [
            option("SOURCE_HOST", "db1"),
            option("SOURCE_PASSWORD", "p\0'w"),
            option("SOURCE_HEARTBEAT_PERIOD", "1.5"),
            option("SOURCE_AUTO_POSITION", "1"),
            option("IGNORE_SERVER_IDS", "(3, 2,3)"),
            option("SOURCE_BIND", "127.0.0.1"),
            option("SOURCE_COMPRESSION_ALGORITHMS", "zstd,ZLIB"),
            option("SOURCE_ZSTD_COMPRESSION_LEVEL", "7"),
            option("SOURCE_TLS_CIPHERSUITES", ""),
            option("SOURCE_SSL_CAPATH", "authorities"),
            option("SOURCE_SSL_CRLPATH", "void"),
            option("REQUIRE_ROW_FORMAT", "1"),
            option("PRIVILEGE_CHECKS_USER", "u\0localhost"),
            option("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS", UUID),
        ];
        settings.change("", &options).expect("options");
        settings.sources.push(OtherSource {
            host: "db2".to_owned(),
            port: 3307,
            weight: 60,
        });
        let rules = [
            ("REPLICATE_DO_TABLE".into(), vec!["`a b`.t".into()]),
            ("REPLICATE_REWRITE_DB".into(), vec!["(a, b)".into()]),
        ];
        settings.change_filters(&rules, true, 7).expect("rules");
        assert_eq!(settings.ignored_servers, [2, 3]);
        assert_eq!(
            settings.filters.do_table,
            [("a b".to_owned(), "t".to_owned())]
        );
        let bytes = settings.encode();
        assert!(ChannelSettings::decode(&bytes).expect("decode") == settings);
        for end in 0..bytes.len() {
            // Cut between two fields it is shorter, else damaged; never a panic.
            let _ = ChannelSettings::decode(&bytes[..end]);
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        let mut settings = ChannelSettings::default();
        let code = |settings: &mut ChannelSettings, name, value| {
            settings
                .change("", &[option(name, value)])
                .map_err(|e| e.code)
        };
        assert_eq!(code(&mut settings, "SOURCE_DELAY", "x"), Err(1210));
        for (name, value, expected) in [
            ("SOURCE_DELAY", "2147483648", 1729),
            ("REQUIRE_ROW_FORMAT", "2", 3945),
            ("SOURCE_COMPRESSION_ALGORITHMS", "zlib,foo", 3920),
            ("SOURCE_COMPRESSION_ALGORITHMS", "zlib,zlib,zlib,zlib", 3924),
            ("SOURCE_ZSTD_COMPRESSION_LEVEL", "23", 3921),
            ("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS", "aaa", 1525),
        ] {
            assert_eq!(code(&mut settings, name, value), Err(expected), "{name}");
        }
        assert_eq!(
            code(&mut settings, "SOURCE_HEARTBEAT_PERIOD", "-1"),
            Err(1624)
        );
    }
}
