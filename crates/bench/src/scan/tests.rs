//! Every query over every kind of tree, small. Answers are checked by the benchmark itself.

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
        "scan --rows 30000 --value-bytes 40 --repeat 1 --tiers memtable,replayed,spread,compacted",
    );
    assert_eq!(table.len(), 4 * 4 * 2);
    assert!(table.to_json().contains("\"counted\": 30000"));
}

#[test]
fn cold_runs_open_the_engine_again() {
    let table = measured(
        "scan --rows 5000 --repeat 2 --cache cold --tiers compacted --query filter,rows --threads 1",
    );
    assert_eq!(table.len(), 2);
}
