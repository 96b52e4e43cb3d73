//! `[[notify]]` of the settings file: which notifier gets which events.

use std::path::PathBuf;

use evenkeel::{Email, Notifier, NotifyChannel, SecretSource, Webhook, WebhookShape};
use evenkeel_core::ids::NotifierName;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use serde::Deserialize;

use crate::exit::CliError;

/// One `[[notify]]` as written. The address of a webhook may be a secret, so it is not shown.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifierConfig {
    /// The name by which jobs use it.
    name: Option<NotifierName>,
    /// The events; required without a name.
    on: Option<Vec<String>>,
    webhook: Option<String>,
    /// The service that the webhook is of.
    shape: Option<WebhookShape>,
    secret_file: Option<PathBuf>,
    secret_env: Option<String>,
    command: Option<Vec<String>>,
    email: Option<EmailConfig>,
    window: Option<String>,
    timeout: Option<String>,
}

/// `email = { … }` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailConfig {
    to: Vec<String>,
    from: String,
    server: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
}

impl EmailConfig {
    fn resolve(self) -> Result<Email, String> {
        let password = secret_source(self.password_file, self.password_env)
            .ok_or("email: say either password_file or password_env")?;
        let login = match (self.user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            (Some(_), None) => return Err("email: user needs password_file or password_env".to_owned()),
            (None, Some(_)) => return Err("email: a password needs a user".to_owned()),
        };
        Email::new(self.to, self.from, &self.server, login)
    }
}

/// Where a secret is read from, if anywhere; `None` where both places are named.
fn secret_source(file: Option<PathBuf>, variable: Option<String>) -> Option<Option<SecretSource>> {
    match (file, variable) {
        (Some(_), Some(_)) => None,
        (Some(path), None) => Some(Some(SecretSource::File(path))),
        (None, Some(name)) => Some(Some(SecretSource::Variable(name))),
        (None, None) => Some(None),
    }
}

/// Warns at the start of the node of faults that would otherwise appear only with the first notification.
fn warn_of_absent(notifier: &NotifierConfig) {
    let program = notifier.command.as_ref().and_then(|argv| argv.first());
    let program = program.filter(|program| program.starts_with('/')).map(PathBuf::from);
    let password = notifier.email.as_ref().and_then(|email| email.password_file.as_ref());
    let named = [
        ("command", program.as_ref()),
        ("email.password_file", password),
        ("secret_file", notifier.secret_file.as_ref()),
    ];
    for (key, path) in named {
        if let Some(path) = path.filter(|path| !path.exists()) {
            tracing::warn!("[[notify]]: {key} {} is not on this host: it notifies no one", path.display());
        }
    }
}

