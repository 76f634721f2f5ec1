//! Clients that come while the log is read, with a log that is read when the test says so.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use esker_engine::{EngineConfig, Isolation};
use esker_sql::InstanceConfig;
use esker_sql::accounts::{Account, store};
use esker_sql::variables::Setting;
use esker_vfs::sim::{CrashImage, SimEnv};
use esker_vfs::{DirLock, Env, File, Fs, OpenMode};
use parking_lot::{Condvar, Mutex as Gate};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A disk whose log can be read by the thread that opens it, and by others only once the gate is open.
struct GatedFs {
    below: Arc<dyn Fs>,
    opener: ThreadId,
    gate: Arc<(Gate<bool>, Condvar)>,
}

struct GatedFile {
    below: Arc<dyn File>,
    opener: ThreadId,
    gate: Arc<(Gate<bool>, Condvar)>,
}

impl Fs for GatedFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let below = self.below.open(path, mode)?;
        if !path.starts_with("/db/wal") {
            return Ok(below);
        }
        Ok(Arc::new(GatedFile {
            below,
            opener: self.opener,
            gate: Arc::clone(&self.gate),
        }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.below.exists(path)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.below.remove_file(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.below.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.below.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.sync_dir(dir)
    }
    fn lock_dir(&self, dir: &Path) -> io::Result<Box<dyn DirLock>> {
        self.below.lock_dir(dir)
    }
    fn taken_bytes(&self, path: &Path) -> io::Result<u64> {
        self.below.taken_bytes(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.below.free_bytes(dir)
    }
}

impl File for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if thread::current().id() != self.opener {
            let (is_open, moved) = &*self.gate;
            let mut is_open = is_open.lock();
            while !*is_open {
                moved.wait(&mut is_open);
            }
        }
        self.below.read_at(buf, offset)
    }
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.below.write_all_at(buf, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.below.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.below.allocate(offset, len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.below.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.below.sync_all()
    }
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}

/// A database with a log to read, which nobody can read yet.
struct Machine {
    env: Env,
    gate: Arc<(Gate<bool>, Condvar)>,
}

impl Machine {
    fn crashed() -> Self {
        let before = SimEnv::new(1);
        let mut config = EngineConfig::new("/db");
        config.log_segment_bytes = 1 << 20;
        let engine = Engine::open(before.env(), config).expect("opens");
        let tree = engine.create_tree().expect("a tree");
        let mut txn = engine.begin(Isolation::ReadCommitted);
        for row in 0..100_u64 {
            txn.put(&tree, &row.to_be_bytes(), &[7; 1000]).expect("put");
        }
        let seq = txn.commit().expect("commits").seq.expect("wrote");
        engine.wait_durable(seq).block().expect("durable");
        // A database whose accounts are lost does not open.
        let root = Account::root(Vec::new());
        let (env, dir) = (before.env(), Path::new("/db"));
        store::prepare(&env, dir, &store::Stored::first(vec![root])).expect("accounts");
        store::install(&env, dir).expect("accounts");
        let after = SimEnv::with_fs(before.fs.crash_with(CrashImage::DropUnsynced), 2);
        let gate = Arc::<(Gate<bool>, Condvar)>::default();
        let mut env = after.env();
        env.fs = Arc::new(GatedFs {
            below: env.fs,
            opener: thread::current().id(),
            gate: Arc::clone(&gate),
        });
        Machine { env, gate }
    }

    fn begin(&self) -> Starting {
        let settings = [
            ("max_connections", "1"),
            ("esker_log_segment_size", "1048576"),
            ("esker_log_buffer_size", "1048576"),
        ];
        let settings = settings.map(|(name, value)| Setting {
            name: name.into(),
            value: value.into(),
            source: "test".into(),
        });
        Starting::begin(InstanceConfig {
            env: self.env.clone(),
            data_dir: "/db".into(),
            settings: settings.to_vec(),
            root_password: None,
            passwords: crate::login::HASHING,
        })
        .expect("the manifest is readable")
    }

    fn open_gate(&self) {
        *self.gate.0.lock() = true;
        self.gate.1.notify_all();
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    (listener, address)
}

/// A report that keeps what it was told.
fn report() -> (Report, Arc<Mutex<Vec<ReplayPhase>>>) {
    let phases = Arc::<Mutex<Vec<ReplayPhase>>>::default();
    let seen = Arc::clone(&phases);
    let watcher =
        move |progress: &ReplayProgress| seen.lock().expect("no panic").push(progress.phase);
    (Report::new(Box::new(watcher)), phases)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_wait_until_the_log_is_read() {
    let machine = Machine::crashed();
    let starting = machine.begin();
    let (listener, address) = listener().await;
    let (mut report, phases) = report();
    let clients = async {
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(TcpStream::connect(address).await.expect("connects"));
        }
        // One more than may log in waits; the next is sent away, so the others are in.
        let mut third = TcpStream::connect(address).await.expect("connects");
        let mut told = Vec::new();
        third.read_to_end(&mut told).await.expect("to the end");
        assert!(told.ends_with(b"Too many connections"), "{told:?}");
        for client in &clients {
            let nothing = client.try_read(&mut [0]).expect_err("no greeting");
            assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        }
        while phases.lock().expect("no panic").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        machine.open_gate();
        clients
    };
    let never = std::future::pending();
    let doors = Doors::from(vec![listener]);
    let (started, clients) = tokio::join!(wait(starting, &doors, never, &mut report), clients);
    let started = started.expect("opens").expect("no signal came");
    assert_eq!((started.guests.len(), clients.len()), (2, 2));
    assert_eq!(phases.lock().expect("no panic")[0], ReplayPhase::Reading);
    let progress = started.instance.engine().replay();
    assert!(progress.rows >= 100 && progress.bytes_total > 100_000);
    started.instance.shutdown().expect("shuts down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_wait() {
    let machine = Machine::crashed();
    let starting = machine.begin();
    let (listener, _) = listener().await;
    let (mut report, phases) = report();
    let signal = async {
        while phases.lock().expect("no panic").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // A read that has begun ends first.
        machine.open_gate();
    };
    let started = wait(starting, &Doors::from(vec![listener]), signal, &mut report).await;
    // The log may have been read in that moment; otherwise there is nothing to serve.
    if let Some(started) = started.expect("no error") {
        started.instance.shutdown().expect("shuts down");
    }
}

#[tokio::test]
async fn the_room_is_bounded_and_who_leaves_makes_room() {
    let (listener, address) = listener().await;
    let mut room = Room::new(2);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(TcpStream::connect(address).await.expect("connects"));
        let (stream, peer) = listener.accept().await.expect("accepts");
        room.enter(Socket::Tcp(stream), Peer::Tcp(peer));
    }
    assert_eq!((room.guests.len(), room.refused), (2, 1));
    let mut told = Vec::new();
    let mut refused = clients.pop().expect("the third");
    refused.read_to_end(&mut told).await.expect("to the end");
    assert!(told.ends_with(b"Too many connections"), "{told:?}");
    // The end of the stream arrives in its own time.
    drop(clients.remove(0));
    room.guests[0].0.hung_up().await;
    assert!(room.guests[0].0.has_hung_up() && !room.guests[1].0.has_hung_up());
    let _late = TcpStream::connect(address).await.expect("connects");
    let (stream, peer) = listener.accept().await.expect("accepts");
    room.enter(Socket::Tcp(stream), Peer::Tcp(peer));
    assert_eq!((room.guests.len(), room.refused), (2, 1));
    assert_eq!(room.guests[1].1.to_string(), peer.to_string());
}
