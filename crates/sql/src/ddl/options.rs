//! Options of CREATE TABLE and ALTER TABLE: those that are given, and which of them InnoDB refuses.
//!
//! Neighbours: `create` and `alter` read them; the parser has checked numbers; the catalog keeps those that are only
//! shown.
//! **Invariant**: the last of a kind wins; an option that was not given changes nothing.

use esker_sql_catalog::catalog::{
    EngineChoice, ShownOption, ShownOptions, StorageEngine, TableDef, engine_choice,
};
use esker_sql_plan::bind::types::{charset_by_name, collation_by_name, pick_collation};
use esker_sql_syntax::ast::TableOption;
use esker_types::collation::Collation;
use esker_types::{Level, SqlError, SqlMode, SqlResult, errors};

use super::columns::fit_comment;
use super::{DdlCtx, tablespace};

/// Longest COMMENT of a table, in characters.
const MAX_COMMENT_CHARS: usize = 2048;
/// Options that change nothing here, are accepted as MySQL accepts them for InnoDB, and not shown.
const IGNORED_OPTIONS: &[&str] = &[
    "INSERT_METHOD",
    "PAGE_CHECKSUM",
    "PASSWORD",
    "TABLE_CHECKSUM",
    "TRANSACTIONAL",
];
/// What InnoDB takes for KEY_BLOCK_SIZE.
const KEY_BLOCK_SIZES: &[&str] = &["1", "2", "4", "8", "16"];
/// What it takes for COMPRESSION.
const COMPRESSIONS: &[&str] = &["none", "zlib", "lz4"];
/// AUTOEXTEND_SIZE is a multiple of this, ...
const AUTOEXTEND_STEP: u64 = 4 << 20;
/// ... and at most this.
const MAX_AUTOEXTEND: u64 = 4 << 30;

/// Table options that are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) charset: Option<Box<str>>,
    pub(super) collate: Option<Box<str>>,
    pub(super) comment: Option<Box<str>>,
    pub(super) row_format: Option<Box<str>>,
    pub(super) auto_increment: Option<u64>,
    pub(super) engine: Option<StorageEngine>,
    /// An engine was named that has ascending indexes only; the table is InnoDB's all the same.
    pub(super) names_ascending_engine: bool,
    /// Those that are only shown; an empty value takes one away.
    pub(super) shown: Vec<(ShownOption, Box<str>)>,
    pub(super) encryption: Option<Box<str>>,
}

