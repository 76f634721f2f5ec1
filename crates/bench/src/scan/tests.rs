//! Every query over every kind of tree, small. Answers are checked by the benchmark itself.

use esker_vfs::{Fs, OpenMode, OsFs};

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ScanArgs,
}

fn measured(line: &str) -> Table {
    let line = Line::try_parse_from(line.split_whitespace()).expect("understood");
    run(&line.args, &|_| {}).expect("runs")
}

#[test]
fn every_query_has_its_answer_in_every_tier() {
    let table = measured(
        "scan --rows 30000 --value-bytes 40 --repeat 1 --tiers memtable,replayed,spread,hot,compacted",
    );
    assert_eq!(table.len(), 5 * 5 * 2);
    assert!(table.to_json().contains("\"counted\": 30000"));
}

#[test]
fn cold_runs_open_the_engine_again() {
    let table = measured(
        "scan --rows 5000 --repeat 2 --cache cold --tiers compacted --query filter,rows --threads 1",
    );
    assert_eq!(table.len(), 2);
}

#[test]
fn what_the_system_has_forgotten_is_read_beside_the_device() {
    let dir = tempfile::tempdir().expect("a directory");
    let line = "scan --rows 5000 --repeat 1 --cache disk --tiers compacted --query sum --threads 1";
    let table = measured(&format!("{line} --dir {}", dir.path().display())).to_json();
    assert!(table.contains("\"source MB/s\": ") && !table.contains("\"source MB/s\": null"));
    let line = Line::try_parse_from(line.split_whitespace()).expect("understood");
    assert!(run(&line.args, &|_| {}).is_err(), "there are no files");
}

#[test]
fn statistics_spare_blocks_and_can_be_left_out() {
    let skipped = |statistics| {
        let line = format!(
            "scan --rows 30000 --repeat 1 --tiers compacted --query recent --threads 1 --statistics {statistics}"
        );
        measured(&line).to_json().contains("\"blocks skipped\": 0,")
    };
    assert!(!skipped("on") && skipped("off"));
}

#[test]
fn the_model_has_a_line_for_every_number_of_threads_and_draws_them() {
    let svg = std::env::temp_dir().join(format!("esker-scan-model-{}.svg", std::process::id()));
    let line = "scan --rows 20000 --repeat 1 --tiers compacted,hot --query sum --model";
    let table = measured(&format!("{line} {}", svg.display()));
    assert_eq!(table.len(), 2 * model::THREADS.len());
    let file = OsFs.open(&svg, OpenMode::Read).expect("it was drawn");
    assert!(file.len().expect("has a length") > 1000);
    OsFs.remove_file(&svg).expect("goes");
}
