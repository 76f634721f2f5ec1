//! The sockets that clients come in by: one for each address of `bind_address`, and a Unix socket.
//!
//! Neighbours: `listener` opens them once; `startup` and `listener` take what comes, as a [`Socket`].
//! **Invariants**: no door is favoured: they are asked in turn. A Unix socket's file is only replaced when nobody
//! listens on it, and is removed with its door.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use esker_vfs::Env;
use rustix::fs::{FileType, Mode, chmod, stat};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};

use crate::listener::StartError;
use crate::socket::{Peer, Socket};

/// Every address of the machine.
const EVERYWHERE: &str = "*";

/// Everybody on the machine may connect; accounts decide who gets in.
const SOCKET_MODE: Mode = Mode::from_raw_mode(0o777);

/// The listening sockets.
pub(crate) struct Doors {
    listeners: Vec<TcpListener>,
    local: Option<LocalDoor>,
    /// Asked first the next time.
    next: AtomicUsize,
}

impl From<Vec<TcpListener>> for Doors {
    fn from(listeners: Vec<TcpListener>) -> Self {
        let next = AtomicUsize::new(0);
        Self {
            listeners,
            local: None,
            next,
        }
    }
}

fn is_socket(path: &Path) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(stat(path)?.st_mode) == FileType::Socket)
}

/// A Unix socket with its file.
struct LocalDoor {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for LocalDoor {
    fn drop(&mut self) {
        if let Err(e) = Env::os().fs.remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {e}", self.path.display());
        }
    }
}

impl Doors {
    /// Listens on every address of a list: names, IPv4 and IPv6 addresses, `*` for all. `backlog` is the length of the
    /// kernel's queue of connections not yet accepted.
    pub(crate) async fn open(list: &str, port: u16, backlog: u32) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        for name in list.split(',').map(str::trim) {
            // With port 0 the system chooses once, for all.
            let port = match listeners.first() {
                Some(first) => TcpListener::local_addr(first)?.port(),
                None => port,
            };
            listeners.push(open_one(name, port, backlog).await?);
        }
        Ok(listeners.into())
    }

    /// Listens on a Unix socket as well.
    pub(crate) async fn open_local(&mut self, path: &Path) -> Result<(), StartError> {
        let fail = |cause: io::Error| StartError::Listen {
            address: path.display().to_string(),
            cause,
            hint: "",
        };
        if Env::os().fs.exists(path).map_err(fail)? {
            if UnixStream::connect(path).await.is_ok() {
                return Err(StartError::Listen {
                    address: path.display().to_string(),
                    cause: io::ErrorKind::AddrInUse.into(),
                    hint: " (another server uses this socket; choose one with --socket=FILE)",
                });
            }
            if !is_socket(path).map_err(fail)? {
                return Err(StartError::Listen {
                    address: path.display().to_string(),
                    cause: io::ErrorKind::AlreadyExists.into(),
                    hint: " (it is no socket; choose another name with --socket=FILE)",
                });
            }
            // A server that was killed has left it.
            Env::os().fs.remove_file(path).map_err(fail)?;
        }
        let listener = UnixListener::bind(path).map_err(fail)?;
        let path = path.to_owned();
        chmod(&path, SOCKET_MODE).map_err(|e| fail(e.into()))?;
        self.local = Some(LocalDoor { listener, path });
        Ok(())
    }

    /// The first address.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listeners[0].local_addr()
    }

    /// All addresses.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        std::future::poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Socket, Peer)>> {
        let count = self.listeners.len() + usize::from(self.local.is_some());
        let first = self.next.load(Ordering::Relaxed);
        for at in (first..first + count).map(|i| i % count) {
            if let Poll::Ready(accepted) = self.poll_one(at, context) {
                self.next.store((at + 1) % count, Ordering::Relaxed);
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }

    /// Asks one door; the one behind the addresses is the Unix socket.
    fn poll_one(&self, at: usize, context: &mut Context<'_>) -> Poll<io::Result<(Socket, Peer)>> {
        if let Some(listener) = self.listeners.get(at) {
            let tcp = |(stream, peer)| (Socket::Tcp(stream), Peer::Tcp(peer));
            return listener.poll_accept(context).map_ok(tcp);
        }
        let Some(local) = &self.local else {
            return Poll::Pending;
        };
        let unix = |(stream, _)| (Socket::Unix(stream), Peer::Local);
        local.listener.poll_accept(context).map_ok(unix)
    }
}

async fn open_one(name: &str, port: u16, backlog: u32) -> Result<TcpListener, StartError> {
    let fail = |cause: io::Error| StartError::Listen {
        hint: match cause.kind() {
            io::ErrorKind::AddrInUse => {
                " (another server uses this port; choose one with --port=N)"
            }
            io::ErrorKind::PermissionDenied => " (ports below 1024 need privileges)",
            _ => "",
        },
        address: format!("{name}:{port}"),
        cause,
    };
    if name == EVERYWHERE {
        // An IPv6 socket takes IPv4 clients too; a machine may have no IPv6.
        let both = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, port));
        return match listen(both, backlog) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(fail(e)),
            Err(_) => {
                let old = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, port));
                listen(old, backlog).map_err(fail)
            }
            opened => opened.map_err(fail),
        };
    }
    let target = tokio::net::lookup_host((name, port))
        .await
        .map_err(fail)?
        .next()
        .ok_or_else(|| fail(io::Error::other("the name has no address")))?;
    listen(target, backlog).map_err(fail)
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_unix_socket_replaces_what_a_killed_server_has_left_and_no_other() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("esker.sock");
        // A socket whose listener is gone, and its file not.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
        let mut doors = Doors::open("127.0.0.1", 0, 16).await.expect("opens");
        doors.open_local(&path).await.expect("replaces it");
        let _client = UnixStream::connect(&path).await.expect("connects");
        let (_, peer) = doors.accept().await.expect("accepts");
        assert_eq!((peer.host().as_str(), peer.ip()), ("localhost", None));
        let mut second = Doors::open("127.0.0.1", 0, 16).await.expect("opens");
        assert!(second.open_local(&path).await.is_err());
        drop(doors);
        assert!(!path.exists());
        // A file of somebody else.
        std::fs::write(&path, "letters").expect("writes");
        assert!(second.open_local(&path).await.is_err());
        assert_eq!(std::fs::read(&path).expect("reads"), b"letters");
    }

    #[tokio::test]
    async fn every_address_of_a_list_lets_in() {
        let doors = Doors::open("127.0.0.1, 127.0.0.2", 0, 16)
            .await
            .expect("opens");
        let addresses = doors.addresses().expect("bound");
        assert_eq!(addresses.len(), 2);
        assert_eq!(addresses[0].port(), addresses[1].port());
        for _ in 0..2 {
            for address in &addresses {
                let client = TcpStream::connect(address).await.expect("connects");
                let (_, peer) = doors.accept().await.expect("accepts");
                let own = client.local_addr().expect("bound");
                assert_eq!(peer.to_string(), own.to_string());
            }
        }
    }

    #[tokio::test]
    async fn a_star_is_every_address() {
        let doors = Doors::open("*", 0, 16).await.expect("opens");
        let port = doors.address().expect("bound").port();
        TcpStream::connect(("127.0.0.3", port))
            .await
            .expect("connects");
        assert!(
            Doors::open("127.0.0.1,nobody.invalid", 0, 16)
                .await
                .is_err()
        );
    }
}
