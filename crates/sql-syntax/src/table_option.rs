//! Options of a table: those that mean something, and those that are read and kept as text.
//!
//! Neighbours: CREATE TABLE (`ddl`) and ALTER TABLE (`alter`) ask for one option after the other.
//! **Invariants**: what is not an option is left where it is.

use esker_types::SqlResult;

use super::ast::TableOption;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::Parser;

impl Parser<'_> {
    /// One table option, or nothing.
    pub(super) fn table_option(&mut self) -> SqlResult<Option<TableOption>> {
        if self.eat_kw(Kw::DEFAULT)
            && !matches!(
                self.kw(),
                Kw::CHARSET | Kw::CHARACTER | Kw::CHAR | Kw::COLLATE
            )
        {
            return self.fail();
        }
        if self.eat_charset_words()? {
            self.eat_eq();
            return Ok(Some(TableOption::Charset(self.charset_or_default()?)));
        }
        let kw = self.kw();
        let option = match kw {
            Kw::COLLATE => {
                self.advance();
                self.eat_eq();
                TableOption::Collate(self.collation_or_default()?)
            }
            Kw::ENGINE => {
                self.advance();
                self.eat_eq();
                TableOption::Engine(self.ident_or_text()?)
            }
            Kw::AUTO_INCREMENT => {
                self.advance();
                self.eat_eq();
                TableOption::AutoIncrement(self.bounded_number()?)
            }
            Kw::COMMENT => {
                self.advance();
                self.eat_eq();
                TableOption::Comment(self.string_text()?)
            }
            Kw::ROW_FORMAT => {
                self.advance();
                self.eat_eq();
                TableOption::RowFormat(self.row_format()?)
            }
            _ => return self.other_table_option(kw),
        };
        Ok(Some(option))
    }

    fn row_format(&mut self) -> SqlResult<Box<str>> {
        let word = self.bytes(self.cur).to_ascii_uppercase();
        let known: [&[u8]; 6] = [
            b"DEFAULT",
            b"FIXED",
            b"DYNAMIC",
            b"COMPRESSED",
            b"REDUNDANT",
            b"COMPACT",
        ];
        if !known.contains(&&*word) {
            return self.fail();
        }
        let token = self.advance();
        Ok(self
            .source(token.start, token.end)
            .to_ascii_uppercase()
            .into())
    }

    /// Options MySQL knows and Esker has no use for: name and value as text.
    fn other_table_option(&mut self, kw: Kw) -> SqlResult<Option<TableOption>> {
        use Kw::*;
        let mut name: Box<str> = kw.text().into();
        let start;
        match kw {
            AVG_ROW_LENGTH | CHECKSUM | DELAY_KEY_WRITE | KEY_BLOCK_SIZE | MAX_ROWS | MIN_ROWS => {
                self.start_option();
                start = self.cur.start;
                self.number()?;
            }
            PACK_KEYS | STATS_AUTO_RECALC | STATS_PERSISTENT | STATS_SAMPLE_PAGES => {
                self.start_option();
                start = self.cur.start;
                if !self.eat_kw(DEFAULT) {
                    self.number()?;
                }
            }
            COMPRESSION
            | CONNECTION
            | ENCRYPTION
            | PASSWORD
            | ENGINE_ATTRIBUTE
            | SECONDARY_ENGINE_ATTRIBUTE => {
                self.start_option();
                start = self.cur.start;
                self.string()?;
            }
            INSERT_METHOD | TABLESPACE | SECONDARY_ENGINE | AUTOEXTEND_SIZE | STORAGE => {
                self.start_option();
                start = self.cur.start;
                match self.cur.tok {
                    Tok::Int | Tok::Word(NULL | DEFAULT) => {
                        self.advance();
                    }
                    _ => {
                        self.ident_or_text()?;
                    }
                }
            }
            DATA | INDEX => {
                self.advance();
                if !self.at(DIRECTORY) {
                    return self.fail();
                }
                name = format!("{name} DIRECTORY").into();
                self.start_option();
                start = self.cur.start;
                self.string()?;
            }
            START => {
                self.advance();
                start = self.cur.start;
                self.expect_kw(TRANSACTION)?;
            }
            UNION => {
                self.start_option();
                start = self.cur.start;
                self.paren_list(Self::object_name)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(TableOption::Other(
            name,
            self.source(start, self.prev_end),
        )))
    }

    /// The option's word and `=`.
    fn start_option(&mut self) {
        self.advance();
        self.eat_eq();
    }
}
