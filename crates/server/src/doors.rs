//! The sockets that clients come in by: one for each address of `bind_address`.
//!
//! Neighbours: `listener` opens them once; `startup` and `listener` take what comes.
//! **Invariant**: no door is favoured: they are asked in turn.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::listener::StartError;

/// Every address of the machine.
const EVERYWHERE: &str = "*";

/// The listening sockets.
pub(crate) struct Doors {
    listeners: Vec<TcpListener>,
    /// Asked first the next time.
    next: AtomicUsize,
}

impl From<Vec<TcpListener>> for Doors {
    fn from(listeners: Vec<TcpListener>) -> Self {
        let next = AtomicUsize::new(0);
        Self { listeners, next }
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

    /// The first address.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listeners[0].local_addr()
    }

    /// All addresses.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// The next client.
    pub(crate) async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        std::future::poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let (count, first) = (self.listeners.len(), self.next.load(Ordering::Relaxed));
        for at in (first..first + count).map(|i| i % count) {
            if let Poll::Ready(accepted) = self.listeners[at].poll_accept(context) {
                self.next.store((at + 1) % count, Ordering::Relaxed);
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
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
                assert_eq!(peer, client.local_addr().expect("bound"));
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
