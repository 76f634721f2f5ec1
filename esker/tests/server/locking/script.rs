//! The files of `esker/tests/locking`, read and written.
//!
//! Neighbours: `play` runs what they say; the format is described in `esker/tests/locking/README.md`.
//!
//! **Invariant**: a file that was written is read as it was.

use std::fmt::{self, Display, Formatter};

/// How a statement ended, or that it has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Rows that were changed.
    Ok(u64),
    Rows(Vec<String>),
    Error(u16),
    Waits,
    /// Its session waits for an earlier one.
    Skipped,
}

/// What a step has brought, and what became of the statements that waited.
pub type Brought = Vec<(usize, Outcome)>;

/// What MySQL answered.
#[derive(Clone, Debug)]
pub struct Recorded<T> {
    pub answer: T,
    /// Esker answers otherwise; that is known, and not compared.
    pub is_open: bool,
}

impl<T> Recorded<T> {
    pub fn new(answer: T) -> Recorded<T> {
        Recorded {
            answer,
            is_open: false,
        }
    }

    /// What must come.
    pub fn expected(&self) -> Option<&T> {
        (!self.is_open).then_some(&self.answer)
    }
}

/// How an answer is marked that Esker does not give.
const OPEN: &str = "~";

/// The answers to a case at a level.
#[derive(Debug)]
pub struct Played {
    pub level: String,
    /// What each step brought.
    pub steps: Vec<Recorded<Brought>>,
    /// What is there in the end.
    pub end: Recorded<Vec<String>>,
}

/// Statements of sessions, one after the other.
#[derive(Debug, Default)]
pub struct Case {
    pub name: String,
    /// The session, and its statement.
    pub steps: Vec<(usize, String)>,
    pub outcomes: Vec<Played>,
}

/// Statements of one session against those of another.
#[derive(Debug, Default)]
pub struct Table {
    pub name: String,
    pub holds: Vec<String>,
    pub tries: Vec<String>,
    /// By level and statement that holds, what comes of each that tries.
    pub outcomes: Vec<(String, Vec<Vec<Recorded<Outcome>>>)>,
}

#[derive(Debug)]
pub enum Part {
    /// Statements that make the tables of what follows.
    Setup(Vec<String>),
    Levels(Vec<String>),
    Case(Case),
    Table(Table),
    Comment(String),
}

#[derive(Debug)]
pub struct File(pub Vec<Part>);

impl File {
    /// # Errors
    /// The line that is not understood.
    pub fn parse(text: &str) -> Result<File, String> {
        let mut parts: Vec<Part> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let bad = || format!("line {}: {line}", number + 1);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (word, is_open) = match word.strip_prefix(OPEN) {
                Some(word) => (word, true),
                None => (word, false),
            };
            let rest = rest.to_owned();
            match (word, parts.last_mut()) {
                ("", _) => {}
                ("#", _) => parts.push(Part::Comment(rest)),
                ("setup", Some(Part::Setup(all))) => all.push(rest),
                ("setup", _) => parts.push(Part::Setup(vec![rest])),
                ("levels", _) => {
                    parts.push(Part::Levels(rest.split(", ").map(str::to_owned).collect()));
                }
                ("case", _) => parts.push(Part::Case(Case {
                    name: rest,
                    ..Case::default()
                })),
                ("table", _) => parts.push(Part::Table(Table {
                    name: rest,
                    ..Table::default()
                })),
                ("at", Some(Part::Case(case))) => {
                    case.outcomes.push(Played {
                        level: rest,
                        steps: Vec::new(),
                        end: Recorded::new(Vec::new()),
                    });
                }
                ("at", Some(Part::Table(table))) => table.outcomes.push((rest, Vec::new())),
                ("end", Some(Part::Case(case))) => {
                    let answer = cells(&rest);
                    let played = case.outcomes.last_mut().ok_or_else(bad)?;
                    played.end = Recorded { answer, is_open };
                }
                (">", Some(Part::Case(case))) => {
                    let answer = brought(&rest).ok_or_else(bad)?;
                    let played = case.outcomes.last_mut().ok_or_else(bad)?;
                    played.steps.push(Recorded { answer, is_open });
                }
                (">", Some(Part::Table(table))) => {
                    let row = rest.split_whitespace().map(cell).collect();
                    let row: Option<Vec<_>> = row;
                    let (_, rows) = table.outcomes.last_mut().ok_or_else(bad)?;
                    rows.push(row.ok_or_else(bad)?);
                }
                ("hold", Some(Part::Table(table))) => table.holds.push(rest),
                ("try", Some(Part::Table(table))) => table.tries.push(rest),
                (_, Some(Part::Case(case))) => {
                    let session = word.strip_prefix('T').and_then(|n| n.parse().ok());
                    case.steps.push((session.ok_or_else(bad)?, rest));
                }
                _ => return Err(bad()),
            }
        }
        Ok(File(parts))
    }
}

