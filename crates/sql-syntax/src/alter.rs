//! ALTER TABLE.
//!
//! Neighbours: `ddl` (constraints, options), `column` (definitions).
//! **Invariants**: every action of MySQL 8.4 is recognised; those of partitions stand in
//! `partition`.

use esker_types::SqlResult;

use super::ast::{AlterAction, AlterTable, ColumnPosition, DdlOptions, Ident, LockWait, Statement};
use super::index::TableConstraint;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;
use super::partition::tablespace_verb;

impl Parser<'_> {
    /// ALTER [ONLINE] [IGNORE] TABLE, after TABLE.
    pub(super) fn alter_table(&mut self, ignore: bool) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        let name = self.object_name()?;
        let mut alter = AlterTable {
            if_exists,
            ignore,
            name,
            actions: Vec::new(),
            options: DdlOptions {
                wait: self.ddl_wait()?,
                ..DdlOptions::default()
            },
            without_validation: false,
        };
        if let Some(kind) = self.partition_maintenance() {
            return self.maintain_partitions(kind, alter.name);
        }
        while !self.at_end() {
            self.alter_item(&mut alter)?;
            if let Some(AlterAction::Tablespace(_)) = alter.actions.last() {
                match alter.actions.len() {
                    1 => break,
                    _ => return self.fail(),
                }
            }
            if let Some(AlterAction::Partition(action)) =
                alter.actions.last().map(AlterAction::bare)
                && action.stands_alone()
            {
                break;
            }
            // MySQL separates actions by commas, table options also by spaces.
            if !self.eat(Tok::Comma) {
                let option_follows = matches!(alter.actions.last(), Some(AlterAction::Option(_)));
                if !option_follows && !self.at(Kw::PARTITION) && !self.at(Kw::REMOVE) {
                    break;
                }
            } else if self.at_end() || self.at(Kw::PARTITION) || self.at(Kw::REMOVE) {
                return self.fail();
            }
        }
        Ok(Statement::AlterTable(Box::new(alter)))
    }

    fn alter_item(&mut self, alter: &mut AlterTable) -> SqlResult<()> {
        if matches!(self.kw(), Kw::ALGORITHM | Kw::LOCK) {
            self.algorithm_or_lock(&mut alter.options)?;
            return Ok(());
        }
        if self.at(Kw::WITH) || self.at(Kw::WITHOUT) {
            alter.without_validation = self.advance().tok == Tok::Word(Kw::WITHOUT);
            return self.expect_kw(Kw::VALIDATION);
        }
        let wait = self.ddl_wait()?;
        if wait != LockWait::Default {
            alter.options.wait = wait;
            return Ok(());
        }
        self.alter_action(&mut alter.actions)
    }

    fn alter_action(&mut self, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        let second = self.peek().start;
        if let Some((action, is_conditional)) = self.partition_action()? {
            if action.stands_alone() && !actions.is_empty() {
                return Err(self.error_at(second));
            }
            actions.push(AlterAction::Partition(action).only_if(is_conditional));
            return Ok(());
        }
        let kw = self.kw();
        let action = match kw {
            Kw::ADD => {
                self.advance();
                return self.alter_add(actions);
            }
            Kw::DROP => {
                self.advance();
                self.alter_drop()?
            }
            Kw::MODIFY | Kw::CHANGE => {
                self.advance();
                self.alter_column(kw)?
            }
            Kw::RENAME => {
                self.advance();
                self.alter_rename()?
            }
            Kw::ALTER => {
                self.advance();
                self.alter_alter()?
            }
            Kw::CONVERT => {
                self.advance();
                self.alter_convert()?
            }
            Kw::ORDER => {
                self.advance();
                self.expect_kw(Kw::BY)?;
                AlterAction::OrderBy(self.list(|p| {
                    let column = p.column_ref()?;
                    p.eat_any(&[Kw::ASC, Kw::DESC]);
                    Ok(column.name)
                })?)
            }
            Kw::ENABLE | Kw::DISABLE => {
                self.advance();
                self.expect_kw(Kw::KEYS)?;
                match kw {
                    Kw::ENABLE => AlterAction::EnableKeys,
                    _ => AlterAction::DisableKeys,
                }
            }
            Kw::FORCE => {
                self.advance();
                AlterAction::Force
            }
            Kw::DISCARD | Kw::IMPORT => {
                self.advance();
                self.expect_kw(Kw::TABLESPACE)?;
                AlterAction::Tablespace(tablespace_verb(kw))
            }
            _ => match self.table_option()? {
                Some(option) => AlterAction::Option(option),
                None => return self.fail(),
            },
        };
        actions.push(action);
        Ok(())
    }

    /// MODIFY and CHANGE: a column that is written anew, behind its old name or with the name it has.
    fn alter_column(&mut self, kw: Kw) -> SqlResult<AlterAction> {
        self.eat_kw(Kw::COLUMN);
        let if_exists = self.if_exists()?;
        let old = match kw {
            Kw::CHANGE => Some(self.ident()?),
            _ => None,
        };
        let def = Box::new(self.column_def()?);
        let position = self.column_position()?;
        let action = match old {
            Some(old) => AlterAction::ChangeColumn { old, def, position },
            None => AlterAction::ModifyColumn { def, position },
        };
        Ok(action.only_if(if_exists))
    }

    /// CONVERT TO CHARACTER SET.
    fn alter_convert(&mut self) -> SqlResult<AlterAction> {
        self.expect_kw(Kw::TO)?;
        if !self.eat_charset_words()? {
            return self.fail();
        }
        let charset = self.charset_or_default()?;
        let mut collation = None;
        if self.eat_kw(Kw::COLLATE) {
            self.eat_eq();
            collation = Some(self.collation_name()?);
        }
        Ok(AlterAction::ConvertCharset { charset, collation })
    }

    fn alter_add(&mut self, actions: &mut Vec<AlterAction>) -> SqlResult<()> {
        if !self.at(Kw::COLUMN)
            && !self.is(Tok::LParen)
            && let Some((constraint, if_not_exists)) = self.table_constraint()?
        {
            actions.push(constraint_action(constraint).only_if(if_not_exists));
            return Ok(());
        }
        self.eat_kw(Kw::COLUMN);
        let if_not_exists = self.if_not_exists()?;
        if self.eat(Tok::LParen) {
            self.list(|p| {
                if let Some((constraint, if_not_exists)) = p.table_constraint()? {
                    actions.push(constraint_action(constraint).only_if(if_not_exists));
                    return Ok(());
                }
                let (def, key) = p.new_column()?;
                let action = AlterAction::AddColumn {
                    def: Box::new(def),
                    position: ColumnPosition::Unchanged,
                };
                actions.push(action.only_if(if_not_exists));
                actions.extend(key.map(AlterAction::AddForeignKey));
                Ok(())
            })?;
            return self.expect(Tok::RParen);
        }
        let (def, key) = self.new_column()?;
        let action = AlterAction::AddColumn {
            def: Box::new(def),
            position: self.column_position()?,
        };
        actions.push(action.only_if(if_not_exists));
        actions.extend(key.map(AlterAction::AddForeignKey));
        Ok(())
    }

    fn column_position(&mut self) -> SqlResult<ColumnPosition> {
        if self.eat_kw(Kw::FIRST) {
            return Ok(ColumnPosition::First);
        }
        if self.eat_kw(Kw::AFTER) {
            return Ok(ColumnPosition::After(self.ident()?));
        }
        Ok(ColumnPosition::Unchanged)
    }

    fn alter_drop(&mut self) -> SqlResult<AlterAction> {
        Ok(match self.kw() {
            Kw::PRIMARY => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                AlterAction::DropPrimaryKey
            }
            Kw::INDEX | Kw::KEY => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterAction::DropIndex(self.index_ident()?).only_if(if_exists)
            }
            Kw::FOREIGN => {
                self.advance();
                self.expect_kw(Kw::KEY)?;
                let if_exists = self.if_exists()?;
                AlterAction::DropForeignKey(self.ident()?).only_if(if_exists)
            }
            Kw::CHECK => {
                self.advance();
                AlterAction::DropCheck(self.ident()?)
            }
            Kw::CONSTRAINT => {
                self.advance();
                let if_exists = self.if_exists()?;
                AlterAction::DropConstraint(self.index_ident()?).only_if(if_exists)
            }
            _ => {
                self.eat_kw(Kw::COLUMN);
                let if_exists = self.if_exists()?;
                let name = self.ident()?;
                self.eat_any(&[Kw::RESTRICT, Kw::CASCADE]);
                AlterAction::DropColumn(name).only_if(if_exists)
            }
        })
    }

    fn index_ident(&mut self) -> SqlResult<Ident> {
        if self.eat_kw(Kw::PRIMARY) {
            Ok(Ident::new("PRIMARY"))
        } else {
            self.ident()
        }
    }

    fn alter_rename(&mut self) -> SqlResult<AlterAction> {
        match self.kw() {
            Kw::COLUMN => {
                self.advance();
                let if_exists = self.if_exists()?;
                let old = self.ident()?;
                self.expect_kw(Kw::TO)?;
                let new = self.ident()?;
                Ok(AlterAction::RenameColumn { old, new }.only_if(if_exists))
            }
            Kw::INDEX | Kw::KEY => {
                self.advance();
                let if_exists = self.if_exists()?;
                let old = self.ident()?;
                self.expect_kw(Kw::TO)?;
                let new = self.ident()?;
                Ok(AlterAction::RenameIndex { old, new }.only_if(if_exists))
            }
            _ => {
                if !self.eat_kw(Kw::TO) && !self.eat_kw(Kw::AS) {
                    self.eat_eq();
                }
                Ok(AlterAction::RenameTo(self.object_name()?))
            }
        }
    }

    fn alter_alter(&mut self) -> SqlResult<AlterAction> {
        match self.kw() {
            Kw::INDEX | Kw::KEY => {
                self.advance();
                let if_exists = self.if_exists()?;
                let index = self.ident()?;
                let visible = self.index_visibility()?;
                let action = AlterAction::SetIndexVisible { index, visible };
                return Ok(action.only_if(if_exists));
            }
            Kw::CHECK | Kw::CONSTRAINT => {
                self.advance();
                let name = self.ident()?;
                let enforced = !self.eat_kw(Kw::NOT);
                self.expect_kw(Kw::ENFORCED)?;
                return Ok(AlterAction::SetEnforced { name, enforced });
            }
            _ => {}
        }
        self.eat_kw(Kw::COLUMN);
        let if_exists = self.if_exists()?;
        let column = self.ident()?;
        Ok(self.altered_column(column)?.only_if(if_exists))
    }

    /// VISIBLE, INVISIBLE, or MariaDB's words for it.
    fn index_visibility(&mut self) -> SqlResult<bool> {
        let is_not = self.at(Kw::NOT) && self.peek_is_word("IGNORED");
        if is_not {
            self.advance();
        }
        if self.eat_word("IGNORED") {
            return Ok(is_not);
        }
        Ok(self.expect_any(&[Kw::VISIBLE, Kw::INVISIBLE])? == Kw::VISIBLE)
    }

    /// DROP DEFAULT, SET DEFAULT, SET VISIBLE, SET INVISIBLE.
    fn altered_column(&mut self, column: Ident) -> SqlResult<AlterAction> {
        if self.eat_kw(Kw::DROP) {
            self.expect_kw(Kw::DEFAULT)?;
            return Ok(AlterAction::DropDefault(column));
        }
        self.expect_kw(Kw::SET)?;
        if self.eat_kw(Kw::DEFAULT) {
            let default = self.column_default()?;
            return Ok(AlterAction::SetDefault { column, default });
        }
        let visible = self.expect_any(&[Kw::VISIBLE, Kw::INVISIBLE])? == Kw::VISIBLE;
        Ok(AlterAction::SetColumnVisible { column, visible })
    }
}

fn constraint_action(constraint: TableConstraint) -> AlterAction {
    match constraint {
        TableConstraint::Index(index) => AlterAction::AddIndex(index),
        TableConstraint::ForeignKey(key) => AlterAction::AddForeignKey(key),
        TableConstraint::Check(check) => AlterAction::AddCheck(check),
    }
}
