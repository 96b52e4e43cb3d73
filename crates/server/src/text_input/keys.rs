//! The table of every key that users write, and the values that it takes.

use super::error::{nearest, unseen};
use super::input_error::TextFormat;
use super::value_kind::ValueKind;
use ValueKind::{
    CatchUp, CodesAndRanges, Flag, Number, OneOf, Overlap, Parameters, Program, SomeOf, Span, Table, Text,
    TextOrTexts, TextTable, Texts, Whole, WholeOrNull, Wholes,
};

/// The largest number that programs of every language read exactly.
const WHOLE_MAX: u64 = 9_007_199_254_740_991;

/// The outcomes of a job of which people are notified.
const OCCASIONS: &[&str] = &["failure", "recovery", "miss", "late", "absent", "lost"];

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
            (Self::Jobs, ["calendars", rest @ ..]) => [&["calendar"], rest].concat().join("."),
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

/// The values that each key takes, by its address: below `job`, `calendar`, `namespace` or `settings`. Messages have the
/// words, and the JSON Schemas have both.
pub(super) const KEYS: &[(&str, ValueKind, &str)] = &[
    (
        "job.name",
        Text,
        "1 to 128 of A-Z a-z 0-9 . _ -, as name = \"backup\", or with its namespace, as \"team-a/backup\"",
    ),
    ("job.namespace", Text, "the name of a namespace, as \"team-a\""),
    ("job.schedule", TextOrTexts, "a schedule, as \"0 5 * * *\" or \"@every 90s\", or a list of schedules"),
    ("job.timezone", Text, "the name of a time zone, as \"Europe/Berlin\""),
    ("job.dst", OneOf(&["skip", "shift", "once", "twice"]), "\"skip\", \"shift\", \"once\" or \"twice\""),
    ("job.start_at", Text, "a moment, as \"2026-03-01T00:00:00\""),
    ("job.end_at", Text, "a moment, as \"2026-12-31T23:59:59\""),
    ("job.jitter", Span, "a span with its unit, as \"5m\""),
    ("job.exclude_calendars", Texts, "a list of calendars, as [\"de-holidays\"]"),
    ("job.require_calendars", Texts, "a list of calendars, as [\"office\"]"),
    (
        "job.placement",
        OneOf(&["claimed", "sharded", "broadcast", "dispatched"]),
        "\"claimed\", \"sharded\", \"broadcast\" or \"dispatched\"",
    ),
    ("job.node_selector", Texts, "a list of conditions, as [\"gpu\", \"zone=eu\", \"!spot\"]"),
    ("job.priority", Whole(0, 9), "a number from 0, which starts last, to 9"),
    ("job.pool", Table, "a pool, as { name = \"db\", limit = 3 }"),
    ("job.pool.name", Text, "the name of a pool, as \"db\""),
    ("job.pool.limit", Whole(1, 500), "a number from 1 to 500"),
    ("job.shards", Whole(1, 100_000), "a number from 1 to 100000"),
    ("job.shard_parameters", TextOrTexts, "a list of texts, or a text as \"0=north,1=south\""),
    ("job.parameter", Text, "a text"),
    (
        "job.parameters",
        Parameters,
        "a table of parameters, as { day = { type = \"date\" } }; a text for each shard is in shard_parameters",
    ),
    ("job.strategy", OneOf(&["average", "odd_even", "rotate"]), "\"average\", \"odd_even\" or \"rotate\""),
    ("job.order", OneOf(&["ascending", "descending"]), "\"ascending\" or \"descending\""),
    ("job.sticky_shards", Flag, "true or false"),
    ("job.one_per_host", Flag, "true or false"),
    ("job.monitor_execution", Flag, "true or false"),
    ("job.max_clock_skew", Span, "a span, as \"2s\""),
    ("job.reshard_timeout", Span, "a span, as \"10s\""),
    ("job.delivery", OneOf(&["at_most_once", "at_least_once"]), "\"at_most_once\" or \"at_least_once\""),
    ("job.min_durability", OneOf(&["A", "B", "C"]), "\"A\", \"B\" or \"C\""),
    (
        "job.command",
        Program,
        "the program and its arguments as a list, as [\"/bin/date\", \"-u\"], or a text with shell = true",
    ),
    ("job.shell", Flag, "true or false"),
    ("job.directory", Text, "the whole path of a folder, as \"/srv/reports\""),
    ("job.environment", TextTable, "a table of texts, as { LANG = \"de_DE.UTF-8\" }"),
    ("job.inherit", Texts, "a list of variables' names, as [\"SSH_AUTH_SOCK\"]"),
    (
        "job.secrets",
        TextTable,
        "a table of variables and secrets' names, as { DB_PASSWORD = \"db-password\" }",
    ),
    (
        "job.secret_files",
        TextTable,
        "a table of variables and secrets' names, as { DB_PASSWORD_FILE = \"db-password\" }",
    ),
    ("job.stdin", Text, "a text"),
    ("job.user", Text, "the name of a user, as \"www-data\""),
    ("job.limits", Table, "a table, as { cpu = \"10m\", memory = \"512M\" }"),
    ("job.limits.cpu", Span, "a span with its unit, as \"10m\""),
    ("job.limits.memory", Text, "a size with its unit, as \"512M\""),
    ("job.limits.files", Whole(8, WHOLE_MAX), "a number, 8 or more"),
    ("job.limits.processes", Whole(1, WHOLE_MAX), "a number, 1 or more"),
    ("job.limits.together", Table, "a table, as { memory = \"512M\", cores = 1.5, processes = 50 }"),
    ("job.limits.together.memory", Text, "a size with its unit, as \"512M\""),
    ("job.limits.together.cores", Number, "a number of cores, as 1.5"),
    ("job.limits.together.processes", Whole(1, WHOLE_MAX), "a number, 1 or more"),
    ("job.function", Text, "the name of a function of the embedding program"),
    ("job.dataflow", Table, "a table, as { fetch = 50, threads = 4, streaming = true }"),
    ("job.dataflow.interval", Span, "a span, as \"5m\""),
    ("job.dataflow.threads", Whole(1, 1_024), "a number from 1 to 1024"),
    ("job.dataflow.fetch", Whole(1, 1_000_000), "a number from 1 to 1000000"),
    ("job.dataflow.streaming", Flag, "true or false"),
    ("job.http", Table, "a request, as { url = \"https://shop.example/hook\" }"),
    ("job.http.url", Text, "an address, as \"https://shop.example/hook\""),
    (
        "job.http.method",
        OneOf(&["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        "\"GET\", \"HEAD\", \"POST\", \"PUT\", \"PATCH\", \"DELETE\" or \"OPTIONS\"",
    ),
    ("job.http.headers", TextTable, "a table of texts, as { Content-Type = \"application/json\" }"),
    ("job.http.body", Text, "a text"),
    ("job.http.success", CodesAndRanges, "a list of codes, as [\"200-299\", 404]"),
    ("job.http.redirects", Whole(0, 10), "a number from 0 to 10"),
    ("job.http.ca", Text, "the whole path of a file of certificates, as \"/etc/ssl/own-ca.pem\""),
    ("job.http.verify", Flag, "true or false"),
    ("job.timeout", Span, "a span, as \"90s\" or \"1h30m\""),
    ("job.run_timeout", Span, "a span, as \"90s\" or \"1h30m\""),
    ("job.pause_after_failures", Whole(1, 1_000), "a number from 1 to 1000"),
    ("job.retry", Table, "a table, as { max_retries = 3, delay = \"10s\" }"),
    ("job.retry.max_retries", Whole(1, 100), "a number from 1 to 100"),
    ("job.retry.delay", Span, "a span with its unit, as \"10s\""),
    ("job.retry.max_delay", Span, "a span with its unit, as \"5m\""),
    ("job.retry.exit_codes", Wholes(0, 255), "a list of exit codes, as [75, 111]"),
    ("job.misfire_grace", Span, "a span, as \"90s\""),
    ("job.catch_up", CatchUp, "\"skip\", \"latest\" or { all = 10 }"),
    ("job.catch_up_window", Span, "a span with its unit, as \"6h\""),
    ("job.catch_up_spread", Span, "a span with its unit, as \"10m\""),
    ("job.overlap", Overlap, "\"forbid\", \"skip\", \"replace\", \"allow\", { queue = 2 } or { limit = 4 }"),
    ("job.notify", Table, "a table, as { on = [\"failure\"], to = [\"oncall\"] }"),
    (
        "job.notify.on",
        SomeOf(OCCASIONS),
        "a list of \"failure\", \"recovery\", \"miss\", \"late\", \"absent\" and \"lost\"",
    ),
    ("job.notify.to", Texts, "a list of notifiers' names, as [\"oncall\"]"),
    ("job.notify.late_after", Span, "a span with its unit, as \"10m\""),
    ("job.notify.absent_after", Span, "a span with its unit, as \"3h\""),
    ("job.notify.heartbeat", Text, "an address, as \"https://monitor.example/ping/nightly\""),
    ("job.shadow", Flag, "true or false"),
    ("job.enabled", Flag, "true or false"),
    ("job.labels", TextTable, "a table of texts, as { team = \"billing\" }"),
    ("job.description", Text, "a text"),
    (
        "calendar.name",
        Text,
        "1 to 128 of A-Z a-z 0-9 . _ -, as name = \"de-holidays\", or with its namespace, as \"team-a/freeze\"",
    ),
    ("calendar.namespace", Text, "the name of a namespace, as \"team-a\""),
    ("namespace.name", Text, "1 to 63 of A-Z a-z 0-9 . _ -, as the address has it"),
    ("namespace.description", Text, "a text"),
    ("namespace.jobs_max", WholeOrNull(1, WHOLE_MAX), "a number, 1 or more, or null"),
    ("namespace.runs_max", WholeOrNull(1, 500), "a number, 1 to 500, or null"),
    ("calendar.days", Texts, "a list of days, as [\"12-25\", \"2026-12-24..2027-01-01\"]"),
    ("calendar.weekdays", Texts, "a list of weekdays, as [\"sat\", \"mon-fri\"]"),
    ("calendar.windows", Texts, "a list of hours, as [\"mon-fri 09:00..17:00\"]"),
    ("calendar.description", Text, "a text"),
    ("settings.registry", Text, "an address, as \"sqlite:/var/lib/evenkeel/registry.db\""),
    ("settings.name", Text, "the node's name, as \"n1\""),
    ("settings.port", Whole(0, 65_535), "a number from 0 to 65535"),
    ("settings.data", Text, "the path of a folder, as \"/var/lib/evenkeel\""),
    ("settings.listen", Text, "an address of this host, as \"0.0.0.0\""),
    ("settings.advertise", Text, "an address with a port, as \"10.0.0.7:7700\""),
    ("settings.allowed_host", Texts, "a list of host names, as [\"jobs.example.org\"]"),
    ("settings.trusted_proxy", Texts, "a list of networks, as [\"10.0.0.0/8\"]"),
    ("settings.allowed_origin", Texts, "a list of origins, as [\"https://tools.example.org\"]"),
    ("settings.socket", Text, "the path of a socket, as \"/run/evenkeel/node.sock\""),
    ("settings.oidc_issuer", Text, "an address, as \"https://id.example.org\""),
    ("settings.oidc_client_id", Text, "the name of this cluster at the provider, as \"evenkeel\""),
    ("settings.oidc_client_secret_file", Text, "the path of a file, as \"/etc/evenkeel/oidc-secret\""),
    ("settings.oidc_scopes", Text, "words, as \"openid profile email\""),
    ("settings.oidc_user_claim", Text, "the name of a claim, as \"sub\""),
    ("settings.oidc_groups_claim", Text, "the name of a claim, as \"groups\""),
    ("settings.oidc_label", Text, "a text"),
    ("settings.oidc_redirect_url", Text, "an address, as \"https://jobs.example.org/login/oidc/callback\""),
    ("settings.oidc_ca_file", Text, "the path of a file, as \"/etc/evenkeel/oidc-ca.pem\""),
    ("settings.oidc_session", Span, "a span with its unit, as \"12h\""),
    ("settings.proxy_user_header", Text, "the name of a header, as \"X-Forwarded-User\""),
    ("settings.proxy_groups_header", Text, "the name of a header, as \"X-Forwarded-Groups\""),
    (
        "settings.group_role",
        Texts,
        "a list of roles, as [\"platform=admin\", \"team-a-devs=author:team-a\", \"billing=operator:team-a:team=billing\"]",
    ),
    ("settings.cluster_key_file", Text, "the path of a file, as \"/etc/evenkeel/key\""),
    ("settings.identity", Text, "the path of a file, as \"/etc/evenkeel/identity.json\""),
    ("settings.join", Text, "a token, or the path of a file with one, as \"/etc/evenkeel/join\""),
    ("settings.tls", OneOf(&["auto", "on", "off"]), "\"auto\", \"on\" or \"off\""),
    ("settings.tls_cert", Text, "the path of a file, as \"/etc/evenkeel/cert.pem\""),
    ("settings.tls_key", Text, "the path of a file, as \"/etc/evenkeel/key.pem\""),
    ("settings.ttl", Span, "a span with its unit, as \"15s\""),
    ("settings.wait_for_name", Span, "a span with its unit, as \"2m\""),
    ("settings.tolerance", Whole(1, WHOLE_MAX), "a number, 1 or more"),
    ("settings.quota", OneOf(&["now", "larger"]), "\"now\" or \"larger\""),
    ("settings.alarm", Whole(1, WHOLE_MAX), "a number, 1 or more"),
    ("settings.slots", Whole(1, WHOLE_MAX), "a number, 1 or more"),
    ("settings.label", Texts, "a list of labels, as [\"gpu\", \"zone=eu\"]"),
    ("settings.history", Text, "an address, as \"sqlite:/var/lib/evenkeel/history.db\""),
    ("settings.output_max", Whole(0, WHOLE_MAX), "a number of bytes"),
    ("settings.output_rate", Whole(0, WHOLE_MAX), "a number of bytes"),
    ("settings.audit_keep", Span, "a span with its unit, as \"400d\""),
    ("settings.summary_keep", Span, "a span with its unit, as \"400d\""),
    ("settings.http_allow", Texts, "a list of networks, as [\"10.0.0.0/8\"]"),
    ("settings.secrets", Text, "the path of a folder, as \"/etc/evenkeel/secrets\""),
    ("settings.cgroups", OneOf(&["auto", "off"]), "\"auto\" or \"off\""),
    ("settings.watchdog", OneOf(&["on", "off"]), "\"on\" or \"off\""),
    ("settings.command_users", Texts, "a list of users, as [\"www-data\"], or [\"own\"] or [\"any\"]"),
    ("settings.command_umask", Text, "octal digits, as \"077\""),
    ("settings.no_new_privileges", OneOf(&["on", "off"]), "\"on\" or \"off\""),
    ("settings.log_format", OneOf(&["text", "json"]), "\"text\" or \"json\""),
    ("settings.otlp_endpoint", Text, "an address, as \"http://localhost:4318\""),
    ("settings.notify.name", Text, "the name that jobs give it, as \"oncall\""),
    ("settings.notify.on", Texts, "a list of events, as [\"alarm\", \"node.offline\"]"),
    ("settings.notify.webhook", Text, "an address, as \"https://chat.example/hook\""),
    (
        "settings.notify.shape",
        OneOf(&["json", "slack", "teams", "dingtalk", "lark", "wecom", "pagerduty", "opsgenie"]),
        "\"json\", \"slack\", \"teams\", \"dingtalk\", \"lark\", \"wecom\", \"pagerduty\" or \"opsgenie\"",
    ),
    ("settings.notify.secret_file", Text, "the path of a file, as \"/etc/evenkeel/pagerduty\""),
    ("settings.notify.secret_env", Text, "the name of a variable, as \"EVENKEEL_PAGERDUTY\""),
    ("settings.notify.command", Texts, "a program and its arguments as a list, as [\"/usr/local/bin/page\"]"),
    (
        "settings.notify.email",
        Table,
        "a table, as { to = [\"ops@example.org\"], from = …, server = \"smtps://HOST\" }",
    ),
    ("settings.notify.email.to", Texts, "a list of addresses, as [\"ops@example.org\"]"),
    ("settings.notify.email.from", Text, "an address, as \"evenkeel@example.org\""),
    ("settings.notify.email.server", Text, "a mail server, as \"smtps://mail.example.org\""),
    ("settings.notify.email.user", Text, "a text"),
    ("settings.notify.email.password_file", Text, "the path of a file, as \"/etc/evenkeel/mail-password\""),
    ("settings.notify.email.password_env", Text, "the name of a variable, as \"MAIL_PASSWORD\""),
    ("settings.notify.window", Span, "a span with its unit, as \"5m\""),
    ("settings.notify.timeout", Span, "a span with its unit, as \"10s\""),
    ("settings.heartbeat", Table, "a table, as { url = \"https://hc-ping.com/…\", every = \"60s\" }"),
    ("settings.heartbeat.url", Text, "an address, as \"https://hc-ping.com/…\""),
    ("settings.heartbeat.every", Span, "a span with its unit, as \"60s\""),
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
        _ => KEYS
            .iter()
            .find(|(known, ..)| *known == address)
            .map_or_else(|| takes_inside(address), |(_, _, takes)| takes),
    }
}

/// The values that an entry of a table takes whose names users choose; empty where there is none.
fn takes_inside(address: &str) -> &'static str {
    let Some((holder, last)) = address.rsplit_once('.') else { return "" };
    match (kind(holder), last) {
        (Some(TextTable), _) => "a text",
        (Some(Parameters), _) => "a table, as { type = \"date\" }",
        (None, last) if holder.starts_with("job.parameters.") => match last {
            "type" => "\"string\", \"integer\", \"boolean\" or \"date\"",
            "default" => "a text, a number, or true or false",
            "allowed" => "a list of values, as [\"eu\", \"us\"]",
            "description" => "a text",
            _ => "",
        },
        _ => "",
    }
}

/// The kind of value that the value at this address takes, if the table has it.
pub(super) fn kind(address: &str) -> Option<ValueKind> {
    KEYS.iter().find(|(known, ..)| *known == address).map(|(_, kind, _)| *kind)
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
    let begin = format!("unknown key {key:?}{holder}{}", unseen(key));
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
    let elsewhere = KEYS.iter().map(|(known, ..)| *known).find(|known| {
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
