//! The console's section of node events.

use maud::{Markup, html};

use super::parts::{chip, time};
use evenkeel_client::types::EventRow;

/// The latest events.
pub(super) fn section(events: &[EventRow]) -> Markup {
    html! {
        section #events {
            h2 { "Latest events" }
            p #no-events.empty hidden[!events.is_empty()] { "Nothing has happened yet." }
            div.scroll tabindex="0" role="region" aria-label="Latest events" { table hidden[events.is_empty()] {
                thead { tr { th { "When" } th { "Node" } th { "Kind" } th { "What" } } }
                tbody #event-rows { @for event in events { (row(event)) } }
            } }
        }
    }
}

fn row(event: &EventRow) -> Markup {
    html! {
        tr {
            td { (time(Some(&event.at))) }
            td.name { (event.node) }
            td { (chip(&event.kind)) }
            td.words { (event.text) }
        }
    }
}
