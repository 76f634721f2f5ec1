//! The socket that a client came by, and what is known of where it came from.
//!
//! Neighbours: `doors` accepts, `stream` puts TLS above TCP, `connection` names the host.
//! **Invariants**
//! - A Unix socket counts as local and private: its client is at `localhost`, and may send a password in the clear.
//! - Only a Unix socket that a client has opened says which user of the operating system that is: both ends of a pair
//!   inside the server are the server's own.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Name of this machine in accounts.
const LOCALHOST: &str = "localhost";

/// An accepted connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// One end of a pair inside the server: who is behind the other end has come from elsewhere, from this address.
    Inside(UnixStream, Option<IpAddr>),
}

/// The other end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    Tcp(SocketAddr),
    /// Somebody on this machine.
    Local,
}

impl Peer {
    /// The address that failed logins are counted for; a Unix socket has none.
    pub(crate) fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Local => None,
        }
    }

    /// The host of an account.
    pub(crate) fn host(self) -> String {
        match self.ip() {
            Some(ip) if !ip.is_loopback() => ip.to_canonical().to_string(),
            _ => LOCALHOST.into(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Local => f.write_str(LOCALHOST),
        }
    }
}

impl Socket {
    /// Small answers must not wait for the peer's delayed acknowledgement.
    pub(crate) fn send_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Unix(_) | Self::Inside(..) => Ok(()),
        }
    }

    /// The address of the other end; a Unix socket has none.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => Some(stream.peer_addr().ok()?.ip()),
            Self::Inside(_, ip) => *ip,
            Self::Unix(_) => None,
        }
    }

    /// Who has opened the other end of a Unix socket, by the operating system's number.
    pub(crate) fn peer_uid(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) | Self::Inside(..) => None,
            Self::Unix(stream) => Some(stream.peer_cred().ok()?.uid()),
        }
    }

    /// Writes what the socket takes now.
    pub(crate) fn try_write(&self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(data),
            Self::Unix(stream) | Self::Inside(stream, _) => stream.try_write(data),
        }
    }

    /// Has the peer closed its end, or is the connection broken? Something that was sent stays to be read.
    pub(crate) fn has_hung_up(&self) -> bool {
        match recv(self, &mut [0_u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received == 0,
            Err(e) => io::Error::from(e).kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Resolves when the peer has closed its end or the connection broke; a peer that has sent something more is there.
    pub(crate) async fn hung_up(&self) {
        let peek = || Ok(recv(self, &mut [0_u8; 1], RecvFlags::PEEK)?.1);
        let peeked = match self {
            Self::Tcp(stream) => stream.async_io(Interest::READABLE, peek).await,
            Self::Unix(stream) | Self::Inside(stream, _) => {
                stream.async_io(Interest::READABLE, peek).await
            }
        };
        if let Ok(1..) = peeked {
            std::future::pending::<()>().await;
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) | Self::Inside(stream, _) => stream.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Unix(stream) | Self::Inside(stream, _) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, data),
            Self::Unix(stream) | Self::Inside(stream, _) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) | Self::Inside(stream, _) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) | Self::Inside(stream, _) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
