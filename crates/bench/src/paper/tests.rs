//! The whole series at its smallest.

use super::*;
use esker_vfs::{Fs, OpenMode, OsFs};

fn args(out: &std::path::Path, only: Vec<Comparison>) -> PaperArgs {
    PaperArgs {
        quick: true,
        only,
        out: out.to_owned(),
        dir: None,
    }
}

fn read(path: &std::path::Path) -> String {
    let file = OsFs.open(path, OpenMode::Read).expect("is there");
    let mut bytes = vec![0; file.len().expect("length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("reads");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn every_comparison_leaves_a_page_and_its_pictures() {
    let dir = tempfile::tempdir().expect("directory");
    let out = dir.path().join("made/here");
    let scale = Scale::tiny();
    let tables = run_at(&args(&out, Vec::new()), &scale, &|_| {}).expect("runs");
    let lengths: Vec<usize> = tables.iter().map(Table::len).collect();
    // Five variants: two numbers of threads, and two sizes with two numbers each; undisturbed and preempted.
    let log_rows = 5 * (2 + 2 * 2);
    // Latencies by skews; devices by sessions by three ways; workloads by devices.
    assert_eq!(lengths, [log_rows, log_rows, 5 * 2, 2, 2 * 3, 4]);
    let names = OsFs.list(&out).expect("lists");
    let pages: Vec<&String> = names.iter().filter(|n| n.ends_with(".md")).collect();
    assert_eq!(pages.len(), Comparison::ALL.len());
    for page in pages {
        let text = read(&out.join(page));
        assert!(
            text.contains("| --- |") || text.contains("| --: |"),
            "{page}"
        );
        assert!(text.contains("Other processes used "), "{page}");
        assert!(text.contains("too short for conclusions"), "{page}");
        for link in text.split("](").skip(1) {
            let picture = link.split(')').next().expect("a link");
            assert!(names.iter().any(|n| n == picture), "{page}: {picture}");
            let svg = read(&out.join(picture));
            assert!(
                svg.contains("<polyline") && svg.contains("<circle"),
                "{picture}"
            );
        }
    }
    let pictures = names.iter().filter(|n| n.ends_with(".svg")).count();
    assert_eq!(pictures, 5 + 2 + 2);
}

#[test]
fn one_comparison_can_be_chosen_and_replaces_its_page() {
    let dir = tempfile::tempdir().expect("directory");
    let args = args(dir.path(), vec![Comparison::Ablation]);
    let page = dir.path().join("all-on-all-off.md");
    for _ in 0..2 {
        let tables = run_at(&args, &Scale::tiny(), &|_| {}).expect("runs");
        assert_eq!(tables.len(), 1);
        assert_eq!(read(&page).matches("# All of Aether").count(), 1);
    }
    assert_eq!(OsFs.list(dir.path()).expect("lists").len(), 1);
}

#[test]
fn a_repeated_series_tells_its_spread_and_a_loud_machine_is_named() {
    let page = |percents: &[f64], others, quick| {
        let chapter = Chapter {
            name: "x",
            title: "X",
            words: String::new(),
            trust: Trust {
                method: "Three turns.".to_owned(),
                percents: percents.to_vec(),
                others,
            },
            tables: Vec::new(),
            plots: Vec::new(),
        };
        output::markdown(&chapter, quick)
    };
    let quiet = page(&[1.0, 2.0, 30.0], 0.01, false);
    assert!(quiet.contains("Three turns.") && quiet.contains("2.0 for the figure in the middle"));
    assert!(quiet.contains("30.0 for the worst") && quiet.contains("used 1.0 %"));
    assert!(!quiet.contains("not quiet") && !quiet.contains("too short"));
    assert!(page(&[12.0], 0.0, false).contains("not quiet"));
    assert!(page(&[1.0], 0.5, false).contains("not quiet"));
    assert!(page(&[], 0.0, true).contains("too short"));
}
