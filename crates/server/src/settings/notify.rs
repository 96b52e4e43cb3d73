//! `[[notify]]` of the settings file: which notifier gets which events.

use std::path::PathBuf;

use evenkeel::{Email, Notifier, NotifyChannel, Password};
use evenkeel_core::ids::NotifierName;
use evenkeel_core::time::{Millis, SpanLimits, TimeSpan};
use serde::Deserialize;

use crate::exit::CliError;

/// One `[[notify]]` as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifierConfig {
    /// The name by which jobs use it.
    name: Option<NotifierName>,
    /// The events; required without a name.
    on: Option<Vec<String>>,
    webhook: Option<String>,
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
        let password = match (self.password_file, self.password_env) {
            (Some(path), None) => Some(Password::File(path)),
            (None, Some(name)) => Some(Password::Variable(name)),
            (None, None) => None,
            (Some(_), Some(_)) => return Err("email: say either password_file or password_env".to_owned()),
        };
        let login = match (self.user, password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            (Some(_), None) => return Err("email: user needs password_file or password_env".to_owned()),
            (None, Some(_)) => return Err("email: a password needs a user".to_owned()),
        };
        Email::new(self.to, self.from, &self.server, login)
    }
}

/// Warns at the start of the node of faults that would otherwise appear only with the first notification.
fn warn_of_absent(command: Option<&String>, password: Option<&PathBuf>) {
    let program = command.filter(|program| program.starts_with('/')).map(PathBuf::from);
    let named = [("command", program.as_ref()), ("email.password_file", password)];
    for (key, path) in named {
        if let Some(path) = path.filter(|path| !path.exists()) {
            tracing::warn!("[[notify]]: {key} {} is not on this host: nobody is told by it", path.display());
        }
    }
}

impl NotifierConfig {
    /// Resolves the settings of a notifier.
    pub(super) fn resolve(self) -> Result<Notifier, CliError> {
        let wrong = |what: String| CliError::usage(format!("[[notify]]: {what}"));
        let password = self.email.as_ref().and_then(|email| email.password_file.as_ref());
        warn_of_absent(self.command.as_ref().and_then(|argv| argv.first()), password);
        let means = match (self.webhook, self.command, self.email) {
            (Some(url), None, None) => NotifyChannel::Webhook(url),
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
}
