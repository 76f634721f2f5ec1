//! Who waits for whom, and what comes of it: steps of several sessions, recorded from MySQL and replayed against Esker.
//!
//! In flow order: `script` reads and writes the files of `esker/tests/locking` (the format is described there), `play`
//! runs their steps on a server.
//!
//! `ESKER_RECORD_PORT`: a MySQL on this port, which root may enter without a password, answers instead, and the files
//! are written again with what it says; its database `locking` is dropped:
//!
//! ```text
//! ESKER_RECORD_PORT=3306 cargo test -p esker --test server locking::
//! ```
//!
//! `ESKER_MARK_DIFFERENCES=1`: what Esker answers otherwise than the files say is marked in them as open (`~`) and not
//! compared any more.
//!
//! **Invariant**: nothing depends on how long something takes. A statement waits if the server says that its session
//! waits for a lock; one that is expected to end is waited for.

mod play;
mod script;

use std::path::{Path, PathBuf};

use play::Stage;
use script::File;

use crate::common::{Server, setting};

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locking");
    folder.join(name)
}

/// Replays a file, or records it anew; its text as it was.
fn run(name: &str) -> String {
    let path = file(name);
    let text = std::fs::read_to_string(&path).expect("a file of the tests");
    let mut file = File::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let port = setting("ESKER_RECORD_PORT", 0) as u16;
    if port != 0 {
        Stage::mysql(port).record(&mut file);
        std::fs::write(&path, file.to_string()).expect("a file of the tests");
        return text;
    }
    assert_eq!(file.to_string(), text, "{name} is written as it is read");
    let dir = tempfile::tempdir().expect("folder");
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let differences = Stage::esker(server.port).replay(&mut file);
    if setting("ESKER_MARK_DIFFERENCES", 0) != 0 {
        std::fs::write(&path, file.to_string()).expect("a file of the tests");
        return text;
    }
    assert!(
        differences.is_empty(),
        "{name}: {} answers are not MySQL's:\n{}",
        differences.len(),
        differences.join("\n")
    );
    text
}

/// Answers of Hermitage at READ UNCOMMITTED that show what is not committed.
const DIRTY_READS: usize = 7;

/// The cases of Hermitage (Martin Kleppmann) for MySQL, each at every level.
#[test]
fn hermitage() {
    let text = run("hermitage.txt");
    let (served, uncommitted) = text
        .split_once("levels READ UNCOMMITTED")
        .expect("the level is there");
    assert!(!served.contains('~'), "no answer is open");
    let open = uncommitted.lines().filter(|line| line.starts_with('~'));
    assert_eq!(
        open.count(),
        DIRTY_READS,
        "only reads of what is not committed"
    );
}

/// Which statements wait for which others.
#[test]
fn waits() {
    run("waits.txt");
}
