//! The client of a session: who it is, how it is connected, and what it has chosen (its capabilities).
//!
//! Neighbours: the server makes a [`ClientInfo`] at the login; `Session::new` takes it apart: account and names go to
//! the session's context, the connection to the registry, the choices stay as [`ClientFlags`].
//! **Invariant**: none of this changes after the login but the account (COM_CHANGE_USER) and whether a request may have
//! several statements (COM_SET_OPTION).

use esker_sql_catalog::accounts::Account;
use esker_types::collation::Collation;

/// Who connected, and how.
pub struct ClientInfo {
    /// Connection id.
    pub connection_id: u64,
    /// User name as given.
    pub user: String,
    /// Host as accounts see it.
    pub host: String,
    /// Address and port, for the process list.
    pub peer: String,
    /// The account that matched, or that it acts as.
    pub account: Account,
    /// The account that matched, if the client acts as another: `'user'@'host'`.
    pub proxy_user: Option<String>,
    /// Collation of the connection; None: one this server does not have.
    pub collation: Option<Collation>,
    /// Affected rows are found rows.
    pub found_rows: bool,
    /// COM_QUERY may hold several statements.
    pub multi_statements: bool,
    /// COM_STMT_EXECUTE may have several results (CLIENT_PS_MULTI_RESULTS).
    pub several_prepared_results: bool,
    /// The client can send files (CLIENT_LOCAL_FILES).
    pub local_files: bool,
    /// `interactive_timeout` instead of `wait_timeout`.
    pub interactive: bool,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
    /// TLS cipher and version.
    pub tls: Option<(String, String)>,
    /// Algorithm and level, if packets are compressed.
    pub compression: Option<(&'static str, u32)>,
    /// The account is taken as it is here, and not looked up among the instance's.
    pub embedded: bool,
    /// What performance_schema calls its thread.
    pub thread: &'static str,
    /// Ends the connection; called by KILL from another session.
    pub on_kill: Box<dyn Fn() + Send + Sync>,
    /// Leaves the worker thread on which the session steps to other sessions; called where a step takes longer than it
    /// should.
    pub leave_worker: Box<dyn Fn() + Send + Sync>,
}

impl ClientInfo {
    /// What the thread of a client is called.
    pub const THREAD: &'static str = "thread/sql/one_connection";

    /// A client inside this process, logged in to `account` without a socket; every choice is off.
    pub fn inside(connection_id: u64, account: Account) -> Self {
        Self {
            connection_id,
            user: account.user.clone(),
            host: account.host.clone(),
            peer: "inside".to_owned(),
            account,
            proxy_user: None,
            collation: None,
            found_rows: false,
            multi_statements: false,
            several_prepared_results: true,
            local_files: false,
            interactive: false,
            attributes: Vec::new(),
            tls: None,
            compression: None,
            embedded: true,
            thread: Self::THREAD,
            on_kill: Box::new(|| ()),
            leave_worker: Box::new(|| ()),
        }
    }
}

/// What of [`ClientInfo`] matters after the login.
pub(crate) struct ClientFlags {
    pub(crate) found_rows: bool,
    pub(crate) multi_statements: bool,
    pub(super) several_prepared_results: bool,
    pub(super) local_files: bool,
    pub(super) interactive: bool,
    /// COMMIT or ROLLBACK RELEASE: the reply is the connection's last.
    pub(super) is_released: bool,
}

impl ClientFlags {
    pub(super) fn of(client: &ClientInfo) -> Self {
        Self {
            found_rows: client.found_rows,
            multi_statements: client.multi_statements,
            several_prepared_results: client.several_prepared_results,
            local_files: client.local_files,
            interactive: client.interactive,
            is_released: false,
        }
    }
}
