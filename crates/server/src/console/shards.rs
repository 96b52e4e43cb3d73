//! The console's section of one sharded job: its leader, its nodes, and the state of each shard.

use maud::{Markup, html};

use super::parts::{chip, time};
use evenkeel_client::types::{AssignmentRow, ShardActivity, ShardPage, ShardRangeRow, ShardingRow};

/// The section of the chosen job; hidden if none is chosen.
pub(super) fn section(page: Option<&ShardPage<ShardRangeRow>>) -> Markup {
    let name = page.map(|page| page.job.as_str()).unwrap_or_default();
    html! {
        section #job data-job=(name) hidden[page.is_none()] {
            h2 {
                span #job-name tabindex="-1" { (name) }
                " " small #job-line { @if let Some(page) = page { (page.sharing.line(page.total)) } }
                a.close href="plain" { "Close" }
            }
            p #job-mark.empty hidden[page.is_none_or(|page| page.sharing.reshard_pending.is_none())] {
                @if let Some(page) = page { (reshard_pending(&page.sharing)) }
            }
            div.scroll tabindex="0" role="region" aria-label="Nodes of the job" { table {
                thead { tr {
                    th { "Node" } th { "State" } th { "Shards" }
                } }
                tbody #share-rows { @for node in page.iter().flat_map(|page| &page.sharing.nodes) { (assignment_row(node)) } }
            } }
            div.scroll tabindex="0" role="region" aria-label="Shards of the job" { table {
                thead { tr {
                    th { "Shards" } th { "Node" } th { "State" } th { "Fire" } th.number { "Attempt" } th { "Parameter" }
                    th { "Last began" }
                } }
                tbody #shard-rows { @for row in page.iter().flat_map(|page| &page.shards) { (shard_row(row)) } }
            } }
        }
    }
}

fn reshard_pending(sharing: &ShardingRow) -> Markup {
    html! {
        @if let Some(mark) = &sharing.reshard_pending {
            "To be resharded before the next fire: " (mark.reason()) ", since " (time(Some(&mark.since)))
        }
    }
}

fn assignment_row(node: &AssignmentRow) -> Markup {
    html! {
        tr {
            td.name { (node.node) }
            td { (chip(&node.state)) }
            td.words { (if node.shards.is_empty() { "–" } else { &node.shards }) }
        }
    }
}

fn shard_row(row: &ShardRangeRow) -> Markup {
    let ShardActivity { node, state, fire, due, attempt, failed_over, parameter, began } = &row.doing;
    let by_hand = fire.as_deref().filter(|fire| fire.starts_with("ask-"));
    html! {
        tr {
            td.name { (row.shards) }
            td { (node.as_deref().unwrap_or("–")) }
            td { (chip(state)) @if *failed_over { " " small { "failed over" } } }
            td { @if let Some(fire) = by_hand { (fire) } @else { (time(due.as_deref())) } }
            td.number { @if let Some(attempt) = attempt { (attempt) } @else { "–" } }
            td.words { (if parameter.is_empty() { "–" } else { parameter }) }
            td { (time(began.as_deref())) }
        }
    }
}