impl Options {
    /// Reads options; the last of a kind wins, as in MySQL.
    pub(super) fn read<'a>(
        ctx: &DdlCtx<'_>,
        table: OptionsOf<'_>,
        options: impl IntoIterator<Item = &'a TableOption>,
    ) -> SqlResult<Options> {
        let mut out = Options::default();
        let mut is_substituted = false;
        for option in options {
            match option {
                TableOption::Engine(name) => {
                    out.engine = choose_engine(ctx, table, name)?;
                    is_substituted = !matches!(engine_choice(name), EngineChoice::Own(_));
                    out.names_ascending_engine =
                        matches!(engine_choice(name), EngineChoice::Substituted(_));
                }
                TableOption::AutoIncrement(v) => out.auto_increment = Some(*v),
                TableOption::Charset(name) => out.charset = Some(name.clone()),
                TableOption::Collate(name) => out.collate = Some(name.clone()),
                TableOption::RowFormat(name) => out.row_format = Some(name.clone()),
                TableOption::Comment(text) => {
                    let too_long = || {
                        let text = format!(
                            "Comment for table '{}' is too long (max = {MAX_COMMENT_CHARS})",
                            table.name()
                        );
                        SqlError::new(1628, "HY000", text)
                    };
                    let most = MAX_COMMENT_CHARS;
                    out.comment = Some(fit_comment(ctx.eval, Some(text), most, too_long)?);
                }
                TableOption::Other(name, value) if &**name == "ENCRYPTION" => {
                    out.encryption = Some(value.clone());
                }
                TableOption::Other(name, value) => out.read_other(ctx, table, name, value)?,
            }
        }
        if let Some(value) = &out.encryption {
            check_encryption(value, out.engine_of(table), table.is_temporary())?;
        }
        if !is_substituted && out.engine_of(table) != StorageEngine::Memory {
            out.check_innodb(ctx, table)?;
        }
        Ok(out)
    }

    /// Has the engine that the table gets, or that was asked for, ascending indexes only?
    pub(super) fn is_ascending_only(&self, old: Option<&TableDef>) -> bool {
        let engine = self.engine.or(old.map(|old| old.engine));
        self.names_ascending_engine || engine == Some(StorageEngine::Memory)
    }

    /// An option without a meaning here.
    fn read_other(
        &mut self,
        ctx: &DdlCtx<'_>,
        table: OptionsOf<'_>,
        name: &str,
        value: &str,
    ) -> SqlResult<()> {
        if let Some(option) = ShownOption::named(name) {
            if option == ShownOption::AutoextendSize {
                check_autoextend(value)?;
            }
            if option == ShownOption::Tablespace && !tablespace::is_kept(ctx, table, value)? {
                return Ok(());
            }
            self.shown.push((option, value.into()));
            return Ok(());
        }
        if IGNORED_OPTIONS.contains(&name) {
            return Ok(());
        }
        Err(SqlError::not_supported(format_args!("table option {name}")))
    }

    fn engine_of(&self, table: OptionsOf<'_>) -> StorageEngine {
        let kept = table.old().map(|old| old.engine);
        self.engine.or(kept).unwrap_or_default()
    }

    /// ROW_FORMAT that the table has with these options; empty if none was ever given. FIXED rows that a table has
    /// are those of a MyISAM table that became an InnoDB one.
    pub(super) fn row_format_of<'a>(&'a self, table: OptionsOf<'a>) -> &'a str {
        let kept = table.old().map(|old| &*old.row_format);
        let kept = kept.filter(|format| *format != "FIXED");
        self.row_format.as_deref().or(kept).unwrap_or_default()
    }

    /// The options that are only shown, on top of those that the table had.
    pub(super) fn shown_over(&self, old: &ShownOptions) -> ShownOptions {
        let mut all = old.clone();
        for (option, value) in &self.shown {
            all.set(*option, value);
        }
        all
    }

    fn give(&mut self, option: ShownOption, value: &str) {
        self.shown.push((option, value.into()));
    }

    /// The general tablespace that the table is in with these options.
    pub(super) fn tablespace<'a>(&'a self, table: OptionsOf<'a>) -> Option<&'a str> {
        let given = self.shown.iter().rev();
        let mut given = given.filter(|(option, _)| *option == ShownOption::Tablespace);
        let kept = || table.old()?.shown_options.get(ShownOption::Tablespace);
        let name = given.next().map(|(_, name)| &**name).or_else(kept)?;
        tablespace::is_general(name).then_some(name)
    }

    /// Refuses what InnoDB cannot do with a table; without innodb_strict_mode it is left out with a warning.
    fn check_innodb(&mut self, ctx: &DdlCtx<'_>, table: OptionsOf<'_>) -> SqlResult<()> {
        let kept = table.old().map(|old| old.engine);
        let is_moved = self.engine.is_some() && kept.is_some() && self.engine != kept;
        let is_asked = is_moved || self.row_format.is_some() || !self.shown.is_empty();
        if !is_asked {
            return Ok(());
        }
        let none = ShownOptions::default();
        let all = self.shown_over(table.old().map_or(&none, |old| &old.shown_options));
        let format = self.row_format_of(table);
        if let Some(name) = self.tablespace(table) {
            if all.get(ShownOption::AutoextendSize).is_some() {
                let text = "InnoDB: \"AUTOEXTEND_SIZE\" not allowed with general tablespaces";
                return Err(SqlError::new(4024, "HY000", text));
            }
            tablespace::check_format(ctx, name, format, &all)?;
        }
        let complaints = complaints(format, &all, table.is_temporary());
        let Some(first) = complaints.first() else {
            return Ok(());
        };
        if !ctx.engines.strict {
            let bad_size = |c: &Complaint| c.refusal == Refusal::BlockSize;
            let has_bad_size = complaints.iter().any(bad_size);
            for complaint in &complaints {
                // A size that is left out is in nobody's way.
                if !(has_bad_size && complaint.refusal == Refusal::BlockSizeWithFormat) {
                    complaint.leave_out(self, ctx);
                }
            }
            return Ok(());
        }
        if first.refusal == Refusal::Temporary {
            let text = "CREATE TEMPORARY TABLE is not allowed with ROW_FORMAT=COMPRESSED or KEY_BLOCK_SIZE.";
            return Err(SqlError::new(3500, "HY000", text));
        }
        for complaint in &complaints {
            ctx.eval
                .warn(Level::Warning, complaint.code(), complaint.text.clone());
        }
        // As it would be refused to a new table of that engine.
        match is_moved {
            true => Err(errors::no_such_option(table.name())),
            false => Err(table.refused(first.refusal)),
        }
    }

    /// The default collation of the table.
    pub(super) fn collation(&self, default: Collation) -> SqlResult<Collation> {
        let is_default = |name: &str| name.eq_ignore_ascii_case("default");
        let charset = match self.charset.as_deref() {
            Some(name) if is_default(name) => Some(default.charset()),
            Some(name) => Some(charset_by_name(name)?),
            None => None,
        };
        let collate = match self.collate.as_deref() {
            Some(name) if is_default(name) => Some(default),
            Some(name) => Some(collation_by_name(name)?),
            None => None,
        };
        pick_collation(charset, collate, default)
    }
}

