//! Collations that only MariaDB has, by name, and what comes nearest of those that there are.
//!
//! Neighbours: `implied` puts them into the definitions of a source of MariaDB; `applier::context` asks for those of
//! sessions, which come as numbers. **Invariant**: a name that both have stays.

/// The nearest for `utf8mb4` of those of UCA 14, by what it tells apart: trailing spaces, accents, cases.
pub(crate) fn nearest_of_uca(by_space: bool, by_accent: bool, by_case: bool) -> &'static str {
    match (by_accent, by_case) {
        (_, true) => "utf8mb4_0900_as_cs",
        (true, false) => "utf8mb4_0900_as_ci",
        (false, false) if by_space => "utf8mb4_0900_ai_ci",
        (false, false) => "utf8mb4_unicode_520_ci",
    }
}

/// The nearest collation: of `…uca1400…` that of an older version of UCA, of `…_nopad_…` the one that pads. `None`: the
/// name is none of MariaDB's own.
pub(super) fn nearest(name: &str) -> Option<Box<str>> {
    if let Some((charset, tells)) = name.split_once("uca1400_") {
        // Without a character set it is of that of the column.
        return Some(match charset.trim_end_matches('_') {
            "" | "utf8mb4" => {
                let (by_space, by_accent) = (tells.contains("nopad_"), tells.contains("as_"));
                nearest_of_uca(by_space, by_accent, tells.ends_with("cs")).into()
            }
            "utf8" => "utf8mb3_unicode_520_ci".into(),
            charset => format!("{charset}_unicode_520_ci").into(),
        });
    }
    let is_nopad = name.contains("_nopad_");
    is_nopad.then(|| name.replacen("_nopad_", "_", 1).into())
}

#[cfg(test)]
mod tests {
    use esker_types::collation::Collation;

    use super::*;

    #[test]
    fn each_has_one_that_there_is() {
        for (name, own) in [
            ("utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_520_ci"),
            ("utf8mb4_uca1400_german2_nopad_ai_ci", "utf8mb4_0900_ai_ci"),
            ("utf8mb4_uca1400_as_ci", "utf8mb4_0900_as_ci"),
            ("utf8mb4_uca1400_swedish_as_cs", "utf8mb4_0900_as_cs"),
            ("uca1400_ai_ci", "utf8mb4_unicode_520_ci"),
            ("utf8mb3_uca1400_as_cs", "utf8mb3_unicode_520_ci"),
            ("utf16_uca1400_ai_ci", "utf16_unicode_520_ci"),
            ("utf8mb4_general_nopad_ci", "utf8mb4_general_ci"),
            ("utf8mb4_nopad_bin", "utf8mb4_bin"),
            ("latin1_swedish_nopad_ci", "latin1_swedish_ci"),
        ] {
            assert_eq!(nearest(name).as_deref(), Some(own));
            assert!(Collation::by_name(own).is_some(), "{own}");
        }
        for name in ["utf8mb4_general_ci", "utf8mb4_bin", "binary"] {
            assert_eq!(nearest(name), None);
        }
    }
}
