//! `evenkeel job run`: requests a run, and with `--follow` shows it until its end.

use clap::Args;
use evenkeel_core::input::ApplyResult;

use super::followed_run::FollowedRun;
use super::job_args::JobNodeArgs;
use super::many_jobs::{BulkAction, ChosenJobs, JobChoiceArgs};
use super::parameter_arg::ParameterArg;
use super::response::print_response;
use super::values;
use crate::exit::CliError;
use crate::output;
use crate::{local_time, request};
use evenkeel_client::requests::RunNowBody;
use evenkeel_client::types::RunAnswer;

/// `job run`.
#[derive(Debug, Args)]
pub(crate) struct RunNowArgs {
    #[command(flatten)]
    jobs: JobChoiceArgs,
    /// An id for the request: a repeated request with the same id has no further effect
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// The value of a parameter that the job declares; may be repeated. One that is left out has its default
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<ParameterArg>,
    /// Print the output of the run as it comes, and end with the exit code of its command, or with 1 if the run failed without one. Ctrl-C ends only the command line; the run goes on
    #[arg(short, long)]
    follow: bool,
    /// With --follow, print the output unchanged; otherwise control characters are printed as \x1b and the like
    #[arg(long, requires = "follow")]
    raw: bool,
    #[command(flatten)]
    place: JobNodeArgs,
}

/// Requests a run of a job.
///
/// # Errors
/// The request failed; with `--follow` also, the run did not succeed.
pub(super) fn run(args: RunNowArgs) -> Result<(), CliError> {
    let RunNowArgs { jobs, request, param, follow, raw, place } = args;
    let only_one = [
        ("--request", request.is_some()),
        ("--param", !param.is_empty()),
        ("--follow", follow),
        ("--node", place.node.is_some()),
    ];
    let job = match jobs.choose(&only_one)? {
        ChosenJobs::Many(jobs) => return jobs.each(BulkAction::RUN),
        ChosenJobs::One(job) => job,
    };
    let request = request.map_or_else(request::fresh, Ok)?;
    let body = RunNowBody {
        request: Some(values::parsed("--request", &request)?),
        node: place.node.as_deref().map(|node| values::parsed("--node", node)).transpose()?,
        parameters: ParameterArg::parameters(&param)?,
    };
    let client = job.reach.client()?;
    let answer = client.run_job(&job.name, &body)?;
    output::warn(&answer.warnings);
    let has_shard_to_run = answer.shards.as_deref() != Some("");
    if follow && has_shard_to_run {
        output::print_message(&format!("run {}{}", answer.run, before(&answer)));
        return FollowedRun::new(&client, &answer.run, raw).to_its_end();
    }
    print_response(&job.reach, &answer, &sentence(&answer))
}

/// That the same request was made before, if it was.
fn before(answer: &RunAnswer) -> String {
    match answer.applied {
        ApplyResult::Unchanged => format!(
            "\nthe same request was made before, at {}: no new run was requested",
            local_time::local(Some(&answer.asked))
        ),
        _ => String::new(),
    }
}

fn sentence(answer: &RunAnswer) -> String {
    let run = &answer.run;
    let more = match answer.shards.as_deref() {
        _ if answer.reason.is_some() => {
            format!("no node runs it before that changes: wait for it with `evenkeel run wait {run}`")
        }
        Some("") => {
            "no shard is to run: `evenkeel shard list` shows who has which, and which are off".to_owned()
        }
        Some(shards) => {
            let show = format!("evenkeel run show {run}");
            format!(
                "wait for all its shards with `evenkeel run wait {run}`; shards {shards} run, see them with `{show}`"
            )
        }
        None => format!("wait for it with `evenkeel run wait {run}`"),
    };
    format!("{run}{}\n{more}", before(answer))
}
