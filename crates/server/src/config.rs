//! Where settings come from: an option file, the environment, command line flags; later wins.
//!
//! Neighbours: `listener` reads the few settings that concern sockets and files; everything else
//! is a system variable that the `sql` crate knows and checks.
//! **Invariants**: an unknown name is an error that names its source; dashes and underscores are
//! equal; sizes take K, M, G and T.

use std::path::{Path, PathBuf};

use esker_sql::LogForm;
use esker_sql::variables::Setting;
use esker_vfs::{Env, OpenMode};
use thiserror::Error;

/// Sections of an option file that concern the server.
const SECTIONS: [&str; 4] = ["mysqld", "mysqld-8.4", "server", "esker"];
/// Prefix of environment variables.
const ENV_PREFIX: &str = "ESKER_";
/// Environment variable with the first start's root password; not a setting.
pub const ROOT_PASSWORD_ENV: &str = "ESKER_ROOT_PASSWORD";
/// Longest option file read, bytes.
const MAX_OPTION_FILE: u64 = 1 << 20;
/// Deepest nesting of `!include`.
const MAX_INCLUDES: usize = 16;

/// Settings that are not usable.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// An option file that cannot be read.
    #[error("cannot read option file {0}: {1}")]
    Unreadable(PathBuf, std::io::Error),
    /// A line that is neither section, option nor comment.
    #[error("{0}:{1}: {2}")]
    Syntax(PathBuf, usize, String),
    /// A flag without its value, or something that is no flag.
    #[error("{0}")]
    Flag(String),
    /// A value that the server's own options do not take.
    #[error("bad value '{value}' for {name}: {expected}")]
    Value {
        /// Option.
        name: String,
        /// What was given.
        value: String,
        /// What would do.
        expected: &'static str,
    },
}

/// Everything `serve` needs to know.
#[derive(Debug)]
pub struct Config {
    /// Address to listen on (`bind_address`).
    pub bind_address: String,
    /// Port (`port`); 0 lets the system choose.
    pub port: u16,
    /// Data directory (`datadir`).
    pub data_dir: PathBuf,
    /// Worker threads of the session runtime (`esker_worker_threads`); 0 = one per core.
    pub worker_threads: usize,
    /// Password of `root` on the first start.
    pub root_password: Option<String>,
    /// All settings as they were made, in the order in which they are applied.
    pub made: Vec<Setting>,
    /// All other settings: system variables.
    pub settings: Vec<Setting>,
    /// Variables of the environment that begin like settings and are none.
    pub ignored: Vec<String>,
    /// What keeps the server from a start.
    pub complaints: Vec<ConfigError>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind_address: "127.0.0.1".into(),
            port: 3306,
            data_dir: PathBuf::from("./esker-data"),
            worker_threads: 0,
            root_password: None,
            made: Vec::new(),
            settings: Vec::new(),
            ignored: Vec::new(),
            complaints: Vec::new(),
        }
    }
}

/// Is a variable of the environment, without the prefix, for somebody else? `ESKER_PASSWORD` is for the shell;
/// Kubernetes describes every service of a namespace to every container, and one may be called "esker" or "esker-db".
fn is_for_others(name: &str, value: &str) -> bool {
    let name = canonical(name);
    let is_address = value.starts_with("tcp://") || value.starts_with("udp://");
    let describes_port = name
        .split("port_")
        .skip(1)
        .any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name == "password"
        || name.ends_with("service_host")
        || name.contains("service_port")
        || (name.ends_with("port") && is_address)
        || describes_port
}

fn canonical(name: &str) -> String {
    name.trim().replace('-', "_").to_ascii_lowercase()
}

/// A bare name is `ON`.
fn setting(name: &str, value: Option<&str>, source: String) -> Setting {
    Setting {
        name: canonical(name),
        value: value.unwrap_or("ON").to_owned(),
        source,
    }
}

impl Config {
    /// Gathers settings: `files`, then the environment, then `flags` (`--name=value`,
    /// `--name value` or `--name`).
    ///
    /// What is unreadable or malformed, and bad values for the server's own options, are `complaints`: all are told at
    /// once.
    pub fn gather(
        files: &[PathBuf],
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
    ) -> Self {
        let mut config = Self::default();
        let mut all = Vec::new();
        for path in files {
            read_file(path, 0, &mut all, &mut config.complaints);
        }
        let mut from_env = Vec::new();
        for (key, value) in environment {
            if key == ROOT_PASSWORD_ENV {
                config.root_password = Some(value);
            } else if let Some(name) = key.strip_prefix(ENV_PREFIX) {
                if is_for_others(name, &value) {
                    config.ignored.push(key);
                    continue;
                }
                from_env.push(setting(name, Some(&value), format!("environment {key}")));
            }
        }
        from_env.sort_by(|a, b| a.name.cmp(&b.name));
        all.extend(from_env);
        read_flags(flags, &mut all, &mut config.complaints);
        config.made.clone_from(&all);
        config.apply(all);
        config
    }

