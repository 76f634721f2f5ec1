//! How a channel is configured: what CHANGE REPLICATION SOURCE and CHANGE REPLICATION FILTER say.
//!
//! ```text
//! version u8 = 1 | (name, value)*      each text: length u32, bytes
//! ```
//! Neighbours: `statements` reads the options into it, `channel` keeps it. **Invariants**: old and new words of an
//! option mean the same; an option that would have no effect here is refused unless it is empty; values of the catalog
//! are checked.

use esker_types::{SqlError, SqlResult, errors};

use crate::applier::{Filters, KeyCheck};

const VERSION: u8 = 1;
const DEFAULT_PORT: u16 = 3306;
const DEFAULT_RETRY: u32 = 60;
const DEFAULT_RETRIES: u64 = 10;
/// Longest SOURCE_DELAY, seconds.
const MAX_DELAY: u32 = (1 << 31) - 1;
/// Longest heartbeat period, seconds.
const MAX_HEARTBEAT: f64 = 4_294_967.0;

/// Options that this server has no use for. They may be set to nothing.
const WITHOUT_EFFECT: &[&str] = &[
    "SOURCE_BIND",
    "SOURCE_SSL_CAPATH",
    "SOURCE_SSL_CIPHER",
    "SOURCE_SSL_CRL",
    "SOURCE_SSL_CRLPATH",
    "SOURCE_TLS_VERSION",
    "SOURCE_TLS_CIPHERSUITES",
    "SOURCE_PUBLIC_KEY_PATH",
    "NETWORK_NAMESPACE",
    "PRIVILEGE_CHECKS_USER",
];

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
    /// File of the certificate with which this server shows who it is.
    pub ssl_cert: String,
    /// File of its key.
    pub ssl_key: String,
    /// The source's certificate must name the host.
    pub ssl_verify: bool,
    /// The key for the password may be asked of the source.
    pub get_public_key: bool,
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
            ssl_cert: String::new(),
            ssl_key: String::new(),
            ssl_verify: false,
            get_public_key: false,
            delay: 0,
            ignored_servers: Vec::new(),
            key_check: KeyCheck::default(),
            filters: Filters::default(),
            filters_since: 0,
            has_own_filters: false,
        }
    }
}

/// Where events are to come from, if a statement says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NewPlace {
    pub(super) file: Option<String>,
    pub(super) position: Option<u64>,
    /// It is another source.
    pub(super) is_other_source: bool,
}

fn key_check(name: &str, text: &str) -> SqlResult<KeyCheck> {
    KeyCheck::by_name(text).ok_or_else(|| errors::wrong_arguments(name))
}

fn number<N: std::str::FromStr>(name: &str, text: &str) -> SqlResult<N> {
    text.parse().map_err(|_| errors::wrong_arguments(name))
}

fn flag(name: &str, text: &str) -> SqlResult<bool> {
    match number::<u64>(name, text)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(errors::wrong_arguments(name)),
    }
}

