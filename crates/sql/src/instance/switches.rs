//! Variables carried over to what they switch: at the start, and after SET GLOBAL.
//!
//! Neighbours: `session::set` calls these; the engine, the logs of statements and the accounts look at their own
//! copies.
//! **Invariant**: one change at a time, so a later SET is never overwritten by an earlier one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use esker_engine::FlushPolicy;

use super::Instance;
use crate::host::LogForm;
use crate::instruments::STATEMENTS;
use crate::querylog::Outputs;

impl Instance {
    /// Gives the log the flush policy that the variables say: at start, and after SET GLOBAL of one
    /// of them.
    pub(crate) fn apply_flush_policy(&self) {
        let number = |name| self.globals.named(name).as_u64();
        self.engine.set_flush_policy(&FlushPolicy {
            transactions: number("esker_log_flush_transactions"),
            bytes: number("esker_log_flush_bytes"),
            interval: Duration::from_micros(number("esker_log_flush_interval")),
            in_flight: number("esker_log_flush_in_flight") as usize,
            overlap_from: Duration::from_micros(number("esker_log_flush_overlap")),
        });
    }

    /// Gives the engine the memory that `esker_memory_limit` says, after SET GLOBAL.
    pub(crate) fn apply_memory_limit(&self) {
        let bytes = self.globals.named("esker_memory_limit").as_u64();
        self.engine.set_memory_limit(bytes as usize);
    }

    /// Carries the variables that switch parts of the engine on and off over to where it looks: at start, and
    /// after SET GLOBAL of one of them.
    pub(crate) fn apply_switches(&self) {
        let _one_at_a_time = self.switching.lock();
        let switches = self.engine.switches();
        switches.set_early_lock_release(self.variable_is_on("esker_early_lock_release"));
        switches.set_verify_answers(self.variable_is_on("esker_verify_metadata_answers"));
        let async_commit = self.variable_is_on("esker_async_commit");
        let durable_snapshots = !async_commit && self.variable_is_on("esker_durable_snapshots");
        if !durable_snapshots {
            switches.set_durable_snapshots(false);
        }
        switches.set_async_commit(async_commit);
        if durable_snapshots && !switches.durable_snapshots() {
            // What was acknowledged before must be seen. A log that has failed ends the process elsewhere.
            let acknowledged = self.engine.visible_seq();
            let _ = self.engine.wait_durable(acknowledged).block();
            switches.set_durable_snapshots(true);
        }
        let measures = ["performance_schema", "esker_statement_statistics"];
        let is_on = measures.iter().all(|name| self.variable_is_on(name));
        let is_instrumented = self.instruments.flags() & STATEMENTS != 0;
        self.digests.switch(is_on && is_instrumented);
        let outputs = Outputs::of(&self.variable_text("log_output"));
        for (log, switch, file) in [
            (
                &self.query_logs.slow,
                "slow_query_log",
                "slow_query_log_file",
            ),
            (&self.query_logs.general, "general_log", "general_log_file"),
        ] {
            log.switch(
                self.variable_is_on(switch),
                outputs,
                &self.data_dir,
                &self.variable_text(file),
            );
        }
        let extra = self.variable_is_on("log_slow_extra");
        self.query_logs.slow_extra.store(extra, Ordering::Relaxed);
        self.audit.switch(
            self.variable_is_on("esker_audit_log"),
            &self.variable_text("esker_audit_log_events"),
            &self.data_dir,
            &self.variable_text("esker_audit_log_file"),
        );
        self.apply_log_form();
        let pipelining = self.variable_is_on("esker_flush_pipelining");
        self.flush_pipelining.store(pipelining, Ordering::Relaxed);
    }

    /// Has the server's log say what the variables ask for: once there is a server, and after SET GLOBAL.
    pub(crate) fn apply_log_form(&self) {
        let Some(host) = self.host() else { return };
        let verbosity = self.variable_u64("log_error_verbosity");
        host.form_log(LogForm::of(
            &self.variable_text("log_error_services"),
            verbosity,
        ));
    }

    /// The variable partial_revokes: with it names of databases in grants are literal.
    pub(crate) fn apply_partial_revokes(&self) {
        let literal = self.variable_is_on("partial_revokes");
        self.accounts.take_names_literally(literal);
    }
}
