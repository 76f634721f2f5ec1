//! The options of CHANGE REPLICATION SOURCE and the rules of CHANGE REPLICATION FILTER: how they are read.
//!
//! Neighbours: `statements` has them from the parser; `settings` keeps them. **Invariants**: old and new words of an
//! option mean the same; an option that is not known here is refused.

use esker_types::{SqlError, SqlResult, errors};

use super::settings::{ChannelSettings, MAX_ZSTD_LEVEL};
use crate::applier::{Anonymous, Filters, KeyCheck};

/// Longest SOURCE_DELAY, seconds.
const MAX_DELAY: u32 = (1 << 31) - 1;
/// Shortest heartbeat period but none, seconds.
const MIN_HEARTBEAT: f64 = 0.001;
/// Longest heartbeat period, seconds.
const MAX_HEARTBEAT: f64 = 4_294_967.0;

/// Characters of a UUID, with its hyphens.
const UUID_TEXT: usize = 36;
/// Longest password, characters.
const MAX_PASSWORD: usize = 32;

/// Algorithms that SOURCE_COMPRESSION_ALGORITHMS may name.
const MAX_ALGORITHMS: usize = 3;

/// Where events are to come from, if a statement says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct NewPlace {
    pub(super) file: Option<String>,
    pub(super) position: Option<u64>,
    /// The same in the relay log, of which nothing is thrown away then.
    pub(super) relay_file: Option<String>,
    pub(super) relay_position: Option<u64>,
    /// It is another source.
    pub(super) is_other_source: bool,
    /// The heartbeat period was too short, and is 0.
    pub(super) warns_of_heartbeat: bool,
}

impl NewPlace {
    /// Does the statement name a place of a log?
    pub(super) fn is_named(&self) -> bool {
        self.file.is_some() || self.position.is_some() || self.is_of_relay_log()
    }

    /// Does it name one of the relay log?
    pub(super) fn is_of_relay_log(&self) -> bool {
        self.relay_file.is_some() || self.relay_position.is_some()
    }
}

pub(super) fn key_check(name: &str, text: &str) -> SqlResult<KeyCheck> {
    KeyCheck::by_name(text).ok_or_else(|| errors::wrong_arguments(name))
}

pub(super) fn number<N: std::str::FromStr>(name: &str, text: &str) -> SqlResult<N> {
    text.parse().map_err(|_| errors::wrong_arguments(name))
}

/// Every number but 0 turns an option on, as in MySQL.
pub(super) fn flag(name: &str, text: &str) -> SqlResult<bool> {
    Ok(number::<u64>(name, text)? != 0)
}

/// 0 or 1: options for which MySQL takes nothing else.
fn strict_flag(name: &str, text: &str) -> SqlResult<bool> {
    match text {
        "0" | "1" => Ok(text == "1"),
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

/// 0 or 1.
fn row_format(text: &str) -> SqlResult<bool> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => {
            let text = format!(
                "The requested value {text} is invalid for REQUIRE_ROW_FORMAT, must be either 0 or 1."
            );
            Err(SqlError::new(3945, "HY000", text))
        }
    }
}

/// OFF, LOCAL, or a UUID.
fn anonymous(text: &str) -> SqlResult<Anonymous> {
    match text.to_ascii_uppercase().as_str() {
        "OFF" => Ok(Anonymous::Off),
        "LOCAL" => Ok(Anonymous::Local),
        _ => Some(text)
            .filter(|text| text.len() == UUID_TEXT)
            .and_then(|text| text.parse().ok())
            .map(Anonymous::Uuid)
            .ok_or_else(|| errors::incorrect_value("UUID", text)),
    }
}

/// At most as many characters as MySQL keeps.
fn password(text: &str) -> SqlResult<String> {
    match text.chars().count() <= MAX_PASSWORD {
        true => Ok(text.to_owned()),
        false => {
            let text = format!(
                "The password provided for the replication user exceeds the maximum length of {MAX_PASSWORD} characters"
            );
            Err(SqlError::new(3056, "HY000", text))
        }
    }
}

