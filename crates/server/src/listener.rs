//! From a configuration to a listening server, and back down.
//!
//! Neighbours: `connection` serves one client; the `sql` crate's `Instance` is everything behind. **Invariants**: the
//! data directory is locked before the port is bound; the ready line is printed when statements may run (before that
//! connections wait, see `startup`); on SIGTERM or SIGINT no new connection is taken, statements are interrupted, every
//! session is told and ends (open transactions are rolled back), then the engine shuts down cleanly.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use esker_sql::accounts::{Account, Plugin};
use esker_sql::infoschema::measured_files;
use esker_sql::variables::Setting;
use esker_sql::{Instance, InstanceConfig, LogForm, LogLine, Starting};
use esker_types::SqlError;
use esker_vfs::{Env, Heap, OpenMode};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::activity::Activity;
use crate::config::Config;
use crate::doors::Doors;
use crate::host::{ServerHost, Stop};
use crate::login::PasswordCache;
use crate::page::{self, Stage};
use crate::refusals::Refusals;
use crate::rsa::LoginKey;
use crate::seats::{Door, Seats};
use crate::socket::{Peer, Socket};
use crate::startup::{self, OnProgress, Report, Started};
use crate::throttle::Throttle;
use crate::tls_state::Tls;
use crate::{connection, host, notify, panics, unseen};

