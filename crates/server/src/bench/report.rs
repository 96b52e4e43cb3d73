//! The result of a measurement, for people and for programs.

use evenkeel::bench::{BenchObserver, Percentiles};
use evenkeel::clock;
use evenkeel_core::registry::DurabilityClass;
use serde::Serialize;

use super::load::BenchLoad;
use crate::local_time::local;
use crate::output::{self, TableRow};

/// What was measured where, and the result.
#[derive(Debug, Serialize)]
pub(crate) struct BenchReport {
    measure: &'static str,
    engine: &'static str,
    class: &'static str,
    /// How many processors the machine has.
    processors: usize,
    /// When it was measured, in UTC.
    at: String,
    version: &'static str,
    nodes: u32,
    jobs: u32,
    spreads: Vec<SpreadRow>,
    figures: Vec<FigureRow>,
}

/// Values that were measured many times.
#[derive(Debug, Serialize)]
pub(super) struct SpreadRow {
    what: &'static str,
    unit: &'static str,
    count: u64,
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
    /// How many fires never started, where each was due.
    lost: Option<u64>,
    /// How many fires started more than once.
    doubled: Option<u64>,
    /// The processor time of all processes of Evenkeel, in seconds.
    processor: Option<f64>,
}

/// A single figure.
#[derive(Debug, Serialize)]
pub(super) struct FigureRow {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

impl BenchReport {
    /// An empty report of what is measured now.
    pub(super) fn new(measure: &'static str, observer: &BenchObserver, load: &BenchLoad) -> Self {
        let facts = observer.facts();
        let class = match facts.class {
            DurabilityClass::A => "A",
            DurabilityClass::B => "B",
            DurabilityClass::C => "C",
        };
        Self {
            measure,
            engine: facts.engine,
            class,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            at: clock::now().wall.to_string(),
            version: env!("CARGO_PKG_VERSION"),
            nodes: load.nodes,
            jobs: load.jobs,
            spreads: Vec::new(),
            figures: Vec::new(),
        }
    }

    /// Adds values in milliseconds.
    pub(super) fn spread(&mut self, what: &'static str, of: &Percentiles) -> &mut SpreadRow {
        let Percentiles { count, .. } = *of;
        let [p50, p90, p99, max] = [of.p50, of.p90, of.p99, of.max].map(rounded);
        let row = SpreadRow {
            what,
            unit: "ms",
            count,
            p50,
            p90,
            p99,
            max,
            lost: None,
            doubled: None,
            processor: None,
        };
        self.spreads.push(row);
        let at = self.spreads.len() - 1;
        &mut self.spreads[at]
    }

    /// Adds a figure.
    pub(super) fn figure(&mut self, name: &'static str, value: f64, unit: &'static str) {
        self.figures.push(FigureRow { name, value: rounded(value), unit });
    }

    /// The report for people.
    pub(crate) fn text(&self) -> String {
        let counted = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let head = format!(
            "{} on {} (class {}): {}, {}; {} processors, {}, evenkeel {}",
            self.measure,
            self.engine,
            self.class,
            counted(self.nodes, "node"),
            counted(self.jobs, "job"),
            self.processors,
            local(Some(&self.at)),
            self.version
        );
        let spreads = (!self.spreads.is_empty()).then(|| output::table(&self.spreads));
        let figures = (!self.figures.is_empty()).then(|| output::table(&self.figures));
        [Some(head), spreads, figures].into_iter().flatten().collect::<Vec<_>>().join("\n\n")
    }
}

impl SpreadRow {
    /// Adds how many fires are missing, and how many came twice.
    pub(super) fn fires(&mut self, lost: Option<u64>, doubled: u64) -> &mut Self {
        self.lost = lost;
        self.doubled = Some(doubled);
        self
    }

    /// Adds the processor time, in seconds.
    pub(super) fn processor(&mut self, seconds: f64) {
        self.processor = Some(rounded(seconds));
    }
}

impl TableRow for SpreadRow {
    const HEADS: &'static [&'static str] =
        &["measured", "count", "p50 ms", "p90 ms", "p99 ms", "max ms", "lost", "doubled", "processor"];
    fn cells(&self) -> Vec<String> {
        let whole = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let mut cells = vec![self.what.to_owned(), self.count.to_string()];
        cells.extend([self.p50, self.p90, self.p99, self.max].map(shown));
        cells.extend([whole(self.lost), whole(self.doubled)]);
        cells.push(self.processor.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2} s")));
        cells
    }
}

impl TableRow for FigureRow {
    const HEADS: &'static [&'static str] = &["figure", "value"];
    fn cells(&self) -> Vec<String> {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        vec![self.name.replace('_', " "), format!("{}{unit}", shown(self.value))]
    }
}

/// To a thousandth: the rest is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// With as many digits as say something.
fn shown(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn figures_have_as_many_digits_as_say_something() {
        let all = [5.0, 0.0, 1.526, 12.345, 123.4, 50_000.0].map(shown);
        assert_eq!(all, ["5", "0", "1.53", "12.3", "123", "50000"]);
    }
}
