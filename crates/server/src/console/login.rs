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
                    code { "evenkeel console" } " on the node's host prints a link that logs you in. Or type the cluster's key: the first line of its "
                    code { "--cluster-key-file" } "."
                }
                @if !notice.is_empty() { p.bad role="alert" { (notice) } }
                input #key name="key" type="password" autocomplete="off" aria-label="cluster key" required autofocus;
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
