//! SET: variables, NAMES, passwords, roles and the next transaction.
//!
//! Neighbours: `statement` and `program` dispatch here; `operand` reads variables.
//! **Invariants**: SET keeps its items in order, since each sees the effect of those before it.

use esker_types::{SqlResult, errors};

use super::ast::{
    Account, Expr, Isolation, Literal, RoleList, SetItem, SetPassword, SetRole, SetTransaction,
    Statement, SysVar, VarScope,
};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// The scope word of SET that holds for items without one.
#[derive(Default)]
pub(super) struct StandingScope {
    pub(super) scope: Option<VarScope>,
    /// The last item has it from one before.
    pub(super) is_inherited: bool,
}

impl Parser<'_> {
    pub(super) fn set_statement(&mut self) -> SqlResult<Statement> {
        self.expect_kw(Kw::SET)?;
        match (self.kw(), self.peek().tok) {
            (Kw::PASSWORD, next) if !matches!(next, Tok::Assign) => {
                self.refuse_shadowed()?;
                self.advance();
                return self.set_password();
            }
            (Kw::ROLE, _) => {
                self.advance();
                let roles = self.role_list(true)?;
                return Ok(Statement::SetRole(SetRole {
                    roles,
                    default_for: None,
                }));
            }
            (Kw::DEFAULT, Tok::Word(Kw::ROLE)) => {
                self.advance();
                self.advance();
                let roles = self.role_list(false)?;
                self.expect_kw(Kw::TO)?;
                let users = self.list(Self::account)?;
                return Ok(Statement::SetRole(SetRole {
                    roles,
                    default_for: Some(users),
                }));
            }
            (Kw::RESOURCE, Tok::Word(Kw::GROUP)) => {
                return Ok(self.unsupported("SET RESOURCE GROUP"));
            }
            _ => {}
        }
        if let Some(transaction) = self.set_transaction()? {
            return Ok(Statement::SetTransaction(transaction));
        }
        let mut scope = StandingScope::default();
        let items = self.list(|p| p.set_item(&mut scope))?;
        Ok(Statement::Set(items))
    }

    /// `[GLOBAL|SESSION|LOCAL] TRANSACTION …`.
    fn set_transaction(&mut self) -> SqlResult<Option<SetTransaction>> {
        let scope = match self.kw() {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            _ => None,
        };
        let transaction = if scope.is_some() {
            self.peek_is(Kw::TRANSACTION)
        } else {
            self.at(Kw::TRANSACTION)
        };
        if !transaction {
            return Ok(None);
        }
        if scope.is_some() {
            self.advance();
        }
        self.advance();
        let mut set = SetTransaction {
            scope,
            isolation: None,
            read_only: None,
        };
        loop {
            if set.read_only.is_none() && self.eat_kw(Kw::READ) {
                set.read_only = Some(self.expect_any(&[Kw::ONLY, Kw::WRITE])? == Kw::ONLY);
            } else if set.isolation.is_none() && self.eat_kw(Kw::ISOLATION) {
                self.expect_kw(Kw::LEVEL)?;
                set.isolation = Some(self.isolation()?);
            } else {
                return self.fail();
            }
            if !self.eat(Tok::Comma) {
                return Ok(Some(set));
            }
        }
    }

    fn isolation(&mut self) -> SqlResult<Isolation> {
        Ok(
            match self.expect_any(&[Kw::READ, Kw::REPEATABLE, Kw::SERIALIZABLE])? {
                Kw::SERIALIZABLE => Isolation::Serializable,
                Kw::REPEATABLE => {
                    self.expect_kw(Kw::READ)?;
                    Isolation::RepeatableRead
                }
                _ => match self.expect_any(&[Kw::COMMITTED, Kw::UNCOMMITTED])? {
                    Kw::COMMITTED => Isolation::ReadCommitted,
                    _ => Isolation::ReadUncommitted,
                },
            },
        )
    }

    /// One item. A scope word before it holds for the items behind it, too, until the next one.
    pub(super) fn set_item(&mut self, standing: &mut StandingScope) -> SqlResult<SetItem> {
        standing.is_inherited = false;
        self.refuse_shadowed()?;
        if let Some(name) = self.opt_assigned_var()? {
            self.expect_assign()?;
            return Ok(SetItem::UserVar {
                name,
                value: self.expr()?,
            });
        }
        if self.is(Tok::AtAt) {
            let var = self.sys_var()?;
            return self.set_value(var);
        }
        if self.eat_kw(Kw::NAMES) {
            return self.set_names();
        }
        if self.eat_charset_words()? {
            let charset = if self.eat_kw(Kw::DEFAULT) {
                None
            } else {
                Some(self.charset_name()?)
            };
            return Ok(SetItem::Charset(charset));
        }
        if self.at_scope_of_name() {
            return self.fail();
        }
        let scope = match self.kw() {
            Kw::GLOBAL => Some(VarScope::Global),
            Kw::SESSION | Kw::LOCAL => Some(VarScope::Session),
            Kw::PERSIST => Some(VarScope::Persist),
            Kw::PERSIST_ONLY => Some(VarScope::PersistOnly),
            _ => None,
        };
        if scope.is_some() {
            self.advance();
            if self.at_scope() {
                return self.fail();
            }
        }
        let mut var = self.var_name()?;
        match scope {
            Some(_) => standing.scope = scope,
            None => standing.is_inherited = standing.scope.is_some(),
        }
        var.scope = standing.scope;
        self.set_value(var)
    }

    /// `GLOBAL.` and its kin stand behind `@@` only.
    fn at_scope_of_name(&self) -> bool {
        let word = self.bytes(self.cur);
        let is_scope = ["GLOBAL", "SESSION", "LOCAL"]
            .iter()
            .any(|scope| word.eq_ignore_ascii_case(scope.as_bytes()));
        is_scope && self.peek().tok == Tok::Dot
    }

    /// NAMES and PASSWORD without quotes are no variables of a program.
    ///
    /// # Errors
    /// 1453.
    fn refuse_shadowed(&self) -> SqlResult<()> {
        let is_assigned = matches!(self.peek().tok, Tok::Eq | Tok::Assign);
        let name = match self.kw() {
            Kw::NAMES if is_assigned => "names",
            Kw::PASSWORD if is_assigned => "password",
            _ => return Ok(()),
        };
        match self.has_variable(name) {
            true => Err(errors::shadowed_variable(name)),
            false => Ok(()),
        }
    }

    fn at_scope(&self) -> bool {
        matches!(
            self.kw(),
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL | Kw::PERSIST | Kw::PERSIST_ONLY
        )
    }

    fn set_names(&mut self) -> SqlResult<SetItem> {
        if self.eat_kw(Kw::DEFAULT) {
            return Ok(SetItem::Names {
                charset: None,
                collation: None,
            });
        }
        let charset = Some(self.charset_name()?);
        let collation = if self.eat_kw(Kw::COLLATE) {
            Some(self.collation_name()?)
        } else {
            None
        };
        Ok(SetItem::Names { charset, collation })
    }

    fn set_value(&mut self, var: SysVar) -> SqlResult<SetItem> {
        self.expect_assign()?;
        let value = match self.kw() {
            Kw::DEFAULT if self.peek().tok != Tok::LParen => {
                self.advance();
                return Ok(SetItem::SysVar { var, value: None });
            }
            // Reserved words that are values.
            kw @ (Kw::ON | Kw::ALL | Kw::SYSTEM) => {
                self.advance();
                string(kw.text())
            }
            kw @ (Kw::BINARY | Kw::ROW) if self.value_ends() => {
                self.advance();
                string(kw.text())
            }
            _ => match self.expr()? {
                // A bare word is its own text.
                Expr::Column(column) if column.table.is_none() => string(&column.name.text),
                expr => expr,
            },
        };
        Ok(SetItem::SysVar {
            var,
            value: Some(value),
        })
    }

    /// Does the item end after the current word?
    fn value_ends(&self) -> bool {
        matches!(self.peek().tok, Tok::Comma | Tok::Eof | Tok::Semicolon)
    }

    /// After SET PASSWORD.
    fn set_password(&mut self) -> SqlResult<Statement> {
        let account = if self.eat_kw(Kw::FOR) {
            self.account()?
        } else {
            Account::CurrentUser
        };
        let password = if self.eat_kw(Kw::TO) {
            self.expect_kw(Kw::RANDOM)?;
            None
        } else {
            self.expect_assign()?;
            Some(self.string()?)
        };
        let replace = if self.eat_kw(Kw::REPLACE) {
            Some(self.string()?)
        } else {
            None
        };
        let retain_current = self.eat_kw(Kw::RETAIN);
        if retain_current {
            self.expect_seq(&[Kw::CURRENT, Kw::PASSWORD])?;
        }
        self.accounts.list_end = self.prev_end;
        Ok(Statement::SetPassword(SetPassword {
            account,
            password,
            replace,
            retain_current,
        }))
    }

    pub(super) fn role_list(&mut self, default: bool) -> SqlResult<RoleList> {
        if self.eat_kw(Kw::NONE) {
            return Ok(RoleList::None);
        }
        if default && self.eat_kw(Kw::DEFAULT) {
            return Ok(RoleList::Default);
        }
        if self.eat_kw(Kw::ALL) {
            let except = if self.eat_kw(Kw::EXCEPT) {
                self.list(Self::account)?
            } else {
                Vec::new()
            };
            return Ok(RoleList::All(except));
        }
        Ok(RoleList::Named(self.list(Self::account)?))
    }
}

fn string(text: &str) -> Expr {
    Expr::Literal(Literal::Str {
        bytes: text.as_bytes().to_vec(),
        charset: None,
    })
}