    /// Where the server's log goes; None: where it does by default.
    pub fn log_error(&self) -> Option<&str> {
        let made = self.settings.iter().rfind(|s| s.name == "log_error");
        made.map(|setting| setting.value.as_str())
    }

    /// What the lines of the server's log are like until variables say it.
    pub fn log_form(&self) -> LogForm {
        let made = |name: &str| {
            let setting = self.settings.iter().rfind(|s| s.name == name);
            setting.map(|setting| setting.value.as_str())
        };
        let services = made("log_error_services").unwrap_or("log_filter_internal");
        let verbosity = made("log_error_verbosity").and_then(|text| text.parse().ok());
        LogForm::of(services, verbosity.unwrap_or(2))
    }

    fn apply(&mut self, all: Vec<Setting>) {
        for s in all {
            let bad = |expected| ConfigError::Value {
                name: s.name.clone(),
                value: s.value.clone(),
                expected,
            };
            match s.name.as_str() {
                "port" => match s.value.parse() {
                    Ok(port) => self.port = port,
                    Err(_) => self.complaints.push(bad("a port from 0 to 65535")),
                },
                "bind_address" => self.bind_address = s.value,
                "datadir" => self.data_dir = PathBuf::from(s.value),
                "esker_worker_threads" => match s.value.parse().ok().filter(|n| *n <= 1024) {
                    Some(threads) => self.worker_threads = threads,
                    None => self.complaints.push(bad("a number from 0 to 1024")),
                },
                _ => self.settings.push(s),
            }
        }
    }
}

fn read_flags(flags: &[String], out: &mut Vec<Setting>, complaints: &mut Vec<ConfigError>) {
    let mut flags = flags.iter().peekable();
    while let Some(flag) = flags.next() {
        let Some(body) = flag.strip_prefix("--").filter(|b| !b.is_empty()) else {
            complaints.push(ConfigError::Flag(format!(
                "unexpected argument '{flag}': settings are given as --name=value"
            )));
            continue;
        };
        let source = format!("command line --{}", body.split('=').next().unwrap_or(body));
        match body.split_once('=') {
            Some((name, value)) => out.push(setting(name, Some(value), source)),
            None => {
                let value = flags.next_if(|next| !next.starts_with("--"));
                out.push(setting(body, value.map(String::as_str), source));
            }
        }
    }
}

fn read_file(path: &Path, depth: usize, out: &mut Vec<Setting>, complaints: &mut Vec<ConfigError>) {
    let syntax = |line, text: &str| ConfigError::Syntax(path.into(), line, text.into());
    if depth > MAX_INCLUDES {
        complaints.push(syntax(0, "!include is nested too deeply"));
        return;
    }
    let text = match read_text(path) {
        Ok(text) => text,
        Err(e) => return complaints.push(ConfigError::Unreadable(path.into(), e)),
    };
    let mut ours = false;
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l.trim())) {
        if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
            continue;
        }
        if let Some(rest) = line.strip_prefix("!includedir") {
            include_dir(path, rest.trim(), depth, out, complaints);
        } else if let Some(rest) = line.strip_prefix("!include") {
            read_file(&relative(path, rest.trim()), depth + 1, out, complaints);
        } else if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_suffix(']').unwrap_or_else(|| {
                complaints.push(syntax(number, "missing ']'"));
                section
            });
            ours = SECTIONS.contains(&name.trim());
        } else if ours {
            let source = format!("{}:{number}", path.display());
            let (name, value) = match line.split_once('=') {
                Some((n, v)) => (n, Some(unquote(v.trim()))),
                None => (line, None),
            };
            if name.trim().is_empty() || name.trim().contains(char::is_whitespace) {
                complaints.push(syntax(number, "expected name = value"));
                continue;
            }
            out.push(setting(name, value, source));
        }
    }
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let file = Env::os().fs.open(path, OpenMode::Read)?;
    let len = file.len()?;
    if len > MAX_OPTION_FILE {
        return Err(std::io::Error::other(
            "the file is too long for an option file",
        ));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    String::from_utf8(bytes).map_err(std::io::Error::other)
}

fn relative(to: &Path, path: &str) -> PathBuf {
    to.parent().unwrap_or(Path::new(".")).join(path)
}

