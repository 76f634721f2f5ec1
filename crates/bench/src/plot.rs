//! Line charts as SVG: axes linear or logarithmic, a legend, nothing else.
//!
//! Neighbours: `paper` draws its curves with it.
//!
//! **Invariants**
//! - The picture depends on the data only, so that a repeated run changes no more than its figures did.
//! - A point that an axis cannot show (not finite, or not positive on a logarithmic axis) is left out, and
//!   the line goes on behind it.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// About this many ticks stand on a linear axis.
const TICKS: f64 = 6.0;
/// Up to this ratio of its ends a logarithmic axis has ticks between the powers of ten.
const MANY_DECADES: f64 = 300.0;

/// Colours that can be told apart by most eyes (Okabe and Ito's palette), without its yellow.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal distances.
    Linear,
    /// Equal ratios are equal distances.
    Log,
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is shown, with its unit.
    pub label: String,
    /// How.
    pub scale: Scale,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.to_owned(),
            scale: Scale::Log,
        }
    }
}

/// A line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Debug, Clone)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
}

/// Maps values of an axis to places on the picture.
struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Ruler {
        let mut ruler = Ruler {
            scale,
            low: f64::INFINITY,
            high: f64::NEG_INFINITY,
            from,
            to,
        };
        for value in values.filter(|v| shows(scale, *v)) {
            ruler.low = ruler.low.min(value);
            ruler.high = ruler.high.max(value);
        }
        if ruler.low > ruler.high {
            (ruler.low, ruler.high) = (1.0, 10.0);
        }
        ruler.round();
        ruler
    }

    /// Widens the range to round numbers; a linear one begins at zero.
    fn round(&mut self) {
        match self.scale {
            Scale::Linear => {
                self.low = self.low.min(0.0);
                let step = linear_step(self.low, self.high);
                self.high = ((self.high / step).ceil() * step).max(self.low + step);
            }
            Scale::Log => {
                let below = log_steps(self.low, self.high).rfind(|v| *v <= self.low);
                self.low = below.unwrap_or(self.low);
                let beyond = self.high.max(self.low * 1.1);
                let above = log_steps(self.low, beyond).find(|v| *v >= beyond);
                self.high = above.unwrap_or(beyond);
            }
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.from + part * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = linear_step(self.low, self.high);
                let first = (self.low / step).round() as i64;
                let last = (self.high / step).round() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
            Scale::Log => {
                // Over many powers of ten only these have room.
                let all = self.high / self.low <= MANY_DECADES;
                log_steps(self.low, self.high)
                    .filter(|v| (self.low..=self.high).contains(v))
                    .filter(|v| all || v.log10().fract() == 0.0)
                    .collect()
            }
        }
    }
}

fn shows(scale: Scale, value: f64) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

/// 1, 2 and 5 times the powers of ten around a range.
fn log_steps(low: f64, high: f64) -> impl DoubleEndedIterator<Item = f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    // A division is exact where a product with a negative power is not.
    let power = |i: i32| 10_f64.powi(i.abs());
    powers
        .flat_map(move |i| [1.0, 2.0, 5.0].map(|m| if i < 0 { m / power(i) } else { m * power(i) }))
}

/// 1, 2 or 5 times a power of ten.
fn linear_step(low: f64, high: f64) -> f64 {
    let rough = ((high - low) / TICKS).max(f64::MIN_POSITIVE.sqrt());
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|s| s * power >= rough * 0.999);
    step.unwrap_or(10.0) * power
}

/// A number with as few characters as it takes.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

impl Plot {
    /// The picture.
    pub fn to_svg(&self) -> String {
        let points = || self.series.iter().flat_map(|s| s.points.iter());
        let x = Ruler::new(self.x.scale, points().map(|p| p.0), LEFT, WIDTH - RIGHT);
        let y = Ruler::new(self.y.scale, points().map(|p| p.1), HEIGHT - BOTTOM, TOP);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
        );
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(
            &mut out,
            middle,
            24.0,
            "middle",
            "font-size=\"15\"",
            &self.title,
        );
        self.axes(&mut out, &x, &y);
        for (index, series) in self.series.iter().enumerate() {
            self.line(&mut out, &x, &y, series, COLOURS[index % COLOURS.len()]);
            legend(&mut out, index, series);
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, out: &mut String, x: &Ruler, y: &Ruler) {
        for tick in x.ticks() {
            let at = x.place(tick);
            rule(out, (at, y.from), (at, y.to));
            text(out, at, y.from + 18.0, "middle", "", &short(tick));
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            rule(out, (x.from, at), (x.to, at));
            text(out, x.from - 8.0, at + 4.0, "end", "", &short(tick));
        }
        let (middle, bottom) = ((x.from + x.to) / 2.0, HEIGHT - 14.0);
        text(out, middle, bottom, "middle", "", &self.x.label);
        let middle = (y.from + y.to) / 2.0;
        let turn = format!("transform=\"rotate(-90 18 {middle:.1})\"");
        text(out, 18.0, middle, "middle", &turn, &self.y.label);
    }