/// A list of `zlib`, `zstd` and `uncompressed`.
fn algorithms(channel: &str, text: &str) -> SqlResult<String> {
    let names: Vec<_> = text.split(',').collect();
    if names.len() > MAX_ALGORITHMS {
        let text = format!(
            "Specified compression algorithm list '{text}' exceeds total count of {MAX_ALGORITHMS} for channel \
             '{channel}'."
        );
        return Err(SqlError::new(3924, "HY000", text));
    }
    for name in names {
        let is_known = ["zlib", "zstd", "uncompressed"]
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name));
        if !is_known {
            let text =
                format!("Invalid SOURCE_COMPRESSION_ALGORITHMS '{name}' for channel '{channel}'.");
            return Err(SqlError::new(3920, "HY000", text));
        }
    }
    Ok(text.to_owned())
}

/// User and host, as the parser joins them.
pub(super) fn account(text: &str) -> Option<(String, String)> {
    let (user, host) = text.split_once('\0')?;
    Some((user.to_owned(), host.to_owned()))
}

impl ChannelSettings {
    /// Takes the options of CHANGE REPLICATION SOURCE.
    ///
    /// # Errors
    /// 1210, 1235, and those of options.
    pub(super) fn change(
        &mut self,
        channel: &str,
        options: &[(Box<str>, Option<Vec<u8>>)],
    ) -> SqlResult<NewPlace> {
        let mut place = NewPlace::default();
        for (written, value) in options {
            let name = written.replace("MASTER_", "SOURCE_");
            let text = value
                .as_deref()
                .map(String::from_utf8_lossy)
                .unwrap_or_default();
            match name.as_str() {
                "SOURCE_COMPRESSION_ALGORITHMS" => {
                    self.compression = algorithms(channel, &text)?;
                }
                "SOURCE_ZSTD_COMPRESSION_LEVEL" => self.take_zstd_level(channel, &text)?,
                "SOURCE_PASSWORD" => self.password = password(&text)?,
                "SOURCE_TLS_CIPHERSUITES" => {
                    self.tls_ciphersuites = value.as_ref().map(|_| text.into_owned());
                }
                "PRIVILEGE_CHECKS_USER" => {
                    self.checks_user = value.as_ref().and(account(&text));
                }
                _ => self.option(&name, &text, &mut place)?,
            }
        }
        // Who names a place goes by it, as in MariaDB.
        let is_use_gtid = |name: &str| matches!(name, "SOURCE_USE_GTID" | "MASTER_USE_GTID");
        self.maria_gtid &= !place.is_named() || options.iter().any(|(name, _)| is_use_gtid(name));
        Ok(place)
    }

    /// The option of this name, if it is a text that is kept as it is.
    fn text_option(&mut self, name: &str) -> Option<&mut String> {
        Some(match name {
            "SOURCE_USER" => &mut self.user,
            "SOURCE_BIND" => &mut self.bind,
            "NETWORK_NAMESPACE" => &mut self.network_namespace,
            "SOURCE_SSL_CA" => &mut self.ssl_ca,
            "SOURCE_SSL_CAPATH" => &mut self.ssl_capath,
            "SOURCE_SSL_CERT" => &mut self.ssl_cert,
            "SOURCE_SSL_KEY" => &mut self.ssl_key,
            "SOURCE_SSL_CIPHER" => &mut self.ssl_cipher,
            "SOURCE_SSL_CRL" => &mut self.ssl_crl,
            "SOURCE_SSL_CRLPATH" => &mut self.ssl_crlpath,
            "SOURCE_TLS_VERSION" => &mut self.tls_version,
            "SOURCE_PUBLIC_KEY_PATH" => &mut self.public_key_path,
            _ => return None,
        })
    }

