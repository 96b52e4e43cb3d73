//! The commands `evenkeel event …`.

use super::values;
use clap::{Args, Subcommand};
use evenkeel_core::effect::{event_kinds, find_event_kind};

use super::namespace_args::NamespaceArgs;
use crate::client::ConnectArgs;
use crate::exit::CliError;
use crate::{output, text_input};
use evenkeel_client::requests::EventListQuery;
use evenkeel_client::types::EventRow;

/// What can be done with events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// List the events of nodes, the latest first; with -n only those about jobs of that namespace
    List(EventListArgs),
}

/// `event list`.
#[derive(Debug, Args)]
pub(crate) struct EventListArgs {
    /// Only events that this node reported
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only events of this kind: joined, lease_lost, alarm, drained and others, as the list shows them
    #[arg(long, value_parser = kind)]
    kind: Option<String>,
    /// Only after this time: how long ago, such as 10m or 2d, or a moment such as 2026-03-01T22:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = super::values::when)]
    since: Option<String>,
    /// The maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    within: NamespaceArgs,
    #[command(flatten)]
    reach: ConnectArgs,
}

/// The kind of an event, with dots or underscores.
pub(crate) fn kind(text: &str) -> Result<String, String> {
    if let Some(known) = find_event_kind(text) {
        return Ok(known.name.to_owned());
    }
    let all: Vec<&str> = event_kinds().map(|kind| kind.name).collect();
    text_input::one_of("kind of event", text, &all).map(ToOwned::to_owned)
}

/// Runs the command.
///
/// # Errors
/// The request failed.
pub(crate) fn run(verb: EventCommand) -> Result<(), CliError> {
    let EventCommand::List(list) = verb;
    let client = list.reach.client()?;
    let mut events: Vec<EventRow> = Vec::new();
    let limit = list.limit as usize;
    let mut query = EventListQuery {
        node: list.node.clone(),
        kind: list.kind.clone(),
        namespace: list.within.get().cloned(),
        since: list.since.clone(),
        ..EventListQuery::default()
    };
    while events.len() < limit {
        query.limit = Some(values::page_limit(limit - events.len()));
        let page = client.list_events(&query)?;
        output::missing(&page.missing);
        page.warnings.iter().for_each(|text| output::print_message(text));
        events.extend(page.events);
        query.before = page.before;
        if query.before.is_none() {
            break;
        }
    }
    output::list(list.reach.output, &events, "nothing of the kind has happened")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_a_row_for_each_kind_of_event_and_for_no_other() {
        let page = include_str!("../../../../docs/concepts/events.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let kinds: Vec<&str> =
            rows.flat_map(|row| row.split("`, `")).map(|kind| kind.trim_matches('`')).collect();
        let sorted = |mut kinds: Vec<&'static str>| {
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(sorted(kinds.clone()), sorted(event_kinds().map(|kind| kind.name).collect()));
        for known in kinds {
            assert_eq!(kind(known).as_deref(), Ok(known));
            assert_eq!(kind(&known.replace('.', "_")).as_deref(), Ok(known));
        }
        let said = kind("nofity_failed").unwrap_err();
        assert!(said.contains("did you mean \"notify_failed\"?"), "{said}");
    }
}
