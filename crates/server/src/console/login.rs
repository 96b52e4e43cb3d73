//! The pages of the login. They need no script.

use axum::response::Html;
use maud::{Markup, html};

use super::frame;

/// The login form, with what is wrong with the last try.
pub(crate) fn login_page(notice: &str) -> Html<String> {
    let form = html! {
        main {
            form #login action="login" method="post" {
                h2 { "Log in" }
                p {
                    code { "evenkeel console" } " on the node's host prints a link that logs you in. Or type your name and password, or the cluster's key alone."
                }
                @if !notice.is_empty() { p.bad role="alert" { (notice) } }
                input #name name="name" autocomplete="username" placeholder="user (empty for the key)" aria-label="user";
                input #key name="key" type="password" autocomplete="current-password" placeholder="password or key" aria-label="password or key" required
                    autofocus;
                button { "Log in" }
            }
        }
    };
    Html(frame(&html! {}, &html! { (form) }).into_string())
}

/// Goes on to the console.
pub(crate) fn logged_in_page() -> Html<String> {
    let head = html! { meta http-equiv="refresh" content="0;url=./"; };
    let body = html! { main { p { "You are logged in: " a href="./" { "open the console" } "." } } };
    Html(frame(&head, &body).into_string())
}

/// The button that logs out.
pub(super) fn log_out() -> Markup {
    html! { form.logout action="logout" method="post" { button { "Log out" } } }
}
