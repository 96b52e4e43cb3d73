//! The command `evenkeel bench`.

use std::time::Duration;

use clap::{Args, Subcommand};
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};

use crate::bench::{self, BenchLoad, BenchMeasure};
use crate::exit::CliError;
use crate::output::{self, OutputFormat};

/// How long something can be measured.
const SPAN_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(3_600));

/// How many starts a measurement can record, and how many a second there can be.
const STARTS_MAX: u64 = 20_000_000;
const STARTS_A_SECOND_MAX: u32 = 50_000;

/// `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The same as of the verb.
    #[arg(long, global = true, hide = true, value_name = "URL")]
    registry: Option<String>,
    #[command(subcommand)]
    verb: BenchCommand,
}

/// Where it is measured, and how the result is printed.
#[derive(Debug, Args)]
struct BenchPlace {
    /// The registry's engine, as for `serve`; a namespace of its own is made there, and for SQLite a folder beside the file. By default a file in a temporary folder
    #[arg(long, value_name = "URL")]
    registry: Option<String>,
    /// The format of the answer
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: OutputFormat,
}

/// `bench …`
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// How late functions start that are due on every second
    Lateness {
        /// How many nodes, all in this process
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
        nodes: u32,
        /// How many jobs
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        jobs: u32,
        /// How long, in whole seconds
        #[arg(long = "for", value_name = "TIME", default_value = "20s", value_parser = span)]
        span: Duration,
        #[command(flatten)]
        place: BenchPlace,
    },
    /// How long functions take to start that are due in the same second
    Burst {
        /// How many nodes, all in this process
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
        nodes: u32,
        /// How many jobs
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        #[command(flatten)]
        place: BenchPlace,
    },
    /// How many functions start a second when more are due than can be started
    Throughput {
        /// How many nodes, all in this process
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
        nodes: u32,
        /// How many jobs are due on every second
        #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
        jobs: u32,
        /// How long, in whole seconds
        #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = span)]
        span: Duration,
        #[command(flatten)]
        place: BenchPlace,
    },
    /// How long after the death of a node's process its jobs start elsewhere; the nodes are processes with default settings
    Takeover {
        /// How many nodes
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=20))]
        nodes: u32,
        /// How many jobs, each due on every second
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        jobs: u32,
        /// How often a node is killed
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        rounds: u32,
        #[command(flatten)]
        place: BenchPlace,
    },
    /// How late a command starts that is due on every second, and how many commands start a second
    Commands {
        /// How long each of the two, in whole seconds
        #[arg(long = "for", value_name = "TIME", default_value = "20s", value_parser = span)]
        span: Duration,
        #[command(flatten)]
        place: BenchPlace,
    },
    /// What nodes cost whose jobs are not due: processor time, memory and writes
    Idle {
        /// How many nodes, all in this process
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=200))]
        nodes: u32,
        /// How many jobs
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        jobs: u32,
        /// How long, in whole seconds
        #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = span)]
        span: Duration,
        #[command(flatten)]
        place: BenchPlace,
    },
}

/// Runs the command.
///
/// # Errors
/// It could not be measured, or something is left behind.
pub(crate) fn run(args: &BenchArgs) -> Result<(), CliError> {
    let _repeats = crate::logging::start("error", crate::logging::LogFormat::Text)?;
    let load =
        |nodes: &u32, jobs: &u32, span: &Duration| BenchLoad { nodes: *nodes, jobs: *jobs, span: *span };
    let (measure, place) = match &args.verb {
        BenchCommand::Lateness { nodes, jobs, span, place } => {
            check_starts(*jobs, *span)?;
            (BenchMeasure::Lateness(load(nodes, jobs, span)), place)
        }
        BenchCommand::Burst { nodes, jobs, place } => {
            (BenchMeasure::Burst(load(nodes, jobs, &Duration::ZERO)), place)
        }
        BenchCommand::Throughput { nodes, jobs, span, place } => {
            check_starts((*jobs).min(STARTS_A_SECOND_MAX), *span)?;
            (BenchMeasure::Throughput(load(nodes, jobs, span)), place)
        }
        BenchCommand::Takeover { nodes, jobs, rounds, place } => {
            (BenchMeasure::Takeover { load: load(nodes, jobs, &Duration::ZERO), rounds: *rounds }, place)
        }
        BenchCommand::Commands { span, place } => (BenchMeasure::Commands(load(&1, &1, span)), place),
        BenchCommand::Idle { nodes, jobs, span, place } => {
            (BenchMeasure::Idle(load(nodes, jobs, span)), place)
        }
    };
    let registry = place.registry.as_ref().or(args.registry.as_ref());
    bench::run(registry.map(String::as_str), measure, |report| match place.output.is_text() {
        true => output::line(&report.text()),
        false => output::value(place.output, report),
    })
}

/// Refuses what would not fit into the memory for the record.
fn check_starts(a_second: u32, span: Duration) -> Result<(), CliError> {
    match u64::from(a_second) * span.as_secs() > STARTS_MAX {
        false => Ok(()),
        true => Err(CliError::usage(format!(
            "so many --jobs for so long would be more than {STARTS_MAX} starts: give fewer --jobs or a shorter --for"
        ))),
    }
}

/// Parses how long something is measured: whole seconds, since jobs are due on each.
fn span(text: &str) -> Result<Duration, String> {
    let span: Duration =
        TimeSpan::parse("--for", text, SPAN_LIMITS).map(Duration::from).map_err(|e| e.to_string())?;
    match span.subsec_nanos() {
        0 => Ok(span),
        _ => Err("write whole seconds, such as 20s".to_owned()),
    }
}
