//! What the server asks of a session about its connection: limits, status bits, and when a reply may leave.
//!
//! Neighbours: the server's connection asks between statements; the session's variables answer.
//! **Invariant**: none of it changes the session but [`Session::set_multi_statements`].

use std::sync::Arc;
use std::time::Duration;

use esker_engine::{Durable, MemoryBudget, Seq};
use esker_types::SqlMode;
use esker_types::collation::Collation;

use super::Session;

/// State in the process list of a session whose reply waits for replicas, as in MySQL.
const AWAITS_REPLICAS: &str = "Waiting for semi-sync ACK from replica";

impl Session {
    /// Connection id.
    pub fn connection_id(&self) -> u64 {
        self.context.process.id
    }

    /// KILL CONNECTION of this session, to be called from elsewhere.
    pub fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        let process = self.context.process.clone();
        Box::new(move || process.kill(true))
    }

    /// Has another session ended the connection? What runs is not answered any more.
    pub fn is_cut_off(&self) -> bool {
        self.context.process.is_cut_off()
    }

    /// Does the connection end with the reply (COMMIT RELEASE)?
    pub fn is_released(&self) -> bool {
        self.client.is_released
    }

    /// Host as accounts see it.
    pub fn host(&self) -> &str {
        &self.context.host
    }

    /// Status bits of the protocol that follow from the session's state.
    pub fn status(&self) -> u16 {
        const NO_INDEX_USED: u16 = 32;
        const IN_TRANS: u16 = 1;
        const AUTOCOMMIT: u16 = 2;
        const NO_BACKSLASH_ESCAPES: u16 = 512;
        const METADATA_CHANGED: u16 = 1024;
        const PS_OUT_PARAMS: u16 = 4096;
        const IN_TRANS_READONLY: u16 = 8192;
        let mut bits = 0;
        if self.no_index_used {
            bits |= NO_INDEX_USED;
        }
        if self.columns_changed {
            bits |= METADATA_CHANGED;
        }
        if self.program.gives_out_params {
            bits |= PS_OUT_PARAMS;
        }
        if self.shows_transaction() {
            bits |= IN_TRANS;
            if self.state.read_only {
                bits |= IN_TRANS_READONLY;
            }
        }
        if self.vars.autocommit {
            bits |= AUTOCOMMIT;
        }
        if self.vars.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES) {
            bits |= NO_BACKSLASH_ESCAPES;
        }
        bits
    }

    /// Largest command taken, bytes: as in MySQL, what its buffer has room for at least.
    pub fn longest_command(&self) -> usize {
        const BUFFER: usize = 16 << 10;
        self.max_allowed_packet().max(BUFFER)
    }

    /// Largest packet of a file or of a long parameter, bytes.
    pub fn max_allowed_packet(&self) -> usize {
        usize::try_from(self.vars.max_allowed_packet).unwrap_or(usize::MAX)
    }

    /// The memory of the server.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        self.context.instance.engine.memory()
    }

    /// How long the client may be silent.
    pub fn idle_timeout(&self) -> Duration {
        if self.client.interactive {
            Duration::from_secs(self.values.named("interactive_timeout").as_u64())
        } else {
            self.vars.wait_timeout
        }
    }

    /// How long the rest of a packet may take.
    pub fn net_read_timeout(&self) -> Duration {
        self.vars.net_read_timeout
    }

    /// How long the client may refuse to take bytes.
    pub fn net_write_timeout(&self) -> Duration {
        self.vars.net_write_timeout
    }

    /// May the account use the connection kept for administrators?
    pub fn is_administrator(&self) -> bool {
        let administrators = ["SUPER", "CONNECTION_ADMIN", "SERVICE_CONNECTION_ADMIN"];
        self.context.require_any(&administrators).is_ok()
    }

    /// The collation results are sent in; None: unconverted.
    pub fn results_collation(&self) -> Option<Collation> {
        self.vars.results
    }

    /// Warnings of the last statement; with the rows that a program's statement gives the client is told of none.
    pub fn warning_count(&self) -> u64 {
        match self.program.is_running() {
            true => 0,
            false => self.diagnostics.new_total(),
        }
    }

    /// A future that resolves when a reply that depends on `seq` may be given: it is durable, and everybody sees it.
    /// None when that is so already.
    ///
    /// `is_alone`: has no other session anything to do? Then the log may be flushed here and now, which is
    /// quicker than to wait for another thread to do it. Asked only if there is something to wait for.
    pub fn wait_durable(&self, seq: Seq, is_alone: impl FnOnce() -> bool) -> Option<Durable> {
        let engine = &self.context.instance.engine;
        if engine.may_be_told(seq) {
            return None;
        }
        if self.pipelines_flush() && is_alone() {
            // Whatever came of it, what is returned below tells.
            let _ = engine.harden_if_quick(seq);
        }
        let wait = engine.to_await(seq)?;
        if wait.is_to_be_acknowledged() {
            self.context.process.show_state(AWAITS_REPLICAS);
        }
        Some(wait)
    }

    /// `esker_flush_pipelining`: is what [`Session::wait_durable`] returns awaited? If not, the session's thread
    /// parks on it, as that of a server with a thread per connection does.
    pub fn pipelines_flush(&self) -> bool {
        self.context.instance.pipelines_flush()
    }

    /// COM_SET_OPTION.
    pub fn set_multi_statements(&mut self, on: bool) {
        self.client.multi_statements = on;
    }
}
