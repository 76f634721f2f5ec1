//! The process as statements see it: SHUTDOWN, FLUSH LOGS and ALTER INSTANCE RELOAD TLS.
//!
//! Neighbours: `listener` makes it and waits for [`Stop`]; `esker-sql` defines [`Host`]. SIGHUP does what the last two
//! statements do.
//! **Invariant**: a certificate that cannot be read leaves the one in use; connections that are open keep theirs.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use esker_sql::replica::Reception;
use esker_sql::{Host, Instance, LogForm, LogLine};
use esker_vfs::Env;
use tokio::sync::Notify;

use crate::listener::{FormLog, RecentLog, ReopenLogs, Shared};
use crate::replica;
use crate::tls_state::Tls;

/// A statement's wish that the server stops.
pub(crate) type Stop = Arc<Notify>;

/// What SIGHUP does.
pub(crate) fn on_hangup(instance: &Instance) {
    let Some(host) = instance.host() else { return };
    tracing::info!("SIGHUP: opening the log anew, reading the certificate again");
    let outcomes = [("log", host.reopen_logs()), ("TLS", host.reload_tls(false))];
    for (what, outcome) in outcomes {
        if let Err(e) = outcome {
            tracing::warn!("SIGHUP: {what}: {e}");
        }
    }
}

/// The running server.
pub(crate) struct ServerHost {
    pub(crate) stop: Stop,
    pub(crate) reopen_logs: ReopenLogs,
    pub(crate) form_log: FormLog,
    pub(crate) recent_log: RecentLog,
    pub(crate) data_dir: PathBuf,
    /// Not a strong reference: what connections share holds the instance, and the instance this.
    pub(crate) shared: Weak<Shared>,
}

impl Host for ServerHost {
    fn shut_down(&self, by: &str) {
        tracing::info!("SHUTDOWN by {by}");
        self.stop.notify_one();
    }

    fn reopen_logs(&self) -> Result<(), String> {
        (self.reopen_logs)()
    }

    fn form_log(&self, form: LogForm) {
        (self.form_log)(form);
    }

    fn recent_log(&self) -> Vec<LogLine> {
        (self.recent_log)()
    }

    fn reload_tls(&self, keeps_error: bool) -> Result<(), String> {
        let Some(shared) = self.shared.upgrade() else {
            return Err("the server goes down".to_owned());
        };
        let instance = &shared.instance;
        let text = |name: &str| instance.variable_text(name);
        // A certificate is made at the start only: what is missing now may be on its way.
        let is_on = |name: &str| name != "auto_generate_certs" && instance.variable_is_on(name);
        let fresh = Tls::load(&self.data_dir, &Env::os(), &text, &is_on);
        let outcome = match fresh {
            Ok(fresh) if fresh.acceptor.is_some() => {
                shared.tls.store(Arc::new(fresh));
                tracing::info!("certificate and key are read again");
                return Ok(());
            }
            Ok(_) => "there is no certificate, or tls_version is empty".to_owned(),
            Err(e) => e.to_string(),
        };
        if keeps_error {
            shared.tls.store(Arc::new(Tls::none(&text)));
            tracing::warn!("TLS is off until certificate and key are read again: {outcome}");
        }
        Err(outcome)
    }

    fn tls_status(&self) -> Vec<(&'static str, String)> {
        let shared = self.shared.upgrade();
        shared.map_or_else(Vec::new, |shared| shared.tls.load().status.clone())
    }

    fn receive(&self, reception: Arc<Reception>) -> Result<(), String> {
        replica::begin(reception).map_err(|e| e.to_string())
    }

    fn next_connection(&self) -> u64 {
        let shared = self.shared.upgrade();
        shared.map_or(0, |shared| shared.next_connection_id())
    }
}
