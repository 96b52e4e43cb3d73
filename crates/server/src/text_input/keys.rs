//! The table of every key that users write, and the values that it takes.

use super::TextFormat;
use super::error::nearest;

/// The kind of text that is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTarget {
    /// A job file: jobs and calendars.
    JobFile,
    /// The settings of a node.
    Settings,
    /// The body of a request that declares jobs.
    Jobs,
    /// The body of a request that declares one job.
    Job,
    /// The body of a request that declares a calendar.
    Calendar,
    /// The body of a request that declares a namespace.
    Namespace,
    /// Any other body.
    Body,
}

impl ReadTarget {
    /// The address of a value in the table below.
    pub(super) fn address(self, names: &[&str]) -> String {
        match (self, names) {
            (Self::Jobs, ["jobs", rest @ ..]) => [&["job"], rest].concat().join("."),
            (Self::Job, names) => [&["job"], names].concat().join("."),
            (Self::Calendar, names) => [&["calendar"], names].concat().join("."),
            (Self::Namespace, names) => [&["namespace"], names].concat().join("."),
            (Self::Settings, names) => [&["settings"], names].concat().join("."),
            (_, names) => names.join("."),
        }
    }

    /// A name of the whole text.
    pub(super) fn whole(self) -> &'static str {
        match self {
            Self::JobFile => "a job file",
            Self::Settings => "a settings file",
            Self::Jobs => "the body",
            Self::Job => "a job",
            Self::Calendar => "a calendar",
            Self::Namespace => "a namespace",
            Self::Body => "the body",
        }
    }

    /// What the whole text consists of.
    fn takes(self, language: TextFormat) -> &'static str {
        match (self, language) {
            (Self::JobFile, TextFormat::Toml) => "[[job]] and [[calendar]]",
            (Self::JobFile, TextFormat::Yaml | TextFormat::Json) => "a table with the keys job and calendar",
            (Self::Settings, _) => "keys and values, as name = \"n1\"",
            (Self::Jobs, _) => "an object, as {\"jobs\": [{\"name\": …}]}",
            (Self::Job, _) => "an object, as {\"name\": …, \"command\": […]}",
            (Self::Calendar, _) => "an object, as {\"name\": …, \"days\": […]}",
            (Self::Namespace, _) => "an object, as {\"description\": …, \"jobs_max\": 100, \"runs_max\": 20}",
            (Self::Body, _) => "an object",
        }
    }
}

