//! LOAD DATA as a statement: a file in pieces, and then the statement that reads it.
//!
//! ```text
//! BEGIN_LOAD_QUERY, APPEND_BLOCK: number of the file (4), bytes
//! EXECUTE_LOAD_QUERY: the head of QUERY (13), number of the file (4), where the file's name stands in the text: from
//!                     (4) and to (4), what happens to duplicates (1); settings, database and text as in QUERY
//! ```
//! Neighbours: `assemble` makes parts of a group of it; `applier::run` keeps the pieces for the statement.
//! **Invariant**: the statement that comes out reads a file of the server, with the words that the source has run it
//! by: its name means nothing here.

use crate::bytes::Reader;
use crate::event::query::Query;
use crate::{Result, damaged};

/// Bytes of the head of QUERY.
const QUERY_HEAD: usize = 13;
/// Numbers between it and the settings.
const LOAD_HEAD: usize = 13;
/// Names the file that has come in pieces.
const FILE: &[u8] = b" INFILE 'replicated'";

/// The bytes of the file in a piece.
///
/// # Errors
/// It is damaged.
pub(super) fn block(body: &[u8]) -> Result<&[u8]> {
    let mut r = Reader::new(body);
    r.u32()?;
    Ok(r.rest())
}

/// The body of a QUERY event for EXECUTE_LOAD_QUERY.
///
/// # Errors
/// It is damaged.
pub(super) fn statement(body: &[u8]) -> Result<Vec<u8>> {
    let mut r = Reader::new(body);
    let head = r.take(QUERY_HEAD)?;
    let numbers = r.take(LOAD_HEAD)?;
    let plain = [head, r.rest()].concat();
    let mut query = Query::parse(&plain)?;
    let mut r = Reader::new(numbers);
    r.u32()?;
    let (from, to) = (r.u32()? as usize, r.u32()? as usize);
    let duplicates: &[u8] = match r.u8()? {
        0 => b"",
        1 => b" IGNORE",
        2 => b" REPLACE",
        _ => return Err(damaged("load: what happens to duplicates")),
    };
    if from > to || to > query.text.len() {
        return Err(damaged("load: the place of the file's name"));
    }
    let (before, behind) = (query.text[..from].trim_ascii_end(), &query.text[to..]);
    // INTO is a part of what is replaced.
    let text = [
        before,
        FILE,
        duplicates,
        b" INTO ",
        behind.trim_ascii_start(),
    ]
    .concat();
    query.text = &text;
    let mut statement = Vec::new();
    query.write(&mut statement);
    Ok(statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &[u8], from: u32, to: u32, duplicates: u8) -> Vec<u8> {
        let query = Query {
            thread_id: 7,
            seconds: 1,
            error: 0,
            schema: b"a",
            settings: &[],
            text,
        };
        let mut body = Vec::new();
        query.write(&mut body);
        let mut numbers = 3u32.to_le_bytes().to_vec();
        numbers.extend(from.to_le_bytes());
        numbers.extend(to.to_le_bytes());
        numbers.push(duplicates);
        body.splice(QUERY_HEAD..QUERY_HEAD, numbers);
        body
    }

    #[test]
    fn the_statement_names_the_file_that_has_come() {
        let text =
            b"LOAD DATA LOCAL INFILE '/tmp/x' REPLACE INTO TABLE `t` FIELDS TERMINATED BY ','";
        for (duplicates, word) in [(0, ""), (1, " IGNORE"), (2, " REPLACE")] {
            let body = statement(&event(text, 9, 44, duplicates)).expect("statement");
            let query = Query::parse(&body).expect("query");
            let expected = format!(
                "LOAD DATA INFILE 'replicated'{word} INTO TABLE `t` FIELDS TERMINATED BY ','"
            );
            assert_eq!(String::from_utf8_lossy(query.text), expected);
            assert_eq!((query.schema, query.thread_id), (&b"a"[..], 7));
        }
    }

    #[test]
    fn damaged_ones_are_refused() {
        let text = b"LOAD DATA INFILE 'x' INTO TABLE t";
        assert!(statement(&event(text, 9, 8, 0)).is_err());
        assert!(statement(&event(text, 9, 900, 0)).is_err());
        assert!(statement(&event(text, 9, 20, 3)).is_err());
        assert!(statement(&event(text, 9, 20, 0)[..20]).is_err());
        assert!(block(&[1, 2]).is_err());
        assert_eq!(block(&[1, 0, 0, 0, b'x']).expect("block"), b"x");
    }
}
