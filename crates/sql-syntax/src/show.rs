//! SHOW.
//!
//! Neighbours: `statement` dispatches here; DESCRIBE is in `explain`.
//! **Invariants**: every SHOW of MySQL 8.4 parses, and MariaDB's that dump tools send.

use esker_types::{SqlResult, errors};

use super::ast::{Ident, Show, ShowFilter, ShowWhat, Statement, VarScope};
use super::deprecated::Deprecation;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    pub(super) fn show(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::SHOW)?;
        let what = self.show_what()?;
        let filter = if what.is_filterable() {
            self.show_filter()?
        } else {
            None
        };
        Ok(Statement::Show(Box::new(Show { what, filter })))
    }

    fn show_filter(&mut self) -> SqlResult<Option<ShowFilter>> {
        if self.eat_kw(Kw::LIKE) {
            return Ok(Some(ShowFilter::Like(self.string()?)));
        }
        if self.eat_kw(Kw::WHERE) {
            return Ok(Some(ShowFilter::Where(Box::new(self.expr()?))));
        }
        Ok(None)
    }

    fn show_what(&mut self) -> SqlResult<ShowWhat> {
        let extended = self.eat_kw(Kw::EXTENDED);
        let full = self.eat_kw(Kw::FULL);
        let kw = self.kw();
        match kw {
            Kw::COLUMNS | Kw::FIELDS => {
                self.advance();
                let table = self.table_of()?;
                return Ok(ShowWhat::Columns {
                    full,
                    extended,
                    table,
                });
            }
            Kw::INDEX | Kw::INDEXES | Kw::KEYS if !full => {
                self.advance();
                return Ok(ShowWhat::Index {
                    extended,
                    table: self.table_of()?,
                });
            }
            Kw::TABLES => {
                self.advance();
                return Ok(ShowWhat::Tables {
                    full,
                    schema: self.schema_of()?,
                });
            }
            _ if extended => return self.fail(),
            Kw::PROCESSLIST => {
                self.advance();
                return Ok(ShowWhat::Processlist { full });
            }
            Kw::TRIGGERS => {
                self.advance();
                return Ok(ShowWhat::Triggers {
                    schema: self.schema_of()?,
                });
            }
            _ if full => return self.fail(),
            _ => {}
        }
        self.show_objects(kw)
    }

    fn show_objects(&mut self, kw: Kw) -> SqlResult<ShowWhat> {
        let what = match kw {
            Kw::DATABASES | Kw::SCHEMAS => ShowWhat::Databases,
            Kw::CREATE => return self.show_create(),
            Kw::TABLE => {
                self.advance();
                self.expect_kw(Kw::STATUS)?;
                return Ok(ShowWhat::TableStatus {
                    schema: self.schema_of()?,
                });
            }
            Kw::OPEN => {
                self.advance();
                self.expect_kw(Kw::TABLES)?;
                return Ok(ShowWhat::OpenTables {
                    schema: self.schema_of()?,
                });
            }
            Kw::EVENTS => {
                self.advance();
                return Ok(ShowWhat::Events {
                    schema: self.schema_of()?,
                });
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::PACKAGE => {
                self.advance();
                return self.show_routine_status(kw);
            }
            Kw::COLLATION => ShowWhat::Collation,
            Kw::CHARSET | Kw::CHARACTER | Kw::CHAR => {
                return if self.eat_charset_words()? {
                    Ok(ShowWhat::CharacterSet)
                } else {
                    self.fail()
                };
            }
            Kw::PRIVILEGES => ShowWhat::Privileges,
            Kw::PLUGINS => ShowWhat::Plugins,
            Kw::PROFILES => {
                self.deprecate(Deprecation::ShowProfiles);
                ShowWhat::Profiles
            }
            Kw::ENGINES => ShowWhat::Engines,
            Kw::STORAGE => {
                self.advance();
                self.expect_kw(Kw::ENGINES)?;
                return Ok(ShowWhat::Engines);
            }
            Kw::GRANTS => return self.show_grants(),
            _ => return self.show_server(kw),
        };
        self.advance();
        Ok(what)
    }

    /// SHOW … STATUS of stored routines of one kind.
    fn show_routine_status(&mut self, kw: Kw) -> SqlResult<ShowWhat> {
        let kind = match kw {
            Kw::PACKAGE if self.eat_word("BODY") => "PACKAGE BODY",
            Kw::PACKAGE => "PACKAGE",
            _ if self.eat_word("CODE") => {
                self.routine_name()?;
                return Err(errors::no_routine_code());
            }
            _ => kw.text(),
        };
        self.expect_kw(Kw::STATUS)?;
        Ok(ShowWhat::RoutineStatus(kind))
    }

    fn show_server(&mut self, kw: Kw) -> SqlResult<ShowWhat> {
        let scope = match kw {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
            return Ok(match self.expect_any(&[Kw::VARIABLES, Kw::STATUS])? {
                Kw::VARIABLES => ShowWhat::Variables(scope),
                _ => ShowWhat::Status(scope),
            });
        }
        let start = self.advance().start;
        match kw {
            Kw::VARIABLES => Ok(ShowWhat::Variables(None)),
            Kw::STATUS => Ok(ShowWhat::Status(None)),
            Kw::WARNINGS => Ok(ShowWhat::Warnings {
                limit: self.number_limit()?,
            }),
            Kw::ERRORS => Ok(ShowWhat::Errors {
                limit: self.number_limit()?,
            }),
            Kw::COUNT if self.cur.start == self.prev_end => {
                self.expect(Tok::LParen)?;
                self.expect(Tok::Star)?;
                self.expect(Tok::RParen)?;
                Ok(match self.expect_any(&[Kw::WARNINGS, Kw::ERRORS])? {
                    Kw::WARNINGS => ShowWhat::CountWarnings,
                    _ => ShowWhat::CountErrors,
                })
            }
            Kw::ENGINE => {
                let name = if self.eat_kw(Kw::ALL) {
                    "ALL".into()
                } else {
                    self.ident_or_text()?
                };
                let what = self.expect_any(&[Kw::STATUS, Kw::MUTEX, Kw::LOGS])?.text();
                Ok(ShowWhat::Engine { name, what })
            }
            Kw::PROFILE => {
                self.deprecate(Deprecation::ShowProfile);
                self.show_profile()
            }
            _ => self.show_replication(kw, start),
        }
    }

    /// The word, which began at `start`, is consumed.
    fn show_replication(&mut self, kw: Kw, start: usize) -> SqlResult<ShowWhat> {
        match kw {
            Kw::MASTER => Ok(match self.expect_any(&[Kw::STATUS, Kw::LOGS])? {
                Kw::STATUS => ShowWhat::BinlogStatus,
                _ => ShowWhat::BinaryLogs,
            }),
            Kw::BINARY => {
                if self.eat_kw(Kw::LOGS) {
                    return Ok(ShowWhat::BinaryLogs);
                }
                // LOG is no keyword of MySQL's: the word is checked by its text.
                if !self.bytes(self.cur).eq_ignore_ascii_case(b"LOG") {
                    return self.fail();
                }
                self.advance();
                self.expect_kw(Kw::STATUS)?;
                Ok(ShowWhat::BinlogStatus)
            }
            Kw::BINLOG | Kw::RELAYLOG => {
                self.expect_kw(Kw::EVENTS)?;
                self.show_binlog_events(kw == Kw::RELAYLOG)
            }
            Kw::REPLICA | Kw::SLAVE => {
                if self.eat_kw(Kw::HOSTS) {
                    let old_names = kw == Kw::SLAVE;
                    return Ok(ShowWhat::Replicas { old_names });
                }
                self.expect_kw(Kw::STATUS)?;
                let channel = self.channel()?;
                let old_names = kw == Kw::SLAVE;
                Ok(ShowWhat::ReplicaStatus {
                    old_names,
                    all: false,
                    channel,
                })
            }
            // MariaDB's.
            Kw::ALL if matches!(self.kw(), Kw::SLAVES | Kw::REPLICAS) => {
                self.expect_any(&[Kw::SLAVES, Kw::REPLICAS])?;
                self.expect_kw(Kw::STATUS)?;
                Ok(ShowWhat::ReplicaStatus {
                    old_names: true,
                    all: true,
                    channel: None,
                })
            }
            Kw::REPLICAS => Ok(ShowWhat::Replicas { old_names: false }),
            _ => Err(self.error_at(start)),
        }
    }

    /// `[IN file] [FROM position] [LIMIT …]`, for a relay log with the channel.
    fn show_binlog_events(&mut self, relay: bool) -> SqlResult<ShowWhat> {
        let (mut file, mut position) = (None, None);
        if self.eat_kw(Kw::IN) {
            file = Some(self.string()?);
        }
        if self.eat_kw(Kw::FROM) {
            position = Some(self.number()?);
        }
        let limit = self.number_limit()?;
        let channel = match relay {
            true => self.channel()?,
            false => None,
        };
        Ok(ShowWhat::BinlogEvents {
            relay,
            file,
            position,
            limit,
            channel,
        })
    }

    fn show_profile(&mut self) -> SqlResult<ShowWhat> {
        let mut types = Vec::new();
        if !self.at_end() && !matches!(self.kw(), Kw::FOR | Kw::LIMIT) {
            types.push(self.profile_type()?);
            while self.eat(Tok::Comma) {
                types.push(self.profile_type()?);
            }
        }
        let query = match self.eat_seq(&[Kw::FOR, Kw::QUERY]) {
            true => Some(self.number()?),
            false => None,
        };
        self.number_limit()?;
        Ok(ShowWhat::Profile { query, types })
    }

    fn profile_type(&mut self) -> SqlResult<&'static str> {
        const TYPES: [&str; 8] = [
            "BLOCK IO",
            "CONTEXT SWITCHES",
            "CPU",
            "IPC",
            "MEMORY",
            "PAGE FAULTS",
            "SOURCE",
            "SWAPS",
        ];
        if self.eat_kw(Kw::ALL) {
            return Ok("ALL");
        }
        for named in TYPES {
            let mut words = named.split(' ');
            let first = words.next().expect("a type has a word");
            if self.eat_word(first) {
                return match words.next() {
                    Some(second) if !self.eat_word(second) => self.fail(),
                    _ => Ok(named),
                };
            }
        }
        self.fail()
    }

    fn show_grants(&mut self) -> SqlResult<ShowWhat> {
        self.advance();
        let account = if self.eat_kw(Kw::FOR) {
            Some(self.account()?)
        } else {
            None
        };
        let roles = if account.is_some() && self.eat_kw(Kw::USING) {
            self.list(Self::account)?
        } else {
            Vec::new()
        };
        Ok(ShowWhat::Grants { account, roles })
    }

    fn show_create(&mut self) -> SqlResult<ShowWhat> {
        self.advance();
        let kw = self.kw();
        if !matches!(
            kw,
            Kw::TABLE
                | Kw::VIEW
                | Kw::DATABASE
                | Kw::SCHEMA
                | Kw::USER
                | Kw::PROCEDURE
                | Kw::FUNCTION
                | Kw::TRIGGER
                | Kw::EVENT
        ) {
            return self.fail();
        }
        self.advance();
        Ok(match kw {
            Kw::TABLE => ShowWhat::CreateTable(self.object_name()?),
            Kw::VIEW => ShowWhat::CreateView(self.object_name()?),
            Kw::DATABASE | Kw::SCHEMA => {
                let if_not_exists = self.if_not_exists()?;
                ShowWhat::CreateDatabase {
                    name: self.schema_name()?,
                    if_not_exists,
                }
            }
            Kw::USER => ShowWhat::CreateUser(self.account()?),
            kw => ShowWhat::CreateRoutine(kw.text(), self.routine_name()?),
        })
    }

    /// `FROM t [FROM d]`.
    fn table_of(&mut self) -> SqlResult<super::ast::ObjectName> {
        self.expect_any(&[Kw::FROM, Kw::IN])?;
        let mut table = self.object_name()?;
        if let Some(schema) = self.schema_of()? {
            table.schema = Some(schema);
        }
        Ok(table)
    }

    /// `[FROM d]`.
    fn schema_of(&mut self) -> SqlResult<Option<Ident>> {
        if self.eat_any(&[Kw::FROM, Kw::IN]).is_some() {
            self.schema_name().map(Some)
        } else {
            Ok(None)
        }
    }

    /// `[LIMIT [skip,] n]` of numbers: rows to skip and to show.
    fn number_limit(&mut self) -> SqlResult<Option<(u64, u64)>> {
        if !self.eat_kw(Kw::LIMIT) {
            return Ok(None);
        }
        let first = self.number()?;
        if self.eat(Tok::Comma) {
            return Ok(Some((first, self.number()?)));
        }
        if self.eat_kw(Kw::OFFSET) {
            return Ok(Some((self.number()?, first)));
        }
        Ok(Some((0, first)))
    }
}