/// `(1, 2)`.
fn numbers(name: &str, text: &str) -> SqlResult<Vec<u32>> {
    let inner = text.trim().trim_start_matches('(').trim_end_matches(')');
    let parts = inner
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut numbers: Vec<u32> = parts
        .map(|part| number(name, part))
        .collect::<SqlResult<_>>()?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

impl ChannelSettings {
    /// Takes the options of CHANGE REPLICATION SOURCE.
    ///
    /// # Errors
    /// 1210, 1235.
    pub(super) fn change(
        &mut self,
        options: &[(Box<str>, Option<Vec<u8>>)],
    ) -> SqlResult<NewPlace> {
        let mut place = NewPlace::default();
        for (written, value) in options {
            let name = written.replace("MASTER_", "SOURCE_");
            let text = value
                .as_deref()
                .map(String::from_utf8_lossy)
                .unwrap_or_default();
            self.option(&name, &text, &mut place)?;
        }
        Ok(place)
    }

    fn option(&mut self, name: &str, text: &str, place: &mut NewPlace) -> SqlResult<()> {
        match name {
            "SOURCE_HOST" => {
                place.is_other_source |= self.host != text;
                text.clone_into(&mut self.host);
            }
            "SOURCE_PORT" => {
                let port = number(name, text)?;
                place.is_other_source |= self.port != port;
                self.port = port;
            }
            "SOURCE_USER" => text.clone_into(&mut self.user),
            "SOURCE_PASSWORD" => text.clone_into(&mut self.password),
            "SOURCE_CONNECT_RETRY" => self.connect_retry = number(name, text)?,
            "SOURCE_RETRY_COUNT" => self.retry_count = number(name, text)?,
            "SOURCE_HEARTBEAT_PERIOD" => {
                let seconds: f64 = number(name, text)?;
                if !(0.0..=MAX_HEARTBEAT).contains(&seconds) {
                    let text = "The requested value for the heartbeat period is either negative or exceeds the maximum \
                                allowed (4294967 seconds).";
                    return Err(SqlError::new(1624, "HY000", text));
                }
                self.heartbeat = Some(seconds);
            }
            "SOURCE_LOG_FILE" => place.file = Some(text.to_owned()),
            "SOURCE_LOG_POS" => place.position = Some(number(name, text)?),
            "SOURCE_AUTO_POSITION" => {
                self.auto_position = flag(name, text)?;
                self.maria_gtid &= !self.auto_position;
            }
            "SOURCE_USE_GTID" => self.use_gtid(name, text)?,
            "SOURCE_SSL" => self.ssl = flag(name, text)?,
            "SOURCE_SSL_CA" => text.clone_into(&mut self.ssl_ca),
            "SOURCE_SSL_CERT" => text.clone_into(&mut self.ssl_cert),
            "SOURCE_SSL_KEY" => text.clone_into(&mut self.ssl_key),
            "SOURCE_SSL_VERIFY_SERVER_CERT" => self.ssl_verify = flag(name, text)?,
            "GET_SOURCE_PUBLIC_KEY" => self.get_public_key = flag(name, text)?,
            "SOURCE_DELAY" => {
                self.delay = number(name, text)?;
                if self.delay > MAX_DELAY {
                    return Err(errors::wrong_arguments(name));
                }
            }
            "IGNORE_SERVER_IDS" => self.ignored_servers = numbers(name, text)?,
            "REQUIRE_ROW_FORMAT" | "GTID_ONLY" if flag(name, text)? => {
                return Err(SqlError::not_supported(format_args!("{name} = 1")));
            }
            // What these say is so here anyway.
            "REQUIRE_ROW_FORMAT" | "GTID_ONLY" => {}
            "REQUIRE_TABLE_PRIMARY_KEY_CHECK" => self.key_check = key_check(name, text)?,
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS" if text.eq_ignore_ascii_case("OFF") => {}
            "SOURCE_COMPRESSION_ALGORITHMS" if text.eq_ignore_ascii_case("uncompressed") => {}
            "SOURCE_ZSTD_COMPRESSION_LEVEL" | "SOURCE_CONNECTION_AUTO_FAILOVER"
                if text == "0" || text == "3" => {}
            name if WITHOUT_EFFECT.contains(&name) && text.is_empty() => {}
            name => return Err(SqlError::not_supported(name)),
        }
        Ok(())
    }

    fn use_gtid(&mut self, name: &str, text: &str) -> SqlResult<()> {
        self.maria_gtid = match text.to_ascii_lowercase().as_str() {
            "no" => false,
            "slave_pos" | "replica_pos" | "current_pos" => true,
            _ => return Err(errors::wrong_arguments(name)),
        };
        self.auto_position &= !self.maria_gtid;
        Ok(())
    }

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
            ("ssl_cert", self.ssl_cert.clone()),
            ("ssl_key", self.ssl_key.clone()),
            ("ssl_verify", flag(self.ssl_verify)),
            ("get_public_key", flag(self.get_public_key)),
            ("delay", self.delay.to_string()),
            ("key_check", self.key_check.name().to_owned()),
            ("filters_since", self.filters_since.to_string()),
            ("own_filters", flag(self.has_own_filters)),
        ];
        fields.extend(
            self.heartbeat
                .map(|seconds| ("heartbeat", seconds.to_string())),
        );
        let ignored = self.ignored_servers.iter().map(ToString::to_string);
        fields.extend(ignored.map(|id| ("ignored", id)));
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
            "ssl_cert" => text.clone_into(&mut self.ssl_cert),
            "ssl_key" => text.clone_into(&mut self.ssl_key),
            "ssl_verify" => self.ssl_verify = flag(name, text)?,
            "get_public_key" => self.get_public_key = flag(name, text)?,
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

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, tail) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (text, tail) = tail.split_at_checked(length)?;
    *rest = tail;
    std::str::from_utf8(text).ok()
}

