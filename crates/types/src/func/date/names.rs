//! Names of months and days, in English and in the locales of `lc_time_names`.
//!
//! Neighbours: `parts` and `format` write them; `parse` reads English ones, whatever the locale is, as MySQL does.
//! **Invariant**: `locales.tsv` has a line for each of [`LOCALES`], in their order, which is that of MySQL's numbers:
//! its name, months, abbreviated months, days from Monday on, abbreviated days, as MySQL answers.

use std::sync::OnceLock;

/// Months, January first.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Days, Monday first.
pub(super) const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// Letters of an English abbreviation.
pub(super) const SHORT: usize = 3;

/// Values of `lc_time_names`.
pub const LOCALES: &[&str] = &[
    "en_US", "en_GB", "ja_JP", "sv_SE", "de_DE", "fr_FR", "ar_AE", "ar_BH", "ar_JO", "ar_SA",
    "ar_SY", "be_BY", "bg_BG", "ca_ES", "cs_CZ", "da_DK", "de_AT", "es_ES", "et_EE", "eu_ES",
    "fi_FI", "fo_FO", "gl_ES", "gu_IN", "he_IL", "hi_IN", "hr_HR", "hu_HU", "id_ID", "is_IS",
    "it_CH", "ko_KR", "lt_LT", "lv_LV", "mk_MK", "mn_MN", "ms_MY", "nb_NO", "nl_NL", "pl_PL",
    "pt_BR", "pt_PT", "ro_RO", "ru_RU", "ru_UA", "sk_SK", "sl_SI", "sq_AL", "sr_RS", "ta_IN",
    "te_IN", "th_TH", "tr_TR", "uk_UA", "ur_PK", "vi_VN", "zh_CN", "zh_TW", "ar_DZ", "ar_EG",
    "ar_IN", "ar_IQ", "ar_KW", "ar_LB", "ar_LY", "ar_MA", "ar_OM", "ar_QA", "ar_SD", "ar_TN",
    "ar_YE", "de_BE", "de_CH", "de_LU", "en_AU", "en_CA", "en_IN", "en_NZ", "en_PH", "en_ZA",
    "en_ZW", "es_AR", "es_BO", "es_CL", "es_CO", "es_CR", "es_DO", "es_EC", "es_GT", "es_HN",
    "es_MX", "es_NI", "es_PA", "es_PE", "es_PR", "es_PY", "es_SV", "es_US", "es_UY", "es_VE",
    "fr_BE", "fr_CA", "fr_CH", "fr_LU", "it_IT", "nl_BE", "no_NO", "sv_FI", "zh_HK", "el_GR",
    "rm_CH",
];

/// A locale, by its place in [`LOCALES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeLocale(u8);

/// What is written in one locale.
struct Names {
    months: Vec<&'static str>,
    short_months: Vec<&'static str>,
    days: Vec<&'static str>,
    short_days: Vec<&'static str>,
}

impl TimeLocale {
    /// The locale of a value of `lc_time_names`; English for what is none.
    pub fn named(name: &str) -> Self {
        let at = LOCALES.iter().position(|l| l.eq_ignore_ascii_case(name));
        Self(at.and_then(|at| u8::try_from(at).ok()).unwrap_or_default())
    }

    /// MySQL's number of it, as the binary log has it.
    pub fn number(self) -> u16 {
        self.0.into()
    }

    fn names(self) -> &'static Names {
        static ALL: OnceLock<Vec<Names>> = OnceLock::new();
        let all = ALL.get_or_init(|| include_str!("locales.tsv").lines().map(names).collect());
        assert_eq!(all.len(), LOCALES.len(), "one line for each locale");
        &all[usize::from(self.0)]
    }

    /// The name of a month, from 1 on; there is none for 0.
    pub(super) fn month(self, month: u32, short: bool) -> Option<&'static str> {
        let names = self.names();
        let list = if short {
            &names.short_months
        } else {
            &names.months
        };
        list.get(usize::try_from(month).ok()?.checked_sub(1)?)
            .copied()
    }

    /// The name of a day of the week, Monday being 0.
    pub(super) fn day(self, day: usize, short: bool) -> &'static str {
        let names = self.names();
        let list = if short {
            &names.short_days
        } else {
            &names.days
        };
        list[day]
    }
}

fn names(line: &'static str) -> Names {
    let mut lists = line
        .split('\t')
        .skip(1)
        .map(|list| list.split('|').collect());
    let mut next = || -> Vec<&'static str> { lists.next().unwrap_or_default() };
    let names = Names {
        months: next(),
        short_months: next(),
        days: next(),
        short_days: next(),
    };
    assert_eq!(
        (names.months.len(), names.short_months.len()),
        (12, 12),
        "{line}"
    );
    assert_eq!((names.days.len(), names.short_days.len()), (7, 7), "{line}");
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_locale_has_its_line() {
        let named = include_str!("locales.tsv")
            .lines()
            .map(|l| l.split('\t').next());
        assert!(named.eq(LOCALES.iter().map(|name| Some(*name))));
        let german = TimeLocale::named("DE_de");
        assert_eq!(german.month(3, false), Some("März"));
        assert_eq!((german.day(2, true), german.month(0, false)), ("Mi", None));
        let english = TimeLocale::default();
        assert!((1..=12).all(|m| english.month(m, false) == Some(MONTHS[m as usize - 1])));
    }
}