/// Longest wait for sessions and their threads to finish at shutdown.
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
    pub(crate) tls: ArcSwap<Tls>,
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
    fn new(instance: Arc<Instance>, tls: Tls, shutdown: watch::Receiver<bool>) -> Self {
        Self {
            instance,
            tls: ArcSwap::from_pointee(tls),
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
        }
    }

    pub(crate) fn next_connection_id(&self) -> u64 {
        self.next_connection_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Does the server go down?
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// Opens the files of the server's log anew.
pub type ReopenLogs = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Lines of the server's log are of this form from now on.
pub type FormLog = fn(LogForm);

/// The last lines of the server's log, the oldest first.
pub type RecentLog = fn() -> Vec<LogLine>;

/// What the process around the server does.
pub struct Hooks<R: FnOnce(SocketAddr, &Instance)> {
    /// Called now and then while the log is replayed.
    pub progress: OnProgress,
    /// Called at SIGHUP and FLUSH LOGS.
    pub reopen_logs: ReopenLogs,
    /// Called at the start, and after SET GLOBAL of what says how the log is.
    pub form_log: FormLog,
    /// Called for `performance_schema.error_log`.
    pub recent_log: RecentLog,
    /// The heap of the process.
    pub heap: Heap,
    /// Called with the address once statements may run.
    pub ready: R,
}

/// Runs the server until a signal or a statement stops it.
///
/// # Errors
/// See [`StartError`]; after the start, errors concern single clients and are logged.
pub fn run<R: FnOnce(SocketAddr, &Instance)>(
    config: Config,
    hooks: Hooks<R>,
) -> Result<(), StartError> {
    panics::log_panics();
    let env = Env {
        fs: measured_files(Env::os().fs),
        heap: hooks.heap,
        ..Env::os()
    };
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
    if !esker_sql::datadir::has_database(&env, &config.data_dir)? {
        // Where nobody could be let in, no database is made. Nobody connects yet: the doors are closed at once.
        drop(runtime.block_on(Doors::open(&config.bind_address, config.port, 1))?);
    }
    let starting = begin(&config, &env)?;
    let tls = tls_at_start(&config, &env, &starting)?;
    let served = runtime.block_on(serve(&config, starting, tls, hooks));
    let grace = match &served {
        Ok(Some(served)) => served.grace_left,
        _ => SHUTDOWN_GRACE,
    };
    runtime.shutdown_timeout(grace);
    if let Some(served) = served? {
        served.instance.shutdown()?;
    }
    Ok(())
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
    settings
}

/// TLS as options and kept settings say. A setting of SET PERSIST keeps nobody from starting the server, as in MySQL:
/// only a server that runs can take it back. What an option asks for, and cannot be had, is an error.
fn tls_at_start(config: &Config, env: &Env, starting: &Starting) -> Result<Tls, StartError> {
    let text = |name: &str| starting.variable_text(name);
    let is_on = |name: &str| starting.variable_is_on(name);
    match Tls::load(&config.data_dir, env, &text, &is_on) {
        Err(e) if !is_on("require_secure_transport") && starting.keeps_any(&Tls::variables()) => {
            tracing::warn!(
                "TLS is off, for what SET PERSIST has kept cannot be had (RESET PERSIST takes it back): {e}"
            );
            Ok(Tls::none(&text))
        }
        loaded => loaded,
    }
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

/// The address of the admin page, if `esker_http_address` asks for it.
async fn open_page(starting: &Starting) -> Result<Option<TcpListener>, StartError> {
    let host = starting.variable_text("esker_http_address");
    if host.is_empty() {
        return Ok(None);
    }
    let port = starting.variable_u64("esker_http_port") as u16;
    let fail = |cause| StartError::Listen {
        address: format!("{host}:{port}"),
        cause,
        hint: " (esker_http_address and esker_http_port say where the admin page is)",
    };
    let bound = TcpListener::bind((host.as_str(), port)).await;
    let listener = bound.map_err(fail)?;
    tracing::info!("admin page on http://{}", listener.local_addr()?);
    Ok(Some(listener))
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl AbortOnDrop {
    /// Ends it and waits until what it held is gone.
    async fn end(&mut self) {
        self.0.abort();
        // An error says that it was ended.
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The next client of doors that may not be there.
async fn accept(doors: Option<&Doors>) -> io::Result<(Socket, Peer)> {
    match doors {
        Some(doors) => doors.accept().await,
        None => std::future::pending().await,
    }
}

/// Gives each client a task of its own, for ever.
async fn accept_all(shared: Arc<Shared>, doors: Doors, admin_doors: Option<Doors>) {
    loop {
        let (accepted, door) = tokio::select! {
            accepted = doors.accept() => (accepted, Door::Main),
            accepted = accept(admin_doors.as_ref()) => (accepted, Door::Admin),
        };
        match accepted {
            Ok((socket, peer)) => spawn(&shared, socket, peer, door),
            Err(e) => {
                tracing::warn!("accept failed: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A server that serves nobody any more.
struct Served {
    /// To be shut down.
    instance: Arc<Instance>,
    /// How long threads that are still at work may take.
    grace_left: Duration,
}

/// Opens the doors that all may come through.
async fn open_doors(
    config: &Config,
    starting: &Starting,
    backlog: u32,
) -> Result<Doors, StartError> {
    let mut doors = Doors::open(&config.bind_address, config.port, backlog).await?;
    let local = starting.variable_text("socket");
    if !local.is_empty() {
        let path = config.data_dir.join(local);
        doors.open_local(&path).await?;
        tracing::info!("listening on {}", path.display());
    }
    for address in doors.addresses()? {
        tracing::info!("listening on {address}");
    }
    Ok(doors)
}

/// Runs the statements of `init_file`, if there is one; a server whose statements fail goes down again.
async fn run_init_file(
    instance: &Arc<Instance>,
    data_dir: &Path,
    init_file: &str,
) -> Result<(), StartError> {
    if init_file.is_empty() {
        return Ok(());
    }
    if let Err(e) = unseen::init_file(instance, &Env::os(), data_dir, init_file).await {
        instance.shutdown()?;
        return Err(StartError::Open(e));
    }
    Ok(())
}

/// Serves until a signal comes; None if it never came to that.
async fn serve<R: FnOnce(SocketAddr, &Instance)>(
    config: &Config,
    starting: Starting,
    tls: Tls,
    hooks: Hooks<R>,
) -> Result<Option<Served>, StartError> {
    let backlog = starting.variable_u64("back_log") as u32;
    let Hooks {
        progress,
        reopen_logs,
        form_log,
        recent_log,
        ready,
        heap: _,
    } = hooks;
    // Before the first door opens: whoever sees it open may send a signal at once.
    let stop_wish = Arc::new(Notify::new());
    let mut stop = StopSignal::new(stop_wish.clone())?;
    let hangups = signal(SignalKind::hangup())?;
    ignore_user_signals()?;
    let doors = open_doors(config, &starting, backlog).await?;
    let address = doors.address()?;
    let admin_doors = open_admin_doors(&starting, backlog).await?;
    let stage = watch::Sender::new(Stage::Recovering(starting.engine().clone()));
    let page = open_page(&starting).await?;
    let _page =
        page.map(|listener| AbortOnDrop(tokio::spawn(page::serve(listener, stage.subscribe()))));
    let init_file = starting.variable_text("init_file");
    let pid_file = PidFile::write(&config.data_dir, &starting.variable_text("pid_file"))?;
    let mut report = Report::new(progress);
    let started = startup::wait(starting, &doors, stop.wait(), &mut report).await?;
    let Some(Started { instance, guests }) = started else {
        return Ok(None);
    };
    tokio::spawn(report.keep_looking(instance.engine().clone()));
    run_init_file(&instance, &config.data_dir, &init_file).await?;
    let (stop_sessions, shutdown) = watch::channel(false);
    let shared = Arc::new(Shared::new(instance.clone(), tls, shutdown));
    let host = ServerHost {
        stop: stop_wish,
        reopen_logs,
        form_log,
        recent_log,
        data_dir: config.data_dir.clone(),
        shared: Arc::downgrade(&shared),
    };
    instance.serve_for(Box::new(host));
    tokio::task::block_in_place(|| instance.start_replication());
    instance.start_events();
    heed_hangups(hangups, instance.clone());
    ready(address, &instance);
    notify::ready(&address.to_string());
    prepare_logins(&shared);
    stage.send_replace(Stage::Serving(shared.clone()));
    for (socket, peer) in guests {
        spawn(&shared, socket, peer, Door::Main);
    }
    // On a worker, which hands a client to its task at once; this thread would have to be woken first.
    let mut accepting = AbortOnDrop(tokio::spawn(accept_all(shared.clone(), doors, admin_doors)));
    stop.wait().await;
    accepting.end().await;
    let grace_left = end_sessions(&shared, &stop_sessions).await;
    drop(pid_file);
    Ok(Some(Served {
        instance,
        grace_left,
    }))
}

/// Ends all sessions; what is left of [`SHUTDOWN_GRACE`] then.
async fn end_sessions(shared: &Shared, stop_sessions: &watch::Sender<bool>) -> Duration {
    tracing::info!("shutting down");
    notify::stopping();
    let begun = Instant::now();
    shared.stopping.store(true, Ordering::Relaxed);
    tokio::task::block_in_place(|| shared.instance.stop_events());
    // Statements that run or wait end with an error; a commit on its way to the disk is answered. Before idle sessions
    // end: their row locks go with them, and who waits for one would be let through.
    shared.instance.interrupt_sessions();
    // Receivers live as long as connections do; nobody listening is fine.
    let _ = stop_sessions.send(true);
    tokio::task::block_in_place(|| {
        shared.instance.stop_replication();
        shared.instance.await_events();
    });
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
    SHUTDOWN_GRACE.saturating_sub(begun.elapsed())
}

/// Makes the key of logins without TLS, where accounts have passwords: the first one of them need not wait for it.
fn prepare_logins(shared: &Arc<Shared>) {
    let accounts = shared.instance.accounts().all();
    let asked = |a: &Account| a.plugin == Plugin::CachingSha2 && !a.auth.is_empty();
    if accounts.iter().any(asked) {
        let shared = shared.clone();
        tokio::task::spawn_blocking(move || shared.login_key.public_pem().is_some());
    }
}

pub(crate) fn spawn(shared: &Arc<Shared>, socket: Socket, peer: Peer, door: Door) {
    let shared = shared.clone();
    shared.connections.fetch_add(1, Ordering::AcqRel);
    tokio::spawn(async move {
        let _count = CountGuard(shared.clone());
        if let Err(e) = socket.send_at_once() {
            tracing::debug!("{peer}: {e}");
        }
        connection::serve(shared, socket, peer, door).await;
    });
}

/// Counts a connection down even if its task panics.
struct CountGuard(Arc<Shared>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The file with the process id, while the server runs.
struct PidFile(PathBuf);

/// Longest content of a pid file, bytes.
const MAX_PID: u64 = 32;

/// Is there no file, or one with the number of a process, as a killed server leaves it?
fn may_replace(path: &Path) -> Result<bool, StartError> {
    let fail = |e: io::Error| StartError::Open(format!("pid_file {}: {e}", path.display()));
    let fs = Env::os().fs;
    if !fs.exists(path).map_err(fail)? {
        return Ok(true);
    }
    let file = fs.open(path, OpenMode::Read).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    if len > MAX_PID {
        return Ok(false);
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0).map_err(fail)?;
    let is_number = |b: &u8| b.is_ascii_digit() || b.is_ascii_whitespace();
    Ok(bytes.iter().all(is_number))
}

impl PidFile {
    /// `name` is relative to the data directory; none where it is empty.
    fn write(data_dir: &Path, name: &str) -> Result<Option<Self>, StartError> {
        if name.is_empty() {
            return Ok(None);
        }
        let path = data_dir.join(name);
        if !may_replace(&path)? {
            let text = format!("pid_file {}: there is a file that is none", path.display());
            return Err(StartError::Open(text));
        }
        let bytes = format!("{}\n", std::process::id());
        let written = || -> io::Result<()> {
            let file = Env::os().fs.open(&path, OpenMode::CreateOrOpen)?;
            file.set_len(0)?;
            file.write_all_at(bytes.as_bytes(), 0)
        };
        written().map_err(|e| StartError::Open(format!("pid_file {}: {e}", path.display())))?;
        Ok(Some(Self(path)))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(e) = Env::os().fs.remove_file(&self.0) {
            tracing::warn!("cannot remove {}: {e}", self.0.display());
        }
    }
}

struct StopSignal {
    /// SHUTDOWN.
    wish: Stop,
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignal {
    fn new(wish: Stop) -> io::Result<Self> {
        Ok(Self {
            wish,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
            () = self.wish.notified() => (),
        }
    }
}

/// SIGHUP opens the files of the log anew and reads the certificate again, for what rotates them.
fn heed_hangups(mut hangups: Signal, instance: Arc<Instance>) {
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            tokio::task::block_in_place(|| host::on_hangup(&instance));
        }
    });
}

/// What would end the process without a word is told and survived.
fn ignore_user_signals() -> io::Result<()> {
    for (name, kind) in [
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

#[cfg(test)]
mod tests;