/// The option that InnoDB refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    RowFormat,
    BlockSize,
    BlockSizeWithFormat,
    Compression,
    /// A temporary table has no compressed pages.
    Temporary,
}

/// Why InnoDB refuses options.
#[derive(Debug)]
struct Complaint {
    refusal: Refusal,
    text: String,
}

impl Complaint {
    fn code(&self) -> u16 {
        match self.refusal {
            Refusal::Compression => 1112,
            _ => 1478,
        }
    }

    /// Leaves out what is refused, with the warnings of innodb_strict_mode = OFF.
    fn leave_out(&self, options: &mut Options, ctx: &DdlCtx<'_>) {
        let warn = |text: String| ctx.eval.warn(Level::Warning, 1478, text);
        let size = options.shown.iter().rev();
        let mut size = size.filter(|(option, _)| *option == ShownOption::KeyBlockSize);
        let size = size
            .next()
            .map_or(String::new(), |(_, size)| size.to_string());
        match self.refusal {
            Refusal::RowFormat => {
                warn("InnoDB: assuming ROW_FORMAT=DYNAMIC.".to_owned());
                options.row_format = Some("DYNAMIC".into());
            }
            Refusal::BlockSize => {
                warn(format!("InnoDB: ignoring KEY_BLOCK_SIZE={size}."));
                options.give(ShownOption::KeyBlockSize, "");
            }
            Refusal::BlockSizeWithFormat => {
                warn(format!(
                    "InnoDB: ignoring KEY_BLOCK_SIZE={size} as ROW_FORMAT is not COMPRESSED."
                ));
                options.give(ShownOption::KeyBlockSize, "");
            }
            // It is shown all the same.
            Refusal::Compression => ctx.eval.warn(Level::Warning, 1112, self.text.clone()),
            Refusal::Temporary => {
                warn("InnoDB: ROW_FORMAT=COMPRESSED is ignored for TEMPORARY TABLE.".to_owned());
                warn("InnoDB: assuming ROW_FORMAT=DYNAMIC.".to_owned());
            }
        }
    }
}

/// What InnoDB has against a table of this format with these options, as MySQL's warnings put it.
fn complaints(format: &str, options: &ShownOptions, temporary: bool) -> Vec<Complaint> {
    let mut out = Vec::new();
    let mut refuse = |refusal, text: String| out.push(Complaint { refusal, text });
    let size = options.get(ShownOption::KeyBlockSize);
    let compression = options.get(ShownOption::Compression);
    let is_compressed = format == "COMPRESSED" || size.is_some();
    if temporary && is_compressed {
        refuse(Refusal::Temporary, String::new());
    }
    if temporary && compression.is_some() {
        let text = "InnoDB: Page Compression is not supported for temporary tables";
        refuse(Refusal::Compression, text.to_owned());
    }
    if let Some(size) = size.filter(|size| !KEY_BLOCK_SIZES.contains(size)) {
        let text =
            format!("InnoDB: invalid KEY_BLOCK_SIZE = {size}. Valid values are [1, 2, 4, 8, 16]");
        refuse(Refusal::BlockSize, text);
    }
    if format == "FIXED" {
        refuse(
            Refusal::RowFormat,
            "InnoDB: invalid ROW_FORMAT specifier.".to_owned(),
        );
    }
    if size.is_some() && matches!(format, "DYNAMIC" | "COMPACT" | "REDUNDANT") {
        let text = format!("InnoDB: cannot specify ROW_FORMAT={format} with KEY_BLOCK_SIZE.");
        refuse(Refusal::BlockSizeWithFormat, text);
    }
    if let Some(name) = compression {
        let is_known = COMPRESSIONS.iter().any(|it| it.eq_ignore_ascii_case(name));
        if !is_known {
            refuse(
                Refusal::Compression,
                format!("InnoDB: Unsupported compression algorithm '{name}'"),
            );
        } else if is_compressed && !name.eq_ignore_ascii_case("none") {
            let text = "InnoDB: Page Compression is not supported with row_format=compressed or \
                        key_block_size > 0";
            refuse(Refusal::Compression, text.to_owned());
        }
    }
    out
}

