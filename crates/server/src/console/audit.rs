//! The console's section of the audit log.

use maud::{Markup, html};

use super::parts::{chip, time};
use evenkeel_client::types::AuditRow;

/// The latest entries.
pub(super) fn section(entries: &[AuditRow]) -> Markup {
    html! {
        section #audit {
            h2 { "Latest changes" }
            p #no-audit.empty hidden[!entries.is_empty()] { "Nobody has asked for a change yet." }
            div.scroll tabindex="0" role="region" aria-label="Latest changes" { table hidden[entries.is_empty()] {
                thead { tr { th { "When" } th { "Who" } th { "Asked for" } th { "Outcome" } th { "What" } th { "Node" } } }
                tbody #audit-rows { @for entry in entries { (row(entry)) } }
            } }
        }
    }
}

fn row(entry: &AuditRow) -> Markup {
    html! {
        tr {
            td { (time(Some(&entry.at))) }
            td.words { (entry.actor_text()) }
            td.name { (entry.verb) " " (entry.object) }
            td { (chip(&entry.outcome)) }
            td.words { (entry.change_text()) }
            td { (entry.node) }
        }
    }
}
