//! CREATE/ALTER USER, GRANT, REVOKE.
//!
//! Neighbours: `statement` dispatches here; `set` has SET ROLE and SET PASSWORD.
//! **Invariants**: passwords and hashes stay bytes.

use esker_types::names::check_account;
use esker_types::{SqlResult, errors};

use super::ast::{
    Account, Auth, AuthSecret, Grant, GrantTarget, GrantedBy, Lenience, PasswordOption, Privilege,
    Require, RoleList, Statement, UserAttribute, UserSpec, UserStatement,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    /// `user[@host]`, CURRENT_USER, USER().
    pub(super) fn account(&mut self) -> SqlResult<Account> {
        let start = self.cur.start;
        if self.eat_own_account()? {
            self.accounts.own.push(start..self.prev_end);
            return Ok(Account::CurrentUser);
        }
        let user = self.ident_or_text()?;
        let host = match self.cur.tok {
            Tok::AtName => {
                let token = self.advance();
                self.source(token.start + 1, token.end).to_ascii_lowercase()
            }
            Tok::At => {
                self.advance();
                self.ident_or_text()?.to_ascii_lowercase()
            }
            _ => "%".to_owned(),
        };
        if host.contains('@') {
            let text = "Malformed hostname (illegal symbol: '@')";
            self.defer(errors::unknown_error(text));
        }
        check_account(&user, &host)?;
        Ok(Account::Named {
            user,
            host: host.into(),
        })
    }

    fn eat_own_account(&mut self) -> SqlResult<bool> {
        if self.eat_kw(Kw::CURRENT_USER) {
            if self.eat(Tok::LParen) {
                self.expect(Tok::RParen)?;
            }
            return Ok(true);
        }
        if self.at(Kw::USER) && self.peek().tok == Tok::LParen {
            self.advance();
            self.advance();
            self.expect(Tok::RParen)?;
            return Ok(true);
        }
        Ok(false)
    }

    pub(super) fn create_user(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let if_exists = self.if_not_exists()?;
        let users = self.list(Self::new_user_spec)?;
        self.accounts.list_end = self.prev_end;
        let mut statement = UserStatement::of(if_exists, users);
        statement.or_replace = or_replace;
        if self.eat_seq(&[Kw::DEFAULT, Kw::ROLE]) {
            statement.default_roles = Some(RoleList::Named(self.list(Self::account)?));
        }
        self.user_options(&mut statement)?;
        Ok(Statement::CreateUser(Box::new(statement)))
    }

    pub(super) fn alter_user(&mut self) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        // USER() stands alone and takes a password only.
        let alone = self.at(Kw::USER) && self.peek().tok == Tok::LParen;
        let users = if alone {
            vec![self.own_user_spec()?]
        } else {
            self.list(Self::user_spec)?
        };
        self.accounts.list_end = self.prev_end;
        let mut statement = UserStatement::of(if_exists, users);
        // Default roles are for one account, and nothing else changes beside them.
        let is_bare = matches!(statement.users.as_slice(), [one] if one.auth.is_none());
        if is_bare && !alone && self.eat_seq(&[Kw::DEFAULT, Kw::ROLE]) {
            statement.default_roles = Some(self.role_list(false)?);
        } else if !alone {
            self.user_options(&mut statement)?;
        }
        Ok(Statement::AlterUser(Box::new(statement)))
    }

    fn user_options(&mut self, statement: &mut UserStatement) -> SqlResult<()> {
        if self.eat_kw(Kw::REQUIRE) {
            statement.require = Some(self.require()?);
        }
        if self.eat_kw(Kw::WITH) {
            statement.limits = self.user_limits()?;
        }
        loop {
            match self.kw() {
                Kw::ACCOUNT => {
                    self.advance();
                    let kw = self.expect_any(&[Kw::LOCK, Kw::UNLOCK])?;
                    statement.lock = Some(kw == Kw::LOCK);
                }
                Kw::PASSWORD => {
                    self.advance();
                    let option = self.password_option()?;
                    statement.password_options.push(option);
                }
                Kw::FAILED_LOGIN_ATTEMPTS => {
                    self.advance();
                    let option = PasswordOption::FailedAttempts(self.number()?);
                    statement.password_options.push(option);
                }
                Kw::PASSWORD_LOCK_TIME => {
                    self.advance();
                    let days = if self.eat_kw(Kw::UNBOUNDED) {
                        None
                    } else {
                        Some(self.number()?)
                    };
                    statement
                        .password_options
                        .push(PasswordOption::LockDays(days));
                }
                Kw::COMMENT => {
                    self.advance();
                    statement.attribute = Some(UserAttribute::Comment(self.string()?));
                    return Ok(());
                }
                Kw::ATTRIBUTE => {
                    self.advance();
                    statement.attribute = Some(UserAttribute::Json(self.string()?));
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// An account of CREATE USER.
    fn new_user_spec(&mut self) -> SqlResult<UserSpec> {
        let mut spec = UserSpec::of(self.account()?);
        if self.eat_kw(Kw::IDENTIFIED) {
            spec.auth = Some(self.auth()?);
        }
        Ok(spec)
    }

    /// An account of ALTER USER.
    fn user_spec(&mut self) -> SqlResult<UserSpec> {
        let mut spec = UserSpec::of(self.account()?);
        if self.eat_kw(Kw::DISCARD) {
            self.expect_seq(&[Kw::OLD, Kw::PASSWORD])?;
            spec.discard_old = true;
        } else if self.eat_kw(Kw::IDENTIFIED) {
            spec.auth = Some(self.auth()?);
            self.replace_and_retain(&mut spec)?;
        }
        Ok(spec)
    }

    /// `USER()` of ALTER USER.
    fn own_user_spec(&mut self) -> SqlResult<UserSpec> {
        let mut spec = UserSpec::of(self.account()?);
        if self.eat_kw(Kw::DISCARD) {
            self.expect_seq(&[Kw::OLD, Kw::PASSWORD])?;
            spec.discard_old = true;
            return Ok(spec);
        }
        self.expect_kw(Kw::IDENTIFIED)?;
        self.expect_kw(Kw::BY)?;
        spec.auth = Some(Auth {
            plugin: None,
            secret: self.auth_by()?,
        });
        self.replace_and_retain(&mut spec)?;
        Ok(spec)
    }

    fn replace_and_retain(&mut self, spec: &mut UserSpec) -> SqlResult<()> {
        if self.eat_kw(Kw::REPLACE) {
            spec.replace = Some(self.string()?);
        }
        if self.eat_kw(Kw::RETAIN) {
            self.expect_seq(&[Kw::CURRENT, Kw::PASSWORD])?;
            spec.retain_current = true;
        }
        Ok(())
    }

    /// After IDENTIFIED.
    fn auth(&mut self) -> SqlResult<Auth> {
        if self.eat_kw(Kw::BY) {
            return Ok(Auth {
                plugin: None,
                secret: self.auth_by()?,
            });
        }
        self.expect_kw(Kw::WITH)?;
        let plugin = Some(self.ident_or_text()?);
        let secret = if self.eat_kw(Kw::BY) {
            self.auth_by()?
        } else if self.eat_kw(Kw::AS) {
            AuthSecret::Stored(self.string_or_hex()?)
        } else {
            AuthSecret::None
        };
        Ok(Auth { plugin, secret })
    }

    fn auth_by(&mut self) -> SqlResult<AuthSecret> {
        if self.eat_kw(Kw::RANDOM) {
            self.expect_kw(Kw::PASSWORD)?;
            return Ok(AuthSecret::Random);
        }
        Ok(AuthSecret::Password(self.string()?))
    }

    fn require(&mut self) -> SqlResult<Require> {
        match self.eat_any(&[Kw::NONE, Kw::SSL, Kw::X509]) {
            Some(Kw::NONE) => return Ok(Require::None),
            Some(Kw::SSL) => return Ok(Require::Ssl),
            Some(_) => return Ok(Require::X509),
            None => {}
        }
        let mut fields = Vec::new();
        while let Some(kw) = self.eat_any(&[Kw::SUBJECT, Kw::ISSUER, Kw::CIPHER]) {
            fields.push((kw.text().into(), self.string()?));
            self.eat_kw(Kw::AND);
        }
        if fields.is_empty() {
            self.fail()
        } else {
            Ok(Require::Fields(fields))
        }
    }

    fn user_limits(&mut self) -> SqlResult<Vec<(Box<str>, u64)>> {
        let mut limits = Vec::new();
        while let Some(kw) = self.eat_any(&[
            Kw::MAX_QUERIES_PER_HOUR,
            Kw::MAX_UPDATES_PER_HOUR,
            Kw::MAX_CONNECTIONS_PER_HOUR,
            Kw::MAX_USER_CONNECTIONS,
        ]) {
            limits.push((kw.text().into(), self.number()?));
        }
        if limits.is_empty() {
            self.fail()
        } else {
            Ok(limits)
        }
    }

    /// After PASSWORD.
    fn password_option(&mut self) -> SqlResult<PasswordOption> {
        match self.expect_any(&[Kw::EXPIRE, Kw::HISTORY, Kw::REUSE, Kw::REQUIRE])? {
            Kw::EXPIRE => match self.kw() {
                Kw::DEFAULT => {
                    self.advance();
                    Ok(PasswordOption::ExpireDefault)
                }
                Kw::NEVER => {
                    self.advance();
                    Ok(PasswordOption::ExpireNever)
                }
                Kw::INTERVAL => {
                    self.advance();
                    let days = self.number()?;
                    self.expect_kw(Kw::DAY)?;
                    Ok(PasswordOption::ExpireDays(days))
                }
                _ => Ok(PasswordOption::Expire),
            },
            Kw::HISTORY => {
                if self.eat_kw(Kw::DEFAULT) {
                    return Ok(PasswordOption::History(None));
                }
                Ok(PasswordOption::History(Some(self.number()?)))
            }
            Kw::REUSE => {
                self.expect_kw(Kw::INTERVAL)?;
                if self.eat_kw(Kw::DEFAULT) {
                    return Ok(PasswordOption::ReuseDays(None));
                }
                let days = self.number()?;
                self.expect_kw(Kw::DAY)?;
                Ok(PasswordOption::ReuseDays(Some(days)))
            }
            _ => {
                self.expect_kw(Kw::CURRENT)?;
                Ok(PasswordOption::RequireCurrent(
                    match self.eat_any(&[Kw::DEFAULT, Kw::OPTIONAL]) {
                        Some(Kw::DEFAULT) => None,
                        Some(_) => Some(false),
                        None => Some(true),
                    },
                ))
            }
        }
    }

    // GRANT and REVOKE.

    pub(super) fn grant(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::GRANT)?;
        if self.eat_seq(&[Kw::PROXY, Kw::ON]) {
            let on = self.account()?;
            self.expect_kw(Kw::TO)?;
            let users = self.list(Self::account)?;
            let grant_option = self.with_option(Kw::GRANT)?;
            return Ok(Statement::Grant(Box::new(Grant::Proxy {
                on,
                users,
                grant_option,
            })));
        }
        if self.names_roles(Kw::TO) {
            let roles = self.list(Self::account)?;
            self.expect_kw(Kw::TO)?;
            let users = self.list(Self::account)?;
            let admin_option = self.with_option(Kw::ADMIN)?;
            return Ok(Statement::Grant(Box::new(Grant::Roles {
                roles,
                users,
                admin_option,
            })));
        }
        let privileges = self.list(Self::privilege)?;
        self.expect_kw(Kw::ON)?;
        let target = self.grant_target()?;
        self.expect_kw(Kw::TO)?;
        let users = self.list(Self::account)?;
        let grant_option = self.with_option(Kw::GRANT)?;
        let by = match self.eat_kw(Kw::AS) {
            true => Some(self.granted_by()?),
            false => None,
        };
        let grant = Grant::Privileges {
            privileges,
            target,
            users,
            grant_option,
            by,
        };
        Ok(Statement::Grant(Box::new(grant)))
    }

    /// `user [WITH ROLE …]`.
    fn granted_by(&mut self) -> SqlResult<GrantedBy> {
        let user = self.account()?;
        let roles = match self.eat_kw(Kw::WITH) {
            true => {
                self.expect_kw(Kw::ROLE)?;
                Some(self.role_list(true)?)
            }
            false => None,
        };
        Ok(GrantedBy { user, roles })
    }

    pub(super) fn revoke(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::REVOKE)?;
        let missing = self.if_exists()?;
        let grant = self.revoked()?;
        let unknown_users = self.eat_kw(Kw::IGNORE);
        if unknown_users {
            self.expect_seq(&[Kw::UNKNOWN, Kw::USER])?;
        }
        let lenience = Lenience {
            missing,
            unknown_users,
        };
        Ok(Statement::Revoke(Box::new(grant), lenience))
    }

    /// What is revoked, and from whom.
    fn revoked(&mut self) -> SqlResult<Grant> {
        if self.eat_seq(&[Kw::PROXY, Kw::ON]) {
            let on = self.account()?;
            self.expect_kw(Kw::FROM)?;
            let users = self.list(Self::account)?;
            return Ok(Grant::Proxy {
                on,
                users,
                grant_option: false,
            });
        }
        if self.names_roles(Kw::FROM) {
            let roles = self.list(Self::account)?;
            self.expect_kw(Kw::FROM)?;
            let users = self.list(Self::account)?;
            return Ok(Grant::Roles {
                roles,
                users,
                admin_option: false,
            });
        }
        let privileges = self.list(Self::privilege)?;
        let everything = privileges.len() == 2
            && &*privileges[0].name == "ALL"
            && &*privileges[1].name == "GRANT OPTION";
        if everything && self.eat_kw(Kw::FROM) {
            let users = self.list(Self::account)?;
            return Ok(Grant::All { users });
        }
        self.expect_kw(Kw::ON)?;
        let target = self.grant_target()?;
        self.expect_kw(Kw::FROM)?;
        let users = self.list(Self::account)?;
        Ok(Grant::Privileges {
            privileges,
            target,
            users,
            grant_option: false,
            by: None,
        })
    }

    /// `[WITH GRANT OPTION]`, `[WITH ADMIN OPTION]`.
    fn with_option(&mut self, kw: Kw) -> SqlResult<bool> {
        if !self.eat_kw(Kw::WITH) {
            return Ok(false);
        }
        self.expect_kw(kw)?;
        self.expect_kw(Kw::OPTION)?;
        Ok(true)
    }

    /// Is what follows a list of roles, that is: `end` comes before ON?
    fn names_roles(&self, end: Kw) -> bool {
        let mut ahead = self.clone();
        loop {
            match ahead.cur.tok {
                Tok::Word(kw) if kw == end => return true,
                Tok::Word(Kw::ON) | Tok::LParen | Tok::Eof | Tok::Bad => return false,
                // Reserved words are privileges, never roles.
                Tok::Word(kw) if kw.reserved() => return false,
                _ => {}
            }
            ahead.advance();
        }
    }

    /// One privilege, perhaps with columns; any other name is a dynamic one.
    fn privilege(&mut self) -> SqlResult<Privilege> {
        let name: Box<str> = match self.static_privilege()? {
            Some(name) => name.into(),
            None => self.ident_or_text()?.to_ascii_uppercase().into(),
        };
        let columns = if self.is(Tok::LParen) {
            self.ident_list()?
        } else {
            Vec::new()
        };
        Ok(Privilege { name, columns })
    }

    fn static_privilege(&mut self) -> SqlResult<Option<&'static str>> {
        use Kw::*;
        let kw = self.kw();
        let file = self.bytes(self.cur).eq_ignore_ascii_case(b"FILE");
        let (name, next): (&'static str, &[(Kw, &'static str)]) = match kw {
            SELECT | UPDATE | INSERT | DELETE | REFERENCES | USAGE | INDEX | EXECUTE | RELOAD
            | SHUTDOWN | PROCESS | SUPER | EVENT | TRIGGER => (kw.text(), &[]),
            OTHER if file => ("FILE", &[]),
            ALL => ("ALL", &[(PRIVILEGES, "ALL")]),
            ALTER => ("ALTER", &[(ROUTINE, "ALTER ROUTINE")]),
            DROP => ("DROP", &[(ROLE, "DROP ROLE")]),
            CREATE => (
                "CREATE",
                &[
                    (VIEW, "CREATE VIEW"),
                    (ROUTINE, "CREATE ROUTINE"),
                    (USER, "CREATE USER"),
                    (TABLESPACE, "CREATE TABLESPACE"),
                    (ROLE, "CREATE ROLE"),
                    (TEMPORARY, "CREATE TEMPORARY TABLES"),
                ],
            ),
            GRANT => ("", &[(OPTION, "GRANT OPTION")]),
            SHOW => ("", &[(DATABASES, "SHOW DATABASES"), (VIEW, "SHOW VIEW")]),
            LOCK => ("", &[(TABLES, "LOCK TABLES")]),
            REPLICATION => (
                "",
                &[(SLAVE, "REPLICATION SLAVE"), (REPLICA, "REPLICATION SLAVE")],
            ),
            _ => return Ok(None),
        };
        self.advance();
        if kw == REPLICATION && self.bytes(self.cur).eq_ignore_ascii_case(b"CLIENT") {
            self.advance();
            return Ok(Some("REPLICATION CLIENT"));
        }
        for &(word, whole) in next {
            if self.eat_kw(word) {
                if word == TEMPORARY {
                    self.expect_kw(TABLES)?;
                }
                return Ok(Some(whole));
            }
        }
        if name.is_empty() {
            self.fail()
        } else {
            Ok(Some(name))
        }
    }

    /// After ON.
    fn grant_target(&mut self) -> SqlResult<GrantTarget> {
        let kind = self.eat_any(&[Kw::TABLE, Kw::PROCEDURE, Kw::FUNCTION]);
        if self.eat(Tok::Star) {
            if self.eat(Tok::Dot) {
                self.expect(Tok::Star)?;
                return Ok(GrantTarget::Global);
            }
            return Ok(GrantTarget::CurrentSchema);
        }
        if self.at_ident() {
            let (dot, star) = self.peek2();
            if dot.tok == Tok::Dot && star.tok == Tok::Star {
                let schema = self.schema_name()?;
                self.advance();
                self.advance();
                return Ok(GrantTarget::Schema(schema));
            }
        }
        Ok(match kind {
            Some(kw @ (Kw::PROCEDURE | Kw::FUNCTION)) => {
                GrantTarget::Routine(kw.text(), self.routine_name()?)
            }
            _ => GrantTarget::Table(self.object_name()?),
        })
    }
}
