//! From a configuration to a listening server, and back down.
//!
//! Neighbours: `connection` serves one client; the `sql` crate's `Instance` is everything behind. **Invariants**: the
//! data directory is locked before the port is bound; the ready line is printed when statements may run (before that
//! connections wait, see `startup`); on SIGTERM or SIGINT no new connection is taken, statements are interrupted, every
//! session is told and ends (open transactions are rolled back), then the engine shuts down cleanly.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use esker_sql::variables::Setting;
use esker_sql::{Instance, InstanceConfig, Starting};
use esker_types::SqlError;
use esker_vfs::Env;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::activity::Activity;
use crate::config::Config;
use crate::doors::Doors;
use crate::login::PasswordCache;
use crate::refusals::Refusals;
use crate::rsa::LoginKey;
use crate::seats::{Door, Seats};
use crate::startup::{self, OnProgress, Report, Started};
use crate::throttle::Throttle;
use crate::tls::TlsSettings;
use crate::{connection, panics, tls, unseen};

/// Longest wait for sessions to finish at shutdown.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// Most threads for statements that may block: one for each connection that `max_connections` can ever allow, and some
/// for what else blocks. Threads are made when they are needed.
const MAX_BLOCKING_THREADS: usize = 100_000 + 64;
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
    pub(crate) refusals: Refusals,
    pub(crate) connections: AtomicUsize,
    pub(crate) seats: Seats,
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
    let tls = tls_acceptor(&config, &env, &starting)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        builder.worker_threads(config.worker_threads);
    }
    let runtime = builder
        .enable_all()
        .thread_name("esker-session")
        .thread_stack_size(WORKER_STACK_BYTES)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(serve(&config, starting, tls, progress, ready));
    runtime.shutdown_timeout(SHUTDOWN_GRACE);
    if let Some(instance) = result? {
        instance.shutdown()?;
    }
    Ok(())
}

/// None where the server has no TLS.
fn tls_acceptor(
    config: &Config,
    env: &Env,
    starting: &Starting,
) -> Result<Option<TlsAcceptor>, StartError> {
    if !starting.variable_is_on("ssl") {
        return Ok(None);
    }
    let acceptor = tls::acceptor(
        env,
        &config.data_dir,
        &TlsSettings {
            files: config.tls_files.clone(),
            generate: starting.variable_is_on("auto_generate_certs"),
            versions: starting.variable_text("tls_version"),
            ciphers: starting.variable_text("ssl_cipher"),
            suites: starting.variable_text("tls_ciphersuites"),
            authority: starting.variable_text("ssl_ca"),
            revoked: starting.variable_text("ssl_crl"),
        },
    )?;
    if acceptor.is_none() && starting.variable_is_on("require_secure_transport") {
        let text =
            "require_secure_transport=ON, and there is no TLS: no certificate, or no version";
        return Err(StartError::Tls(text.to_owned()));
    }
    Ok(acceptor)
}

/// Would a start take the settings? Nothing is opened.
///
/// # Errors
/// What would stop the start.
pub fn validate(config: &Config) -> Result<(), StartError> {
    Ok(esker_sql::check_settings(&settings(config))?)
}

/// All settings, those of sockets and files included.
fn settings(config: &Config) -> Vec<Setting> {
    let mut settings = config.settings.clone();
    let own = |name: &str, value: String| Setting {
        name: name.to_owned(),
        value,
        source: "server".to_owned(),
    };
    settings.push(own("port", config.port.to_string()));
    settings.push(own("bind_address", config.bind_address.clone()));
    settings.push(own("datadir", format!("{}/", config.data_dir.display())));
    if let Some((cert, key)) = &config.tls_files {
        settings.push(own("ssl_cert", cert.display().to_string()));
        settings.push(own("ssl_key", key.display().to_string()));
    }
    settings
}

fn begin(config: &Config, env: &Env) -> Result<Starting, StartError> {
    Ok(Starting::begin(InstanceConfig {
        env: env.clone(),
        data_dir: config.data_dir.clone(),
        settings: settings(config),
        root_password: config.root_password.clone(),
        passwords: crate::login::HASHING,
    })?)
}

