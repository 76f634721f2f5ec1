//! SELECT … INTO OUTFILE and INTO DUMPFILE.
//!
//! Neighbours: `run` has planned the query; `textfile` makes the file's bytes and says where it may be.
//! **Invariants**
//! - The file is new; an error leaves none behind.
//! - Rows go to the file in pieces, whatever their number.

use esker_sql_catalog::exec_error::ExecError;
use esker_sql_catalog::result::OkInfo;
use esker_sql_syntax::ast::Into as IntoClause;
use esker_types::{Level, SqlError, SqlResult, errors};
use esker_vfs::OutsideFile;

use super::Session;
use super::rows::RowSource;
use super::run::Done;
use crate::textfile::{
    Dialect, Export, FOREIGN_BYTES, Places, RawSink, TextSink, charset_named, create_file, io_error,
};

/// Bytes gathered before they are written.
const PIECE_BYTES: usize = 256 * 1024;

/// Does the clause write a file? Such a query runs on a thread of its own: it waits for a disk that is not the
/// database's.
pub(super) fn is_file(into: Option<&IntoClause>) -> bool {
    matches!(
        into,
        Some(IntoClause::Outfile { .. } | IntoClause::Dumpfile(_))
    )
}

impl Session {
    /// Runs a query of a session with FILE into a file.
    pub(super) fn export(
        &mut self,
        into: &IntoClause,
        source: &mut RowSource,
    ) -> Result<Done, ExecError> {
        let (path, mut sink): (&[u8], Box<dyn Export>) = match into {
            IntoClause::Vars(_) => {
                return Err(SqlError::not_supported("SELECT INTO").into());
            }
            IntoClause::Dumpfile(path) => (path, Box::new(RawSink::default())),
            IntoClause::Outfile {
                path,
                charset,
                format,
            } => {
                let dialect = Dialect::new(format, self.vars.sql_mode)?;
                if dialect.has_foreign_bytes() {
                    self.warn(Level::Warning, 1638, FOREIGN_BYTES.to_owned());
                }
                let charset = charset.as_deref().map(charset_named).transpose()?;
                let sink = TextSink::new(dialect, charset, &source.columns());
                if sink.is_ambiguous() {
                    let text = "First character of the FIELDS TERMINATED string is ambiguous; \
                                please use non-optional and non-empty FIELDS ENCLOSED BY";
                    self.warn(Level::Warning, 1475, text.to_owned());
                }
                (path, Box::new(sink))
            }
        };
        let only_one = matches!(into, IntoClause::Dumpfile(_));
        let (mut file, place) = create_file(&Places::of(&self.context.instance.globals), path)?;
        let written = self.pull_into(&mut file, path, source, &mut *sink, only_one);
        if let Err(e) = written {
            // It may be gone already; nobody is told of a second error.
            let _ = OutsideFile::remove(&place);
            return Err(e);
        }
        let rows = sink.rows();
        let seq = self.end_statement(true)?;
        Ok(Done::Ok(
            OkInfo {
                affected_rows: rows,
                ..OkInfo::default()
            },
            seq,
        ))
    }

    fn pull_into(
        &mut self,
        file: &mut OutsideFile,
        name: &[u8],
        source: &mut RowSource,
        sink: &mut dyn Export,
        only_one: bool,
    ) -> Result<(), ExecError> {
        loop {
            let more = self.pull(source, sink.as_sink(), PIECE_BYTES)?;
            if only_one && sink.rows() > 1 {
                return Err(errors::too_many_rows().into());
            }
            let written: SqlResult<()> = file
                .write_all(sink.gathered())
                .map_err(|e| io_error(3, name, &e));
            written?;
            sink.gathered().clear();
            if !more {
                return Ok(());
            }
        }
    }
}
