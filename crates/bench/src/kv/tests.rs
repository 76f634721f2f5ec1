//! Every step on a small database, and what the table says about it.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: KvArgs,
}

fn measured(line: &str) -> String {
    let line = Line::try_parse_from(line.split_whitespace()).expect("understood");
    run(&line.args, &|_| {}).expect("runs").to_json()
}

/// The field of every row.
fn field<'a>(json: &'a str, name: &str) -> Vec<&'a str> {
    let mark = format!("\"{name}\": ");
    json.split(&mark)
        .skip(1)
        .map(|rest| rest.split([',', '}']).next().unwrap_or(""))
        .collect()
}

#[test]
fn what_was_filled_in_order_is_found_and_what_was_not_is_not() {
    let json = measured(
        "kv fillseq,readrandom,settle,readrandom,readmissing,readseq,readreverse,seekrandom \
         --num 3000 --seek-nexts 0",
    );
    let found = field(&json, "found");
    assert_eq!(
        found,
        ["null", "3000", "null", "3000", "0", "3000", "3000", "3000"]
    );
    assert_eq!(field(&json, "ops")[0], "3000");
    assert_eq!(field(&json, "threads")[..2], ["1", "2"]);
    let amplification: f64 = field(&json, "write amp")[2].parse().expect("a number");
    assert!(amplification > 0.5, "{json}");
}

#[test]
fn random_fills_overwrites_and_deletes_leave_what_they_must() {
    let json = measured(
        "kv fillrandom,overwrite,settle,readseq,deleterandom,settle,readseq,fillsync,readwhilewriting \
         --num 2000 --threads 1 --compression lz4 --seed 7",
    );
    let found: Vec<u64> = field(&json, "found")
        .iter()
        .filter_map(|count| count.parse().ok())
        .collect();
    // Of n keys, drawn k times n, all but one in e^k are met.
    assert!((1650..1800).contains(&found[0]), "{json}");
    assert!((520..800).contains(&found[1]), "{json}");
    assert!(found[2] > 1000, "{json}");
}

#[test]
fn a_database_that_is_opened_again_for_each_step_is_the_same() {
    let line = "kv fillseq,settle,readseq,overwrite,settle,readseq,readrandom --num 2000 --compression none";
    let json = measured(&format!("{line} --reopen"));
    assert_eq!(field(&json, "found"), field(&measured(line), "found"));
    // Of all engines together: the first has written everything once, which is half of it, and the second more than
    // half of the rest, where some keys were overwritten in memory.
    let amplification = field(&json, "write amp");
    let last: f64 = amplification[6].parse().expect("a number");
    assert!(last > 0.7, "{json}");
}

#[test]
fn a_step_ends_when_its_time_is_up() {
    let json = measured("kv fillseq,readrandom --num 2000 --ops 1000000000 --seconds 0.05");
    let ops: u64 = field(&json, "ops")[1].parse().expect("a number");
    assert!(0 < ops && ops < 1_000_000_000);
}

#[test]
fn a_sustained_step_says_how_it_began_and_how_it_ended() {
    let json = measured("kv fillseq,sustained --num 2000 --seconds 0.3 --threads 2");
    // How many fall into which part is up to the machine.
    for name in ["first 10 %", "last 10 %"] {
        assert_eq!(field(&json, name)[0], "null");
        assert!(field(&json, name)[1].parse::<f64>().is_ok(), "{json}");
    }
    assert_eq!(field(&json, "found")[1], field(&json, "ops")[1], "{json}");
}

#[test]
fn what_was_deleted_in_order_is_gone_and_a_snapshot_keeps_its_versions() {
    let json = measured(
        "kv fillseq,settle,hold,deleteseq,settle,count,readseq,release,settle,count --num 3000",
    );
    let found: Vec<_> = field(&json, "found")
        .into_iter()
        .filter(|count| *count != "null")
        .collect();
    assert_eq!(found, ["0", "0", "0"]);
    let versions = field(&json, "versions");
    assert_eq!(versions[4], "6000", "rows and deletes: {json}");
    assert_eq!(versions[9], "0", "{json}");
}

#[test]
fn a_queue_ends_with_as_many_rows_as_it_began_with() {
    let json = measured("kv fillseq,queue,readseq --num 20 --seconds 0.2 --threads 1");
    assert_eq!(field(&json, "found")[2], "20", "{json}");
    assert!(
        field(&json, "first 10 %")[1].parse::<f64>().is_ok(),
        "{json}"
    );
}
