//! Replication and binlog statements.
//!
//! Neighbours: `statement` dispatches here; `show` has the status forms.
//! **Invariants**: old (MASTER, SLAVE) and new (SOURCE, REPLICA) words give the same tree; option
//! names are kept as written, upper-cased.

use esker_types::{SqlResult, errors};

use super::ast::{Account, ReplicaThreads, Replication, Statement};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// It has words.
const KEY_CHECK: &str = "REQUIRE_TABLE_PRIMARY_KEY_CHECK";
/// MariaDB's, which has words as well.
const USE_GTID: &str = "MASTER_USE_GTID";

/// Has an option of CHANGE REPLICATION SOURCE a text?
fn is_text(option: &str) -> bool {
    const SOURCE: &[&str] = &[
        "HOST",
        "USER",
        "PASSWORD",
        "BIND",
        "LOG_FILE",
        "SSL_CA",
        "SSL_CAPATH",
        "SSL_CERT",
        "SSL_CIPHER",
        "SSL_CRL",
        "SSL_CRLPATH",
        "SSL_KEY",
        "TLS_VERSION",
        "TLS_CIPHERSUITES",
        "PUBLIC_KEY_PATH",
        "COMPRESSION_ALGORITHMS",
    ];
    let of_source = option
        .strip_prefix("SOURCE_")
        .or_else(|| option.strip_prefix("MASTER_"));
    match of_source {
        Some(rest) => SOURCE.contains(&rest),
        None => matches!(option, "RELAY_LOG_FILE" | "NETWORK_NAMESPACE"),
    }
}

/// UNTIL that has no place in a log.
const END_POINTS: [&str; 3] = [AFTER_GAPS, "SQL_BEFORE_GTIDS", "SQL_AFTER_GTIDS"];
const AFTER_GAPS: &str = "SQL_AFTER_MTS_GAPS";
const LOG_FILES: [&str; 3] = ["SOURCE_LOG_FILE", "MASTER_LOG_FILE", "RELAY_LOG_FILE"];
const LOG_POSITIONS: [&str; 3] = ["SOURCE_LOG_POS", "MASTER_LOG_POS", "RELAY_LOG_POS"];

