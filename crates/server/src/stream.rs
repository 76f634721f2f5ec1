//! A client's byte stream: a socket, or TLS over it.
//!
//! Neighbours: `connection` reads and writes; `login` upgrades.
//! **Invariant**: the upgrade happens before anything secret is sent.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::socket::Socket;

/// A socket with or without TLS.
pub(crate) enum Stream {
    /// Clear.
    Plain(Socket),
    /// Encrypted.
    Tls(Box<TlsStream<Socket>>),
    /// Closed by a failed upgrade.
    Closed,
}

impl Stream {
    /// Is what is sent encrypted?
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Cipher suite and protocol version, for `SHOW STATUS LIKE 'Ssl_%'`.
    pub(crate) fn tls_info(&self) -> Option<(String, String)> {
        let Self::Tls(stream) = self else { return None };
        let (_, session) = stream.get_ref();
        let cipher = session.negotiated_cipher_suite()?.suite();
        let version = match session.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
            _ => "TLSv1.2",
        };
        Some((crate::tls::suite_name(cipher), version.to_owned()))
    }

    /// The certificate that the client has shown. Only one that `ssl_ca` vouches for is taken.
    pub(crate) fn peer_certificate(&self) -> Option<&[u8]> {
        let Self::Tls(stream) = self else {
            return None;
        };
        let (_, session) = stream.get_ref();
        let own = session.peer_certificates()?.first();
        own.map(|certificate| &**certificate)
    }

    /// May a password be sent in the clear? On a Unix socket nobody listens.
    pub(crate) fn is_private(&self) -> bool {
        self.is_tls() || matches!(self, Self::Plain(Socket::Unix(_) | Socket::Inside(..)))
    }

    /// The address of the other end; a Unix socket has none.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.socket().and_then(Socket::ip)
    }

    /// Who has opened the other end of a Unix socket, by the operating system's number.
    pub(crate) fn peer_uid(&self) -> Option<u32> {
        self.socket().and_then(Socket::peer_uid)
    }

    fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(stream) => Some(stream.get_ref().0),
            Self::Closed => None,
        }
    }

    /// Writes what the socket takes at once, without a timer; `None` if that cannot be done or said here.
    pub(crate) fn write_now(&self, data: &[u8]) -> Option<usize> {
        match self {
            Self::Plain(socket) => socket.try_write(data).ok(),
            Self::Tls(_) | Self::Closed => None,
        }
    }

    /// The socket's descriptor.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.socket().map(|socket| socket.as_fd().as_raw_fd())
    }

    /// Another descriptor of the socket.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        let socket = self.socket().ok_or_else(closed)?;
        socket.as_fd().try_clone_to_owned()
    }

    /// Resolves when the peer has closed its end or the connection broke; a peer that has sent
    /// something more is there.
    pub(crate) async fn hung_up(&self) {
        if let Some(socket) = self.socket() {
            socket.hung_up().await;
        }
    }

    /// Performs the TLS handshake on a clear stream.
    pub(crate) async fn upgrade(&mut self, acceptor: &TlsAcceptor) -> io::Result<()> {
        let Self::Plain(socket) = std::mem::replace(self, Self::Closed) else {
            return Err(io::Error::other("already encrypted"));
        };
        *self = Self::Tls(Box::new(acceptor.accept(socket).await?));
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::from(io::ErrorKind::NotConnected)
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, buf),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_write(cx, data),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_write(cx, data),
            Self::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_flush(cx),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_shutdown(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}
