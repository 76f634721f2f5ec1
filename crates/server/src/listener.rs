//! From a configuration to a listening server, and back down.
//!
//! Neighbours: `connection` serves one client; the `sql` crate's `Instance` is everything behind.
//! **Invariants**: the data directory is locked before the port is bound; the ready line is printed
//! when statements may run (before that connections wait, see `startup`); on SIGTERM or SIGINT no new connection is taken, statements are
//! interrupted, every session is told and ends (open transactions are rolled back), then the engine
//! shuts down cleanly.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use esker_sql::{Instance, InstanceConfig, Starting};
use esker_types::SqlError;
use esker_vfs::Env;
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::activity::Activity;
use crate::config::Config;
use crate::login::PasswordCache;
use crate::rsa::LoginKey;
use crate::startup::{self, OnProgress, Report, Started};
use crate::throttle::Throttle;
use crate::watch::Watch;
use crate::{connection, panics, tls};

/// Length of the kernel's queue of connections not yet accepted.
const BACKLOG: u32 = 4096;
/// Longest wait for sessions to finish at shutdown.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Threads for statements that may block, beyond one per connection allowed.
const SPARE_BLOCKING_THREADS: usize = 64;
/// Stack of a worker thread: what the deepest statement that the parser and the binder let through
/// needs to be bound, planned, run and dropped, several times over.
const WORKER_STACK_BYTES: usize = 16 << 20;
/// Pause after a failed accept (out of file descriptors, say).
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {cause}{hint}")]
    Listen {
        /// Address and port.
        address: String,
        /// System error.
        cause: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// Certificate trouble.
    #[error("TLS: {0}")]
    Tls(String),
    /// The data directory or a setting is not usable.
    #[error("{0}")]
    Open(String),
    /// The runtime or the signal handlers cannot be set up.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl From<SqlError> for StartError {
    fn from(e: SqlError) -> Self {
        Self::Open(e.message)
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) instance: Arc<Instance>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) login_key: LoginKey,
    pub(crate) passwords: PasswordCache,
    pub(crate) throttle: Throttle,
    pub(crate) watch: Arc<Watch>,
    pub(crate) connections: AtomicUsize,
    pub(crate) activity: Activity,
    next_connection_id: AtomicU64,
    stopping: AtomicBool,
    pub(crate) shutdown: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn next_connection_id(&self) -> u64 {
        self.next_connection_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Does the server go down?
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Runs the server until a signal stops it. `progress` is called now and then while the log is replayed, `ready`
/// with the address once statements may run.
///
/// # Errors
/// See [`StartError`]; after the start, errors concern single clients and are logged.
pub fn run(
    config: Config,
    progress: OnProgress,
    ready: impl FnOnce(SocketAddr, &Instance),
) -> Result<(), StartError> {
    panics::log_panics();
    let env = Env::os();
    let starting = begin(&config, &env)?;
    let tls = if starting.variable_is_on("ssl") {
        let own = config
            .tls_files
            .as_ref()
            .map(|(c, k)| (c.as_path(), k.as_path()));
        Some(tls::acceptor(&env, &config.data_dir, own)?)
    } else {
        None
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        builder.worker_threads(config.worker_threads);
    }
    let max_connections = starting.variable_u64("max_connections") as usize;
    let runtime = builder
        .enable_all()
        .thread_name("esker-session")
        .thread_stack_size(WORKER_STACK_BYTES)
        .max_blocking_threads(max_connections + SPARE_BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(serve(&config, starting, tls, progress, ready));
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    if let Some(instance) = result? {
        instance.shutdown()?;
    }
    Ok(())
}

fn begin(config: &Config, env: &Env) -> Result<Starting, StartError> {
    let mut settings: Vec<(String, String, String)> = config
        .settings
        .iter()
        .map(|s| (s.name.clone(), s.value.clone(), s.source.clone()))
        .collect();
    let own = |name: &str, value: String| (name.to_owned(), value, "server".to_owned());
    settings.push(own("port", config.port.to_string()));
    settings.push(own("bind_address", config.bind_address.clone()));
    settings.push(own("datadir", format!("{}/", config.data_dir.display())));
    Ok(Starting::begin(InstanceConfig {
        env: env.clone(),
        data_dir: config.data_dir.clone(),
        settings,
        root_password: config.root_password.clone(),
        hash_password: crate::login::hash_password,
    })?)
}

async fn bind(config: &Config) -> Result<TcpListener, StartError> {
    let address = format!("{}:{}", config.bind_address, config.port);
    let fail = |cause: io::Error| StartError::Listen {
        hint: match cause.kind() {
            io::ErrorKind::AddrInUse => {
                " (another server uses this port; choose one with --port=N)"
            }
            io::ErrorKind::PermissionDenied => " (ports below 1024 need privileges)",
            _ => "",
        },
        address: address.clone(),
        cause,
    };
    let target = tokio::net::lookup_host((config.bind_address.as_str(), config.port))
        .await
        .map_err(fail)?
        .next()
        .ok_or_else(|| fail(io::Error::other("the name has no address")))?;
    let socket = if target.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }
    .map_err(fail)?;
    socket.set_reuseaddr(true).map_err(fail)?;
    socket.bind(target).map_err(fail)?;
    socket.listen(BACKLOG).map_err(fail)
}

/// Serves until a signal comes; gives the instance, if it got that far, to be shut down.
async fn serve(
    config: &Config,
    starting: Starting,
    tls: Option<TlsAcceptor>,
    progress: OnProgress,
    ready: impl FnOnce(SocketAddr, &Instance),
) -> Result<Option<Arc<Instance>>, StartError> {
    let listener = bind(config).await?;
    let address = listener.local_addr()?;
    tracing::info!("listening on {address}");
    let mut stop = StopSignal::new()?;
    ignore_other_signals()?;
    let mut report = Report::new(progress);
    let started = startup::wait(starting, &listener, stop.wait(), &mut report).await?;
    let Some(Started { instance, guests }) = started else {
        return Ok(None);
    };
    tokio::spawn(report.keep_looking(instance.engine().clone()));
    let (stop_sessions, shutdown) = watch::channel(false);
    let shared = Arc::new(Shared {
        instance: instance.clone(),
        tls,
        login_key: LoginKey::default(),
        passwords: PasswordCache::default(),
        throttle: Throttle::default(),
        watch: Arc::default(),
        connections: AtomicUsize::new(0),
        activity: Activity::default(),
        next_connection_id: AtomicU64::new(1),
        stopping: AtomicBool::new(false),
        shutdown,
    });
    tokio::spawn(shared.watch.clone().keep_looking());
    ready(address, &instance);
    for (stream, peer) in guests {
        spawn(&shared, stream, peer);
    }
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => spawn(&shared, stream, peer),
                Err(e) => {
                    tracing::warn!("accept failed: {e}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            () = stop.wait() => break,
        }
    }
    drop(listener);
    tracing::info!("shutting down");
    shared.stopping.store(true, Ordering::Relaxed);
    // Statements that run or wait end with an error; a commit on its way to the disk is answered. Before idle sessions end:
    // their row locks go with them, and who waits for one would be let through.
    shared.instance.interrupt_sessions();
    // Receivers live as long as connections do; nobody listening is fine.
    let _ = stop_sessions.send(true);
    let all_gone = async {
        while shared.connections.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, all_gone)
        .await
        .is_err()
    {
        tracing::warn!("sessions still busy after {SHUTDOWN_GRACE:?}; going down without them");
    }
    Ok(Some(instance))
}

fn spawn(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let shared = shared.clone();
    shared.connections.fetch_add(1, Ordering::AcqRel);
    tokio::spawn(async move {
        let _count = CountGuard(shared.clone());
        // Small answers must not wait for the peer's delayed acknowledgement.
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("{peer}: {e}");
        }
        connection::serve(shared, stream, peer).await;
    });
}

/// Counts a connection down even if its task panics.
struct CountGuard(Arc<Shared>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

struct StopSignal {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignal {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

/// What would end the process without a word is told and survived: there is nothing to reload, the log goes to standard error and
/// certificates are read at the start.
fn ignore_other_signals() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    for (name, kind) in [
        ("SIGHUP", SignalKind::hangup()),
        ("SIGUSR1", SignalKind::user_defined1()),
        ("SIGUSR2", SignalKind::user_defined2()),
    ] {
        let mut signals = signal(kind)?;
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                tracing::info!("{name} is ignored; SIGTERM stops the server");
            }
        });
    }
    Ok(())
}
