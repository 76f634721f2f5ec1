//! One client from its seat to its goodbye: admission, session, commands, end.
//!
//! Neighbours: the listener calls [`serve`] for each client; `handshake` says who it is, `seats` has the seats,
//! `dispatch` runs commands.
//! **Invariants**: a client that is not let in hears why; a session is gone before its seat is free; after KILL by
//! another session a client hears nothing more.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use esker_sql::accounts::Identity;
use esker_sql::{ClientInfo, Session};
use esker_types::collation::Collation;
use esker_types::{SqlError, errors};
use esker_wire::constants::cap;
use esker_wire::frame::{FrameReader, FrameWriter};
use esker_wire::handshake::Response;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::handshake::{NoLogin, change_user, login};
use super::{Connection, Gone};
use crate::dispatch::{self, Next};
use crate::dump;
use crate::headers::Headers;
use crate::listener::{SHUTDOWN_GRACE, Shared};
use crate::parameters::Parameters;
use crate::reply;
use crate::seats::{Door, Held};
use crate::silence::Silence;
use crate::socket::{Peer, Socket};
use crate::stream::Stream;
use crate::unseen;
use crate::worker::Watcher;

/// Longest pause in taking what the server says before the session's own limit is known.
const LOGIN_WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest goodbye to a client.
const GOODBYE: Duration = Duration::from_millis(100);

/// Serves a client until it leaves.
pub(crate) async fn serve(shared: Arc<Shared>, socket: Socket, peer: Peer, door: Door) {
    let mut conn = begin_connection(&shared, socket);
    let entered = match admit(&shared, peer, door) {
        Ok(entered) => entered,
        Err(e) => {
            tell_refusal(&shared, peer, &e);
            conn.put_error(&e);
            // The client may be gone already; nothing to do then.
            let _ = timeout(GOODBYE, conn.flush()).await;
            return;
        }
    };
    let id = shared.next_connection_id();
    let host = peer.host();
    conn.begin_login();
    let (response, identity, must_change_password) =
        match login(&mut conn, &shared, id, &host).await {
            Ok(known) => known,
            Err(why) => return refuse(&mut conn, &shared, peer, why).await,
        };
    if let Some(ip) = peer.ip() {
        shared.throttle.completed(ip);
    }
    let kill = Arc::new(Notify::new());
    drop(entered);
    let who = Newcomer {
        id,
        peer,
        door,
        response,
        must_change_password,
    };
    let opened = open_session(&mut conn, &shared, (who, identity), &kill).await;
    let Some((mut session, seat)) = opened else {
        return;
    };
    let ended = serve_until_stopped(&mut conn, &mut session, &kill).await;
    if conn.is_streaming {
        // A consumer hears nothing of its end.
    } else if shared.is_stopping() {
        conn.frames.set_seq(0);
        conn.frames.abandon();
        conn.put_error(&errors::shutdown_in_progress());
        let _ = timeout(GOODBYE, conn.flush()).await;
    } else if ended.is_err() {
        shared.instance.count_aborted_client();
    }
    session.note_logout();
    if session.ends_at_once() {
        drop(session);
    } else {
        // Rolling back a large transaction may take a while.
        tokio::task::block_in_place(|| drop(session));
    }
    drop(seat);
    // A socket is shut by being closed; TLS says goodbye.
    if conn.stream.is_tls() {
        let _ = timeout(Duration::from_secs(1), conn.stream.shutdown()).await;
    }
}

/// A connection whose client has not said anything yet.
fn begin_connection(shared: &Arc<Shared>, socket: Socket) -> Connection {
    Connection {
        stream: Stream::Plain(socket),
        frames: FrameWriter::default(),
        is_streaming: false,
        headers: Headers::default(),
        reader: FrameReader::default(),
        agreed: None,
        compression: None,
        capabilities: 0,
        parameters: Parameters::default(),
        shared: shared.clone(),
        login_end: Instant::now(),
        write_timeout: LOGIN_WRITE_TIMEOUT,
        received: 0,
        sent: 0,
        ahead: 0,
        idle: Arc::default(),
        watcher: Watcher::default(),
    }
}

