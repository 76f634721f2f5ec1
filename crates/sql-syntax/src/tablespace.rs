//! CREATE, ALTER and DROP TABLESPACE.
//!
//! Neighbours: `statement` recognises the words before; `table_option` reads sizes.
//! **Invariants**: what MySQL's grammar takes for other engines is read and counts for nothing.

use esker_types::{SqlError, SqlResult};

use super::ast::{Statement, TablespaceAction, TablespaceOptions, TablespaceStatement};
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

/// Options of the statements; some of them are for other engines.
const OF_CREATE: &[&str] = &[
    "ENGINE",
    "FILE_BLOCK_SIZE",
    "AUTOEXTEND_SIZE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "COMMENT",
    "INITIAL_SIZE",
    "EXTENT_SIZE",
    "MAX_SIZE",
    "NODEGROUP",
    "WAIT",
    "NO_WAIT",
];
const OF_ALTER: &[&str] = &[
    "ENGINE",
    "AUTOEXTEND_SIZE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "INITIAL_SIZE",
    "MAX_SIZE",
    "WAIT",
    "NO_WAIT",
];
const OF_DROP: &[&str] = &["ENGINE", "WAIT", "NO_WAIT"];

impl Parser<'_> {
    /// CREATE, before TABLESPACE.
    pub(super) fn create_tablespace(&mut self) -> SqlResult<Statement> {
        self.tablespace(OF_CREATE, |p| {
            let file = match p.eat_kw(Kw::ADD) {
                true => Some(p.datafile()?),
                false => None,
            };
            if p.eat_kw(Kw::USE) {
                p.expect_kw(Kw::LOGFILE)?;
                p.expect_kw(Kw::GROUP)?;
                p.ident()?;
            }
            Ok(TablespaceAction::Create(file))
        })
    }

    /// ALTER, before TABLESPACE.
    pub(super) fn alter_tablespace(&mut self) -> SqlResult<Statement> {
        self.tablespace(OF_ALTER, |p| {
            Ok(match p.kw() {
                Kw::ADD => {
                    p.advance();
                    TablespaceAction::AddDatafile(p.datafile()?)
                }
                Kw::DROP => {
                    p.advance();
                    TablespaceAction::DropDatafile(p.datafile()?)
                }
                Kw::RENAME => {
                    p.advance();
                    p.expect_kw(Kw::TO)?;
                    TablespaceAction::Rename(p.ident()?)
                }
                _ if p.at_end() => return p.fail(),
                _ => TablespaceAction::Alter,
            })
        })
    }

    /// DROP, before TABLESPACE.
    pub(super) fn drop_tablespace(&mut self) -> SqlResult<Statement> {
        self.tablespace(OF_DROP, |_| Ok(TablespaceAction::Drop))
    }

    fn tablespace(
        &mut self,
        options: &[&str],
        action: impl FnOnce(&mut Self) -> SqlResult<TablespaceAction>,
    ) -> SqlResult<Statement> {
        self.expect_kw(Kw::TABLESPACE)?;
        Ok(Statement::Tablespace(Box::new(TablespaceStatement {
            name: self.ident()?,
            action: action(self)?,
            options: self.tablespace_options(options)?,
        })))
    }

    fn datafile(&mut self) -> SqlResult<Vec<u8>> {
        if !self.eat_named("DATAFILE") {
            return self.fail();
        }
        self.string()
    }

    /// A word, reserved or not.
    fn eat_named(&mut self, word: &str) -> bool {
        let is_it = self.bytes(self.cur).eq_ignore_ascii_case(word.as_bytes());
        if is_it {
            self.advance();
        }
        is_it
    }

    /// Options behind each other, with commas or without.
    fn tablespace_options(&mut self, names: &[&str]) -> SqlResult<TablespaceOptions> {
        let mut options = TablespaceOptions::default();
        while !self.at_end() {
            let name = names.iter().find(|name| self.eat_named(name));
            let name = *name.ok_or_else(|| self.error_at(self.cur.start))?;
            self.tablespace_option(name, &mut options)?;
            if self.eat(Tok::Comma) && self.at_end() {
                return self.fail();
            }
        }
        Ok(options)
    }

    fn tablespace_option(&mut self, name: &str, options: &mut TablespaceOptions) -> SqlResult<()> {
        if name.ends_with("WAIT") {
            return Ok(());
        }
        self.eat_eq();
        match name {
            "ENGINE" => {
                let before = options.engine.replace(self.ident_or_text()?);
                if before.is_some() {
                    return Err(given_twice("STORAGE ENGINE"));
                }
            }
            "FILE_BLOCK_SIZE" => options.block_size = Some(self.size()?),
            "AUTOEXTEND_SIZE" => options.autoextend_size = Some(self.size()?),
            "ENCRYPTION" => options.encryption = Some(self.string()?),
            "ENGINE_ATTRIBUTE" => options.attribute = Some(self.string()?),
            "COMMENT" => drop(self.string()?),
            "NODEGROUP" => drop(self.number()?),
            _ => drop(self.size()?),
        }
        Ok(())
    }
}

/// 1527
fn given_twice(option: &str) -> SqlError {
    let text = format!("It is not allowed to specify {option} more than once");
    SqlError::new(1527, "HY000", text)
}
