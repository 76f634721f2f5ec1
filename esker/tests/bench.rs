//! `esker bench` as people run it: each subcommand for a moment, as a table and as JSON.

use std::process::{Command, Output};

fn esker(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_esker"))
        .arg("bench")
        .args(args.split_whitespace())
        .output()
        .expect("the command starts")
}

/// Standard output of a run that must succeed, and that says nothing else where nobody looks.
fn stdout(args: &str) -> String {
    let output = esker(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "bench {args}: {errors}");
    assert_eq!(errors, "", "progress is for terminals");
    String::from_utf8(output.stdout).expect("text")
}

/// Seconds that a test measures for. On a busy machine a short time may pass without a commit or an insert.
const SECONDS: [&str; 3] = ["0.1", "1", "10"];

/// The JSON of the shortest run whose number of this name is above zero.
fn measured(args: &str, name: &str) -> String {
    SECONDS
        .iter()
        .map(|seconds| stdout(&format!("{args} --seconds {seconds} --json")))
        .find(|json| number(json, name) > 0.0)
        .unwrap_or_else(|| panic!("bench {args}: no {name}"))
}

/// The number behind a name, in the JSON of a single row.
fn number(json: &str, name: &str) -> f64 {
    let key = format!("\"{name}\": ");
    let start = json.find(&key).expect("the name is there") + key.len();
    let end = json[start..].find([',', '}']).expect("it ends") + start;
    json[start..end].parse().expect("a number")
}

#[test]
fn commit_measures_each_workload() {
    for workload in [
        "tpcb --branches 3 --accounts 10 --skew 0.85",
        "tatp --subscribers 20 --mix updates",
        "hot-rows --rows 4 --updates 1 --log-buffer d",
    ] {
        let json = measured(&format!("commit {workload} --sessions 8"), "tps");
        assert!(number(&json, "commits/flush") >= 1.0, "{json}");
    }
    let text = stdout(
        "commit tpcb --branches 2 --accounts 5 --seconds 0.1 --sessions 4 --pipelining off --elr off \
         --async-commit on --sync-latency 100us",
    );
    assert!(text.contains("UNSAFE"), "{text}");
    assert!(text.contains("100us"), "{text}");
}

#[test]
fn log_measures_each_variant() {
    let text = stdout("log --threads 2 --sizes 120,mixed --seconds 0.01");
    for variant in ["B", "C", "D", "CD", "CDME"] {
        // Two sizes, undisturbed and preempted.
        let lines = text
            .lines()
            .filter(|line| line.split_whitespace().nth(3) == Some(variant));
        assert_eq!(lines.count(), 4, "{text}");
    }
    let one = "log --threads 1 --variants CD --sizes 48 --preemption off";
    measured(one, "inserts/s");
}

#[test]
fn recovery_measures_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().display();
    let json = stdout(&format!(
        "recovery --rows 3000 --indexes 1 --two-phase 20 --prepared 3 --dead 50 --cache warm,cold \
         --mode serial-sync,serial-async,parallel --threads 1,2 --runs 1 --memory-mib 64 --dir {dir} --json"
    ));
    assert_eq!(json.matches("\"cache\"").count(), 8, "{json}");
    assert_eq!(number(&json, "entries"), 6000.0);
    assert_eq!(number(&json, "flushes"), 0.0);
    assert!(
        number(&json, "entries/s") > 0.0 && number(&json, "peak MB") > 0.0,
        "{json}"
    );
    let json = stdout(&format!(
        "recovery --rows 20000 --runs 1 --memory-mib 256 --restart-memory-mib 2 --dir {dir} --json"
    ));
    assert!(
        number(&json, "flushes") > 0.0,
        "a thirtieth of the memory: {json}"
    );
    let svg = tempfile::tempdir().expect("a directory");
    let svg = svg.path().join("model.svg");
    let text = stdout(&format!(
        "recovery --rows 3000 --runs 1 --memory-mib 64 --dir {dir} --model {}",
        svg.display()
    ));
    assert!(text.contains("64") && text.contains("limited by"), "{text}");
    assert!(
        std::fs::read_to_string(svg)
            .expect("drawn")
            .starts_with("<svg")
    );
    let left = std::fs::read_dir(dir.to_string()).expect("listed").count();
    assert_eq!(left, 0, "nothing is left behind");
}

#[test]
fn bad_arguments_are_named() {
    for (args, part) in [
        ("commit --sync-latency 5", "--sync-latency"),
        ("commit --skew 6", "--skew"),
        ("commit --sessions 0", "--sessions"),
        ("commit --log-buffer X", "--log-buffer"),
        ("log --sizes 3", "--sizes"),
        ("recovery --dead 100", "--dead"),
        ("paper --only everything", "--only"),
    ] {
        let output = esker(args);
        assert!(!output.status.success(), "{args}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(part), "{args}: {errors}");
    }
}

#[test]
fn help_tells_what_is_measured() {
    for (args, words) in [
        ("--help", ["commit", "log", "paper"]),
        ("commit --help", ["--elr", "--pipelining", "UNSAFE"]),
        ("recovery --help", ["--dead", "--two-phase", "cold"]),
        ("log --help", ["--variants", "--preemption", "skewed"]),
        ("paper --help", ["--quick", "--out", "ablation"]),
    ] {
        let help = stdout(args);
        for word in words {
            assert!(help.contains(word), "bench {args} does not say {word}");
        }
    }
}
