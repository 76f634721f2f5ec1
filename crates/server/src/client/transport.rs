//! The stream under a client: TCP, plain or with TLS, or a Unix socket.
//!
//! Neighbours: [`super::Client`] sends packets over it.
//! **Invariants**: the modes are those of MySQL's `--ssl-mode`; `PREFERRED` and `REQUIRED` encrypt without checking who
//! answers, `VERIFY_CA` and `VERIFY_IDENTITY` check the chain, the latter the host name as well.

use std::fmt::{self, Display};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use esker_vfs::Env;
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};

use super::{ClientError, Connect, TlsLimits};
use crate::listener::StartError;
use crate::tls;

/// Whoever stops a replica does not wait longer than this for an address that does not answer.
const MAX_CONNECT: Duration = Duration::from_secs(10);

/// MySQL's text.
const NO_AUTHORITY: &str = "CA certificate is required if ssl-mode is VERIFY_CA or VERIFY_IDENTITY";

/// Where the server is.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// Host and port.
    Tcp(String, u16),
    /// Path of a Unix socket.
    Socket(PathBuf),
}

/// Whether and how a connection is encrypted (`--ssl-mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Disabled,
    /// Where the server can.
    Preferred,
    /// Always.
    Required,
    /// Always, with a server whose certificate a known authority has signed.
    VerifyCa,
    /// The same, and the certificate must name the host.
    VerifyIdentity,
}

/// An open stream.
pub(super) enum Transport {
    Tcp(TcpStream),
    Socket(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

impl Transport {
    pub(super) fn open(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Endpoint::Socket(path) => UnixStream::connect(path).map(Self::Socket),
        }
    }

    /// A TCP stream on which nothing takes longer than `patience`; an address that does not answer: [`MAX_CONNECT`]. It
    /// comes from `own` address, if there is one.
    pub(super) fn open_within(
        endpoint: &Endpoint,
        own: Option<&str>,
        patience: Duration,
    ) -> io::Result<TcpStream> {
        let Endpoint::Tcp(host, port) = endpoint else {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let most = patience.min(MAX_CONNECT);
        for address in (host.as_str(), *port).to_socket_addrs()? {
            let opened = match own {
                None => TcpStream::connect_timeout(&address, most),
                Some(own) => connect_from(own, address, most),
            };
            match opened {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(patience))?;
                    stream.set_write_timeout(Some(patience))?;
                    return Ok(stream);
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Can a password travel here in the clear?
    pub(super) fn is_private(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }

    /// A stream like this one, encrypted; this one must not be used beside it.
    pub(super) fn encrypt(&self, host: &str, target: &Connect) -> Result<Self, ClientError> {
        let Self::Tcp(stream) = self else {
            return Err(ClientError::Tls("only TCP is encrypted".into()));
        };
        let stream = stream.try_clone()?;
        let tls = |e: Error| ClientError::Tls(e.to_string());
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| ClientError::Tls(format!("'{host}' is no host name")))?;
        let config = config(target)?;
        let connection = ClientConnection::new(Arc::new(config), name).map_err(tls)?;
        let mut stream = StreamOwned::new(connection, stream);
        while stream.conn.is_handshaking() {
            stream
                .conn
                .complete_io(&mut stream.sock)
                .map_err(|e| ClientError::Tls(e.to_string()))?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.read(buffer),
            Self::Socket(s) => s.read(buffer),
            Self::Tls(s) => s.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(s) => s.write(bytes),
            Self::Socket(s) => s.write(bytes),
            Self::Tls(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.flush(),
            Self::Socket(s) => s.flush(),
            Self::Tls(s) => s.flush(),
        }
    }
}

/// A stream to an address from one of this machine's, of the same family.
fn connect_from(own: &str, address: SocketAddr, most: Duration) -> io::Result<TcpStream> {
    let mut known = (own, 0).to_socket_addrs()?;
    let own = known.find(|known| known.is_ipv4() == address.is_ipv4());
    let own = own.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Also for connect, on Linux.
    net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(most))?;
    net::bind(&socket, &own)?;
    net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

fn config(target: &Connect) -> Result<ClientConfig, ClientError> {
    let tls = |e: String| ClientError::Tls(e);
    let limits = &target.tls_limits;
    let mut versions = tls::versions(&limits.versions).map_err(unreadable)?;
    if versions.is_empty() {
        versions.extend(rustls::DEFAULT_VERSIONS.iter().copied());
    }
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    let suites = (limits.ciphers.as_str(), limits.suites.as_deref());
    tls::choose_suites(&mut provider, &versions, suites).map_err(unreadable)?;
    let provider = Arc::new(provider);
    let revoked = read_revoked(limits)?;
    let roots = match target.tls {
        TlsMode::VerifyCa | TlsMode::VerifyIdentity => Some(read_roots(target)?),
        _ => None,
    };
    let chain = roots
        .map(|roots| {
            let roots = Arc::new(roots);
            WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .with_crls(revoked)
                .allow_unknown_revocation_status()
                .build()
                .map_err(|e| tls(e.to_string()))
        })
        .transpose()?;
    let verifier = Verifier {
        provider: provider.clone(),
        chain,
        checks_name: target.tls == TlsMode::VerifyIdentity,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|e| tls(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match &target.identity {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let (chain, key) = tls::load(&Env::os(), certificate, key).map_err(unreadable)?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|e| tls(format!("{}: {e}", certificate.display())))
        }
    }
}

fn unreadable(e: StartError) -> ClientError {
    match e {
        StartError::Tls(text) => ClientError::Tls(text),
        e => ClientError::Tls(e.to_string()),
    }
}

/// The revocation lists of the file and of the folder.
fn read_revoked(
    limits: &TlsLimits,
) -> Result<Vec<CertificateRevocationListDer<'static>>, ClientError> {
    let files = files_of(
        limits.revoked.as_ref(),
        limits.revoked_folder.as_deref(),
        "r",
    )?;
    let mut lists = Vec::new();
    for path in files {
        lists.extend(tls::revocations(&Env::os(), &path).map_err(unreadable)?);
    }
    Ok(lists)
}

/// The authorities of the file and of the folder, at least one.
fn read_roots(target: &Connect) -> Result<RootCertStore, ClientError> {
    let folder = target.tls_limits.authorities_folder.as_deref();
    if target.authorities.is_none() && folder.is_none() {
        return Err(ClientError::Tls(NO_AUTHORITY.to_owned()));
    }
    let mut roots = RootCertStore::empty();
    for path in files_of(target.authorities.as_ref(), folder, "")? {
        for certificate in tls::certificates(&Env::os(), &path).map_err(unreadable)? {
            let added = roots.add(certificate);
            added.map_err(|e| ClientError::Tls(format!("{}: {e}", path.display())))?;
        }
    }
    match (roots.is_empty(), folder) {
        (true, Some(folder)) => {
            let folder = folder.display();
            let text = format!("{folder}: no certificate has a name like 0a1b2c3d.0");
            Err(ClientError::Tls(text))
        }
        _ => Ok(roots),
    }
}

/// The file, and those of the folder that OpenSSL would look at.
fn files_of(
    file: Option<&PathBuf>,
    folder: Option<&Path>,
    mark: &str,
) -> Result<Vec<PathBuf>, ClientError> {
    let mut files: Vec<_> = file.cloned().into_iter().collect();
    if let Some(folder) = folder {
        files.extend(tls::hashed_files(&Env::os(), folder, mark).map_err(unreadable)?);
    }
    Ok(files)
}

/// Verifies the server's certificate as far as a mode demands.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None: any certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    checks_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The chain is checked before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
