//! `evenkeel job backfill`: runs for the fires of a span of the past.

use super::values;
use clap::Args;
use evenkeel_core::ids::counted;

use super::namespace_args::NamespaceArgs;
use super::parameter_arg::ParameterArg;
use super::response::print_response;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::output;
use crate::{local_time, request};
use evenkeel_client::requests::BackfillBody;
use evenkeel_client::types::BackfillAnswer;

/// How many moments are listed at each end of a long list.
const SHOWN: usize = 10;

/// `job backfill`.
#[derive(Debug, Args)]
pub(crate) struct BackfillArgs {
    /// The job's name
    name: String,
    /// The first moment of the span: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", required_unless_present = "cancel", value_parser = values::when)]
    from: Option<String>,
    /// The first moment after the span, written likewise; now by default
    #[arg(long, value_name = "WHEN", value_parser = values::when)]
    to: Option<String>,
    /// Only list the moments that runs would be made for
    #[arg(long)]
    dry_run: bool,
    /// How many of its runs may execute at once; never more than the job's overlap allows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: u32,
    /// The value of a parameter that the job declares, for all runs; may be repeated. One that is left out has its default
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<ParameterArg>,
    /// An id for the backfill: a repeated request with the same id has no further effect, and shows how far it is
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// End the backfill of this id: no further run begins, and those that execute go on
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "dry_run", "max_parallel", "param", "request"])]
    cancel: Option<String>,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// Requests, shows or cancels a backfill.
///
/// # Errors
/// No node answers, or the request is refused.
pub(crate) fn run(args: BackfillArgs) -> Result<(), CliError> {
    let BackfillArgs { name, from, to, dry_run, max_parallel, param, request, cancel, within, reach } = args;
    let name = within.job(&name);
    let client = reach.client()?;
    if let Some(id) = cancel {
        let found = client.cancel_backfill(&name, &id)?;
        let sentence = match found.cancelled {
            Some(_) => format!(
                "backfill {id} is cancelled: {} of {} began, and no other will",
                found.claimed, found.count
            ),
            None => format!("backfill {id} is over: it has begun all of its runs, {}", found.count),
        };
        return print_response(&reach, &found, &sentence);
    }
    let request = request.map_or_else(request::fresh, Ok)?;
    let request = Some(values::parsed("--request", &request)?);
    let parameters = ParameterArg::parameters(&param)?;
    let from = from.unwrap_or_default();
    let body = BackfillBody { from, to, max_parallel, dry_run, request, parameters };
    let found = client.backfill_job(&name, &body)?;
    output::warn(&found.warnings);
    print_response(&reach, &found, &sentence(&name, &found))
}

fn sentence(job: &str, found: &BackfillAnswer) -> String {
    let runs = counted(found.count, "run");
    let Some(id) = &found.id else {
        return format!(
            "{}\n{runs} would be made, at most {} at once",
            list(&found.fires),
            found.max_parallel
        );
    };
    let first = found.first_run.as_deref().unwrap_or_default();
    match found.claimed {
        0 => format!(
            "backfill {id}: {runs}, at most {} at once; the first is {first}\n\
             see them with `evenkeel run list --job {job}`, end it with `evenkeel job backfill {job} --cancel {id}`",
            found.max_parallel
        ),
        claimed => format!("backfill {id}: {claimed} of {runs} began"),
    }
}

/// The moments, each in a line; of many the first and the last.
fn list(fires: &[String]) -> String {
    let line = |fire: &String| local_time::local(Some(fire));
    let mut lines: Vec<String> = fires.iter().map(line).collect();
    if lines.len() > 2 * SHOWN + 1 {
        let gone = lines.len() - 2 * SHOWN;
        lines.splice(SHOWN..SHOWN + gone, [format!("… {gone} more")]);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_moments_the_first_and_the_last_are_listed() {
        let fires: Vec<String> = (0..40).map(|n| format!("2026-01-01T00:00:{n:02}.000Z")).collect();
        let listed = list(&fires);
        assert_eq!(listed.lines().count(), 21);
        assert!(listed.contains("… 20 more"), "{listed}");
        assert_eq!(list(&fires[..21]).lines().count(), 21);
    }
}
