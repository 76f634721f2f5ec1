//! LOAD DATA: rights, the file, and the run.
//!
//! Neighbours: `dml` compiles and stores the rows, `textfile` says which files the server may read; for LOCAL the
//! server asks the client ([`Step::NeedFile`]) and comes back with [`Session::feed`]. **Invariants**
//! - A client is asked for its file only when the statement could begin: rights are checked, names resolved, the table
//!   locked.
//! - As with every change, an error leaves none of the statement's rows behind.

use std::sync::Arc;

use esker_engine::EngineError;
use esker_sql_catalog::exec_error::{ExecError, engine_error};
use esker_sql_catalog::result::{Mode, Outcome, Step};
use esker_sql_plan::bind::Params;
use esker_sql_syntax::ast::{LoadData, Statement};
use esker_types::{SqlError, SqlResult, errors};
use esker_vfs::OutsideFile;

use super::change::MAX_COMPILATIONS;
use super::names::Purpose;
use super::run::Done;
use super::{Running, Session, SessionContext, Work};
use crate::dml::CompiledLoad;
use crate::textfile::{FileSource, Places, charset_named, io_error, open_file};

/// Bytes read from a file of the server at a time.
const PIECE_BYTES: usize = 256 * 1024;

/// A file on the server's machine.
struct ServerFile {
    file: OutsideFile,
    name: Vec<u8>,
}

impl FileSource for ServerFile {
    fn read(
        &mut self,
        piece: &mut Vec<u8>,
        _check_killed: &dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<()> {
        piece.resize(PIECE_BYTES, 0);
        let read = self.file.read(piece);
        piece.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop).map_err(|e| io_error(2, &self.name, &e))
    }
}

/// A file that has come with a statement of another server.
struct AppliedFile {
    bytes: Arc<[u8]>,
    at: usize,
}

impl FileSource for AppliedFile {
    fn read(
        &mut self,
        piece: &mut Vec<u8>,
        _check_killed: &dyn Fn() -> SqlResult<()>,
    ) -> SqlResult<()> {
        let rest = &self.bytes[self.at..];
        piece.extend_from_slice(&rest[..rest.len().min(PIECE_BYTES)]);
        self.at += piece.len();
        Ok(())
    }
}

impl Session {
    /// The file that the next LOAD DATA of another server reads, whatever it calls it.
    pub(crate) fn load_applied_file(&mut self, file: Option<Vec<u8>>) {
        self.applied_file = file.map(Arc::from);
    }

    /// Runs the LOAD DATA LOCAL that has asked for its file.
    ///
    /// # Panics
    /// When the last step was not [`Step::NeedFile`]: a mistake of the caller.
    pub fn feed(&mut self, file: &mut dyn FileSource) -> Outcome {
        let Some(mut running) = self.running.take() else {
            panic!("a file without a started statement");
        };
        self.context.pace.enter(Mode::Thread);
        let outcome = self
            .survive(|session| session.feed_running(&mut running, file))
            .unwrap_or_else(|e| {
                let outcome = self.fail(e);
                self.note_outcome(&mut running, &outcome);
                outcome
            });
        self.context.pace.rest();
        self.running = Some(running);
        outcome
    }

    fn feed_running(&mut self, running: &mut Running, file: &mut dyn FileSource) -> Outcome {
        let done = match &running.work {
            Work::Ready(statement, _) => match &**statement {
                Statement::LoadData(load) => {
                    let done = self.load_data(load, Some(file));
                    self.settle_gtid(statement, &done);
                    done
                }
                _ => panic!("a file for another statement"),
            },
            _ => panic!("a file for a finished statement"),
        };
        // Metadata locks were there when the file was asked for, and row locks are waited for in place.
        let done = done.map_err(|e| match e {
            ExecError::Wait(_) => ExecError::Sql(engine_error(&EngineError::LockWaitTimeout)),
            e => e,
        });
        match self.settle(running, done) {
            Step::Done(outcome) => {
                self.note_outcome(running, &outcome);
                outcome
            }
            _ => panic!("the file was there"),
        }
    }

    /// LOAD DATA, with the client's file if it is there already.
    pub(super) fn load_data(
        &mut self,
        load: &LoadData,
        file: Option<&mut dyn FileSource>,
    ) -> Result<Done, ExecError> {
        let applied = self.applied_file.clone();
        if applied.is_none() {
            self.may_load(load)?;
        }
        if !self.context.is_temporary(&load.table) {
            self.check_writable()?;
        }
        self.use_transaction();
        let compiled = self.compiled_load(load)?;
        match (file, applied) {
            (Some(file), _) => self.run_load(&compiled, file),
            (None, Some(bytes)) => self.run_load(&compiled, &mut AppliedFile { bytes, at: 0 }),
            (None, None) if load.local => Ok(Done::NeedFile(load.path.clone())),
            (None, None) => {
                let mut file = ServerFile {
                    file: open_file(&Places::of(&self.context.instance.globals), &load.path)?,
                    name: load.path.clone(),
                };
                self.run_load(&compiled, &mut file)
            }
        }
    }

    /// Are files of this kind allowed?
    fn may_load(&self, load: &LoadData) -> SqlResult<()> {
        if !load.local {
            return self.context.require_file();
        }
        let allowed = self.context.instance.globals.named("local_infile").is_on();
        if allowed && self.client.local_files {
            return Ok(());
        }
        let text = "Loading local data is disabled; this must be enabled on both the client \
                    and server sides";
        Err(SqlError::new(3948, "42000", text))
    }

    /// Compiles, with the table locked.
    fn compiled_load(&mut self, load: &LoadData) -> Result<CompiledLoad, ExecError> {
        for _ in 0..MAX_COMPILATIONS {
            let version = self.context.instance.catalog.version();
            let compiled = self.compile_load(load)?;
            let keys = compiled.foreign_keys();
            if self.lock_targets(compiled.targets(), keys, version)? {
                return Ok(compiled);
            }
        }
        Err(errors::definition_changed().into())
    }

    fn compile_load(&mut self, load: &LoadData) -> Result<CompiledLoad, ExecError> {
        let charset = self.values.named("character_set_database");
        let charset = charset_named(charset.as_text())?;
        self.diagnostics.clear();
        self.bind(Purpose::Run, |scope| {
            let env = scope.env(Params::Values(&[]));
            CompiledLoad::compile(&env, load, charset)
        })
    }

    fn run_load(
        &mut self,
        compiled: &CompiledLoad,
        file: &mut dyn FileSource,
    ) -> Result<Done, ExecError> {
        let beside = compiled.insert().beside();
        self.calling(compiled.targets(), beside, |session| {
            if compiled.fires() {
                return session.load_firing(compiled, file);
            }
            session.change_rows(&[], Mode::Thread, |env| compiled.run(env, file))
        })
    }
}

impl SessionContext {
    /// The FILE privilege.
    ///
    /// # Errors
    /// 1045.
    pub(super) fn require_file(&self) -> SqlResult<()> {
        let denied = |_| self.access_denied();
        self.require("FILE").map_err(denied)
    }
}
