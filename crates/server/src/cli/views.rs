//! How an answer is shown: the columns of its table, the form of its times, and whether it is shown again and again.
//! Every verb that only shows something takes these flags.

use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan, TimeSpanError};

use crate::local_time::{self, TimeFormat};
use crate::output;

/// The verbs that show a table.
const TABLES: [&str; 23] = [
    "job list",
    "job history",
    "calendar list",
    "namespace list",
    "namespace show",
    "shard list",
    "run list",
    "run running",
    "run show",
    "node list",
    "node least-loaded",
    "node load",
    "node balance",
    "explain job",
    "explain run",
    "report",
    "event list",
    "audit",
    "cluster doctor",
    "user list",
    "user show",
    "secret list",
    "token list",
];
/// The verbs that show something else that changes.
const TEXTS: [&str; 4] = ["job show", "job next", "calendar show", "cluster status"];
/// The limits of the time between two looks.
const WATCH_LIMITS: SpanLimits = SpanLimits::new(Millis::secs(1), Millis::secs(24 * 3_600));

/// The columns of a table.
#[derive(Debug, Default, Args)]
struct ColumnArgs {
    /// Only these columns of the table, in this order, such as name,next; -o wide shows all there are
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
}

/// The names of all these arguments, for the reference.
pub(super) const VIEW_ARGS: [&str; 3] = ["columns", "time", "watch"];

/// How an answer is shown.
#[derive(Debug, Default, Args)]
pub(super) struct ViewArgs {
    /// How times are shown to people; in tables on a terminal relative, otherwise in the time zone of this host
    #[arg(long, value_enum, value_name = "FORMAT")]
    time: Option<TimeFormat>,
    /// Show the answer again and again until Ctrl-C, every 2s, or as often as given: --watch=10s; elsewhere than on a terminal only when it has changed
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = interval)]
    watch: Option<TimeSpan>,
}

fn interval(text: &str) -> Result<TimeSpan, TimeSpanError> {
    TimeSpan::parse("span", text, WATCH_LIMITS)
}

impl ViewArgs {
    /// Reads the flags of a verb, and sets the columns and the form of times of this process.
    ///
    /// # Errors
    /// None that clap has not found before.
    pub(super) fn of(verb: &ArgMatches) -> Result<Self, clap::Error> {
        // A verb that shows nothing does not have these flags.
        if verb.try_contains_id("columns").is_ok() {
            output::choose_columns(ColumnArgs::from_arg_matches(verb)?.columns);
        }
        if verb.try_contains_id("watch").is_err() {
            return Ok(Self::default());
        }
        let view = Self::from_arg_matches(verb)?;
        view.time.into_iter().for_each(local_time::choose);
        Ok(view)
    }

    /// The time between two looks; none if one look is enough.
    pub(super) fn watch(&self) -> Option<Duration> {
        self.watch.map(Duration::from)
    }
}

/// The command line, in which every verb that shows something takes these flags.
pub(super) fn with_view_args(root: Command) -> Command {
    each_verb(root, "", &|path, verb| match (TABLES.contains(&path), TEXTS.contains(&path)) {
        (true, _) => with_args::<ViewArgs>(with_args::<ColumnArgs>(verb)),
        (_, true) => with_args::<ViewArgs>(verb),
        _ => verb,
    })
}

/// The command with a change to each command below it, which is named by its words.
pub(super) fn each_verb(command: Command, path: &str, change: &impl Fn(&str, Command) -> Command) -> Command {
    command.mut_subcommands(|verb| {
        let path = format!("{path} {}", verb.get_name()).trim_start().to_owned();
        change(&path, each_verb(verb, &path, change))
    })
}

/// The command with further arguments, and with its own description.
pub(super) fn with_args<A: Args>(command: Command) -> Command {
    let about = command.get_about().cloned();
    A::augment_args(command).about(about.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::{Cli, command};

    fn verb<'a>(root: &'a Command, path: &str) -> Option<&'a Command> {
        path.split(' ').try_fold(root, |at, word| at.find_subcommand(word))
    }

    #[test]
    fn the_flags_are_added_to_verbs_that_there_are() {
        let (before, after) = (Cli::command(), command());
        for path in TABLES.iter().chain(&TEXTS) {
            assert!(verb(&before, path).is_some(), "{path}");
            let verb = verb(&after, path).expect("it is still there");
            assert!(verb.get_arguments().any(|arg| arg.get_id() == "watch"), "{path}");
        }
        let about = |root: &Command| {
            let verbs =
                root.get_subcommands().flat_map(|noun| std::iter::once(noun).chain(noun.get_subcommands()));
            verbs.map(|verb| (verb.get_name().to_owned(), verb.get_about().cloned())).collect::<Vec<_>>()
        };
        assert_eq!(about(&before), about(&after), "their order and descriptions stay");
        after.debug_assert();
    }
}
