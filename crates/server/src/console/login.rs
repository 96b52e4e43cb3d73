//! The pages of the login. They need no script.

use axum::response::Html;
use maud::{Markup, html};

use super::frame;

/// The login form.
#[derive(Clone, Copy, Default)]
pub(crate) struct LoginPage<'a> {
    /// What is wrong with the last try.
    pub(crate) notice: &'a str,
    /// What the login provider is called, if there is one.
    pub(crate) provider: Option<&'a str>,
    /// Whether the browser has a session, which it can end.
    pub(crate) has_session: bool,
}

impl LoginPage<'_> {
    /// The page.
    pub(crate) fn html(self) -> Html<String> {
        let form = html! {
            main {
                form #login action="login" method="post" {
                    h2 { "Log in" }
                    @if let Some(provider) = self.provider {
                        p { a.provider href="login/oidc" { "Log in with " (provider) } }
                    }
                    p {
                        code { "evenkeel console" } " on the node's host prints a link that logs you in. Or type your name and password, or the cluster's key alone."
                    }
                    (alert(self.notice))
                    input #name name="name" autocomplete="username" placeholder="user (empty for the key)" aria-label="user";
                    input #key name="key" type="password" autocomplete="current-password" placeholder="password or key" aria-label="password or key" required
                        autofocus;
                    button { "Log in" }
                }
                @if self.has_session { (log_out()) }
            }
        };
        Html(frame("", &html! {}, &html! { (form) }).into_string())
    }
}

/// Says why a login by the provider came to nothing. The page is below the login's own, `up` leads to the console.
pub(crate) fn provider_failed_page(up: &str, notice: &str) -> Html<String> {
    let body = html! {
        main {
            section #login {
                h2 { "Log in" }
                (alert(notice))
                p { a href={ (up) "login/oidc" } { "Try again" } " · " a href={ (up) "login" } { "Log in another way" } }
            }
        }
    };
    Html(frame(up, &html! {}, &body).into_string())
}

/// Asks whether the browser is to be logged in by a link that another page may have opened, or as somebody else than it
/// is now.
pub(crate) fn confirm_page(code: &str, of: &str, instead_of: Option<&str>) -> Html<String> {
    let body = html! {
        main {
            form #login action="login" method="post" {
                h2 { "Log in" }
                p { "This link logs you in as " strong { (of) } "." }
                @if let Some(present) = instead_of {
                    p.bad role="alert" { "You are logged in as " strong { (present) } ", and that session would end." }
                }
                p { "Go on only if you asked for the link yourself." }
                input type="hidden" name="code" value=(code);
                button { "Log in" }
            }
            p { a href="./" { "Stay as you are" } }
        }
    };
    Html(frame("", &html! {}, &body).into_string())
}

/// Goes on to the console, to which `up` leads.
pub(crate) fn logged_in_page(up: &str, of: &str) -> Html<String> {
    let to = if up.is_empty() { "./" } else { up };
    let head = html! { meta http-equiv="refresh" content={ "0;url=" (to) }; };
    let body = html! { main { p { "You are logged in as " strong { (of) } ": " a href=(to) { "open the console" } "." } } };
    Html(frame(up, &head, &body).into_string())
}

/// The button that logs out.
pub(super) fn log_out() -> Markup {
    html! { form.logout action="logout" method="post" { button { "Log out" } } }
}

fn alert(notice: &str) -> Markup {
    html! { @if !notice.is_empty() { p.bad role="alert" { (notice) } } }
}