fn cells(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn brought(text: &str) -> Option<Brought> {
    let each = text.split(", ").map(|text| {
        let (session, text) = text.split_once(' ')?;
        let session = session.strip_prefix('T')?.parse().ok()?;
        let outcome = match text.split_once(' ') {
            Some(("rows", rows)) => Some(Outcome::Rows(cells(rows))),
            Some(("ok", changed)) => changed.parse().ok().map(Outcome::Ok),
            Some(("error", code)) => code.parse().ok().map(Outcome::Error),
            _ => outcome(text),
        };
        Some((session, outcome?))
    });
    each.collect()
}

/// An answer in a table.
fn cell(text: &str) -> Option<Recorded<Outcome>> {
    let (text, is_open) = match text.strip_prefix(OPEN) {
        Some(text) => (text, true),
        None => (text, false),
    };
    let answer = outcome(text)?;
    Some(Recorded { answer, is_open })
}

/// One without rows, in a word.
fn outcome(text: &str) -> Option<Outcome> {
    match text {
        "waits" => Some(Outcome::Waits),
        "skipped" => Some(Outcome::Skipped),
        "rows" => Some(Outcome::Rows(Vec::new())),
        _ => {
            let (word, number) = text.split_at_checked(1)?;
            match word {
                "+" => number.parse().ok().map(Outcome::Ok),
                "!" => number.parse().ok().map(Outcome::Error),
                _ => None,
            }
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Ok(changed) => write!(f, "ok {changed}"),
            Outcome::Rows(rows) if rows.is_empty() => write!(f, "rows"),
            Outcome::Rows(rows) => write!(f, "rows {}", rows.join(" ")),
            Outcome::Error(code) => write!(f, "error {code}"),
            Outcome::Waits => write!(f, "waits"),
            Outcome::Skipped => write!(f, "skipped"),
        }
    }
}

/// An outcome in a table: what was read is of no interest there.
fn short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ok(changed) => format!("+{changed}"),
        Outcome::Error(code) => format!("!{code}"),
        Outcome::Rows(_) => "rows".to_owned(),
        Outcome::Waits | Outcome::Skipped => outcome.to_string(),
    }
}

fn mark<T>(recorded: &Recorded<T>) -> &'static str {
    if recorded.is_open { OPEN } else { "" }
}

pub fn shown(brought: &Brought) -> String {
    let each = brought
        .iter()
        .map(|(session, outcome)| format!("T{session} {outcome}"));
    each.collect::<Vec<_>>().join(", ")
}

impl Display for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, part) in self.0.iter().enumerate() {
            let before = number.checked_sub(1).map(|n| &self.0[n]);
            let continues = matches!((before, part), (Some(Part::Comment(_)), _));
            if number > 0 && !continues {
                writeln!(f)?;
            }
            match part {
                Part::Comment(text) => writeln!(f, "# {text}")?,
                Part::Setup(all) => all.iter().try_for_each(|sql| writeln!(f, "setup {sql}"))?,
                Part::Levels(levels) => writeln!(f, "levels {}", levels.join(", "))?,
                Part::Case(case) => case.fmt(f)?,
                Part::Table(table) => table.fmt(f)?,
            }
        }
        Ok(())
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "case {}", self.name)?;
        for (session, sql) in &self.steps {
            writeln!(f, "T{session} {sql}")?;
        }
        for Played { level, steps, end } in &self.outcomes {
            writeln!(f, "at {level}")?;
            for step in steps {
                writeln!(f, "{}> {}", mark(step), shown(&step.answer))?;
            }
            writeln!(f, "{}end {}", mark(end), end.answer.join(" "))?;
        }
        Ok(())
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "table {}", self.name)?;
        self.holds
            .iter()
            .try_for_each(|sql| writeln!(f, "hold {sql}"))?;
        self.tries
            .iter()
            .try_for_each(|sql| writeln!(f, "try {sql}"))?;
        for (level, rows) in &self.outcomes {
            writeln!(f, "at {level}")?;
            for row in rows {
                let cells = row
                    .iter()
                    .map(|o| format!("{}{}", mark(o), short(&o.answer)));
                let cells = cells.map(|cell| format!("{cell:<7}"));
                let line = cells.collect::<Vec<_>>().join("");
                writeln!(f, "> {}", line.trim_end())?;
            }
        }
        Ok(())
    }
}
