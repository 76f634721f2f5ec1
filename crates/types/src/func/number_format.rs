//! FORMAT(): numbers with separators.
//!
//! Neighbours: `math` rounds.
//! **Invariant**: the separators are those that MySQL has for a locale, which are not always what
//! people there write.

use super::call::{Call, string};
use super::math::round_double;
use super::ret::{string_type, text_chars};
use super::{ArgType, FuncDef, FuncFlags, RetCtx, Signature, TOTAL, def};
use crate::error::SqlResult;
use crate::sqltype::TypeKind;
use crate::value::Value;

pub(super) const DEFS: &[FuncDef] = &[def(
    "format",
    2,
    3,
    TOTAL.with(FuncFlags::COMPUTES),
    ret_format,
    format,
)];

/// Most decimals FORMAT writes.
const MAX_DECIMALS: i128 = 30;

/// Decimal point, separator of thousands, and how many digits the groups after the first have
/// (the first has three).
struct Style {
    point: char,
    separator: &'static str,
    group: usize,
}

/// Locales that differ from en_US, by how.
const LOCALES: &[(Style, &str)] = &[
    (
        Style {
            point: ',',
            separator: ".",
            group: 3,
        },
        "be_BY da_DK de_BE de_DE de_LU es_AR es_BO es_CL es_CO es_EC es_ES es_PY es_UY es_VE fo_FO \
         hu_HU id_ID is_IS lt_LT mn_MN nb_NO no_NO ro_RO ru_UA sq_AL tr_TR uk_UA vi_VN",
    ),
    (
        Style {
            point: ',',
            separator: "",
            group: 3,
        },
        "bg_BG ca_ES de_AT el_GR eu_ES fr_BE fr_CA fr_CH fr_FR fr_LU gl_ES hr_HR it_IT nl_BE nl_NL \
         pl_PL pt_BR pt_PT sl_SI",
    ),
    (
        Style {
            point: ',',
            separator: " ",
            group: 3,
        },
        "cs_CZ es_CR et_EE fi_FI lv_LV mk_MK ru_RU sk_SK sv_FI sv_SE",
    ),
    (
        Style {
            point: ',',
            separator: "'",
            group: 3,
        },
        "it_CH rm_CH",
    ),
    (
        Style {
            point: '.',
            separator: "'",
            group: 3,
        },
        "de_CH",
    ),
    (
        Style {
            point: '.',
            separator: "",
            group: 3,
        },
        "ar_SA sr_RS",
    ),
    (
        Style {
            point: '.',
            separator: ",",
            group: 2,
        },
        "en_IN ta_IN te_IN",
    ),
    (
        Style {
            point: '.',
            separator: ",",
            group: 3,
        },
        "en_US ar_AE ar_BH ar_DZ ar_EG ar_IN ar_IQ ar_JO ar_KW ar_LB ar_LY ar_MA ar_OM ar_QA ar_SD \
         ar_SY ar_TN ar_YE en_AU en_CA en_GB en_NZ en_PH en_ZA en_ZW es_DO es_GT es_HN es_MX es_NI \
         es_PA es_PE es_PR es_SV es_US gu_IN he_IL hi_IN ja_JP ko_KR ms_MY th_TH ur_PK zh_CN zh_HK \
         zh_TW",
    ),
];
const EN_US: &Style = &Style {
    point: '.',
    separator: ",",
    group: 3,
};

fn ret_format(args: &[ArgType], ctx: &RetCtx) -> SqlResult<Signature> {
    let plain = u64::from(text_chars(&args[0].ty));
    // A sign and a decimal point are counted whether or not the number has them.
    let chars = plain + plain / 3 + 2 + MAX_DECIMALS as u64;
    Ok(Signature::plain(string_type(
        chars,
        ctx.collation_connection,
    )))
}

fn format(c: &Call) -> SqlResult<Value> {
    if c.null(0) || c.null(1) {
        return Ok(Value::Null);
    }
    let decimals = c.integer(1)?.clamp(0, MAX_DECIMALS) as u8;
    let exact = c.ty(0).is_numeric() && !matches!(c.ty(0).kind, TypeKind::Float | TypeKind::Double);
    let plain = if exact {
        let number = c.decimal(0)?;
        let mut text = Vec::new();
        number.round(decimals).unwrap_or(number).write(&mut text);
        pad_decimals(
            String::from_utf8_lossy(&text).into_owned(),
            usize::from(decimals),
        )
    } else {
        // Of a double only the digits that tell it from others; behind them are zeros.
        let rounded = round_double(c.real(0)?, i128::from(decimals), true);
        pad_decimals(format!("{rounded}"), usize::from(decimals))
    };
    string(separate(&plain, style(c)))
}

/// Adds zeros until there are `decimals` decimals.
fn pad_decimals(mut text: String, decimals: usize) -> String {
    let there = text.find('.').map_or(0, |at| text.len() - at - 1);
    if there == 0 && decimals > 0 {
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', decimals.saturating_sub(there)));
    text
}

fn style(c: &Call) -> &'static Style {
    if !c.has(2) {
        return EN_US;
    }
    let name = if c.null(2) {
        b"NULL".as_slice().into()
    } else {
        c.text(2)
    };
    let name = String::from_utf8_lossy(&name);
    let known = |list: &str| {
        list.split_whitespace()
            .any(|l| l.eq_ignore_ascii_case(&name))
    };
    match LOCALES.iter().find(|(_, list)| known(list)) {
        Some((style, _)) => style,
        None => {
            c.warn(1649, format!("Unknown locale: '{name}'"));
            EN_US
        }
    }
}

fn separate(plain: &str, style: &Style) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |d| ("-", d));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut out = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        let left = whole.len() - i;
        if i > 0 && left >= 3 && (left - 3) % style.group == 0 {
            out.push_str(style.separator);
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push(style.point);
        out.push_str(fraction);
    }
    out
}
