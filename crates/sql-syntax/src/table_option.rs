//! Options of a table: those that mean something, and those that are read and kept as text.
//!
//! Neighbours: CREATE TABLE (`ddl`) and ALTER TABLE (`alter`) ask for one option after the other.
//! **Invariants**: what is not an option is left where it is.

use esker_types::{SqlError, SqlResult, errors};

use super::ast::TableOption;
use super::keyword::Kw;
use super::lexer::Tok;
use super::parser::{Parser, near};

/// Numbers of rows and bytes are kept in 32 bits.
const MAX_UINT32: u64 = 0xffff_ffff;

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
                TableOption::Comment(self.comment_text()?)
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
            AVG_ROW_LENGTH | CHECKSUM | DELAY_KEY_WRITE | KEY_BLOCK_SIZE | MAX_ROWS | MIN_ROWS
            | PACK_KEYS | STATS_AUTO_RECALC | STATS_PERSISTENT | STATS_SAMPLE_PAGES
            | AUTOEXTEND_SIZE => {
                self.start_option();
                let value = self.number_option(kw)?;
                return Ok(Some(TableOption::Other(name, value)));
            }
            COMPRESSION
            | CONNECTION
            | ENCRYPTION
            | PASSWORD
            | ENGINE_ATTRIBUTE
            | SECONDARY_ENGINE_ATTRIBUTE => {
                self.start_option();
                let value = self.string_text()?;
                return Ok(Some(TableOption::Other(name, value)));
            }
            TABLESPACE => {
                self.start_option();
                let value = self.ident()?.text;
                return Ok(Some(TableOption::Other(name, value)));
            }
            INSERT_METHOD | SECONDARY_ENGINE | STORAGE => {
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

    /// A number as MySQL shows it; empty for one that means "not given".
    fn number_option(&mut self, kw: Kw) -> SqlResult<Box<str>> {
        let at = self.cur.start;
        let value = match kw {
            Kw::MAX_ROWS | Kw::MIN_ROWS => self.bounded_number()?.min(MAX_UINT32),
            Kw::AVG_ROW_LENGTH => match self.bounded_number()? {
                length @ 0..=MAX_UINT32 => length,
                _ => {
                    return Err(self.out_of_range(at, "avg_row_length is [0,4294967295]"));
                }
            },
            Kw::CHECKSUM | Kw::DELAY_KEY_WRITE => u64::from(self.bounded_number()? != 0),
            Kw::KEY_BLOCK_SIZE => self.number()?,
            Kw::AUTOEXTEND_SIZE => self.size()?,
            _ if self.eat_kw(Kw::DEFAULT) => return Ok("".into()),
            Kw::STATS_SAMPLE_PAGES => match self.bounded_number()? {
                pages @ 1..=0xffff => pages,
                _ => {
                    return Err(self.out_of_range(at, "stats_sample_pages is [1, 65535]"));
                }
            },
            _ => match self.number()? {
                // It is given, and off.
                0 => return Ok("0".into()),
                1 => 1,
                _ => return Err(self.error_at(at)),
            },
        };
        Ok(match value {
            0 => "".into(),
            value => value.to_string().into(),
        })
    }

    /// A number of bytes: digits, with K, M or G behind them or nothing.
    pub(super) fn size(&mut self) -> SqlResult<u64> {
        if self.cur.tok == Tok::Int {
            return self.bounded_number();
        }
        let word = self.ident()?.text;
        let bytes = || {
            let (digits, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
            let shift = match unit.as_bytes()[0].to_ascii_uppercase() {
                b'K' => 10,
                b'M' => 20,
                b'G' => 30,
                _ => return None,
            };
            digits.parse::<u64>().ok()?.checked_mul(1 << shift)
        };
        bytes().ok_or_else(|| {
            let text =
                "A size parameter was incorrectly specified, either number or on the form 10M";
            SqlError::new(1531, "HY000", text)
        })
    }

    /// 1064 for a number that is not in the range of its option.
    fn out_of_range(&self, at: usize, range: &str) -> SqlError {
        let (near, line) = near(&self.src[self.begin..], at - self.begin);
        let text = format!("The valid range for {range}. Error near '{near}' at line {line}");
        errors::not_parsed(text)
    }

    /// The option's word and `=`.
    fn start_option(&mut self) {
        self.advance();
        self.eat_eq();
    }
}