/// ENCRYPTION: nothing is encrypted here, for there is no key.
fn check_encryption(value: &str, engine: StorageEngine, is_temporary: bool) -> SqlResult<()> {
    if is_temporary {
        return Err(errors::encrypted_temporary());
    }
    if value.eq_ignore_ascii_case("N") {
        return Ok(());
    }
    if engine == StorageEngine::Memory {
        return Err(errors::engine_without("ENCRYPTION"));
    }
    Err(match value.eq_ignore_ascii_case("Y") {
        true => errors::no_master_key(),
        false => errors::invalid_encryption(),
    })
}

pub(super) fn check_autoextend(value: &str) -> SqlResult<()> {
    let bytes: u64 = value.parse().unwrap_or(0);
    if bytes != 0 && !(AUTOEXTEND_STEP..=MAX_AUTOEXTEND).contains(&bytes) {
        let text = "AUTOEXTEND_SIZE value should be between 4M and 4096M";
        return Err(SqlError::new(4025, "HY000", text));
    }
    if !bytes.is_multiple_of(AUTOEXTEND_STEP) {
        let text = "AUTOEXTEND_SIZE should be a multiple of 4M";
        return Err(SqlError::new(4023, "HY000", text));
    }
    Ok(())
}

/// The table whose options are read.
#[derive(Clone, Copy)]
pub(super) enum OptionsOf<'a> {
    /// It is made.
    New {
        /// Its name.
        name: &'a str,
        /// It is a session's own.
        temporary: bool,
    },
    /// It is there, and keeps what is not given.
    Existing(&'a TableDef),
}

impl<'a> OptionsOf<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::New { name, .. } => name,
            Self::Existing(old) => &old.name,
        }
    }

    fn old(self) -> Option<&'a TableDef> {
        match self {
            Self::New { .. } => None,
            Self::Existing(old) => Some(old),
        }
    }

    pub(super) fn is_temporary(self) -> bool {
        match self {
            Self::New { temporary, .. } => temporary,
            Self::Existing(old) => old.temporary,
        }
    }

    /// 1031 or 1478 for an option that the engine does not have.
    fn refused(self, refusal: Refusal) -> SqlError {
        let option = match (self, refusal) {
            (Self::New { name, .. }, _) => return errors::no_such_option(name),
            (_, Refusal::RowFormat) => "ROW_TYPE",
            (_, Refusal::BlockSize | Refusal::BlockSizeWithFormat | Refusal::Temporary) => {
                "KEY_BLOCK_SIZE"
            }
            (_, Refusal::Compression) => "COMPRESSION",
        };
        let text =
            format!("Table storage engine 'InnoDB' does not support the create option '{option}'");
        errors::option_not_supported(text)
    }
}

/// The engine that `ENGINE = name` gives a table; None: it keeps its own.
pub(super) fn choose_engine(
    ctx: &DdlCtx<'_>,
    table: OptionsOf<'_>,
    name: &str,
) -> SqlResult<Option<StorageEngine>> {
    let substitute = || {
        let text = format!("Using storage engine InnoDB for table '{}'", table.name());
        ctx.eval.warn(Level::Warning, 1266, text);
        Ok(Some(StorageEngine::InnoDb))
    };
    match engine_choice(name) {
        EngineChoice::Own(engine) => return Ok(Some(engine)),
        EngineChoice::Substituted(_) => return substitute(),
        EngineChoice::Unknown => {}
    }
    let unknown = errors::unknown_engine(name);
    let strict = ctx.eval.sql_mode.has(SqlMode::NO_ENGINE_SUBSTITUTION);
    if strict && !ctx.engines.substitutes {
        return Err(unknown);
    }
    ctx.eval.warn(Level::Warning, unknown.code, unknown.message);
    match table {
        OptionsOf::Existing(_) if !ctx.engines.substitutes => Ok(None),
        _ => substitute(),
    }
}