/// Serves commands until the client leaves, is killed, or the server goes down.
async fn serve_until_stopped(
    conn: &mut Connection,
    session: &mut Session,
    kill: &Notify,
) -> Result<(), Gone> {
    let (idle, mut stop) = (conn.idle.clone(), conn.shared.shutdown.clone());
    let mut work = std::pin::pin!(serve_commands(conn, session));
    tokio::select! {
        biased;
        ended = &mut work => ended,
        () = kill.notified() => Err(Gone),
        () = stopped(&mut stop) => {
            if idle.load(Ordering::Relaxed) {
                Err(Gone)
            } else {
                // What runs has been interrupted and is answered; a commit takes its time.
                timeout(SHUTDOWN_GRACE, work).await.unwrap_or(Err(Gone))
            }
        }
    }
}

/// Is there room for one more, and has the address behaved?
fn admit(shared: &Shared, peer: Peer, door: Door) -> Result<Option<Held<'_>>, SqlError> {
    let limit = shared.instance.variable_u64("max_connections") as usize;
    let entered = shared.seats.enter(limit);
    if entered.is_none() && door == Door::Main {
        shared.instance.count_refused_connection();
        return Err(errors::too_many_connections());
    }
    let allowed = shared.instance.variable_u64("max_connect_errors");
    let flushes = shared.instance.host_flushes();
    let ip = peer.ip().map(|ip| ip.to_canonical());
    if let Some(ip) = ip
        && shared.throttle.is_blocked(ip, allowed, flushes)
    {
        let text = format!(
            "Host '{ip}' is blocked because of many connection errors; unblock with FLUSH HOSTS"
        );
        return Err(SqlError::new(1129, "HY000", text));
    }
    Ok(entered)
}

/// Ends a login that came to nothing.
async fn refuse(conn: &mut Connection, shared: &Shared, peer: Peer, why: NoLogin) {
    shared.instance.count_aborted_connect();
    match why {
        NoLogin::Broken => {
            let allowed = shared.instance.variable_u64("max_connect_errors");
            if let Some(ip) = peer.ip() {
                shared.throttle.interrupted(ip, allowed);
            }
        }
        NoLogin::Denied(e) => {
            tell_refusal(shared, peer, &e);
            conn.put_error(&e);
            let _ = conn.flush().await;
        }
    }
}

/// Says in the logs that a client was not let in.
fn tell_refusal(shared: &Shared, peer: Peer, e: &SqlError) {
    shared.refusals.tell(peer, e);
    shared.instance.audit_refusal(&peer.to_string(), e);
}

/// Resolves when the server goes down.
async fn stopped(stop: &mut tokio::sync::watch::Receiver<bool>) {
    // An error means that the listener is gone, which is the same.
    let _ = stop.wait_for(|stopping| *stopping).await;
}

/// Gives the client its seat; None: it came through a door where none is needed.
fn seat<'s>(
    shared: &'s Shared,
    session: &Session,
    door: Door,
) -> Result<Option<Held<'s>>, SqlError> {
    let is_administrator = session.is_administrator();
    if door == Door::Admin {
        let denied = || errors::privilege_needed("SERVICE_CONNECTION_ADMIN");
        return is_administrator.then_some(None).ok_or_else(denied);
    }
    let limit = shared.instance.variable_u64("max_connections") as usize;
    let Some(seat) = shared.seats.take(limit, is_administrator) else {
        shared.instance.count_refused_connection();
        return Err(errors::too_many_connections());
    };
    Ok(Some(seat))
}

/// Begins to count for the account, and takes its first database.
pub(super) fn admit_account(session: &mut Session, database: Option<&str>) -> Result<(), SqlError> {
    session.begin_counting()?;
    database.map_or(Ok(()), |db| session.use_database(db))
}

/// A client that has proved who it is.
struct Newcomer {
    id: u64,
    peer: Peer,
    door: Door,
    response: Response,
    /// The password has expired.
    must_change_password: bool,
}

/// A session of the client, before it has a seat.
fn begin_session(
    conn: &Connection,
    shared: &Shared,
    (who, identity): (&Newcomer, Identity),
    kill: &Arc<Notify>,
) -> Session {
    let killer = Arc::new(OnceLock::new());
    let leave_worker = conn.leave_worker(killer.clone());
    let on_kill = {
        let kill = kill.clone();
        Box::new(move || kill.notify_one())
    };
    let response = &who.response;
    let can = |capability: u32| response.capabilities & capability != 0;
    let client = ClientInfo {
        connection_id: who.id,
        user: response.user.clone(),
        host: who.peer.host(),
        peer: who.peer.to_string(),
        account: identity.account,
        proxy_user: identity.proxy_user,
        collation: Collation::by_id(response.collation),
        found_rows: can(cap::FOUND_ROWS),
        multi_statements: can(cap::MULTI_STATEMENTS),
        several_prepared_results: can(cap::PS_MULTI_RESULTS),
        local_files: can(cap::LOCAL_FILES),
        interactive: can(cap::INTERACTIVE),
        attributes: response.attributes.clone(),
        tls: conn.stream.tls_info(),
        compression: conn.agreed.map(|a| (a.name(), a.level())),
        thread: ClientInfo::THREAD,
        embedded: false,
        on_kill,
        leave_worker,
    };
    let session = Session::new(shared.instance.clone(), client);
    // Nobody has set it.
    let _ = killer.set(session.killer());
    session
}

