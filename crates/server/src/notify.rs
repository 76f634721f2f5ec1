//! What the service manager is told (sd_notify(3)): ready, stopping, and that a long recovery is no hang.
//!
//! Neighbours: `listener` and `startup` tell it. **Invariant**: without `NOTIFY_SOCKET` nothing is sent, and a manager
//! that does not listen stops nothing.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Environment variable with the manager's socket.
const SOCKET_ENV: &str = "NOTIFY_SOCKET";

/// Statements may run.
pub(crate) fn ready(address: &str) {
    send(&format!(
        "READY=1\nSTATUS=Ready for connections on {address}\n"
    ));
}

/// The log is read; the manager must wait `more` seconds before it gives up.
pub(crate) fn recovering(line: &str, more: u64) {
    let micros = more * 1_000_000;
    send(&format!("STATUS={line}\nEXTEND_TIMEOUT_USEC={micros}\n"));
}

/// The server goes down.
pub(crate) fn stopping() {
    send("STOPPING=1\nSTATUS=Shutting down\n");
}

fn send(message: &str) {
    let Some(path) = std::env::var_os(SOCKET_ENV) else {
        return;
    };
    let text = path.to_string_lossy();
    let address = match text.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(e) = sent {
        tracing::debug!("{SOCKET_ENV}: {e}");
    }
}
