//! Tells the command of which commit it is built.
//!
//! `ESKER_BUILD_COMMIT` says it where there is no repository, as when a package is built of an archive; else the files
//! of the repository are read, so that git need not be installed. **Invariant**: a build without either succeeds.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Digits of the commit that are shown.
const SHOWN: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ESKER_BUILD_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let given = env::var("ESKER_BUILD_COMMIT").ok();
    let commit = given.filter(|text| is_commit(text)).or_else(|| {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")?;
        head(Path::new(&manifest).parent()?)
    });
    let version = match commit {
        Some(commit) => format!("{version} ({})", &commit[..SHOWN.min(commit.len())]),
        None => version,
    };
    println!("cargo::rustc-env=ESKER_VERSION={version}");
}

fn is_commit(text: &str) -> bool {
    text.len() >= 7 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A file that the answer depends on.
fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo::rerun-if-changed={}", path.display());
    Some(text.trim().to_owned())
}

/// The commit that the repository in this directory has checked out.
fn head(root: &Path) -> Option<String> {
    let git = folder(root)?;
    let head = read(&git.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        return Some(head).filter(|text| is_commit(text));
    };
    // A second work tree has its own HEAD, and shares the branches.
    let common = read(&git.join("commondir")).map_or(git.clone(), |path| git.join(path));
    let loose = [&git, &common]
        .into_iter()
        .find_map(|dir| read(&dir.join(name)));
    let commit = loose.or_else(|| {
        let packed = read(&common.join("packed-refs"))?;
        let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(_, packed)| *packed == name)
            .map(|(commit, _)| commit.to_owned())
    });
    commit.filter(|text| is_commit(text))
}

/// Where the repository is; in a second work tree a file says so.
fn folder(root: &Path) -> Option<PathBuf> {
    let git = root.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = read(&git)?;
    Some(root.join(text.strip_prefix("gitdir: ")?))
}