fn include_dir(
    from: &Path,
    dir: &str,
    depth: usize,
    out: &mut Vec<Setting>,
    complaints: &mut Vec<ConfigError>,
) {
    let dir = relative(from, dir);
    let mut names = match Env::os().fs.list(&dir) {
        Ok(names) => names,
        Err(e) => return complaints.push(ConfigError::Unreadable(dir, e)),
    };
    names.retain(|n| n.ends_with(".cnf"));
    names.sort();
    for name in &names {
        read_file(&dir.join(name), depth + 1, out, complaints);
    }
}

/// Removes one pair of quotes and a trailing comment.
fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote)
            && let Some(end) = rest.find(quote)
        {
            return &rest[..end];
        }
    }
    match value.find(" #") {
        Some(at) => value[..at].trim_end(),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(list: &[&str]) -> Result<Config, ConfigError> {
        let list: Vec<String> = list.iter().map(|s| (*s).to_owned()).collect();
        checked(Config::gather(&[], std::iter::empty(), &list))
    }

    fn checked(mut config: Config) -> Result<Config, ConfigError> {
        match config.complaints.is_empty() {
            true => Ok(config),
            false => Err(config.complaints.remove(0)),
        }
    }

    #[test]
    fn flags_in_all_spellings() {
        let c = flags(&[
            "--port=4000",
            "--bind-address",
            "::1",
            "--skip-ssl",
            "--max-connections=7",
        ])
        .unwrap();
        assert_eq!(c.port, 4000);
        assert_eq!(c.bind_address, "::1");
        let names: Vec<_> = c
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_str()))
            .collect();
        assert_eq!(names, [("skip_ssl", "ON"), ("max_connections", "7")]);
    }

    #[test]
    fn what_the_environment_holds_for_others_is_ignored() {
        let gather = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            checked(Config::gather(&[], pairs.into_iter(), &[]))
        };
        let kubernetes = [
            ("ESKER_SERVICE_HOST", "10.0.0.1"),
            ("ESKER_SERVICE_PORT", "3306"),
            ("ESKER_SERVICE_PORT_MYSQL", "3306"),
            ("ESKER_PORT", "tcp://10.0.0.1:3306"),
            ("ESKER_PORT_3306_TCP", "tcp://10.0.0.1:3306"),
            ("ESKER_PORT_3306_TCP_ADDR", "10.0.0.1"),
            ("ESKER_DB_SERVICE_HOST", "10.0.0.1"),
            ("ESKER_DB_PORT", "tcp://10.0.0.1:3306"),
            ("ESKER_PASSWORD", "secret"),
        ];
        let config = gather(&kubernetes).unwrap();
        assert_eq!((config.port, config.settings), (3306, Vec::new()));
        assert_eq!(config.ignored.len(), kubernetes.len());
        // Settings are still settings.
        let config = gather(&[("ESKER_PORT", "4000"), ("ESKER_MAX_CONNECTIONS", "7")]).unwrap();
        assert_eq!((config.port, config.settings.len()), (4000, 1));
        assert!(config.ignored.is_empty());
        assert!(gather(&[("ESKER_PORT", "nonsense")]).is_err());
    }

    #[test]
    fn bad_flags_are_errors() {
        assert!(matches!(flags(&["port=1"]), Err(ConfigError::Flag(_))));
        assert!(matches!(
            flags(&["--port=x"]),
            Err(ConfigError::Value { .. })
        ));
    }

    #[test]
    fn file_environment_flags_in_that_order() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("my.cnf");
        let write = |name: &str, text: &str| {
            let env = esker_vfs::Env::os();
            let f = env
                .fs
                .open(&dir.path().join(name), esker_vfs::OpenMode::CreateOrOpen)
                .unwrap();
            f.write_all_at(text.as_bytes(), 0).unwrap();
        };
        write("more.cnf", "[mysqld]\nwait_timeout=5\n");
        write(
            "my.cnf",
            "# comment\n[client]\nport=1\n[mysqld]\nport = 2 # two\nsql-mode=\"A,B\"\n!include more.cnf\n",
        );
        let env = [
            ("ESKER_PORT".to_owned(), "3".to_owned()),
            ("HOME".into(), "/".into()),
        ];
        let c = Config::gather(std::slice::from_ref(&main), env.clone().into_iter(), &[]);
        assert_eq!(c.port, 3);
        let c = Config::gather(&[main], env.into_iter(), &["--port=4".into()]);
        assert_eq!(c.port, 4);
        let got: Vec<_> = c
            .settings
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_str()))
            .collect();
        assert_eq!(got, [("sql_mode", "A,B"), ("wait_timeout", "5")]);
        assert!(c.settings[0].source.ends_with("my.cnf:6"));
    }
}
