//! Who a client is: greeting, TLS, authentication; and COM_CHANGE_USER, which asks again.
//!
//! Neighbours: `serve` calls these; `login` authenticates, `esker_wire::handshake` has the packets.
//! **Invariant**: nothing that was read in clear is taken for something that came over TLS.

use esker_sql::Session;
use esker_sql::accounts::Identity;
use esker_types::collation::Collation;
use esker_types::{SqlError, SqlResult, errors};
use esker_wire::auth::CACHING_SHA2;
use esker_wire::constants::{cap, status};
use esker_wire::handshake::{self, Greeting, Response};
use tokio::time::timeout_at;

use super::serve::admit_account;
use super::{Connection, Gone};
use crate::compressions::Compressions;
use crate::listener::Shared;
use crate::login::{self, Proof, authenticate, must_change_password};
use crate::reply;

/// Why there was no login.
pub(super) enum NoLogin {
    /// The handshake broke or timed out.
    Broken,
    /// The client is told this.
    Denied(SqlError),
}

impl From<Gone> for NoLogin {
    fn from(_: Gone) -> Self {
        NoLogin::Broken
    }
}

/// Greeting, TLS, authentication. The flag: the password has to be changed.
pub(super) async fn login(
    conn: &mut Connection,
    shared: &Shared,
    id: u64,
    host: &str,
) -> Result<(Response, Identity, bool), NoLogin> {
    let mut offered = cap::SERVER | compressions(shared).capabilities();
    if shared.tls.load().acceptor.is_some() {
        offered |= cap::SSL;
    }
    let challenge = conn.fresh_challenge();
    Greeting {
        version: shared.instance.version(),
        connection_id: id,
        challenge: &challenge,
        capabilities: offered,
        collation: Collation::UTF8MB4_0900_AI_CI.0 as u8,
        status: status::AUTOCOMMIT,
        plugin: CACHING_SHA2,
    }
    .write(conn.frames.begin());
    conn.frames.end();
    conn.flush().await?;
    let response = read_response(conn, shared, offered).await?;
    conn.capabilities = response.capabilities;
    collation_of(response.collation).map_err(NoLogin::Denied)?;
    let chosen = compressions(shared).choose(&response);
    conn.agreed = chosen.map_err(NoLogin::Denied)?;
    let proof = Proof {
        user: response.user.clone(),
        plugin: response.plugin.clone(),
        data: response.auth.clone(),
        challenge,
    };
    let account = authenticate(conn, shared, proof, host)
        .await?
        .map_err(NoLogin::Denied)?;
    if shared.instance.variable_is_on("require_secure_transport") && !conn.stream.is_private() {
        let text = "Connections using insecure transport are prohibited while \
                    --require_secure_transport=ON.";
        return Err(NoLogin::Denied(SqlError::new(3159, "HY000", text)));
    }
    let must_change_password =
        must_change_password(shared, &account, response.capabilities).map_err(NoLogin::Denied)?;
    Ok((
        response,
        login::acting(shared, account),
        must_change_password,
    ))
}

/// What the client answers to the greeting, over TLS if it asks for that.
async fn read_response(
    conn: &mut Connection,
    shared: &Shared,
    offered: u32,
) -> Result<Response, NoLogin> {
    let mut packet = conn.read_login_packet().await?;
    if handshake::is_ssl_request(&packet) {
        let Some(acceptor) = shared.tls.load().acceptor.clone() else {
            return Err(NoLogin::Broken);
        };
        // Else bytes that came in clear would be taken for encrypted ones.
        assert!(
            !conn.reader.has_pending(),
            "read beyond the request for TLS"
        );
        timeout_at(conn.login_end, conn.stream.upgrade(&acceptor))
            .await
            .map_err(Gone::from)?
            .map_err(Gone::from)?;
        packet = conn.read_login_packet().await?;
    }
    match handshake::parse_response(&packet, offered) {
        Ok(response) => Ok(response),
        Err(_) => {
            conn.put_error(&SqlError::new(1043, "08S01", "Bad handshake"));
            conn.flush().await?;
            Err(NoLogin::Broken)
        }
    }
}

/// What `protocol_compression_algorithms` allows.
fn compressions(shared: &Shared) -> Compressions {
    Compressions::named(
        &shared
            .instance
            .variable_text("protocol_compression_algorithms"),
    )
}

pub(super) async fn change_user(
    conn: &mut Connection,
    session: &mut Session,
    shared: &Shared,
    payload: &[u8],
) -> Result<(), Gone> {
    let Ok(request) = handshake::parse_change_user(payload, conn.capabilities) else {
        conn.put_error(&errors::malformed_packet());
        return Ok(());
    };
    // The old challenge was seen on the wire: a switch request brings a fresh one.
    let proof = Proof {
        user: request.user.clone(),
        plugin: None,
        data: Vec::new(),
        challenge: conn.fresh_challenge(),
    };
    let host = session.host().to_owned();
    conn.begin_login();
    let authenticated = authenticate(conn, shared, proof, &host).await?;
    let known = authenticated.and_then(|account| {
        let must_change = must_change_password(shared, &account, conn.capabilities)?;
        let collation = collation_of(request.collation)?;
        Ok((login::acting(shared, account), must_change, collation))
    });
    match known {
        Ok((identity, must_change_password, collation)) => {
            conn.parameters.clear();
            session.change_user(&request.user, identity, collation);
            let database = request.database.as_deref();
            match admit_account(session, database) {
                Ok(()) => {
                    session.note_login("change_user");
                    if must_change_password {
                        session.require_new_password();
                    }
                    reply::done(conn, session);
                    Ok(())
                }
                Err(e) => {
                    shared.instance.audit_refusal(&host, &e);
                    conn.put_error(&e);
                    conn.flush().await?;
                    Err(Gone)
                }
            }
        }
        Err(e) => {
            shared.instance.audit_refusal(&host, &e);
            conn.put_error(&e);
            conn.flush().await?;
            Err(Gone)
        }
    }
}

/// The collation that a client asks for by its number; None: one that nobody has.
///
/// # Errors
/// 1231: statements cannot be in its character set. A client that went on in another set would escape quotes
/// for its own.
fn collation_of(id: u16) -> SqlResult<Option<Collation>> {
    let collation = Collation::by_id(id);
    match collation.map(Collation::charset) {
        Some(charset) if !charset.of_clients() => {
            Err(errors::wrong_value("character_set_client", charset.name()))
        }
        _ => Ok(collation),
    }
}