/// The values that each key takes, by its address: below `job`, `calendar` or `settings`.
const KEYS: &[(&str, &str)] = &[
    (
        "job.name",
        "1 to 128 of A-Z a-z 0-9 . _ -, as name = \"backup\", or with its namespace, as \"team-a/backup\"",
    ),
    ("job.namespace", "the name of a namespace, as \"team-a\""),
    ("job.schedule", "a schedule, as \"0 5 * * *\" or \"@every 90s\", or a list of schedules"),
    ("job.timezone", "the name of a time zone, as \"Europe/Berlin\""),
    ("job.dst", "\"skip\", \"shift\", \"once\" or \"twice\""),
    ("job.start_at", "a moment, as \"2026-03-01T00:00:00\""),
    ("job.end_at", "a moment, as \"2026-12-31T23:59:59\""),
    ("job.jitter", "a span with its unit, as \"5m\""),
    ("job.exclude_calendars", "a list of calendars, as [\"de-holidays\"]"),
    ("job.require_calendars", "a list of calendars, as [\"office\"]"),
    ("job.placement", "\"claimed\", \"sharded\", \"broadcast\" or \"dispatched\""),
    ("job.node_selector", "a list of conditions, as [\"gpu\", \"zone=eu\", \"!spot\"]"),
    ("job.priority", "a number from 0, which starts last, to 9"),
    ("job.pool", "a pool, as { name = \"db\", limit = 3 }"),
    ("job.pool.name", "the name of a pool, as \"db\""),
    ("job.pool.limit", "a number from 1 to 500"),
    ("job.shards", "a number from 1 to 100000"),
    ("job.shard_parameters", "a list of texts, or a text as \"0=north,1=south\""),
    ("job.parameter", "a text"),
    ("job.strategy", "\"average\", \"odd_even\" or \"rotate\""),
    ("job.order", "\"ascending\" or \"descending\""),
    ("job.sticky_shards", "true or false"),
    ("job.one_per_host", "true or false"),
    ("job.monitor_execution", "true or false"),
    ("job.max_clock_skew", "a span, as \"2s\""),
    ("job.reshard_timeout", "a span, as \"10s\""),
    ("job.delivery", "\"at_most_once\" or \"at_least_once\""),
    ("job.min_durability", "\"A\", \"B\" or \"C\""),
    (
        "job.command",
        "the program and its arguments as a list, as [\"/bin/date\", \"-u\"], or a text with shell = true",
    ),
    ("job.shell", "true or false"),
    ("job.directory", "the whole path of a folder, as \"/srv/reports\""),
    ("job.environment", "a table of texts, as { LANG = \"de_DE.UTF-8\" }"),
    ("job.inherit", "a list of variables' names, as [\"SSH_AUTH_SOCK\"]"),
    ("job.secrets", "a table of variables and secrets' names, as { DB_PASSWORD = \"db-password\" }"),
    (
        "job.secret_files",
        "a table of variables and secrets' names, as { DB_PASSWORD_FILE = \"db-password\" }",
    ),
    ("job.stdin", "a text"),
    ("job.user", "the name of a user, as \"www-data\""),
    ("job.limits", "a table, as { cpu = \"10m\", memory = \"512M\" }"),
    ("job.limits.cpu", "a span with its unit, as \"10m\""),
    ("job.limits.memory", "a size with its unit, as \"512M\""),
    ("job.limits.files", "a number, 8 or more"),
    ("job.limits.processes", "a number, 1 or more"),
    ("job.limits.together", "a table, as { memory = \"512M\", cores = 1.5, processes = 50 }"),
    ("job.limits.together.memory", "a size with its unit, as \"512M\""),
    ("job.limits.together.cores", "a number of cores, as 1.5"),
    ("job.limits.together.processes", "a number, 1 or more"),
    ("job.function", "the name of a function of the embedding program"),
    ("job.dataflow", "a table, as { fetch = 50, threads = 4, streaming = true }"),
    ("job.dataflow.interval", "a span, as \"5m\""),
    ("job.dataflow.threads", "a number from 1 to 1024"),
    ("job.dataflow.fetch", "a number from 1 to 1000000"),
    ("job.dataflow.streaming", "true or false"),
    ("job.http", "a request, as { url = \"https://shop.example/hook\" }"),
    ("job.http.url", "an address, as \"https://shop.example/hook\""),
    ("job.http.method", "\"GET\", \"HEAD\", \"POST\", \"PUT\", \"PATCH\", \"DELETE\" or \"OPTIONS\""),
    ("job.http.headers", "a table of texts, as { Content-Type = \"application/json\" }"),
    ("job.http.body", "a text"),
    ("job.http.success", "a list of codes, as [\"200-299\", 404]"),
    ("job.http.redirects", "a number from 0 to 10"),
    ("job.http.ca", "the whole path of a file of certificates, as \"/etc/ssl/own-ca.pem\""),
    ("job.http.verify", "true or false"),
    ("job.timeout", "a span, as \"90s\" or \"1h30m\""),
    ("job.run_timeout", "a span, as \"90s\" or \"1h30m\""),
    ("job.pause_after_failures", "a number from 1 to 1000"),
    ("job.retry", "a table, as { max_retries = 3, delay = \"10s\" }"),
    ("job.retry.max_retries", "a number from 1 to 100"),
    ("job.retry.delay", "a span with its unit, as \"10s\""),
    ("job.retry.max_delay", "a span with its unit, as \"5m\""),
    ("job.retry.exit_codes", "a list of exit codes, as [75, 111]"),
    ("job.misfire_grace", "a span, as \"90s\""),
    ("job.catch_up", "\"skip\", \"latest\" or { all = 10 }"),
    ("job.catch_up_window", "a span with its unit, as \"6h\""),
    ("job.catch_up_spread", "a span with its unit, as \"10m\""),
    ("job.overlap", "\"forbid\", \"skip\", \"replace\", \"allow\", { queue = 2 } or { limit = 4 }"),
    ("job.notify", "a table, as { on = [\"failure\"], to = [\"oncall\"] }"),
    ("job.notify.on", "a list of \"failure\", \"recovery\", \"miss\", \"late\", \"absent\" and \"lost\""),
    ("job.notify.to", "a list of notifiers' names, as [\"oncall\"]"),
    ("job.notify.late_after", "a span with its unit, as \"10m\""),
    ("job.notify.absent_after", "a span with its unit, as \"3h\""),
    ("job.enabled", "true or false"),
    ("job.description", "a text"),
    (
        "calendar.name",
        "1 to 128 of A-Z a-z 0-9 . _ -, as name = \"de-holidays\", or with its namespace, as \"team-a/freeze\"",
    ),
    ("calendar.namespace", "the name of a namespace, as \"team-a\""),
    ("namespace.name", "1 to 63 of A-Z a-z 0-9 . _ -, as the address has it"),
    ("namespace.description", "a text"),
    ("namespace.jobs_max", "a number, 1 or more, or null"),
    ("namespace.runs_max", "a number, 1 to 500, or null"),
    ("calendar.days", "a list of days, as [\"12-25\", \"2026-12-24..2027-01-01\"]"),
    ("calendar.weekdays", "a list of weekdays, as [\"sat\", \"mon-fri\"]"),
    ("calendar.windows", "a list of hours, as [\"mon-fri 09:00..17:00\"]"),
    ("calendar.description", "a text"),
    ("settings.registry", "an address, as \"sqlite:/var/lib/evenkeel/registry.db\""),
    ("settings.name", "the node's name, as \"n1\""),
    ("settings.port", "a number from 0 to 65535"),
    ("settings.data", "the path of a folder, as \"/var/lib/evenkeel\""),
    ("settings.listen", "an address of this host, as \"0.0.0.0\""),
    ("settings.advertise", "an address with a port, as \"10.0.0.7:7700\""),
    ("settings.allowed_host", "a list of host names, as [\"jobs.example.org\"]"),
    ("settings.trusted_proxy", "a list of networks, as [\"10.0.0.0/8\"]"),
    ("settings.allowed_origin", "a list of origins, as [\"https://tools.example.org\"]"),
    ("settings.socket", "the path of a socket, as \"/run/evenkeel/node.sock\""),
    ("settings.oidc_issuer", "an address, as \"https://id.example.org\""),
    ("settings.oidc_client_id", "the name of this cluster at the provider, as \"evenkeel\""),
    ("settings.oidc_client_secret_file", "the path of a file, as \"/etc/evenkeel/oidc-secret\""),
    ("settings.oidc_scopes", "words, as \"openid profile email\""),
    ("settings.oidc_user_claim", "the name of a claim, as \"sub\""),
    ("settings.oidc_groups_claim", "the name of a claim, as \"groups\""),
    ("settings.oidc_label", "a text"),
    ("settings.oidc_redirect_url", "an address, as \"https://jobs.example.org/login/oidc/callback\""),
    ("settings.oidc_ca_file", "the path of a file, as \"/etc/evenkeel/oidc-ca.pem\""),
    ("settings.oidc_session", "a span with its unit, as \"12h\""),
    ("settings.proxy_user_header", "the name of a header, as \"X-Forwarded-User\""),
    ("settings.proxy_groups_header", "the name of a header, as \"X-Forwarded-Groups\""),
    ("settings.group_role", "a list of roles, as [\"platform=admin\", \"team-a-devs=author:team-a\"]"),
    ("settings.cluster_key_file", "the path of a file, as \"/etc/evenkeel/key\""),
    ("settings.identity", "the path of a file, as \"/etc/evenkeel/identity.json\""),
    ("settings.join", "a token, or the path of a file with one, as \"/etc/evenkeel/join\""),
    ("settings.tls", "\"auto\", \"on\" or \"off\""),
    ("settings.tls_cert", "the path of a file, as \"/etc/evenkeel/cert.pem\""),
    ("settings.tls_key", "the path of a file, as \"/etc/evenkeel/key.pem\""),
    ("settings.ttl", "a span with its unit, as \"15s\""),
    ("settings.tolerance", "a number, 1 or more"),
    ("settings.quota", "\"now\" or \"larger\""),
    ("settings.alarm", "a number, 1 or more"),
    ("settings.slots", "a number, 1 or more"),
    ("settings.label", "a list of labels, as [\"gpu\", \"zone=eu\"]"),
    ("settings.history", "an address, as \"sqlite:/var/lib/evenkeel/history.db\""),
    ("settings.output_max", "a number of bytes"),
    ("settings.output_rate", "a number of bytes"),
    ("settings.audit_keep", "a span with its unit, as \"400d\""),
    ("settings.http_allow", "a list of networks, as [\"10.0.0.0/8\"]"),
    ("settings.secrets", "the path of a folder, as \"/etc/evenkeel/secrets\""),
    ("settings.cgroups", "\"auto\" or \"off\""),
    ("settings.watchdog", "\"on\" or \"off\""),
    ("settings.command_users", "a list of users, as [\"www-data\"], or [\"own\"] or [\"any\"]"),
    ("settings.command_umask", "octal digits, as \"077\""),
    ("settings.no_new_privileges", "\"on\" or \"off\""),
    ("settings.notify.name", "the name that jobs give it, as \"oncall\""),
    ("settings.notify.on", "a list of events, as [\"alarm\", \"node.offline\"]"),
    ("settings.notify.webhook", "an address, as \"https://chat.example/hook\""),
    (
        "settings.notify.shape",
        "\"json\", \"slack\", \"teams\", \"dingtalk\", \"lark\", \"wecom\", \"pagerduty\" or \"opsgenie\"",
    ),
    ("settings.notify.secret_file", "the path of a file, as \"/etc/evenkeel/pagerduty\""),
    ("settings.notify.secret_env", "the name of a variable, as \"EVENKEEL_PAGERDUTY\""),
    ("settings.notify.command", "a program and its arguments as a list, as [\"/usr/local/bin/page\"]"),
    (
        "settings.notify.email",
        "a table, as { to = [\"ops@example.org\"], from = …, server = \"smtps://HOST\" }",
    ),
    ("settings.notify.email.to", "a list of addresses, as [\"ops@example.org\"]"),
    ("settings.notify.email.from", "an address, as \"evenkeel@example.org\""),
    ("settings.notify.email.server", "a mail server, as \"smtps://mail.example.org\""),
    ("settings.notify.email.user", "a text"),
    ("settings.notify.email.password_file", "the path of a file, as \"/etc/evenkeel/mail-password\""),
    ("settings.notify.email.password_env", "the name of a variable, as \"MAIL_PASSWORD\""),
    ("settings.notify.window", "a span with its unit, as \"5m\""),
    ("settings.notify.timeout", "a span with its unit, as \"10s\""),
    ("settings.heartbeat", "a table, as { url = \"https://hc-ping.com/…\", every = \"60s\" }"),
    ("settings.heartbeat.url", "an address, as \"https://hc-ping.com/…\""),
    ("settings.heartbeat.every", "a span with its unit, as \"60s\""),
];

