//! Where statements run, and how one that runs is ended.
//!
//! Neighbours: `esker_server::client` talks to a server, `esker_server::embedded` opens a data directory in this
//! process; both give the same results.
//! **Invariants**: a connection that broke is made anew at the next statement, with the database that was in use;
//! Ctrl-C ends the statement that runs, and the script that it is in; pressed often enough during one statement, the
//! shell. While no statement runs it ends a script, and nothing for those who type.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use esker_server::client::{Client, ClientError, Connect, Endpoint, QueryResult};
use esker_server::embedded::Embedded;

/// So many times Ctrl-C during one statement end the shell: the server does not answer.
const PATIENCE: usize = 3;
/// Exit status of a program that Ctrl-C has ended.
pub(super) const INTERRUPTED: u8 = 130;

type Cancel = Box<dyn Fn() + Send>;

/// What Ctrl-C ends.
#[derive(Default)]
pub(super) struct Running {
    cancel: Mutex<Option<Cancel>>,
    /// During the last statement.
    presses: AtomicUsize,
    /// Somebody types statements: there is a prompt to come back to.
    has_prompt: AtomicBool,
}

impl Running {
    /// Lets Ctrl-C end statements instead of the process.
    pub(super) fn watch() -> Result<Arc<Self>, String> {
        let running = Arc::new(Self::default());
        let watched = running.clone();
        ctrlc::set_handler(move || watched.press()).map_err(|e| e.to_string())?;
        Ok(running)
    }

    /// From now on somebody types statements.
    pub(super) fn has_prompt(&self) {
        self.has_prompt.store(true, Ordering::Relaxed);
    }

    /// Was Ctrl-C pressed during a statement since this was asked last?
    pub(super) fn take_presses(&self) -> bool {
        self.presses.swap(0, Ordering::Relaxed) > 0
    }

    fn press(&self) {
        let cancel = self.cancel.lock().unwrap_or_else(PoisonError::into_inner);
        match &*cancel {
            // The statement has just ended: who wanted that has it.
            None if self.has_prompt.load(Ordering::Relaxed) => (),
            Some(cancel) if self.presses.fetch_add(1, Ordering::Relaxed) + 1 < PATIENCE => cancel(),
            _ => process::exit(i32::from(INTERRUPTED)),
        }
    }

    fn set(&self, cancel: Option<Cancel>) {
        if cancel.is_some() {
            self.presses.store(0, Ordering::Relaxed);
        }
        *self.cancel.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
    }
}

/// Where statements run.
pub(super) enum Target {
    Server {
        connect: Box<Connect>,
        /// None: the connection is broken.
        client: Option<Box<Client>>,
    },
    Embedded(Box<Embedded>),
}

impl Target {
    pub(super) fn connect(connect: Connect) -> Result<Self, String> {
        let client = open(&connect)?;
        Ok(Self::Server {
            connect: Box::new(connect),
            client: Some(client),
        })
    }

    /// Runs one statement.
    pub(super) fn query(
        &mut self,
        running: &Running,
        sql: &[u8],
        on_result: &mut dyn FnMut(QueryResult),
    ) -> Result<(), String> {
        let (connect, client) = match self {
            Self::Embedded(embedded) => {
                running.set(Some(Box::new(embedded.interrupter())));
                let outcome = embedded.query(sql, on_result);
                running.set(None);
                return outcome
                    .map_err(|e| format!("ERROR {} ({}): {}", e.code, e.state, e.message));
            }
            Self::Server { connect, client } => (connect, client),
        };
        let mut session = match client.take() {
            Some(session) => session,
            None => {
                // Nothing ends that but leaving.
                running.set(Some(Box::new(|| ())));
                let opened = open(connect);
                running.set(None);
                opened?
            }
        };
        running.set(Some(kill_query((**connect).clone(), session.connection_id)));
        let outcome = session.query(sql, on_result);
        running.set(None);
        match outcome {
            Err(ClientError::Io(e)) => Err(format!(
                "ERROR 2013 (HY000): Lost connection to the server during the statement: {e}"
            )),
            outcome => {
                *client = Some(session);
                outcome.map_err(|e| e.to_string())
            }
        }
    }

    /// The database of a connection made anew.
    pub(super) fn remember_database(&mut self, name: &str) {
        if let Self::Server { connect, .. } = self {
            connect.database = Some(name.to_owned());
        }
    }

    /// Lines of `status` that only this end knows.
    pub(super) fn describe(&self) -> Vec<(&'static str, String)> {
        let Self::Server { connect, client } = self else {
            return vec![("Connection", "in this process, no server".to_owned())];
        };
        let place = match &connect.endpoint {
            Endpoint::Tcp(host, port) => format!("{host}:{port} via TCP"),
            Endpoint::Socket(path) => format!("{} via Unix socket", path.display()),
        };
        let encrypted = client.as_ref().is_some_and(|c| c.is_encrypted);
        let tls = if encrypted { "in use" } else { "not in use" };
        vec![("Connection", place), ("TLS", tls.to_owned())]
    }
}

fn open(connect: &Connect) -> Result<Box<Client>, String> {
    Client::open(connect).map(Box::new).map_err(|e| match e {
        ClientError::Io(e)
            if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
        {
            let place = match &connect.endpoint {
                Endpoint::Tcp(host, port) => format!("{host}:{port}"),
                Endpoint::Socket(path) => path.display().to_string(),
            };
            format!(
                "no server answers on {place}; start one with 'esker serve', or open a data directory with --datadir"
            )
        }
        e => e.to_string(),
    })
}

/// Ends the statement of a connection from a second one.
fn kill_query(connect: Connect, connection_id: u32) -> Cancel {
    Box::new(move || {
        let killed = Client::open(&connect).and_then(|mut second| {
            second.query(&format!("KILL QUERY {connection_id}"), &mut |_| ())
        });
        if let Err(e) = killed {
            tell(&format!("cannot end the statement: {e}"));
        }
    })
}

/// A line for people, beside the results.
pub(super) fn tell(text: &str) {
    use std::io::Write as _;
    // A closed standard error is no reason to stop.
    let _ = writeln!(io::stderr(), "{text}");
}
