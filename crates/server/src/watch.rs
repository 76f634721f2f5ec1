//! Whether the client is still there whose statement runs on a thread of its own.
//!
//! Neighbours: `connection` watches while such a statement runs; `worker` while one runs that has left its worker.
//! A statement that waits as a future watches its socket itself.
//! **Invariants**: a socket is watched through a descriptor of its own, so it cannot be mistaken for
//! another one after it is closed; the watching ends with its guard.

use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;

/// Ends the watching.
pub(crate) struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Watches a socket (a duplicate, not blocking) until the guard goes. `end` is called when the client has closed its
/// end. None: the runtime cannot watch it.
pub(crate) fn until_dropped(socket: OwnedFd, end: Box<dyn Fn() + Send + Sync>) -> Option<Watching> {
    // SAFETY: `as_raw_fd` of an `OwnedFd` names the same open descriptor for as long as the value lives, and the
    // `AsyncFd` owns it until both are dropped together.
    let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }.ok()?;
    let task = tokio::spawn(async move {
        while let Ok(mut guard) = socket.readable().await {
            if guard.ready().is_read_closed() {
                end();
                return;
            }
            // What the client has sent is no end; the next readiness tells of something new.
            guard.clear_ready();
        }
    });
    Some(Watching(task.abort_handle()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use tokio::sync::Notify;

    fn pair() -> (TcpStream, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        (client, socket.into())
    }

    #[tokio::test]
    async fn a_client_that_hangs_up_is_noticed_even_behind_what_it_has_sent() {
        let (mut client, socket) = pair();
        let ended = Arc::new(Notify::new());
        let notice = ended.clone();
        let _watching = until_dropped(socket, Box::new(move || notice.notify_one())).unwrap();
        client.write_all(b"more").unwrap();
        drop(client);
        ended.notified().await;
    }

    #[tokio::test]
    async fn nothing_is_watched_after_the_guard() {
        let (client, socket) = pair();
        let ended = Arc::new(Notify::new());
        let notice = ended.clone();
        drop(until_dropped(socket, Box::new(move || notice.notify_one())));
        // The task is gone with what it holds: nobody else has the notice.
        while Arc::strong_count(&ended) > 1 {
            tokio::task::yield_now().await;
        }
        drop(client);
    }
}