impl NotifierConfig {
    /// Resolves the settings of a notifier.
    pub(super) fn resolve(self) -> Result<Notifier, CliError> {
        let wrong = |what: String| CliError::usage(format!("[[notify]]: {what}"));
        warn_of_absent(&self);
        let secret = secret_source(self.secret_file, self.secret_env)
            .ok_or_else(|| wrong("say either secret_file or secret_env".to_owned()))?;
        let has_webhook_keys = self.shape.is_some() || secret.is_some();
        let shape = self.shape.unwrap_or_default();
        let means = match (self.webhook, self.command, self.email) {
            (url, None, None) if url.is_some() || has_webhook_keys => {
                NotifyChannel::Webhook(Box::new(Webhook::new(url, shape, secret).map_err(wrong)?))
            }
            (None, Some(_), None) | (None, None, Some(_)) if has_webhook_keys => {
                return Err(wrong(
                    "shape, secret_file and secret_env are for a webhook: leave them out".to_owned(),
                ));
            }
            (None, Some(argv), None) => NotifyChannel::Command(argv),
            (None, None, Some(email)) => NotifyChannel::Email(Box::new(email.resolve().map_err(wrong)?)),
            _ => {
                return Err(wrong(
                    "say either webhook = \"http://…\", command = [\"/path/to/program\"] or email = { to = […], … }".to_owned(),
                ));
            }
        };
        let on = self.on.unwrap_or_default();
        let notifier = match self.name {
            Some(name) => Notifier::named(name, on, means),
            None => Notifier::new(on, means),
        };
        let mut notifier = notifier.map_err(wrong)?;
        for (key, text, limits, field) in [
            ("window", self.window, SpanLimits::ANY, &mut notifier.window),
            ("timeout", self.timeout, SpanLimits::ANY.at_least(Millis(1)), &mut notifier.timeout),
        ] {
            let Some(text) = text else { continue };
            *field = TimeSpan::parse(key, &text, limits).map_err(|e| wrong(e.to_string()))?.into();
        }
        Ok(notifier)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel::WebhookShape;

    use super::super::SettingsArgs;

    fn written(text: &str) -> Result<SettingsArgs, toml::de::Error> {
        toml::from_str(text)
    }

    fn resolve_text(notify: &str) -> Result<Vec<evenkeel::Notifier>, String> {
        let least = "registry = \"sqlite:/r\"\nname = \"a\"\ndata = \"/d\"\n";
        let text = format!("{least}[[notify]]\n{notify}");
        let meant = written(&text).map_err(|e| e.to_string())?.resolve().map_err(|e| e.to_string())?;
        Ok(meant.node.notify)
    }

    #[test]
    fn notifiers_are_read_and_nonsense_is_refused_with_the_fix() {
        let two = "on = [\"lease.lost\"]\nwebhook = \"http://h:1/x\"\nwindow = \"1h\"\n\n\
                   [[notify]]\non = [\"*\"]\ncommand = [\"/bin/mail\"]\ntimeout = \"3s\"\n";
        let notifiers = resolve_text(two).expect("it makes sense");
        let spans: Vec<_> = notifiers.iter().map(|n| (n.window.as_secs(), n.timeout.as_secs())).collect();
        assert_eq!(spans, [(3600, 10), (300, 3)]);
        for (text, says) in [
            ("on = [\"*\"]", "say either webhook"),
            (
                "on = [\"*\"]\nemail = { to = [\"a@b.c\"], from = \"a@b.c\", server = \"mail\" }",
                "write smtps://HOST",
            ),
            (
                "name = \"x\"\nemail = { to = [\"a\"], from = \"a@b.c\", server = \"smtp://h\" }",
                "\"a\" is no address",
            ),
            (
                "name = \"x\"\nemail = { to = [\"a@b.c\"], from = \"a@b.c\", server = \"smtp://h\", user = \"u\" }",
                "user needs password_file",
            ),
            (
                "name = \"x\"\nemail = { to = [\"a@b.c\"], from = \"a@b.c\", server = \"smtp://u:p@h\" }",
                "instead of writing them in server",
            ),
            ("name = \"x y\"\nwebhook = \"http://h/\"", "notifier name"),
            ("on = [\"*\"]\nwebhook = \"http://h/\"\ncommand = [\"x\"]", "say either webhook"),
            ("webhook = \"http://h/\"", "say on = [\"alarm\", …]"),
            ("on = [\"nothing\"]\nwebhook = \"http://h/\"", "no event is called \"nothing\""),
            ("on = [\"*\"]\nwebhook = \"http://h/\"\nurl = 1", "unknown field `url`"),
            (
                "on = [\"*\"]\nwebhook = \"http://h/\"\nwindow = \"5\"",
                "window `5`: write numbers with a unit",
            ),
            (
                "on = [\"*\"]\nwebhook = \"http://h/\"\ntimeout = \"0s\"",
                "timeout `0s`: the span must be at least 1ms",
            ),
        ] {
            let refused = resolve_text(text).expect_err("it is nonsense");
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }

    /// A file that is on every host, so that no warning is logged.
    const SECRET: &str = "secret_file = \"/dev/null\"\n";

    #[test]
    fn shapes_of_services_are_read_and_bad_ones_are_refused_with_the_fix() {
        for shape in WebhookShape::ALL {
            let secret = if shape.keeps_incidents() { SECRET } else { "" };
            let url = "http://h/v2/alerts";
            let text = format!("on = [\"*\"]\nwebhook = \"{url}\"\nshape = \"{}\"\n{secret}", shape.as_str());
            assert_eq!(resolve_text(&text).expect(&text).len(), 1);
        }
        for (text, says) in [
            ("shape = \"slack\"", "shape \"slack\" needs webhook = \"https://…\""),
            ("secret_env = \"X\"", "shape \"json\" needs webhook"),
            ("webhook = \"http://h/\"\nsecret_env = \"X\"", "shape \"json\" takes no secret"),
            ("webhook = \"http://h/\"\nshape = \"teams\"\nsecret_env = \"X\"", "takes no secret: leave out"),
            ("shape = \"pagerduty\"", "needs the integration key: write secret_file"),
            (
                "webhook = \"http://h/v2/alerts\"\nshape = \"opsgenie\"",
                "needs the API key: write secret_file",
            ),
            (
                "webhook = \"http://h/\"\nshape = \"lark\"\nsecret_env = \"X\"\nsecret_file = \"/s\"",
                "say either secret_file or secret_env",
            ),
            ("command = [\"/bin/true\"]\nshape = \"slack\"", "are for a webhook: leave them out"),
            ("command = [\"/bin/true\"]\nsecret_env = \"X\"", "are for a webhook: leave them out"),
            (
                "email = { to = [\"a@b.c\"], from = \"a@b.c\", server = \"smtp://h\" }\nshape = \"slack\"",
                "are for a webhook: leave them out",
            ),
            ("webhook = \"http://h/\"\nshape = \"slak\"", "unknown variant `slak`"),
        ] {
            let refused = resolve_text(&format!("on = [\"*\"]\n{text}")).expect_err("it is nonsense");
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }

    /// The blocks of TOML of the page on notifiers, with the word of the shape in each.
    #[test]
    fn every_example_of_the_page_is_read_and_each_shape_has_one() {
        let page = include_str!("../../../../docs/concepts/notify.md");
        let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
        let mut shapes = BTreeSet::new();
        for block in blocks {
            let text = format!("registry = \"sqlite:/r\"\nname = \"a\"\ndata = \"/d\"\n{block}");
            let read = written(&text).expect(block);
            assert!(!read.notify.is_empty() || read.heartbeat.is_some(), "{block}");
            shapes.extend(read.notify.iter().filter_map(|notifier| Some(notifier.shape?.as_str())));
            read.resolve().expect(block);
        }
        let all = WebhookShape::ALL.map(WebhookShape::as_str);
        assert_eq!(shapes, all.into_iter().filter(|shape| *shape != "json").collect());
    }
}