/// The doors of administrators, if `admin_address` asks for them.
async fn open_admin_doors(starting: &Starting, backlog: u32) -> Result<Option<Doors>, StartError> {
    let host = starting.variable_text("admin_address");
    if host.is_empty() {
        return Ok(None);
    }
    let port = starting.variable_u64("admin_port") as u16;
    let doors = Doors::open(&host, port, backlog).await?;
    for address in doors.addresses()? {
        tracing::info!("listening for administrators on {address}");
    }
    Ok(Some(doors))
}

/// The next client of doors that may not be there.
async fn accept(doors: Option<&Doors>) -> io::Result<(TcpStream, SocketAddr)> {
    match doors {
        Some(doors) => doors.accept().await,
        None => std::future::pending().await,
    }
}

/// Serves until a signal comes; gives the instance, if it got that far, to be shut down.
async fn serve(
    config: &Config,
    starting: Starting,
    tls: Option<TlsAcceptor>,
    progress: OnProgress,
    ready: impl FnOnce(SocketAddr, &Instance),
) -> Result<Option<Arc<Instance>>, StartError> {
    let backlog = starting.variable_u64("back_log") as u32;
    let doors = Doors::open(&config.bind_address, config.port, backlog).await?;
    let address = doors.address()?;
    for address in doors.addresses()? {
        tracing::info!("listening on {address}");
    }
    let admin_doors = open_admin_doors(&starting, backlog).await?;
    let init_file = starting.variable_text("init_file");
    let mut stop = StopSignal::new()?;
    ignore_other_signals()?;
    let mut report = Report::new(progress);
    let started = startup::wait(starting, &doors, stop.wait(), &mut report).await?;
    let Some(Started { instance, guests }) = started else {
        return Ok(None);
    };
    tokio::spawn(report.keep_looking(instance.engine().clone()));
    if !init_file.is_empty() {
        let ran = unseen::init_file(&instance, &Env::os(), &config.data_dir, &init_file).await;
        if let Err(e) = ran {
            instance.shutdown()?;
            return Err(StartError::Open(e));
        }
    }
    let (stop_sessions, shutdown) = watch::channel(false);
    let shared = Arc::new(Shared {
        instance: instance.clone(),
        tls,
        login_key: LoginKey::default(),
        passwords: PasswordCache::default(),
        throttle: Throttle::default(),
        refusals: Refusals::default(),
        connections: AtomicUsize::new(0),
        seats: Seats::default(),
        activity: Activity::default(),
        next_connection_id: AtomicU64::new(1),
        stopping: AtomicBool::new(false),
        shutdown,
    });
    ready(address, &instance);
    for (stream, peer) in guests {
        spawn(&shared, stream, peer, Door::Main);
    }
    loop {
        let (accepted, door) = tokio::select! {
            accepted = doors.accept() => (accepted, Door::Main),
            accepted = accept(admin_doors.as_ref()) => (accepted, Door::Admin),
            () = stop.wait() => break,
        };
        match accepted {
            Ok((stream, peer)) => spawn(&shared, stream, peer, door),
            Err(e) => {
                tracing::warn!("accept failed: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop((doors, admin_doors));
    tracing::info!("shutting down");
    shared.stopping.store(true, Ordering::Relaxed);
    // Statements that run or wait end with an error; a commit on its way to the disk is answered. Before idle sessions
    // end: their row locks go with them, and who waits for one would be let through.
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

fn spawn(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, door: Door) {
    let shared = shared.clone();
    shared.connections.fetch_add(1, Ordering::AcqRel);
    tokio::spawn(async move {
        let _count = CountGuard(shared.clone());
        // Small answers must not wait for the peer's delayed acknowledgement.
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("{peer}: {e}");
        }
        connection::serve(shared, stream, peer, door).await;
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

/// What would end the process without a word is told and survived: there is nothing to reload, the log goes to standard
/// error and certificates are read at the start.
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
