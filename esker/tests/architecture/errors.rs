//! Each error number of MySQL is made in one place, so its SQLSTATE and its text exist once.
//!
//! Neighbours: `esker_types::errors` has the constructors that several rooms use; CONTRIBUTING.md says so.

use std::collections::BTreeMap;
use std::fs;

use super::{production, root, sources};

/// What stands in front of a number where an error is made.
const CONSTRUCTOR: &str = "SqlError::new(";

/// Numbers that are made in `text`.
fn numbers(text: &str) -> Vec<&str> {
    let made = production(text).split(CONSTRUCTOR).skip(1);
    made.filter_map(|rest| {
        let number = rest.trim_start().split(',').next()?;
        let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
        is_number.then_some(number)
    })
    .collect()
}

#[test]
fn an_error_number_has_one_constructor() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    files.retain(|file| {
        let path = file.to_string_lossy();
        !path.contains("test")
    });
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("source");
        for number in numbers(&text) {
            let place = file.strip_prefix(root()).expect("below").display();
            let list = places.entry(number.to_owned()).or_default();
            list.push(place.to_string());
        }
    }
    assert!(places.len() > 200, "errors are made elsewhere now");
    let twice: Vec<_> = places.iter().filter(|(_, at)| at.len() > 1).collect();
    assert!(
        twice.is_empty(),
        "numbers with several constructors (see esker_types::errors): {twice:#?}"
    );
}
