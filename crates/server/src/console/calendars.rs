//! The console's section of shared calendars.

use maud::{Markup, html};

use super::parts::time;
use evenkeel_client::types::CalendarRow;

/// A section with the first calendars by name.
pub(super) fn section(calendars: &[CalendarRow]) -> Markup {
    html! {
        section #calendars {
            h2 { "Calendars" }
            p #no-calendars.empty hidden[!calendars.is_empty()] {
                "No calendars yet. Declare one: " code { "evenkeel calendar apply -f calendars.toml" }
            }
            div.scroll tabindex="0" role="region" aria-label="Calendars" { table hidden[calendars.is_empty()] {
                thead { tr { th { "Calendar" } th { "Lines" } th { "Jobs" } th { "Changed" } th { "Description" } } }
                tbody #calendar-rows { @for calendar in calendars { (row(calendar)) } }
            } }
        }
    }
}

fn row(calendar: &CalendarRow) -> Markup {
    html! {
        tr {
            td.name { (calendar.name) }
            td { (calendar.lines) }
            td { (calendar.jobs) }
            td { (time(Some(&calendar.since))) " " small { "version " (calendar.version) } }
            td.words { (calendar.description) }
        }
    }
}