impl Parser<'_> {
    pub(super) fn replication_statement(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        let statement = match kw {
            Kw::CHANGE => self.change()?,
            Kw::STOP => {
                if self.eat_word("GROUP_REPLICATION") {
                    Replication::Group { start: false }
                } else {
                    self.expect_any(&[Kw::REPLICA, Kw::SLAVE])?;
                    Replication::Stop(self.threads(false)?)
                }
            }
            Kw::RESET => return self.reset(),
            Kw::PURGE => {
                self.expect_any(&[Kw::BINARY, Kw::MASTER])?;
                self.expect_kw(Kw::LOGS)?;
                if self.eat_kw(Kw::TO) {
                    Replication::PurgeTo(self.string()?)
                } else {
                    self.expect_kw(Kw::BEFORE)?;
                    Replication::PurgeBefore(Box::new(self.expr()?))
                }
            }
            _ => Replication::Binlog(self.string()?),
        };
        Ok(Statement::Replication(Box::new(statement)))
    }

    /// START, when TRANSACTION does not follow.
    pub(super) fn start_replica(&mut self) -> SqlResult<Statement> {
        let start = match self.eat_word("GROUP_REPLICATION") {
            true => {
                if matches!(self.kw(), Kw::USER | Kw::PASSWORD) || self.at_auth_option() {
                    self.list(Self::named_value)?;
                }
                Replication::Group { start: true }
            }
            false => {
                self.expect_any(&[Kw::REPLICA, Kw::SLAVE])?;
                Replication::Start(self.threads(true)?)
            }
        };
        Ok(Statement::Replication(Box::new(start)))
    }

    fn threads(&mut self, start: bool) -> SqlResult<ReplicaThreads> {
        let mut threads = ReplicaThreads::default();
        loop {
            match self.eat_kw(Kw::SQL_THREAD) {
                true => threads.sql = true,
                false if self.eat_kw(Kw::IO_THREAD) || self.eat_word("RELAY_THREAD") => {
                    threads.io = true
                }
                false => break,
            }
            if !self.eat(Tok::Comma) {
                break;
            }
        }
        if start && self.eat_kw(Kw::UNTIL) {
            threads.until = self.end_points()?;
        }
        if start {
            while matches!(self.kw(), Kw::USER | Kw::PASSWORD) || self.at_auth_option() {
                let option = self.named_value()?;
                threads.connection.push(option);
            }
        }
        threads.channel = self.channel()?;
        Ok(threads)
    }

    /// `SQL_AFTER_MTS_GAPS`, a set of GTIDs, or a place in a log; only parts of a place may follow.
    fn end_points(&mut self) -> SqlResult<Vec<(Box<str>, Vec<u8>)>> {
        let found = END_POINTS.iter().find(|word| self.eat_word(word));
        let mut points = match found {
            Some(&AFTER_GAPS) => vec![(AFTER_GAPS.into(), Vec::new())],
            Some(&gtids) => {
                self.expect(Tok::Eq)?;
                vec![(gtids.into(), self.string()?)]
            }
            None => vec![self.place_in_log()?],
        };
        while self.eat(Tok::Comma) {
            points.push(self.place_in_log()?);
        }
        Ok(points)
    }

    /// A file, or a position in it.
    fn place_in_log(&mut self) -> SqlResult<(Box<str>, Vec<u8>)> {
        if let Some(&file) = LOG_FILES.iter().find(|word| self.eat_word(word)) {
            self.expect(Tok::Eq)?;
            return Ok((file.into(), self.string()?));
        }
        let Some(&position) = LOG_POSITIONS.iter().find(|word| self.eat_word(word)) else {
            return self.fail();
        };
        self.expect(Tok::Eq)?;
        Ok((position.into(), self.number()?.to_string().into_bytes()))
    }

    fn at_auth_option(&self) -> bool {
        let word = self.bytes(self.cur);
        word.eq_ignore_ascii_case(b"DEFAULT_AUTH") || word.eq_ignore_ascii_case(b"PLUGIN_DIR")
    }

    /// `NAME = 'text'` or `NAME = number`.
    fn named_value(&mut self) -> SqlResult<(Box<str>, Vec<u8>)> {
        let name = self.option_name()?;
        let mut value = Vec::new();
        if self.eat(Tok::Eq) {
            value = match self.cur.tok {
                Tok::Int => self.number()?.to_string().into_bytes(),
                _ => self.string_or_hex()?,
            };
        }
        Ok((name, value))
    }

    fn option_name(&mut self) -> SqlResult<Box<str>> {
        Ok(self.ident()?.text.to_ascii_uppercase().into())
    }

    /// `[FOR CHANNEL 'c']`.
    pub(super) fn channel(&mut self) -> SqlResult<Option<Vec<u8>>> {
        if !self.eat_kw(Kw::FOR) {
            return Ok(None);
        }
        self.expect_kw(Kw::CHANNEL)?;
        Ok(Some(self.ident_or_text()?.as_bytes().to_vec()))
    }

    /// After CHANGE.
    fn change(&mut self) -> SqlResult<Replication> {
        if self.eat_kw(Kw::MASTER) {
            self.expect_kw(Kw::TO)?;
            return self.change_source();
        }
        self.expect_kw(Kw::REPLICATION)?;
        if self.eat_kw(Kw::SOURCE) {
            self.expect_kw(Kw::TO)?;
            return self.change_source();
        }
        self.expect_kw(Kw::FILTER)?;
        let filters = self.list(|p| {
            if !p
                .bytes(p.cur)
                .to_ascii_uppercase()
                .starts_with(b"REPLICATE_")
            {
                return p.fail();
            }
            let name = p.option_name()?;
            p.expect(Tok::Eq)?;
            p.expect(Tok::LParen)?;
            let mut members = Vec::new();
            while !p.is(Tok::RParen) {
                members.push(p.filter_member(&name)?);
                if !p.eat(Tok::Comma) {
                    break;
                }
            }
            p.expect(Tok::RParen)?;
            Ok((name, members))
        })?;
        Ok(Replication::ChangeFilter {
            filters,
            channel: self.channel()?,
        })
    }

    /// A database, `d.t`, a pattern string, or `(a, b)` of a rewrite rule: its source text.
    fn filter_member(&mut self, rule: &str) -> SqlResult<Box<str>> {
        let start = self.cur.start;
        match rule {
            "REPLICATE_DO_DB" | "REPLICATE_IGNORE_DB" => {
                self.ident()?;
            }
            "REPLICATE_DO_TABLE" | "REPLICATE_IGNORE_TABLE" => {
                self.ident()?;
                self.expect(Tok::Dot)?;
                self.ident()?;
            }
            "REPLICATE_WILD_DO_TABLE" | "REPLICATE_WILD_IGNORE_TABLE" => {
                let pattern = self.string_text()?;
                return match pattern.contains('.') {
                    true => Ok(pattern),
                    false => Err(errors::filter_pattern()),
                };
            }
            "REPLICATE_REWRITE_DB" => {
                self.expect(Tok::LParen)?;
                self.ident()?;
                self.expect(Tok::Comma)?;
                self.ident()?;
                self.expect(Tok::RParen)?;
            }
            _ => return self.fail(),
        }
        Ok(self.source(start, self.prev_end))
    }

    fn change_source(&mut self) -> SqlResult<Replication> {
        let options = self.list(|p| {
            if !p.at_source_option() {
                return p.fail();
            }
            let name = p.option_name()?;
            p.expect(Tok::Eq)?;
            let value = match &*name {
                "PRIVILEGE_CHECKS_USER" => p.checks_user()?,
                "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS" => Some(p.assigned()?),
                name if is_text(name) => p.source_text(name)?,
                name => Some(p.source_value(name)?),
            };
            Ok((name, value))
        })?;
        Ok(Replication::ChangeSource {
            options,
            channel: self.channel()?,
        })
    }

    fn at_source_option(&self) -> bool {
        const OTHERS: &[&str] = &[
            "RELAY_LOG_FILE",
            "RELAY_LOG_POS",
            "IGNORE_SERVER_IDS",
            "GET_SOURCE_PUBLIC_KEY",
            "GET_MASTER_PUBLIC_KEY",
            "NETWORK_NAMESPACE",
            "PRIVILEGE_CHECKS_USER",
            "REQUIRE_ROW_FORMAT",
            "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
            "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS",
            "GTID_ONLY",
        ];
        let word = self.bytes(self.cur).to_ascii_uppercase();
        word.starts_with(b"SOURCE_")
            || word.starts_with(b"MASTER_")
            || OTHERS.iter().any(|o| o.as_bytes() == word)
    }

    /// An account, user and host joined by a zero, or NULL.
    fn checks_user(&mut self) -> SqlResult<Option<Vec<u8>>> {
        if self.eat_kw(Kw::NULL) {
            return Ok(None);
        }
        let is_name = !matches!(self.kw(), Kw::CURRENT_USER);
        match self.account()? {
            Account::Named { user, host } if is_name => {
                Ok(Some(format!("{user}\0{host}").into_bytes()))
            }
            _ => self.fail(),
        }
    }

    /// OFF, LOCAL, or the text of a UUID, which the words are not.
    fn assigned(&mut self) -> SqlResult<Vec<u8>> {
        if self.is(Tok::Str) {
            let text = self.string()?;
            let is_word = ["OFF", "LOCAL"]
                .iter()
                .any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
            return match is_word {
                true => {
                    let text = String::from_utf8_lossy(&text);
                    Err(errors::incorrect_value("UUID", text))
                }
                false => Ok(text),
            };
        }
        let word = self.bytes(self.cur).to_ascii_uppercase();
        if !matches!(&*word, b"OFF" | b"LOCAL") {
            return self.fail();
        }
        self.advance();
        Ok(word)
    }

    /// A text, or NULL, where there may be none.
    fn source_text(&mut self, name: &str) -> SqlResult<Option<Vec<u8>>> {
        if name.ends_with("TLS_CIPHERSUITES") && self.eat_kw(Kw::NULL) {
            return Ok(None);
        }
        let text = self.string()?;
        // MySQL finds it among the algorithms.
        let may_have = name.ends_with("COMPRESSION_ALGORITHMS");
        match text.contains(&b'\n') && !may_have {
            true => Err(errors::line_feed(String::from_utf8_lossy(&text))),
            false => Ok(Some(text)),
        }
    }

    fn source_value(&mut self, name: &str) -> SqlResult<Vec<u8>> {
        let start = self.cur.start;
        match self.cur.tok {
            Tok::Int | Tok::Decimal | Tok::Float if name != KEY_CHECK => {
                self.advance();
            }
            Tok::LParen if name == "IGNORE_SERVER_IDS" => {
                self.advance();
                while matches!(self.cur.tok, Tok::Int | Tok::Comma) {
                    self.advance();
                }
                self.expect(Tok::RParen)?;
            }
            Tok::Word(_) if name == KEY_CHECK => {
                let word = self.bytes(self.cur).to_ascii_uppercase();
                if !matches!(&*word, b"ON" | b"OFF" | b"STREAM" | b"GENERATE") {
                    return self.fail();
                }
                self.advance();
            }
            Tok::Word(kw) if name == USE_GTID && !kw.reserved() => {
                self.advance();
            }
            _ => return self.fail(),
        }
        Ok(self.source(start, self.prev_end).as_bytes().to_vec())
    }

    /// After RESET.
    fn reset(&mut self) -> SqlResult<Statement> {
        if self.eat_kw(Kw::PERSIST) {
            let if_exists = self.if_exists()?;
            let name = match self.at_ident() {
                true => Some(self.var_name()?.text.to_ascii_lowercase().into()),
                false => None,
            };
            return Ok(Statement::ResetPersist { if_exists, name });
        }
        let mut list = self.list(Self::reset_one)?;
        let statement = match list.len() {
            1 => list.remove(0),
            _ => Replication::ResetSeveral(list),
        };
        Ok(Statement::Replication(Box::new(statement)))
    }

    fn reset_one(&mut self) -> SqlResult<Replication> {
        match self.expect_any(&[Kw::REPLICA, Kw::SLAVE, Kw::MASTER, Kw::BINARY])? {
            Kw::REPLICA | Kw::SLAVE => Ok(Replication::ResetReplica {
                all: self.eat_kw(Kw::ALL),
                channel: self.channel()?,
            }),
            word => {
                if word == Kw::BINARY {
                    self.expect_seq(&[Kw::LOGS, Kw::AND, Kw::GTIDS])?;
                }
                Ok(Replication::ResetBinlog {
                    to: self.reset_to()?,
                })
            }
        }
    }

    fn reset_to(&mut self) -> SqlResult<Option<u64>> {
        if self.eat_kw(Kw::TO) {
            self.number().map(Some)
        } else {
            Ok(None)
        }
    }
}
