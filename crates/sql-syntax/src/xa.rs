//! XA statements and their transaction identifiers.
//!
//! Neighbours: `transaction` comes here behind the word XA; `session::xa` runs what comes out.
//! **Invariants**: a parsed [`Xid`] keeps the limits of its parts; what is wrong with one is a syntax error at
//! the place where MySQL reports it.

use esker_types::SqlResult;

use super::ast::{Xa, XaStart, Xid};
use super::keyword::Kw;
use super::lexer::Tok;
use super::literal;
use super::parser::Parser;

impl Parser<'_> {
    /// Behind XA.
    pub(super) fn xa(&mut self) -> SqlResult<Xa> {
        let kw = self.expect_any(&[
            Kw::START,
            Kw::BEGIN,
            Kw::END,
            Kw::PREPARE,
            Kw::COMMIT,
            Kw::ROLLBACK,
            Kw::RECOVER,
        ])?;
        if kw == Kw::RECOVER {
            let convert = self.eat_kw(Kw::CONVERT);
            if convert {
                self.expect_kw(Kw::XID)?;
            }
            return Ok(Xa::Recover { convert });
        }
        let xid = self.xid()?;
        Ok(match kw {
            Kw::START | Kw::BEGIN => Xa::Start {
                xid,
                how: match self.eat_any(&[Kw::JOIN, Kw::RESUME]) {
                    None => XaStart::New,
                    Some(Kw::RESUME) => XaStart::Resume,
                    Some(_) => XaStart::Join,
                },
            },
            Kw::END => {
                let suspend = self.eat_kw(Kw::SUSPEND);
                if suspend && self.eat_kw(Kw::FOR) {
                    self.expect_kw(Kw::MIGRATE)?;
                }
                Xa::End { xid, suspend }
            }
            Kw::PREPARE => Xa::Prepare(xid),
            Kw::COMMIT => {
                let one_phase = self.eat_kw(Kw::ONE);
                if one_phase {
                    self.expect_kw(Kw::PHASE)?;
                }
                Xa::Commit { xid, one_phase }
            }
            _ => Xa::Rollback(xid),
        })
    }

    /// `gtrid [, bqual [, formatID]]`.
    fn xid(&mut self) -> SqlResult<Xid> {
        let mut xid = Xid {
            gtrid: self.string_or_hex()?,
            bqual: Vec::new(),
            format: 1,
        };
        // Where an error of the whole is reported: at its last token if it has all parts, else behind it.
        let mut end = None;
        if self.eat(Tok::Comma) {
            xid.bqual = self.string_or_hex()?;
            if self.eat(Tok::Comma) {
                end = Some(self.cur.start);
                xid.format = self.format_id()?;
            }
        }
        if xid.gtrid.len() > Xid::MAX_PART || xid.bqual.len() > Xid::MAX_PART {
            return Err(self.error_at(end.unwrap_or(self.cur.start)));
        }
        Ok(xid)
    }

    /// A number of at most 63 bits. As in MySQL, a hexadecimal one beyond them is the largest one, and of one with
    /// decimals or an exponent the digits in front count.
    fn format_id(&mut self) -> SqlResult<u64> {
        const MOST: u64 = i64::MAX as u64;
        let raw = self.bytes(self.cur);
        let value = match self.cur.tok {
            Tok::Int | Tok::Decimal | Tok::Float => {
                let digits = raw.iter().take_while(|b| b.is_ascii_digit()).count();
                literal::int(&raw[..digits]).filter(|v| *v <= MOST)
            }
            Tok::HexNum | Tok::HexStr => {
                let bytes = literal::bits(self.cur.tok, raw);
                let number = bytes
                    .iter()
                    .try_fold(0u64, |n, b| n.checked_mul(256).map(|n| n | u64::from(*b)));
                Some(number.map_or(MOST, |n| n.min(MOST)))
            }
            _ => None,
        };
        match value {
            Some(value) => {
                self.advance();
                Ok(value)
            }
            None => self.fail(),
        }
    }
}