async fn open_session<'s>(
    conn: &mut Connection,
    shared: &'s Arc<Shared>,
    (who, identity): (Newcomer, Identity),
    kill: &Arc<Notify>,
) -> Option<(Session, Option<Held<'s>>)> {
    let mut session = begin_session(conn, shared, (&who, identity), kill);
    let Newcomer {
        peer,
        door,
        response,
        must_change_password,
        ..
    } = who;
    if conn.capabilities & cap::SESSION_TRACK != 0 {
        session.report_changes();
    }
    let opened = seat(shared, &session, door).and_then(|seat| {
        admit_account(&mut session, response.database.as_deref())?;
        Ok(seat)
    });
    let opened = match opened {
        Ok(seat) => greet(&mut session, shared, &response).await.map(|()| seat),
        Err(e) => Err(e),
    };
    let seat = match opened {
        Ok(seat) => seat,
        Err(e) => {
            // Whoever sees the error may come again at once.
            drop(session);
            tell_refusal(shared, peer, &e);
            shared.instance.count_aborted_connect();
            conn.put_error(&e);
            let _ = conn.flush().await;
            return None;
        }
    };
    session.note_login("connect");
    // Not before: the database could not be taken, and init_connect could not run.
    if must_change_password {
        session.require_new_password();
    }
    reply::done(conn, &mut session);
    conn.flush().await.ok()?;
    if let Some(algorithm) = conn.agreed {
        conn.compress(algorithm);
    }
    Some((session, seat))
}

/// `init_connect`, which administrators are spared: a mistake in it must not keep out those who can mend it.
async fn greet(
    session: &mut Session,
    shared: &Shared,
    response: &Response,
) -> Result<(), SqlError> {
    let statements = shared.instance.variable_text("init_connect");
    if statements.is_empty() || session.is_administrator() {
        return Ok(());
    }
    session.set_multi_statements(true);
    let ran = unseen::run(session, statements.as_bytes()).await;
    session.set_multi_statements(response.capabilities & cap::MULTI_STATEMENTS != 0);
    ran.map_err(|e| {
        tracing::warn!("init_connect failed: {e}");
        let text = format!(
            "Aborted connection {} to db: '{}' user: '{}' host: '{}' (init_connect command failed)",
            session.connection_id(),
            response.database.as_deref().unwrap_or("unconnected"),
            response.user,
            session.host(),
        );
        SqlError::new(1184, "08S01", text)
    })
}

async fn serve_commands(conn: &mut Connection, session: &mut Session) -> Result<(), Gone> {
    let shared = conn.shared.clone();
    let mut silence = Silence::new();
    conn.count_traffic(session);
    while !shared.is_stopping() {
        let idle = session.idle_timeout();
        conn.idle.store(true, Ordering::Relaxed);
        let next = conn.command(session, idle, &mut silence).await?;
        conn.count_traffic(session);
        if let Next::Dump(stream) = next {
            // It is no command that runs: the end of the server does not wait for it, nor does a commit.
            conn.write_timeout = session.net_write_timeout();
            conn.is_streaming = true;
            dump::serve(conn, session, stream).await?;
            conn.flush().await?;
            return Ok(());
        }
        let is_last = matches!(next, Next::LastError(_));
        conn.idle.store(false, Ordering::Relaxed);
        let _running = shared.activity.begin();
        conn.write_timeout = session.net_write_timeout();
        match next {
            Next::Quit => return Ok(()),
            Next::ChangeUser(payload) => change_user(conn, session, &shared, &payload).await?,
            next => dispatch::finish(conn, session, next).await?,
        }
        conn.watcher.end();
        if session.is_cut_off() {
            return Err(Gone);
        }
        conn.flush().await?;
        if is_last || session.is_released() {
            return Ok(());
        }
        conn.count_traffic(session);
    }
    Ok(())
}
