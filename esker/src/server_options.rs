//! Options of the commands that connect to a server, with the names that MySQL's clients give them.
//!
//! Neighbours: `shell` and `backup` take them; `esker_server::client` connects.
//! **Invariant**: a password comes from the command line, from a prompt or from the environment, in this order.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use esker_server::client::{Compressions, Connect, Endpoint, TlsLimits, TlsMode};

/// Environment variable with the password.
const PASSWORD_ENV: &str = "ESKER_PASSWORD";

/// Which server, and as whom.
#[derive(Args)]
pub(crate) struct ServerOptions {
    /// Server to connect to.
    #[arg(long, short = 'h', default_value = "127.0.0.1")]
    host: String,
    /// Its port.
    #[arg(long, short = 'P', default_value_t = 3306)]
    port: u16,
    /// Its Unix socket.
    #[arg(long, short = 'S', value_name = "FILE", conflicts_with_all = ["host", "port"])]
    socket: Option<PathBuf>,
    /// User to log in as.
    #[arg(long, short, default_value = "root")]
    user: String,
    /// Ask for the password, or take it from here (-pPASSWORD; others may see it); else it is that of ESKER_PASSWORD.
    #[arg(long, short, require_equals = true, num_args = 0..=1, default_missing_value = None)]
    password: Option<Option<String>>,
    /// Whether and how to encrypt: VERIFY_CA and VERIFY_IDENTITY check the server's certificate.
    #[arg(long, value_enum, ignore_case = true, default_value = "PREFERRED")]
    ssl_mode: SslMode,
    /// Certificate authorities that may have signed the server's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SslMode {
    #[value(name = "DISABLED")]
    Disabled,
    #[value(name = "PREFERRED")]
    Preferred,
    #[value(name = "REQUIRED")]
    Required,
    #[value(name = "VERIFY_CA")]
    VerifyCa,
    #[value(name = "VERIFY_IDENTITY")]
    VerifyIdentity,
}

impl From<SslMode> for TlsMode {
    fn from(mode: SslMode) -> Self {
        match mode {
            SslMode::Disabled => Self::Disabled,
            SslMode::Preferred => Self::Preferred,
            SslMode::Required => Self::Required,
            SslMode::VerifyCa => Self::VerifyCa,
            SslMode::VerifyIdentity => Self::VerifyIdentity,
        }
    }
}

impl ServerOptions {
    /// How to connect. Asks for the password if that is wanted.
    pub(crate) fn connect(&self, database: Option<String>) -> Result<Connect, String> {
        let password = match &self.password {
            None => std::env::var(PASSWORD_ENV).unwrap_or_default(),
            Some(Some(given)) => given.clone(),
            Some(None) => {
                rpassword::prompt_password("Enter password: ").map_err(|e| e.to_string())?
            }
        };
        Ok(Connect {
            endpoint: match &self.socket {
                Some(path) => Endpoint::Socket(path.clone()),
                None => Endpoint::Tcp(self.host.clone(), self.port),
            },
            user: self.user.clone(),
            password,
            database,
            tls: self.ssl_mode.into(),
            authorities: self.ssl_ca.clone(),
            identity: None,
            tls_limits: TlsLimits::default(),
            public_key: None,
            asks_public_key: true,
            own_address: None,
            compressions: Compressions::default(),
        })
    }
}

/// `-pSECRET`, as MySQL's clients take it, is `--password=SECRET`.
pub(crate) fn argument(argument: &str) -> Option<String> {
    match argument.strip_prefix("-p")? {
        "" => Some("--password".to_owned()),
        secret => Some(format!("--password={secret}")),
    }
}
