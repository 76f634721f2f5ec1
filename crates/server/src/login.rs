//! The authentication exchange, for new connections and COM_CHANGE_USER.
//!
//! Neighbours: `connection` calls [`authenticate`] with the client's first proof; accounts come from the `sql` crate;
//! proofs are checked by `esker_wire::auth`, certificates by `certificate`. Accounts with `auth_socket` need no proof:
//! the operating system knows who is at the other end of a Unix socket.
//! **Invariants**: a fresh challenge per attempt; an unknown user goes through the same exchange as a known one;
//! guesses are slowed down by `throttle`; a clear password is read only over TLS or RSA; no password reaches a log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use esker_sql::PasswordHashing;
use esker_sql::accounts::policy::Transport;
use esker_sql::accounts::{Account, Identity, Origin, Plugin};
use esker_types::{SqlError, errors};
use esker_wire::auth;
use esker_wire::constants::cap;
use esker_wire::handshake;
use nix::unistd::{Uid, User};
use parking_lot::Mutex;

use crate::certificate::{self, Encrypted};
use crate::connection::{Connection, Gone};
use crate::listener::Shared;
use crate::stream::Stream;
use crate::throttle::Limits;

/// The client asks for the RSA public key.
const REQUEST_PUBLIC_KEY: u8 = 2;
/// The server says: your quick proof was right.
const FAST_AUTH_OK: u8 = 3;
/// The server says: send the password itself.
const PERFORM_FULL_AUTH: u8 = 4;
/// Most accounts whose quick digest is remembered.
const MAX_CACHED: usize = 10_000;

/// Digests that let `caching_sha2_password` check a quick proof, by stored hash.
#[derive(Default)]
pub(crate) struct PasswordCache {
    /// Keyed by the stored hash itself, so a changed password never meets an old digest.
    digests: Mutex<HashMap<Vec<u8>, [u8; 32]>>,
}

impl PasswordCache {
    fn get(&self, stored: &[u8]) -> Option<[u8; 32]> {
        self.digests.lock().get(stored).copied()
    }

    fn put(&self, stored: &[u8], password: &[u8]) {
        let mut digests = self.digests.lock();
        if digests.len() >= MAX_CACHED {
            digests.clear();
        }
        digests.insert(stored.to_vec(), auth::sha2_fast_digest(password));
    }
}

/// How accounts store passwords.
pub(crate) const HASHING: PasswordHashing = PasswordHashing {
    hash: hash_password,
    verify: verify_password,
};

/// Is the clear password the one that an account stores this of?
fn verify_password(plugin: Plugin, password: &[u8], stored: &[u8]) -> bool {
    match plugin {
        Plugin::Native => auth::constant_time_eq(&auth::native_hash(password), stored),
        Plugin::CachingSha2 => auth::sha2_full_verify(password, stored),
        Plugin::Socket => false,
    }
}

/// What an account stores for a new password. `salt` is random.
fn hash_password(plugin: Plugin, password: &[u8], salt: &[u8; auth::SALT]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    match plugin {
        Plugin::Native => auth::native_hash(password).to_vec(),
        Plugin::CachingSha2 => auth::sha2_store(password, &auth::challenge(*salt)),
        // What is given is no password but a name.
        Plugin::Socket => password.to_vec(),
    }
}

/// What stands for the secret of an account that is not there: comparing with it takes as long as with any other.
const NOBODY: &[u8] = b"$A$005$nobody..nobody..nobo...........................................";

/// The client's opening move.
pub(crate) struct Proof {
    pub(crate) user: String,
    pub(crate) plugin: Option<String>,
    pub(crate) data: Vec<u8>,
    pub(crate) challenge: [u8; auth::CHALLENGE],
}

/// Checks who the client is; the caller sends the final OK or the error.
pub(crate) async fn authenticate(
    conn: &mut Connection,
    shared: &Shared,
    proof: Proof,
    host: &str,
) -> Result<Result<Account, SqlError>, Gone> {
    let key = shared.throttle.key(&proof.user, host);
    let limits = limits(shared);
    let Some(wait) = shared.throttle.admit(key, limits, Instant::now()) else {
        return Ok(Err(denied(&proof.user, host, true)));
    };
    if !wait.is_zero() {
        shared.instance.count_login_delay();
        conn.extend_login(wait);
        tokio::time::sleep(wait).await;
    }
    let result = prove(conn, shared, proof, host).await;
    match &result {
        Ok(Ok(_)) => shared.throttle.succeeded(key),
        Ok(Err(_)) => shared.throttle.failed(key, limits, Instant::now()),
        Err(Gone) => (),
    }
    result
}

