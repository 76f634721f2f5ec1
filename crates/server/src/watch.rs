//! Whether the clients are still there whose statements run on threads of their own.
//!
//! Neighbours: `dispatch` enters a connection while its statement runs; `listener` starts the round.
//! A statement that waits as a future watches its socket itself.
//! **Invariants**: a socket is watched through a descriptor of its own, so it cannot be mistaken for
//! another one after it is closed; an entry goes with its guard.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Time between two rounds: how long a statement may run on without its client.
const ROUND: Duration = Duration::from_secs(1);

struct Watched {
    socket: TcpStream,
    end: Box<dyn Fn() + Send + Sync>,
}

/// The watched connections, by connection id.
#[derive(Default)]
pub(crate) struct Watch(Mutex<HashMap<u64, Watched>>);

/// Ends the watching.
pub(crate) struct Watching {
    watch: Arc<Watch>,
    id: u64,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.watch.0.lock().remove(&self.id);
    }
}

impl Watch {
    /// Watches a socket (a duplicate, not blocking) until the guard goes. `end` is called when the
    /// client has closed its end.
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: u64,
        socket: TcpStream,
        end: Box<dyn Fn() + Send + Sync>,
    ) -> Watching {
        self.0.lock().insert(id, Watched { socket, end });
        Watching {
            watch: self.clone(),
            id,
        }
    }

    /// Looks after all watched sockets once.
    fn look(&self) {
        let watched = self.0.lock();
        for w in watched.values().filter(|w| has_hung_up(&w.socket)) {
            (w.end)();
        }
    }

    /// Looks again and again; for a task of its own.
    pub(crate) async fn keep_looking(self: Arc<Self>) {
        let mut rounds = tokio::time::interval(ROUND);
        loop {
            rounds.tick().await;
            self.look();
        }
    }
}

/// Has the peer closed its end, or is the connection broken? A peer that has sent more is there.
fn has_hung_up(socket: &TcpStream) -> bool {
    match socket.peek(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_client_that_hangs_up_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let watch = Arc::new(Watch::default());
        let ended = Arc::new(AtomicUsize::new(0));
        let count = ended.clone();
        let end = Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let guard = watch.enter(1, socket.try_clone().unwrap(), end);
        watch.look();
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        drop(client.write(b"x"));
        watch.look();
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        socket.set_nonblocking(false).unwrap();
        assert_eq!(std::io::Read::read(&mut &socket, &mut [0; 8]).unwrap(), 1);
        drop(client);
        // The end of the stream arrives in its own time.
        assert_eq!(std::io::Read::read(&mut &socket, &mut [0; 8]).unwrap(), 0);
        watch.look();
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        drop(guard);
        watch.look();
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