/// The values that the value at this address takes; empty if the table does not have it.
pub(super) fn takes((language, kind): (TextFormat, ReadTarget), address: &str) -> &'static str {
    match (language, address) {
        (_, "") => kind.takes(language),
        (TextFormat::Toml, "job") => "a list: write [[job]], with two brackets, above each job",
        (TextFormat::Toml, "calendar") => {
            "a list: write [[calendar]], with two brackets, above each calendar"
        }
        (TextFormat::Toml, "settings.notify") => {
            "a list: write [[notify]], with two brackets, above each notifier"
        }
        (TextFormat::Yaml, "job" | "calendar") => "a list: begin each with a dash, as \"- name: …\"",
        (TextFormat::Json, "job" | "calendar") => "a list, as [{\"name\": …}]",
        _ => KEYS.iter().find(|(known, _)| *known == address).map_or("", |(_, takes)| takes),
    }
}

/// The address below another one.
pub(super) fn joined(address: &str, key: &str) -> String {
    if address.is_empty() { key.to_owned() } else { format!("{address}.{key}") }
}

/// An address as users see it: keys of a job, of a calendar and of the settings stand without a prefix.
pub(super) fn shown(address: &str) -> String {
    let own =
        ["job.", "calendar.", "namespace.", "settings."].iter().find_map(|group| address.strip_prefix(group));
    own.unwrap_or(if address == "settings" { "" } else { address }).to_owned()
}