    fn line(&self, out: &mut String, x: &Ruler, y: &Ruler, series: &Series, colour: &str) {
        let places: Vec<(f64, f64)> = series
            .points
            .iter()
            .filter(|p| shows(self.x.scale, p.0) && shows(self.y.scale, p.1))
            .map(|p| (x.place(p.0), y.place(p.1)))
            .collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
            );
        }
    }
}

fn legend(out: &mut String, index: usize, series: &Series) {
    let (left, at) = (WIDTH - RIGHT + 14.0, TOP + 10.0 + index as f64 * 20.0);
    let colour = COLOURS[index % COLOURS.len()];
    let _ = writeln!(
        out,
        "<rect x=\"{left}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>",
        at - 5.0
    );
    text(out, left + 20.0, at, "start", "", &series.name);
}

fn rule(out: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#dddddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, more: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{}</text>",
        escaped(words)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(scale: Scale, points: Vec<(f64, f64)>) -> Plot {
        Plot {
            title: "a < b & c".to_owned(),
            x: Axis::linear("skew"),
            y: Axis {
                label: "tps".to_owned(),
                scale,
            },
            series: vec![Series {
                name: "on".to_owned(),
                points,
            }],
        }
    }

    /// The places of the circles.
    fn circles(svg: &str) -> Vec<(f64, f64)> {
        let number = |line: &str, key: &str| {
            let start = line.find(key).expect("attribute") + key.len();
            let rest = &line[start..];
            let end = rest.find('"').expect("quote");
            rest[..end].parse().expect("number")
        };
        svg.lines()
            .filter(|line| line.starts_with("<circle"))
            .map(|line| (number(line, "cx=\""), number(line, "cy=\"")))
            .collect()
    }

    #[test]
    fn points_are_where_the_axes_say() {
        let svg = plot(Scale::Log, vec![(0.0, 10.0), (5.0, 100.0), (10.0, 1000.0)]).to_svg();
        let middle = ((LEFT + WIDTH - RIGHT) / 2.0, (TOP + HEIGHT - BOTTOM) / 2.0);
        let ends = [(LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, TOP)];
        assert_eq!(circles(&svg), [ends[0], middle, ends[1]]);
        assert!(svg.contains("a &lt; b &amp; c"));
        for label in [
            ">10</text>",
            ">100</text>",
            ">1k</text>",
            ">skew<",
            ">tps<",
            ">on<",
        ] {
            assert!(svg.contains(label), "{label}");
        }
        // Every element is closed.
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn what_cannot_be_shown_is_left_out() {
        let points = vec![(1.0, 0.0), (2.0, f64::NAN), (3.0, 5.0)];
        assert_eq!(circles(&plot(Scale::Log, points.clone()).to_svg()).len(), 1);
        assert_eq!(circles(&plot(Scale::Linear, points).to_svg()).len(), 2);
        let empty = plot(Scale::Linear, Vec::new()).to_svg();
        assert!(!empty.contains("NaN") && !empty.contains("inf"));
    }

    #[test]
    fn ticks_are_round() {
        let ruler = Ruler::new(Scale::Linear, [0.0, 137_000.0].into_iter(), 0.0, 1.0);
        let labels: Vec<String> = ruler.ticks().into_iter().map(short).collect();
        assert_eq!(labels, ["0", "50k", "100k", "150k"]);
        let ruler = Ruler::new(Scale::Linear, [5.0].into_iter(), 0.0, 1.0);
        assert_eq!(ruler.ticks(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let ruler = Ruler::new(Scale::Log, [0.2, 30.0].into_iter(), 0.0, 1.0);
        let labels: Vec<String> = ruler.ticks().into_iter().map(short).collect();
        assert_eq!(labels, ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]);
        let ruler = Ruler::new(Scale::Log, [16.0, 1024.0].into_iter(), 0.0, 1.0);
        let labels: Vec<String> = ruler.ticks().into_iter().map(short).collect();
        let expected = ["10", "20", "50", "100", "200", "500", "1k", "2k"];
        assert_eq!(labels, expected);
        let ruler = Ruler::new(Scale::Log, [0.001, 900.0].into_iter(), 0.0, 1.0);
        let labels: Vec<String> = ruler.ticks().into_iter().map(short).collect();
        assert_eq!(labels, ["0.001", "0.01", "0.1", "1", "10", "100", "1k"]);
        let ruler = Ruler::new(Scale::Log, [10.0].into_iter(), 0.0, 1.0);
        assert_eq!(ruler.ticks(), [10.0, 20.0]);
    }
}