    fn option(&mut self, name: &str, text: &str, place: &mut NewPlace) -> SqlResult<()> {
        if let Some(kept) = self.text_option(name) {
            text.clone_into(kept);
            return Ok(());
        }
        match name {
            "SOURCE_HOST" if text.is_empty() => return Err(errors::wrong_arguments(name)),
            "SOURCE_HOST" => {
                place.is_other_source |= self.host != text;
                text.clone_into(&mut self.host);
            }
            "SOURCE_PORT" => {
                let port = number(name, text)?;
                place.is_other_source |= self.port != port;
                self.port = port;
            }
            "SOURCE_CONNECT_RETRY" => self.connect_retry = number(name, text)?,
            "SOURCE_RETRY_COUNT" => self.retry_count = number(name, text)?,
            "SOURCE_HEARTBEAT_PERIOD" => {
                let seconds: f64 = number(name, text)?;
                if !(0.0..=MAX_HEARTBEAT).contains(&seconds) {
                    let text = "The requested value for the heartbeat period is either negative or exceeds the maximum \
                                allowed (4294967 seconds).";
                    return Err(SqlError::new(1624, "HY000", text));
                }
                let is_known = seconds == 0.0 || seconds >= MIN_HEARTBEAT;
                self.heartbeat = Some(if is_known { seconds } else { 0.0 });
                place.warns_of_heartbeat = !is_known;
            }
            "RELAY_LOG_FILE" => place.relay_file = Some(text.to_owned()),
            "RELAY_LOG_POS" => place.relay_position = Some(number(name, text)?),
            "SOURCE_LOG_FILE" => place.file = Some(text.to_owned()),
            "SOURCE_LOG_POS" => place.position = Some(number(name, text)?),
            "SOURCE_AUTO_POSITION" => {
                self.auto_position = flag(name, text)?;
                self.maria_gtid &= !self.auto_position;
            }
            "SOURCE_USE_GTID" => self.use_gtid(name, text)?,
            "SOURCE_SSL" => self.ssl = flag(name, text)?,
            "SOURCE_SSL_VERIFY_SERVER_CERT" => self.ssl_verify = flag(name, text)?,
            "GET_SOURCE_PUBLIC_KEY" => self.get_public_key = flag(name, text)?,
            "SOURCE_DELAY" => {
                let seconds: u64 = number(name, text)?;
                let known = u32::try_from(seconds).ok().filter(|s| *s <= MAX_DELAY);
                self.delay = known.ok_or_else(|| {
                    let text = format!(
                        "The requested value {seconds} for the source delay exceeds the maximum {MAX_DELAY}"
                    );
                    SqlError::new(1729, "HY000", text)
                })?;
            }
            "IGNORE_SERVER_IDS" => self.ignored_servers = numbers(name, text)?,
            "REQUIRE_ROW_FORMAT" => self.row_format = row_format(text)?,
            "GTID_ONLY" => self.gtid_only = strict_flag(name, text)?,
            "REQUIRE_TABLE_PRIMARY_KEY_CHECK" => self.key_check = key_check(name, text)?,
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS" => {
                self.anonymous = anonymous(text)?;
            }
            "SOURCE_CONNECTION_AUTO_FAILOVER" => self.auto_failover = strict_flag(name, text)?,
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

    /// SOURCE_ZSTD_COMPRESSION_LEVEL; 0 changes nothing, as in MySQL.
    fn take_zstd_level(&mut self, channel: &str, text: &str) -> SqlResult<()> {
        match number::<u64>("SOURCE_ZSTD_COMPRESSION_LEVEL", text)? {
            0 => {}
            level if level <= MAX_ZSTD_LEVEL.into() => self.zstd_level = level as u8,
            _ => {
                let text = format!(
                    "Invalid SOURCE_ZSTD_COMPRESSION_LEVEL {text} for channel '{channel}'."
                );
                return Err(SqlError::new(3921, "HY000", text));
            }
        }
        Ok(())
    }

    /// Can a channel go over to another source?
    ///
    /// # Errors
    /// 3990, 3991, 3993.
    fn check_failover(&self, asks: &dyn Fn(&str) -> bool, gtid_mode: &str) -> SqlResult<()> {
        let asks_for_it = asks("SOURCE_CONNECTION_AUTO_FAILOVER");
        let (code, text) = match (self.auto_position, asks_for_it) {
            (_, true) if gtid_mode != "ON" => (
                3990,
                "Failed to enable Asynchronous Replication Connection Failover feature. The CHANGE REPLICATION SOURCE \
                 TO SOURCE_CONNECTION_AUTO_FAILOVER = 1 can only be set when @@GLOBAL.GTID_MODE = ON.",
            ),
            (true, _) => return Ok(()),
            (false, true) => (
                3991,
                "Failed to enable Asynchronous Replication Connection Failover feature. The CHANGE REPLICATION SOURCE \
                 TO SOURCE_CONNECTION_AUTO_FAILOVER = 1 can only be set when SOURCE_AUTO_POSITION option of CHANGE \
                 REPLICATION SOURCE TO is enabled.",
            ),
            (false, false) => (
                3993,
                "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0 cannot be executed because Asynchronous \
                 Replication Connection Failover is enabled i.e. CHANGE REPLICATION SOURCE TO \
                 SOURCE_CONNECTION_AUTO_FAILOVER = 1.",
            ),
        };
        Err(SqlError::new(code, "HY000", text))
    }

    /// Do the options of a statement fit together? `asks` tells whether it names one.
    ///
    /// # Errors
    /// 1776, 1777, 3139, 3990, 3991, 3993, 4014, 4015, 4065, 4066, 4067.
    pub(super) fn check(
        &self,
        channel: &str,
        (place, asks): (&NewPlace, &dyn Fn(&str) -> bool),
        gtid_mode: &str,
    ) -> SqlResult<()> {
        let refused = |code, text: String| Err(SqlError::new(code, "HY000", text));
        if self.auto_position && place.is_named() {
            let text = "Parameters SOURCE_LOG_FILE, SOURCE_LOG_POS, RELAY_LOG_FILE and RELAY_LOG_POS cannot be set when \
                        SOURCE_AUTO_POSITION is active.";
            return refused(1776, text.to_owned());
        }
        if self.auto_position && gtid_mode == "OFF" {
            let text = "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1 cannot be executed because \
                        @@GLOBAL.GTID_MODE = OFF.";
            return refused(1777, text.to_owned());
        }
        if self.auto_position && self.anonymous != Anonymous::Off {
            let text = "The options ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL|<UUID> and SOURCE_AUTO_POSITION = 1 \
                        cannot be used together.";
            return refused(4014, text.to_owned());
        }
        if self.auto_failover {
            self.check_failover(asks, gtid_mode)?;
        }
        let names_anonymous = asks("ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS");
        if names_anonymous && self.anonymous != Anonymous::Off && gtid_mode != "ON" {
            let text = "CHANGE REPLICATION SOURCE TO ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS = LOCAL|<UUID> cannot be \
                        executed because @@GLOBAL.GTID_MODE <> ON.";
            return refused(4015, text.to_owned());
        }
        if asks("IGNORE_SERVER_IDS") && !self.ignored_servers.is_empty() && gtid_mode == "ON" {
            let what = "CHANGE REPLICATION SOURCE TO ... IGNORE_SERVER_IDS='...' when @@GLOBAL.GTID_MODE = ON";
            return Err(errors::channel_refuses(what, channel));
        }
        if !self.gtid_only {
            return Ok(());
        }
        let is_possible = self.auto_position && self.row_format && gtid_mode == "ON";
        if asks("GTID_ONLY") && !is_possible {
            let text = format!(
                "GTID_ONLY cannot be enabled for replication channel '{channel}'. You need GTID_MODE = ON, \
                 SOURCE_AUTO_POSITION = 1 and REQUIRE_ROW_FORMAT = 1."
            );
            return refused(4065, text);
        }
        for (code, name, is_on) in [
            (4067, "SOURCE_AUTO_POSITION", self.auto_position),
            (4066, "REQUIRE_ROW_FORMAT", self.row_format),
        ] {
            if !is_on {
                let text = format!(
                    "{name} cannot be disabled for replication channel '{channel}' when GTID_ONLY=1."
                );
                return refused(code, text);
            }
        }
        Ok(())
    }
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
