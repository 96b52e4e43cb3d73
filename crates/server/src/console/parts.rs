//! What many sections show.

use maud::{Markup, html};

/// A state as a coloured word.
pub(super) fn chip(state: &str) -> Markup {
    html! { span.chip data-state=(state) { (state.replace('_', " ")) } }
}

/// A moment for readers without scripts; the script replaces it by one in the reader's own time zone.
pub(super) fn time(moment: Option<&str>) -> Markup {
    html! {
        @match moment {
            None => { "–" }
            Some(moment) => time datetime=(moment) { (moment.get(..19).unwrap_or(moment).replace('T', " ")) " UTC" },
        }
    }
}