/// The variables `connection_control_…`.
fn limits(shared: &Shared) -> Limits {
    let number = |name| shared.instance.variable_u64(name);
    Limits {
        threshold: number("connection_control_failed_connections_threshold"),
        min: Duration::from_millis(number("connection_control_min_connection_delay")),
        max: Duration::from_millis(number("connection_control_max_connection_delay")),
    }
}

/// The exchange itself.
async fn prove(
    conn: &mut Connection,
    shared: &Shared,
    proof: Proof,
    host: &str,
) -> Result<Result<Account, SqlError>, Gone> {
    let ip = conn.stream.ip();
    let origin = Origin { name: host, ip };
    let found = shared.instance.accounts().find(&proof.user, origin);
    let plugin = found.as_ref().map_or(Plugin::CachingSha2, |a| a.plugin);
    let name = plugin_name(plugin);
    let mut challenge = proof.challenge;
    let mut data = proof.data;
    // The greeting was for another plugin: what came for this one may be empty, for some clients wait to be asked.
    let was_greeted = name == auth::CACHING_SHA2;
    let is_asked = plugin != Plugin::Socket;
    if is_asked && (!was_greeted || proof.plugin.as_deref() != Some(name)) {
        challenge = conn.fresh_challenge();
        handshake::write_auth_switch(name, &challenge, conn.frames.begin());
        conn.frames.end();
        conn.flush().await?;
        data = conn.read_login_packet().await?;
    }
    // Some clients end an empty proof with NUL.
    if data == [0] {
        data.clear();
    }
    let denied = || denied(&proof.user, host, !data.is_empty());
    let Some(account) = found else {
        // As if the account were there.
        if !data.is_empty() {
            sha2(conn, shared, &[NOBODY], &data, &challenge).await?;
        }
        return Ok(Err(denied()));
    };
    // The present password, and the one before it while that is retained.
    let secrets = [account.auth.as_slice(), account.retained.as_slice()];
    let secrets = &secrets[..if account.retained.is_empty() { 1 } else { 2 }];
    let right = match plugin {
        Plugin::Socket => is_at_the_socket(&conn.stream, &proof.user, &account.auth),
        _ if account.auth.is_empty() => data.is_empty(),
        _ if data.is_empty() => false,
        Plugin::Native => secrets.iter().any(|secret| {
            <&[u8; 20]>::try_from(*secret)
                .is_ok_and(|stored| auth::native_verify(&data, &challenge, stored))
        }),
        Plugin::CachingSha2 => sha2(conn, shared, secrets, &data, &challenge).await?,
    };
    let client = shown(&proof.user, host);
    let now = shared.instance.now_seconds();
    let usages = &shared.instance.accounts().usages;
    if let Err(blocked) = usages.attempt(&account, &client, right, now) {
        return Ok(Err(blocked));
    }
    if !right || !suits(&conn.stream, &account.policy.transport) {
        return Ok(Err(denied()));
    }
    if account.locked {
        let text = format!("Access denied for user {client}. Account is locked.");
        return Ok(Err(SqlError::new(3118, "HY000", text)));
    }
    Ok(Ok(account))
}

/// Is the user of the operating system who opened the client's end of a Unix socket called like the account, or as it
/// says?
fn is_at_the_socket(stream: &Stream, user: &str, other_name: &[u8]) -> bool {
    // Looking a name up may ask a directory service.
    let name = stream
        .peer_uid()
        .and_then(|uid| tokio::task::block_in_place(|| User::from_uid(Uid::from_raw(uid)).ok()?))
        .map(|user| user.name);
    name.is_some_and(|name| name == user || name.as_bytes() == other_name)
}

/// Is the connection what REQUIRE asks for?
fn suits(stream: &Stream, required: &Transport) -> bool {
    let Some((cipher, _)) = stream.tls_info() else {
        return certificate::suits(required, None);
    };
    let encrypted = Encrypted {
        cipher: &cipher,
        certificate: stream.peer_certificate(),
    };
    certificate::suits(required, Some(&encrypted))
}

