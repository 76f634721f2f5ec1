//! The Debian package, the man pages and the completions: everything is in its place.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{has_client, output};

#[test]
fn the_version_names_the_commit() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    let version = output(command.arg("--version"));
    let rest = version.trim_end().strip_prefix("esker ").expect("the name");
    let number = env!("CARGO_PKG_VERSION");
    // An archive without repository has none.
    let commit = rest.strip_prefix(number).expect("the number").trim_start();
    let digits = commit.trim_start_matches('(').trim_end_matches(')');
    assert!(
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{version}"
    );
}

#[test]
fn a_debian_package_can_be_made() {
    if !has_client("dpkg-deb", Command::new("dpkg-deb").arg("--version")) {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    // Stands for the binary, which is large in a build for tests.
    let stand_in = dir.path().join("esker");
    let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_esker"));
    std::fs::write(&stand_in, text).expect("write");
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/debian/build");
    let mut build = Command::new(script);
    output(
        build
            .arg(&stand_in)
            .arg(dir.path())
            .env("DEB_COMPRESSION", "none"),
    );
    let made = std::fs::read_dir(dir.path()).expect("folder");
    let mut made = made.map(|entry| entry.expect("entry").path());
    let package = made.find(|path| path.extension().is_some_and(|e| e == "deb"));
    let package = package.expect("a package");
    let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for file in [
        "/usr/bin/esker",
        "/usr/lib/systemd/system/esker.service",
        "/etc/esker/my.cnf",
        "/usr/share/man/man1/esker.1.gz",
        "/usr/share/man/man1/esker-backup-verify.1.gz",
        "/usr/share/bash-completion/completions/esker",
        "/usr/share/zsh/vendor-completions/_esker",
        "/usr/share/fish/vendor_completions.d/esker.fish",
        "/usr/share/doc/esker/docs/backup.md",
        "/usr/share/doc/esker/copyright",
    ] {
        assert!(
            listed.lines().any(|line| line.ends_with(file)),
            "{file}: {listed}"
        );
    }
    let fields = output(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(
        fields.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"))),
        "{fields}"
    );
}
