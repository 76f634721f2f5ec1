//! Writes what a comparison has shown: a Markdown file and its pictures beside it.
//!
//! Neighbours: `paper` calls it for each chapter.
//!
//! **Invariants**
//! - Files that were there are replaced as a whole.

use std::path::Path;
use std::thread::available_parallelism;

use esker_vfs::{Fs, OsFs};

use super::{Chapter, Trust};
use crate::report::replace;
use crate::spread::Spread;
use crate::{Error, Result};

/// From this spread or this much work of others on, the machine was not quiet.
const LOUD_PERCENT: f64 = 10.0;

/// Writes the files of a chapter into `dir`.
pub(super) fn write(dir: &Path, chapter: &Chapter, quick: bool) -> Result<()> {
    let in_dir = |source| Error::Io {
        path: dir.to_owned(),
        source,
    };
    OsFs.create_dir_all(dir).map_err(in_dir)?;
    for (end, plot) in &chapter.plots {
        let name = format!("{}-{end}.svg", chapter.name);
        replace(&dir.join(name), &plot.to_svg())?;
    }
    let name = format!("{}.md", chapter.name);
    replace(&dir.join(name), &markdown(chapter, quick))
}

/// The page of a chapter.
pub(super) fn markdown(chapter: &Chapter, quick: bool) -> String {
    let cores = available_parallelism().map_or(1, usize::from);
    let command = match quick {
        true => "esker bench paper --quick",
        false => "esker bench paper",
    };
    let mut out = format!(
        "# {}\n\nMade by `{command}` on a machine with {cores} cores.\n\n{}\n\n",
        chapter.title, chapter.words
    );
    out.push_str(&trust(&chapter.trust, quick));
    for (end, plot) in &chapter.plots {
        let name = chapter.name;
        out.push_str(&format!("![{}]({name}-{end}.svg)\n\n", plot.title));
    }
    let tables: Vec<String> = chapter.tables.iter().map(|t| t.to_markdown()).collect();
    out + &tables.join("\n")
}

/// How the figures came about and how far they can be trusted.
fn trust(trust: &Trust, quick: bool) -> String {
    let others = 100.0 * trust.others;
    let mut out = format!("{} ", trust.method);
    if !trust.percents.is_empty() {
        let spread = Spread::of(trust.percents.iter().copied());
        out += &format!(
            "'+-%' is half the distance between the extremes in percent of the median: {:.1} for the figure in the \
             middle of this page, {:.1} for the worst. ",
            spread.median, spread.high
        );
        if spread.median > LOUD_PERCENT || others > LOUD_PERCENT {
            out += "**The machine was not quiet: differences below these mean nothing.** ";
        }
    }
    out += &format!("Other processes used {others:.1} % of the machine meanwhile.\n\n");
    if quick {
        out += "**Quick run: too short for conclusions.**\n\n";
    }
    out
}