/// Must the account's password be changed before anything else?
///
/// # Errors
/// 1862: the client cannot do that.
pub(crate) fn must_change_password(
    shared: &Shared,
    account: &Account,
    capabilities: u32,
) -> Result<bool, SqlError> {
    let instance = &shared.instance;
    if account.plugin == Plugin::Socket {
        return Ok(false);
    }
    let days = instance.variable_u64("default_password_lifetime");
    if !account.policy.is_expired(instance.now_seconds(), days) {
        return Ok(false);
    }
    let able = capabilities & cap::EXPIRED_PASSWORDS != 0;
    if able || !instance.variable_is_on("disconnect_on_expired_password") {
        return Ok(true);
    }
    let text = "Your password has expired. To log in you must change it using a client that supports expired \
                passwords.";
    Err(SqlError::new(1862, "HY000", text))
}

/// Whom a client acts as that has logged in to an account: as that, or as one for which it has PROXY, where
/// `check_proxy_users` and the variable of its plugin say so.
pub(crate) fn acting(shared: &Shared, account: Account) -> Identity {
    let instance = &shared.instance;
    let of_plugin = match account.plugin {
        Plugin::Native => "mysql_native_password_proxy_users",
        Plugin::CachingSha2 => "caching_sha2_password_proxy_users",
        Plugin::Socket => return itself(account),
    };
    let looks = instance.variable_is_on("check_proxy_users") && instance.variable_is_on(of_plugin);
    match looks
        .then(|| instance.accounts().proxied(&account))
        .flatten()
    {
        Some(proxied) => Identity {
            proxy_user: Some(shown(&account.user, &account.host)),
            account: proxied,
        },
        None => itself(account),
    }
}

fn itself(account: Account) -> Identity {
    Identity {
        account,
        proxy_user: None,
    }
}

fn plugin_name(plugin: Plugin) -> &'static str {
    match plugin {
        Plugin::Native => auth::NATIVE,
        Plugin::CachingSha2 => auth::CACHING_SHA2,
        Plugin::Socket => plugin.name(),
    }
}

fn denied(user: &str, host: &str, with_password: bool) -> SqlError {
    errors::access_denied(shown(user, host), with_password)
}

/// `'user'@'host'` of a client, with as much of the name as MySQL repeats.
fn shown(user: &str, host: &str) -> String {
    /// Bytes.
    const MOST: usize = 48;
    format!("'{}'@'{host}'", &user[..user.floor_char_boundary(MOST)])
}

/// The quick proof if a digest is known, else the password over TLS or RSA. `stored`: it may be the password of any.
async fn sha2(
    conn: &mut Connection,
    shared: &Shared,
    stored: &[&[u8]],
    data: &[u8],
    challenge: &[u8; auth::CHALLENGE],
) -> Result<bool, Gone> {
    // A wrong quick proof goes on to the password, as it does where no digest is known.
    let known = stored
        .iter()
        .filter_map(|secret| shared.passwords.get(secret));
    let mut known = known.collect::<Vec<_>>().into_iter();
    if known.any(|digest| auth::sha2_fast_verify(data, challenge, &digest)) {
        send_more(conn, &[FAST_AUTH_OK]);
        return Ok(true);
    }
    send_more(conn, &[PERFORM_FULL_AUTH]);
    conn.flush().await?;
    let mut packet = conn.read_login_packet().await?;
    let password = if conn.stream.is_private() {
        // A clear password ends in NUL.
        if packet.pop() != Some(0) {
            return Ok(false);
        }
        packet
    } else {
        let Some(password) = over_rsa(conn, shared, packet, challenge).await? else {
            return Ok(false);
        };
        password
    };
    // 5,000 rounds of SHA-256: a few milliseconds that other sessions need not wait for.
    let right = tokio::task::block_in_place(|| {
        let mut secrets = stored.iter();
        secrets.find(|secret| auth::sha2_full_verify(&password, secret))
    });
    if let Some(secret) = right {
        shared.passwords.put(secret, &password);
    }
    Ok(right.is_some())
}

async fn over_rsa(
    conn: &mut Connection,
    shared: &Shared,
    mut packet: Vec<u8>,
    challenge: &[u8],
) -> Result<Option<Vec<u8>>, Gone> {
    if packet == [REQUEST_PUBLIC_KEY] {
        let Some(pem) = tokio::task::block_in_place(|| shared.login_key.public_pem()) else {
            return Ok(None);
        };
        send_more(conn, pem.as_bytes());
        conn.flush().await?;
        packet = conn.read_login_packet().await?;
    }
    Ok(tokio::task::block_in_place(|| {
        shared.login_key.decrypt(&packet, challenge)
    }))
}

fn send_more(conn: &mut Connection, data: &[u8]) {
    handshake::write_auth_more(data, conn.frames.begin());
    conn.frames.end();
}