/// Takes the rules of CHANGE REPLICATION FILTER.
///
/// # Errors
/// 1235: no such kind of rule; 1210: a rule that names nothing.
pub(super) fn change_filters(
    filters: &mut Filters,
    rules: &[(Box<str>, Vec<Box<str>>)],
) -> SqlResult<()> {
    for (name, members) in rules {
        let plain = || members.iter().map(|member| unquoted(member)).collect();
        match &**name {
            "REPLICATE_DO_DB" => filters.do_db = plain(),
            "REPLICATE_IGNORE_DB" => filters.ignore_db = plain(),
            "REPLICATE_DO_TABLE" => filters.do_table = pairs(members, '.')?,
            "REPLICATE_IGNORE_TABLE" => filters.ignore_table = pairs(members, '.')?,
            "REPLICATE_WILD_DO_TABLE" => filters.wild_do_table = plain(),
            "REPLICATE_WILD_IGNORE_TABLE" => filters.wild_ignore_table = plain(),
            "REPLICATE_REWRITE_DB" => filters.rewrite_db = pairs(members, ',')?,
            name => return Err(SqlError::not_supported(name)),
        }
    }
    Ok(())
}

fn unquoted(name: &str) -> String {
    let name = name.trim();
    match name
        .strip_prefix('`')
        .and_then(|name| name.strip_suffix('`'))
    {
        Some(inner) => inner.replace("``", "`"),
        None => name.to_owned(),
    }
}

/// `d.t`, or `(a, b)`.
fn pairs(members: &[Box<str>], between: char) -> SqlResult<Vec<(String, String)>> {
    let pair = |member: &str| {
        let inner = member.trim().trim_start_matches('(').trim_end_matches(')');
        let (a, b) = inner.split_once(between)?;
        Some((unquoted(a), unquoted(b)))
    };
    let pairs: Option<_> = members.iter().map(|member| pair(member)).collect();
    pairs.ok_or_else(|| errors::wrong_arguments("CHANGE REPLICATION FILTER"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(name: &str, value: &str) -> (Box<str>, Option<Vec<u8>>) {
        (name.into(), Some(value.as_bytes().to_vec()))
    }

    #[test]
    fn old_and_new_words_say_the_same() {
        let (mut old, mut new) = (ChannelSettings::default(), ChannelSettings::default());
        let changed = old.change(&[option("MASTER_HOST", "h"), option("MASTER_LOG_POS", "4")]);
        let same = new.change(&[option("SOURCE_HOST", "h"), option("SOURCE_LOG_POS", "4")]);
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
        ];
        settings.change(&options).expect("options");
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
    fn what_has_no_effect_is_refused() {
        let mut settings = ChannelSettings::default();
        let code = |settings: &mut ChannelSettings, name, value| {
            settings.change(&[option(name, value)]).map_err(|e| e.code)
        };
        assert_eq!(code(&mut settings, "SOURCE_SSL_CRL", "crl.pem"), Err(1235));
        assert!(code(&mut settings, "SOURCE_SSL_CRL", "").is_ok());
        assert_eq!(code(&mut settings, "SOURCE_DELAY", "x"), Err(1210));
        assert_eq!(
            code(&mut settings, "SOURCE_HEARTBEAT_PERIOD", "-1"),
            Err(1624)
        );
    }
}