/// The message about a key that does not exist at this address.
pub(super) fn unknown(read: (TextFormat, ReadTarget), address: &str, key: &str, allowed: &[&str]) -> String {
    let (language, kind) = read;
    let holder = match shown(address).as_str() {
        "" => String::new(),
        holder => format!(" in {holder}"),
    };
    let begin = format!("unknown key {key:?}{holder}");
    if kind == ReadTarget::JobFile && address.is_empty() && ["apiVersion", "kind", "spec"].contains(&key) {
        return format!(
            "{begin}: this is a Kubernetes manifest, import it with `evenkeel import kubernetes FILE`"
        );
    }
    if let Some(meant) = nearest(key, allowed) {
        let takes = takes(read, &joined(address, meant));
        let takes = if takes.is_empty() { String::new() } else { format!(" It takes {takes}") };
        return format!("{begin}: did you mean {meant:?}?{takes}");
    }
    let group = address.split('.').next().unwrap_or_default();
    let begins = format!("{group}.");
    let elsewhere = KEYS.iter().map(|(known, _)| *known).find(|known| {
        let (place, last) = known.rsplit_once('.').unwrap_or(("", known));
        last == key && place != address && (address.is_empty() || known.starts_with(&begins))
    });
    match elsewhere {
        Some(known)
            if kind == ReadTarget::JobFile && address.is_empty() && !known.starts_with("settings.") =>
        {
            let group = known.split('.').next().unwrap_or_default();
            format!("{begin}: it is a key of a {group}, so write {} above it", above(language, group))
        }
        Some(known) if !address.is_empty() => {
            let place = known.rsplit_once('.').map_or("", |(place, _)| place);
            format!("{begin}: it is a key of {}, which takes {}", shown(place), takes(read, place))
        }
        _ if allowed.is_empty() => format!("{begin}: there are no keys here, leave it empty"),
        _ => format!("{begin}: the keys are {}", allowed.join(", ")),
    }
}

fn above(language: TextFormat, group: &str) -> String {
    match language {
        TextFormat::Toml => format!("[[{group}]]"),
        TextFormat::Yaml | TextFormat::Json => format!("the key {group} and a list"),
    }
}

/// Whether the table has a key.
#[cfg(test)]
pub(super) fn is_known(address: &str) -> bool {
    !takes((TextFormat::Toml, ReadTarget::JobFile), address).is_empty()
}
